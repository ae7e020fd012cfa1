//! One schedule: processes, database, broker and the outside world, driven by one source of chance and one clock.
//!
//! At each step one of the actors that can go on takes its next atomic step: a statement, a message, an answer. Now and
//! then a fault comes instead. When the faults are over, everything must come to rest within a bound.

use std::time::Duration;

use domain::time::Timestamp;

use crate::actors::{Actor, Next, Part};
use crate::broker::{Broker, Confirm, Sent};
use crate::database::{Database, Result, Stop, TxId};
use crate::facts::Facts;
use crate::faults::Faults;
use crate::outside::{Behaviour, Delivery, PaymentProvider, Receiver};
use crate::random::Random;
use crate::rows::Kind;
use crate::rules::Rules;

/// When every schedule begins.
pub const START: i64 = 1_800_000_000_000;
/// A time that does not come.
pub const NEVER: i64 = i64::MAX;
/// The process of actors that belong to nobody and never die.
pub const OUTSIDE: usize = 0;
/// A schedule with more steps than this does not come to rest.
const MOST_STEPS: u32 = 40_000;
/// While nothing is committed, whoever looks for new rows looks only so often; nothing would be found.
const QUIET: i64 = 5_000;

/// A process of Waybill.
#[derive(Debug, Default)]
pub struct Process {
    pub name: String,
    pub is_up: bool,
    pub starts_at: i64,
    pub frozen_until: i64,
    /// By how much its clock is ahead.
    pub ahead: i64,
    /// How often it was started.
    pub life: u32,
    /// When it was started, by its own clock, in milliseconds.
    pub started_at: i64,
    /// Changes whenever the connection to the broker is lost.
    pub link: u32,
    /// The deliveries that wait for their batch.
    pub requests: Vec<Request>,
    /// The committed jobs of which workers are to be notified (`intake::CommittedJob`).
    pub committed: Vec<(usize, Kind)>,
    /// `Worker::newest`, in milliseconds.
    pub newest: i64,
    /// How many calls are under way, and those that wait (`Pending`).
    pub calls: usize,
    pub pending: Vec<usize>,
    /// How many batches are under way.
    pub batches: usize,
}

/// A delivery that a sender has posted and that is not answered.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub delivery: usize,
    /// The actor that has sent it, and with which of its tries.
    pub sender: usize,
    pub attempt: u32,
    /// The id that ingress has given the job.
    pub job: usize,
    pub created_at: Timestamp,
}

pub struct World {
    pub rules: Rules,
    pub random: Random,
    pub now: i64,
    pub db: Database,
    pub broker: Broker,
    pub processes: Vec<Process>,
    pub actors: Vec<Actor>,
    /// The processes that take deliveries.
    pub ingresses: Vec<usize>,
    pub deliveries: Vec<Delivery>,
    /// How the refund of each order behaves.
    pub calls: Vec<Behaviour>,
    pub payments: PaymentProvider,
    pub receiver: Receiver,
    pub facts: Facts,
    pub faults: Faults,
    /// What happened, if somebody wants to read it.
    pub timeline: Option<Vec<String>>,
    pub steps: u32,
    /// The place of the actor that takes a step.
    pub current: usize,
    runnable: Vec<usize>,
}

/// Adds a line to the timeline, if there is one.
macro_rules! note {
    ($world:expr, $process:expr, $($text:tt)*) => {
        if $world.timeline.is_some() {
            let line = format!($($text)*);
            $world.add_line($process, &line);
        }
    };
}
pub(crate) use note;

impl World {
    pub fn new(seed: u64, rules: Rules) -> Self {
        World {
            rules,
            random: Random::new(seed),
            now: START,
            db: Database::default(),
            broker: Broker::default(),
            processes: vec![Process {
                is_up: true,
                ..Process::default()
            }],
            actors: Vec::with_capacity(32),
            ingresses: Vec::new(),
            deliveries: Vec::new(),
            calls: Vec::new(),
            payments: PaymentProvider::default(),
            receiver: Receiver::default(),
            facts: Facts::default(),
            faults: Faults::default(),
            timeline: None,
            steps: 0,
            current: 0,
            runnable: Vec::with_capacity(32),
        }
    }

