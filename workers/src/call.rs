//! Runs the jobs that call a provider.
//!
//! 1. **Claim**: the jobs of a message are reserved for this process for a while ([`LEASE`]).
//!    After this is committed, the message is acknowledged.
//! 2. **Call**: the provider is called while no transaction is open, and the worker goes on with
//!    other messages, so that a provider that does not answer delays no other work. The
//!    idempotency key is made of the job's id.
//! 3. **Record**: one transaction marks the job done and writes the answer.
//!
//! If the process dies in between, nothing is lost: when the claim has ended, the job is due
//! again, and the provider recognizes the key. If it was only stopped for that long and goes on, it
//! writes nothing, because its claim's fencing token is no longer the job's last one.
//!
//! As many calls as there is room for are under way at a time, and some wait in this process
//! ([`Pending`]). No message waits for them: further calls are deferred.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Error;
use bus::{JobRef, MAX_JOBS_PER_MESSAGE};
use domain::code::Code;
use domain::job::{Job, JobId, LEASE, MAX_UNFINISHED_ATTEMPTS, Queue};
use domain::time::Timestamp;
use flows::outbox::{JobNotification, Outbox};
use futures_util::FutureExt;
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use platform::task;
use platform::trace;
use providers::{CallFailure, PAUSE};
use store::job_attempts::Outcome;
use store::jobs::Claimed;
use store::{job_attempts, jobs, sql};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::Worker;
use crate::attempt::Begun;
use crate::failure::{JobFailure, Later, Unfinished, outage, status, storable};
use crate::handlers::webhooks::Paused;
use crate::handlers::{self, Answer};
use crate::pending::Pending;
use crate::report::{begin_run, span, took};
use crate::run::{JOB_DEADLINE, PANICKED};

/// How many calls of a process may be under way.
const AT_ONCE: usize = 64;

/// How many privacy requests of a process may be under way. Each reads and writes much, and a
/// process has few database connections.
const REQUESTS_AT_ONCE: usize = 2;

/// How many webhooks of a process may be on their way in calls: so many that slow endpoints leave room
/// for the others, because there are at most 100 endpoints and `handlers::webhooks` limits each.
const WEBHOOKS_AT_ONCE: usize = 1024;

/// How many calls may wait in a process: those of two messages. The others wait in the database, where
/// the shops have turns.
const PENDING: usize = 2 * MAX_JOBS_PER_MESSAGE;

/// By how much calls are deferred when too many others are under way.
const NO_ROOM: Duration = Duration::from_secs(1);

const LEFT_ALONE: &str = "its provider does not answer and is left alone for a moment";

const STOPPED: &str = "its process was stopped";

/// By how much a call is deferred for which the provider is not ready, and one that needs an
/// operator to correct a setting.
const HELD_BACK: Duration = Duration::from_mins(10);
const MISCONFIGURED: Duration = Duration::from_secs(30);

/// How long calls that are under way may go on after the process was asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// The pauses before the worker tries again to write an answer that the database did not accept.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The calls of a process that are under way, and those that wait until these have ended.
pub(crate) struct Calls {
    room: Arc<Semaphore>,
    pending: Pending,
    tasks: TaskTracker,
    /// Whether new calls are refused because the process stops.
    closing: CancellationToken,
    cut: CancellationToken,
}

