//! What all events of a payment come to. An event is read into a [`Record`], and the payment is
//! the merge of the records of its events.
//!
//! Merging is commutative, associative and idempotent, because it keeps the greatest reported
//! value of every field. So the provider's events can come in any sequence and any number of
//! times, and two of them may report one change. A fact that was reported is never taken back,
//! amounts that the provider counts up only grow, and of all other fields the newest value stays.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::charge::Charge;
use super::intent::{Intent, PaymentError};
use super::status::Status;
use super::{Dispute, Email, Event, EventType, Object, Refund, dispute, refund};
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
    /// The part of it that is a tip, which no order costs.
    pub tip: i64,
    /// What the charge's events say was refunded in all, by their time in Unix seconds.
    pub returned: BTreeMap<i64, Returned>,
    /// The refunds that have events of their own, by their ids.
    #[thing]
    pub refunds: BTreeMap<String, Refunded>,
    /// By their ids.
    #[thing]
    pub disputes: BTreeMap<String, Disputed>,
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
    /// The connected account that has the payment. None for the key's own.
    #[thing]
    pub account: Option<Part<String>>,
    #[person]
    pub receipt_email: Option<Part<Email>>,
    /// The members of its events that could not be read.
    #[thing]
    pub unread: BTreeSet<String>,
    pub rest: Rest,
}

/// What a charge says was refunded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, row::Record)]
pub struct Returned {
    pub minor: i64,
    /// True when it says that all of it was.
    pub all: bool,
}

/// What its own events say of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refunded {
    pub minor: i64,
    /// When it was made, in Unix seconds.
    pub made: i64,
    pub succeeded: bool,
    /// When it was first said that it failed, in Unix seconds.
    pub failed: Option<i64>,
}

