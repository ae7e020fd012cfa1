//! The `payment_retries` table: our own attempts to collect a payment that failed.

use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::payment::PaymentError;
use crate::sql::{Db, Result, Tx, column};
use crate::store::parsed;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Scheduled,
    Succeeded,
    /// The provider has taken it; an event will tell how it ends.
    Pending,
    Declined,
    /// The provider refuses it for good.
    Failed,
    /// The payment was paid or canceled before.
    Stopped,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Succeeded => "succeeded",
            State::Pending => "pending",
            State::Declined => "declined",
            State::Failed => "failed",
            State::Stopped => "stopped",
        }
    }
}

#[derive(Clone, Debug)]
pub struct NewRetry {
    pub payment_id: String,
    /// From 1.
    pub number: i64,
    pub job_id: Uuid,
    pub due_at: Timestamp,
}

/// Schedules attempts; one that was scheduled before stays as it is.
pub async fn insert(tx: &mut Tx, retries: &[NewRetry], now: Timestamp) -> Result<()> {
    let columns = [
        column(
            "payment_id",
            retries.iter().map(|retry| retry.payment_id.as_str()),
        ),
        column("number", retries.iter().map(|retry| retry.number)),
        column("job_id", retries.iter().map(|retry| retry.job_id)),
        column("state", retries.iter().map(|_| State::Scheduled.as_str())),
        column("due_at", retries.iter().map(|retry| retry.due_at.0)),
        column("updated_at", retries.iter().map(|_| now.0)),
    ];
    tx.insert(
        "payment_retries",
        &columns,
        "on conflict (payment_id, number) do nothing",
    )
    .await?;
    Ok(())
}

/// Those of the payments that were retried, or are to be.
pub async fn scheduled_of(tx: &mut Tx, payments: Vec<String>) -> Result<Vec<String>> {
    let rows = tx
        .query("select distinct payment_id from payment_retries where payment_id in ($1..)")
        .bind(payments)
        .fetch_all()
        .await?;
    rows.iter().map(|row| row.get("payment_id")).collect()
}

/// Stops what is still scheduled of these payments, and returns the jobs.
pub async fn stop(tx: &mut Tx, payments: Vec<String>, now: Timestamp) -> Result<Vec<Uuid>> {
    let rows = tx
        .query(
            "update payment_retries set state = 'stopped', updated_at = $1
             where state = 'scheduled' and payment_id in ($2..)
             returning job_id",
        )
        .bind(now.0)
        .bind(payments)
        .fetch_all()
        .await?;
    rows.iter().map(|row| row.get("job_id")).collect()
}

/// Records how an attempt ended.
pub async fn ended(
    tx: &mut Tx,
    payment_id: &str,
    number: i64,
    state: State,
    code: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    let changed = tx
        .query(
            "update payment_retries set state = $1, code = $2, updated_at = $3
             where payment_id = $4 and number = $5 and state in ('scheduled', 'failed')",
        )
        .bind(state.as_str())
        .bind(code)
        .bind(now.0)
        .bind(payment_id)
        .bind(number)
        .execute()
        .await?;
    Ok(changed == 1)
}

/// What an attempt needs to know of its payment.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The state of the payment, as far as it was told.
    pub payment_state: String,
    pub failure: PaymentError,
    pub pact_id: Option<String>,
    /// Another payment of its agreement was made since shortly before it.
    pub is_paid_otherwise: bool,
}

/// Payments of one agreement that are further apart than this are for different things, such
/// as the months of a subscription.
const APART: Duration = Duration::from_hours(24);

/// The attempt, while it is still to be made.
pub async fn wanted(db: &Db, payment_id: &str, number: i64) -> Result<Option<Attempt>> {
    let row = db
        .query(
            "select payments.state as state, payments.failure as failure,
                    payments.pact_id as pact_id,
                    (select count(*) from payments others
                     where others.pact_id = payments.pact_id and others.id <> payments.id
                       and (others.received_minor > 0 or others.refunded_minor > 0)
                       and others.created_at > payments.created_at - $3) as others
             from payment_retries
             join payments on payments.id = payment_retries.payment_id
             where payment_retries.payment_id = $1 and payment_retries.number = $2
               and payment_retries.state in ('scheduled', 'failed')",
        )
        .bind(payment_id)
        .bind(number)
        .bind(i64::try_from(APART.as_millis()).unwrap_or(i64::MAX))
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(None) };
    let failure: Option<String> = row.get("failure")?;
    Ok(Some(Attempt {
        payment_state: row.get("state")?,
        failure: match failure {
            Some(failure) => parsed(&failure)?,
            None => PaymentError::default(),
        },
        pact_id: row.get("pact_id")?,
        is_paid_otherwise: row.get::<i64>("others")? > 0,
    }))
}

/// An attempt as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub number: i64,
    pub state: String,
    pub due_at: Timestamp,
    pub code: Option<String>,
    pub job_id: Uuid,
    pub updated_at: Timestamp,
}

pub async fn list(db: &Db, payment_id: &str) -> Result<Vec<Summary>> {
    let rows = db
        .query(
            "select number, state, due_at, code, job_id, updated_at from payment_retries
             where payment_id = $1 order by number",
        )
        .bind(payment_id)
        .fetch_all()
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Summary {
                number: row.get("number")?,
                state: row.get("state")?,
                due_at: Timestamp(row.get("due_at")?),
                code: row.get("code")?,
                job_id: row.get("job_id")?,
                updated_at: Timestamp(row.get("updated_at")?),
            })
        })
        .collect()
}
