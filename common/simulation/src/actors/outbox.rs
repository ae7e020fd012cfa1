//! Events on their way out: `workers::publish` sends them to the broker, `workers::positions` gives them positions, and
//! a reader of the API follows these (`ingress::events`).

use std::time::Duration;

use domain::time::Timestamp;

use super::{Machine, Next, Part};
use crate::Wrong;
use crate::database::{Result, TxId};
use crate::rows::{Event, LeaseName};
use crate::tables::events::EventId;
use crate::tables::{broker_cursor, event_head, events, leases};
use crate::world::{World, note};

/// The constants of `workers::publish`.
pub const LEASE_LENGTH: Duration = Duration::from_secs(10);
pub const RENEW_AFTER: i64 = 3_000;
pub const WAIT_FOR_LEASE: i64 = 3_000;
const PAUSE: i64 = 200;
const LONGEST_PAUSE: i64 = 5_000;
/// 500 in the product.
const BATCH: usize = 4;
/// `positions::PAUSE`.
const LOOK: i64 = 100;

/// `leases::take` by a task that wants the lease for as long as it works. True when it has it.
pub fn hold(
    world: &mut World,
    process: usize,
    name: LeaseName,
    holder: u32,
    renewed_at: &mut Option<i64>,
) -> Result<bool> {
    if renewed_at.is_some_and(|at| world.now - at < RENEW_AFTER) {
        return Ok(true);
    }
    let now = world.clock(process);
    let times = (now, now.plus(LEASE_LENGTH));
    let expires = world.rules.is_not(Wrong::LeaseThatNeverEnds);
    let ours = world.single(|db, tx| leases::take(db, tx, name, holder, times, expires))?;
    *renewed_at = ours.then_some(world.now);
    Ok(ours)
}

/// `Publisher`.
#[derive(Debug)]
pub struct Publisher {
    holder: u32,
    renewed_at: Option<i64>,
    batch: usize,
    pause: i64,
    stage: Stage,
    /// Events that are read, in rounds; no round has two events of one object.
    rounds: Vec<Vec<usize>>,
    confirmed: Vec<usize>,
    has_failed: bool,
    /// The events that it read, with their positions, and whether there may be more.
    batch_read: Vec<(i64, usize)>,
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Hold,
    Read,
    Send,
    /// Waits for the confirms of a round that was sent over this link before so many restarts.
    Confirm(u32, u32),
    Advance,
}

impl Publisher {
    pub fn new(holder: u32) -> Self {
        Publisher {
            holder,
            renewed_at: None,
            batch: BATCH,
            pause: PAUSE,
            stage: Stage::Hold,
            rounds: Vec::new(),
            confirmed: Vec::new(),
            has_failed: false,
            batch_read: Vec::new(),
            is_full: false,
        }
    }

    fn read(&mut self, world: &World) -> Result<()> {
        let cursor = broker_cursor::position(&world.db)?;
        let read = events::placed_after(&world.db, cursor, self.batch)?;
        self.is_full = read.len() >= self.batch;
        let positions = read
            .iter()
            .filter_map(|(id, event)| Some((event.position?, *id)));
        self.batch_read = positions.collect();
        self.confirmed
            .retain(|id| self.batch_read.iter().any(|(_, it)| it == id));
        let read: Vec<(usize, Event)> = read
            .into_iter()
            .filter(|(id, _)| !self.confirmed.contains(id))
            .collect();
        self.rounds = if world.rules.is(Wrong::EventsOfAnObjectTogether) {
            vec![read.iter().map(|(id, _)| *id).collect()]
        } else {
            rounds(&read)
        };
        self.rounds.retain(|round| !round.is_empty());
        Ok(())
    }

    /// Moves the cursor past the events of the batch up to the first that is not among these.
    fn advance(&self, world: &mut World, confirmed: &[usize]) -> Result<()> {
        let mut batch = self.batch_read.iter();
        let passed = batch.by_ref().take_while(|(_, id)| confirmed.contains(id));
        match passed.last() {
            Some((position, _)) => world.single(|db, tx| broker_cursor::advance(db, tx, *position)),
            None => Ok(()),
        }
    }

