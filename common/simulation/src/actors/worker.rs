//! `workers::run`: the tasks that take messages and run their jobs, as a batch, with savepoints, or isolated. And what
//! a worker does after each commit: it notifies workers of the jobs that the commit has made.

use domain::event::LastEvent;
use domain::job::{self, MAX_UNFINISHED_ATTEMPTS, Next as Then};

use super::{Machine, Next, Part};
use crate::Wrong;
use crate::broker::{Sent, Taken};
use crate::database::{Result, Stop, TxId, lock};
use crate::outside::Behaviour;
use crate::rows::{Effect, Event, Job, Kind, Order};
use crate::tables::{events, jobs, refunds};
use crate::world::{Process, World, note};

/// The pauses after an outage (`workers::FIRST_PAUSE`, `LONGEST_PAUSE`).
pub const FIRST_PAUSE: i64 = 100;
pub const LONGEST_PAUSE: i64 = 5_000;

/// A job, as `jobs::ready` has read it.
pub type Read = (usize, Job);

/// The task that has a message.
#[derive(Debug, Default)]
pub struct Task {
    message: Option<Taken>,
    /// The jobs whose run was already counted for this message.
    counted: Vec<usize>,
    stage: Stage,
    pause: i64,
    /// `notifications` of the transaction that is open.
    made: Vec<usize>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Read,
    Batch(Vec<Read>, Step),
    Savepoints(Vec<Read>, usize, Step),
    Isolated(Vec<Read>, usize, Step),
    /// `record` of the job at this place, and what its failure says.
    Record(Vec<Read>, usize, Failure),
    Ack,
}

/// What a transaction does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    /// `begin_attempt`.
    Count,
    Finish,
    /// `handlers::apply` for these jobs, which are ours.
    Apply(Vec<usize>),
    Commit,
}

/// `JobFailure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub permanent: bool,
}

/// How a run of handlers ends that does not succeed.
enum Ends {
    Stop(Stop),
    /// A handler returned an error.
    Refused(Failure),
    /// A run panicked.
    Lost,
}

impl From<Stop> for Ends {
    fn from(stop: Stop) -> Self {
        Ends::Stop(stop)
    }
}

/// `handlers::apply` for one delivery: its rows, the event of its order, and the job of a call that is needed. A job
/// that misbehaves does so after it has written a part.
fn apply(
    world: &mut World,
    process: usize,
    tx: TxId,
    (id, job): Read,
    made: &mut Vec<usize>,
) -> std::result::Result<(), Ends> {
    let delivery = world.deliveries[job.delivery.unwrap_or_default()];
    let now = world.clock(process);
    let order = lock_order(world, tx, job.order)?;
    let effect = world.db.effects.reserve();
    world.db.effects.write(tx, effect, Some(Effect { job: id }));
    match world.trouble(id, delivery.behaviour) {
        Some(Behaviour::Kills(_)) => {
            note!(world, process, "job {id} ends its process");
            let time = world.random.between(50, 1_500);
            world.kill(process, time);
            return Err(Ends::Stop(Stop::Died));
        }
        Some(Behaviour::Panics(_)) => return Err(Ends::Lost),
        Some(Behaviour::Refuses) => return Err(Ends::Refused(Failure { permanent: true })),
        Some(_) => return Err(Ends::Refused(Failure { permanent: false })),
        None => {}
    }
    add_event(world, process, tx, id, job.order, order)?;
    if delivery.cancels && refunds::save(&mut world.db, tx, job.order)? {
        // `Outbox::job`: it counts as notified before the commit.
        let refund = world.db.jobs.reserve();
        let row = Job {
            notified_at: Some(now),
            ..Job::new(Kind::Refund, job.order, now)
        };
        jobs::insert(&mut world.db, tx, &[(refund, row)])?;
        made.push(refund);
    }
    Ok(())
}

/// `orders::records::load`: the row of the order, locked.
pub fn lock_order(world: &mut World, tx: TxId, order: usize) -> Result<Order> {
    let db = &mut world.db;
    db.statement(tx)?;
    lock!(db, orders, tx, order);
    let row = db.orders.seen(tx, order).unwrap_or(Order {
        events_at: LastEvent::none().millis(),
        events: 0,
    });
    db.orders.write(tx, order, Some(row));
    Ok(row)
}

