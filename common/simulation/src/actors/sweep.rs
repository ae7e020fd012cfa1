//! `workers::sweep`: notifies workers of jobs that are due and of which they were not notified, and of those whose
//! message was lost.

use std::time::Duration;

use domain::time::Timestamp;

use super::{Machine, Next, Part};
use crate::Wrong;
use crate::broker::{MAX_JOBS_PER_MESSAGE, ROOM, Sent};
use crate::database::{Result, TxId};
use crate::rows::{Kind, LeaseName};
use crate::tables::{jobs, leases, missed};
use crate::world::{World, note};

/// The constants of `workers::sweep`.
pub const PAUSE: i64 = 100;
const IDLE_PAUSE: i64 = 250;
const IDLE_REST: i64 = 750;
pub const LOST_AFTER: Duration = Duration::from_secs(3);
pub const LOST_AT_LATEST: Duration = Duration::from_secs(30);
pub const WRONG_CLOCK: Duration = Duration::from_mins(1);
pub const LEASE: Duration = Duration::from_secs(3);
pub const RENEWED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Sweep {
    holder: u32,
    /// Until when it holds the lease, by the clock that never jumps.
    held: Option<i64>,
    stage: Stage,
    /// The kinds whose turn is still to come in this round.
    kinds: Vec<Kind>,
    is_any_lost: bool,
    messages: Vec<Message>,
    sent: Option<Sent>,
    /// The jobs of messages that the bus did not take.
    left: Vec<usize>,
    first: usize,
}

#[derive(Clone, Debug)]
struct Message {
    kind: Kind,
    jobs: Vec<usize>,
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Look,
    Lease,
    TakeLost,
    Take,
    Send,
    Clear,
}

impl Sweep {
    pub fn new(holder: u32) -> Self {
        Sweep {
            holder,
            held: None,
            stage: Stage::Look,
            kinds: Vec::new(),
            is_any_lost: false,
            messages: Vec::new(),
            sent: None,
            left: Vec::new(),
            first: 0,
        }
    }

    /// `Sweep::round`: looks whether there is anything to do.
    fn look(&mut self, process: usize, world: &mut World) -> Result<Next> {
        let idle = Next::After(IDLE_PAUSE + world.random.between(0, IDLE_REST));
        if !world.broker.is_up() || world.rules.is(Wrong::SweepOff) {
            return Ok(idle);
        }
        let now = world.clock(process);
        let look = missed::look(&world.db, now)?;
        self.kinds = look.kinds;
        self.is_any_lost = look.notified.is_some_and(|(first, last)| {
            let is_late = first < now.minus(LOST_AFTER) && first < lost_before(world, process, now);
            is_late || last > now.plus(WRONG_CLOCK)
        });
        if world.rules.is(Wrong::SweepWithoutWhatWasLost) {
            self.is_any_lost = false;
        }
        if self.kinds.is_empty() && !self.is_any_lost {
            return Ok(idle);
        }
        // Another kind is the first one in each round.
        self.first = self.first.wrapping_add(1);
        let first = self.first.checked_rem(self.kinds.len()).unwrap_or_default();
        self.kinds.rotate_left(first);
        self.stage = Stage::Lease;
        Ok(Next::Soon)
    }

    /// `Sweep::is_ours`.
    fn is_ours(&mut self, process: usize, world: &mut World) -> Result<bool> {
        if world.broker.is_local {
            return Ok(true);
        }
        let renewed = i64::try_from(RENEWED.as_millis()).unwrap_or_default();
        if self.held.is_some_and(|until| world.now + renewed < until) {
            return Ok(true);
        }
        let now = world.clock(process);
        let expires = world.rules.is_not(Wrong::LeaseThatNeverEnds);
        let is_held = leases::is_held(&world.db, LeaseName::Sweep, now)?;
        if self.held.is_none() && is_held {
            return Ok(false);
        }
        let (holder, times) = (self.holder, (now, now.plus(LEASE)));
        let taken = world
            .single(|db, tx| leases::take(db, tx, LeaseName::Sweep, holder, times, expires))?;
        let lease = i64::try_from(LEASE.as_millis()).unwrap_or_default();
        self.held = taken.then_some(world.now + lease);
        Ok(taken)
    }