impl Calls {
    pub(crate) fn new(queue: Queue) -> Self {
        let room = match queue {
            Queue::Orders | Queue::Payments => AT_ONCE,
            Queue::Privacy => REQUESTS_AT_ONCE,
            Queue::Endpoints => WEBHOOKS_AT_ONCE,
        };
        Calls {
            room: Arc::new(Semaphore::new(room)),
            pending: Pending::new(PENDING),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    /// How many more calls would begin, or wait in this process and not in the database.
    pub(crate) fn places(&self) -> usize {
        self.room.available_permits() + self.pending.places()
    }

    /// From now on no call that waits is begun.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Waits for a while until the calls end. The jobs of the others are released and are due at
    /// once.
    pub(crate) async fn end(&self) {
        self.tasks.close();
        if timeout(GRACE, self.tasks.wait()).await.is_err() {
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}

/// The claim of a job that is called.
#[derive(Clone, Copy)]
struct Claim {
    claimed: Claimed,
    until: Timestamp,
}

/// The result of a call.
enum Ended {
    Answered(Answer, Begun),
    Failed(JobFailure, Begun),
    /// The call must be made later. This does not count as a failure. With `Begun` the provider was
    /// asked, and its answer says so.
    Deferred(Error, Duration, Option<Begun>),
}

impl Worker {
    /// Begins the calls of a message for which there is room. The others wait, or are deferred.
    pub(crate) async fn calls(self: &Arc<Self>, jobs: Vec<Job>) -> sql::Result<()> {
        let Calls { room, pending, .. } = &self.calls;
        let mut jobs = self.without_left_alone(jobs).await?;
        let is_closing = self.calls.closing.is_cancelled();
        let count = match pending.len() {
            0 if !is_closing => jobs.len().min(room.available_permits()),
            _ => 0,
        };
        let permits = room.clone().try_acquire_many_owned(count_u32(count));
        let waiting = if let Ok(permits) = permits {
            let waiting = jobs.split_off(count);
            self.begin_all(jobs, permits).await?;
            waiting
        } else {
            // Somebody was faster.
            jobs
        };
        let left = pending.add(waiting.iter().map(|job| job.id));
        self.defer(&left, NO_ROOM, "it waits for other calls to end")
            .await
    }

    /// Begins the calls that wait, each as soon as there is room for it.
    pub(crate) async fn begin_pending(self: Arc<Self>) {
        let Calls {
            room,
            pending,
            closing,
            ..
        } = &self.calls;
        let _at_work = self.heartbeat.at_work();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut is_failing = false;
        loop {
            let permit = closing.run_until_cancelled(async {
                pending.any().await;
                self.parts.journal.current().await;
                room.clone().acquire_owned().await
            });
            let Some(Ok(mut permits)) = permit.await else {
                return;
            };
            let more = room
                .available_permits()
                .min(pending.len().saturating_sub(1));
            if let Ok(more) = room.clone().try_acquire_many_owned(count_u32(more)) {
                permits.merge(more);
            }
            let ids = pending.take(permits.num_permits());
            match self.begin_read(&ids, permits).await {
                Ok(()) => {
                    is_failing = false;
                    backoff.reset();
                }
                Err(error) => {
                    if !is_failing {
                        tracing::error!(%error, "the database did not take the claims of calls; trying again");
                    }
                    is_failing = true;
                    // Others first: perhaps one of these is the cause. The sweep finds those for which
                    // there is no place any more.
                    pending.add(ids);
                    closing
                        .run_until_cancelled(tokio::time::sleep(backoff.next_pause()))
                        .await;
                }
            }
        }
    }

    /// Lets other processes have the calls that wait in this one.
    pub(crate) async fn give_up_pending(&self) {
        let ids = self.calls.pending.take(usize::MAX);
        if !ids.is_empty()
            && let Err(error) = jobs::clear_notified(&self.parts.db, &ids).await
        {
            tracing::debug!(%error, "the sweep finds the calls that waited here");
        }
    }

    /// Begins those of the calls that nobody has run meanwhile.
    async fn begin_read(
        self: &Arc<Self>,
        ids: &[JobId],
        permits: OwnedSemaphorePermit,
    ) -> sql::Result<()> {
        let now = self.parts.clock.now();
        let jobs = jobs::ready(&self.parts.db, ids, now).await?;
        let jobs = self.without_paused(jobs).await?;
        let jobs = self.without_left_alone(jobs).await?;
        self.begin_all(jobs, permits).await
    }

    /// Defers those whose provider does not answer, and returns the others.
    async fn without_left_alone(&self, jobs: Vec<Job>) -> sql::Result<Vec<Job>> {
        let is_left_alone = |job: &Job| self.providers.is_left_alone(job);
        let (left_alone, jobs): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_left_alone);
        let ids: Vec<JobId> = left_alone.iter().map(|job| job.id).collect();
        let why = format!("{}: {LEFT_ALONE}", Code::ProviderTimeout);
        self.defer(&ids, PAUSE, &why).await?;
        Ok(jobs)
    }

    /// Claims the jobs and begins the calls of those that nobody else has claimed.
    async fn begin_all(
        self: &Arc<Self>,
        jobs: Vec<Job>,
        mut permits: OwnedSemaphorePermit,
    ) -> sql::Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let claimed = self.claim(&ids).await?;
        for job in jobs {
            if let Some(claim) = claimed.get(&job.id).copied() {
                self.begin(job, claim, permits.split(1));
            }
        }
        Ok(())
    }

    async fn claim(&self, ids: &[JobId]) -> sql::Result<HashMap<JobId, Claim>> {
        let now = self.parts.clock.now();
        let mut tx = self.parts.db.begin().await?;
        let until = now.plus(LEASE);
        let claimed = jobs::claim(&mut tx, ids, now, until).await?;
        tx.commit().await?;
        let claim = |claimed: Claimed| (claimed.id, Claim { claimed, until });
        Ok(claimed.into_iter().map(claim).collect())
    }

    fn begin(self: &Arc<Self>, mut job: Job, claim: Claim, room: Option<OwnedSemaphorePermit>) {
        if job.run.is_none() {
            begin_run(&mut job, None);
        }
        let worker = self.clone();
        let context = job.context();
        let span = span(&job);
        let call = async move {
            worker.call(&job, claim).await;
            drop(room);
        };
        let call = trace::within(Some(context), call.instrument(span));
        task::spawn("call", self.calls.tasks.track_future(call));
    }

    /// Defers all of the jobs with one statement.
    async fn defer(&self, ids: &[JobId], pause: Duration, why: &str) -> sql::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let clock = &self.parts.clock;
        let now = clock.now();
        let run_at = now.plus(pause.mul_f64(1.0 + clock.jitter()));
        let mut tx = self.parts.db.begin().await?;
        jobs::defer(&mut tx, ids, now, run_at, why).await?;
        tx.commit().await
    }

    /// Makes the call of one claimed job and writes the result. If the database does not accept
    /// the result, writing it is tried again. If that fails too, the claim ends by itself, and the
    /// job is due again.
    async fn call(&self, job: &Job, claim: Claim) {
        let ended = self
            .calls
            .cut
            .run_until_cancelled(self.ask(job, claim.claimed))
            .await;
        let stopped = || Ended::Deferred(Error::msg(STOPPED), Duration::ZERO, None);
        let ended = ended.unwrap_or_else(stopped);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while let Err(error) = self.settle(job, claim, &ended).await {
            tracing::debug!(
                job = %job.id, request_id = %job.request_id(), trace_id = %job.context().trace_id(),
                %error, "the end of a call is written again"
            );
            let waited = self
                .calls
                .cut
                .run_until_cancelled(tokio::time::sleep(backoff.next_pause()));
            if waited.await.is_none() {
                return;
            }
        }
    }

    async fn ask(&self, job: &Job, claimed: Claimed) -> Ended {
        let begun = Begun::now(&self.parts.clock);
        if claimed.runs > MAX_UNFINISHED_ATTEMPTS {
            let text = format!(
                "its process ended while running it, {MAX_UNFINISHED_ATTEMPTS} times in a row"
            );
            return Ended::Failed(JobFailure::permanent(text), begun);
        }
        crash_point::reach(Point::Call).await;
        let call = async {
            crash_point::call(job.id.as_u128(), claimed.token).await?;
            handlers::call(&self.parts, &self.providers, job).await
        };
        let started = Instant::now();
        let ended = timeout(JOB_DEADLINE, AssertUnwindSafe(call).catch_unwind()).await;
        crash_point::reach(Point::Called).await;
        took(job.kind, started.elapsed());
        let error = match ended {
            Ok(Ok(Ok(answer))) => return Ended::Answered(answer, begun),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) => return Ended::Failed(JobFailure::retry(PANICKED), begun),
            Err(_) => return Ended::Failed(JobFailure::retry("it took too long"), begun),
        };
        let spread = 1.0 + self.parts.clock.jitter();
        let pause = PAUSE.mul_f64(spread);
        // These results, and outages, do not count as failures of the job.
        match error.downcast_ref() {
            Some(CallFailure::Paused(_)) => return Ended::Deferred(error, pause, None),
            Some(CallFailure::Waiting { .. }) => {
                return Ended::Deferred(error, HELD_BACK.mul_f64(spread), Some(begun));
            }
            Some(CallFailure::Misconfigured { .. } | CallFailure::WrongAddress { .. }) => {
                tracing::error!(
                    job = %job.id, request_id = %job.request_id(),
                    trace_id = %job.context().trace_id(), %error,
                    "a setting about a provider is wrong"
                );
                return Ended::Deferred(error, MISCONFIGURED.mul_f64(spread), Some(begun));
            }
            _ => {}
        }
        if let Some(Later { pause, .. }) = error.downcast_ref() {
            let pause = *pause;
            return Ended::Deferred(error, pause, None);
        }
        if error.is::<Unfinished>() || error.is::<Paused>() {
            return Ended::Deferred(error, Duration::ZERO, None);
        }
        match outage(error) {
            Ok(error) => Ended::Failed(JobFailure::new(&error), begun),
            Err(_) => Ended::Deferred(Error::msg("the database was away"), pause, None),
        }
    }