/// `Outbox::order_event` and `Outbox::write`. The order's row is locked.
pub fn add_event(
    world: &mut World,
    process: usize,
    tx: TxId,
    job: usize,
    order: usize,
    row: Order,
) -> Result<()> {
    let now = world.clock(process);
    let mut last = LastEvent::from_millis(row.events_at);
    let id_at = last.next(now);
    let number = row.events + 1;
    let after = Order {
        events_at: last.millis(),
        events: number,
    };
    world.db.orders.write(tx, order, Some(after));
    let event = Event {
        id_at,
        job,
        order,
        number,
        position: None,
    };
    events::insert(&mut world.db, tx, event)?;
    Ok(())
}

/// `Worker::write_failure`. The pauses are those of `domain::job`.
pub fn write_failure(
    world: &mut World,
    process: usize,
    tx: TxId,
    (id, job): Read,
    failure: Failure,
) -> Result<Option<Then>> {
    let now = world.clock(process);
    let queue = job.kind.queue();
    let attempts = job.attempts + 1;
    let deadline = job::deadline(queue, attempts, job.deadline_at, now);
    let jitter = world.random.jitter();
    let next = if failure.permanent {
        Then::Dead
    } else {
        job::next(queue, attempts, now, deadline, jitter)
    };
    let written = match next {
        Then::RetryAt(run_at) => jobs::retry(&mut world.db, tx, id, attempts, run_at, deadline)?,
        Then::Dead => jobs::dead_letter(&mut world.db, tx, id, attempts, now)?,
    };
    note!(world, process, "job {id} has failed: {next:?}");
    Ok(written.then_some(next))
}

impl Task {
    /// `Worker::process`: reads the jobs, and chooses the way to run them.
    fn read(&mut self, process: usize, world: &mut World) -> Result<Next> {
        let Some(message) = &self.message else {
            self.stage = Stage::Idle;
            return Ok(Next::Soon);
        };
        let now = world.clock(process);
        let ids = message.jobs.clone();
        for id in &ids {
            if world.db.jobs.committed(*id).is_none() {
                world.facts.wrong(&format!(
                    "workers were notified of job {id}, which is not committed"
                ));
            }
        }
        let mut read = jobs::ready(&world.db, &ids, now)?;
        let due = read.clone();
        if world.rules.is(Wrong::DueOnlyByTheOwnClock) {
            read.retain(|(_, job)| job.run_at <= now);
        }
        for (id, job) in &due {
            if read.iter().all(|(it, _)| it != id) && job.attempts == 0 && job.claims == 0 {
                world.facts.wrong(&format!(
                    "job {id} came with a message, never ran, and is left to wait because of a clock (C16)"
                ));
            }
        }
        if world.rules.is(Wrong::JobThatEndsTwice) {
            let all = ids
                .iter()
                .filter_map(|id| Some((*id, world.db.jobs.committed(*id)?)));
            read = all.collect();
        }
        note!(
            world,
            process,
            "finds ready of {ids:?}: {:?}",
            read.iter().map(|it| it.0).collect::<Vec<_>>()
        );
        let newest = read.iter().map(|(_, job)| job.created_at.0).max();
        let worker = &mut world.processes[process];
        worker.newest = worker.newest.max(newest.unwrap_or_default());
        if world.rules.is(Wrong::AckBeforeCommit) {
            world.broker.ack(message);
        }
        if message.kind.is_call() {
            // Claiming is one step here, and the message is acknowledged afterwards.
            super::call::begin_calls(world, process, &read)?;
            self.stage = Stage::Ack;
        } else if read.is_empty() {
            self.stage = Stage::Ack;
        } else if self.is_suspect(&read) && world.rules.is_not(Wrong::NoIsolation) {
            self.stage = Stage::Isolated(read, 0, Step::Count);
        } else {
            self.stage = Stage::Batch(read, Step::Begin);
        }
        Ok(Next::Soon)
    }

