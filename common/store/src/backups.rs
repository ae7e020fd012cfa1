//! The `backups` table: when `waybill backup` last made one.

use crate::sql::{Db, Result};
use domain::time::Timestamp;

/// Notes that a backup holds what was there at this time.
pub async fn made(db: &Db, at: Timestamp) -> Result<()> {
    db.transact(
        "insert into backups (name, made_at) values ('database', $1)
         on conflict (name) do update set made_at = excluded.made_at
         where backups.made_at < excluded.made_at",
    )
    .bind(at.0)
    .done()
    .await
}

pub async fn last(db: &Db) -> Result<Option<Timestamp>> {
    let made = db.query("select made_at from backups where name = 'database'");
    made.first(|row| row.get("made_at")).await
}
