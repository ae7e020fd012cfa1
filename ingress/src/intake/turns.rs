//! Senders take turns: which deliveries may wait, and in which sequence batches take them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use domain::job::Source;
use platform::lock::lock;

use super::{Unavailable, WAITING, Waiting};

/// How many bytes of bodies a batch has at most, because it has to be stored in time. A body that is larger is stored
/// alone.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The shop or account of deliveries, as a hash.
type Sender = u64;

/// How many deliveries of each sender wait for their batch, or for its commit.
#[derive(Default)]
pub(super) struct Shares {
    hasher: RandomState,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of: HashMap<Sender, Own>,
}

/// What waits of one sender.
#[derive(Default)]
struct Own {
    deliveries: usize,
    kib: usize,
}

impl Shares {
    /// A place for one more of this size, while so many KiB of the byte budget are left. One sender alone has at most half
    /// of all places and bytes, each of two a third, and so on.
    pub(super) fn enter(
        self: &Arc<Self>,
        sender: (Source, Option<&str>),
        kib: usize,
        kib_left: usize,
    ) -> Result<Place, Unavailable> {
        let sender = self.hasher.hash_one(sender);
        let mut taken = lock(&self.taken);
        let left = WAITING - taken.all;
        if left == 0 {
            return Err(Unavailable::NotStored);
        }
        let own = taken.of.entry(sender).or_default();
        if own.deliveries >= left || own.kib > kib_left {
            return Err(Unavailable::OverShare);
        }
        own.deliveries += 1;
        own.kib += kib;
        taken.all += 1;
        Ok(Place {
            shares: self.clone(),
            sender,
            kib,
        })
    }
}

/// A sender's place among those that wait.
pub(super) struct Place {
    shares: Arc<Shares>,
    sender: Sender,
    kib: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.shares.taken);
        taken.all -= 1;
        if let Some(own) = taken.of.get_mut(&self.sender) {
            own.deliveries -= 1;
            own.kib -= self.kib;
            if own.deliveries == 0 {
                taken.of.remove(&self.sender);
            }
        }
    }
}

/// Deliveries that wait for a batch. Their senders take turns, so one that sends very many delays nobody but itself.
#[derive(Default)]
pub(super) struct Turns {
    of: HashMap<Sender, VecDeque<Waiting>>,
    turns: VecDeque<Sender>,
    pub(super) len: usize,
}

impl Turns {
    /// The next batch: as many bodies as fit into one transaction, at most `most` and at least one.
    pub(super) fn batch(&mut self, most: usize) -> Vec<Waiting> {
        let mut batch = Vec::with_capacity(self.len.min(most));
        let mut left = BATCH_BYTES;
        while batch.len() < most
            && let Some(size) = self.next().map(|waiting| waiting.job.body.len())
            && (size <= left || batch.is_empty())
        {
            left = left.saturating_sub(size);
            batch.extend(self.take());
        }
        batch
    }

    fn next(&self) -> Option<&Waiting> {
        self.of.get(self.turns.front()?)?.front()
    }

    fn take(&mut self) -> Option<Waiting> {
        let sender = self.turns.pop_front()?;
        let of_sender = self.of.get_mut(&sender)?;
        let taken = of_sender.pop_front()?;
        if of_sender.is_empty() {
            self.of.remove(&sender);
        } else {
            self.turns.push_back(sender);
        }
        self.len -= 1;
        Some(taken)
    }
}

impl Extend<Waiting> for Turns {
    fn extend<I: IntoIterator<Item = Waiting>>(&mut self, all: I) {
        for waiting in all {
            let sender = waiting.place.sender;
            let of_sender = self.of.entry(sender).or_default();
            if of_sender.is_empty() {
                self.turns.push_back(sender);
            }
            of_sender.push_back(waiting);
            self.len += 1;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/intake/turns.rs"]
mod tests;
