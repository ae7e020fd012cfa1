//! Orders of WooCommerce (its REST API, versions 1 to 3, which its webhooks send). They are read into
//! the same [`Order`] by the same rules: without its id an order is unreadable, and anything else
//! that is wrong is taken as absent.
//!
//! WooCommerce has one status for what we keep apart: whether an order is paid, shipped and
//! cancelled. Any status can follow any other one, so the newest decides.

use super::read::{address, currency, money, pact_id, quantity, required, short, text};
use super::{
    Customer, FinancialStatus, FulfillmentStatus, ID_CHARS, Line, Order, PresentFields, Refund,
    Terms, Transaction,
};
use crate::json::{self, At, Field, Reading, Unreadable, fields};
use crate::money::{Currency, Money};
use crate::shape::Member;

/// What a status says.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    /// No money has come, or it has gone back to where it came from.
    Unpaid,
    /// A part was paid.
    PaidInPart,
    /// It is to be shipped. It is paid if it has a date of payment, and otherwise the buyer pays
    /// on delivery.
    ToShip,
    /// As before, and it is shipped.
    Shipped,
    Refunded,
    Cancelled,
    /// It was moved to the trash. Shops also tidy away orders that they have shipped.
    Trashed,
}

/// The statuses of WooCommerce and of its plugins for deposits. Any other one is of a plugin that
/// nobody here knows: it says nothing, and what an earlier status said still holds.
const STATUSES: [(&str, Says); 15] = [
    // woocommerce.com/document/managing-orders/order-statuses: "unpaid", "awaiting payment".
    ("pending", Says::Unpaid),
    // The same page: "stock is reduced, but you need to confirm payment". A dispute or a bounced
    // debit brings a paid order back to it (woocommerce-gateway-stripe, on charge.dispute.created).
    ("on-hold", Says::Unpaid),
    // The same page: "payment failed or was declined". A late debit fails after `processing`.
    ("failed", Says::Unpaid),
    // WooCommerce Blocks, DraftOrders: a checkout that nobody has sent.
    ("checkout-draft", Says::Unpaid),
    // WordPress, post statuses: an order that somebody writes by hand.
    ("draft", Says::Unpaid),
    ("auto-draft", Says::Unpaid),
    // WooCommerce Deposits, order statuses.
    ("pending-deposit", Says::Unpaid),
    ("scheduled-payment", Says::Unpaid),
    // mollie/WooCommerce#138 and #290: a deposit was paid, and the order has a date of payment.
    ("partial-payment", Says::PaidInPart),
    ("partially-paid", Says::PaidInPart),
    // wc_get_is_paid_statuses. Cash on delivery has no date until `completed`
    // (WC_Gateway_COD::change_payment_complete_order_status).
    ("processing", Says::ToShip),
    ("completed", Says::Shipped),
    ("refunded", Says::Refunded),
    // wc_cancel_unpaid_orders cancels after the hold-stock time, and a late payment brings the
    // order to `processing` (woocommerce#20928, #14625).
    ("cancelled", Says::Cancelled),
    // wp_trash_post. `order.restored` reports the status that it had before.
    ("trash", Says::Trashed),
];

fields! { Body {
    id, number, status, currency, total, total_tax, date_created_gmt, date_modified_gmt,
    date_paid_gmt, date_completed_gmt, date_created, date_modified, date_paid, date_completed,
    customer_id, billing, shipping, line_items, refunds, meta_data,
}}

// The buyer's address, which also names the buyer.
fields! { Billing { email, phone, first_name, last_name } }

/// True for an order of WooCommerce. Version 1 of its API has only the times of the site's own
/// zone, by a name that no other storefront has.
pub(crate) fn is_marked(in_utc: Field, of_site: Field, of_others: Field) -> bool {
    in_utc.is_present() || (of_site.is_present() && !of_others.is_present())
}

/// A time in UTC, or else the one of the site's zone, which is taken as if it were UTC. The versions
/// of an order are in the right sequence by it, except in the hour that a change of the clock repeats.
pub(crate) fn time<'a>(in_utc: Field<'a>, of_site: Field<'a>) -> Field<'a> {
    if in_utc.is_present() { in_utc } else { of_site }
}

