//! How many messages may wait in a queue. A queue is first come, first served, so whatever waits in it is
//! waited for by all that come later, whosever it is. So it has only what the workers do in about
//! [`AHEAD`]. Further jobs wait in the database, from where the sweep takes them by turns.
//!
//! How fast the workers are is seen from how many messages were sent between two looks and how many are
//! left. What other processes sent meanwhile is not known and not counted; a queue that was kept too
//! short because of that is empty at the next look, and gets more.
//!
//! Half of the room is for jobs that come at this moment. The other half is for those that
//! wait in the database, so that these are never kept out.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use platform::lock::lock;
use tokio::time::Instant;

/// How long a message should wait at most.
const AHEAD: Duration = Duration::from_millis(500);
/// The least and the most messages that may wait. The least keeps workers busy between two looks.
const FEWEST: u32 = 8;
const MOST: u32 = 192;
/// Two looks that follow each other faster say nothing about the speed.
const APART: Duration = Duration::from_millis(40);

/// What is known of a queue and its workers.
pub struct Ahead {
    /// Messages that this process has sent, ever.
    sent: AtomicU32,
    /// Whether somebody wanted to know if there is room since the queue was seen empty.
    is_asked: AtomicBool,
    seen: Mutex<Seen>,
}

/// What the last look saw, and the one by which the speed was measured last.
struct Seen {
    last: Look,
    measured: Look,
    measured_at: Instant,
    limit: u32,
}

impl Seen {
    fn room(&self, waiting: u32) -> Room {
        match waiting {
            waiting if waiting >= self.limit => Room::None,
            waiting if waiting >= self.limit / 2 => Room::Kept,
            waiting if waiting >= self.limit / 4 => Room::Little,
            _ => Room::Enough,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Look {
    depth: u32,
    sent: u32,
}

impl Look {
    /// How many messages would wait now if none had been taken since this look.
    fn with(self, sent: u32) -> u32 {
        self.depth.saturating_add(sent.wrapping_sub(self.sent))
    }
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            sent: AtomicU32::new(0),
            is_asked: AtomicBool::new(false),
            seen: Mutex::new(Seen {
                last: Look::default(),
                measured: Look::default(),
                measured_at: Instant::now(),
                limit: FEWEST,
            }),
        }
    }
}

impl Ahead {
    /// Notes that a message was sent.
    pub fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there is room for a job that comes at this moment, as far as is known since the last look.
    pub fn room(&self) -> Room {
        self.is_asked.store(true, Ordering::Relaxed);
        let seen = lock(&self.seen);
        seen.room(seen.last.with(self.sent.load(Ordering::Relaxed)))
    }

    /// The same when the depth is known.
    pub fn room_at(&self, depth: u32) -> Room {
        lock(&self.seen).room(depth)
    }

    /// True when a look is worth its cost: somebody has asked, and since then the queue was not seen
    /// empty.
    pub fn is_watched(&self) -> bool {
        let may_wait = lock(&self.seen)
            .last
            .with(self.sent.load(Ordering::Relaxed))
            > 0;
        if !may_wait {
            self.is_asked.store(false, Ordering::Relaxed);
        }
        may_wait && self.is_asked.load(Ordering::Relaxed)
    }

    /// How many more messages may be sent when `depth` wait.
    pub fn looked(&self, depth: u32) -> u32 {
        let sent = self.sent.load(Ordering::Relaxed);
        let now = Instant::now();
        let look = Look { depth, sent };
        let mut seen = lock(&self.seen);
        let elapsed = now.duration_since(seen.measured_at);
        if elapsed >= APART {
            let taken = seen.measured.with(sent).saturating_sub(depth);
            seen.limit = limit(seen.limit, depth, taken, elapsed);
            seen.measured = look;
            seen.measured_at = now;
        }
        seen.last = look;
        seen.limit.saturating_sub(depth)
    }
}

/// How much room there is. When there is not enough, a new look may find that messages were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    None,
    /// What there is, is for jobs that wait in the database.
    Kept,
    Little,
    Enough,
}

/// The new limit after `taken` messages were taken in this time and `depth` are left.
fn limit(before: u32, depth: u32, taken: u32, elapsed: Duration) -> u32 {
    let after = if depth == 0 {
        // The workers had nothing to do, or something had to be done at all.
        if taken < before / 2 {
            before
        } else {
            before.saturating_mul(2)
        }
    } else {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let taken_ahead = taken.saturating_mul(millis(AHEAD)) / millis(elapsed).max(1);
        // Half of the way, because a short time is a rough measure.
        before.midpoint(taken_ahead)
    };
    after.clamp(FEWEST, MOST)
}

#[cfg(test)]
#[path = "../tests/unit/ahead.rs"]
mod tests;
