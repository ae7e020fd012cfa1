//! The events of a payment's changes.

use domain::event::{DisputedAmount, PaymentEvent};
use domain::money::Money;
use domain::payment::dispute::Status;
use domain::payment::outcome::{Change, State};
use domain::payment::record::Record;
use domain::time::Timestamp;

pub(super) fn event_of(
    change: Change,
    before: Option<&Record>,
    after: &Record,
) -> Option<PaymentEvent> {
    let pact_id = after.agreement().map(ToOwned::to_owned);
    let currency = after.currency.value.to_string();
    Some(match change {
        Change::Succeeded => PaymentEvent::Succeeded {
            pact_id,
            fulfillment_cycle: cycle(after),
            amount: amount(after.received, after),
            currency,
        },
        Change::Failed => {
            let failure = after.failure.as_ref().map(|part| part.value.clone());
            let (code, decline_code) = failure.map(|it| (it.code, it.decline_code)).unzip();
            PaymentEvent::Failed {
                pact_id,
                amount: after.amount.as_ref().map(|part| amount(part.value, after)),
                currency,
                code: code.flatten(),
                decline_code: decline_code.flatten(),
            }
        }
        Change::Canceled => PaymentEvent::Canceled {
            pact_id,
            canceled_at: Timestamp::from_unix_seconds(after.canceled?),
        },
        Change::Refunded { by } => PaymentEvent::Refunded {
            pact_id,
            customer_id: after.customer.as_ref().map(|part| part.value.clone()),
            amount: amount(by, after),
            refunded: amount(after.refunded(), after),
            in_full: after.state() == State::Refunded,
            currency,
        },
        Change::RefundFailed { by } => PaymentEvent::RefundFailed {
            pact_id,
            amount: amount(by, after),
            refunded: amount(after.refunded(), after),
            currency,
        },
        Change::Disputed { status, minor } => {
            let disputed = DisputedAmount {
                pact_id,
                amount: amount(minor, after),
                currency,
            };
            match status {
                Status::Inquiry => return None,
                Status::Open => PaymentEvent::Disputed(disputed),
                Status::Lost => PaymentEvent::DisputeLost(disputed),
                Status::Won => PaymentEvent::DisputeWon(disputed),
            }
        }
        Change::AgreementChanged => PaymentEvent::AgreementChanged {
            pact_id: pact_id?,
            was: before?.agreement()?.to_owned(),
        },
        // The event of `released` says so.
        Change::AgreementLinked => return None,
    })
}

/// The event that the money of a payment belongs to its agreement from now on: what is left of it.
pub(super) fn released(before: Option<&Record>, after: &Record) -> Option<PaymentEvent> {
    if after.kept() <= 0 || !is_released(after) || before.is_some_and(is_released) {
        return None;
    }
    Some(PaymentEvent::FundsReleased {
        pact_id: after.agreement()?.to_owned(),
        fulfillment_cycle: cycle(after),
        amount: amount(after.kept(), after),
        currency: after.currency.value.to_string(),
    })
}

fn is_released(record: &Record) -> bool {
    record.succeeded && record.received > 0 && record.pact_id.is_some()
}

fn cycle(record: &Record) -> Option<String> {
    record.cycle.as_ref().map(|part| part.value.clone())
}

fn amount(minor: i64, record: &Record) -> String {
    let currency = record.currency.value;
    Money { minor, currency }.to_string()
}
