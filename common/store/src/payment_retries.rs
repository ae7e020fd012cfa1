//! The `payment_retries` table: our own attempts to collect a payment that failed.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;
use strum::IntoStaticStr;
use uuid::Uuid;

use crate::payments::PaymentEntry;
use crate::sql::{Db, FromRow, Result, Row, Tx, column};
use crate::{aggregates, orders};
use domain::order::settlement::Cycle;
use domain::payment::PaymentError;
use domain::payment::record::{Record, text};
use domain::time::Timestamp;

/// How an attempt ended, or that it is still to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum State {
    Scheduled,
    Succeeded,
    /// The provider has accepted the attempt, and an event will say how it ends.
    Pending,
    Declined,
    /// The provider refuses the attempt for good.
    Failed,
    /// The reason for the attempt disappeared before it was made. The code says why.
    Stopped,
}

#[derive(Clone, Debug)]
pub struct NewRetry {
    pub payment_id: String,
    /// Counted from 1.
    pub number: i64,
    pub job_id: Uuid,
    pub due_at: Timestamp,
}

/// Schedules attempts. One that was scheduled before stays as it is.
pub async fn insert(tx: &mut Tx, retries: &[NewRetry], now: Timestamp) -> Result<()> {
    let rows = retries.iter().map(|retry| {
        [
            column("payment_id", &retry.payment_id),
            column("number", retry.number),
            column("job_id", retry.job_id),
            column("state", State::Scheduled.into_str()),
            column("due_at", retry.due_at),
            column("updated_at", now),
        ]
    });
    tx.insert(
        "payment_retries",
        rows.collect(),
        "on conflict (payment_id, number) do nothing",
    )
    .await?;
    Ok(())
}

/// Which of the payments were tried again, or are to be.
pub async fn scheduled_of(tx: &mut Tx, payments: Vec<String>) -> Result<Vec<String>> {
    tx.query("select distinct payment_id from payment_retries where payment_id in ($1..)")
        .bind(payments)
        .all(|row| row.get("payment_id"))
        .await
}

/// Stops the attempts that are still scheduled for these payments, and returns their jobs.
pub async fn stop(tx: &mut Tx, payments: Vec<String>, now: Timestamp) -> Result<Vec<Uuid>> {
    tx.query(
        "update payment_retries set state = 'stopped', updated_at = $1
         where state = 'scheduled' and payment_id in ($2..)
         returning job_id",
    )
    .bind(now.0)
    .bind(payments)
    .all(|row| row.get("job_id"))
    .await
}

/// Records how an attempt ended. False when that was recorded before.
pub async fn ended(
    tx: &mut Tx,
    payment_id: &str,
    number: i64,
    state: State,
    code: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    tx.query(
        "update payment_retries set state = $1, code = $2, updated_at = $3
         where payment_id = $4 and number = $5 and state in ('scheduled', 'failed')",
    )
    .bind(state.into_str())
    .bind(code)
    .bind(now.0)
    .bind(payment_id)
    .bind(number)
    .changed_one()
    .await
}

/// What has to be known of the payment for an attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The state of the payment, as far as it was reported.
    pub payment_state: String,
    pub failure: PaymentError,
    /// When the payment failed last, according to the provider.
    pub failed_at: Option<Timestamp>,
    pub pact_id: Option<String>,
    /// The connected account that has the payment.
    pub account: Option<String>,
    /// The cycle of the agreement that it pays.
    pub cycle: Cycle,
    /// True when a checkout session in the mode `payment` led to the payment.
    pub is_of_checkout: bool,
    /// True when another payment of the same agreement and cycle was made, after it or shortly
    /// before it.
    pub is_paid_otherwise: bool,
    /// True when a later attempt of the schedule is already due.
    pub is_superseded: bool,
}

/// Payments of one agreement that are further apart than this are for different things, such as
/// the months of a subscription.
const APART: Duration = Duration::from_hours(24);