    fn is_suspect(&self, jobs: &[Read]) -> bool {
        let is_redelivered = self.message.as_ref().is_some_and(|it| it.redelivered);
        is_redelivered || jobs.iter().any(|(_, job)| job.unfinished_attempts > 0)
    }

    /// `Worker::committed`: workers are notified of the jobs that were made, by a task of its own.
    fn committed(&mut self, process: usize, world: &mut World) {
        if !self.made.is_empty() {
            let jobs = std::mem::take(&mut self.made);
            world.start(process, Part::Notify(Notify::new(Kind::Refund, jobs)));
        }
    }

    /// `commit_batch`.
    fn batch(
        &mut self,
        tx: &mut Option<TxId>,
        process: usize,
        world: &mut World,
        jobs: Vec<Read>,
        step: Step,
    ) -> Result<Stage> {
        let now = world.clock(process);
        let ids: Vec<usize> = jobs.iter().map(|(id, _)| *id).collect();
        let next = match (step, *tx) {
            (Step::Begin | Step::Count, _) => {
                *tx = Some(world.db.begin()?);
                self.made.clear();
                Step::Finish
            }
            (Step::Finish, Some(open)) => {
                let guarded = world.rules.is_not(Wrong::JobThatEndsTwice);
                Step::Apply(jobs::finish(&mut world.db, open, &ids, now, guarded)?)
            }
            (Step::Apply(ours), Some(open)) => {
                let mut ours: Vec<Read> = jobs
                    .iter()
                    .copied()
                    .filter(|it| ours.contains(&it.0))
                    .collect();
                // Writers lock rows sorted by key.
                ours.sort_by_key(|(id, job)| (job.order, *id));
                for (_, job) in &ours {
                    lock_order(world, open, job.order)?;
                }
                ours.sort_unstable_by_key(|(id, _)| *id);
                for job in ours {
                    match apply(world, process, open, job, &mut self.made) {
                        Ok(()) => {}
                        Err(Ends::Stop(stop)) => return Err(stop),
                        Err(Ends::Refused(_)) => {
                            self.roll_back(tx, world);
                            return Ok(Stage::Savepoints(jobs, 0, Step::Begin));
                        }
                        Err(Ends::Lost) => {
                            self.roll_back(tx, world);
                            return Ok(Stage::Isolated(jobs, 0, Step::Count));
                        }
                    }
                }
                Step::Commit
            }
            (Step::Commit, Some(open)) => {
                *tx = None;
                world.db.commit(open)?;
                note!(world, process, "has done jobs {ids:?}");
                self.committed(process, world);
                return Ok(Stage::Ack);
            }
            (_, None) => return Err(Stop::Lost),
        };
        Ok(Stage::Batch(jobs, next))
    }

    fn roll_back(&mut self, tx: &mut Option<TxId>, world: &mut World) {
        self.made.clear();
        if let Some(tx) = tx.take() {
            world.db.rollback(tx);
        }
    }

    /// `commit_with_savepoints`: one job in each step.
    fn savepoints(
        &mut self,
        tx: &mut Option<TxId>,
        process: usize,
        world: &mut World,
        jobs: Vec<Read>,
        at: usize,
        step: &Step,
    ) -> Result<Stage> {
        let Some(open) = *tx else {
            if *step != Step::Begin {
                return Err(Stop::Lost);
            }
            *tx = Some(world.db.begin()?);
            self.made.clear();
            return Ok(Stage::Savepoints(jobs, 0, Step::Finish));
        };
        let Some(job) = jobs.get(at).copied() else {
            *tx = None;
            world.db.commit(open)?;
            note!(
                world,
                process,
                "has run jobs {:?} with savepoints",
                jobs.iter().map(|it| it.0).collect::<Vec<_>>()
            );
            self.committed(process, world);
            return Ok(Stage::Ack);
        };
        // A statement that waits is made again: the order is locked first, so that nothing is written before.
        let savepoint = world.db.savepoint(open)?;
        let made = self.made.len();
        match self.run_one(world, process, open, job) {
            Ok(()) => {}
            Err(Ends::Stop(stop @ Stop::Waits(_))) => {
                world.db.undo_to(open, &savepoint)?;
                return Err(stop);
            }
            Err(Ends::Stop(stop)) => return Err(stop),
            Err(Ends::Lost) => {
                self.roll_back(tx, world);
                return Ok(Stage::Isolated(jobs, 0, Step::Count));
            }
            Err(Ends::Refused(failure)) => {
                if world.rules.is_not(Wrong::NoSavepoint) {
                    world.db.undo_to(open, &savepoint)?;
                }
                self.made.truncate(made);
                write_failure(world, process, open, job, failure)?;
            }
        }
        Ok(Stage::Savepoints(jobs, at + 1, Step::Finish))
    }

