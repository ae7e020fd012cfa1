//! Whether the database knows every erasure of the journal. A database that was restored from an older
//! backup does not, and has data of people again who were erased. No process serves such a database:
//! workers wait, no export goes out, and ingress takes deliveries and refuses all else, until `waybill
//! privacy reapply` has erased again what the journal says.
//!
//! Each process looks when it starts and every few seconds. A look asks the database for the newest
//! entry that it knows, and the store whether this entry is there and whether any come after it. When
//! the store does not answer, the last result counts; a process that has no result yet does not serve.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::privacy::Keys;
use domain::privacy::journal::{Entry, Wrong};
use metrics::gauge;
use platform::task;
use providers::exports::{ExportFailure, ExportStore, Exports};
use store::erasures::{self, Known};
use store::sql::{self, Db};
use tokio::sync::watch;
use tokio::time::timeout;

/// How often it is looked.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long a process waits for its first look before it starts without a result.
const FIRST_LOOK: Duration = Duration::from_secs(3);

/// How often a look begins again because another process has written an entry meanwhile.
const TRIES: usize = 5;

/// How the database and the journal stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// Nobody could look yet.
    Unknown,
    Current,
    /// The journal has entries that the database does not know.
    Older {
        /// The last entry that both have.
        known: i64,
        newest: i64,
    },
    /// The journal lacks an entry that the database knows.
    Lacks(i64),
    /// An entry of the journal is not as it was written.
    Broken(i64, Wrong),
}

impl JournalState {
    /// The word of `/readyz`.
    pub fn as_str(self) -> &'static str {
        match self {
            JournalState::Unknown => "unknown",
            JournalState::Current => "current",
            JournalState::Older { .. } => "older",
            JournalState::Lacks(_) => "incomplete",
            JournalState::Broken(..) => "broken",
        }
    }

    pub fn is_current(self) -> bool {
        self == JournalState::Current
    }

    /// What an operator is to do.
    pub fn mend(self) -> &'static str {
        match self {
            JournalState::Unknown => {
                "Check that PRIVACY_EXPORT_URL can be reached from here, and that the credential may list \
                 and read."
            }
            JournalState::Current => "",
            JournalState::Older { .. } => {
                "Run `waybill privacy reapply`: it erases again what was erased since the backup, and then \
                 this database is served."
            }
            JournalState::Lacks(_) => {
                "Mount the store, or set PRIVACY_EXPORT_URL back. If the journal is gone for good: `waybill \
                 privacy reapply --journal-gone` writes what this database knows of it."
            }
            JournalState::Broken(..) => {
                "Check PRIVACY_KEY, and that no other database has the same PRIVACY_EXPORT_URL. If somebody \
                 changed the object, bring its former version back; `waybill privacy reapply --dry-run` \
                 lists all that is wrong."
            }
        }
    }
}

impl fmt::Display for JournalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalState::Unknown => f.write_str("the journal of erasures could not be read yet"),
            JournalState::Current => f.write_str("the database knows every erasure of the journal"),
            JournalState::Older { known, newest } => write!(
                f,
                "the database is older than its journal of erasures: it knows the entries up to {known}, \
                 and there are entries up to {newest}, so it has data of people who were erased"
            ),
            JournalState::Lacks(number) => write!(
                f,
                "the journal of erasures lacks entry {number}, which the database knows: it is another \
                 store, or somebody has removed it"
            ),
            JournalState::Broken(number, wrong) => {
                write!(f, "entry {number} of the journal of erasures {wrong}")
            }
        }
    }
}

