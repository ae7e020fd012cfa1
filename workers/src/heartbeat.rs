//! Tells health checks whether a worker's loop works: all its tasks that take messages must exist,
//! and the sweep must have run lately. A task that ended in a panic is not started again, so a
//! process that has lost one should be restarted.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// If the sweep has not taken a step for this long, it stands still. A step may take a minute for
/// a statement and some seconds for the broker.
const LONGEST_STEP: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub struct Heartbeat {
    wanted: u16,
    at_work: AtomicU16,
    touched_at: Mutex<Instant>,
}

/// Stands for a task that takes messages. When it is dropped, the task has ended.
pub struct AtWork(Arc<Heartbeat>);

impl Heartbeat {
    pub fn new(wanted: u16) -> Self {
        Heartbeat {
            wanted,
            at_work: AtomicU16::new(0),
            touched_at: Mutex::new(Instant::now()),
        }
    }

    pub fn at_work(self: &Arc<Self>) -> AtWork {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(self.clone())
    }

    /// Notes that the sweep has taken a step.
    pub fn touch(&self) {
        *self
            .touched_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub fn is_alive(&self) -> bool {
        let touched_at = *self
            .touched_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all = self.at_work.load(Ordering::Relaxed) >= self.wanted;
        all && touched_at.elapsed() < LONGEST_STEP
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../tests/unit/heartbeat.rs"]
mod tests;
