//! The payment provider's events: what the handlers need of them, read from the raw body.
//! What rows are keyed by, paid in or ordered by must be right, or the body is unreadable:
//! ids, links, amounts, currencies and times. Anything else that is wrong is taken as
//! absent. Both generations of the provider's API are read, before and since 2025-03-31,
//! by what a body has and not by the version that it names.

mod fields;

pub mod charge;
pub mod checkout;
pub mod intent;
pub mod invoice;
pub mod ledger;
pub mod outcome;
pub mod record;
pub mod session;
pub mod status;
pub mod subscription;

use std::fmt;

use serde::Deserialize;

use self::fields::{id, named, required, seconds, text};
use crate::json::{self, At, Field, Problem, Unreadable};

pub use self::charge::Charge;
pub use self::fields::Metadata;
pub use self::intent::{Intent, PaymentError};
pub use self::invoice::Invoice;
pub use self::session::Session;
pub use self::status::{Mode, PaymentStatus, Status};

/// Debug shows ids, amounts, times and statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `evt_..`; two events can report one change.
    pub id: String,
    /// Unix seconds.
    pub created: i64,
    /// Such as `2026-10-28.endive`.
    pub api_version: Option<String>,
    pub kind: Kind,
    pub object: Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    IntentSucceeded,
    IntentFailed,
    IntentCanceled,
    ChargeRefunded,
    SessionCompleted,
    InvoicePaid,
}

/// What an event is about, as it was when the event was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Intent(Intent),
    Charge(Charge),
    Session(Session),
    Invoice(Invoice),
}

/// Somebody's address, which Debug does not show.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Email(pub String);

impl Event {
    /// Reads the body of an event. An error is final: the same bytes will never be one.
    pub fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let envelope: Envelope = json::object(body)?;
        // Thin events, which have no data, say `v2.core.event`.
        named(envelope.object, "event").at("object")?;
        let kind = required(envelope.kind.text()).at("type")?;
        let kind = Kind::parse(&kind).ok_or(Problem::Foreign).at("type")?;
        let id = required(id(envelope.id)).at("id")?;
        let created = required(seconds(envelope.created)).at("created")?;
        let object = object(envelope.data)?;
        Ok(Event {
            id,
            created,
            api_version: text(envelope.api_version),
            kind,
            object: match kind {
                Kind::IntentSucceeded | Kind::IntentFailed | Kind::IntentCanceled => {
                    Object::Intent(Intent::of(object)?)
                }
                Kind::ChargeRefunded => Object::Charge(Charge::of(object)?),
                Kind::SessionCompleted => Object::Session(Session::of(object)?),
                Kind::InvoicePaid => Object::Invoice(Invoice::of(object)?),
            },
        })
    }
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::IntentSucceeded,
        Kind::IntentFailed,
        Kind::IntentCanceled,
        Kind::ChargeRefunded,
        Kind::SessionCompleted,
        Kind::InvoicePaid,
    ];

    pub fn parse(event_type: &str) -> Option<Self> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == event_type)
    }

    /// The event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::IntentSucceeded => "payment_intent.succeeded",
            Kind::IntentFailed => "payment_intent.payment_failed",
            Kind::IntentCanceled => "payment_intent.canceled",
            Kind::ChargeRefunded => "charge.refunded",
            Kind::SessionCompleted => "checkout.session.completed",
            Kind::InvoicePaid => "invoice.payment_succeeded",
        }
    }
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email")
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Envelope<'a> {
    id: Field<'a>,
    object: Field<'a>,
    created: Field<'a>,
    api_version: Field<'a>,
    #[serde(rename = "type")]
    kind: Field<'a>,
    data: Field<'a>,
}

fn object(data: Field) -> Result<Field, Unreadable> {
    #[derive(Default, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Data<'a> {
        object: Field<'a>,
    }

    let data = data.object::<Data>().at("data")?;
    Ok(data.ok_or(Problem::Missing).at("data")?.object)
}
