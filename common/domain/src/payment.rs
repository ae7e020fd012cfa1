//! The payment provider's events: the fields that the handlers need, read from the raw body.
//!
//! Some fields must be right, or the body counts as unreadable, because nothing is guessed with money: ids, the payment of
//! a charge, a refund or a dispute, the subscription and the periods of an invoice, when a subscription ended, and the
//! amount that is moved with its currency. Any other field with a wrong value is taken as absent, and listed in `unread` if it is a
//! link, an amount or a time. Bodies
//! of both generations of the provider's API are read, from before and from after 2025-03-31. The
//! fields that a body has decide which generation it is, and not the version that it names.

mod fields;

pub mod charge;
pub mod checkout;
pub mod dispute;
pub mod intent;
pub mod invoice;
pub mod invoice_payment;
pub mod ledger;
pub mod outcome;
mod qualify;
pub mod record;
pub mod refund;
pub mod session;
pub mod status;
pub mod subscription;
pub mod subscription_object;
pub mod thin;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use strum::{EnumString, IntoStaticStr, VariantArray};

use self::fields::{id, named, required, seconds, seconds_in_words, text};
use crate::json::{self, At, Field, Problem, Reading, Unreadable, fields};
use crate::shape::Shape;

pub use self::charge::Charge;
pub use self::dispute::Dispute;
pub use self::fields::Metadata;
pub use self::intent::{Intent, PaymentError};
pub use self::invoice::Invoice;
pub use self::invoice_payment::InvoicePayment;
pub use self::refund::Refund;
pub use self::session::Session;
pub use self::status::{Mode, PaymentStatus, Status};
pub use self::subscription_object::Subscription;

/// Debug shows ids, amounts, times and statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event's id, `evt_..`. Two events with different ids can report the same change.
    pub id: String,
    /// When the event was made, in Unix seconds.
    pub created: i64,
    /// The version of the provider's API, such as `2026-10-28.endive`.
    pub api_version: Option<String>,
    /// Whose object it is, where it is of a connected account and not of the key's own.
    pub account: Option<String>,
    pub kind: EventType,
    pub object: Object,
    /// The members with a value that cannot be read and that nothing depends on.
    pub unread: Vec<&'static str>,
    pub shape: Shape,
}

/// The types of events that something is done with: the six of the contract, and those by which the provider's guides
/// let one hear of the same outcomes (fulfilment, refunds, disputes, billing). Several may report one outcome.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(const_into_str)]
pub enum EventType {
    #[strum(serialize = "payment_intent.succeeded")]
    IntentSucceeded,
    #[strum(serialize = "payment_intent.payment_failed")]
    IntentFailed,
    #[strum(serialize = "payment_intent.canceled")]
    IntentCanceled,
    #[strum(serialize = "charge.refunded")]
    ChargeRefunded,
    /// A refund that the bank refuses days later, among others.
    #[strum(serialize = "charge.refund.updated")]
    ChargeRefundUpdated,
    #[strum(serialize = "refund.created")]
    RefundCreated,
    #[strum(serialize = "refund.updated")]
    RefundUpdated,
    #[strum(serialize = "refund.failed")]
    RefundFailed,
    #[strum(serialize = "charge.dispute.created")]
    DisputeCreated,
    #[strum(serialize = "charge.dispute.updated")]
    DisputeUpdated,
    #[strum(serialize = "charge.dispute.funds_withdrawn")]
    DisputeWithdrawn,
    #[strum(serialize = "charge.dispute.funds_reinstated")]
    DisputeReinstated,
    #[strum(serialize = "charge.dispute.closed")]
    DisputeClosed,
    #[strum(serialize = "checkout.session.completed")]
    SessionCompleted,
    /// The money of a session that was completed unpaid has come.
    #[strum(serialize = "checkout.session.async_payment_succeeded")]
    SessionPaid,
    /// It has not.
    #[strum(serialize = "checkout.session.async_payment_failed")]
    SessionFailed,
    #[strum(serialize = "invoice.payment_succeeded")]
    InvoicePaid,
    /// The same, also of an invoice that was paid outside of the provider.
    #[strum(serialize = "invoice.paid")]
    InvoiceSettled,
    /// Which payment paid an invoice.
    #[strum(serialize = "invoice_payment.paid")]
    InvoicePaymentPaid,
    #[strum(serialize = "customer.subscription.updated")]
    SubscriptionUpdated,
    /// It has ended.
    #[strum(serialize = "customer.subscription.deleted")]
    SubscriptionDeleted,
}

