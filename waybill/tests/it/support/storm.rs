//! Real workers, which are killed one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::sql::Db;

use super::pause;
use super::process::Process;

const BETWEEN_KILLS: Duration = Duration::from_secs(2);

/// From the last delivery until nothing is left to do: a claim of a killed process runs out
/// after 35 seconds.
pub const LONGEST_TAIL: Duration = Duration::from_secs(100);

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
    pub async fn kill_until(&mut self, enough: &AtomicBool) -> usize {
        let mut kills = 0;
        loop {
            pause(BETWEEN_KILLS).await;
            if enough.load(Ordering::SeqCst) {
                return kills;
            }
            let turn = kills % self.processes.len();
            let (name, process) = &mut self.processes[turn];
            process.kill();
            *process = Process::start(name, &[], &self.settings);
            kills += 1;
        }
    }
}

/// The one number that a query selects as `n`.
pub async fn count(db: &Db, sql: &'static str) -> i64 {
    db.query(sql).fetch_one().await.unwrap().get("n").unwrap()
}
