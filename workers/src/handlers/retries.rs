//! Collecting a payment that failed: 1, 24 and 72 hours after the first failure the payment
//! provider is asked to try its payment method again, unless it was paid or canceled by
//! then. The job's id is the idempotency key. How an attempt ends, the provider's events
//! tell too.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use common::clock::Timestamp;
use common::code::Code;
use common::job::Job;
use common::payment::PaymentError;
use common::payment::record::Record;
use common::provider::Failure;
use common::provider::payment::Confirmed;
use common::sql::{self, Db, Tx};
use common::store::payment_retries::{self, NewRetry, State};
use common::store::{jobs, orders};
use serde::Deserialize;
use serde_json::json;

use super::effects::{self, Effects};
use super::{Answer, Providers};

pub const KIND: &str = "payments/retry";

/// After the first failure.
const PAUSES: [Duration; 3] = [
    Duration::from_hours(1),
    Duration::from_hours(24),
    Duration::from_hours(72),
];

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
    effects: &mut Effects<'_>,
    tx: &mut Tx,
    failed: &[(String, Record)],
) -> Result<()> {
    if failed.is_empty() || effects.context.config.payment_api.is_none() {
        return Ok(());
    }
    let ids = failed.iter().map(|(id, _)| id.clone()).collect();
    let known: HashSet<String> = payment_retries::scheduled_of(tx, ids)
        .await?
        .into_iter()
        .collect();
    let mut retries = Vec::new();
    let mut forbidden = Vec::new();
    for (id, record) in failed {
        if !can_be_retried(record) {
            forbidden.push(id.clone());
            continue;
        }
        if known.contains(id) {
            continue;
        }
        for (number, pause) in (1..).zip(PAUSES) {
            let due_at = effects.now.plus(pause);
            let body = json!({ "payment_id": id, "number": number });
            retries.push(NewRetry {
                payment_id: id.clone(),
                number,
                job_id: effects.job_of(KIND, id, &body, due_at),
                due_at,
            });
        }
    }
    payment_retries::insert(tx, &retries, effects.now).await?;
    stop(effects, tx, forbidden).await
}

/// Only intents can be tried again, with what was charged before. Those of invoices the
/// provider tries again itself.
fn can_be_retried(record: &Record) -> bool {
    let failure = record.failure.as_ref().map(|part| &part.value);
    failure.is_some_and(|failure| failure.payment_method.is_some() && !is_final(failure))
}

fn is_final(failure: &PaymentError) -> bool {
    FINAL.contains(&failure.decline_code.as_deref().unwrap_or_default())
}

/// Stops the attempts at payments that were paid or canceled.
pub async fn stop(effects: &mut Effects<'_>, tx: &mut Tx, payments: Vec<String>) -> Result<()> {
    if payments.is_empty() {
        return Ok(());
    }
    let stopped = payment_retries::stop(tx, payments, effects.now).await?;
    if !stopped.is_empty() {
        jobs::finish(tx, &stopped, effects.now).await?;
    }
    Ok(())
}

/// What became of an attempt.
pub enum Tried {
    Answered(Confirmed),
    /// The provider refuses it for good, and will refuse the others.
    Refused(String),
}

/// Asks the payment provider, unless the payment was paid or canceled meanwhile, or nothing
/// is owed any more: its order is paid otherwise or cancelled.
pub async fn call(db: &Db, providers: &Providers, job: &Job) -> Result<Answer> {
    let body: Body = effects::body(job)?;
    let attempt = payment_retries::wanted(db, &body.payment_id, body.number).await?;
    let Some(attempt) = attempt.filter(|it| it.payment_state == "requires_payment_method") else {
        return Ok(Answer::NotAsked);
    };
    let order = match &attempt.pact_id {
        Some(pact_id) => orders::claimant(db, pact_id).await?,
        None => None,
    };
    let is_settled = order.is_some_and(|order| order.is_cancelled || order.is_paid);
    if is_settled || attempt.is_paid_otherwise || is_final(&attempt.failure) {
        return Ok(Answer::NotAsked);
    }
    let Some(provider) = &providers.payment else {
        anyhow::bail!("PAYMENT_API_URL and PAYMENT_API_KEY are not set in this process");
    };
    let method = attempt.failure.payment_method.as_deref();
    let answer = provider.confirm(&body.payment_id, method, job.id).await;
    Ok(Answer::Retry(match answer {
        Ok(answer) => Tried::Answered(answer),
        Err(refused @ Failure::Refused { .. }) => Tried::Refused(refused.to_string()),
        Err(failure) => return Err(super::fulfillments::failed(failure)),
    }))
}

pub async fn record(
    effects: &mut Effects<'_>,
    tx: &mut Tx,
    job: &Job,
    answer: &Tried,
) -> Result<()> {
    let body: Body = effects::body(job)?;
    let (state, code) = match answer {
        Tried::Answered(Confirmed::Succeeded) => (State::Succeeded, None),
        Tried::Answered(Confirmed::Pending) => (State::Pending, None),
        Tried::Answered(Confirmed::Declined { code, decline_code }) => {
            (State::Declined, decline_code.as_deref().or(code.as_deref()))
        }
        Tried::Answered(Confirmed::Already) => (State::Stopped, Some(Code::AlreadyProcessed.id())),
        Tried::Refused(why) => (State::Failed, Some(why.as_str())),
    };
    let now = effects.now;
    payment_retries::ended(tx, &body.payment_id, body.number, state, code, now).await?;
    if let Tried::Refused(_) = answer {
        stop(effects, tx, vec![body.payment_id]).await?;
    }
    Ok(())
}

/// Records that an attempt was not needed.
pub async fn not_asked(tx: &mut Tx, job: &Job, now: Timestamp) -> Result<()> {
    let body: Body = effects::body(job)?;
    let state = State::Stopped;
    payment_retries::ended(tx, &body.payment_id, body.number, state, None, now).await?;
    Ok(())
}

/// Records that the provider refuses an attempt, or was asked in vain.
pub async fn gave_up(tx: &mut Tx, job: &Job, now: Timestamp) -> sql::Result<()> {
    let Ok(body) = effects::body::<Body>(job) else {
        return Ok(());
    };
    let state = State::Failed;
    payment_retries::ended(tx, &body.payment_id, body.number, state, None, now).await?;
    Ok(())
}
