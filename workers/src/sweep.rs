//! The sweep rings what nobody has heard of: retries, rings that were lost with their process,
//! all that waited while the broker was down. Each worker sweeps its own queue, a kind at a
//! time; ringing a job twice is harmless.
//!
//! Its cost must not grow with what waits: jobs that were never rung have an index of their
//! own, and of those that were rung only the ones are looked at that others have overtaken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use bus::{Bell, RING_SIZE};
use domain::job::JobId;
use domain::time::Timestamp;
use store::jobs::{self, Due, Unheard};
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::handlers;

const PAUSE: Duration = Duration::from_secs(1);
/// Jobs rung by one transaction.
const CHUNK: i64 = 512;
/// A rung job that is still ready this long after its turn was lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
/// A ring this far ahead was marked by a clock that was wrong.
const AHEAD: Duration = Duration::from_mins(1);
/// Messages that may wait in the queue before the sweep adds to them.
const ENOUGH_IN_LINE: u32 = 1000;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let started_at = worker.parts.clock.now();
    let mut down = false;
    loop {
        worker.pulse.beat();
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
    /// Rings all that is unheard, as long as the bus takes it.
    async fn sweep(&self, started_at: Timestamp, shutdown: &CancellationToken) -> Result<()> {
        for kind in handlers::kinds(self.queue) {
            while self.parts.bus.is_ready(self.queue) && !shutdown.is_cancelled() {
                let now = self.parts.clock.now();
                let unrung = self
                    .ring_unheard(kind, Unheard::Unrung { now }, started_at)
                    .await?;
                let lost = self.lost(now, started_at).await?;
                let lost = self.ring_unheard(kind, lost, started_at).await?;
                if unrung.max(lost) < CHUNK {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What was rung before this and is still ready has been lost.
    ///
    /// Messages come in the order in which they were sent: what was sent before a job that
    /// has come has had its turn. When none waits, all have. A bus within the process has
    /// forgotten all that an earlier process rang.
    async fn lost(&self, now: Timestamp, started_at: Timestamp) -> Result<Unheard> {
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
        Ok(Unheard::Lost { before, future })
    }

    /// Rings one chunk; how many jobs it held.
    async fn ring_unheard(
        &self,
        kind: &str,
        unheard: Unheard,
        started_at: Timestamp,
    ) -> Result<i64> {
        let (bus, db) = (&self.parts.bus, &self.parts.db);
        self.pulse.beat();
        if !jobs::any_unheard(db, self.queue, kind, unheard).await? {
            return Ok(0);
        }
        if bus.depth(self.queue).await? > ENOUGH_IN_LINE {
            return Ok(0);
        }
        let now = self.parts.clock.now();
        let mut tx = db.begin().await?;
        let due = jobs::take_unheard(&mut tx, self.queue, kind, unheard, now, CHUNK).await?;
        tx.commit().await?;
        self.ring(kind, &due, started_at).await?;
        Ok(i64::try_from(due.len())?)
    }

    /// Rings jobs of one kind; those the bus does not take are unheard again.
    async fn ring(&self, kind: &str, due: &[Due], started_at: Timestamp) -> Result<()> {
        let (bus, db) = (&self.parts.bus, &self.parts.db);
        // A bus within the process cannot know what an earlier process died running.
        let suspect =
            |due: &Due| bus.is_local() && due.rung_at.is_some_and(|rung_at| rung_at < started_at);
        let (suspects, others): (Vec<&Due>, Vec<&Due>) = due.iter().partition(|due| suspect(due));
        let messages = suspects
            .chunks(RING_SIZE)
            .map(|message| (true, message))
            .chain(others.chunks(RING_SIZE).map(|message| (false, message)));
        let mut unheard: Vec<JobId> = due.iter().map(|due| due.id).collect();
        for (suspect, message) in messages {
            let ids: Vec<JobId> = message.iter().map(|due| due.id).collect();
            let bell = |due: &&Due| Bell {
                job: due.id,
                traceparent: due.traceparent,
            };
            let bells: Vec<Bell> = message.iter().map(bell).collect();
            let rung = if suspect {
                bus.ring_again(self.queue, kind, &bells).await
            } else {
                bus.ring(self.queue, kind, &bells).await
            };
            if let Err(error) = rung {
                jobs::unring(db, &unheard).await?;
                return Err(error).context("the bus does not take rings");
            }
            unheard.retain(|id| !ids.contains(id));
        }
        Ok(())
    }
}
