//! `workers::call`: claims jobs, calls a provider while no transaction is open, and records the answer.

use domain::job::{LEASE, MAX_UNFINISHED_ATTEMPTS, Next as Then};
use domain::time::Timestamp;
use std::time::Duration;

use super::worker::{
    FIRST_PAUSE, Failure, LONGEST_PAUSE, Read, add_event, lock_order, write_failure,
};
use super::{Machine, Next, Part};
use crate::Wrong;
use crate::database::{Result, Stop, TxId};
use crate::outside::{Behaviour, Reply};
use crate::rows::{Kind, RefundState};
use crate::tables::jobs::{self, Claimed};
use crate::tables::{endpoints, refunds};
use crate::world::{Process, World, note};

/// How many calls of a process may be under way, and how many may wait in it (64 each in the product).
const AT_ONCE: usize = 2;
const PENDING: usize = 2;
/// `call::NO_ROOM` and `providers::PAUSE`.
const NO_ROOM: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(5);
/// `run::JOB_DEADLINE`: how long a call may take.
pub const JOB_DEADLINE: i64 = 30_000;
/// `handlers::KEYS_A_RUN`.
const KEYS_A_RUN: u32 = 2;
/// A claim that is too short.
const SHORT: Duration = Duration::from_secs(3);

/// `Worker::calls`: begins the calls for which there is room. The others wait in this process, or are deferred.
pub fn begin_calls(world: &mut World, process: usize, read: &[Read]) -> Result<()> {
    let Process { calls, pending, .. } = &world.processes[process];
    let room = if pending.is_empty() {
        AT_ONCE.saturating_sub(*calls)
    } else {
        0
    };
    let (now_called, waiting) = read.split_at(room.min(read.len()));
    begin_all(world, process, now_called)?;
    let mut left = Vec::new();
    for (id, _) in waiting {
        let pending = &mut world.processes[process].pending;
        if pending.len() < PENDING && !pending.contains(id) {
            pending.push(*id);
        } else if !pending.contains(id) {
            left.push(*id);
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let now = world.clock(process);
    let run_at = now.plus(world.spread(NO_ROOM));
    world.single(|db, tx| jobs::defer(db, tx, &left, now, run_at))
}

/// `Worker::begin_all`.
fn begin_all(world: &mut World, process: usize, read: &[Read]) -> Result<()> {
    if read.is_empty() {
        return Ok(());
    }
    let ids: Vec<usize> = read.iter().map(|(id, _)| *id).collect();
    let now = world.clock(process);
    let lease = if world.rules.is(Wrong::LeaseTooShort) {
        SHORT
    } else {
        LEASE
    };
    let until = now.plus(lease);
    let claimed = world.single(|db, tx| jobs::claim(db, tx, &ids, now, until))?;
    note!(world, process, "claims {claimed:?}");
    for claimed in claimed {
        let Some(job) = read.iter().find(|(id, _)| *id == claimed.id) else {
            continue;
        };
        world.processes[process].calls += 1;
        let is_excused = world.processes[process].ahead != 0;
        world
            .facts
            .call_begins((claimed.id, claimed.token), process, is_excused);
        world.start(process, Part::Call(Call::new(*job, claimed, until)));
    }
    Ok(())
}

/// `Worker::begin_pending`: begins the calls that wait, as soon as there is room.
#[derive(Debug, Default)]
pub struct PendingCalls;

impl Machine for PendingCalls {
    fn step(&mut self, _: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        if !self.has_work(&world.processes[process], world) {
            return Ok(Next::Idle);
        }
        let id = world.processes[process].pending[0];
        let now = world.clock(process);
        let read = jobs::ready(&world.db, &[id], now)?;
        begin_all(world, process, &read)?;
        world.processes[process].pending.retain(|it| *it != id);
        Ok(Next::Soon)
    }

    /// They go to the end, because one of them may be the cause.
    fn fail(&mut self, process: usize, world: &mut World) -> i64 {
        let pending = &mut world.processes[process].pending;
        if !pending.is_empty() {
            pending.rotate_left(1);
        }
        FIRST_PAUSE
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::PendingCalls(PendingCalls))
    }

    fn has_work(&self, process: &Process, _: &World) -> bool {
        !process.pending.is_empty() && process.calls < AT_ONCE
    }
}

/// One call of a claimed job.
#[derive(Debug)]
pub struct Call {
    job: Read,
    claimed: Claimed,
    until: Timestamp,
    begun_at: Option<i64>,
    stage: Stage,
    pause: i64,
    /// How many keys it asked with and got a failure that the provider keeps.
    keys: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    /// Looks for a refund, unless it is the first try.
    Find(i64),
    Ask(i64),
    /// Waits for the provider's answer to this request, which has the key of this number.
    Answer(u32, i64),
    Settle(Ended, Step),
}

/// `call::Ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With a refund, an accepted webhook, or because nothing was to be asked.
    Answered(Answer),
    Failed(Failure),
    Deferred(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    NotAsked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    Finish,
    Record,
    Commit,
}

const RETRY: Failure = Failure { permanent: false };

impl Call {
    fn new(job: Read, claimed: Claimed, until: Timestamp) -> Self {
        Call {
            job,
            claimed,
            until,
            begun_at: None,
            stage: Stage::Begin,
            pause: FIRST_PAUSE,
            keys: 0,
        }
    }

    /// `Worker::ask`, one step of it.
    fn ask(&mut self, process: usize, world: &mut World) -> std::result::Result<Next, Ended> {
        let begun_at = *self.begun_at.get_or_insert(world.now);
        let left = begun_at + JOB_DEADLINE - world.now;
        if left <= 0 {
            return Err(Ended::Failed(RETRY));
        }
        let (id, job) = self.job;
        match self.stage {
            Stage::Begin => {
                if self.claimed.runs > MAX_UNFINISHED_ATTEMPTS {
                    return Err(Ended::Failed(Failure { permanent: true }));
                }
                if world.random.once_in(2) {
                    self.misbehave(process, world)?;
                }
                if job.kind == Kind::Webhook {
                    return Err(self.send_webhook(world));
                }
                let now = world.clock(process);
                let begun = world.single(|db, tx| refunds::begin_try(db, tx, job.order, now));
                let spread = world.spread(PAUSE);
                let Some(this) = begun.map_err(|_| Ended::Deferred(spread))? else {
                    return Err(Ended::Answered(Answer::NotAsked));
                };
                self.stage = if this.is_first {
                    Stage::Ask(this.key_number)
                } else {
                    Stage::Find(this.key_number)
                };
            }
            Stage::Find(key_number) => {
                if world.payments.failing_until > world.now {
                    return Err(Ended::Failed(RETRY));
                }
                if world.payments.has_refund(job.order) {
                    return Err(Ended::Answered(Answer::Done));
                }
                self.stage = Stage::Ask(key_number);
            }
            Stage::Ask(key_number) => {
                let is_slow = world.payments.slow_until > world.now;
                let time = match world.random.below(4) {
                    _ if is_slow => world.random.between(1_000, 40_000),
                    0 => world.random.between(500, 5_000),
                    _ => world.latency(),
                };
                let key = match () {
                    () if world.rules.is(Wrong::RefundWithoutKey) => None,
                    () if world.rules.is(Wrong::KeyOfEachTry) => Some((id, self.claimed.token)),
                    () => Some((id, key_number)),
                };
                let number = world.payments.ask(job.order, key, world.now + time);
                self.stage = Stage::Answer(number, key_number);
                return Ok(Next::After(left));
            }
            Stage::Answer(number, key_number) => {
                let reply = world.payments.answer_to(number);
                if reply.is_some() {
                    // Whatever the provider has done, this run does not get the answer.
                    self.misbehave(process, world)?;
                }
                return match reply {
                    Some(Reply::Refunded) => Err(Ended::Answered(Answer::Done)),
                    Some(Reply::Failed) => Err(Ended::Failed(RETRY)),
                    Some(Reply::KeptFailure) => self.take_next_key(process, world, key_number),
                    None => Ok(Next::After(left)),
                };
            }
            Stage::Settle(..) => {}
        }
        Ok(Next::Soon)
    }

    /// After a failure that the provider keeps, the call asks under the next key (`handlers::refunds::call`).
    fn take_next_key(
        &mut self,
        process: usize,
        world: &mut World,
        key_number: i64,
    ) -> std::result::Result<Next, Ended> {
        if world.rules.is(Wrong::SameKeyAfterAKeptFailure) {
            return Err(Ended::Failed(RETRY));
        }
        let (next, order, now) = (key_number + 1, self.job.1.order, world.clock(process));
        let noted = world.single(|db, tx| refunds::try_again(db, tx, order, next, now));
        let spread = world.spread(PAUSE);
        noted.map_err(|_| Ended::Deferred(spread))?;
        self.keys += 1;
        if self.keys == KEYS_A_RUN {
            return Err(Ended::Failed(RETRY));
        }
        self.stage = Stage::Find(next);
        Ok(Next::Soon)
    }

    fn misbehave(&self, process: usize, world: &mut World) -> std::result::Result<(), Ended> {
        let (id, job) = self.job;
        let behaviour = world.behaviour_of_call(job.kind, job.order);
        match world.trouble(id, behaviour) {
            None => Ok(()),
            Some(Behaviour::Kills(_)) => {
                note!(world, process, "the call of job {id} ends its process");
                let time = world.random.between(50, 1_500);
                world.kill(process, time);
                Err(Ended::Failed(RETRY))
            }
            Some(Behaviour::Refuses) => Err(Ended::Failed(Failure { permanent: true })),
            Some(_) => Err(Ended::Failed(RETRY)),
        }
    }

    /// `handlers::webhooks::call`.
    fn send_webhook(&self, world: &mut World) -> Ended {
        let event = self.job.1.event;
        if world.receiver.refuses_until > world.now {
            note!(world, 0, "the endpoint refuses event {event}");
            return Ended::Failed(RETRY);
        }
        world.event_comes("the endpoint", event);
        Ended::Answered(Answer::Done)
    }

    /// `Worker::settle`, one step of it.
    fn settle(
        &mut self,
        tx: &mut Option<TxId>,
        process: usize,
        world: &mut World,
        ended: Ended,
        step: Step,
    ) -> Result<Next> {
        match ended {
            Ended::Answered(answer) => self.answered(tx, process, world, answer, step),
            Ended::Failed(failure) => {
                self.record(process, world, failure)?;
                Ok(Self::end(process, world))
            }
            Ended::Deferred(pause) => {
                let (claimed, until) = (self.claimed, self.until);
                let run_at = world.clock(process).plus(pause);
                world.single(|db, tx| jobs::defer_claimed(db, tx, claimed, until, run_at))?;
                Ok(Self::end(process, world))
            }
        }
    }

    /// `Worker::answered`.
    fn answered(
        &mut self,
        tx: &mut Option<TxId>,
        process: usize,
        world: &mut World,
        answer: Answer,
        step: Step,
    ) -> Result<Next> {
        let (id, _) = self.job;
        let now = world.clock(process);
        let next = match (step, *tx) {
            (Step::Begin, _) => {
                *tx = Some(world.db.begin()?);
                Step::Finish
            }
            (Step::Finish, Some(open)) => {
                let token = self.claimed.token;
                let fenced = world.rules.is_not(Wrong::AnswerWithoutFencing);
                let last = world.db.jobs.committed(id).map(|job| job.claims);
                if !jobs::finish_claimed(&mut world.db, open, id, token, now, fenced)? {
                    note!(
                        world,
                        process,
                        "drops the answer of job {id}: it was overtaken"
                    );
                    *tx = None;
                    world.db.rollback(open);
                    return Ok(Self::end(process, world));
                }
                if last != Some(token) {
                    world.facts.wrong(&format!(
                        "a run of job {id} that was overtaken wrote its answer"
                    ));
                }
                Step::Record
            }
            (Step::Record, Some(open)) => {
                if answer == Answer::Done {
                    self.write_answer(process, world, open)?;
                }
                Step::Commit
            }
            (Step::Commit, Some(open)) => {
                *tx = None;
                world.db.commit(open)?;
                note!(world, process, "has recorded the answer of job {id}");
                return Ok(Self::end(process, world));
            }
            (_, None) => return Err(Stop::Lost),
        };
        self.stage = Stage::Settle(Ended::Answered(answer), next);
        Ok(Next::Soon)
    }

    /// `handlers::record`.
    fn write_answer(&self, process: usize, world: &mut World, tx: TxId) -> Result<()> {
        let (_, job) = self.job;
        match job.kind {
            Kind::Refund => self.end_refund(process, world, tx, RefundState::Issued),
            Kind::Webhook => go_on(world, process, tx, job.event),
            Kind::Delivery => Ok(()),
        }
    }

    /// `flows::refunds::end`.
    fn end_refund(
        &self,
        process: usize,
        world: &mut World,
        tx: TxId,
        state: RefundState,
    ) -> Result<()> {
        let (id, job) = self.job;
        let order = lock_order(world, tx, job.order)?;
        if refunds::answered(&mut world.db, tx, job.order, state)? {
            add_event(world, process, tx, id, job.order, order)?;
        }
        Ok(())
    }

    /// `Worker::record` of a call, in one step.
    fn record(&self, process: usize, world: &mut World, failure: Failure) -> Result<()> {
        let tx = world.db.begin()?;
        match self.write_record(process, world, tx, failure) {
            Ok(true) => world.db.commit(tx),
            Ok(false) => {
                world.db.rollback(tx);
                Ok(())
            }
            Err(stop) => {
                world.db.rollback(tx);
                Err(stop)
            }
        }
    }

    fn write_record(
        &self,
        process: usize,
        world: &mut World,
        tx: TxId,
        failure: Failure,
    ) -> Result<bool> {
        let (id, job) = self.job;
        let is_ours = jobs::has_claim(&mut world.db, tx, id, self.claimed.token)?;
        if !is_ours && world.rules.is_not(Wrong::FailureWithoutFencing) {
            return Ok(false);
        }
        let written = write_failure(world, process, tx, self.job, failure)?;
        if !is_ours && written.is_some() {
            world.facts.wrong(&format!(
                "a run of job {id} that was overtaken wrote its failure"
            ));
        }
        if written == Some(Then::Dead) {
            // `handlers::on_exhausted`.
            match job.kind {
                Kind::Refund => self.end_refund(process, world, tx, RefundState::Failed)?,
                Kind::Webhook => go_on(world, process, tx, job.event)?,
                Kind::Delivery => {}
            }
        }
        Ok(true)
    }

    fn end(process: usize, world: &mut World) -> Next {
        let worker = &mut world.processes[process];
        worker.calls = worker.calls.saturating_sub(1);
        Next::End
    }
}

/// `handlers::webhooks::go_on`: the next event of the order is due. The endpoint is locked before.
fn go_on(world: &mut World, process: usize, tx: TxId, event: usize) -> Result<()> {
    let now = world.clock(process);
    if endpoints::lock(&mut world.db, tx)?.is_none() {
        return Ok(());
    }
    if let Some(next) = endpoints::remove_waiting(&mut world.db, tx, event)? {
        jobs::wake(&mut world.db, tx, next, now)?;
    }
    Ok(())
}

impl Machine for Call {
    fn step(&mut self, tx: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        if let Stage::Settle(ended, step) = self.stage {
            return self.settle(tx, process, world, ended, step);
        }
        match self.ask(process, world) {
            Ok(next) => Ok(next),
            Err(ended) => {
                note!(
                    world,
                    process,
                    "the call of job {} has ended: {ended:?}",
                    self.job.0
                );
                world.facts.call_ends(self.job.0, self.claimed.token);
                self.stage = Stage::Settle(ended, Step::Begin);
                Ok(Next::Soon)
            }
        }
    }

    /// The end is written again.
    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        if let Stage::Settle(_, step) = &mut self.stage {
            *step = Step::Begin;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    fn reborn(&self) -> Option<Part> {
        None
    }

    fn interrupted(&self) -> Vec<usize> {
        vec![self.job.0]
    }

    fn has_work(&self, _: &Process, world: &World) -> bool {
        match self.stage {
            Stage::Answer(number, _) => world.payments.answer_to(number).is_some(),
            _ => false,
        }
    }
}
