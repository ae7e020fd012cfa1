//! The actors: tasks of the processes, and the world outside. Each is a small state machine whose step is one
//! statement, one message or one answer. An actor that has to wait for another transaction makes its step again.

pub mod call;
pub mod ingress;
pub mod outbox;
pub mod sweep;
pub mod webhooks;
pub mod worker;

use crate::database::{Database, Result, TxId};
use crate::outside::{Payments, Sender};
use crate::world::{Process, World};

use self::call::{Call, PendingCalls};
use self::ingress::{Notifier, Writer};
use self::outbox::{Placer, Publisher, Reader};
use self::sweep::Sweep;
use self::webhooks::Sending;
use self::worker::{Notify, Task};

/// When an actor takes its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Soon,
    /// After so many milliseconds.
    After(i64),
    /// After so many milliseconds, if anything is committed until then.
    Look(i64),
    /// When it has work.
    Idle,
    /// Never.
    End,
}

/// What an actor does.
#[derive(Debug, Default)]
pub enum Part {
    #[default]
    Gone,
    Sender(Sender),
    Payments(Payments),
    Reader(Reader),
    Writer(Writer),
    Notifier(Notifier),
    Task(Task),
    Notify(Notify),
    Call(Call),
    PendingCalls(PendingCalls),
    Sweep(Sweep),
    Publisher(Publisher),
    Placer(Placer),
    Sending(Sending),
}

/// Does the same with the state of each part.
macro_rules! each {
    ($part:expr, $state:ident => $do:expr, $gone:expr) => {
        match $part {
            Part::Gone => $gone,
            Part::Sender($state) => $do,
            Part::Payments($state) => $do,
            Part::Reader($state) => $do,
            Part::Writer($state) => $do,
            Part::Notifier($state) => $do,
            Part::Task($state) => $do,
            Part::Notify($state) => $do,
            Part::Call($state) => $do,
            Part::PendingCalls($state) => $do,
            Part::Sweep($state) => $do,
            Part::Publisher($state) => $do,
            Part::Placer($state) => $do,
            Part::Sending($state) => $do,
        }
    };
}

/// The state machine of an actor.
pub trait Machine {
    /// Takes the next step. `tx` is the transaction that is open between two steps.
    fn step(&mut self, tx: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next>;

    /// The step failed because a connection was lost, or a wait took too long. The transaction is rolled back.
    /// Returns the pause before the next step.
    fn fail(&mut self, process: usize, world: &mut World) -> i64;

    /// The process has died. `None`: nobody starts it again.
    fn reborn(&self) -> Option<Part>;

    /// Whether an idle actor has something to do.
    fn has_work(&self, _process: &Process, _world: &World) -> bool {
        false
    }

    /// How long it waits for a lock (`JOB_DEADLINE` for most).
    fn patience(&self) -> i64 {
        30_000
    }

    /// Its transaction was ended to break a circle.
    fn deadlocked(&self, _world: &mut World) {}

    /// Its process ends: which jobs it was running in a way that counts.
    fn interrupted(&self) -> Vec<usize> {
        Vec::new()
    }
}

impl Part {
    pub fn step(
        &mut self,
        tx: &mut Option<TxId>,
        process: usize,
        world: &mut World,
    ) -> Result<Next> {
        each!(self, state => state.step(tx, process, world), Ok(Next::End))
    }

    pub fn fail(&mut self, process: usize, world: &mut World) -> i64 {
        each!(self, state => state.fail(process, world), 0)
    }

    pub fn has_work(&self, process: &Process, world: &World) -> bool {
        each!(self, state => state.has_work(process, world), false)
    }

    pub fn patience(&self) -> i64 {
        each!(self, state => state.patience(), 0)
    }

    pub fn deadlocked(&self, world: &mut World) {
        each!(self, state => state.deadlocked(world), ());
    }

    fn interrupted(&self) -> Vec<usize> {
        each!(self, state => state.interrupted(), Vec::new())
    }

    fn reborn(&self) -> Option<Part> {
        each!(self, state => state.reborn(), None)
    }
}

#[derive(Debug, Default)]
pub struct Actor {
    pub process: usize,
    /// When it takes its next step, unless it has work before.
    pub at: i64,
    /// The transaction that has to end before the step is made again, and until when it waits.
    pub waits: Option<TxId>,
    pub patience: i64,
    /// How much was committed when it last looked for something new.
    pub quiet: Option<u32>,
    pub tx: Option<TxId>,
    pub part: Part,
    /// Its place may be taken once it is gone.
    pub may_be_replaced: bool,
}

impl Actor {
    pub fn new(process: usize, at: i64, part: Part) -> Self {
        Actor {
            process,
            at,
            waits: None,
            patience: 0,
            quiet: None,
            tx: None,
            part,
            may_be_replaced: true,
        }
    }

    /// Whether the connection of its transaction is there. Without a transaction it needs none.
    pub fn has_connection(&self, db: &Database) -> bool {
        self.tx.is_none_or(|tx| db.is_open(tx))
    }

    /// Its process has ended.
    pub fn die(&mut self, world: &mut World) {
        if let Some(tx) = self.tx.take() {
            world.db.rollback(tx);
        }
        for job in self.part.interrupted() {
            world.facts.interrupt(job);
        }
        self.waits = None;
        self.quiet = None;
        self.part = self.part.reborn().unwrap_or_default();
        self.at = world.now + world.random.between(0, 300);
    }
}
