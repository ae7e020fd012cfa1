//! Runs the jobs of one message: as a batch, with savepoints, or isolated (see the documentation
//! of the crate).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::job::{self, Job, JobId, Kind, MAX_UNFINISHED_ATTEMPTS, Next};
use flows::erased;
use flows::outbox::{Outbox, write_events};
use futures_util::FutureExt;
use platform::task;
use store::jobs::Claimed;
use store::sql::{self, Tx};
use store::{job_attempts, jobs};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::Worker;
use crate::attempt::Begun;
use crate::failure::{JobFailure, outage};
use crate::handlers::{self, Prepared};
use crate::report::{begin_run, span, took};
use crate::shapes::Seen;

/// How long a job may run. After that its connection is closed, and the run has failed.
pub(crate) const JOB_DEADLINE: Duration = Duration::from_secs(30);

/// The error of a run that panicked. The panic itself is logged where it happens.
pub(crate) const PANICKED: &str = "it panicked";

/// A run that is counted and has not ended.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    job: JobId,
    /// How many runs in a row have not ended in order, with this one.
    runs: i64,
}

/// The result of running a list of jobs in one transaction.
enum Outcome {
    /// All jobs are done, and the transaction is committed.
    Done,
    /// A handler returned an error, and the transaction is rolled back.
    Refused,
    /// A run panicked or took too long, and the transaction is rolled back.
    Lost(&'static str),
}

impl Worker {
    /// Runs those jobs of a message that are still ready and whose kind this version knows. An
    /// error comes from the database, and then the message is not acknowledged.
    ///
    /// `counted` gets the job whose run is counted. When the message is tried again, because the database went
    /// away in the middle, that is taken back first: it was not the job that ended the run.
    pub(crate) async fn process(
        self: &Arc<Self>,
        message: &bus::Message,
        counted: &mut Option<Counted>,
    ) -> sql::Result<()> {
        self.take_back(counted).await?;
        let now = self.parts.clock.now();
        let jobs = jobs::ready(&self.parts.db, &message.jobs, now).await?;
        if let Some(newest) = jobs.iter().map(|job| job.created_at.0).max() {
            self.newest.fetch_max(newest, Ordering::Relaxed);
        }
        let mut jobs = self.without_paused(jobs).await?;
        for job in &mut jobs {
            begin_run(job, message.context);
        }
        let (calls, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.kind.is_call());
        if !calls.is_empty() {
            self.calls(calls).await?;
        }
        if jobs.is_empty() {
            return Ok(());
        }
        if message.redelivered || jobs.iter().any(|job| job.unfinished_attempts > 0) {
            let jobs = self
                .without_those_that_wait(jobs, message.redelivered)
                .await?;
            return self.run_isolated(jobs, counted).await;
        }
        let begun = Begun::now(&self.parts.clock);
        let (prepared, failed) = self.prepare(jobs).await?;
        for (job, failure) in &failed {
            self.record(job, failure, begun, None).await?;
        }
        self.run_batch(prepared, counted).await
    }

    /// Takes back that a run was counted which the database has ended.
    pub(crate) async fn take_back(&self, counted: &mut Option<Counted>) -> sql::Result<()> {
        if let Some(Counted { job, runs }) = *counted {
            let (db, now) = (&self.parts.db, self.parts.clock.now());
            jobs::take_back_attempt(db, job, runs, now).await?;
            *counted = None;
        }
        Ok(())
    }

    /// Reads the bodies, and computes everything that needs no database, outside the async
    /// threads.
    async fn prepare(
        &self,
        jobs: Vec<Job>,
    ) -> sql::Result<(Vec<Prepared>, Vec<(Job, JobFailure)>)> {
        let parts = self.parts.clone();
        let each = move || {
            let mut prepared = Vec::with_capacity(jobs.len());
            let mut failed = Vec::new();
            let mut seen = Vec::with_capacity(jobs.len());
            for job in jobs {
                let _in_span = span(&job).entered();
                let run = AssertUnwindSafe(|| handlers::prepare(&parts, &job));
                match std::panic::catch_unwind(run) {
                    Ok(Ok(task)) => {
                        let one = Prepared { job, task };
                        seen.extend(Seen::of(&one));
                        prepared.push(one);
                    }
                    Ok(Err(error)) => {
                        seen.extend(Seen::unreadable(&job, &error));
                        failed.push((job, JobFailure::new(&error)));
                    }
                    Err(_) => failed.push((job, JobFailure::retry(PANICKED))),
                }
            }
            (prepared, failed, seen)
        };
        // This happens only when the runtime is shut down. The message is then not acknowledged.
        let prepared = task::elsewhere(tokio::task::spawn_blocking(each)).await;
        let (prepared, failed, seen) = prepared.map_err(|_| sql::Error::WorkerCrashed)?;
        self.shared.shapes.notice(&self.parts, &seen).await;
        Ok((prepared, failed))
    }

