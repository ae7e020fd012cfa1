//! Real workers, which are killed one after the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sandbox::{Delivery, Poster, Report};
use store::sql::Db;

use super::process::Process;
use super::{pause, within};

const BETWEEN_KILLS: Duration = Duration::from_secs(2);

/// From the last delivery until nothing is left to do: a claim of a killed process runs out
/// after 35 seconds.
pub const LONGEST_TAIL: Duration = Duration::from_secs(100);

/// What a storm and whoever kills processes in it know of each other.
#[derive(Default)]
pub struct Kills {
    count: AtomicUsize,
    is_over: AtomicBool,
}

impl Kills {
    /// Posts all, of which a part is kept back until the next process was killed: so each of `processes` is
    /// killed amid deliveries, however fast they are worked on.
    pub async fn post(&self, poster: &Poster, all: &[Delivery], processes: usize) -> Report {
        let mut report = Report::default();
        let part = all.len().div_ceil(processes + 1).max(1);
        for (nth, part) in all.chunks(part).enumerate() {
            within(LONGEST_TAIL, "the next process is killed", async || {
                self.count() >= nth
            })
            .await;
            report += poster.post_all(part, 64, |_| {}).await;
        }
        report
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// All is worked on: nobody is killed any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

pub struct Workers {
    settings: Vec<(String, String)>,
    processes: Vec<(&'static str, Process)>,
}

impl Workers {
    pub fn start(settings: Vec<(String, String)>, names: &[&'static str]) -> Self {
        let start = |name: &&'static str| (*name, Process::start(name, &[], &settings));
        Workers {
            processes: names.iter().map(start).collect(),
            settings,
        }
    }

    /// Kills one after the other, and starts it again, until it is enough.
    pub async fn kill_until_over(&mut self, kills: &Kills) {
        loop {
            pause(BETWEEN_KILLS).await;
            if kills.is_over() {
                return;
            }
            let turn = kills.count() % self.processes.len();
            let (name, process) = &mut self.processes[turn];
            process.kill();
            *process = Process::start(name, &[], &self.settings);
            kills.add();
        }
    }
}

/// The one number that a query selects as `n`.
pub async fn count(db: &Db, sql: &'static str) -> i64 {
    db.query(sql).fetch_one().await.unwrap().get("n").unwrap()
}
