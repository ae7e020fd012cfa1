//! What an operator does to jobs that have ended: run them again, or give dead ones up for
//! good. A batch is one transaction, with its entry in the audit; of two operators who take
//! the same job, one has it.
//!
//! Only deliveries are run again once they are done: to merge what they say a second time
//! changes nothing. A call would ask a provider for the same thing a second time.

use std::collections::BTreeMap;

use serde_json::json;
use uuid::Uuid;

use super::ended::Ended;
use crate::audit;
use crate::privacy_requests::{self, By};
use crate::sql::{Db, Result, Tx};
use domain::job::{JobId, Queue, Source, State};
use domain::privacy::State as Progress;
use domain::time::Timestamp;

/// What is done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Replay,
    Discard,
}

/// Why a job stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// It is done, and it was a call.
    Call,
    /// It is done, and it was a privacy request.
    Request,
    /// This version does nothing with its kind.
    Idle,
    /// It is dead, and what it stands for must be done by law.
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
                 mend what is wrong, then `waybill privacy retry`"
            }
        }
    }
}

/// Whether the action may be done to a job; reads nothing.
pub fn refusal(job: &Ended, action: Action) -> Option<Refusal> {
    let source = match job.source.as_str() {
        "storefront" => Source::Storefront,
        "payment" => Source::Payment,
        _ => Source::Internal,
    };
    match (action, job.state) {
        // Asked of the table of the payment or request, in the transaction.
        (Action::Discard, _) | (Action::Replay, State::Dead | State::Ready) => None,
        (Action::Replay, State::Done) if job.queue == Queue::Privacy => Some(Refusal::Request),
        (Action::Replay, State::Done) if source == Source::Internal => Some(Refusal::Call),
        (Action::Replay, State::Done) => match source.queue(&job.kind) {
            Some(_) => None,
            None => Some(Refusal::Idle),
        },
    }
}

/// Those dead jobs that stand for a duty: requests that are neither done nor cancelled, and
/// erasures of what came late.
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

/// Does the action to a batch, and returns those that it was done to: the others are no longer
/// as they were seen. `operation` is what the audit calls a batch of more than one.
/// `will_notify`: the caller notifies workers of what is returned, after this.
pub async fn carry_out<'a>(
    db: &Db,
    by: By<'_>,
    action: Action,
    operation: Uuid,
    batch: &'a [Ended],
    will_notify: bool,
) -> Result<Vec<&'a Ended>> {
    let mut tx = db.begin().await?;
    let mut taken = Vec::with_capacity(batch.len());
    for job in batch {
        let is_taken = match action {
            Action::Replay => replay(&mut tx, job, by.now, will_notify).await?,
            Action::Discard => super::discard(&mut tx, job, by.now).await?,
        };
        if is_taken {
            taken.push(job);
        }
    }
    if taken.is_empty() {
        tx.rollback().await?;
        return Ok(taken);
    }
    note(&mut tx, by, action, operation, &taken).await?;
    tx.commit().await?;
    Ok(taken)
}

async fn replay(tx: &mut Tx, job: &Ended, now: Timestamp, will_notify: bool) -> Result<bool> {
    let notified_at = will_notify.then_some(now);
    if !super::requeue_as_seen(tx, job, now, notified_at).await? {
        return Ok(false);
    }
    if job.queue == Queue::Privacy {
        // As `waybill privacy retry` does. One that is not in the table of requests is none.
        let from = [Progress::Failed];
        privacy_requests::set_state(tx, job.id, &from, Progress::Received, now).await?;
    }
    Ok(true)
}

/// Last of all: the audit is locked from then on.
async fn note(
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
    let entry = audit::New {
        actor: by.actor,
        action: match action {
            Action::Replay => "jobs.replayed",
            Action::Discard => "jobs.discarded",
        },
        object_id: &object.to_string(),
        shop: shop.filter(|_| is_of_one),
        details: json!({
            "jobs": jobs.len(),
            "were": jobs.first().map(|job| job.state.as_str()),
            "kinds": kinds,
            "ids": ids,
        }),
    };
    audit::append(tx, by.keys, entry, by.now).await?;
    Ok(())
}
