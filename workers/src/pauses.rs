//! What operators have paused. The workers of a process know what was paused a second ago, and defer the jobs that a pause
//! concerns to its end. So each of them is looked at once, however long the pause is, and goes on by itself.
//!
//! When an operator ends a pause earlier, the jobs that were deferred are made due, some at a time. Workers
//! that have not heard of the end yet may defer a few more, so this is repeated for [`HEARD`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::job::{Job, JobId, Kind};
use domain::pause::Target;
use store::pauses::{self, Pause};
use store::sql;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Worker;

const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// By this time after its end every worker has heard of it.
const HEARD: Duration = Duration::from_secs(10);
/// How many jobs a transaction makes due.
const CHUNK: i64 = 1000;

/// The pauses as they were read last, also those that were ended.
#[derive(Default)]
pub struct Pauses {
    read: Mutex<Option<(Instant, Arc<Vec<Pause>>)>>,
}

/// The pause that ends last among those that concern a job.
fn longest<'a>(pauses: &[&'a Pause], job: &Job) -> Option<&'a Pause> {
    let concern = pauses.iter().copied();
    concern
        .filter(|pause| pause.target.concerns(job))
        .max_by_key(|pause| pause.until)
}

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let _at_work = worker.heartbeat.at_work();
    let mut ended = HashMap::new();
    let mut is_failing = false;
    while !shutdown.is_cancelled() {
        match worker.look_at_pauses(&mut ended, &shutdown).await {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "what is paused could not be read; trying again");
                }
                is_failing = true;
            }
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

impl Worker {
    /// What is known of pauses, which is at most a second old.
    async fn pauses(&self) -> sql::Result<Arc<Vec<Pause>>> {
        let mut read = self.shared.pauses.read.lock().await;
        if let Some((at, known)) = &*read
            && at.elapsed() < LOOK_AGAIN
        {
            return Ok(known.clone());
        }
        let at = Instant::now();
        let known = pauses::known(&self.parts.db, self.parts.clock.now()).await?;
        let known = Arc::new(known);
        *read = Some((at, known.clone()));
        Ok(known)
    }

    /// Whether the whole queue of this worker is paused.
    pub(crate) async fn is_paused(&self) -> sql::Result<bool> {
        let now = self.parts.clock.now();
        let known = self.pauses().await?;
        let mut in_force = known.iter().filter(|pause| pause.is_in_force(now));
        Ok(in_force.any(|pause| pause.target == Target::Queue(self.queue)))
    }

    /// Defers the jobs that a pause concerns to its end, and returns the others.
    pub(crate) async fn without_paused(&self, jobs: Vec<Job>) -> sql::Result<Vec<Job>> {
        let known = self.pauses().await?;
        let now = self.parts.clock.now();
        let in_force: Vec<&Pause> = known.iter().filter(|it| it.is_in_force(now)).collect();
        if in_force.is_empty() {
            return Ok(jobs);
        }
        let (mut others, mut paused) = (Vec::new(), Vec::<(&Pause, Vec<JobId>)>::new());
        for job in jobs {
            let Some(pause) = longest(&in_force, &job) else {
                others.push(job);
                continue;
            };
            match paused.iter_mut().find(|(it, _)| it.id == pause.id) {
                Some((_, ids)) => ids.push(job.id),
                None => paused.push((pause, vec![job.id])),
            }
        }
        for (pause, ids) in paused {
            let Pause {
                target,
                until,
                actor,
                ..
            } = pause;
            let why = format!("{target} is paused until {until} by {actor}");
            let mut tx = self.parts.db.begin().await?;
            pauses::defer(&mut tx, &ids, *until, now, &why).await?;
            tx.commit().await?;
        }
        Ok(others)
    }

    /// Makes the jobs due of the pauses that were ended. `seen` says since when this process knows of each
    /// end, because the clocks of two hosts differ.
    async fn look_at_pauses(
        &self,
        seen: &mut HashMap<Uuid, Instant>,
        shutdown: &CancellationToken,
    ) -> sql::Result<()> {
        let known = self.pauses().await?;
        seen.retain(|id, _| known.iter().any(|pause| pause.id == *id));
        for pause in known.iter().filter(|pause| pause.ended_at.is_some()) {
            let since = *seen.entry(pause.id).or_insert_with(Instant::now);
            if since.elapsed() <= HEARD {
                self.wake(pause, shutdown).await?;
            }
        }
        Ok(())
    }

    async fn wake(&self, pause: &Pause, shutdown: &CancellationToken) -> sql::Result<()> {
        for kind in Kind::of_queue(self.queue).map(Kind::into_str) {
            while !shutdown.is_cancelled() {
                let now = self.parts.clock.now();
                let db = &self.parts.db;
                let woken = pauses::wake(db, self.queue, kind, pause.until, now, CHUNK).await?;
                if woken < CHUNK.cast_unsigned() {
                    break;
                }
            }
        }
        Ok(())
    }
}
