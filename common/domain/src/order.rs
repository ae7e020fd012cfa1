//! A storefront order: the fields that the handlers need, read from the raw body of any of the
//! five order topics, which all carry the same resource. An order of WooCommerce has other fields,
//! and is recognized by them.
//!
//! Some fields must be right, or the body counts as unreadable: ids, quantities, money,
//! `updated_at` and `cancelled_at`. Rows have these as keys, counts, amounts and versions. Any
//! other field with a wrong value is taken as absent, because an order without an e-mail address
//! is still an order.

pub mod outcome;
pub mod own;
pub mod record;
pub mod settlement;
mod topic;
mod woocommerce;

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use strum::VariantArray;

use crate::json::{self, At, Field, Problem, Unreadable, fields};
use crate::money::{Currency, Money};
use crate::record::as_text;

pub use self::topic::Topic;

/// The shop and the order's id.
pub type OrderKey = (String, i64);

/// True for the body of an order of WooCommerce.
pub fn is_of_woocommerce(body: &[u8]) -> bool {
    fields! { Marked { date_created_gmt } }

    json::object::<Marked>(body).is_ok_and(|body| body.date_created_gmt.is_present())
}

/// All times are Unix milliseconds. Ids are unique within each list. Debug shows ids, amounts and
/// times, and no text that a sender can choose.
#[derive(Clone, PartialEq, Eq)]
pub struct Order {
    pub id: i64,
    /// The name that the shop shows, such as `#1001`.
    pub name: Option<String>,
    pub order_number: Option<i64>,
    pub email: Option<String>,
    pub phone: Option<String>,
    pub customer: Option<Customer>,
    pub currency: Option<Currency>,
    /// All amounts are None when the body has no currency.
    pub total: Option<Money>,
    pub subtotal: Option<Money>,
    pub tax: Option<Money>,
    /// What is still to be paid.
    pub outstanding: Option<Money>,
    pub financial_status: Option<FinancialStatus>,
    /// None while nothing is fulfilled.
    pub fulfillment_status: Option<FulfillmentStatus>,
    pub cancelled_at: Option<i64>,
    pub cancel_reason: Option<String>,
    pub created_at: Option<i64>,
    pub updated_at: Option<i64>,
    pub lines: Vec<Line>,
    pub shipping_address: Option<Address>,
    pub billing_address: Option<Address>,
    /// The list may be empty although the order is fulfilled.
    pub fulfillments: Vec<Fulfillment>,
    pub refunds: Vec<Refund>,
    /// The id of the agreement that payments of this order name, from the note attribute
    /// `pact_id`.
    pub pact_id: Option<String>,
    pub present_fields: PresentFields,
}

/// Which keys the body has, even if their value is null. A webhook subscription can leave out any
/// key (`include_fields`). A missing key changes nothing: what an earlier delivery said of it
/// still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the body")]
pub struct PresentFields {
    pub name: bool,
    /// The total and its currency.
    pub total: bool,
    pub financial_status: bool,
    pub fulfillment_status: bool,
    pub cancelled_at: bool,
    pub lines: bool,
    /// What is still to be paid, and the currency.
    pub outstanding: bool,
    pub customer: bool,
    /// True when the body has the e-mail address or the phone number.
    pub contact: bool,
    /// True when the body has the shipping or the billing address.
    pub addresses: bool,
    pub refunds: bool,
}

impl PresentFields {
    /// True when the key of some status is missing, so that the topic can say what the status is.
    pub fn leaves_a_status(&self) -> bool {
        Topic::VARIANTS.iter().any(|topic| self.leaves_to(*topic))
    }

