//! What all events of a checkout session come to: whether it is paid for, and what it led
//! to. The greatest of each field counts, as with payments.

use super::record::{Part, newest};
use super::status::{Mode, PaymentStatus};
use super::{Email, Event, Object};
use crate::money::Currency;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The furthest: what was paid for stays so.
    pub payment_status: Option<PaymentStatus>,
    pub mode: Option<Part<Mode>>,
    /// Minor units of the currency.
    pub total: Option<Part<i64>>,
    pub currency: Option<Part<Currency>>,
    pub payment_intent: Option<Part<String>>,
    pub subscription: Option<Part<String>>,
    pub invoice: Option<Part<String>>,
    pub customer: Option<Part<String>>,
    pub client_reference_id: Option<Part<String>>,
    pub pact_id: Option<Part<String>>,
    pub email: Option<Part<Email>>,
}

impl Record {
    /// Forgets whom it is of, but for ids of the provider.
    pub fn forget_person(&mut self) {
        self.email = None;
        self.client_reference_id = None;
    }

    /// The session that an event is about, by its id, and what the event says of it.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let Object::Session(session) = &event.object else {
            return None;
        };
        let version = event.version();
        let record = Record {
            payment_status: session.payment_status.clone(),
            mode: version.told(session.mode.as_ref()),
            total: session.total.map(|total| version.tells(total.minor)),
            currency: version.told(session.currency.as_ref()),
            payment_intent: version.told(session.payment_intent.as_ref()),
            subscription: version.told(session.subscription.as_ref()),
            invoice: version.told(session.invoice.as_ref()),
            customer: version.told(session.customer.as_ref()),
            client_reference_id: version.told(session.client_reference_id.as_ref()),
            pact_id: version.told(session.pact_id.as_ref()),
            email: version.told(session.email.as_ref()),
        };
        Some((&session.id, record))
    }

    /// Takes in what another event said, newer or older.
    pub fn join(&mut self, other: Record) {
        newest(&mut self.payment_status, other.payment_status);
        newest(&mut self.mode, other.mode);
        newest(&mut self.total, other.total);
        newest(&mut self.currency, other.currency);
        newest(&mut self.payment_intent, other.payment_intent);
        newest(&mut self.subscription, other.subscription);
        newest(&mut self.invoice, other.invoice);
        newest(&mut self.customer, other.customer);
        newest(&mut self.client_reference_id, other.client_reference_id);
        newest(&mut self.pact_id, other.pact_id);
        newest(&mut self.email, other.email);
    }

    /// Paid, or free of charge. A subscription that starts with a trial is not paid for yet.
    pub fn is_settled(&self) -> bool {
        let mode = self.mode.as_ref().map(|part| &part.value);
        match self.payment_status {
            Some(PaymentStatus::Paid) => true,
            Some(PaymentStatus::NoPaymentRequired) => matches!(mode, None | Some(Mode::Payment)),
            _ => false,
        }
    }
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Completed,
    Settled,
}

/// The changes from one record of a session to a later one; each comes once.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let mut changes = Vec::new();
    if before.is_none() {
        changes.push(Change::Completed);
    }
    if after.is_settled() && !before.is_some_and(Record::is_settled) {
        changes.push(Change::Settled);
    }
    changes
}
