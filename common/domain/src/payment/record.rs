//! What all events of a payment come to. An event is read into a [`Record`]; the payment is
//! the merge of the records of its events.
//!
//! Merging is commutative, associative and idempotent, because every field is the greatest
//! that was reported: the provider's events come in any order, any number of times, and two may
//! report one change. What happened is never taken back; amounts that the provider counts up only
//! grow; of the rest the newest counts.

use serde::{Deserialize, Serialize};

use super::charge::Charge;
use super::intent::{Intent, PaymentError};
use super::status::Status;
use super::{Email, Event, Kind, Object};
use crate::money::Currency;

/// Which of two events is the newer: by the provider's second, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Unix seconds.
    pub created: i64,
    /// `evt_..`
    pub event: String,
}

/// A part as the newest event that had it said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part<T> {
    pub version: Version,
    pub value: T,
}

/// Amounts are minor units of the currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub succeeded: bool,
    /// When it was canceled first, in Unix seconds.
    pub canceled: Option<i64>,
    /// The latest attempt that failed.
    pub failure: Option<Part<PaymentError>>,
    /// What was captured; zero until it succeeded.
    pub received: i64,
    /// Money that went back.
    pub refunded: i64,
    pub fully_refunded: bool,
    pub currency: Part<Currency>,
    pub amount: Option<Part<i64>>,
    /// What the provider called it; the facts decide its state.
    pub status: Option<Part<Status>>,
    /// The agreement that is paid.
    pub pact_id: Option<Part<String>>,
    /// Which fulfilment of the agreement is paid.
    pub cycle: Option<Part<String>>,
    /// The merchant's own word for the sort of payment.
    pub payment_type: Option<Part<String>>,
    pub transfer_group: Option<Part<String>>,
    /// The invoice that is paid, as far as the provider says.
    pub invoice: Option<Part<String>>,
    pub customer: Option<Part<String>>,
    pub receipt_email: Option<Part<Email>>,
}

impl Record {
    /// Forgets whom it is of, but for ids.
    pub fn forget_person(&mut self) {
        self.receipt_email = None;
    }

    /// The payment that an event is about, by its id, and what the event says of it.
    /// The id is the intent's, or the charge's when that was made without one.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let version = event.version();
        match &event.object {
            Object::Intent(intent) => {
                Some((&intent.id, Self::of_intent(event.kind, intent, &version)))
            }
            Object::Charge(charge) => {
                Some((charge.payment_id(), Self::of_charge(charge, &version)))
            }
            Object::Session(_) | Object::Invoice(_) => None,
        }
    }

    /// The type of the event says what happened, unless the intent's status contradicts it.
    fn of_intent(kind: Kind, intent: &Intent, version: &Version) -> Self {
        let status = intent.status.as_ref();
        let succeeded =
            kind == Kind::IntentSucceeded && matches!(status, None | Some(Status::Succeeded));
        let failed = kind == Kind::IntentFailed
            && !matches!(status, Some(Status::Succeeded | Status::Canceled));
        let mut failure = failed.then(|| intent.error.clone().unwrap_or_default());
        if let (Some(failure), Some(_)) = (&mut failure, &intent.invoice) {
            // The provider tries an invoice again itself.
            failure.payment_method = None;
        }
        let canceled =
            kind == Kind::IntentCanceled && matches!(status, None | Some(Status::Canceled));
        Record {
            succeeded,
            canceled: canceled.then_some(version.created),
            failure: version.optional_part(failure.as_ref()),
            received: if succeeded { intent.received.minor } else { 0 },
            refunded: 0,
            fully_refunded: false,
            currency: version.part(intent.amount.currency),
            amount: Some(version.part(intent.amount.minor)),
            status: version.optional_part(status),
            pact_id: version.optional_part(intent.metadata.pact_id.as_ref()),
            cycle: version.optional_part(intent.metadata.cycle.as_ref()),
            payment_type: version.optional_part(intent.metadata.payment_type.as_ref()),
            transfer_group: version.optional_part(intent.transfer_group.as_ref()),
            invoice: version.optional_part(intent.invoice.as_ref()),
            customer: version.optional_part(intent.customer.as_ref()),
            receipt_email: version.optional_part(intent.receipt_email.as_ref()),
        }
    }

    fn of_charge(charge: &Charge, version: &Version) -> Self {
        // An intent's charge may be of less than the intent.
        let is_the_payment = charge.payment_intent.is_none();
        let refunded = charge.returned();
        Record {
            succeeded: false,
            canceled: None,
            failure: None,
            received: 0,
            refunded,
            fully_refunded: charge.fully_refunded && refunded > 0,
            currency: version.part(charge.amount.currency),
            amount: is_the_payment.then(|| version.part(charge.amount.minor)),
            status: None,
            pact_id: version.optional_part(charge.metadata.pact_id.as_ref()),
            cycle: version.optional_part(charge.metadata.cycle.as_ref()),
            payment_type: version.optional_part(charge.metadata.payment_type.as_ref()),
            transfer_group: version.optional_part(charge.transfer_group.as_ref()),
            invoice: version.optional_part(charge.invoice.as_ref()),
            customer: version.optional_part(charge.customer.as_ref()),
            receipt_email: None,
        }
    }

    /// Takes in what another event said, newer or older.
    pub fn merge(&mut self, other: Record) {
        self.succeeded |= other.succeeded;
        self.canceled = match (self.canceled, other.canceled) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.received = self.received.max(other.received);
        self.refunded = self.refunded.max(other.refunded);
        self.fully_refunded |= other.fully_refunded;
        newest(&mut self.failure, other.failure);
        newest(&mut self.currency, other.currency);
        newest(&mut self.amount, other.amount);
        newest(&mut self.status, other.status);
        newest(&mut self.pact_id, other.pact_id);
        newest(&mut self.cycle, other.cycle);
        newest(&mut self.payment_type, other.payment_type);
        newest(&mut self.transfer_group, other.transfer_group);
        newest(&mut self.invoice, other.invoice);
        newest(&mut self.customer, other.customer);
        newest(&mut self.receipt_email, other.receipt_email);
    }
}

/// Whether a payment that failed is the provider's to try again, and not ours.
///
/// We try what we or a checkout began: it names an agreement, or a session in the mode `payment`
/// led to it. Since 2025-03-31 the intent of an invoice does not say what it is of, but such a one
/// names no agreement of ours; it is left to the provider's own schedule. So is one that has
/// nothing to be tried with: no payment method was named, or an older intent says that it is of an
/// invoice (its method is left out when it is read).
pub fn is_left_to_provider(
    has_agreement: bool,
    is_of_checkout: bool,
    failure: &PaymentError,
) -> bool {
    !(has_agreement || is_of_checkout) || failure.payment_method.is_none()
}

impl Event {
    pub fn version(&self) -> Version {
        Version {
            created: self.created,
            event: self.id.clone(),
        }
    }
}

impl Version {
    pub(super) fn part<T>(&self, value: T) -> Part<T> {
        Part {
            version: self.clone(),
            value,
        }
    }

    /// What an event leaves out stays as an earlier one said.
    pub(super) fn optional_part<T: Clone>(&self, value: Option<&T>) -> Option<Part<T>> {
        value.map(|value| self.part(value.clone()))
    }
}

/// Of parts the version decides, and the value where two events should have one id; any
/// part is newer than none.
pub(super) fn newest<T: Ord>(part: &mut T, other: T) {
    if other > *part {
        *part = other;
    }
}
