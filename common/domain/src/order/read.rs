//! Reads the body of an order. What cannot be read costs its own field alone, and is listed.

use std::collections::HashSet;

use url::Url;

use super::{
    Address, Customer, FinancialStatus, Fulfillment, FulfillmentStatus, ID_CHARS, Line, Order,
    PresentFields, Presentment, Refund, RefundLine, Terms, TermsKind, Tracking, Transaction,
    woocommerce,
};
use crate::json::{self, At, Field, Problem, Reading, Unreadable, fields};
use crate::money::{Currency, Money};
use crate::shape::Member;

impl Order {
    /// Reads the body of a delivery. An error is final, because the same bytes will never be an
    /// order.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let body: Body = json::object(bytes)?;
        if woocommerce::is_marked(body.date_created_gmt, body.date_created, body.created_at) {
            return woocommerce::read(bytes);
        }
        if !body.order_id.is_nothing() {
            // Refunds and fulfilments have an `order_id`, and an order has none. The topic
            // header, which says that this is an order, is not signed.
            return Err(Problem::Foreign).at("order_id");
        }

        let id = required(body.id.id()).at("id")?;
        let mut reading = Reading::default();
        // The provider's reference of the resource has these in every order; what it leaves out at times, such as the
        // customer and the addresses, is not among them.
        reading.values([
            (Member::Currency, body.currency),
            (Member::Total, body.total_price),
            (Member::CreatedAt, body.created_at),
            (Member::UpdatedAt, body.updated_at),
            (Member::Lines, body.line_items),
        ]);
        reading.keys([
            (Member::FinancialStatus, body.financial_status),
            (Member::FulfillmentStatus, body.fulfillment_status),
        ]);
        reading.is_resource = body.admin_graphql_api_id.is_present();
        reading.nullable([
            (Member::CurrentTotal, body.current_total_price),
            (Member::Outstanding, body.total_outstanding),
            (Member::TotalSet, body.total_price_set),
            (Member::CancelledAt, body.cancelled_at),
            (Member::Gateways, body.payment_gateway_names),
            (Member::Shipments, body.fulfillments),
            (Member::Refunds, body.refunds),
        ]);
        let financial_status = text(body.financial_status).map(FinancialStatus::from);
        if matches!(financial_status, Some(FinancialStatus::Other(_))) {
            reading.shape.unknown(Member::FinancialStatus);
        }
        let fulfillment_status = text(body.fulfillment_status).map(FulfillmentStatus::from);
        if matches!(fulfillment_status, Some(FulfillmentStatus::Other(_))) {
            reading.shape.unknown(Member::FulfillmentStatus);
        }
        let currency = reading.or_none(currency(body.currency), "currency");
        let mut amount = |field, name| reading.or_none(money(field, currency), name);
        let total = amount(body.total_price, "total_price");
        let subtotal = amount(body.subtotal_price, "subtotal_price");
        let tax = amount(body.total_tax, "total_tax");
        let current = amount(body.current_total_price, "current_total_price");
        let outstanding = amount(body.total_outstanding, "total_outstanding");
        let created_at = reading.or_none(body.created_at.instant(), "created_at");
        let updated_at = reading.or_none(body.updated_at.instant(), "updated_at");
        let cancelled_at = match body.cancelled_at.instant() {
            Err(_) if body.cancelled_at.boolean() == Ok(Some(false)) => None,
            read => reading.or_none(read, "cancelled_at"),
        };
        let gateways = body.payment_gateway_names.values().unwrap_or_default();
        let gateways: Vec<String> = gateways.into_iter().filter_map(text).collect();
        let lines = lines(body.line_items, &mut reading);
        let refunds = refunds(body.refunds, currency, &mut reading);
        Ok(Self {
            id,
            present_fields: PresentFields {
                name: body.name.is_present(),
                total: body.total_price.is_present() && currency.is_some(),
                financial_status: body.financial_status.is_present(),
                fulfillment_status: body.fulfillment_status.is_present(),
                cancelled_at: body.cancelled_at.is_present(),
                lines: body.line_items.is_present() && lines.is_some(),
                outstanding: body.total_outstanding.is_present() && body.currency.is_present(),
                customer: body.customer.is_present(),
                contact: body.email.is_present() || body.phone.is_present(),
                addresses: body.shipping_address.is_present() || body.billing_address.is_present(),
                refunds: body.refunds.is_present() && refunds.is_some(),
                terms: body.payment_terms.is_present() || body.payment_gateway_names.is_present(),
            },
            name: text(body.name),
            order_number: body.order_number.integer().unwrap_or_default(),
            email: text(body.email),
            phone: text(body.phone),
            customer: customer(body.customer, &mut reading),
            currency,
            total,
            subtotal,
            tax,
            current,
            outstanding,
            cash_rounding: [
                body.total_cash_rounding_payment_adjustment_set,
                body.total_cash_rounding_refund_adjustment_set,
            ]
            .into_iter()
            .filter_map(|set| amounts(set).shop)
            .filter(|rounded| Some(rounded.currency) == currency)
            .fold(0, |sum, rounded| {
                rounded.minor.saturating_abs().saturating_add(sum)
            }),
            other_currency: amounts(body.total_price_set)
                .shop
                .map(|shop| shop.currency)
                .filter(|shop| currency.is_some_and(|currency| currency != *shop)),
            presentment: presentment(
                &amounts(body.total_price_set),
                &amounts(body.current_total_price_set),
            ),
            terms: terms(body.payment_terms, &mut reading).or_else(|| cash_on_delivery(&gateways)),
            own_credit: !gateways.is_empty() && gateways.iter().all(|name| is_credit(name)),
            gateways,
            is_test: body.test.boolean() == Ok(Some(true)),
            financial_status,
            fulfillment_status,
            cancelled_at,
            can_come_back: false,
            cancel_reason: text(body.cancel_reason),
            created_at,
            updated_at,
            lines: lines.unwrap_or_default(),
            shipping_address: address(body.shipping_address),
            billing_address: address(body.billing_address),
            fulfillments: fulfillments(body.fulfillments, &mut reading),
            refunds: refunds.unwrap_or_default(),
            pact_id: pact_id(body.note_attributes),
            unread: reading.unread,
            shape: reading.shape,
        })
    }
}

