//! Orders of WooCommerce (its REST API, version 3, which its webhooks send). They are read into
//! the same [`Order`] by the same rules: what rows are keyed by, paid in or ordered by must be
//! right, and anything else that is wrong is taken as absent.
//!
//! WooCommerce has one status for what we keep apart: whether an order is paid, shipped and
//! cancelled. Each status says all three.

use super::{
    Customer, FinancialStatus, FulfillmentStatus, ID_CHARS, Line, Order, PresentFields, Refund,
    Transaction, address, currency, money, pact_id, quantity, required, short, text, unique,
};
use crate::json::{self, At, Field, Problem, Unreadable, fields};
use crate::money::{Currency, Money};

fields! { Body {
    id, number, status, currency, total, total_tax, date_created_gmt, date_modified_gmt,
    date_paid_gmt, date_completed_gmt, customer_id, billing, shipping, line_items, refunds,
    meta_data,
}}

// The buyer's address, which also names the buyer.
fields! { Billing { email, phone, first_name, last_name } }

pub(super) fn read(body: &[u8]) -> Result<Order, Unreadable> {
    let body: Body = json::object(body)?;
    let id = required(body.id.id()).at("id")?;
    let currency = currency(body.currency).at("currency")?;
    let total = money(body.total, currency).at("total")?;
    let created_at = body.date_created_gmt.instant().unwrap_or_default();
    let updated_at = body
        .date_modified_gmt
        .instant()
        .at("date_modified_gmt")?
        .or(created_at);
    let refunds = refunds(body.refunds, currency)?;
    let status = text(body.status);
    let reported = Reported {
        status: status.as_deref(),
        is_paid: !body.date_paid_gmt.is_nothing(),
        is_completed: !body.date_completed_gmt.is_nothing(),
        refunded: refunded(&refunds),
        total,
    };
    let billing: Option<Billing> = body.billing.object().unwrap_or_default();
    let billing = billing.unwrap_or_default();
    let number = short(body.number, ID_CHARS);
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
        tax: money(body.total_tax, currency).unwrap_or_default(),
        outstanding: None,
        financial_status: reported.financial(),
        fulfillment_status: reported.fulfillment(),
        cancelled_at: updated_at.filter(|_| reported.is_cancelled()),
        cancel_reason: None,
        created_at,
        updated_at,
        lines: lines(body.line_items)?,
        shipping_address: address(body.shipping),
        billing_address: address(body.billing),
        fulfillments: Vec::new(),
        pact_id: pact_id(body.meta_data),
        present_fields: PresentFields {
            name: body.number.is_present(),
            total: body.total.is_present() && body.currency.is_present(),
            financial_status: status.is_some(),
            fulfillment_status: status.is_some(),
            cancelled_at: status.is_some(),
            lines: body.line_items.is_present(),
            outstanding: false,
            customer: body.customer_id.is_present(),
            contact: body.billing.is_present(),
            addresses: body.billing.is_present() || body.shipping.is_present(),
            refunds: body.refunds.is_present(),
        },
        refunds,
    })
}

/// What an order's status and dates say of it.
struct Reported<'a> {
    status: Option<&'a str>,
    /// It was paid once.
    is_paid: bool,
    /// All was shipped once.
    is_completed: bool,
    /// Minor units that went back.
    refunded: i64,
    total: Option<Money>,
}

impl Reported<'_> {
    /// `processing` and `completed` are the statuses that WooCommerce itself counts as paid. One
    /// that a plugin has added says nothing, so the date of the payment does.
    fn financial(&self) -> Option<FinancialStatus> {
        Some(match self.status? {
            "refunded" => FinancialStatus::Refunded,
            "processing" | "completed" => self.paid(),
            "pending" | "on-hold" | "failed" | "checkout-draft" => FinancialStatus::Pending,
            "cancelled" if !self.is_paid => FinancialStatus::Voided,
            _ if self.is_paid => self.paid(),
            _ => FinancialStatus::Pending,
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

    /// What was shipped stays so when the money goes back.
    fn fulfillment(&self) -> Option<FulfillmentStatus> {
        let is_fulfilled = match self.status? {
            "completed" => true,
            "refunded" | "cancelled" => self.is_completed,
            _ => false,
        };
        is_fulfilled.then_some(FulfillmentStatus::Fulfilled)
    }

    fn is_cancelled(&self) -> bool {
        self.status == Some("cancelled")
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
fn lines(field: Field) -> Result<Vec<Line>, Unreadable> {
    fields! { Fields { id, name, product_id, variation_id, quantity, price, sku } }

    let lines = field.list::<Fields>().at("line_items")?;
    let lines = lines.into_iter().map(|fields| {
        let variation = fields.variation_id.id().unwrap_or_default();
        let product = || fields.product_id.id().unwrap_or_default();
        Ok(Line {
            id: required(fields.id.id()).at("line_items[].id")?,
            variant_id: variation.or_else(product),
            title: text(fields.name),
            quantity: quantity(fields.quantity).at("line_items[].quantity")?,
            price: fields.price.decimal().unwrap_or_default(),
            sku: short(fields.sku, ID_CHARS),
            fulfillment_status: None,
        })
    });
    unique(lines, |line| line.id, "line_items[].id")
}

/// Each is an id and an amount below zero; of which lines it is, the order does not say.
fn refunds(field: Field, currency: Option<Currency>) -> Result<Vec<Refund>, Unreadable> {
    fields! { Fields { id, total } }

    let refunds = field.list::<Fields>().at("refunds")?;
    let refunds = refunds.into_iter().map(|fields| {
        let id = required(fields.id.id()).at("refunds[].id")?;
        let amount = match (fields.total.decimal().unwrap_or_default(), currency) {
            (Some(total), Some(currency)) => Some(
                Money::parse_decimal(total.trim_start_matches('-'), currency)
                    .map_err(Problem::from)
                    .at("refunds[].total")?,
            ),
            _ => None,
        };
        let moved = Transaction {
            id,
            parent_id: None,
            kind: Some("refund".to_owned()),
            status: Some("success".to_owned()),
            amount,
        };
        Ok(Refund {
            id,
            created_at: None,
            transactions: vec![moved],
            lines: Vec::new(),
        })
    });
    unique(refunds, |refund| refund.id, "refunds[].id")
}

fn refunded(refunds: &[Refund]) -> i64 {
    let moved = refunds.iter().flat_map(|refund| &refund.transactions);
    let amounts = moved.filter_map(|transaction| transaction.amount);
    amounts.fold(0, |sum, amount| sum.saturating_add(amount.minor))
}
