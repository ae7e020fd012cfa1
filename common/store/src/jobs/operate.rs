//! What an operator does to jobs that have ended: requeue them, or discard dead ones. A batch is
//! one transaction, which includes its entry in the audit. When two operators take the same job,
//! only one of them gets it.
//!
//! Among the jobs that are done only deliveries are requeued, because merging a delivery a second
//! time changes nothing. Requeuing a call would ask a provider for the same thing a second time.

use std::collections::BTreeMap;

use serde_json::json;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use super::ended::Ended;
use crate::audit;
use crate::privacy_requests::{self, By};
use crate::sql::{Db, Result, Tx};
use domain::job::{JobId, Kind, Queue, Source, State};
use domain::names::{Unknown, unknown};
use domain::privacy::State as Progress;
use domain::time::Timestamp;

/// What an operator does to the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unknown::<Action>)]
pub enum Action {
    Requeue,
    Discard,
}

impl Action {
    /// What was done, as in "5 were requeued".
    pub fn past(self) -> &'static str {
        match self {
            Action::Requeue => "requeued",
            Action::Discard => "discarded",
        }
    }
}

/// Why a job is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The job is done, and it was a call.
    Call,
    /// The job is done, and it was a privacy request.
    Request,
    /// This version does nothing with the job's kind.
    Idle,
    /// The job is dead, and the privacy request that it stands for must be carried out by law.
    Duty,
}

impl Refusal {
    pub fn why(self) -> &'static str {
        match self {
            Refusal::Call => {
                "it is no delivery but a call that was made: to make it again would ask the \
                 provider, or notify the customer, a second time"
            }
            Refusal::Request => {
                "it is a privacy request that was answered: its receipt says so, and its body is \
                 gone; whoever asks again sends a new one"
            }
            Refusal::Idle => "this version keeps deliveries of its kind and does nothing with them",
            Refusal::Duty => {
                "it stands for a privacy request that is open, and to answer it is a legal duty: \
                 mend what is wrong, then try the request again"
            }
        }
    }
}

/// Why the action must not be done to a job, or None when it may be. Reads no database.
pub fn refusal(job: &Ended, action: Action) -> Option<Refusal> {
    let source = match job.source.as_str() {
        "storefront" => Source::Storefront,
        "payment" => Source::Payment,
        _ => Source::Internal,
    };
    match (action, job.state) {
        // Whether a dead job may be discarded is decided by [`duties`], which reads the table of
        // privacy requests.
        (Action::Discard, _) | (Action::Requeue, State::Dead | State::Ready) => None,
        (Action::Requeue, State::Done) if job.queue == Queue::Privacy => Some(Refusal::Request),
        (Action::Requeue, State::Done) if source == Source::Internal => Some(Refusal::Call),
        (Action::Requeue, State::Done) => match Kind::of(source, &job.kind) {
            Some(_) => None,
            None => Some(Refusal::Idle),
        },
    }
}

/// The dead jobs that stand for a legal duty: privacy requests that are neither done nor
/// cancelled, and erasures of data that came late.
pub async fn duties(db: &Db, jobs: &[Ended]) -> Result<Vec<JobId>> {
    let mut duties = Vec::new();
    for job in jobs.iter().filter(|job| job.queue == Queue::Privacy) {
        let entry = privacy_requests::find(db, job.id).await?;
        if entry.is_none_or(|entry| entry.finished_at.is_none()) {
            duties.push(job.id);
        }
    }
    Ok(duties)
}

/// Does the action to a batch of jobs, and returns those to which it was done. All others have
/// changed since they were seen. `operation` is the id under which the audit has a batch of more
/// than one job. `will_notify` says that the caller notifies workers of the returned jobs
/// afterwards.
pub async fn carry_out<'a>(
    db: &Db,
    by: By<'_>,
    action: Action,
    operation: Uuid,
    batch: &'a [Ended],
    will_notify: bool,
) -> Result<Vec<&'a Ended>> {
    let mut tx = db.begin().await?;
    let taken = take(&mut tx, by.now, action, batch, will_notify).await?;
    if taken.is_empty() {
        tx.rollback().await?;
        return Ok(taken);
    }
    note(&mut tx, by, action, operation, &taken).await?;
    tx.commit().await?;
    Ok(taken)
}

/// Changes the jobs of a batch in a transaction, and returns those that had not changed since they were
/// seen. The caller adds the entry with [`note`].
pub async fn take<'a>(
    tx: &mut Tx,
    now: Timestamp,
    action: Action,
    batch: &'a [Ended],
    will_notify: bool,
) -> Result<Vec<&'a Ended>> {
    let mut taken = Vec::with_capacity(batch.len());
    for job in batch {
        let is_taken = match action {
            Action::Requeue => requeue(tx, job, now, will_notify).await?,
            Action::Discard => super::discard(tx, job, now).await?,
        };
        if is_taken {
            taken.push(job);
        }
    }
    Ok(taken)
}

async fn requeue(tx: &mut Tx, job: &Ended, now: Timestamp, will_notify: bool) -> Result<bool> {
    let notified_at = will_notify.then_some(now);
    if !super::requeue_as_seen(tx, job, now, notified_at).await? {
        return Ok(false);
    }
    if job.queue == Queue::Privacy {
        // The request becomes open again, as with `waybill privacy retry`. For a job that is not
        // in the table of requests this changes nothing.
        let from = [Progress::Failed];
        privacy_requests::set_state(tx, job.id, &from, Progress::Received, now).await?;
    }
    Ok(true)
}

/// Adds the entry of a batch to the audit. It comes last, because it locks the audit until the commit.
pub async fn note(
    tx: &mut Tx,
    by: By<'_>,
    action: Action,
    operation: Uuid,
    jobs: &[&Ended],
) -> Result<()> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for job in jobs {
        *kinds.entry(&job.kind).or_default() += 1;
    }
    let object = match jobs {
        [job] => job.id,
        _ => operation,
    };
    let shop = jobs.first().and_then(|job| job.shop.as_deref());
    let is_of_one = jobs.iter().all(|job| job.shop.as_deref() == shop);
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let entry = audit::NewEntry {
        actor: by.actor,
        action: match action {
            Action::Requeue => "jobs.requeued",
            Action::Discard => "jobs.discarded",
        },
        object_id: &object.to_string(),
        shop: shop.filter(|_| is_of_one),
        details: json!({
            "jobs": jobs.len(),
            "were": jobs.first().map(|job| job.state.into_str()),
            "kinds": kinds,
            "ids": ids,
        }),
    };
    audit::append(tx, by.keys, entry, by.now).await?;
    Ok(())
}