fields! { Body {
    id,
    /// Orders do not have this key.
    order_id,
    name, order_number, email, phone, customer, currency, total_price, subtotal_price, total_tax,
    current_total_price, total_outstanding, total_price_set, current_total_price_set,
    total_cash_rounding_payment_adjustment_set, total_cash_rounding_refund_adjustment_set,
    payment_terms, payment_gateway_names, financial_status, fulfillment_status, cancelled_at, cancel_reason,
    created_at, updated_at, line_items, shipping_address, billing_address, fulfillments, refunds,
    note_attributes, test,
    /// The resources of Shopify's API have it.
    admin_graphql_api_id,
    /// By these an order of WooCommerce is known.
    date_created_gmt, date_created,
}}

/// An amount in the shop's currency and in that of the buyer.
#[derive(Default)]
struct Amounts {
    shop: Option<Money>,
    presentment: Option<Money>,
}

fn amounts(set: Field) -> Amounts {
    fields! { Set { shop_money, presentment_money } }
    fields! { Amount { amount, currency_code } }

    let read = |field: Field| {
        let amount: Amount = field.object().ok()??;
        money(amount.amount, currency(amount.currency_code).ok()?).ok()?
    };
    let set: Option<Set> = set.object().unwrap_or_default();
    set.map_or_else(Amounts::default, |set| Amounts {
        shop: read(set.shop_money),
        presentment: read(set.presentment_money),
    })
}

fn presentment(total: &Amounts, current: &Amounts) -> Option<Presentment> {
    let (shop, seen) = (total.shop?, total.presentment?);
    (seen.currency != shop.currency && seen.minor > 0).then(|| Presentment {
        currency: seen.currency,
        total: seen.minor,
        current: current.presentment.map(|current| current.minor),
    })
}

/// Terms by which the buyer pays first.
const PAID_FIRST: [&str; 3] = ["receipt", "due_on_receipt", "unknown"];

/// Terms by which the buyer pays later. By any others the buyer pays first.
fn terms(field: Field, reading: &mut Reading) -> Option<Terms> {
    fields! { Fields { payment_terms_type, payment_schedules } }
    fields! { Schedule { due_at } }

    let terms: Fields = field.object().ok()??;
    let schedules: Vec<Schedule> = terms.payment_schedules.list().unwrap_or_default();
    let due = |schedule: &Schedule| schedule.due_at.instant().ok()?;
    let word = text(terms.payment_terms_type)?;
    let Ok(kind) = word.parse() else {
        let is_known = PAID_FIRST.iter().any(|it| word.eq_ignore_ascii_case(it));
        if !is_known {
            reading.shape.unknown(Member::TermsType);
        }
        return None;
    };
    (kind != TermsKind::CashOnDelivery).then(|| Terms {
        kind,
        due_at: schedules.iter().filter_map(due).min(),
        pays_first: false,
    })
}