    /// `Worker::run_one`.
    fn run_one(
        &mut self,
        world: &mut World,
        process: usize,
        tx: TxId,
        job: Read,
    ) -> std::result::Result<(), Ends> {
        let now = world.clock(process);
        let guarded = world.rules.is_not(Wrong::JobThatEndsTwice);
        if jobs::finish(&mut world.db, tx, &[job.0], now, guarded)?.is_empty() {
            return Ok(());
        }
        apply(world, process, tx, job, &mut self.made)
    }

    /// `run_isolated`.
    fn isolated(
        &mut self,
        tx: &mut Option<TxId>,
        process: usize,
        world: &mut World,
        (jobs, at): (Vec<Read>, usize),
        step: Step,
    ) -> Result<Stage> {
        let Some(job) = jobs.get(at).copied() else {
            return Ok(Stage::Ack);
        };
        let next = match (step, *tx) {
            (Step::Count, _) => {
                let Some(unfinished) = self.count(process, world, job)? else {
                    return Ok(Stage::Isolated(jobs, at + 1, Step::Count));
                };
                if unfinished > MAX_UNFINISHED_ATTEMPTS {
                    return Ok(Stage::Record(jobs, at, Failure { permanent: true }));
                }
                Step::Begin
            }
            (Step::Begin, _) => {
                *tx = Some(world.db.begin()?);
                self.made.clear();
                Step::Finish
            }
            (Step::Finish | Step::Apply(_), Some(open)) => {
                let savepoint = world.db.savepoint(open)?;
                match self.run_one(world, process, open, job) {
                    Ok(()) => Step::Commit,
                    Err(Ends::Stop(stop @ Stop::Waits(_))) => {
                        world.db.undo_to(open, &savepoint)?;
                        return Err(stop);
                    }
                    Err(Ends::Stop(stop)) => return Err(stop),
                    Err(Ends::Refused(failure)) => {
                        self.roll_back(tx, world);
                        return Ok(Stage::Record(jobs, at, failure));
                    }
                    Err(Ends::Lost) => {
                        self.roll_back(tx, world);
                        return Ok(Stage::Record(jobs, at, Failure { permanent: false }));
                    }
                }
            }
            (Step::Commit, Some(open)) => {
                *tx = None;
                world.db.commit(open)?;
                note!(
                    world,
                    process,
                    "has done job {} in a transaction of its own",
                    job.0
                );
                self.committed(process, world);
                return Ok(Stage::Isolated(jobs, at + 1, Step::Count));
            }
            (_, None) => return Err(Stop::Lost),
        };
        Ok(Stage::Isolated(jobs, at, next))
    }

    /// Counts the run of a job before it starts, once for each message. None when the job is no longer ready.
    fn count(&mut self, process: usize, world: &mut World, (id, job): Read) -> Result<Option<i64>> {
        if self.counted.contains(&id) {
            return Ok(Some(job.unfinished_attempts));
        }
        if world.rules.is(Wrong::AttemptCountedInItsRun) {
            return Ok(Some(job.unfinished_attempts + 1));
        }
        let unfinished = world.single(|db, tx| jobs::begin_attempt(db, tx, id))?;
        if unfinished.is_some() {
            self.counted.push(id);
        }
        note!(world, process, "counts the run of job {id}: {unfinished:?}");
        Ok(unfinished)
    }

