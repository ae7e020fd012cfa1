//! Connections that led to the primary and now lead to a server that takes no writes: they stay open, and
//! what is read over them gets older.
//!
//! Invariant: after a server has said that it takes no writes, no connection that was opened before is
//! handed out again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Error, is_read_only};

/// When the server last said that it takes no writes. All pools of one server share it.
#[derive(Clone, Debug, Default)]
pub struct Outdated(Arc<Mutex<Option<Instant>>>);

impl Outdated {
    pub(super) fn mark(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(super) fn mark_if_read_only(&self, error: &Error) {
        if is_read_only(error) {
            self.mark();
        }
    }

    /// True for a connection of this age that was opened before.
    pub(super) fn is_older(&self, age: Duration) -> bool {
        let marked = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marked.is_some_and(|at| age >= at.elapsed())
    }
}