fn cash_on_delivery(gateways: &[String]) -> Option<Terms> {
    let is_on_delivery = |name: &String| name.to_lowercase().contains("cash on delivery");
    gateways
        .iter()
        .any(is_on_delivery)
        .then_some(Terms::ON_DELIVERY)
}

/// Whether a gateway of this name moves no money but gives and takes the shop's own credit.
fn is_credit(gateway: &str) -> bool {
    let name = gateway.to_lowercase();
    name.contains("gift") || (name.contains("store") && name.contains("credit"))
}

/// Whether money that went back by this gateway went back past every payment provider: as credit
/// of the shop, or by the hand of its people.
pub(super) fn is_past_providers(gateway: &str) -> bool {
    let name = gateway.to_lowercase();
    let by_hand = ["manual", "cash", "bank deposit", "money order"];
    is_credit(gateway) || by_hand.iter().any(|hand| name.contains(hand))
}

const URL_CHARS: usize = 2048;
/// The greatest number of tracking numbers that is taken from one fulfilment, far more than
/// anybody ships at once.
const PARCELS: usize = 250;

/// The attributes are `[{"name": .., "value": ..}]` and are set by the shop's own checkout. In the
/// metadata of WooCommerce the name is the `key`.
pub(super) fn pact_id(field: Field) -> Option<String> {
    fields! { Fields { name, key, value } }

    let attributes = field.list::<Fields>().unwrap_or_default();
    let is_pact_id = |name| text(name).as_deref() == Some("pact_id");
    let mut attributes = attributes.into_iter();
    let agreement = attributes.find(|it| is_pact_id(it.name) || is_pact_id(it.key))?;
    short(agreement.value, ID_CHARS)
}

fn customer(field: Field, reading: &mut Reading) -> Option<Customer> {
    fields! { Fields { id, email, phone, first_name, last_name } }

    let fields = reading.or_none(field.object::<Fields>(), "customer")?;
    let customer = Customer {
        id: reading.or_none(fields.id.id(), "customer.id"),
        email: text(fields.email),
        phone: text(fields.phone),
        first_name: text(fields.first_name),
        last_name: text(fields.last_name),
    };
    (customer != Customer::default()).then_some(customer)
}

/// WooCommerce has other names for some of the fields.
pub(super) fn address(field: Field) -> Option<Address> {
    fields! { Fields {
        first_name, last_name, address1, address2, city, province, country, zip, phone,
        address_1, address_2, state, postcode,
    }}

    let fields = field.object::<Fields>().unwrap_or_default()?;
    let address = Address {
        first_name: text(fields.first_name),
        last_name: text(fields.last_name),
        address1: text(fields.address1).or_else(|| text(fields.address_1)),
        address2: text(fields.address2).or_else(|| text(fields.address_2)),
        city: text(fields.city),
        province: text(fields.province).or_else(|| text(fields.state)),
        country: text(fields.country),
        zip: text(fields.zip).or_else(|| text(fields.postcode)),
        phone: text(fields.phone),
    };
    (address != Address::default()).then_some(address)
}

fn lines(field: Field, reading: &mut Reading) -> Option<Vec<Line>> {
    fields! { Fields {
        id, variant_id, title, quantity, current_quantity, price, sku, fulfillment_status,
        requires_shipping, fulfillment_service,
    }}

    let lines = reading.list::<Fields>(field, "line_items")?;
    let read = |fields: Fields| {
        reading.values([(Member::LineQuantity, fields.quantity)]);
        reading.nullable([
            (Member::LineCurrentQuantity, fields.current_quantity),
            (Member::LineRequiresShipping, fields.requires_shipping),
            (Member::LineService, fields.fulfillment_service),
        ]);
        let current = fields.current_quantity.integer();
        let current = reading.or_none(current, "line_items[].current_quantity");
        Some(Line {
            id: reading.or_none(required(fields.id.id()).map(Some), "line_items[].id")?,
            variant_id: fields.variant_id.id().unwrap_or_default(),
            title: text(fields.title),
            quantity: reading.or_none(quantity(fields.quantity), "line_items[].quantity"),
            current_quantity: current.map(|units| units.max(0)),
            price: fields.price.decimal().unwrap_or_default(),
            sku: short(fields.sku, ID_CHARS),
            fulfillment_status: text(fields.fulfillment_status),
            requires_shipping: fields.requires_shipping.boolean().unwrap_or_default(),
            fulfillment_service: short(fields.fulfillment_service, ID_CHARS),
            service_ships: false,
        })
    };
    let lines = lines.into_iter().filter_map(read).collect();
    Some(reading.unique(lines, |line| line.id, "line_items[].id"))
}

