//! The sweep notifies workers of jobs that are due and whose notification was not sent or was
//! lost: retries, jobs whose message was lost with its process, and jobs that waited while the
//! broker was down. Each worker sweeps its own queue, one kind at a time. It is harmless to notify
//! workers of a job twice.
//!
//! The cost of a sweep must not grow with the number of waiting jobs. So there is an index of the
//! jobs without a notification. Of the others the sweep looks only at those whose message should
//! already have come, because messages that were sent later have come.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use bus::{JobRef, MAX_JOBS_PER_MESSAGE};
use domain::job::JobId;
use domain::time::Timestamp;
use store::jobs::{self, DueJob, Missed};
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::handlers;

const PAUSE: Duration = Duration::from_secs(1);
/// How many jobs one transaction marks as notified.
const CHUNK: i64 = 512;
/// If a job is still ready this long after its notification, and its message should have come, the
/// message was lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
/// If the time of a notification is this far in the future, a wrong clock has written it.
const AHEAD: Duration = Duration::from_mins(1);
/// The sweep sends further messages only while fewer than this wait in the queue.
const ENOUGH_IN_LINE: u32 = 1000;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let started_at = worker.parts.clock.now();
    let mut down = false;
    loop {
        worker.heartbeat.touch();
        match worker.sweep(started_at, &shutdown).await {
            Ok(()) => down = false,
            Err(error) if !down => {
                down = true;
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the sweep failed; trying again"
                );
            }
            Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

impl Worker {
    /// Notifies workers of all jobs whose notification was not sent or was lost, as long as the
    /// bus takes the messages.
    async fn sweep(&self, started_at: Timestamp, shutdown: &CancellationToken) -> Result<()> {
        for kind in handlers::kinds(self.queue) {
            while self.parts.bus.is_ready(self.queue) && !shutdown.is_cancelled() {
                let now = self.parts.clock.now();
                let never_notified = self
                    .notify_missed(kind, Missed::NeverNotified { now }, started_at)
                    .await?;
                let lost = self.lost(now, started_at).await?;
                let lost = self.notify_missed(kind, lost, started_at).await?;
                if never_notified.max(lost) < CHUNK {
                    break;
                }
            }
        }
        Ok(())
    }

    /// If workers were notified of a job before the returned time and it is still ready, its
    /// message was lost.
    ///
    /// Messages come in the sequence in which they were sent. So when a message has come, those
    /// that were sent before it have come too, or are lost. When no message waits in the queue,
    /// all have come or are lost. A bus within the process has lost all messages of an earlier
    /// process.
    async fn lost(&self, now: Timestamp, started_at: Timestamp) -> Result<Missed> {
        let turn = if self.parts.bus.depth(self.queue).await? == 0 {
            now
        } else {
            Timestamp(self.newest.load(Ordering::Relaxed)).min(now)
        };
        let mut before = turn.minus(LOST_AFTER);
        if self.parts.bus.is_local() {
            before = before.max(started_at);
        }
        let future = now.plus(AHEAD);
        Ok(Missed::Lost { before, future })
    }

    /// Notifies workers of one chunk of jobs, and returns how many jobs it had.
    async fn notify_missed(
        &self,
        kind: &str,
        missed: Missed,
        started_at: Timestamp,
    ) -> Result<i64> {
        let (bus, db) = (&self.parts.bus, &self.parts.db);
        self.heartbeat.touch();
        if !jobs::any_missed(db, self.queue, kind, missed).await? {
            return Ok(0);
        }
        if bus.depth(self.queue).await? > ENOUGH_IN_LINE {
            return Ok(0);
        }
        let now = self.parts.clock.now();
        let mut tx = db.begin().await?;
        let due = jobs::take_missed(&mut tx, self.queue, kind, missed, now, CHUNK).await?;
        tx.commit().await?;
        self.notify(kind, &due, started_at).await?;
        Ok(i64::try_from(due.len())?)
    }

    /// Notifies workers of jobs of one kind. Jobs whose message the bus does not take are left for
    /// the next sweep.
    async fn notify(&self, kind: &str, due: &[DueJob], started_at: Timestamp) -> Result<()> {
        let (bus, db) = (&self.parts.bus, &self.parts.db);
        // A bus within the process does not know which messages an earlier process had when it
        // died.
        let suspect = |due: &DueJob| {
            bus.is_local()
                && due
                    .notified_at
                    .is_some_and(|notified_at| notified_at < started_at)
        };
        let (suspects, others): (Vec<&DueJob>, Vec<&DueJob>) =
            due.iter().partition(|due| suspect(due));
        let messages = suspects
            .chunks(MAX_JOBS_PER_MESSAGE)
            .map(|message| (true, message))
            .chain(
                others
                    .chunks(MAX_JOBS_PER_MESSAGE)
                    .map(|message| (false, message)),
            );
        let mut missed: Vec<JobId> = due.iter().map(|due| due.id).collect();
        for (suspect, message) in messages {
            let ids: Vec<JobId> = message.iter().map(|due| due.id).collect();
            let job_ref = |due: &&DueJob| JobRef {
                job: due.id,
                traceparent: due.traceparent,
            };
            let job_refs: Vec<JobRef> = message.iter().map(job_ref).collect();
            let sent = if suspect {
                bus.notify_again(self.queue, kind, &job_refs).await
            } else {
                bus.notify(self.queue, kind, &job_refs).await
            };
            if let Err(error) = sent {
                jobs::clear_notified(db, &missed).await?;
                return Err(error).context("the bus does not take messages");
            }
            missed.retain(|id| !ids.contains(id));
        }
        Ok(())
    }
}