/// What its events say of a dispute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Disputed {
    /// The time of the newest event, in Unix seconds.
    pub at: i64,
    pub status: dispute::Status,
    pub minor: i64,
    /// A code of the provider, such as `fraudulent`.
    pub reason: Option<String>,
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

    /// The amount that went back to the customer, in minor units. A charge counts a refund until it fails. So of each
    /// amount that a charge has reported those refunds are subtracted that it counted and that failed later.
    pub fn refunded(&self) -> i64 {
        let reported = self.returned.iter();
        let reported = reported.map(|(at, said)| said.minor.saturating_sub(self.failed_after(*at)));
        let succeeded = self.refunds.values();
        let succeeded = succeeded.filter(|it| it.succeeded && it.failed.is_none());
        let succeeded = succeeded.fold(0_i64, |sum, it| sum.saturating_add(it.minor));
        reported.fold(succeeded, i64::max)
    }

    /// True when a charge says that all of it was refunded, and none of these refunds failed.
    pub fn is_refunded_in_full(&self) -> bool {
        let mut reported = self.returned.iter();
        reported.any(|(at, said)| said.all && self.failed_after(*at) == 0)
    }

    /// What a charge counted at this time and what failed since, in minor units.
    fn failed_after(&self, at: i64) -> i64 {
        let failed = self.refunds.values();
        let failed = failed.filter(|it| it.made <= at && it.failed.is_some_and(|then| at <= then));
        failed.fold(0, |sum, it| sum.saturating_add(it.minor))
    }

    /// What the customer's bank holds or has kept, in minor units.
    pub fn disputed(&self) -> i64 {
        self.in_disputes(|status| matches!(status, dispute::Status::Open | dispute::Status::Lost))
    }

    /// What the customer's bank has kept, in minor units.
    pub fn lost(&self) -> i64 {
        self.in_disputes(|status| status == dispute::Status::Lost)
    }

    /// True as long as a bank has the money and has not decided.
    pub fn is_disputed(&self) -> bool {
        let mut disputes = self.disputes.values();
        disputes.any(|it| it.status == dispute::Status::Open)
    }

    fn in_disputes(&self, counts: fn(dispute::Status) -> bool) -> i64 {
        let disputes = self.disputes.values().filter(|it| counts(it.status));
        disputes.fold(0, |sum, it| sum.saturating_add(it.minor))
    }

    /// The id of the payment that an event is about, and the record of this event. The id is the
    /// intent's, or the charge's own for a charge that was made without an intent. None for an
    /// event that is about a session or an invoice.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let version = event.version();
        let (id, record) = match &event.object {
            Object::Intent(intent) => {
                let record = Self::of_intent(event.kind, intent, &version);
                (intent.id.as_str(), record)
            }
            Object::Charge(charge) => (charge.payment_id(), Self::of_charge(charge, &version)),
            Object::Refund(refund) => {
                let id = refund.payment_id.as_deref()?;
                (id, Self::of_refund(refund, &version))
            }
            Object::Dispute(dispute) => {
                let id = dispute.payment_id.as_deref()?;
                (id, Self::of_dispute(dispute, &version))
            }
            Object::Session(_)
            | Object::Invoice(_)
            | Object::InvoicePayment(_)
            | Object::Subscription(_) => return None,
        };
        let account = version.optional_part(event.account.as_ref());
        let unread = event.unread();
        Some((
            id,
            Record {
                account,
                unread,
                ..record
            },
        ))
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
            tip: if succeeded { intent.tip } else { 0 },
            amount: Some(version.part(intent.amount.minor)),
            status: version.optional_part(status),
            pact_id: version.optional_part(intent.metadata.pact_id.as_ref()),
            cycle: version.optional_part(intent.metadata.cycle.as_ref()),
            payment_type: version.optional_part(intent.metadata.payment_type.as_ref()),
            transfer_group: version.optional_part(intent.transfer_group.as_ref()),
            invoice: version.optional_part(intent.invoice.as_ref()),
            customer: version.optional_part(intent.customer.as_ref()),
            receipt_email: version.optional_part(intent.receipt_email.as_ref()),
            ..Self::unknown(version.part(intent.amount.currency))
        }
    }

    /// The record of a payment of which only the currency is known.
    fn unknown(currency: Part<Currency>) -> Self {
        Record {
            succeeded: false,
            canceled: None,
            failure: None,
            received: 0,
            tip: 0,
            returned: BTreeMap::new(),
            refunds: BTreeMap::new(),
            disputes: BTreeMap::new(),
            currency,
            amount: None,
            status: None,
            pact_id: None,
            cycle: None,
            payment_type: None,
            transfer_group: None,
            invoice: None,
            customer: None,
            account: None,
            receipt_email: None,
            unread: BTreeSet::new(),
            rest: Rest::default(),
        }
    }

    fn of_refund(refund: &Refund, version: &Version) -> Self {
        let has = |status| refund.status == Some(status);
        let refunded = Refunded {
            minor: refund.amount.minor,
            made: refund.created.unwrap_or(version.created),
            succeeded: has(refund::Status::Succeeded),
            failed: has(refund::Status::Failed).then_some(version.created),
        };
        Record {
            refunds: BTreeMap::from([(refund.id.clone(), refunded)]),
            ..Self::unknown(version.copied().part(refund.amount.currency))
        }
    }

    fn of_dispute(dispute: &Dispute, version: &Version) -> Self {
        let disputed = Disputed {
            at: version.created,
            status: dispute.status.unwrap_or(dispute::Status::Inquiry),
            minor: dispute.amount.minor,
            reason: dispute.reason.clone(),
        };
        Record {
            disputes: BTreeMap::from([(dispute.id.clone(), disputed)]),
            ..Self::unknown(version.copied().part(dispute.amount.currency))
        }
    }

    fn of_charge(charge: &Charge, version: &Version) -> Self {
        // The charge of an intent may be of less than the intent's amount.
        let is_the_payment = charge.payment_intent.is_none();
        let refunded = charge.returned();
        let copied = if is_the_payment {
            version.clone()
        } else {
            version.copied()
        };
        let said = Returned {
            minor: refunded,
            all: charge.fully_refunded,
        };
        let said = (refunded > 0).then_some((version.created, said));
        Record {
            returned: said.into_iter().collect(),
            amount: is_the_payment.then(|| version.part(charge.amount.minor)),
            pact_id: copied.optional_part(charge.metadata.pact_id.as_ref()),
            cycle: copied.optional_part(charge.metadata.cycle.as_ref()),
            payment_type: copied.optional_part(charge.metadata.payment_type.as_ref()),
            transfer_group: copied.optional_part(charge.transfer_group.as_ref()),
            invoice: copied.optional_part(charge.invoice.as_ref()),
            customer: copied.optional_part(charge.customer.as_ref()),
            ..Self::unknown(version.part(charge.amount.currency))
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
        self.tip = self.tip.max(other.tip);
        for (at, said) in other.returned {
            let known = self.returned.entry(at).or_insert(said);
            *known = said.max(*known);
        }
        for (id, refund) in other.refunds {
            let known = self.refunds.entry(id).or_insert(refund);
            known.merge(refund);
        }
        for (id, dispute) in other.disputes {
            let known = self.disputes.entry(id).or_insert_with(|| dispute.clone());
            newest(known, dispute);
        }
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
        newest(&mut self.account, other.account);
        newest(&mut self.receipt_email, other.receipt_email);
        self.unread.extend(other.unread);
    }
}

impl Refunded {
    fn merge(&mut self, other: Refunded) {
        self.minor = self.minor.max(other.minor);
        self.made = self.made.min(other.made);
        self.succeeded |= other.succeeded;
        self.failed = match (self.failed, other.failed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
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
    /// The version of what was copied from the intent when another object was made, and not since: each event of the
    /// intent says it better.
    fn copied(&self) -> Version {
        Version {
            created: self.created.saturating_sub(BEFORE_ALL),
            event: self.event.clone(),
        }
    }

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