/// The statuses that shopify.dev/docs/api/admin-rest has for a fulfilment.
const SHIPMENT_STATUSES: [&str; 6] = [
    "pending",
    "open",
    "success",
    "cancelled",
    "error",
    "failure",
];

fn fulfillments(field: Field, reading: &mut Reading) -> Vec<Fulfillment> {
    fields! { Fields {
        id, status, shipment_status, tracking_company, tracking_number, tracking_numbers, tracking_url,
        tracking_urls, line_items, updated_at,
    }}

    let fulfillments = reading.list::<Fields>(field, "fulfillments");
    let read = |fields: Fields| {
        reading.values([(Member::ShipmentStatus, fields.status)]);
        reading.nullable([(Member::ShipmentLines, fields.line_items)]);
        let status = text(fields.status);
        let mut words = SHIPMENT_STATUSES.iter();
        if !status.iter().all(|status| words.any(|word| word == status)) {
            reading.shape.unknown(Member::ShipmentStatus);
        }
        let mut tracking = tracking(
            fields.tracking_numbers.values().unwrap_or_default(),
            &fields.tracking_urls.values().unwrap_or_default(),
        );
        if tracking.is_empty() {
            tracking = self::tracking(vec![fields.tracking_number], &[fields.tracking_url]);
        }
        Some(Fulfillment {
            id: reading.or_none(required(fields.id.id()).map(Some), "fulfillments[].id")?,
            status,
            shipment_status: short(fields.shipment_status, ID_CHARS),
            tracking_company: short(fields.tracking_company, ID_CHARS),
            tracking,
            lines: shipped_units(fields.line_items),
            updated_at: fields.updated_at.instant().unwrap_or_default(),
        })
    };
    let fulfillments = fulfillments.into_iter().flatten();
    let fulfillments = fulfillments.filter_map(read).collect();
    reading.unique(fulfillments, |it| it.id, "fulfillments[].id")
}

/// Lines that cannot be read are left out, because no money depends on them.
fn shipped_units(field: Field) -> Vec<(i64, i64)> {
    fields! { Fields { id, quantity } }

    let lines = field.list::<Fields>().unwrap_or_default();
    let units = |line: Fields| Some((line.id.id().ok()??, quantity(line.quantity).ok()??));
    lines.into_iter().filter_map(units).collect()
}

/// A tracking number and its link stand at the same position of their lists.
fn tracking(numbers: Vec<Field>, urls: &[Field]) -> Vec<Tracking> {
    let mut seen = HashSet::new();
    let numbers = numbers.into_iter().enumerate();
    numbers
        .filter_map(|(at, number)| {
            let number = tracking_number(number)?;
            let url = urls.get(at).and_then(|url| short(*url, URL_CHARS));
            let url = url.filter(|url| is_page(url));
            seen.insert(number.clone())
                .then_some(Tracking { number, url })
        })
        .take(PARCELS)
        .collect()
}

