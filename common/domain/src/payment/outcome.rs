//! What follows from the record of a payment: its state, and the changes that are reported.
//! Everything here is computed from the record alone, so the sequence in which the events came
//! makes no difference.

use super::dispute;
use super::record::{Disputed, Record, text};
use super::status::Status;
use crate::order::settlement::Cycle;

/// How far a payment has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Succeeded,
    PartiallyRefunded,
    Refunded,
    /// The customer's bank has taken the money back and has not decided whose it is.
    Disputed,
    /// The customer's bank has taken all that was left.
    ChargedBack,
    Canceled,
    /// The latest attempt failed, and another attempt may follow.
    RequiresPaymentMethod,
    /// The provider's own status.
    Other(Status),
    Unknown,
}

impl State {
    /// The states that are not the provider's own status.
    pub const KNOWN: [State; 7] = [
        State::RequiresPaymentMethod,
        State::Succeeded,
        State::PartiallyRefunded,
        State::Refunded,
        State::Disputed,
        State::ChargedBack,
        State::Canceled,
    ];

    pub fn as_str(&self) -> &str {
        match self {
            State::Succeeded => "succeeded",
            State::PartiallyRefunded => "partially_refunded",
            State::Refunded => "refunded",
            State::Disputed => "disputed",
            State::ChargedBack => "charged_back",
            State::Canceled => "canceled",
            State::RequiresPaymentMethod => "requires_payment_method",
            State::Other(status) => status.as_str(),
            State::Unknown => "unknown",
        }
    }
}

impl Record {
    /// The state of the payment. Money that came in counts before everything else, and a canceled
    /// payment is not tried again.
    pub fn state(&self) -> State {
        let refunded = self.refunded();
        if self.is_disputed() {
            State::Disputed
        } else if self.is_refunded_in_full() || (self.received > 0 && refunded >= self.received) {
            State::Refunded
        } else if self.lost() > 0 && self.kept() == 0 {
            State::ChargedBack
        } else if refunded > 0 {
            State::PartiallyRefunded
        } else if self.succeeded {
            State::Succeeded
        } else if self.canceled.is_some() {
            State::Canceled
        } else if self.failure.is_some() {
            State::RequiresPaymentMethod
        } else {
            let status = self.status.as_ref().map(|part| part.value.clone());
            status.map_or(State::Unknown, State::Other)
        }
    }

    /// True when all of it went back, to the customer or to the customer's bank.
    pub fn is_all_back(&self) -> bool {
        let gone = self.refunded().saturating_add(self.lost());
        self.is_refunded_in_full() || (self.received > 0 && gone >= self.received)
    }

    /// True when money came in, even if that is only known because some of it went back.
    pub fn is_paid(&self) -> bool {
        self.succeeded
            || !self.returned.is_empty()
            || !self.refunds.is_empty()
            || !self.disputes.is_empty()
    }

    pub fn agreement(&self) -> Option<&str> {
        text(&self.pact_id)
    }

    /// The cycle of the agreement that is paid.
    pub fn cycle(&self) -> Cycle {
        Cycle::named(text(&self.cycle))
    }

    /// What was captured less what was refunded and what the customer's bank has kept, in minor units.
    pub fn kept(&self) -> i64 {
        if self.is_refunded_in_full() {
            return 0;
        }
        let back = self.refunded().saturating_add(self.lost());
        self.received.saturating_sub(back).max(0)
    }
}

/// What happened to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another attempt failed, and none has succeeded yet.
    Failed,
    Canceled,
    Succeeded,
    /// The agreement that is paid became known.
    AgreementLinked,
    /// The agreement is a different one from the one reported before.
    AgreementChanged,
    /// This many more minor units were refunded.
    Refunded {
        by: i64,
    },
    /// Refunds of this many minor units have failed.
    RefundFailed {
        by: i64,
    },
    /// The customer's bank says whose this many minor units are.
    Disputed {
        status: dispute::Status,
        minor: i64,
    },
}

/// The changes from one record of a payment to a later one, in the sequence in which they are
/// reported. `Succeeded`, `Canceled` and `AgreementLinked` come at most once in the life of a payment.
/// `Failed` and `Canceled` never come after money came in. The amounts of all `Refunded`, less those of all
/// `RefundFailed`, add up to what was refunded.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let known = |fact: fn(&Record) -> bool| before.is_some_and(fact);
    let mut changes = Vec::new();
    let failed = failed_since(before, after);
    if failed && !after.is_paid() && after.canceled.is_none() {
        changes.push(Change::Failed);
    }
    if after.canceled.is_some() && !after.is_paid() && !known(|before| before.canceled.is_some()) {
        changes.push(Change::Canceled);
    }
    if after.succeeded && !known(|before| before.succeeded) {
        changes.push(Change::Succeeded);
    }
    match (before.and_then(Record::agreement), after.agreement()) {
        (None, Some(_)) => changes.push(Change::AgreementLinked),
        (Some(was), Some(is)) if was != is => changes.push(Change::AgreementChanged),
        _ => {}
    }
    match after.refunded() - before.map_or(0, Record::refunded) {
        by @ 1.. => changes.push(Change::Refunded { by }),
        0 => {}
        by => changes.push(Change::RefundFailed { by: -by }),
    }
    for (id, dispute) in &after.disputes {
        let was = before.and_then(|before| before.disputes.get(id));
        let Disputed { status, minor, .. } = *dispute;
        if was.is_none_or(|was| was.status != status) && status != dispute::Status::Inquiry {
            changes.push(Change::Disputed { status, minor });
        }
    }
    changes
}

/// The ids of the refunds that have failed from one record of a payment to a later one.
pub fn failed_refunds<'a>(
    before: Option<&'a Record>,
    after: &'a Record,
) -> impl Iterator<Item = &'a str> {
    let had_failed = move |id: &str| {
        let was = before.and_then(|before| before.refunds.get(id));
        was.is_some_and(|refund| refund.failed.is_some())
    };
    let failed = after.refunds.iter().filter(|(_, it)| it.failed.is_some());
    failed
        .filter(move |(id, _)| !had_failed(id))
        .map(|(id, _)| id.as_str())
}

/// True when `after` has a failed attempt that `before` does not have. Two events of one attempt
/// are one failure. An attempt without a charge is recognized by its second and its error codes.
fn failed_since(before: Option<&Record>, after: &Record) -> bool {
    let was = before.and_then(|before| before.failure.as_ref());
    let (Some(was), Some(is)) = (was, after.failure.as_ref()) else {
        return after.failure.is_some();
    };
    match (&was.value.charge, &is.value.charge) {
        (Some(was), Some(is)) => was != is,
        _ => (was.version.created, &was.value) != (is.version.created, &is.value),
    }
}
