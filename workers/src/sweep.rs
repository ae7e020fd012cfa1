//! The sweep notifies workers of jobs that are due and of which they were not notified: retries, jobs
//! that came while more waited in the queue than should, jobs that came while the broker was down, and
//! jobs whose message was lost. It is harmless to notify workers of a job twice.
//!
//! Whoever waits in the queue is waited for by all that come later. So the queue gets only as many
//! messages as the workers take in about half a second, and what they are about is chosen in the database:
//! each kind of job has an equal share, and within a kind the shops have turns
//! ([`store::jobs::missed`]). So a small shop's order does not wait until a large shop's million is done,
//! and no retry, refund or privacy request waits for either.
//!
//! Each worker looks; of those that find something to do, one at a time does it, by a lease. What a look
//! costs does not depend on how many jobs wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use bus::{JobRef, MAX_JOBS_PER_MESSAGE};
use domain::job::{JobId, Kind};
use domain::time::Timestamp;
use futures_util::{StreamExt as _, stream};
use platform::crash_point::{self, Point};
use store::jobs;
use store::jobs::missed::{self, DueJob, Look};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::lease::Lease;

/// The pause between two rounds while there is something to do, the shortest one when there is not, and
/// by how much that one is longer unless messages come to this worker.
const PAUSE: Duration = Duration::from_millis(100);
const IDLE_PAUSE: Duration = Duration::from_millis(250);
const IDLE_REST: Duration = Duration::from_millis(750);
/// When a look takes long, the pause after it is this many times as long, up to a limit. It does while a
/// transaction of somebody keeps the server from clearing away the index entries of jobs that are done,
/// which are then read at each look.
const SHARE: u32 = 20;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many messages may wait for the broker's confirm at a time.
const MESSAGES_AT_ONCE: usize = 32;
/// If a job is still ready this long after its notification, and its message should have come, the
/// message was lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
/// After this time it counts as lost in any case: nothing should wait in the queue for so long.
const LOST_AT_LATEST: Duration = Duration::from_secs(30);
/// If the time of a notification is this far in the future, a wrong clock has written it.
const WRONG_CLOCK: Duration = Duration::from_mins(1);
const LEASE_LENGTH: Duration = Duration::from_secs(3);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    // A version that knows other kinds has a sweep of its own.
    let lease = format!(
        "sweep of {} kinds of {}",
        Kind::of_queue(worker.queue).count(),
        worker.queue
    );
    let mut sweep = Sweep {
        lease: Lease::new(&worker.parts, lease, LEASE_LENGTH),
        started_at: worker.parts.clock.now(),
        turns: HashMap::new(),
        first: 0,
        worker,
    };
    let mut down = false;
    while !shutdown.is_cancelled() {
        sweep.worker.heartbeat.touch();
        let begun = Instant::now();
        let swept = sweep.round(&shutdown).await;
        let took = begun.elapsed();
        let goes_on = matches!(swept, Ok(true));
        let rest = match &swept {
            Ok(false) => LONGEST_PAUSE.min(took * SHARE),
            Ok(true) | Err(_) => Duration::ZERO,
        };
        match swept {
            Ok(_) => down = false,
            Err(error) => {
                if !down {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the sweep failed; trying again"
                    );
                }
                down = true;
                // Another worker may be able to do it.
                sweep.lease.let_go(&sweep.worker.parts).await;
            }
        }
        tokio::select! {
            biased;
            () = sweep.pause(goes_on, rest) => {}
            () = shutdown.cancelled() => {}
        }
    }
    sweep.lease.let_go(&sweep.worker.parts).await;
}

/// The sweep of one worker.
struct Sweep {
    worker: Arc<Worker>,
    lease: Lease,
    started_at: Timestamp,
    /// The shop that had the last turn, by the name of the kind.
    turns: HashMap<String, String>,
    /// The place of the kind that is the first one in the next round.
    first: usize,
}

/// A kind of which jobs wait.
struct Waiting {
    /// The name under which its jobs are stored. A kind may have several.
    name: String,
    kind: Kind,
}

impl Waiting {
    /// None of a kind that this version does not know.
    fn named(name: String) -> Option<Self> {
        let kind = Kind::named(&name)?;
        Some(Waiting { name, kind })
    }
}

