//! `waybill jobs run-now`: an operator makes a job that waits due now, because its cause is mended
//! and the rest of a pause is not worth waiting for. Nothing else of the job changes: its tries
//! count on, and what a call checks before it asks a provider is checked as always.

use serde::Serialize;
use serde_json::json;

use crate::audit::{self, By};
use crate::privacy_requests;
use crate::sql::{self, Db, FromRow};
use domain::job::{JobId, LEASE, Queue, State};
use domain::time::Timestamp;

/// A job that was made due.
#[derive(Clone, Debug, Serialize)]
pub struct MadeDue {
    pub id: JobId,
    #[serde(serialize_with = "crate::as_text")]
    pub queue: Queue,
    pub kind: String,
    /// When it would have run by itself.
    pub was_due_at: Timestamp,
    pub run_at: Timestamp,
}

/// Why a job is not made due.
#[derive(Debug, thiserror::Error)]
pub enum NotMadeDue {
    #[error("there is no job {0} here")]
    Unknown(JobId),
    #[error("it was discarded, and is never run again")]
    Discarded,
    #[error("it is done")]
    Done(JobId),
    #[error("it is dead")]
    Dead(JobId),
    #[error(
        "it may be running at this moment: a worker has it until {0}, and if that worker is gone, \
         another one takes it then"
    )]
    Claimed(Timestamp),
    #[error("it stands for a privacy request that is held")]
    Held(JobId),
    #[error(
        "it has not failed: it was deferred to {0} on purpose, and running it earlier would do \
         something else than was meant"
    )]
    Scheduled(Timestamp),
    /// The job changed while it was looked at.
    #[error("a worker was faster")]
    Changed(JobId),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Makes a job due now, and writes that into the audit. `seen` is when the job was due as the operator saw
/// it, who then does it once, however often they ask. `will_notify` says that the caller notifies workers
/// afterwards.
pub async fn run_now(
    db: &Db,
    by: By<'_>,
    id: JobId,
    seen: Option<Timestamp>,
    will_notify: bool,
) -> Result<MadeDue, NotMadeDue> {
    let held = privacy_requests::find(db, id).await?;
    if held.is_some_and(|request| request.state == domain::privacy::State::Held.into_str()) {
        return Err(NotMadeDue::Held(id));
    }
    let mut tx = db.begin().await?;
    let waiting = tx
        .query(
            "select id, queue, kind, shop, state, attempts, unfinished_attempts, run_at, last_error,
                    discarded_at
             from jobs where id = $1
             for update",
        )
        .bind(id)
        .first(Waiting::from_row)
        .await?;
    let waiting = waiting.ok_or(NotMadeDue::Unknown(id));
    let waiting = waiting.and_then(|job| match seen {
        Some(seen) if job.run_at != seen => Err(NotMadeDue::Changed(id)),
        _ => job.refusal(by.now).map_or(Ok(job), Err),
    });
    let waiting = match waiting {
        Ok(waiting) => waiting,
        Err(refusal) => {
            tx.rollback().await?;
            return Err(refusal);
        }
    };
    let changed = tx
        .query(
            "update jobs set run_at = $1, notified_at = $2
             where state = 'ready' and id = $3 and run_at = $4",
        )
        .bind(by.now.0)
        .bind(will_notify.then_some(by.now.0))
        .bind(id)
        .bind(waiting.run_at.0)
        .changed_one()
        .await?;
    if !changed {
        tx.rollback().await?;
        return Err(NotMadeDue::Changed(id));
    }
    let entry = audit::NewEntry {
        actor: by.actor,
        action: "jobs.run_now",
        object_id: &id.to_string(),
        shop: waiting.shop.as_deref(),
        details: json!({
            "kind": waiting.kind,
            "was_due_at": waiting.run_at,
            "attempts": waiting.attempts,
        }),
    };
    audit::append(&mut tx, by.keys, entry, by.now).await?;
    tx.commit().await?;
    Ok(MadeDue {
        id,
        queue: waiting.queue,
        kind: waiting.kind,
        was_due_at: waiting.run_at,
        run_at: by.now,
    })
}

#[derive(FromRow)]
struct Waiting {
    id: JobId,
    queue: Queue,
    kind: String,
    shop: Option<String>,
    state: State,
    attempts: i64,
    unfinished_attempts: i64,
    run_at: Timestamp,
    /// It ran or was deferred before.
    #[present("last_error")]
    has_error: bool,
    #[present("discarded_at")]
    is_discarded: bool,
}

impl Waiting {
    fn refusal(&self, now: Timestamp) -> Option<NotMadeDue> {
        let waits = self.run_at > now;
        match self.state {
            _ if self.is_discarded => Some(NotMadeDue::Discarded),
            State::Done => Some(NotMadeDue::Done(self.id)),
            State::Dead => Some(NotMadeDue::Dead(self.id)),
            // A claim counts the run before it begins, and defers the job to its own end. So waits what ended its process.
            State::Ready
                if waits && self.unfinished_attempts > 0 && self.run_at <= now.plus(LEASE) =>
            {
                Some(NotMadeDue::Claimed(self.run_at))
            }
            State::Ready if waits && self.attempts == 0 && !self.has_error => {
                Some(NotMadeDue::Scheduled(self.run_at))
            }
            State::Ready => None,
        }
    }
}