    async fn settle(&self, job: &Job, claim: Claim, ended: &Ended) -> sql::Result<()> {
        match ended {
            Ended::Answered(answer, begun) => self.answered(job, claim, answer, *begun).await,
            Ended::Failed(failure, begun) => {
                self.record(job, failure, *begun, Some(claim.claimed)).await
            }
            Ended::Deferred(why, pause, begun) => {
                self.defer_claimed(job, claim, why, *pause, *begun).await
            }
        }
    }

    /// Defers a job, unless somebody else has claimed it since, or has made it due while it was claimed,
    /// such as an operator who has decided what it waits for. If the provider was asked, this run is one of the job's attempts.
    async fn defer_claimed(
        &self,
        job: &Job,
        claim: Claim,
        why: &Error,
        pause: Duration,
        begun: Option<Begun>,
    ) -> sql::Result<()> {
        let clock = &self.parts.clock;
        let text = storable(why);
        let mut tx = self.parts.db.begin().await?;
        let pause = match why.downcast_ref::<Paused>() {
            Some(paused) => paused.pause(&mut tx).await?,
            None => pause,
        };
        let run_at = clock.now().plus(pause);
        let Claim { claimed, until } = claim;
        let is_ours =
            jobs::defer_claimed(&mut tx, claimed, until, run_at, &text, begun.is_some()).await?;
        if !is_ours {
            return tx.rollback().await;
        }
        if let Some(begun) = begun {
            let attempt = begun.attempt(clock, Outcome::Deferred, &text, status(why));
            job_attempts::add(&mut tx, job.id, &attempt).await?;
        }
        tx.commit().await?;
        if begun.is_some() {
            self.record_run(job, "deferred");
        }
        Ok(())
    }