    /// `bus::rabbitmq::events`: each event of a round is confirmed or not, and may have arrived all the same.
    fn confirms(&mut self, world: &mut World, is_connected: bool) {
        let round = self.rounds.remove(0);
        for event in round {
            let refuses = world.receiver.queue_refuses_until > world.now;
            let is_stored = (is_connected && !refuses) || world.random.once_in(2);
            if is_stored {
                world.event_comes("the queue", event);
            }
            if is_connected && is_stored {
                self.confirmed.push(event);
            } else {
                self.has_failed = true;
            }
        }
    }

    /// The end of `Publisher::publish` and of `Publisher::turn`.
    fn end_turn(&mut self) -> Next {
        self.stage = Stage::Hold;
        if std::mem::take(&mut self.has_failed) {
            self.batch = 1;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            return Next::After(self.pause);
        }
        self.batch = BATCH;
        self.pause = PAUSE;
        if std::mem::take(&mut self.is_full) {
            Next::Soon
        } else {
            Next::Look(PAUSE)
        }
    }
}

/// `publish::rounds`.
fn rounds(read: &[(usize, Event)]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for (at, (id, event)) in read.iter().enumerate() {
        let round = read[..at]
            .iter()
            .filter(|(_, it)| it.order == event.order)
            .count();
        if round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[round].push(*id);
    }
    rounds
}

impl Machine for Publisher {
    fn step(&mut self, _: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        match self.stage {
            Stage::Hold => {
                if !world.broker.is_up() {
                    self.renewed_at = None;
                    return Ok(Next::After(PAUSE));
                }
                if !hold(
                    world,
                    process,
                    LeaseName::Events,
                    self.holder,
                    &mut self.renewed_at,
                )? {
                    return Ok(Next::After(WAIT_FOR_LEASE));
                }
                self.stage = Stage::Read;
            }
            Stage::Read => {
                self.read(world)?;
                self.stage = Stage::Send;
            }
            Stage::Send => {
                let Some(round) = self.rounds.first().filter(|_| !self.has_failed).cloned() else {
                    self.rounds.clear();
                    self.stage = Stage::Advance;
                    return Ok(Next::Soon);
                };
                note!(world, process, "publishes events {round:?}");
                if world.rules.is(Wrong::PublishedBeforeTheConfirm) {
                    self.advance(world, &[&*self.confirmed, &round].concat())?;
                }
                let link = world.processes[process].link;
                self.stage = Stage::Confirm(link, world.broker.restarts());
            }
            Stage::Confirm(link, restarts) => {
                let is_same =
                    (link, restarts) == (world.processes[process].link, world.broker.restarts());
                self.confirms(world, is_same && world.broker.is_up());
                self.stage = Stage::Send;
            }
            Stage::Advance => {
                self.advance(world, &self.confirmed.clone())?;
                return Ok(self.end_turn());
            }
        }
        Ok(Next::Soon)
    }

    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        self.rounds.clear();
        self.has_failed = true;
        self.end_turn();
        self.pause
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Publisher(Publisher::new(self.holder + 100)))
    }
}

/// `positions::run`.
#[derive(Debug)]
pub struct Placer;

impl Machine for Placer {
    fn step(&mut self, _: &mut Option<TxId>, _: usize, world: &mut World) -> Result<Next> {
        if event_head::waits(&world.db)? {
            let has_broker = !world.broker.is_local;
            world.single(|db, tx| event_head::place(db, tx, BATCH, has_broker))?;
        }
        Ok(Next::Look(LOOK + world.random.between(-50, 50)))
    }

    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        LOOK
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Placer(Placer))
    }
}

/// Somebody who reads the events page by page, and remembers the position of the last one.
#[derive(Debug, Default)]
pub struct Reader {
    position: i64,
    /// What readers remembered who followed ids.
    id: Option<EventId>,
}

impl Machine for Reader {
    fn step(&mut self, _: &mut Option<TxId>, _: usize, world: &mut World) -> Result<Next> {
        let page = if world.rules.is(Wrong::EventCursorById) {
            let after = self.id.unwrap_or((Timestamp(0), 0));
            events::after_id(&world.db, after, 2)?
        } else {
            events::placed_after(&world.db, self.position, 2)?
        };
        for (id, event) in page {
            world.event_comes("the reader", id);
            self.position = event.position.unwrap_or(self.position);
            self.id = Some((event.id_at, id));
        }
        Ok(Next::Look(world.random.between(20, 400)))
    }

    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        200
    }

    fn reborn(&self) -> Option<Part> {
        None
    }
}