pub(super) fn read(body: &[u8]) -> Result<Order, Unreadable> {
    let body: Body = json::object(body)?;
    let id = required(body.id.id()).at("id")?;
    let mut reading = Reading::default();
    let modified_at = time(body.date_modified_gmt, body.date_modified);
    let paid_at = time(body.date_paid_gmt, body.date_paid);
    reading.values([
        (Member::Currency, body.currency),
        (Member::TotalOfWooCommerce, body.total),
        (Member::Status, body.status),
        (Member::ModifiedAt, modified_at),
        (Member::Lines, body.line_items),
    ]);
    reading.keys([(Member::PaidAt, paid_at), (Member::Refunds, body.refunds)]);
    let currency = reading.or_none(currency(body.currency), "currency");
    let total = reading.or_none(money(body.total, currency), "total");
    let tax = reading.or_none(money(body.total_tax, currency), "total_tax");
    let created_at = time(body.date_created_gmt, body.date_created);
    let created_at = reading.or_none(created_at.instant(), "date_created_gmt");
    let updated_at = reading.or_none(modified_at.instant(), "date_modified_gmt");
    let updated_at = updated_at.or(created_at);
    let lines = lines(body.line_items, &mut reading);
    let refunds = refunds(body.refunds, currency, &mut reading);
    let status = text(body.status);
    let known = |(name, _): &&(&str, Says)| Some(*name) == status.as_deref();
    let says = STATUSES.iter().find(known).map(|(_, says)| *says);
    if status.is_some() && says.is_none() {
        reading.shape.unknown(Member::Status);
    }
    let reported = Reported {
        says,
        has_date: paid_at.is_present().then(|| !is_no_time(paid_at)),
        is_completed: !is_no_time(time(body.date_completed_gmt, body.date_completed)),
        refunded: refunds.as_deref().map_or(0, refunded),
        total,
    };
    let billing: Option<Billing> = body.billing.object().unwrap_or_default();
    let billing = billing.unwrap_or_default();
    let number = short(body.number, ID_CHARS);
    let financial_status = reported.financial();
    Ok(Order {
        id,
        order_number: body.number.integer().unwrap_or_default(),
        name: number.map(|number| format!("#{number}")),
        email: text(billing.email),
        phone: text(billing.phone),
        customer: customer(body.customer_id, &billing),
        currency,
        total,
        subtotal: None,
        tax,
        current: None,
        outstanding: None,
        cash_rounding: 0,
        other_currency: None,
        presentment: None,
        terms: reported.terms(),
        gateways: Vec::new(),
        own_credit: false,
        is_test: false,
        fulfillment_status: reported.fulfillment(),
        cancelled_at: reported.is_cancelled().then(|| updated_at.unwrap_or(0)),
        can_come_back: true,
        cancel_reason: None,
        created_at,
        updated_at,
        shipping_address: address(body.shipping),
        billing_address: address(body.billing),
        fulfillments: Vec::new(),
        pact_id: pact_id(body.meta_data),
        present_fields: PresentFields {
            name: body.number.is_present(),
            total: body.total.is_present() && currency.is_some(),
            financial_status: financial_status.is_some(),
            fulfillment_status: says.is_some(),
            cancelled_at: says.is_some(),
            lines: body.line_items.is_present() && lines.is_some(),
            outstanding: false,
            customer: body.customer_id.is_present(),
            contact: body.billing.is_present(),
            addresses: body.billing.is_present() || body.shipping.is_present(),
            refunds: body.refunds.is_present() && refunds.is_some(),
            terms: financial_status.is_some(),
        },
        financial_status,
        lines: lines.unwrap_or_default(),
        refunds: refunds.unwrap_or_default(),
        unread: reading.unread,
        shape: reading.shape,
    })
}

/// True for a time that is null or, in version 1, empty.
fn is_no_time(field: Field) -> bool {
    field.is_nothing() || field.text() == Ok(None)
}

/// What an order's status and dates say of it.
struct Reported {
    /// None when nobody knows the status.
    says: Option<Says>,
    /// It has a date of payment. None for a body that was cut to other keys: then the status
    /// decides.
    has_date: Option<bool>,
    /// All was shipped once.
    is_completed: bool,
    /// Minor units that went back.
    refunded: i64,
    total: Option<Money>,
}