    /// `Worker::record`.
    fn record(
        process: usize,
        world: &mut World,
        jobs: Vec<Read>,
        at: usize,
        failure: Failure,
    ) -> Result<Stage> {
        let tx = world.db.begin()?;
        if let Err(stop) = write_failure(world, process, tx, jobs[at], failure) {
            world.db.rollback(tx);
            return Err(stop);
        }
        world.db.commit(tx)?;
        Ok(Stage::Isolated(jobs, at + 1, Step::Count))
    }
}

impl Machine for Task {
    fn step(&mut self, tx: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        let stage = std::mem::take(&mut self.stage);
        let kept = match &stage {
            Stage::Batch(jobs, step) => Stage::Batch(jobs.clone(), step.clone()),
            Stage::Savepoints(jobs, at, step) => Stage::Savepoints(jobs.clone(), *at, step.clone()),
            Stage::Isolated(jobs, at, step) => Stage::Isolated(jobs.clone(), *at, step.clone()),
            Stage::Record(jobs, at, failure) => Stage::Record(jobs.clone(), *at, *failure),
            Stage::Idle | Stage::Read | Stage::Ack => Stage::Read,
        };
        let next = match stage {
            Stage::Idle => {
                self.message = world.broker.take(process);
                let Some(message) = &self.message else {
                    return Ok(Next::Idle);
                };
                note!(world, process, "gets {message:?}");
                self.counted.clear();
                self.pause = FIRST_PAUSE;
                Ok(Stage::Read)
            }
            Stage::Read => {
                let next = self.read(process, world);
                if next.is_err() {
                    self.stage = Stage::Read;
                }
                return next;
            }
            Stage::Batch(jobs, step) => self.batch(tx, process, world, jobs, step),
            Stage::Savepoints(jobs, at, step) => {
                self.savepoints(tx, process, world, jobs, at, &step)
            }
            Stage::Isolated(jobs, at, step) => self.isolated(tx, process, world, (jobs, at), step),
            Stage::Record(jobs, at, failure) => Self::record(process, world, jobs, at, failure),
            Stage::Ack => {
                if let Some(message) = self.message.take() {
                    world.broker.ack(&message);
                }
                return Ok(Next::Soon);
            }
        };
        self.stage = match next {
            Ok(next) => next,
            Err(stop) => {
                self.stage = kept;
                return Err(stop);
            }
        };
        Ok(Next::Soon)
    }

    /// `Worker::answer`: the message is kept and tried again. A process that dies gives it back.
    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        self.made.clear();
        self.stage = if self.message.is_some() {
            Stage::Read
        } else {
            Stage::Idle
        };
        let pause = self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        pause
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Task(Task::default()))
    }

    fn interrupted(&self) -> Vec<usize> {
        self.counted.clone()
    }

    fn has_work(&self, _: &Process, world: &World) -> bool {
        matches!(self.stage, Stage::Idle) && world.broker.has_message()
    }
}

/// Notifies workers of jobs after the commit that made them, or clears the time of their notification.
#[derive(Debug)]
pub struct Notify {
    kind: Kind,
    jobs: Vec<usize>,
    sent: Option<Sent>,
    is_clearing: bool,
}

impl Notify {
    pub fn new(kind: Kind, jobs: Vec<usize>) -> Self {
        Notify {
            kind,
            jobs,
            sent: None,
            is_clearing: false,
        }
    }
}

impl Machine for Notify {
    fn step(&mut self, _: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        if self.jobs.is_empty() {
            return Ok(Next::End);
        }
        if self.is_clearing {
            world.single(|db, tx| jobs::clear_notified(db, tx, &self.jobs))?;
            return Ok(Next::End);
        }
        if let Some(sent) = self.sent.take() {
            self.is_clearing = !world.confirm(process, &sent);
            return Ok(if self.is_clearing {
                Next::Soon
            } else {
                Next::End
            });
        }
        if world.broker.is_ready_for_marked() {
            self.sent = world.send(process, self.kind, &self.jobs, false);
        }
        self.is_clearing = self.sent.is_none();
        Ok(Next::Soon)
    }

    /// The sweep finds the jobs.
    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        self.jobs.clear();
        0
    }

    fn reborn(&self) -> Option<Part> {
        None
    }
}
