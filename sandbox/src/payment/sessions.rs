//! Checkout sessions: read from a form, shown as JSON. A session is complete when its intent
//! has succeeded, and expired when its time is over or its intent was canceled.

use std::collections::BTreeMap;

use domain::money::{Currency, Money};
use domain::time::Timestamp;
use serde_json::{Value, json};

/// Seconds until a session that was not paid expires.
pub const LIFETIME: i64 = 24 * 60 * 60;

#[derive(Clone)]
pub struct Session {
    /// `cs_test_..`
    pub id: String,
    pub lines: Vec<Line>,
    pub total: Money,
    pub success_url: String,
    pub cancel_url: Option<String>,
    pub client_reference_id: Option<String>,
    pub customer: Option<String>,
    pub customer_email: Option<String>,
    pub metadata: BTreeMap<String, String>,
    /// Unix seconds.
    pub created: i64,
    /// Unix seconds.
    pub expires_at: i64,
    /// The intent that pays it; a subscription's session does not name it.
    pub intent: String,
    pub mode: Mode,
    pub status: Status,
}

#[derive(Clone)]
pub enum Mode {
    Payment,
    Subscription(Plan),
}

/// What a subscription is to be.
#[derive(Clone)]
pub struct Plan {
    /// Of one period.
    pub months: u32,
    pub metadata: BTreeMap<String, String>,
    /// Subscription and invoice, once paid.
    pub made: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Open,
    Complete,
    Expired,
}

/// Something that is bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    /// Of one.
    pub price: Money,
    pub quantity: i64,
    /// How many months it is paid for at a time; None: once and for all.
    pub months: Option<u32>,
}

impl Line {
    /// None when it is beyond all numbers.
    pub fn total(&self) -> Option<i64> {
        self.price.minor.checked_mul(self.quantity)
    }
}

impl Session {
    pub fn status_at(&self, now: Timestamp) -> Status {
        match self.status {
            Status::Open if self.expires_at <= now.unix_seconds() => Status::Expired,
            status => status,
        }
    }

    /// Where someone goes who has paid.
    pub fn success_url(&self) -> String {
        self.success_url.replace("{CHECKOUT_SESSION_ID}", &self.id)
    }

    fn plan(&self) -> Option<&Plan> {
        match &self.mode {
            Mode::Payment => None,
            Mode::Subscription(plan) => Some(plan),
        }
    }
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Complete => "complete",
            Status::Expired => "expired",
        }
    }
}

/// With the address of its page while that is of use; events are without.
pub fn object(session: &Session, url: Option<&str>, now: Timestamp) -> Value {
    let status = session.status_at(now);
    let paid = status == Status::Complete;
    let plan = session.plan();
    let made = plan.and_then(|plan| plan.made.as_ref());
    let email = session.customer_email.as_ref().filter(|_| paid);
    json!({
        "id": session.id,
        "object": "checkout.session",
        "amount_subtotal": session.total.minor,
        "amount_total": session.total.minor,
        "cancel_url": session.cancel_url,
        "client_reference_id": session.client_reference_id,
        "created": session.created,
        "currency": lower(session.total.currency),
        "customer": session.customer,
        "customer_details": email.map(|email| json!({
            "address": null,
            "email": email,
            "name": null,
            "phone": null,
        })),
        "customer_email": session.customer_email,
        "expires_at": session.expires_at,
        "invoice": made.map(|(_, invoice)| invoice),
        "livemode": false,
        "metadata": session.metadata,
        "mode": if plan.is_some() { "subscription" } else { "payment" },
        "payment_intent": plan.is_none().then_some(&session.intent),
        "payment_method_types": ["card"],
        "payment_status": if paid { "paid" } else { "unpaid" },
        "setup_intent": null,
        "status": status.name(),
        "subscription": made.map(|(subscription, _)| subscription),
        "success_url": session.success_url,
        "url": url.filter(|_| status == Status::Open),
    })
}

pub fn lower(currency: Currency) -> String {
    currency.as_str().to_ascii_lowercase()
}