/// Why nobody could look.
#[derive(Debug, thiserror::Error)]
pub enum NotSeen {
    #[error(transparent)]
    Database(#[from] sql::Error),
    #[error(transparent)]
    Store(#[from] ExportFailure),
}

/// Looks how the database and the journal stand to each other.
pub async fn look(db: &Db, keys: &Keys, exports: &Exports) -> Result<JournalState, NotSeen> {
    let mut known = erasures::newest(db).await?;
    for _ in 0..TRIES {
        let number = known.as_ref().map_or(0, |known| known.number);
        let later = exports.erasures_after(number).await?;
        let Some(newest) = later.last().copied() else {
            return match known {
                Some(known) => compare(keys, exports, &known).await,
                None => Ok(JournalState::Current),
            };
        };
        // Another process commits the number of an entry before it writes the entry.
        let now_known = erasures::newest(db).await?;
        if now_known.as_ref().map_or(0, |known| known.number) == number {
            return older(keys, exports, number, newest).await;
        }
        known = now_known;
    }
    Ok(JournalState::Current)
}

/// Compares the newest entry that the database knows with the one in the store.
async fn compare(keys: &Keys, exports: &Exports, known: &Known) -> Result<JournalState, NotSeen> {
    let number = known.number;
    match exports.erasure(number).await? {
        Some(bytes) if bytes == known.bytes => Ok(JournalState::Current),
        Some(_) if !known.is_kept => older(keys, exports, number - 1, number).await,
        Some(_) => Ok(JournalState::Broken(number, Wrong::Changed)),
        None if known.is_kept => Ok(JournalState::Lacks(number)),
        // Its erasure is under way.
        None => Ok(JournalState::Current),
    }
}

/// The journal has an entry that the database does not know. It must be one of ours.
async fn older(
    keys: &Keys,
    exports: &Exports,
    known: i64,
    newest: i64,
) -> Result<JournalState, NotSeen> {
    let Some(bytes) = exports.erasure(newest).await? else {
        return Ok(JournalState::Broken(newest, Wrong::Missing));
    };
    Ok(match Entry::read(keys, newest, &bytes, None) {
        Ok(_) => JournalState::Older { known, newest },
        Err(wrong) => JournalState::Broken(newest, wrong),
    })
}

/// What this process knows of the journal. Clones share it.
#[derive(Clone)]
pub struct Journal {
    state: watch::Receiver<JournalState>,
}

impl Journal {
    /// Looks for the first time, and from then on every few seconds, until the database's pool is
    /// closed.
    pub async fn open(db: &Db, keys: &Arc<Keys>, store: &ExportStore) -> Self {
        let exports = Exports::new(store);
        let (known, state) = watch::channel(JournalState::Unknown);
        let (db, keys) = (db.clone(), keys.clone());
        let first = timeout(FIRST_LOOK, look(&db, &keys, &exports)).await;
        note(&known, first.unwrap_or(Err(ExportFailure::Silent.into())));
        task::spawn("journal of erasures", async move {
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                let seen = look(&db, &keys, &exports).await;
                if matches!(seen, Err(NotSeen::Database(sql::Error::PoolClosed))) {
                    return;
                }
                note(&known, seen);
            }
        });
        Journal { state }
    }

    pub fn state(&self) -> JournalState {
        *self.state.borrow()
    }

    /// True while the database may be served.
    pub fn is_current(&self) -> bool {
        self.state().is_current()
    }

    /// Waits until the database may be served.
    pub async fn current(&self) {
        // An error means that the process is about to end.
        let _ = self.state.clone().wait_for(|it| it.is_current()).await;
    }
}

/// Notes what was seen, and logs it when it differs from what was known.
fn note(known: &watch::Sender<JournalState>, seen: Result<JournalState, NotSeen>) {
    let before = *known.borrow();
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => {
            show(before);
            if before == JournalState::Unknown {
                tracing::warn!(%error, "the journal of erasures cannot be read: deliveries are taken, and wait until it can");
            }
            return;
        }
    };
    show(seen);
    if seen == before {
        return;
    }
    if seen.is_current() {
        if before != JournalState::Unknown {
            tracing::info!("the database knows every erasure of the journal, and is served again");
        }
    } else {
        tracing::error!(found = %seen, mend = seen.mend(), "the database is not served: deliveries are taken, and wait");
    }
    known.send_replace(seen);
}

/// Shows in the metrics whether the database is served.
fn show(state: JournalState) {
    gauge!("waybill_erasure_journal_current").set(if state.is_current() { 1.0 } else { 0.0 });
}