/// The attempt, if it is still to be made.
pub async fn wanted(
    db: &Db,
    payment_id: &str,
    number: i64,
    now: Timestamp,
) -> Result<Option<Attempt>> {
    let row = db
        .query(
            "select payments.state, payments.record, payments.created_at,
                    (select count(*) from checkout_sessions
                     where checkout_sessions.payment_intent = payments.id
                       and checkout_sessions.mode = 'payment') as sessions,
                    (select count(*) from payment_retries later
                     where later.payment_id = payments.id and later.number > $2
                       and later.state = 'scheduled' and later.due_at <= $3) as later
             from payment_retries
             join payments on payments.id = payment_retries.payment_id
             where payment_retries.payment_id = $1 and payment_retries.number = $2
               and payment_retries.state in ('scheduled', 'failed')",
        )
        .bind(payment_id)
        .bind(number)
        .bind(now.0)
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(None) };
    let record: String = row.get("record")?;
    let payment = aggregates::record_of::<PaymentEntry>(&payment_id.to_owned(), &record)?;
    let cycle = Cycle::named(text(&payment.cycle));
    let pact_id = payment.agreement().map(ToOwned::to_owned);
    let others = match &pact_id {
        Some(pact_id) => paid_of(db, pact_id, payment_id, row.get("created_at")?).await?,
        None => Vec::new(),
    };
    let failed_at = payment.failure.as_ref().map(|part| part.version.created);
    Ok(Some(Attempt {
        payment_state: row.get("state")?,
        failure: payment.failure.map(|part| part.value).unwrap_or_default(),
        failed_at: failed_at.map(Timestamp::from_unix_seconds),
        pact_id,
        account: text(&payment.account).map(ToOwned::to_owned),
        is_paid_otherwise: others.contains(&cycle),
        cycle,
        is_of_checkout: row.get::<i64>("sessions")? > 0,
        is_superseded: row.get::<i64>("later")? > 0,
    }))
}

/// Which of the payments nobody has to make any more: another one of the same agreement and cycle was
/// made, or the order of the agreement is paid or cancelled.
pub async fn settled(tx: &mut Tx, payments: &[(String, Record)]) -> Result<HashSet<String>> {
    if payments.is_empty() {
        return Ok(HashSet::new());
    }
    let agreements = payments.iter().filter_map(|(_, it)| it.agreement());
    let agreements = agreements.map(ToOwned::to_owned).collect();
    let claims = orders::of_agreements(tx, agreements).await?;
    let ids: Vec<String> = payments.iter().map(|(id, _)| id.clone()).collect();
    let paid_otherwise: HashSet<(String, Cycle)> = tx
        .query(
            "select payments.id, others.fulfillment_cycle from payments
             join payments others on others.pact_id = payments.pact_id and others.id <> payments.id
             where (others.received_minor > 0 or others.refunded_minor > 0)
               and others.created_at > payments.created_at - $1 and payments.id in ($2..)",
        )
        .bind(i64::try_from(APART.as_millis()).unwrap_or(i64::MAX))
        .bind(ids)
        .all(|row| Ok((row.get("id")?, cycle(row)?)))
        .await?;
    let is_settled = |(id, record): &&(String, Record)| {
        let claims = record.agreement().and_then(|it| claims.get(it));
        let is_by_order =
            matches!(claims.map(Vec::as_slice), Some([one]) if one.settles(&record.cycle()));
        is_by_order || paid_otherwise.contains(&(id.clone(), record.cycle()))
    };
    let settled = payments.iter().filter(is_settled);
    Ok(settled.map(|(id, _)| id.clone()).collect())
}

/// The cycles of the other payments of an agreement that were made after `created_at` or shortly
/// before it.
pub(crate) async fn paid_of(
    db: &Db,
    pact_id: &str,
    payment_id: &str,
    created_at: i64,
) -> Result<Vec<Cycle>> {
    let apart = i64::try_from(APART.as_millis()).unwrap_or(i64::MAX);
    db.query(
        "select fulfillment_cycle from payments
         where pact_id = $1 and id <> $2 and (received_minor > 0 or refunded_minor > 0)
           and created_at > $3",
    )
    .bind(pact_id)
    .bind(payment_id)
    .bind(created_at.saturating_sub(apart))
    .all(cycle)
    .await
}