    pub fn add_line(&mut self, process: usize, line: &str) {
        let at = self.now - START;
        let name = &self.processes[process].name;
        if let Some(timeline) = &mut self.timeline {
            timeline.push(format!("{:>9.3} s  {name:<10} {line}", as_seconds(at)));
        }
    }

    /// What the clock of a process shows.
    pub fn clock(&self, process: usize) -> Timestamp {
        Timestamp(self.now + self.processes[process].ahead)
    }

    /// How long a step takes: mostly next to nothing, sometimes long.
    pub fn latency(&mut self) -> i64 {
        match self.random.below(32) {
            0 => self.random.between(20, 300),
            1..4 => self.random.between(3, 20),
            _ => self.random.between(0, 2),
        }
    }

    /// A pause with the spread of `Clock::jitter`.
    pub fn spread(&mut self, pause: Duration) -> Duration {
        pause.mul_f64(1.0 + self.random.jitter())
    }

    /// A transaction of one statement, as one step.
    pub fn single<T>(
        &mut self,
        statement: impl FnOnce(&mut Database, TxId) -> Result<T>,
    ) -> Result<T> {
        let tx = self.db.begin()?;
        match statement(&mut self.db, tx) {
            Ok(result) => {
                self.db.commit(tx)?;
                Ok(result)
            }
            Err(stop) => {
                self.db.rollback(tx);
                Err(stop)
            }
        }
    }

    /// The first half of `Bus::notify`.
    pub fn send(
        &mut self,
        process: usize,
        kind: Kind,
        jobs: &[usize],
        again: bool,
    ) -> Option<Sent> {
        let link = self.processes[process].link;
        note!(self, process, "sends a message about {kind:?} {jobs:?}");
        self.broker.send((process, link), kind, jobs, again)
    }

    /// The second half of `Bus::notify`: whether the message counts as sent.
    pub fn confirm(&mut self, process: usize, sent: &Sent) -> bool {
        let link = self.processes[process].link;
        let confirm = self.broker.confirm(sent, link);
        note!(self, process, "has the broker's answer: {confirm:?}");
        match confirm {
            Confirm::Stored => true,
            Confirm::Returned if self.rules.is(crate::Wrong::ReturnedMessageIgnored) => {
                self.facts
                    .wrong("a message that no queue took counts as sent");
                true
            }
            Confirm::Returned | Confirm::Lost => false,
        }
    }

    /// Starts an actor of a process.
    pub fn start(&mut self, process: usize, part: Part) {
        let at = self.now + self.latency();
        let actor = Actor::new(process, at, part);
        let gone = |it: &Actor| matches!(it.part, Part::Gone) && it.may_be_replaced;
        match self.actors.iter().position(gone) {
            Some(place) => self.actors[place] = actor,
            None => self.actors.push(actor),
        }
    }

    /// How a job misbehaves in the run that begins, if it does.
    pub fn trouble(&mut self, job: usize, of: Behaviour) -> Option<Behaviour> {
        let runs = self.facts.misbehaved(job);
        if *runs < of.times() {
            *runs += 1;
            return Some(of);
        }
        None
    }

    /// The end of a process, at any moment. All its actors are where they begin, and its connections are closed.
    pub fn kill(&mut self, process: usize, down_for: i64) {
        note!(self, process, "is killed");
        self.faults.disturb(self.now + down_for);
        let mut actors = std::mem::take(&mut self.actors);
        for actor in actors.iter_mut().filter(|actor| actor.process == process) {
            actor.die(self);
        }
        self.actors = actors;
        self.facts.process_ended(process);
        if self.broker.is_local {
            self.broker.lose_all();
        } else {
            let stays = self.random.once_in(2);
            self.broker.disconnect(process, stays);
        }
        let starts_at = self.now + down_for;
        let Process {
            name,
            life,
            ahead,
            link,
            ..
        } = std::mem::take(&mut self.processes[process]);
        self.processes[process] = Process {
            name,
            life: life + 1,
            ahead,
            link: link + 1,
            starts_at,
            ..Process::default()
        };
    }

