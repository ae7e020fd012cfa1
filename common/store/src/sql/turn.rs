//! Whose turn it is to write to a SQLite file that several processes share.
//!
//! SQLite's own lock has no queue. Who finds it taken sleeps and looks again, ten times a second,
//! and a service that begins its next transaction right after the last one is always there first:
//! an operator's command would be locked out for as long as the service is busy. So whoever is
//! about to begin a transaction holds the turn, a lock on a file beside the database, until it has
//! begun. The next one takes the turn while that transaction runs, and the service that wants to
//! begin again comes after it. A command waits for the transactions before it to end, and for no
//! more of them.
//!
//! The turn is a courtesy: SQLite's lock alone keeps the data right. Where the file cannot be
//! locked, or whoever has the turn keeps it too long, one goes on without it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Between two looks at a turn that another process has.
const PAUSE: Duration = Duration::from_millis(2);
/// A process that has kept its turn for so long is stopped, or waits for one that is.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file beside the database; `None`: it could not be opened.
#[derive(Clone, Debug)]
pub struct Turn(Option<Arc<File>>);

/// A turn that one has. It ends when this is dropped, or with the process.
pub(super) struct Held<'t>(Option<&'t File>);

impl Turn {
    /// The file `<database>-turn`.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-turn");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        // Made by another user, it can be locked as well when it can be read.
        let file = options.open(&path).or_else(|_| File::open(&path));
        Turn(file.ok().map(Arc::new))
    }

    /// Waits for it. The caller has this process's only writing connection, so that it waits for
    /// other processes alone.
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
            // It cannot fail but by a file that is no longer open.
            let _ = file.unlock();
        }
    }
}