impl Sweep {
    /// Does what is to be done. True when there may be more to do soon.
    async fn round(&mut self, shutdown: &CancellationToken) -> Result<bool> {
        if !self.worker.parts.bus.is_up() {
            return Ok(false);
        }
        let Worker { parts, queue, .. } = &*self.worker;
        let Look { kinds, notified } = missed::look(&parts.db, *queue, parts.clock.now()).await?;
        // The others wait for a version that can run them.
        let kinds: Vec<Waiting> = kinds.into_iter().filter_map(Waiting::named).collect();
        let is_any_lost = match notified {
            Some((first, last)) => self.is_any_lost(first, last).await?,
            None => false,
        };
        if (kinds.is_empty() && !is_any_lost) || !self.is_ours().await? {
            return Ok(false);
        }
        if is_any_lost {
            self.notify_lost(shutdown).await?;
        }
        self.notify_waiting(kinds, shutdown).await
    }

    /// Waits until the next round, at least for the rest that it was worth. While messages come to this
    /// worker, more jobs are likely to wait than usual.
    async fn pause(&self, goes_on: bool, rest: Duration) {
        if goes_on {
            tokio::time::sleep(PAUSE).await;
        } else {
            tokio::time::sleep(IDLE_PAUSE.max(rest)).await;
            let _ = tokio::time::timeout(IDLE_REST, self.worker.received.notified()).await;
        }
    }

    /// Whether this process holds the lease. Within one process there is nobody else.
    async fn is_ours(&mut self) -> Result<bool> {
        let parts = &self.worker.parts;
        Ok(parts.bus.is_local() || self.lease.hold(parts).await?)
    }

    /// Notifies workers of jobs that wait, as many as there is room for in the queue. Of calls at most
    /// as many as there is room for in this process, because the others have about the same.
    async fn notify_waiting(
        &mut self,
        mut kinds: Vec<Waiting>,
        shutdown: &CancellationToken,
    ) -> Result<bool> {
        let worker = self.worker.clone();
        let Worker { parts, queue, .. } = &*worker;
        let is_any = !kinds.is_empty();
        let mut room = match kinds.len() {
            0 => 0,
            _ => usize::try_from(parts.bus.room(*queue).await?)?,
        };
        let mut places = self.worker.calls.places();
        let mut calls_left = kinds.iter().filter(|it| it.kind.is_call()).count();
        self.first = self.first.wrapping_add(1);
        let first = self.first.checked_rem(kinds.len()).unwrap_or_default();
        kinds.rotate_left(first);
        while !kinds.is_empty() && room > 0 && !shutdown.is_cancelled() {
            let mut left = kinds.len();
            let mut with_more = Vec::new();
            for waiting in kinds {
                let share = room.div_ceil(left);
                left -= 1;
                if share == 0 {
                    break;
                }
                worker.heartbeat.touch();
                let mut most = share * MAX_JOBS_PER_MESSAGE;
                let is_call = waiting.kind.is_call();
                if is_call {
                    most = most.min(places.div_ceil(calls_left));
                    calls_left -= 1;
                    if most == 0 {
                        continue;
                    }
                }
                let turn = self.turns.entry(waiting.name.clone()).or_default();
                let now = parts.clock.now();
                let mut tx = parts.db.begin().await?;
                let due = missed::take(&mut tx, *queue, &waiting.name, turn, now, most).await?;
                tx.commit().await?;
                self.notify(&due).await?;
                room = room.saturating_sub(due.len().div_ceil(MAX_JOBS_PER_MESSAGE));
                if is_call {
                    places -= due.len();
                } else if due.len() == most {
                    with_more.push(waiting);
                }
            }
            kinds = with_more;
        }
        Ok(is_any)
    }

    /// True when the message of some job was lost. Workers were notified of the ready jobs between `first` and
    /// `last`.
    async fn is_any_lost(&self, first: Timestamp, last: Timestamp) -> Result<bool> {
        let now = self.worker.parts.clock.now();
        Ok(
            first < now.minus(LOST_AFTER) && first < self.lost_before(now).await?
                || last > now.plus(WRONG_CLOCK),
        )
    }