    /// Runs all jobs together. This is the usual way.
    async fn run_batch(
        &self,
        prepared: Vec<Prepared>,
        counted: &mut Option<Counted>,
    ) -> sql::Result<()> {
        if prepared.is_empty() {
            return Ok(());
        }
        match self
            .guarded(kind_of(&prepared), self.commit_batch(&prepared))
            .await?
        {
            Outcome::Done => {
                self.finished(prepared.iter().map(|prepared| &prepared.job));
                Ok(())
            }
            Outcome::Refused => self.run_with_savepoints(prepared, counted).await,
            Outcome::Lost(_) => self.run_isolated(jobs_of(prepared), counted).await,
        }
    }

    async fn commit_batch(&self, prepared: &[Prepared]) -> sql::Result<Outcome> {
        let mut tx = self.parts.db.begin().await?;
        let ids: Vec<JobId> = prepared.iter().map(|prepared| prepared.job.id).collect();
        let ours = jobs::finish(&mut tx, &ids, self.parts.clock.now()).await?;
        let ours: Vec<&Prepared> = prepared
            .iter()
            .filter(|prepared| ours.contains(&prepared.job.id))
            .collect();
        let applied = async {
            let outbox = [handlers::apply(self.context(), &mut tx, &ours).await?];
            write_events(&mut tx, &outbox).await?;
            anyhow::Ok(outbox)
        };
        match applied.await {
            Ok(outbox) => {
                tx.commit().await?;
                self.committed(&outbox);
                Ok(Outcome::Done)
            }
            Err(error) => {
                let error = outage(error)?;
                tracing::debug!(
                    error = format!("{error:#}"),
                    "running the jobs with savepoints"
                );
                tx.rollback().await?;
                Ok(Outcome::Refused)
            }
        }
    }

    /// Runs each job within a savepoint. The failed jobs are recorded, and the others succeed.
    async fn run_with_savepoints(
        &self,
        prepared: Vec<Prepared>,
        counted: &mut Option<Counted>,
    ) -> sql::Result<()> {
        let mut failed = Vec::new();
        let outcome = self
            .guarded(
                kind_of(&prepared),
                self.commit_with_savepoints(&prepared, &mut failed),
            )
            .await?;
        if let Outcome::Lost(_) = outcome {
            return self.run_isolated(jobs_of(prepared), counted).await;
        }
        let has_failed = |job: &Job| failed.iter().any(|(id, _)| *id == job.id);
        self.finished(
            prepared
                .iter()
                .map(|prepared| &prepared.job)
                .filter(|job| !has_failed(job)),
        );
        for Prepared { job, .. } in &prepared {
            if let Some((_, (next, failure))) = failed.iter().find(|(id, _)| *id == job.id) {
                self.announce(job, *next, failure);
            }
        }
        Ok(())
    }

    async fn commit_with_savepoints(
        &self,
        prepared: &[Prepared],
        failed: &mut Vec<(JobId, (Next, JobFailure))>,
    ) -> sql::Result<Outcome> {
        let mut tx = self.parts.db.begin().await?;
        let mut outboxes = Vec::new();
        for prepared in prepared {
            tx.savepoint().await?;
            let begun = Begun::now(&self.parts.clock);
            let run = self.run_one(&mut tx, prepared);
            match run.instrument(span(&prepared.job)).await? {
                Ok(outbox) => {
                    tx.release_savepoint().await?;
                    outboxes.extend(outbox);
                }
                Err(failure) => {
                    tx.undo_to_savepoint().await?;
                    let written = self.write_failure(&mut tx, &prepared.job, &failure, begun);
                    if let Some((next, _)) = written.await? {
                        failed.push((prepared.job.id, (next, failure)));
                    }
                }
            }
        }
        if let Err(error) = write_events(&mut tx, &outboxes).await {
            outage(error.into())?;
            tx.rollback().await?;
            return Ok(Outcome::Lost("its events cannot be written"));
        }
        tx.commit().await?;
        self.committed(&outboxes);
        Ok(Outcome::Done)
    }

