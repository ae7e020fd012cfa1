//! `workers::webhooks`: one process sends events to the endpoint in waves, and commits what became of each wave.

use std::time::Duration;

use super::outbox::{WAIT_FOR_LEASE, hold};
use super::worker::Notify;
use super::{Machine, Next, Part};
use crate::Wrong;
use crate::broker::MAX_JOBS_PER_MESSAGE;
use crate::database::{Result, Stop, TxId};
use crate::rows::{Event, Job, Kind, LeaseName, Outgoing};
use crate::tables::{endpoints, events, jobs};
use crate::world::{World, note};

const PAUSE: i64 = 200;
/// 256 in the product.
const WAVE: usize = 4;
/// `webhooks::AGAIN` and `webhooks::BEHIND`.
pub const AGAIN: Duration = Duration::from_secs(5);
pub const BEHIND: Duration = Duration::from_hours(10 * 365 * 24);

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    NotTried,
    Accepted,
    Failed,
    /// It waits for an earlier event of its order.
    Behind,
}

/// The process that sends webhooks, and its task for the endpoint.
#[derive(Debug)]
pub struct Sending {
    holder: u32,
    renewed_at: Option<i64>,
    stage: Stage,
    /// The cursor as the wave has read it.
    position: i64,
    /// The orders of which events waited then.
    waiting: Vec<usize>,
    wave: Vec<(usize, Event, Outcome)>,
    /// The jobs of the wave that are due at once.
    due: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Hold,
    Read,
    Send,
    Begin,
    Lock,
    Store,
    Commit,
}

impl Sending {
    pub fn new(holder: u32) -> Self {
        Sending {
            holder,
            renewed_at: None,
            stage: Stage::Hold,
            position: 0,
            waiting: Vec::new(),
            wave: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Whether a wave is on its way.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Hold | Stage::Read)
    }

    /// The begin of `send_wave`. False when there is nothing to send.
    fn read(&mut self, world: &World) -> Result<bool> {
        let Some(endpoint) = endpoints::find(&world.db)? else {
            return Ok(false);
        };
        self.position = endpoint.position;
        self.waiting = endpoints::objects(&world.db, None)?;
        let next = events::placed_after(&world.db, self.position, WAVE)?;
        let not_tried = next
            .into_iter()
            .map(|(id, event)| (id, event, Outcome::NotTried));
        self.wave = not_tried.collect();
        Ok(!self.wave.is_empty())
    }

    /// `ObjectSender::send` for the next event. False when all were tried.
    fn send(&mut self, world: &mut World) -> bool {
        let Some(at) = self.wave.iter().position(|it| it.2 == Outcome::NotTried) else {
            return false;
        };
        let (id, event, _) = self.wave[at];
        let is_behind = |(_, it, outcome): &(usize, Event, Outcome)| {
            it.order == event.order && matches!(outcome, Outcome::Failed | Outcome::Behind)
        };
        let waits = self.waiting.contains(&event.order) || self.wave[..at].iter().any(is_behind);
        let outcome = if waits && world.rules.is_not(Wrong::WaitingEventsOvertaken) {
            Outcome::Behind
        } else if world.receiver.refuses_until > world.now {
            note!(world, 0, "the endpoint refuses event {id}");
            Outcome::Failed
        } else {
            world.event_comes("the endpoint", id);
            Outcome::Accepted
        };
        self.wave[at].2 = outcome;
        true
    }

    /// The begin of `commit_wave`. False when another process has sent the same events.
    fn lock(&self, world: &mut World, tx: TxId) -> Result<bool> {
        let endpoint = endpoints::lock(&mut world.db, tx)?;
        let guarded = world.rules.is_not(Wrong::WaveWithoutCursor);
        let Some(endpoint) = endpoint.filter(|it| it.position == self.position || !guarded) else {
            return Ok(false);
        };
        let to = self
            .wave
            .iter()
            .filter_map(|(_, event, _)| event.position)
            .max();
        let to = to.unwrap_or(self.position);
        if to < endpoint.position {
            world.facts.wrong("the cursor of the endpoint went back");
        }
        endpoints::move_cursor(&mut world.db, tx, to)?;
        Ok(true)
    }

    /// `store_waiting`: a job for each event that was not accepted; of each order only the first one is due.
    fn store_waiting(&mut self, process: usize, world: &mut World, tx: TxId) -> Result<()> {
        let now = world.clock(process);
        self.due.clear();
        let mut orders = endpoints::objects(&world.db, Some(tx))?;
        for (id, event, outcome) in &self.wave {
            if *outcome == Outcome::Accepted {
                continue;
            }
            let run_at = match outcome {
                _ if orders.contains(&event.order) => now.plus(BEHIND),
                Outcome::Failed => now.plus(AGAIN),
                _ => now,
            };
            orders.push(event.order);
            let job = world.db.jobs.reserve();
            let row = Job {
                event: *id,
                run_at,
                notified_at: (run_at <= now).then_some(now),
                ..Job::new(Kind::Webhook, event.order, now)
            };
            if run_at <= now {
                self.due.push(job);
            }
            jobs::insert(&mut world.db, tx, &[(job, row)])?;
            let waiting = Outgoing {
                position: event.position.unwrap_or_default(),
                order: event.order,
                job,
            };
            endpoints::insert_waiting(&mut world.db, tx, &[(*id, waiting)])?;
        }
        Ok(())
    }
}

impl Machine for Sending {
    fn step(&mut self, tx: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        match (self.stage, *tx) {
            (Stage::Hold, _) => {
                if !hold(
                    world,
                    process,
                    LeaseName::Webhooks,
                    self.holder,
                    &mut self.renewed_at,
                )? {
                    return Ok(Next::After(WAIT_FOR_LEASE));
                }
                self.stage = Stage::Read;
            }
            (Stage::Read, _) => {
                if !self.read(world)? {
                    self.stage = Stage::Hold;
                    return Ok(Next::Look(PAUSE));
                }
                self.stage = Stage::Send;
            }
            (Stage::Send, _) => {
                if !self.send(world) {
                    self.stage = Stage::Begin;
                }
            }
            (Stage::Begin, _) => {
                *tx = Some(world.db.begin()?);
                self.stage = Stage::Lock;
            }
            (Stage::Lock, Some(open)) => {
                if !self.lock(world, open)? {
                    *tx = None;
                    world.db.rollback(open);
                    self.stage = Stage::Hold;
                    return Ok(Next::After(PAUSE));
                }
                self.stage = Stage::Store;
            }
            (Stage::Store, Some(open)) => {
                self.store_waiting(process, world, open)?;
                self.stage = Stage::Commit;
            }
            (Stage::Commit, Some(open)) => {
                *tx = None;
                world.db.commit(open)?;
                let due = std::mem::take(&mut self.due);
                for jobs in due.chunks(MAX_JOBS_PER_MESSAGE) {
                    let notify = Notify::new(Kind::Webhook, jobs.to_vec());
                    world.start(process, Part::Notify(notify));
                }
                note!(
                    world,
                    process,
                    "commits a wave: {:?}",
                    self.wave.iter().map(|it| (it.0, it.2)).collect::<Vec<_>>()
                );
                self.stage = Stage::Hold;
            }
            (_, None) => return Err(Stop::Lost),
        }
        Ok(Next::Soon)
    }

    /// The wave is sent again.
    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        self.stage = Stage::Hold;
        PAUSE
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Sending(Sending::new(self.holder + 100)))
    }
}