impl Reported {
    fn financial(&self) -> Option<FinancialStatus> {
        Some(match self.says? {
            Says::Refunded => FinancialStatus::Refunded,
            Says::PaidInPart => FinancialStatus::PartiallyPaid,
            Says::ToShip if self.has_date != Some(false) => self.paid(),
            // wc_get_is_paid_statuses: one that is completed is paid. Those of before WooCommerce kept dates of payment
            // have none, and a move to its new tables takes the date from more (woocommerce#68776).
            Says::Shipped => self.paid(),
            Says::Cancelled if self.has_date == Some(true) => self.paid(),
            Says::ToShip | Says::Unpaid => FinancialStatus::Pending,
            Says::Cancelled => FinancialStatus::Voided,
            Says::Trashed => return None,
        })
    }

    fn paid(&self) -> FinancialStatus {
        let total = self.total.map_or(0, |total| total.minor);
        match self.refunded {
            ..=0 => FinancialStatus::Paid,
            back if total > 0 && back >= total => FinancialStatus::Refunded,
            _ => FinancialStatus::PartiallyRefunded,
        }
    }

    fn terms(&self) -> Option<Terms> {
        let is_on_delivery = self.says == Some(Says::ToShip) && self.has_date == Some(false);
        is_on_delivery.then_some(Terms::ON_DELIVERY)
    }

    /// What was shipped stays so when the money goes back.
    fn fulfillment(&self) -> Option<FulfillmentStatus> {
        let is_fulfilled = match self.says? {
            Says::Shipped => true,
            Says::Refunded | Says::Cancelled | Says::Trashed => self.is_completed,
            _ => false,
        };
        is_fulfilled.then_some(FulfillmentStatus::Fulfilled)
    }

    fn is_cancelled(&self) -> bool {
        let is_trashed = self.says == Some(Says::Trashed) && !self.is_completed;
        is_trashed || self.says == Some(Says::Cancelled)
    }
}

/// A guest has the id 0, which is none.
fn customer(id: Field, billing: &Billing) -> Option<Customer> {
    let customer = Customer {
        id: id.id().unwrap_or_default(),
        email: text(billing.email),
        phone: text(billing.phone),
        first_name: text(billing.first_name),
        last_name: text(billing.last_name),
    };
    (customer != Customer::default()).then_some(customer)
}

/// What is sold is a variation of a product, or the product itself: then its variation is 0.
fn lines(field: Field, reading: &mut Reading) -> Option<Vec<Line>> {
    fields! { Fields { id, name, product_id, variation_id, quantity, price, sku } }

    let lines = reading.list::<Fields>(field, "line_items")?;
    let read = |fields: Fields| {
        reading.values([(Member::LineQuantity, fields.quantity)]);
        let variation = fields.variation_id.id().unwrap_or_default();
        let product = || fields.product_id.id().unwrap_or_default();
        Some(Line {
            id: reading.or_none(required(fields.id.id()).map(Some), "line_items[].id")?,
            variant_id: variation.or_else(product),
            title: text(fields.name),
            quantity: reading.or_none(quantity(fields.quantity), "line_items[].quantity"),
            price: fields.price.decimal().unwrap_or_default(),
            sku: short(fields.sku, ID_CHARS),
            ..Line::default()
        })
    };
    let lines = lines.into_iter().filter_map(read).collect();
    Some(reading.unique(lines, |line| line.id, "line_items[].id"))
}

/// Each is an id and an amount below zero; of which lines it is, the order does not say.
fn refunds(field: Field, currency: Option<Currency>, reading: &mut Reading) -> Option<Vec<Refund>> {
    fields! { Fields { id, total } }

    let refunds = reading.list::<Fields>(field, "refunds")?;
    let read = |fields: Fields| {
        reading.values([(Member::RefundTotal, fields.total)]);
        let id = reading.or_none(required(fields.id.id()), "refunds[].id");
        let amount = reading.or_none(money(fields.total, currency), "refunds[].total");
        let moved = Transaction {
            id,
            parent_id: None,
            kind: Some("refund".to_owned()),
            status: Some("success".to_owned()),
            amount: amount.map(|amount| Money {
                minor: amount.minor.saturating_abs(),
                ..amount
            }),
            in_shop: None,
            gateway: None,
        };
        Refund {
            id,
            created_at: None,
            transactions: vec![moved],
            lines: Vec::new(),
        }
    };
    let refunds = refunds.into_iter().map(read).collect();
    Some(reading.unique(refunds, |refund| refund.id, "refunds[].id"))
}

fn refunded(refunds: &[Refund]) -> i64 {
    let moved = refunds.iter().flat_map(|refund| &refund.transactions);
    let amounts = moved.filter_map(|transaction| transaction.amount);
    amounts.fold(0, |sum, amount| sum.saturating_add(amount.minor))
}
