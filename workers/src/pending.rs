//! The calls that wait in this process until others have ended. A message about calls never waits for
//! them, so a provider that answers slowly delays no delivery. Only ids are kept: a job is read again when
//! there is room for it, because another process may have run it meanwhile. If this process dies, nobody
//! has claimed these jobs, and the sweep of another one notifies workers of them again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::job::JobId;
use tokio::sync::Notify;

pub struct Pending {
    ids: Mutex<VecDeque<JobId>>,
    most: usize,
    added: Notify,
}

impl Pending {
    /// Makes a list in which at most so many calls wait.
    pub fn new(most: usize) -> Self {
        Pending {
            ids: Mutex::default(),
            most,
            added: Notify::new(),
        }
    }

    /// Adds those that do not wait yet. Returns those for which there is no place.
    pub fn add(&self, ids: impl IntoIterator<Item = JobId>) -> Vec<JobId> {
        let mut pending = self.ids();
        let mut left = Vec::new();
        for id in ids {
            if pending.contains(&id) {
                continue;
            }
            if pending.len() < self.most {
                pending.push_back(id);
            } else {
                left.push(id);
            }
        }
        self.added.notify_one();
        left
    }

    /// Takes those that have waited longest.
    pub fn take(&self, most: usize) -> Vec<JobId> {
        let mut pending = self.ids();
        let taken = most.min(pending.len());
        pending.drain(..taken).collect()
    }

    pub fn len(&self) -> usize {
        self.ids().len()
    }

    /// How many more may wait.
    pub fn places(&self) -> usize {
        self.most.saturating_sub(self.len())
    }

    /// Waits until at least one waits. Only one task may do so.
    pub async fn any(&self) {
        while self.len() == 0 {
            self.added.notified().await;
        }
    }

    fn ids(&self) -> MutexGuard<'_, VecDeque<JobId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "../tests/unit/pending.rs"]
mod tests;