/// The object that an event is about, in its state at the time of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Intent(Intent),
    Charge(Charge),
    Refund(Refund),
    Dispute(Dispute),
    Session(Session),
    Invoice(Invoice),
    InvoicePayment(InvoicePayment),
    Subscription(Subscription),
}

/// An e-mail address. Debug does not show it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Email(pub String);

impl Event {
    /// Reads the body of an event. An error is final, because the same bytes will never be an
    /// event.
    pub fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let envelope: Envelope = json::object(body)?;
        // The provider's thin events have no data. Their `object` is `v2.core.event`, so they are
        // refused here.
        named(envelope.object, "event").at("object")?;
        let kind = required(envelope.kind.text()).at("type")?;
        let kind = kind.parse().map_err(|_| Problem::Foreign).at("type")?;
        let id = match id(envelope.id).at("id")? {
            // Standard Webhooks name the event in a header, and its time in words.
            None if !envelope.timestamp.is_nothing() => id_of(body),
            id => required(Ok(id)).at("id")?,
        };
        let created = match seconds(envelope.created).at("created")? {
            None => seconds_in_words(envelope.timestamp).at("timestamp")?,
            created => created,
        };
        let created = required(Ok(created)).at("created")?;
        let object = object(envelope.data)?;
        let mut reading = Reading {
            is_resource: envelope.livemode.is_present(),
            ..Reading::default()
        };
        let it = &mut reading;
        let object = match kind {
            EventType::IntentSucceeded | EventType::IntentFailed | EventType::IntentCanceled => {
                Object::Intent(Intent::of(object, it)?)
            }
            EventType::ChargeRefunded => Object::Charge(Charge::of(object, it)?),
            EventType::ChargeRefundUpdated
            | EventType::RefundCreated
            | EventType::RefundUpdated
            | EventType::RefundFailed => Object::Refund(Refund::of(object, it)?),
            EventType::DisputeCreated
            | EventType::DisputeUpdated
            | EventType::DisputeWithdrawn
            | EventType::DisputeReinstated
            | EventType::DisputeClosed => Object::Dispute(Dispute::of(object, it)?),
            EventType::SessionCompleted | EventType::SessionPaid | EventType::SessionFailed => {
                Object::Session(Session::of(object, it)?)
            }
            EventType::InvoicePaid | EventType::InvoiceSettled => {
                Object::Invoice(Invoice::of(object, it)?)
            }
            EventType::InvoicePaymentPaid => {
                Object::InvoicePayment(InvoicePayment::of(object, it)?)
            }
            EventType::SubscriptionUpdated | EventType::SubscriptionDeleted => {
                Object::Subscription(Subscription::of(object, it)?)
            }
        };
        Ok(Event {
            id,
            created,
            api_version: text(envelope.api_version),
            // The endpoint of an organisation names the account in `context` alone.
            account: self::id(envelope.account)
                .unwrap_or_default()
                .or_else(|| self::id(envelope.context).unwrap_or_default()),
            kind,
            object,
            unread: reading.unread,
            shape: reading.shape,
        })
    }
}

impl Event {
    pub(crate) fn unread(&self) -> BTreeSet<String> {
        self.unread.iter().map(|name| (*name).to_owned()).collect()
    }
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email")
    }
}

fields! { Envelope {
    id, object, created, timestamp, api_version, account, context, livemode,
    #[serde(rename = "type")]
    kind,
    data,
}}

/// Stands for the id of an event whose body has none: the same for the same body.
fn id_of(body: &[u8]) -> String {
    format!("evt_{}", hex::encode(&Sha256::digest(body)[..16]))
}

fn object(data: Field) -> Result<Field, Unreadable> {
    fields! { Data { object } }

    let data = data.object::<Data>().at("data")?;
    Ok(data.ok_or(Problem::Missing).at("data")?.object)
}
