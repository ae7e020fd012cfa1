//! Writes the entry of an erasure to the journal, before anything in the database says that the erasure
//! was done.
//!
//! 1. The entry gets its number and is committed in the database (`store::erasures`).
//! 2. It is written to the store of exports, after all entries before it, so that the journal has no
//!    gaps.
//! 3. The database notes that the entry is there. Only then is the erasure recorded
//!    (`privacy::record`).
//!
//! If the process dies in between, the job runs again, and the same bytes are written again. If the
//! number is taken in the store by another entry, the database is one that was restored from a backup
//! and has not noticed it yet.

use anyhow::{Result, bail};
use domain::privacy::journal::Erased;
use platform::crash_point::{self, Point};
use process::Parts;
use providers::exports::{Added, Exports};
use store::erasures;

/// Entries that are read from the database at a time.
const AT_ONCE: i64 = 100;

/// Puts the erasure into the journal, durably.
pub async fn keep(parts: &Parts, exports: &Exports, erased: &Erased) -> Result<()> {
    let mut tx = parts.db.begin().await?;
    let number = erasures::add(&mut tx, &parts.keys, erased.clone()).await?;
    tx.commit().await?;
    write_until(parts, exports, number).await
}

/// Writes all entries up to this number that are not known to be in the store, in sequence.
async fn write_until(parts: &Parts, exports: &Exports, number: i64) -> Result<()> {
    loop {
        let entries = erasures::not_kept(&parts.db, number, AT_ONCE).await?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries {
            crash_point::reach(Point::JournalWrite).await;
            let added = exports.add_erasure(entry.number, entry.bytes).await?;
            crash_point::reach(Point::JournalWritten).await;
            if added == Added::Taken {
                bail!(
                    "the journal of erasures has another entry {}: the database is older than the journal, \
                     or another one has the same PRIVACY_EXPORT_URL",
                    entry.number
                );
            }
            let mut tx = parts.db.begin().await?;
            erasures::note_kept(&mut tx, entry.number, parts.clock.now()).await?;
            tx.commit().await?;
        }
    }
}
