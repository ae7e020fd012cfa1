//! Decides whose turn it is to write to a SQLite file that several processes share.
//!
//! SQLite's own lock has no queue. A process that finds it taken sleeps and looks again, ten
//! times a second, and a service that begins its next transaction right after the last one always
//! comes first: an operator's command would be locked out for as long as the service is busy.
//! Therefore a process that is about to begin a transaction takes the turn, which is a lock on a
//! file beside the database, and holds it until the transaction has begun. The next process takes
//! the turn while that transaction runs, and the service that wants to begin again comes after
//! it. So a command waits for the transactions before it to end, and for no others.
//!
//! The turn only makes waiting fair. SQLite's lock alone keeps the data right. If the file cannot
//! be locked, or another process keeps the turn too long, the process continues without it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The pause between two looks at a turn that another process has.
const PAUSE: Duration = Duration::from_millis(2);
/// How long to wait for the turn. A process that has kept it longer is stopped, or waits for one
/// that is.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file beside the database. `None` if it could not be opened.
#[derive(Clone, Debug)]
pub struct Turn(Option<Arc<File>>);

/// A turn that this process has. It ends when this value is dropped, or with the process.
pub(super) struct Held<'t>(Option<&'t File>);

impl Turn {
    /// Opens the file `<database>-turn`.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-turn");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        // A file that another user made can be locked too, if it can be read.
        let file = options.open(&path).or_else(|_| File::open(&path));
        Turn(file.ok().map(Arc::new))
    }

    /// Waits for the turn. The caller has this process's only writing connection, so it waits
    /// only for other processes.
    pub(super) async fn take(&self) -> Held<'_> {
        let Some(file) = &self.0 else {
            return Held(None);
        };
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Held(Some(file)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(_) => return Held(None),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            // Unlocking fails only for a file that is not open any more.
            let _ = file.unlock();
        }
    }
}