    async fn answered(
        &self,
        job: &Job,
        claim: Claim,
        answer: &Answer,
        begun: Begun,
    ) -> sql::Result<()> {
        let mut tx = self.parts.db.begin().await?;
        let token = claim.claimed.token;
        if !jobs::finish_claimed(&mut tx, job.id, token, self.parts.clock.now()).await? {
            tx.rollback().await?;
            return handlers::discard(&self.parts.db, &self.providers, answer).await;
        }
        let recorded = handlers::record(self.context(), &mut tx, job, answer).await;
        match recorded.map_err(outage) {
            Ok(outbox) => {
                tx.commit().await?;
                if self.queue == Queue::Privacy {
                    self.parts.db.erased();
                }
                self.committed(&[outbox]);
                self.finished([job]);
                handlers::recorded(&self.providers, answer).await;
                Ok(())
            }
            Err(error) => {
                let error = error?;
                tx.rollback().await?;
                // First, so that this answer cannot be recorded after all when it is discarded.
                if let Some(Later { pause, .. }) = error.downcast_ref() {
                    self.defer_claimed(job, claim, &error, *pause, None).await?;
                } else {
                    let failure = JobFailure::new(&error);
                    self.record(job, &failure, begun, Some(claim.claimed))
                        .await?;
                }
                handlers::discard(&self.parts.db, &self.providers, answer).await
            }
        }
    }

    /// To be called after a commit with what it has written: its events are published, and workers are notified of its
    /// jobs, in tasks of their own.
    pub(crate) fn committed(&self, outboxes: &[Outbox<'_>]) {
        self.shared.events.notify_one();
        for outbox in outboxes {
            outbox.readable(&self.parts.bus);
        }
        self.notify(outboxes.iter().flat_map(|it| it.notifications().to_vec()));
    }

    /// Notifies workers of jobs that are committed. The sweep finds the jobs whose message the bus does not take, and calls
    /// for which there is no room here.
    pub(crate) fn notify(&self, notifications: impl IntoIterator<Item = JobNotification>) {
        let mut notifications: Vec<JobNotification> = notifications.into_iter().collect();
        if notifications.is_empty() {
            return;
        }
        notifications.sort_by_key(|notification| notification.kind);
        let parts = self.parts.clone();
        let full = (self.calls.places() == 0).then_some(self.queue);
        task::spawn("notify", async move {
            for of_kind in notifications.chunk_by(|a, b| a.kind == b.kind) {
                for message in of_kind.chunks(MAX_JOBS_PER_MESSAGE) {
                    let job_refs: Vec<JobRef> = message
                        .iter()
                        .map(|notification| notification.job_ref)
                        .collect();
                    let ids: Vec<JobId> = job_refs.iter().map(|job_ref| job_ref.job).collect();
                    let kind = message[0].kind;
                    let queue = kind.queue();
                    let has_room = full != Some(queue) || !kind.is_call();
                    crash_point::reach(Point::FollowUpNotify).await;
                    let is_sent = has_room
                        && parts.bus.is_ready_for_marked(queue)
                        && parts
                            .bus
                            .notify(queue, kind.into_str(), &job_refs)
                            .await
                            .is_ok();
                    if is_sent {
                        crash_point::reach(Point::FollowUpNotified).await;
                    } else if let Err(error) = jobs::clear_notified(&parts.db, &ids).await {
                        tracing::debug!(%error, "jobs that workers were not notified of wait for the sweep");
                    }
                }
            }
        });
    }
}

fn count_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
