//! What all events of a payment come to. An event is read into a [`Record`], and the payment is
//! the merge of the records of its events.
//!
//! Merging is commutative, associative and idempotent, because it keeps the greatest reported
//! value of every field. So the provider's events can come in any sequence and any number of
//! times, and two of them may report one change. A fact that was reported is never taken back,
//! amounts that the provider counts up only grow, and of all other fields the newest value stays.

use serde::{Deserialize, Serialize};

use super::charge::Charge;
use super::intent::{Intent, PaymentError};
use super::status::Status;
use super::{Email, Event, EventType, Object};
use crate::money::Currency;
use crate::record::{Class, Forget, Rest, member, newest, things};

/// Which of two events is newer: the one with the later second of the provider, then the one with
/// the greater id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Unix seconds.
    pub created: i64,
    /// The event's id, `evt_..`.
    pub event: String,
}

/// A part of a payment, as the newest event that has this part reports it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part<T> {
    pub version: Version,
    pub value: T,
}

things!(Version);

impl<T: Forget> Forget for Part<T> {
    fn forget_person(&mut self) {
        self.value.forget_person();
    }

    fn classes(at: &str, see: &mut dyn FnMut(&str, Class)) {
        see(&member(at, "version"), Class::Thing);
        T::classes(&member(at, "value"), see);
    }
}

/// The text of a part.
pub fn text(part: &Option<Part<String>>) -> Option<&str> {
    part.as_ref().map(|part| part.value.as_str())
}

/// Amounts are minor units of the currency.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    pub succeeded: bool,
    /// When the payment was canceled for the first time, in Unix seconds.
    pub canceled: Option<i64>,
    /// The latest attempt that failed.
    pub failure: Option<Part<PaymentError>>,
    /// The amount that was captured. Zero until the payment succeeded.
    pub received: i64,
    /// The amount that was refunded.
    pub refunded: i64,
    pub fully_refunded: bool,
    #[required]
    pub currency: Part<Currency>,
    pub amount: Option<Part<i64>>,
    /// The provider's word for the state. [`Record::state`] decides by the facts, and uses this
    /// word only when there are none.
    pub status: Option<Part<Status>>,
    /// The id of the agreement that is paid.
    #[thing]
    pub pact_id: Option<Part<String>>,
    /// The name of the cycle of the agreement that is paid.
    #[thing]
    pub cycle: Option<Part<String>>,
    /// The merchant's own word for the sort of payment.
    #[thing]
    pub payment_type: Option<Part<String>>,
    #[thing]
    pub transfer_group: Option<Part<String>>,
    /// The id of the invoice that is paid, if the provider names it.
    #[thing]
    pub invoice: Option<Part<String>>,
    #[thing]
    pub customer: Option<Part<String>>,
    #[person]
    pub receipt_email: Option<Part<Email>>,
    pub rest: Rest,
}

/// Ten thousand years, in seconds: what is so much older is older than every event.
const BEFORE_ALL: i64 = 10_000 * 365 * 24 * 60 * 60;

impl Record {
    pub fn email(&self) -> Option<&str> {
        let email = self.receipt_email.as_ref();
        email.map(|part| part.value.0.as_str())
    }

    /// The amount that is to be paid. Zero as long as no event says it.
    pub fn amount(&self) -> i64 {
        self.amount.as_ref().map_or(0, |part| part.value)
    }

    /// The id of the payment that an event is about, and the record of this event. The id is the
    /// intent's, or the charge's own for a charge that was made without an intent. None for an
    /// event that is about a session or an invoice.
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
    fn of_intent(kind: EventType, intent: &Intent, version: &Version) -> Self {
        let status = intent.status.as_ref();
        let succeeded =
            kind == EventType::IntentSucceeded && matches!(status, None | Some(Status::Succeeded));
        let failed = kind == EventType::IntentFailed
            && !matches!(status, Some(Status::Succeeded | Status::Canceled));
        let mut failure = failed.then(|| intent.error.clone().unwrap_or_default());
        if let (Some(failure), Some(_)) = (&mut failure, &intent.invoice) {
            // The provider itself tries the payment of an invoice again, so we keep no payment
            // method to try it with.
            failure.payment_method = None;
        }
        let canceled =
            kind == EventType::IntentCanceled && matches!(status, None | Some(Status::Canceled));
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
            rest: Rest::default(),
        }
    }

    fn of_charge(charge: &Charge, version: &Version) -> Self {
        // The charge of an intent may be of less than the intent's amount.
        let is_the_payment = charge.payment_intent.is_none();
        let refunded = charge.returned();
        // Copied from the intent when the charge was made, and not since: each event of the intent says it better.
        let copied = Version {
            created: if is_the_payment {
                version.created
            } else {
                version.created.saturating_sub(BEFORE_ALL)
            },
            event: version.event.clone(),
        };
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
            pact_id: copied.optional_part(charge.metadata.pact_id.as_ref()),
            cycle: copied.optional_part(charge.metadata.cycle.as_ref()),
            payment_type: copied.optional_part(charge.metadata.payment_type.as_ref()),
            transfer_group: copied.optional_part(charge.transfer_group.as_ref()),
            invoice: copied.optional_part(charge.invoice.as_ref()),
            customer: copied.optional_part(charge.customer.as_ref()),
            receipt_email: None,
            rest: Rest::default(),
        }
    }

    /// Merges the record of another event, newer or older, into this one.
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

/// True when it is left to the provider, and not to us, to try a failed payment again.
///
/// We try again what we or a checkout began: a payment that names an agreement, or that a session
/// in the mode `payment` led to. All others are left to the provider's own schedule. Among them
/// are payments of invoices: since 2025-03-31 an intent does not say that it is of an invoice,
/// but such an intent names no agreement of ours. A payment without a payment method is left to
/// the provider too, because there is nothing to try it with. That includes older intents that
/// name their invoice, because reading such an intent leaves its payment method out.
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

    /// A part of the event, or None when the event does not have it, so that the value of an
    /// earlier event stays.
    pub(super) fn optional_part<T: Clone>(&self, value: Option<&T>) -> Option<Part<T>> {
        value.map(|value| self.part(value.clone()))
    }
}