    /// Marks one job done and writes its effects but for the events, unless it is already done.
    async fn run_one(
        &self,
        tx: &mut Tx,
        prepared: &Prepared,
    ) -> sql::Result<Result<Option<Outbox<'_>>, JobFailure>> {
        let now = self.parts.clock.now();
        if jobs::finish(tx, &[prepared.job.id], now).await?.is_empty() {
            return Ok(Ok(None));
        }
        match handlers::apply(self.context(), tx, &[prepared]).await {
            Ok(outbox) => Ok(Ok(Some(outbox))),
            Err(error) => Ok(Err(JobFailure::new(&outage(error)?))),
        }
    }

    /// Runs each job in a transaction of its own, and counts each run before it starts.
    async fn run_isolated(&self, jobs: Vec<Job>, counted: &mut Option<Counted>) -> sql::Result<()> {
        for job in jobs {
            let begun = Begun::now(&self.parts.clock);
            let Some(unfinished_attempts) = self.begin_attempt(&job, counted).await? else {
                continue;
            };
            if unfinished_attempts > MAX_UNFINISHED_ATTEMPTS {
                let text = format!(
                    "its process ended while running it, {MAX_UNFINISHED_ATTEMPTS} times in a row"
                );
                self.record(&job, &JobFailure::permanent(text), begun, None)
                    .await?;
            } else {
                self.run_one_isolated(job).await?;
            }
            *counted = None;
        }
        Ok(())
    }

    /// A message comes again because the process that had it has ended, or its connection. Those of its jobs whose
    /// runs have ended their process wait before they run again, the longer the more there were.
    async fn without_those_that_wait(
        &self,
        jobs: Vec<Job>,
        is_redelivered: bool,
    ) -> sql::Result<Vec<Job>> {
        let mut others = Vec::new();
        for job in jobs {
            let unfinished = job.unfinished_attempts;
            if is_redelivered && (1..MAX_UNFINISHED_ATTEMPTS).contains(&unfinished) {
                let until = self.parts.clock.now().plus(job::pause_after(unfinished));
                jobs::wait_after(&self.parts.db, job.id, unfinished, until).await?;
            } else {
                others.push(job);
            }
        }
        Ok(others)
    }

    async fn begin_attempt(
        &self,
        job: &Job,
        counted: &mut Option<Counted>,
    ) -> sql::Result<Option<i64>> {
        let mut tx = self.parts.db.begin().await?;
        let unfinished_attempts = jobs::begin_attempt(&mut tx, job.id).await?;
        // Before the commit: it may be done although its answer is lost.
        *counted = unfinished_attempts.map(|runs| Counted { job: job.id, runs });
        tx.commit().await?;
        Ok(unfinished_attempts)
    }

    async fn run_one_isolated(&self, job: Job) -> sql::Result<()> {
        let begun = Begun::now(&self.parts.clock);
        let (prepared, failed) = self.prepare(vec![job]).await?;
        for (job, failure) in &failed {
            self.record(job, failure, begun, None).await?;
        }
        let Some(prepared) = prepared.into_iter().next() else {
            return Ok(());
        };
        let mut failure = None;
        let run = async {
            let mut tx = self.parts.db.begin().await?;
            let ran = match self.run_one(&mut tx, &prepared).await? {
                Ok(outbox) => {
                    let outbox: Vec<_> = outbox.into_iter().collect();
                    match write_events(&mut tx, &outbox).await {
                        Ok(()) => Ok(outbox),
                        Err(error) => Err(JobFailure::new(&outage(error.into())?)),
                    }
                }
                Err(failure) => Err(failure),
            };
            match ran {
                Ok(outbox) => {
                    tx.commit().await?;
                    self.committed(&outbox);
                    Ok(Outcome::Done)
                }
                Err(error) => {
                    failure = Some(error);
                    tx.rollback().await?;
                    Ok(Outcome::Refused)
                }
            }
        };
        let run = run.instrument(span(&prepared.job));
        match self.guarded(prepared.job.kind, run).await? {
            Outcome::Done => {
                self.finished([&prepared.job]);
                Ok(())
            }
            Outcome::Refused => {
                let failure = failure.unwrap_or_else(|| JobFailure::retry("it failed"));
                self.record(&prepared.job, &failure, begun, None).await
            }
            Outcome::Lost(why) => {
                let failure = JobFailure::retry(why);
                self.record(&prepared.job, &failure, begun, None).await
            }
        }
    }

