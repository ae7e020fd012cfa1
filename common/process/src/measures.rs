//! What this process measures for the charts of the console, counted in memory where the metrics are
//! counted too, and written once a minute (`store::measures`). What cannot be written is counted further.
//! What was counted since the last minute is lost when the process ends. With which signing secrets deliveries
//! were verified is written with it (`store::signing_secrets`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::job::Source;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::lock::lock;
use platform::task;
use store::backlog::Line;
use store::measures::{self, MINUTE, SHARED};
use store::signing_secrets;
use store::sql::{Db, Error};
use uuid::Uuid;

/// How often it is looked whether a minute is over.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The longest times, in milliseconds, of the classes by which answers are counted. A class is a counter, so
/// those of several processes can be added, which medians cannot.
pub const ANSWERS_MS: [u32; 16] = [
    1, 2, 3, 5, 7, 10, 15, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000,
];

/// What became of a delivery.
#[derive(Clone, Copy, Debug)]
pub enum Delivery {
    Accepted,
    Duplicate,
    Refused,
}

impl Delivery {
    pub const ALL: [Delivery; 3] = [Delivery::Accepted, Delivery::Duplicate, Delivery::Refused];

    pub fn name(self) -> &'static str {
        match self {
            Delivery::Accepted => "accepted",
            Delivery::Duplicate => "duplicate",
            Delivery::Refused => "refused",
        }
    }
}

/// The name of a class of answers; the last one has no longest time.
pub fn answers(class: usize) -> String {
    match ANSWERS_MS.get(class) {
        Some(most) => format!("answers_{most}"),
        None => "answers_more".to_owned(),
    }
}

/// The name of how many jobs of a queue are due.
pub fn due(queue: &str) -> String {
    format!("{SHARED}due_{queue}")
}

/// The name of for how many seconds the oldest of them has been due.
pub fn oldest(queue: &str) -> String {
    format!("{SHARED}oldest_{queue}")
}

/// Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Measures(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    deliveries: [i64; Delivery::ALL.len()],
    answers: [i64; ANSWERS_MS.len() + 1],
    queues: BTreeMap<String, i64>,
    /// When each secret verified a delivery last, by its fingerprint.
    verified: BTreeMap<Source, BTreeMap<String, Timestamp>>,
}

impl Counted {
    fn named(&self) -> BTreeMap<String, i64> {
        let deliveries =
            Delivery::ALL.map(|it| (it.name().to_owned(), self.deliveries[it as usize]));
        let classes = self.answers.iter().enumerate();
        let classes = classes.map(|(class, count)| (answers(class), *count));
        let queues = self
            .queues
            .iter()
            .map(|(name, value)| (name.clone(), *value));
        let all = deliveries.into_iter().chain(classes).chain(queues);
        all.filter(|(_, value)| *value > 0).collect()
    }

    fn put_back(&mut self, older: &Counted) {
        for (count, more) in self.deliveries.iter_mut().zip(older.deliveries) {
            *count += more;
        }
        for (count, more) in self.answers.iter_mut().zip(older.answers) {
            *count += more;
        }
        for (name, value) in &older.queues {
            let largest = self.queues.entry(name.clone()).or_default();
            *largest = (*largest).max(*value);
        }
        self.put_back_verified(&older.verified);
    }

    fn put_back_verified(&mut self, older: &BTreeMap<Source, BTreeMap<String, Timestamp>>) {
        for (source, secrets) in older {
            let newer = self.verified.entry(*source).or_default();
            for (secret, at) in secrets {
                newer.entry(secret.clone()).or_insert(*at);
            }
        }
    }
}

impl Measures {
    pub fn delivery(&self, what: Delivery) {
        lock(&self.0).deliveries[what as usize] += 1;
    }

    /// A delivery was verified now with the secret of this fingerprint.
    pub fn verified(&self, source: Source, fingerprint: &str, now: Timestamp) {
        let mut counted = lock(&self.0);
        let of_source = counted.verified.entry(source).or_default();
        match of_source.get_mut(fingerprint) {
            Some(at) => *at = now,
            None => drop(of_source.insert(fingerprint.to_owned(), now)),
        }
    }

    /// The intake has answered a request after this time.
    pub fn answered(&self, after: Duration) {
        let class =
            ANSWERS_MS.partition_point(|most| after > Duration::from_millis((*most).into()));
        lock(&self.0).answers[class] += 1;
    }

    /// What waits in the queues now; of a minute the largest counts.
    pub fn queues(&self, lines: &[Line], now: Timestamp) {
        let mut counted = lock(&self.0);
        for line in lines {
            let queue = line.queue.into_str();
            let age = line.due_since.map_or(0, |since| now.since(since).as_secs());
            let age = i64::try_from(age).unwrap_or(i64::MAX);
            for (name, value) in [(due(queue), line.due), (oldest(queue), age)] {
                let largest = counted.queues.entry(name).or_default();
                *largest = (*largest).max(value);
            }
        }
    }

    /// Writes what was counted in a minute that is over.
    async fn write(&self, db: &Db, process: Uuid, minute: Timestamp) -> Result<(), Error> {
        let counted = std::mem::take(&mut *lock(&self.0));
        let written = measures::add(db, process, minute, &counted.named()).await;
        if written.is_err() {
            lock(&self.0).put_back(&counted);
            return written;
        }
        let of_sources = counted.verified.iter();
        let last = of_sources.flat_map(|(source, secrets)| {
            secrets
                .iter()
                .map(|(secret, at)| ((*source, secret.as_str()), *at))
        });
        let written = signing_secrets::verified(db, &last.collect()).await;
        if written.is_err() {
            lock(&self.0).put_back_verified(&counted.verified);
        }
        written
    }

    /// Writes what is counted, minute by minute, until the database's pool is closed.
    pub fn write_regularly(&self, db: &Db, clock: &Clock) {
        let (measures, db, clock) = (self.clone(), db.clone(), clock.clone());
        task::spawn("measures", async move {
            let process = clock.id();
            let mut minute = measures::begin(clock.now(), MINUTE);
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                let now = measures::begin(clock.now(), MINUTE);
                if now == minute {
                    continue;
                }
                match measures.write(&db, process, minute).await {
                    Ok(()) => minute = now,
                    Err(Error::PoolClosed) => return,
                    Err(error) => tracing::debug!(%error, "what was measured is written later"),
                }
            }
        });
    }
}

#[cfg(test)]
#[path = "../tests/unit/measures.rs"]
mod tests;
