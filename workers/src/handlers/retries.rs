//! Collecting a payment that failed: 1, 24 and 72 hours after the first failure the payment
//! provider is asked to try its payment method again. The job's id is the idempotency key. How
//! an attempt ends, the provider's events say too.
//!
//! Each attempt looks, at the moment at which it is made, whether its reason still stands: its
//! job may run late, because workers were away, or once more, because somebody replays it. It is
//! stopped when nothing is owed any more, when the failure is too old, or when a later attempt of
//! the schedule is due too; and it waits when another one was made a short time ago.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use domain::code::Code;
use domain::job::Job;
use domain::payment::PaymentError;
use domain::payment::record::{Record, is_left_to_provider};
use domain::time::Timestamp;
use platform::clock::Clock;
use providers::CallFailure;
use providers::payment::{Confirmed, IdempotencyKey, Payment};
use serde::Deserialize;
use serde_json::json;
use store::payment_retries::{self, Attempt, NewRetry, State, Turn};
use store::sql::{self, Db, Tx};
use store::{jobs, orders};

use super::outbox::{self, Outbox};
use super::{Answer, KEYS_A_RUN, Providers};
use crate::failure::Later;

pub const KIND: &str = "payments/retry";

/// After the first failure.
const PAUSES: [Duration; 3] = [
    Duration::from_hours(1),
    Duration::from_hours(24),
    Duration::from_hours(72),
];

/// Between two attempts at one payment, as they were really made.
const AT_LEAST_APART: Duration = Duration::from_hours(12);

/// A day after the last of the schedule. By then the customer has paid otherwise, or given it up.
const TOO_OLD: Duration = Duration::from_hours(96);

/// Card networks forbid trying these again; the customer must bring another card.
const FINAL: [&str; 7] = [
    "fraudulent",
    "lost_card",
    "merchant_blacklist",
    "pickup_card",
    "restricted_card",
    "revocation_of_all_authorizations",
    "stolen_card",
];

#[derive(Deserialize)]
struct Body {
    payment_id: String,
    number: i64,
}

/// Schedules the attempts of payments that failed for the first time, and stops those that
/// must not be tried again.
pub async fn schedule(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    failed: &[(String, Record)],
) -> Result<()> {
    if failed.is_empty() || outbox.context.config.payment_api.is_none() {
        return Ok(());
    }
    let ids = failed.iter().map(|(id, _)| id.clone()).collect();
    let known: HashSet<String> = payment_retries::scheduled_of(tx, ids)
        .await?
        .into_iter()
        .collect();
    let ids = failed.iter().map(|(id, _)| id.clone()).collect();
    let of_checkouts = payment_retries::of_checkouts(tx, ids).await?;
    let mut retries = Vec::new();
    let mut forbidden = Vec::new();
    for (id, record) in failed {
        if !can_be_retried(record, of_checkouts.contains(id)) {
            forbidden.push(id.clone());
            continue;
        }
        if known.contains(id) {
            continue;
        }
        for (number, pause) in (1..).zip(PAUSES) {
            let due_at = outbox.now.plus(pause);
            let body = json!({ "payment_id": id, "number": number });
            retries.push(NewRetry {
                payment_id: id.clone(),
                number,
                job_id: outbox.job_of(KIND, id, &body, due_at),
                due_at,
            });
        }
    }
    payment_retries::insert(tx, &retries, outbox.now).await?;
    stop(outbox, tx, forbidden).await
}

fn can_be_retried(record: &Record, is_of_checkout: bool) -> bool {
    let failure = record.failure.as_ref().map(|part| &part.value);
    failure.is_some_and(|failure| {
        !is_left_to_provider(record.pact().is_some(), is_of_checkout, failure) && !is_final(failure)
    })
}

fn is_final(failure: &PaymentError) -> bool {
    FINAL.contains(&failure.decline_code.as_deref().unwrap_or_default())
}

/// Stops the attempts at payments that were paid or canceled.
pub async fn stop(outbox: &mut Outbox<'_>, tx: &mut Tx, payments: Vec<String>) -> Result<()> {
    if payments.is_empty() {
        return Ok(());
    }
    let stopped = payment_retries::stop(tx, payments, outbox.now).await?;
    if !stopped.is_empty() {
        jobs::finish(tx, &stopped, outbox.now).await?;
    }
    Ok(())
}