    /// If workers were notified of a job before the returned time and it is still ready, its message
    /// was lost.
    ///
    /// Messages come in the sequence in which they were sent. So when a message has come, those that
    /// were sent before it have come too, or are lost. When no message waits in the queue, all have come
    /// or are lost. A bus within the process has lost all messages of an earlier process.
    async fn lost_before(&self, now: Timestamp) -> Result<Timestamp> {
        let Worker {
            parts,
            queue,
            newest,
            ..
        } = &*self.worker;
        let come = if parts.bus.depth(*queue).await? == 0 {
            now
        } else {
            Timestamp(newest.load(Ordering::Relaxed)).min(now)
        };
        let before = come.minus(LOST_AFTER).max(now.minus(LOST_AT_LATEST));
        Ok(if parts.bus.is_local() {
            before.max(self.started_at)
        } else {
            before
        })
    }

    async fn notify_lost(&self, shutdown: &CancellationToken) -> Result<()> {
        let Worker { parts, queue, .. } = &*self.worker;
        while !shutdown.is_cancelled() {
            // The other half is for jobs that were never notified.
            let room = usize::try_from(parts.bus.room(*queue).await? / 2)?;
            if room == 0 {
                break;
            }
            let most = i64::try_from(room * MAX_JOBS_PER_MESSAGE)?;
            self.worker.heartbeat.touch();
            let now = parts.clock.now();
            let (before, future) = (self.lost_before(now).await?, now.plus(WRONG_CLOCK));
            let mut tx = parts.db.begin().await?;
            let lost = missed::take_lost(&mut tx, *queue, before, future, now, most).await?;
            tx.commit().await?;
            if lost.is_empty() {
                break;
            }
            // Jobs of a kind that this version cannot run wait for one that can.
            let is_known = |job: &DueJob| Kind::named(&job.kind).is_some();
            let (known, unknown): (Vec<_>, Vec<_>) = lost.into_iter().partition(is_known);
            let unknown: Vec<JobId> = unknown.iter().map(|job| job.id).collect();
            if !unknown.is_empty() {
                jobs::clear_notified(&parts.db, &unknown).await?;
            }
            self.notify(&known).await?;
        }
        Ok(())
    }

    /// Notifies workers of jobs. Those whose message the bus does not take are left for the next round.
    async fn notify(&self, due: &[DueJob]) -> Result<()> {
        let Worker { parts, .. } = &*self.worker;
        // A bus within the process does not know which messages an earlier process had when it died.
        let is_suspect = |due: &DueJob| {
            let before = |at: Timestamp| at < self.started_at;
            parts.bus.is_local() && due.notified_at.is_some_and(before)
        };
        let mut of_kinds: BTreeMap<(&str, bool), Vec<&DueJob>> = BTreeMap::new();
        for job in due {
            let key = (job.kind.as_str(), is_suspect(job));
            of_kinds.entry(key).or_default().push(job);
        }
        let mut messages = Vec::new();
        for ((kind, is_suspect), jobs) in of_kinds {
            for message in jobs.chunks(MAX_JOBS_PER_MESSAGE) {
                let job_ref = |due: &&DueJob| JobRef {
                    job: due.id,
                    traceparent: due.traceparent,
                };
                let job_refs: Vec<JobRef> = message.iter().map(job_ref).collect();
                messages.push(self.send(kind, job_refs, is_suspect));
            }
        }
        let sent: Vec<Result<(), Unsent>> = stream::iter(messages)
            .buffered(MESSAGES_AT_ONCE)
            .collect()
            .await;
        let (mut left, mut failed) = (Vec::new(), None);
        for unsent in sent.into_iter().filter_map(Result::err) {
            left.extend(unsent.jobs);
            failed = Some(unsent.error);
        }
        if let Some(error) = failed {
            jobs::clear_notified(&parts.db, &left).await?;
            return Err(error).context("the bus does not take messages");
        }
        Ok(())
    }

    async fn send(
        &self,
        kind: &str,
        job_refs: Vec<JobRef>,
        is_suspect: bool,
    ) -> Result<(), Unsent> {
        let Worker { parts, queue, .. } = &*self.worker;
        crash_point::reach(Point::SweepNotify).await;
        let sent = if is_suspect {
            parts.bus.notify_again(*queue, kind, &job_refs).await
        } else {
            parts.bus.notify(*queue, kind, &job_refs).await
        };
        if sent.is_ok() {
            crash_point::reach(Point::SweepNotified).await;
        }
        let jobs = || job_refs.iter().map(|job_ref| job_ref.job).collect();
        sent.map_err(|error| Unsent {
            jobs: jobs(),
            error,
        })
    }
}

/// A message that the bus did not take.
struct Unsent {
    jobs: Vec<JobId>,
    error: anyhow::Error,
}
