//! The sweep rings what is due and was not rung lately: retries, rings that were lost with
//! their process, all that waited while the broker was down. Each worker sweeps its own
//! queue; ringing a job twice is harmless.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use common::bus::RING_SIZE;
use common::clock::Timestamp;
use common::job::JobId;
use common::store::jobs::{self, Due};
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::handlers;

const PAUSE: Duration = Duration::from_secs(1);
/// Jobs rung by one transaction.
const CHUNK: i64 = 16 * RING_SIZE as i64;
/// A rung job that is still ready after this, while nothing waits in the queue, was lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
/// While messages wait, a job may just be standing in line.
const LOST_AFTER_IN_LINE: Duration = Duration::from_mins(2);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    if handlers::kinds(worker.queue).is_empty() {
        return;
    }
    let started_at = worker.parts.clock.now();
    let mut down = false;
    loop {
        match worker.sweep(started_at).await {
            Ok(()) => down = false,
            Err(error) if !down => {
                down = true;
                tracing::warn!(error = format!("{error:#}"), "the sweep failed; trying again");
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
    /// Rings all that is due, as long as the bus takes it.
    pub(crate) async fn sweep(&self, started_at: Timestamp) -> Result<()> {
        let (bus, db) = (&self.parts.bus, &self.parts.db);
        let kinds = handlers::kinds(self.queue);
        while bus.is_ready(self.queue) {
            let now = self.parts.clock.now();
            let stale = self.not_since(started_at, now, LOST_AFTER);
            if !jobs::any_due(db, self.queue, kinds, now, stale).await? {
                return Ok(());
            }
            let in_line = bus.depth(self.queue).await? > 0;
            let patience = if in_line { LOST_AFTER_IN_LINE } else { LOST_AFTER };
            let stale = self.not_since(started_at, now, patience);
            let mut tx = db.begin().await?;
            let due = jobs::due(&mut tx, self.queue, kinds, now, stale, CHUNK).await?;
            tx.commit().await?;
            let swept = due.len();
            self.ring(&due, started_at).await?;
            if i64::try_from(swept)? < CHUNK {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Jobs rung before this moment are rung again. A bus within the process has forgotten
    /// all that an earlier process rang.
    fn not_since(&self, started_at: Timestamp, now: Timestamp, patience: Duration) -> Timestamp {
        let moment = now.minus(patience);
        if self.parts.bus.is_local() {
            return moment.max(started_at);
        }
        moment
    }

    /// Rings jobs in messages of one kind each; those the bus does not take are marked again.
    async fn ring(&self, due: &[Due], started_at: Timestamp) -> Result<()> {
        let (bus, db) = (&self.parts.bus, &self.parts.db);
        // A bus within the process cannot know what an earlier process died running.
        let suspect = |due: &Due| {
            bus.is_local() && due.rung_at.is_some_and(|rung_at| rung_at < started_at)
        };
        let mut due: Vec<&Due> = due.iter().collect();
        due.sort_by_key(|due| (suspect(due), due.kind.as_str(), due.id));
        let same = |a: &&Due, b: &&Due| a.kind == b.kind && suspect(a) == suspect(b);
        for group in due.chunk_by(same) {
            for message in group.chunks(RING_SIZE) {
                let ids: Vec<JobId> = message.iter().map(|due| due.id).collect();
                let kind = &message[0].kind;
                let rung = if suspect(message[0]) {
                    bus.ring_again(self.queue, kind, &ids).await
                } else {
                    bus.ring(self.queue, kind, &ids).await
                };
                if let Err(error) = rung {
                    jobs::unring(db, &ids).await?;
                    return Err(error).context("the bus does not take rings");
                }
            }
        }
        Ok(())
    }
}