    /// True when this topic says a status whose key the body does not have.
    pub fn leaves_to(&self, topic: Topic) -> bool {
        match topic {
            Topic::Paid => !self.financial_status,
            Topic::Fulfilled => !self.fulfillment_status,
            Topic::Cancelled => !self.cancelled_at,
            Topic::Create | Topic::Updated => false,
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Customer {
    pub id: Option<i64>,
    pub email: Option<String>,
    pub phone: Option<String>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
}

#[derive(Clone, Default, PartialEq, Eq, row::Record)]
pub struct Address {
    #[person]
    pub first_name: Option<String>,
    #[person]
    pub last_name: Option<String>,
    #[person]
    pub address1: Option<String>,
    #[person]
    pub address2: Option<String>,
    #[person]
    pub city: Option<String>,
    #[person]
    pub province: Option<String>,
    #[person]
    pub country: Option<String>,
    #[person]
    pub zip: Option<String>,
    #[person]
    pub phone: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Line {
    #[required]
    pub id: i64,
    /// None for custom items and deleted products.
    pub variant_id: Option<i64>,
    #[thing]
    pub title: Option<String>,
    pub quantity: i64,
    /// The decimal text of the body, unchanged.
    #[thing]
    pub price: Option<String>,
    #[thing]
    pub sku: Option<String>,
    #[thing]
    pub fulfillment_status: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fulfillment {
    pub id: i64,
    pub status: Option<String>,
    pub tracking_company: Option<String>,
    /// One entry for each parcel. No number occurs twice.
    pub tracking: Vec<Tracking>,
    /// Pairs of an order line's id and the number of its units in this fulfilment. May be empty.
    pub lines: Vec<(i64, i64)>,
    pub updated_at: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Tracking {
    #[required]
    #[thing]
    pub number: String,
    #[person]
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub id: i64,
    pub created_at: Option<i64>,
    pub transactions: Vec<Transaction>,
    pub lines: Vec<RefundLine>,
}

/// Only a transaction of kind `refund` with the status `success` moved money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub id: i64,
    /// The sale or capture that this transaction refunds.
    pub parent_id: Option<i64>,
    pub kind: Option<String>,
    pub status: Option<String>,
    /// The amount in the transaction's own currency, or in the order's currency when the transaction names
    /// none.
    pub amount: Option<Money>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundLine {
    pub id: i64,
    /// The id of the order line.
    pub line_id: i64,
    pub quantity: i64,
    /// A word such as `no_restock`, `cancel` and `return`.
    pub restock_type: Option<String>,
    /// The decimal text of the body, unchanged. The provider writes a JSON number here.
    pub subtotal: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum FinancialStatus {
    Pending,
    Authorized,
    PartiallyPaid,
    Paid,
    PartiallyRefunded,
    Refunded,
    Voided,
    Expired,
    /// A status that this version does not know, kept as the provider wrote it.
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum FulfillmentStatus {
    /// Occurs only in the provider's documentation samples up to 2024-01.
    Pending,
    Partial,
    Fulfilled,
    Restocked,
    Other(String),
}

impl Order {
    /// Reads the body of a delivery. An error is final, because the same bytes will never be an
    /// order.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let body: Body = json::object(bytes)?;
        if body.date_created_gmt.is_present() {
            return woocommerce::read(bytes);
        }
        if !body.order_id.is_nothing() {
            // Refunds and fulfilments have an `order_id`, and an order has none. The topic
            // header, which says that this is an order, is not signed.
            return Err(Problem::Foreign).at("order_id");
        }

        let id = required(body.id.id()).at("id")?;
        let present_fields = present_fields(&body);
        let currency = currency(body.currency).at("currency")?;
        Ok(Self {
            id,
            name: text(body.name),
            order_number: body.order_number.integer().unwrap_or_default(),
            email: text(body.email),
            phone: text(body.phone),
            customer: customer(body.customer)?,
            currency,
            total: money(body.total_price, currency).at("total_price")?,
            subtotal: money(body.subtotal_price, currency).unwrap_or_default(),
            tax: money(body.total_tax, currency).unwrap_or_default(),
            outstanding: money(body.total_outstanding, currency).unwrap_or_default(),
            financial_status: text(body.financial_status).map(FinancialStatus::from),
            fulfillment_status: text(body.fulfillment_status).map(FulfillmentStatus::from),
            cancelled_at: body.cancelled_at.instant().at("cancelled_at")?,
            cancel_reason: text(body.cancel_reason),
            created_at: body.created_at.instant().unwrap_or_default(),
            updated_at: body.updated_at.instant().at("updated_at")?,
            lines: lines(body.line_items)?,
            shipping_address: address(body.shipping_address),
            billing_address: address(body.billing_address),
            fulfillments: fulfillments(body.fulfillments)?,
            refunds: refunds(body.refunds, currency)?,
            pact_id: pact_id(body.note_attributes),
            present_fields,
        })
    }
}

impl FinancialStatus {
    /// The values that have a meaning here.
    pub const KNOWN: [Self; 8] = [
        Self::Pending,
        Self::Authorized,
        Self::PartiallyPaid,
        Self::Paid,
        Self::PartiallyRefunded,
        Self::Refunded,
        Self::Voided,
        Self::Expired,
    ];

    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Authorized => "authorized",
            Self::PartiallyPaid => "partially_paid",
            Self::Paid => "paid",
            Self::PartiallyRefunded => "partially_refunded",
            Self::Refunded => "refunded",
            Self::Voided => "voided",
            Self::Expired => "expired",
            Self::Other(other) => other,
        }
    }
}

impl From<String> for FinancialStatus {
    fn from(text: String) -> Self {
        let mut known = Self::KNOWN.into_iter();
        let known = known.find(|status| status.as_str() == text);
        known.unwrap_or(Self::Other(text))
    }
}

impl FulfillmentStatus {
    /// The values that have a meaning here.
    pub const KNOWN: [Self; 4] = [
        Self::Pending,
        Self::Partial,
        Self::Fulfilled,
        Self::Restocked,
    ];

    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Partial => "partial",
            Self::Fulfilled => "fulfilled",
            Self::Restocked => "restocked",
            Self::Other(other) => other,
        }
    }
}

impl From<String> for FulfillmentStatus {
    fn from(text: String) -> Self {
        let mut known = Self::KNOWN.into_iter();
        let known = known.find(|status| status.as_str() == text);
        known.unwrap_or(Self::Other(text))
    }
}

as_text!(FinancialStatus, FulfillmentStatus);

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("id", &self.id)
            .field("total", &self.total)
            .field("cancelled_at", &self.cancelled_at)
            .field("updated_at", &self.updated_at)
            .field("lines", &self.lines.len())
            .field("fulfillments", &self.fulfillments.len())
            .field("refunds", &self.refunds.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Customer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Customer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

fields! { Body {
    id,
    /// Orders do not have this key.
    order_id,
    name, order_number, email, phone, customer, currency, total_price, subtotal_price, total_tax,
    total_outstanding, financial_status, fulfillment_status, cancelled_at, cancel_reason,
    created_at, updated_at, line_items, shipping_address, billing_address, fulfillments, refunds,
    note_attributes,
    /// Every order of WooCommerce has it, and no other.
    date_created_gmt,
}}

fn present_fields(body: &Body) -> PresentFields {
    PresentFields {
        name: body.name.is_present(),
        total: body.total_price.is_present() && body.currency.is_present(),
        financial_status: body.financial_status.is_present(),
        fulfillment_status: body.fulfillment_status.is_present(),
        cancelled_at: body.cancelled_at.is_present(),
        lines: body.line_items.is_present(),
        outstanding: body.total_outstanding.is_present() && body.currency.is_present(),
        customer: body.customer.is_present(),
        contact: body.email.is_present() || body.phone.is_present(),
        addresses: body.shipping_address.is_present() || body.billing_address.is_present(),
        refunds: body.refunds.is_present(),
    }
}

/// The longest agreement id, tracking number, SKU or carrier name that is taken; a longer one
/// counts as absent. Databases index these texts, and labels and links hold them.
pub(crate) const ID_CHARS: usize = 255;
const URL_CHARS: usize = 2048;
/// The greatest number of tracking numbers that is taken from one fulfilment, far more than
/// anybody ships at once.
const PARCELS: usize = 250;

/// The attributes are `[{"name": .., "value": ..}]` and are set by the shop's own checkout. In the
/// metadata of WooCommerce the name is the `key`.
fn pact_id(field: Field) -> Option<String> {
    fields! { Fields { name, key, value } }

    let attributes = field.list::<Fields>().unwrap_or_default();
    let is_pact_id = |name| text(name).as_deref() == Some("pact_id");
    let mut attributes = attributes.into_iter();
    let agreement = attributes.find(|it| is_pact_id(it.name) || is_pact_id(it.key))?;
    short(agreement.value, ID_CHARS)
}

fn customer(field: Field) -> Result<Option<Customer>, Unreadable> {
    fields! { Fields { id, email, phone, first_name, last_name } }

    let Some(fields) = field.object::<Fields>().at("customer")? else {
        return Ok(None);
    };
    let customer = Customer {
        id: fields.id.id().at("customer.id")?,
        email: text(fields.email),
        phone: text(fields.phone),
        first_name: text(fields.first_name),
        last_name: text(fields.last_name),
    };
    Ok((customer != Customer::default()).then_some(customer))
}

/// WooCommerce has other names for some of the fields.
fn address(field: Field) -> Option<Address> {
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

fn lines(field: Field) -> Result<Vec<Line>, Unreadable> {
    fields! { Fields { id, variant_id, title, quantity, price, sku, fulfillment_status } }

    let lines = field.list::<Fields>().at("line_items")?;
    let lines = lines.into_iter().map(|fields| {
        Ok(Line {
            id: required(fields.id.id()).at("line_items[].id")?,
            variant_id: fields.variant_id.id().unwrap_or_default(),
            title: text(fields.title),
            quantity: quantity(fields.quantity).at("line_items[].quantity")?,
            price: fields.price.decimal().unwrap_or_default(),
            sku: short(fields.sku, ID_CHARS),
            fulfillment_status: text(fields.fulfillment_status),
        })
    });
    unique(lines, |line| line.id, "line_items[].id")
}

fn fulfillments(field: Field) -> Result<Vec<Fulfillment>, Unreadable> {
    fields! { Fields {
        id, status, tracking_company, tracking_number, tracking_numbers, tracking_url,
        tracking_urls, line_items, updated_at,
    }}

    let fulfillments = field.list::<Fields>().at("fulfillments")?;
    let fulfillments = fulfillments.into_iter().map(|fields| {
        let mut tracking = tracking(
            fields.tracking_numbers.values().unwrap_or_default(),
            &fields.tracking_urls.values().unwrap_or_default(),
        );
        if tracking.is_empty() {
            tracking = self::tracking(vec![fields.tracking_number], &[fields.tracking_url]);
        }
        Ok(Fulfillment {
            id: required(fields.id.id()).at("fulfillments[].id")?,
            status: text(fields.status),
            tracking_company: short(fields.tracking_company, ID_CHARS),
            tracking,
            lines: shipped_units(fields.line_items),
            updated_at: fields.updated_at.instant().unwrap_or_default(),
        })
    });
    unique(fulfillments, |it| it.id, "fulfillments[].id")
}

/// Lines that cannot be read are left out, because no money depends on them.
fn shipped_units(field: Field) -> Vec<(i64, i64)> {
    fields! { Fields { id, quantity } }

    let lines = field.list::<Fields>().unwrap_or_default();
    let units = |line: Fields| Some((line.id.id().ok()??, quantity(line.quantity).ok()?));
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
            seen.insert(number.clone())
                .then_some(Tracking { number, url })
        })
        .take(PARCELS)
        .collect()
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

fn refunds(field: Field, currency: Option<Currency>) -> Result<Vec<Refund>, Unreadable> {
    fields! { Fields { id, created_at, transactions, refund_line_items } }

    let refunds = field.list::<Fields>().at("refunds")?;
    let refunds = refunds.into_iter().map(|fields| {
        Ok(Refund {
            id: required(fields.id.id()).at("refunds[].id")?,
            created_at: fields.created_at.instant().unwrap_or_default(),
            transactions: transactions(fields.transactions, currency),
            lines: refund_lines(fields.refund_line_items)?,
        })
    });
    unique(refunds, |refund| refund.id, "refunds[].id")
}

/// A transaction that cannot be read is left out, because transactions are only for information.
/// `orders` is the currency of the order, for transactions that name none.
fn transactions(field: Field, orders: Option<Currency>) -> Vec<Transaction> {
    fields! { Fields { id, parent_id, kind, status, amount, currency } }

    let transactions = field.list::<Fields>().unwrap_or_default();
    let read = |fields: Fields| {
        let amount = match currency(fields.currency) {
            Ok(own) => money(fields.amount, own.or(orders)).unwrap_or_default(),
            Err(_) => None,
        };
        Some(Transaction {
            id: fields.id.id().ok()??,
            parent_id: fields.parent_id.id().unwrap_or_default(),
            kind: text(fields.kind),
            status: text(fields.status),
            amount,
        })
    };
    transactions.into_iter().filter_map(read).collect()
}

fn refund_lines(field: Field) -> Result<Vec<RefundLine>, Unreadable> {
    fields! { Fields { id, line_item_id, quantity, restock_type, subtotal } }

    let lines = field.list::<Fields>().at("refunds[].refund_line_items")?;
    let lines = lines.into_iter().map(|fields| {
        Ok(RefundLine {
            id: required(fields.id.id()).at("refunds[].refund_line_items[].id")?,
            line_id: required(fields.line_item_id.id())
                .at("refunds[].refund_line_items[].line_item_id")?,
            quantity: quantity(fields.quantity).at("refunds[].refund_line_items[].quantity")?,
            restock_type: text(fields.restock_type),
            subtotal: fields.subtotal.decimal().unwrap_or_default(),
        })
    });
    unique(lines, |line| line.id, "refunds[].refund_line_items[].id")
}

fn text(field: Field) -> Option<String> {
    field.text().unwrap_or_default()
}

/// A text of at most `chars` characters. A longer text counts as absent.
fn short(field: Field, chars: usize) -> Option<String> {
    text(field).filter(|text| text.chars().count() <= chars)
}

fn required<T>(read: Result<Option<T>, Problem>) -> Result<T, Problem> {
    read?.ok_or(Problem::Missing)
}

fn quantity(field: Field) -> Result<i64, Problem> {
    match required(field.integer())? {
        ..0 => Err(Problem::OutOfRange),
        quantity => Ok(quantity),
    }
}

fn currency(field: Field) -> Result<Option<Currency>, Problem> {
    let code = field.text()?;
    code.map(|code| Currency::parse(&code).ok_or(Problem::NotACurrency))
        .transpose()
}

fn money(field: Field, currency: Option<Currency>) -> Result<Option<Money>, Problem> {
    match (field.decimal()?, currency) {
        (Some(decimal), Some(currency)) => Ok(Some(Money::parse_decimal(&decimal, currency)?)),
        _ => Ok(None),
    }
}

/// The items, or an error if two of them have the same id. Rows have these ids in their keys, and
/// one statement writes all rows of a list.
fn unique<T>(
    items: impl Iterator<Item = Result<T, Unreadable>>,
    id: fn(&T) -> i64,
    field: &'static str,
) -> Result<Vec<T>, Unreadable> {
    let items = items.collect::<Result<Vec<T>, _>>()?;
    let mut ids: Vec<i64> = items.iter().map(id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Problem::Repeated).at(field);
    }
    Ok(items)
}
