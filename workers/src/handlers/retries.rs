//! The call that tries a failed payment again. The schedule is in `flows::retries`; here the
//! payment provider is asked to try the payment method once more. The job's id is the idempotency
//! key. How the attempt ends, an event of the provider says too.
//!
//! A job may run late, because no worker was there, or again, because somebody requeued it. So each
//! attempt checks at the moment of the call whether its reason still stands. It is stopped when
//! nothing is owed any more, when the failure is too old, or when a later attempt of the schedule
//! is due too. It is deferred when another attempt was made a short time ago.

use std::time::Duration;

use anyhow::Result;
use domain::code::Code;
use domain::job::Job;
use domain::payment::record::is_left_to_provider;
use domain::time::Timestamp;
use flows::outbox::Outbox;
use flows::retries::{self, RetryJob};
use platform::clock::Clock;
use providers::CallFailure;
use providers::payment::{Confirmed, IdempotencyKey, Payment};
use store::orders;
use store::payment_retries::{self, Attempt, State, Turn};
use store::sql::{self, Db, Tx};

use super::{Answer, KEYS_A_RUN, Providers};
use crate::failure::{Later, call_failed};

/// The least time between two attempts at one payment, by when they were really made.
const LEAST_PAUSE: Duration = Duration::from_hours(12);

/// How old a failure may be. This is a day after the last attempt of the schedule; by then the
/// customer has paid in another way or given it up.
const TOO_OLD: Duration = Duration::from_hours(96);

/// What became of an attempt.
pub enum Tried {
    Answered(Confirmed),
    /// The provider refuses the attempt for good, and will refuse the others.
    Refused(String),
    /// The provider was not asked, because the reason is gone. The code says why; there is none
    /// where nothing is owed any more.
    Stopped(Option<&'static str>),
}

/// Asks the payment provider, unless the attempt is not wanted any more at this moment.
pub async fn call(db: &Db, clock: &Clock, providers: &Providers, job: &Job) -> Result<Answer> {
    let retry = RetryJob::read(job)?;
    let now = clock.now();
    let attempt = payment_retries::wanted(db, &retry.payment_id, retry.number, now).await?;
    let Some(attempt) = attempt else {
        return Ok(Answer::NotAsked);
    };
    if attempt.payment_state != "requires_payment_method" || is_settled(db, &attempt).await? {
        return Ok(Answer::Retry(Tried::Stopped(None)));
    }
    if let Some(code) = reason_to_stop(&attempt, now) {
        return Ok(Answer::Retry(Tried::Stopped(Some(code))));
    }
    let provider = providers.clients.of_payment(&retry.payment_id)?;
    if provider.is_left_alone() {
        return Err(CallFailure::Paused("payment").into());
    }
    let turn =
        payment_retries::take_turn(db, &retry.payment_id, retry.number, LEAST_PAUSE, now).await?;
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
    let provider = provider.of_account(attempt.account);
    let answer = confirm(db, clock, &provider, &retry, method, key, is_first).await?;
    Ok(Answer::Retry(match answer {
        Ok(answer) => Tried::Answered(answer),
        Err(refused @ CallFailure::Refused { .. }) => Tried::Refused(refused.to_string()),
        Err(failure) => return Err(call_failed(failure)),
    }))
}

/// Whether nothing is owed any more, by the order of the agreement or because another payment of the
/// same cycle was made.
async fn is_settled(db: &Db, attempt: &Attempt) -> Result<bool> {
    let order = match &attempt.pact_id {
        Some(pact_id) => orders::owner(db, pact_id).await?,
        None => None,
    };
    let is_settled = order.is_some_and(|order| order.settles(&attempt.cycle));
    Ok(is_settled || attempt.is_paid_otherwise)
}

/// Why no attempt is made although the payment is owed, if there is a reason.
fn reason_to_stop(attempt: &Attempt, now: Timestamp) -> Option<&'static str> {
    let age = attempt.failed_at.map(|at| now.since(at));
    if is_left_to_provider(
        attempt.pact_id.is_some(),
        attempt.is_of_checkout,
        &attempt.failure,
    ) {
        Some("left_to_provider")
    } else if retries::is_final(&attempt.failure) {
        Some("forbidden")
    } else if age.is_some_and(|age| age > TOO_OLD) {
        Some("too_late")
    } else if attempt.is_superseded {
        Some("superseded")
    } else {
        None
    }
}

/// Asks under this idempotency key. Before every attempt but the first, and after a failure that
/// the provider keeps under its key, it first looks how the payment stands; after such a failure it
/// then asks under the next key.
async fn confirm(
    db: &Db,
    clock: &Clock,
    provider: &Payment,
    retry: &RetryJob,
    method: Option<&str>,
    mut key: IdempotencyKey,
    is_first: bool,
) -> Result<Result<Confirmed, CallFailure>> {
    let (id, number) = (retry.payment_id.as_str(), retry.number);
    let mut keys = 1;
    loop {
        if keys > 1 || !is_first {
            match provider.find_confirmed(id).await {
                Ok(None) => {}
                Ok(Some(found)) => return Ok(Ok(found)),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let answer = provider.confirm(id, method, key).await;
        let Err(CallFailure::Stored { .. }) = answer else {
            return Ok(answer);
        };
        key.number += 1;
        payment_retries::try_again(db, id, number, key.number, clock.now()).await?;
        if keys == KEYS_A_RUN {
            return Ok(answer);
        }
        keys += 1;
    }
}

/// Writes what became of an attempt. After a refusal the further attempts are stopped.
pub async fn record(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, answer: &Tried) -> Result<()> {
    let retry = RetryJob::read(job)?;
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
    payment_retries::ended(tx, &retry.payment_id, retry.number, state, code, now).await?;
    if let Tried::Refused(_) = answer {
        retries::stop(outbox, tx, vec![retry.payment_id]).await?;
    }
    Ok(())
}

/// Records that the provider did not take an attempt, however often it was asked.
pub async fn on_exhausted(tx: &mut Tx, job: &Job, now: Timestamp) -> sql::Result<()> {
    let Ok(retry) = RetryJob::read(job) else {
        return Ok(());
    };
    let state = State::Failed;
    payment_retries::ended(tx, &retry.payment_id, retry.number, state, None, now).await?;
    Ok(())
}