fn cycle(row: &Row) -> Result<Cycle> {
    let name: Option<String> = row.get("fulfillment_cycle")?;
    Ok(Cycle::named(name.as_deref()))
}

/// Whether an attempt may be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The attempt may be made, and is recorded as made. `key_number` is the number of its
    /// idempotency key.
    Now { key_number: i64, is_first: bool },
    /// Another attempt was made so recently that this one waits until this time.
    At(Timestamp),
    /// The attempt was made or stopped by another process.
    Gone,
}

/// Records that an attempt is about to be made, unless another attempt of the same payment was
/// made within `pause`. An attempt that had failed gets the next idempotency key, because the
/// provider keeps its answer to the last one.
pub async fn take_turn(
    db: &Db,
    payment_id: &str,
    number: i64,
    pause: Duration,
    now: Timestamp,
) -> Result<Turn> {
    let mut tx = db.begin().await?;
    // With this lock, the second of two attempts of one payment sees the first.
    tx.query("select id from payments where id = $1 for update")
        .bind(payment_id)
        .fetch_optional()
        .await?;
    let row = tx
        .query(
            "select state, tried_at, coalesce(key_number, 1) as key_number,
                    (select max(others.tried_at) from payment_retries others
                     where others.payment_id = $1 and others.number <> $2) as last
             from payment_retries
             where payment_id = $1 and number = $2 and state in ('scheduled', 'failed')",
        )
        .bind(payment_id)
        .bind(number)
        .fetch_optional()
        .await?;
    let Some(row) = row else {
        tx.rollback().await?;
        return Ok(Turn::Gone);
    };
    let last: Option<i64> = row.get("last")?;
    if let Some(next) = last.map(|last| Timestamp(last).plus(pause))
        && next > now
    {
        tx.rollback().await?;
        return Ok(Turn::At(next));
    }
    let is_first = row.get::<Option<i64>>("tried_at")?.is_none();
    let has_failed = row.get::<String>("state")? == State::Failed.into_str();
    let key_number = row.get::<i64>("key_number")? + i64::from(has_failed);
    note_try(&mut tx, payment_id, number, key_number, now).await?;
    tx.commit().await?;
    Ok(Turn::Now {
        key_number,
        // An attempt that failed before this time was recorded has been made too.
        is_first: is_first && !has_failed,
    })
}

/// Records that an attempt is made once more, under this key.
pub async fn try_again(
    db: &Db,
    payment_id: &str,
    number: i64,
    key_number: i64,
    now: Timestamp,
) -> Result<()> {
    let mut tx = db.begin().await?;
    note_try(&mut tx, payment_id, number, key_number, now).await?;
    tx.commit().await
}

async fn note_try(
    tx: &mut Tx,
    payment_id: &str,
    number: i64,
    key_number: i64,
    now: Timestamp,
) -> Result<()> {
    tx.query(
        "update payment_retries set tried_at = $1, key_number = $2
         where payment_id = $3 and number = $4",
    )
    .bind(now.0)
    .bind(key_number)
    .bind(payment_id)
    .bind(number)
    .done()
    .await
}

/// Which of the payments came from a checkout session in the mode `payment`.
pub async fn of_checkouts(tx: &mut Tx, payments: Vec<String>) -> Result<HashSet<String>> {
    tx.query(
        "select distinct payment_intent from checkout_sessions
         where mode = 'payment' and payment_intent in ($1..)",
    )
    .bind(payments)
    .all(|row| row.get("payment_intent"))
    .await
}

/// An attempt as an operator sees it.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Summary {
    pub number: i64,
    pub state: String,
    pub due_at: Timestamp,
    pub code: Option<String>,
    pub job_id: Uuid,
    pub updated_at: Timestamp,
}

pub async fn list(db: &Db, payment_id: &str) -> Result<Vec<Summary>> {
    db.query(
        "select number, state, due_at, code, job_id, updated_at from payment_retries
         where payment_id = $1 order by number",
    )
    .bind(payment_id)
    .all(Summary::from_row)
    .await
}
