//! The `export_stores` table: which export store was found at which address. Each store has its
//! id in an object of its own (`exports::Exports::mark`). So a store that was emptied or is not
//! mounted, and another host's folder of the same name, are recognized, although the address is
//! the same.

use uuid::Uuid;

use crate::sql::{Db, Result};
use domain::time::Timestamp;

/// The id of the store to which exports at this address were last written.
pub async fn at(db: &Db, place: &str) -> Result<Option<Uuid>> {
    db.query("select id from export_stores where place = $1")
        .bind(place)
        .first(|row| row.get("id"))
        .await
}

/// Records which store is at an address, in place of `known`. Returns the id that is recorded
/// afterwards, which is another one when another process was first.
pub async fn note(
    db: &Db,
    place: &str,
    known: Option<Uuid>,
    id: Uuid,
    now: Timestamp,
) -> Result<Uuid> {
    let mut tx = db.begin().await?;
    tx.query(
        "insert into export_stores (place, id, created_at) values ($1, $2, $3)
         on conflict (place) do update set id = excluded.id, created_at = excluded.created_at
         where export_stores.id = $4",
    )
    .bind(place)
    .bind(id)
    .bind(now.0)
    .bind(known)
    .execute()
    .await?;
    let row = tx
        .query("select id from export_stores where place = $1")
        .bind(place)
        .fetch_one()
        .await?;
    let noted = row.get("id")?;
    tx.commit().await?;
    Ok(noted)
}

/// True while an export that was written to this store is not removed.
pub async fn is_used(db: &Db, id: Uuid) -> Result<bool> {
    db.query(
        "select id from privacy_requests
         where export_expires_at is not null and export_removed_at is null
           and export_store = $1
         limit 1",
    )
    .bind(id)
    .is_any()
    .await
}

/// How many exports that are not removed are in other stores than this one.
pub async fn elsewhere(db: &Db, id: Option<Uuid>) -> Result<i64> {
    let row = db
        .query(
            "select count(*) as exports from privacy_requests
             where export_expires_at is not null and export_removed_at is null
               and export_store is not null and ($1 is null or export_store <> $1)",
        )
        .bind(id)
        .fetch_one()
        .await?;
    row.get("exports")
}