/// What became of an attempt.
pub enum Tried {
    Answered(Confirmed),
    /// The provider refuses it for good, and will refuse the others.
    Refused(String),
    /// It was not made: by now its reason is gone. The code says how, if there is more to say
    /// than that nothing is owed any more.
    Stopped(Option<&'static str>),
}

/// Asks the payment provider, when the attempt is still to be made at this moment, whoever
/// started its job.
pub async fn call(db: &Db, clock: &Clock, providers: &Providers, job: &Job) -> Result<Answer> {
    let body: Body = outbox::body(job)?;
    let now = clock.now();
    let attempt = payment_retries::wanted(db, &body.payment_id, body.number, now).await?;
    let Some(attempt) = attempt else {
        return Ok(Answer::NotAsked);
    };
    if attempt.payment_state != "requires_payment_method" || is_settled(db, &attempt).await? {
        return Ok(Answer::Retry(Tried::Stopped(None)));
    }
    if let Some(code) = reason_to_stop(&attempt, now) {
        return Ok(Answer::Retry(Tried::Stopped(Some(code))));
    }
    let Some(provider) = &providers.payment else {
        anyhow::bail!("PAYMENT_API_URL and PAYMENT_API_KEY are not set in this process");
    };
    if provider.is_left_alone() {
        return Err(CallFailure::Paused("payment").into());
    }
    let turn =
        payment_retries::take_turn(db, &body.payment_id, body.number, AT_LEAST_APART, now).await?;
    let (key_number, is_first) = match turn {
        Turn::Now {
            key_number,
            is_first,
        } => (key_number, is_first),
        Turn::At(next) => {
            return Err(anyhow::Error::new(Later {
                why: "another attempt at this payment was made a short while ago",
                pause: next.since(now),
            }));
        }
        Turn::Gone => return Ok(Answer::NotAsked),
    };
    let key = IdempotencyKey {
        job: job.id,
        number: key_number,
    };
    let method = attempt.failure.payment_method.as_deref();
    let answer = confirm(db, clock, provider, &body, method, key, is_first).await?;
    Ok(Answer::Retry(match answer {
        Ok(answer) => Tried::Answered(answer),
        Err(refused @ CallFailure::Refused { .. }) => Tried::Refused(refused.to_string()),
        Err(failure) => return Err(super::fulfillments::failed(failure)),
    }))
}

/// Whether nothing is owed any more: the order of the agreement is cancelled, or paid, which is
/// its first cycle, or another payment of the same cycle was made.
async fn is_settled(db: &Db, attempt: &Attempt) -> Result<bool> {
    let order = match &attempt.pact_id {
        Some(pact_id) => orders::owner(db, pact_id).await?,
        None => None,
    };
    let is_first = attempt.cycle.is_first();
    let is_settled = order.is_some_and(|it| it.is_cancelled || (is_first && it.is_paid));
    Ok(is_settled || attempt.is_paid_otherwise)
}

/// Why an attempt at a payment that is owed is not made all the same.
fn reason_to_stop(attempt: &Attempt, now: Timestamp) -> Option<&'static str> {
    let age = attempt.failed_at.map(|at| now.since(at));
    if is_left_to_provider(
        attempt.pact_id.is_some(),
        attempt.is_of_checkout,
        &attempt.failure,
    ) {
        Some("left_to_provider")
    } else if is_final(&attempt.failure) {
        Some("forbidden")
    } else if age.is_some_and(|age| age > TOO_OLD) {
        Some("too_late")
    } else if attempt.is_superseded {
        Some("superseded")
    } else {
        None
    }
}

/// Asks under this key. What is not asked for the first time, or was answered with a failure that
/// the provider keeps, is looked for first, and then asked under the next key.
async fn confirm(
    db: &Db,
    clock: &Clock,
    provider: &Payment,
    body: &Body,
    method: Option<&str>,
    mut key: IdempotencyKey,
    is_first: bool,
) -> Result<Result<Confirmed, CallFailure>> {
    let mut keys = 1;
    loop {
        if keys > 1 || !is_first {
            match provider.find_confirmed(&body.payment_id).await {
                Ok(None) => {}
                Ok(Some(found)) => return Ok(Ok(found)),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let answer = provider.confirm(&body.payment_id, method, key).await;
        let Err(CallFailure::Stored { .. }) = answer else {
            return Ok(answer);
        };
        key.number += 1;
        let (id, number) = (&body.payment_id, body.number);
        payment_retries::try_again(db, id, number, key.number, clock.now()).await?;
        if keys == KEYS_A_RUN {
            return Ok(answer);
        }
        keys += 1;
    }
}

pub async fn record(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, answer: &Tried) -> Result<()> {
    let body: Body = outbox::body(job)?;
    let (state, code) = match answer {
        Tried::Answered(Confirmed::Succeeded) => (State::Succeeded, None),
        Tried::Answered(Confirmed::Pending) => (State::Pending, None),
        Tried::Answered(Confirmed::Declined { code, decline_code }) => {
            (State::Declined, decline_code.as_deref().or(code.as_deref()))
        }
        Tried::Answered(Confirmed::Already) => (State::Stopped, Some(Code::AlreadyProcessed.id())),
        Tried::Refused(why) => (State::Failed, Some(why.as_str())),
        Tried::Stopped(code) => (State::Stopped, *code),
    };
    let now = outbox.now;
    payment_retries::ended(tx, &body.payment_id, body.number, state, code, now).await?;
    if let Tried::Refused(_) = answer {
        stop(outbox, tx, vec![body.payment_id]).await?;
    }
    Ok(())
}

/// Records that the provider refuses an attempt, or was asked in vain.
pub async fn on_exhausted(tx: &mut Tx, job: &Job, now: Timestamp) -> sql::Result<()> {
    let Ok(body) = outbox::body::<Body>(job) else {
        return Ok(());
    };
    let state = State::Failed;
    payment_retries::ended(tx, &body.payment_id, body.number, state, None, now).await?;
    Ok(())
}
