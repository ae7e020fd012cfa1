//! Running jobs that ask a provider.
//!
//! 1. **Claim**: the jobs of a message are due for nobody else for a while ([`LEASE`]).
//! 2. **Call**, with no transaction open, all of a message beside each other. The job's id
//!    is the idempotency key.
//! 3. **Record**: one transaction marks the job done and writes the answer.
//!
//! A process that dies in between loses nothing: when the claim has run out the job is due
//! again, and the provider knows the key.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use common::bus::RING_SIZE;
use common::job::{Job, JobId, MAX_CRASHES};
use common::provider::{Failure as CallFailure, PAUSE};
use common::sql;
use common::store::jobs;
use common::task;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::Worker;
use crate::failure::{Failure, outage};
use crate::handlers::{self, Answer, Ring};
use crate::run::{JOB_DEADLINE, PANICKED, finished};

/// Longer than any call runs.
const LEASE: Duration = Duration::from_secs(35);

impl Worker {
    pub(crate) async fn calls(&self, jobs: Vec<Job>) -> sql::Result<()> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let now = self.parts.clock.now();
        let mut tx = self.parts.db.begin().await?;
        let claimed = jobs::claim(&mut tx, &ids, now, now.plus(LEASE)).await?;
        tx.commit().await?;
        let claimed: HashMap<JobId, i64> = claimed.into_iter().collect();
        let ours = jobs
            .iter()
            .filter_map(|job| Some(self.call(job, *claimed.get(&job.id)?)));
        for ended in join_all(ours).await {
            ended?;
        }
        Ok(())
    }

    /// One job: its call, and what became of it.
    async fn call(&self, job: &Job, runs: i64) -> sql::Result<()> {
        if runs > MAX_CRASHES {
            let failure = Failure {
                text: format!("its process ended while running it, {MAX_CRASHES} times in a row"),
                permanent: true,
            };
            return self.record(job, &failure).await;
        }
        let call = handlers::call(&self.parts.db, &self.providers, job);
        let failure = match timeout(JOB_DEADLINE, AssertUnwindSafe(call).catch_unwind()).await {
            Ok(Ok(Ok(answer))) => return self.answered(job, &answer).await,
            Ok(Ok(Err(error))) => {
                if let Some(CallFailure::Paused(_)) = error.downcast_ref() {
                    return self.postpone(job, &error).await;
                }
                Failure::new(&outage(error)?)
            }
            Ok(Err(_)) => Failure::retry(PANICKED),
            Err(_) => Failure::retry("it took too long"),
        };
        self.record(job, &failure).await
    }

    async fn answered(&self, job: &Job, answer: &Answer) -> sql::Result<()> {
        let mut tx = self.parts.db.begin().await?;
        if jobs::finish(&mut tx, &[job.id], self.parts.clock.now())
            .await?
            .is_empty()
        {
            return tx.rollback().await;
        }
        let recorded = handlers::record(self.context(), &mut tx, job, answer).await;
        match recorded.map_err(outage) {
            Ok(effects) => {
                tx.commit().await?;
                self.ring_soon(effects.rings());
                finished([job]);
                Ok(())
            }
            Err(error) => {
                let failure = Failure::new(&error?);
                tx.rollback().await?;
                self.record(job, &failure).await
            }
        }
    }

    /// Puts a job off while its provider is left alone. That is not the job's failure.
    async fn postpone(&self, job: &Job, error: &anyhow::Error) -> sql::Result<()> {
        let clock = &self.parts.clock;
        let run_at = clock.now().plus(PAUSE.mul_f64(1.0 + clock.jitter()));
        let mut tx = self.parts.db.begin().await?;
        jobs::postpone(&mut tx, job.id, run_at, &error.to_string()).await?;
        tx.commit().await
    }

    /// Rings jobs that were committed, beside the work. What the bus does not take the sweep
    /// rings.
    pub(crate) fn ring_soon(&self, rings: &[Ring]) {
        if rings.is_empty() {
            return;
        }
        let mut rings = rings.to_vec();
        rings.sort_by_key(|ring| (ring.queue, ring.kind));
        let parts = self.parts.clone();
        task::spawn("ring", async move {
            for of_kind in rings.chunk_by(|a, b| (a.queue, a.kind) == (b.queue, b.kind)) {
                for message in of_kind.chunks(RING_SIZE) {
                    let ids: Vec<JobId> = message.iter().map(|ring| ring.id).collect();
                    let (queue, kind) = (message[0].queue, message[0].kind);
                    if parts.bus.ring(queue, kind, &ids).await.is_err()
                        && let Err(error) = jobs::unring(&parts.db, &ids).await
                    {
                        tracing::debug!(%error, "jobs that were not rung wait for the sweep");
                    }
                }
            }
        });
    }
}