    /// When an actor can take its next step.
    fn wakes_at(&self, actor: &Actor) -> i64 {
        let process = &self.processes[actor.process];
        if !process.is_up {
            return NEVER;
        }
        let at = match actor.waits {
            Some(tx) if self.db.is_open(tx) && actor.has_connection(&self.db) => actor.at,
            Some(_) => 0,
            None if actor.part.has_work(process, self) => 0,
            None if actor.quiet == Some(self.db.commits) => actor.at.saturating_add(QUIET),
            None => actor.at,
        };
        at.max(process.frozen_until)
    }

    /// Runs until everything has come to rest, or a rule is broken.
    pub fn run(&mut self) {
        while self.facts.broken.is_none() {
            self.steps += 1;
            if self.steps.is_multiple_of(8) && self.faults.are_over() && self.is_at_rest() {
                self.check_at_rest();
                return;
            }
            if self.steps > MOST_STEPS || self.now > self.faults.bound() {
                let left = self.what_is_left();
                self.facts
                    .wrong(&format!("it does not come to rest in time: {left}"));
                return;
            }
            self.perhaps_fault();
            self.step();
        }
    }

    fn step(&mut self) {
        let mut runnable = std::mem::take(&mut self.runnable);
        runnable.clear();
        let mut next = self.faults.ends_at();
        for (place, actor) in self.actors.iter().enumerate() {
            if matches!(actor.part, Part::Gone) {
                continue;
            }
            let at = self.wakes_at(actor);
            next = next.min(at);
            if at <= self.now {
                runnable.push(place);
            }
        }
        for process in &self.processes {
            if !process.is_up {
                next = next.min(process.starts_at);
            }
        }
        if runnable.is_empty() {
            self.now = self.now.max(next.min(self.now + 3_600_000));
        } else {
            let place = runnable[self.random.below(runnable.len())];
            self.step_of(place);
        }
        self.runnable = runnable;
        self.end_faults();
        self.start_processes();
    }

    fn start_processes(&mut self) {
        for process in 1..self.processes.len() {
            let Process {
                is_up, starts_at, ..
            } = self.processes[process];
            if !is_up && starts_at <= self.now {
                let started_at = self.clock(process).0;
                self.processes[process].is_up = true;
                self.processes[process].started_at = started_at;
                note!(self, process, "starts");
            }
        }
    }

    fn step_of(&mut self, place: usize) {
        let mut actor = std::mem::take(&mut self.actors[place]);
        self.current = place;
        let process = actor.process;
        let life = self.processes[process].life;
        let waited = actor.waits.take();
        let in_vain =
            waited.is_some_and(|tx| self.db.is_open(tx)) && actor.has_connection(&self.db);
        let result = if in_vain {
            Err(Stop::Lost)
        } else {
            actor.part.step(&mut actor.tx, process, self)
        };
        if self.processes[process].life != life {
            actor.die(self);
            self.actors[place] = actor;
            return;
        }
        actor.quiet = None;
        match result {
            Ok(Next::Soon) => actor.at = self.now + self.latency(),
            Ok(Next::After(pause)) => actor.at = self.now + pause,
            Ok(Next::Look(pause)) => {
                actor.at = self.now + pause;
                actor.quiet = Some(self.db.commits);
            }
            Ok(Next::Idle) => actor.at = NEVER,
            Ok(Next::End) => actor.part = Part::Gone,
            Err(Stop::Waits(owner)) => {
                if waited.is_none() {
                    actor.patience = self.now + actor.part.patience();
                }
                actor.waits = Some(owner);
                actor.at = actor.patience;
            }
            Err(stop) => {
                if let Some(tx) = actor.tx.take() {
                    self.db.rollback(tx);
                }
                note!(self, process, "loses its transaction or connection");
                if stop == Stop::Deadlock {
                    actor.part.deadlocked(self);
                }
                let pause = actor.part.fail(process, self);
                actor.at = self.now + pause;
            }
        }
        self.actors[place] = actor;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time for people to read")]
fn as_seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}