    /// Limits the time of a run and catches its panic. In both cases the run's transaction is
    /// dropped, which closes the connection, so the database rolls the transaction back.
    async fn guarded(
        &self,
        kind: Kind,
        run: impl Future<Output = sql::Result<Outcome>>,
    ) -> sql::Result<Outcome> {
        let begun = Instant::now();
        let ended = timeout(JOB_DEADLINE, AssertUnwindSafe(run).catch_unwind()).await;
        took(kind, begun.elapsed());
        match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Ok(Outcome::Lost(PANICKED)),
            Err(_) => Ok(Outcome::Lost("it took too long")),
        }
    }

    /// Records a failed run, in a transaction of its own. The failure of a call counts for nothing once
    /// somebody else has claimed its job.
    pub(crate) async fn record(
        &self,
        job: &Job,
        failure: &JobFailure,
        begun: Begun,
        claimed: Option<Claimed>,
    ) -> sql::Result<()> {
        let mut tx = self.parts.db.begin().await?;
        if let Some(claimed) = claimed
            && !jobs::has_claim(&mut tx, job.id, claimed.token).await?
        {
            return tx.rollback().await;
        }
        let written = self.write_failure(&mut tx, job, failure, begun).await?;
        tx.commit().await?;
        if let Some((next, outbox)) = written {
            self.committed(outbox.as_slice());
            self.announce(job, next, failure);
        }
        Ok(())
    }

    /// Decides whether and when a failed job runs again, and adds the run to the job's attempts.
    /// Returns that, and what follows from it for a job that is dead. `None`: the job was no longer ready.
    async fn write_failure(
        &self,
        tx: &mut Tx,
        job: &Job,
        failure: &JobFailure,
        begun: Begun,
    ) -> sql::Result<Option<(Next, Option<Outbox<'_>>)>> {
        let clock = &self.parts.clock;
        let now = clock.now();
        let attempts = job.attempts + 1;
        erased::erase_body_of_failed(self.context(), tx, job).await?;
        let deadline = job::deadline(job.kind.queue(), attempts, job.deadline_at, now);
        let next = if failure.permanent {
            Next::Dead
        } else {
            let wait = failure.retry_after.unwrap_or_default();
            match job::next(job.kind.queue(), attempts, now, deadline, clock.jitter()) {
                Next::RetryAt(run_at) => Next::RetryAt(run_at.max(now.plus(wait))),
                Next::Dead => Next::Dead,
            }
        };
        let (written, outcome) = match next {
            Next::RetryAt(run_at) => {
                let written = jobs::retry(tx, job.id, attempts, run_at, deadline, &failure.text);
                (written.await?, job_attempts::Outcome::Retried)
            }
            Next::Dead => {
                let written = jobs::dead_letter(tx, job.id, attempts, now, &failure.text);
                (written.await?, job_attempts::Outcome::Dead)
            }
        };
        if !written {
            return Ok(None);
        }
        let attempt = begun.attempt(clock, outcome, &failure.text, failure.status);
        job_attempts::add(tx, job.id, &attempt).await?;
        let mut outbox = None;
        if next == Next::Dead {
            // Boxed: it is large, and every caller's future would hold it.
            let exhausted = handlers::on_exhausted(self.context(), tx, job, &failure.text);
            outbox = Some(Box::pin(exhausted).await?);
        }
        Ok(Some((next, outbox)))
    }
}

fn jobs_of(prepared: Vec<Prepared>) -> Vec<Job> {
    prepared.into_iter().map(|prepared| prepared.job).collect()
}

/// A message is of one kind.
fn kind_of(prepared: &[Prepared]) -> Kind {
    prepared[0].job.kind
}
