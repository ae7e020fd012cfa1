//! Checkout sessions, which are read from a form and shown as JSON. A session is complete when its
//! intent has succeeded, and expired when its time is over or its intent was canceled.

use std::collections::BTreeMap;

use domain::money::{Currency, Money};
use domain::time::Timestamp;
use serde_json::{Value, json};

/// How many seconds after its creation an unpaid session expires.
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
    /// The intent that pays the session. The JSON of a subscription's session does not name it.
    pub intent: String,
    pub mode: Mode,
    pub status: Status,
}

#[derive(Clone)]
pub enum Mode {
    Payment,
    Subscription(Plan),
}

/// The subscription that the session begins.
#[derive(Clone)]
pub struct Plan {
    /// The length of one period in months.
    pub months: u32,
    pub metadata: BTreeMap<String, String>,
    /// The ids of the subscription and the invoice, after the session was paid.
    pub made: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Open,
    Complete,
    Expired,
}

/// An article of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    /// The price of one piece in minor units.
    pub price: Money,
    pub quantity: i64,
    /// For how many months it is paid at a time. `None`: it is paid only once.
    pub months: Option<u32>,
}

impl Line {
    /// The price of all pieces. `None` if the number is too large.
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

    /// The address to which the buyer goes after paying.
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

/// The session as JSON. It has the address of its page while the session is open; in events the
/// address is left out.
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