/// True for the address of a page. Another one, such as `javascript:`, would run where somebody opens it.
fn is_page(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// A tracking number as one line of text, without control characters: it is part of a link, is
/// printed on a label, and is looked up exactly as printed.
fn tracking_number(field: Field) -> Option<String> {
    let number = text(field)?;
    let line: String = number.chars().filter(|c| !c.is_control()).collect();
    let line = line.trim();
    let fits = !line.is_empty() && line.chars().count() <= ID_CHARS;
    fits.then(|| line.to_owned())
}

/// A refund whose id cannot be read has the id 0, because it gave back money all the same.
fn refunds(field: Field, currency: Option<Currency>, reading: &mut Reading) -> Option<Vec<Refund>> {
    fields! { Fields { id, created_at, transactions, refund_line_items } }

    let refunds = reading.list::<Fields>(field, "refunds")?;
    let read = |fields: Fields| {
        reading.nullable([
            (Member::RefundTransactions, fields.transactions),
            (Member::RefundLines, fields.refund_line_items),
        ]);
        Refund {
            id: reading.or_none(required(fields.id.id()), "refunds[].id"),
            created_at: fields.created_at.instant().unwrap_or_default(),
            transactions: transactions(fields.transactions, currency, reading),
            lines: refund_lines(fields.refund_line_items, reading),
        }
    };
    let refunds = refunds.into_iter().map(read).collect();
    Some(reading.unique(refunds, |refund| refund.id, "refunds[].id"))
}

/// `orders` is the currency of the order, for transactions that name none.
fn transactions(field: Field, orders: Option<Currency>, reading: &mut Reading) -> Vec<Transaction> {
    fields! { Fields { id, parent_id, kind, status, amount, amount_set, currency, gateway } }

    let transactions = reading.list::<Fields>(field, "refunds[].transactions");
    let read = |fields: Fields| {
        reading.values([
            (Member::TransactionKind, fields.kind),
            (Member::TransactionStatus, fields.status),
            (Member::TransactionAmount, fields.amount),
        ]);
        let amount = currency(fields.currency).and_then(|own| money(fields.amount, own.or(orders)));
        Transaction {
            id: fields.id.id().unwrap_or_default().unwrap_or_default(),
            parent_id: fields.parent_id.id().unwrap_or_default(),
            kind: text(fields.kind),
            status: text(fields.status),
            amount: reading.or_none(amount, "refunds[].transactions[].amount"),
            in_shop: amounts(fields.amount_set).shop,
            gateway: short(fields.gateway, ID_CHARS),
        }
    };
    transactions.into_iter().flatten().map(read).collect()
}

fn refund_lines(field: Field, reading: &mut Reading) -> Vec<RefundLine> {
    fields! { Fields { id, line_item_id, quantity, restock_type, subtotal } }

    let lines = reading.list::<Fields>(field, "refunds[].refund_line_items");
    let read = |fields: Fields| {
        reading.values([(Member::RefundLine, fields.line_item_id)]);
        let units = quantity(fields.quantity);
        Some(RefundLine {
            id: fields.id.id().unwrap_or_default()?,
            line_id: fields.line_item_id.id().unwrap_or_default()?,
            quantity: reading.or_none(units, "refunds[].refund_line_items[].quantity")?,
            restock_type: text(fields.restock_type),
            subtotal: fields.subtotal.decimal().unwrap_or_default(),
        })
    };
    let lines = lines.into_iter().flatten().filter_map(read).collect();
    reading.unique(lines, |line| line.id, "refunds[].refund_line_items[].id")
}

pub(super) fn text(field: Field) -> Option<String> {
    field.text().unwrap_or_default()
}

/// A text of at most `chars` characters. A longer text counts as absent.
pub(super) fn short(field: Field, chars: usize) -> Option<String> {
    text(field).filter(|text| text.chars().count() <= chars)
}

pub(super) fn required<T>(read: Result<Option<T>, Problem>) -> Result<T, Problem> {
    read?.ok_or(Problem::Missing)
}

/// A count of whole units. `5.0` is five.
pub(super) fn quantity(field: Field) -> Result<Option<i64>, Problem> {
    let decimal = field.decimal()?.ok_or(Problem::Missing)?;
    let whole = match decimal.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|digit| digit == b'0') => whole,
        Some(_) => return Err(Problem::NotAnInteger),
        None => &decimal,
    };
    match whole.parse() {
        Ok(units @ 0..) => Ok(Some(units)),
        _ => Err(Problem::OutOfRange),
    }
}

pub(super) fn currency(field: Field) -> Result<Option<Currency>, Problem> {
    let code = field.text()?;
    code.map(|code| Currency::parse(&code).ok_or(Problem::NotACurrency))
        .transpose()
}

pub(super) fn money(field: Field, currency: Option<Currency>) -> Result<Option<Money>, Problem> {
    match (field.decimal()?, currency) {
        (Some(decimal), Some(currency)) => Ok(Some(Money::parse_decimal(&decimal, currency)?)),
        _ => Ok(None),
    }
}