    /// One turn of `Sweep::notify_lost`.
    fn take_lost(&mut self, process: usize, world: &mut World) -> Result<()> {
        let room = ROOM.saturating_sub(world.broker.depth()) / 2;
        self.is_any_lost = false;
        if room == 0 {
            return Ok(());
        }
        let now = world.clock(process);
        let before = lost_before(world, process, now);
        let (future, most) = (now.plus(WRONG_CLOCK), room * MAX_JOBS_PER_MESSAGE);
        let lost = world.single(|db, tx| missed::take_lost(db, tx, before, future, now, most))?;
        note!(world, process, "the sweep finds lost {lost:?}");
        let started_at = Timestamp(world.processes[process].started_at);
        let is_local = world.broker.is_local;
        for lost in lost {
            self.add(
                lost.kind,
                lost.id,
                is_local && lost.notified_at < started_at,
            );
        }
        Ok(())
    }

    /// `Sweep::notify_waiting` for one kind.
    fn take(&mut self, process: usize, world: &mut World, kind: Kind) -> Result<()> {
        let room = ROOM.saturating_sub(world.broker.depth());
        let share = room.div_ceil(self.kinds.len());
        if share > 0 {
            let (now, most) = (world.clock(process), share * MAX_JOBS_PER_MESSAGE);
            let taken = world.single(|db, tx| missed::take(db, tx, kind, now, most))?;
            note!(world, process, "the sweep finds waiting {kind:?} {taken:?}");
            for id in taken {
                self.add(kind, id, false);
            }
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, id: usize, again: bool) {
        let fits = |it: &&mut Message| {
            it.kind == kind && it.again == again && it.jobs.len() < MAX_JOBS_PER_MESSAGE
        };
        match self.messages.iter_mut().find(fits) {
            Some(message) => message.jobs.push(id),
            None => self.messages.push(Message {
                kind,
                jobs: vec![id],
                again,
            }),
        }
    }

    /// `Sweep::notify`: sends the next message, or hears about the one that was sent.
    fn send(&mut self, process: usize, world: &mut World) {
        let Some(message) = self.messages.first() else {
            self.stage = match () {
                () if !self.left.is_empty() => Stage::Clear,
                () => Stage::Take,
            };
            return;
        };
        let is_taken = if let Some(sent) = self.sent.take() {
            world.confirm(process, &sent)
        } else {
            self.sent = world.send(process, message.kind, &message.jobs, message.again);
            if self.sent.is_some() {
                return;
            }
            false
        };
        let message = self.messages.remove(0);
        if !is_taken {
            self.left.extend(message.jobs);
        }
    }
}

/// `Sweep::lost_before`.
fn lost_before(world: &World, process: usize, now: Timestamp) -> Timestamp {
    let newest = Timestamp(world.processes[process].newest);
    let come = if world.broker.depth() == 0 {
        now
    } else {
        newest.min(now)
    };
    let before = come.minus(LOST_AFTER).max(now.minus(LOST_AT_LATEST));
    if world.broker.is_local {
        before.max(Timestamp(world.processes[process].started_at))
    } else {
        before
    }
}

impl Machine for Sweep {
    fn step(&mut self, _: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        match self.stage {
            Stage::Look => return self.look(process, world),
            Stage::Lease => {
                if !self.is_ours(process, world)? {
                    self.stage = Stage::Look;
                    return Ok(Next::After(IDLE_PAUSE + world.random.between(0, IDLE_REST)));
                }
                self.stage = if self.is_any_lost {
                    Stage::TakeLost
                } else {
                    Stage::Take
                };
            }
            Stage::TakeLost => {
                self.take_lost(process, world)?;
                self.stage = Stage::Send;
            }
            Stage::Take => {
                let Some(kind) = self.kinds.first().copied() else {
                    self.stage = Stage::Look;
                    return Ok(Next::After(PAUSE));
                };
                self.take(process, world, kind)?;
                self.kinds.remove(0);
                self.stage = Stage::Send;
            }
            Stage::Send => self.send(process, world),
            Stage::Clear => {
                world.single(|db, tx| jobs::clear_notified(db, tx, &self.left))?;
                self.left.clear();
                self.stage = Stage::Look;
                return Ok(Next::After(IDLE_PAUSE));
            }
        }
        Ok(Next::Soon)
    }

    /// The round failed: the lease is given up (`Sweep::end`), and the next round comes soon.
    fn fail(&mut self, _: usize, world: &mut World) -> i64 {
        let holder = self.holder;
        if self.held.take().is_some() && !world.db.is_away {
            let released = world.single(|db, tx| leases::release(db, tx, LeaseName::Sweep, holder));
            // The lease ends by itself.
            let _ = released;
        }
        *self = Sweep {
            first: self.first,
            ..Sweep::new(self.holder)
        };
        IDLE_PAUSE
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Sweep(Sweep::new(self.holder + 100)))
    }
}
