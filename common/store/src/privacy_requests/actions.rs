//! What an operator, or the holder of an API key, may do to a request: retry it, cancel it, or
//! fetch its export. The command line and the API both use these functions, so there is one way
//! for each action, and each action leaves an entry in the audit in the same transaction.
//!
//! A worker may work on the same request at the same time. Both lock the job first and then the
//! request. The one whose update of the request's state matches a row succeeds, and the other
//! changes nothing.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::{Export, RequestEntry, export_removed, find, set_confirmed, set_state, state};
use crate::sql::{self, Db};
use crate::{audit, deliveries, export_links, jobs};
use domain::privacy::{State, Topic};
use domain::time::Timestamp;

pub use crate::audit::By;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ActionRefused {
    #[error("there is no such privacy request here")]
    Unknown,
    #[error("the request is {}; only one that failed is tried again by hand", .0.into_str())]
    NotFailed(State),
    #[error(
        "the request is a customer's, and cannot be cancelled: answering it is a legal duty. \
         Only the erasure of a shop can be, and a repeated one, while it is held"
    )]
    Duty,
    #[error("{}", too_late(*.0))]
    NotHeld(State),
    #[error("the request failed, so there is no export")]
    Failed,
    #[error("{}", not_waiting(*.0))]
    NotWaiting(State),
    #[error("the export was removed at {0} already")]
    Removed(Timestamp),
    #[error("the request has no export: only a customers/data_request that is done has one")]
    NoExport,
    #[error(
        "the export ended at {0}, because its time was over or the customer's data was erased; for \
         a new one the customer must ask again"
    )]
    Expired(Timestamp),
    #[error(
        "the export is not the document that was written: its SHA-256 is another one. Do not \
         hand it out; the customer must ask again"
    )]
    Altered,
    #[error("the export cannot be read; check PRIVACY_EXPORT_URL: {0}")]
    Store(String),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

fn too_late(state: State) -> &'static str {
    match state {
        State::Done => "the shop's data is erased already; it cannot be cancelled any more",
        State::Cancelled => "the request was cancelled before",
        State::Failed => {
            "the erasure was tried and failed, so part of the shop's data may be gone; it cannot \
             be cancelled any more, only tried again"
        }
        State::Received | State::Held => {
            "the erasure of the shop has begun; it cannot be cancelled any more"
        }
    }
}

fn not_waiting(state: State) -> &'static str {
    match state {
        State::Held => "the request waits for its time, not for you",
        State::Received | State::Done | State::Cancelled | State::Failed => {
            "the request does not wait for anybody: only an erasure whose body came before, or of a \
             shop that is in use, is confirmed"
        }
    }
}

/// Requeues a request that was given up, with its full number of tries.
pub async fn retry(db: &Db, by: By<'_>, id: Uuid) -> Result<(), ActionRefused> {
    let entry = find(db, id).await?.ok_or(ActionRefused::Unknown)?;
    let mut tx = db.begin().await?;
    // The result does not matter: it is false when `waybill dead requeue` has already requeued the
    // job, and then only the row of the request has to follow.
    jobs::requeue(&mut tx, id, by.now).await?;
    if !set_state(&mut tx, id, &[State::Failed], State::Received, by.now).await? {
        let state = state(&mut tx, id).await?.ok_or(ActionRefused::Unknown)?;
        tx.rollback().await?;
        return Err(ActionRefused::NotFailed(state));
    }
    let details = json!({"topic": entry.topic, "attempts": entry.attempts});
    note(&mut tx, by, &entry, "request.retried", details).await?;
    Ok(tx.commit().await?)
}

/// Cancels the erasure of a shop, or a repeated one, while it is held.
pub async fn cancel(db: &Db, by: By<'_>, id: Uuid) -> Result<(), ActionRefused> {
    let entry = find(db, id).await?.ok_or(ActionRefused::Unknown)?;
    if entry.topic != Topic::ShopRedact.into_str() && !entry.waits() {
        return Err(ActionRefused::Duty);
    }
    let mut tx = db.begin().await?;
    // This locks the job, so that `finish` does not skip it.
    jobs::state(&mut tx, id).await?;
    jobs::finish(&mut tx, &[id], by.now).await?;
    deliveries::forget_body(&mut tx, id).await?;
    if !set_state(&mut tx, id, &[State::Held], State::Cancelled, by.now).await? {
        let state = state(&mut tx, id).await?.ok_or(ActionRefused::Unknown)?;
        tx.rollback().await?;
        return Err(ActionRefused::NotHeld(state));
    }
    let details = json!({"topic": entry.topic, "held_until": entry.held_until});
    note(&mut tx, by, &entry, "request.cancelled", details).await?;
    Ok(tx.commit().await?)
}

/// Confirms a repeated erasure, or that of a shop that is in use. That of a shop runs when the rest of its hold is over.
pub async fn confirm(db: &Db, by: By<'_>, id: Uuid, hold: Duration) -> Result<(), ActionRefused> {
    let entry = find(db, id).await?.ok_or(ActionRefused::Unknown)?;
    let is_of_a_shop = entry.topic == Topic::ShopRedact.into_str();
    let hold = if is_of_a_shop { hold } else { Duration::ZERO };
    let run_at = by.now.0.max(entry.received_at.plus(hold).0);
    let mut tx = db.begin().await?;
    jobs::release(&mut tx, id, Timestamp(run_at)).await?;
    if !set_confirmed(&mut tx, id, by.now, Timestamp(run_at)).await? {
        let state = state(&mut tx, id).await?.ok_or(ActionRefused::Unknown)?;
        tx.rollback().await?;
        return Err(ActionRefused::NotWaiting(state));
    }
    if !is_of_a_shop {
        set_state(&mut tx, id, &[State::Held], State::Received, by.now).await?;
    }
    let details = json!({
        "topic": entry.topic, "repeats": entry.repeats, "living_at": entry.living_at,
    });
    note(&mut tx, by, &entry, "request.confirmed", details).await?;
    Ok(tx.commit().await?)
}

/// Marks an export as removed because an operator says so, when its store cannot be reached any
/// more.
pub async fn export_gone(db: &Db, by: By<'_>, id: Uuid) -> Result<(), ActionRefused> {
    let entry = find(db, id).await?.ok_or(ActionRefused::Unknown)?;
    let mut tx = db.begin().await?;
    if export_removed(&mut tx, id, by.now).await?.is_none() {
        tx.rollback().await?;
        return Err(match entry.export.and_then(|export| export.removed_at) {
            Some(at) => ActionRefused::Removed(at),
            None => ActionRefused::NoExport,
        });
    }
    note(
        &mut tx,
        by,
        &entry,
        "export.removed",
        json!({"by_hand": true}),
    )
    .await?;
    Ok(tx.commit().await?)
}

/// Records that a link to the export was given out, and until which second of Unix time it can be
/// used.
pub async fn link_export(db: &Db, by: By<'_>, id: Uuid, expires: i64) -> Result<(), ActionRefused> {
    let (entry, _) = export_of(db, id, by.now).await?;
    let ends = Timestamp::from_unix_seconds(expires);
    let mut tx = db.begin().await?;
    export_links::insert(&mut tx, id, expires, by.now).await?;
    let details = json!({"expires_at": ends});
    note(&mut tx, by, &entry, "export.linked", details).await?;
    Ok(tx.commit().await?)
}

/// Records in the audit who fetches an export, before it is handed out.
pub async fn note_fetched(
    db: &Db,
    by: By<'_>,
    entry: &RequestEntry,
    export: &Export,
) -> sql::Result<()> {
    let mut tx = db.begin().await?;
    let details = json!({"export_sha256": export.sha256, "bytes": export.bytes});
    note(&mut tx, by, entry, "export.fetched", details).await?;
    tx.commit().await
}

/// The export of a request, while it can be fetched.
pub async fn export_of(
    db: &Db,
    id: Uuid,
    now: Timestamp,
) -> Result<(RequestEntry, Export), ActionRefused> {
    let entry = find(db, id).await?.ok_or(ActionRefused::Unknown)?;
    let Some(export) = entry.export.clone() else {
        return Err(if entry.state == State::Failed.into_str() {
            ActionRefused::Failed
        } else {
            ActionRefused::NoExport
        });
    };
    let end = export.removed_at.unwrap_or(export.expires_at);
    if export.removed_at.is_some() || now >= export.expires_at {
        return Err(ActionRefused::Expired(end));
    }
    Ok((entry, export))
}

/// Adds an entry to the audit. It comes last, because it locks the audit until the commit.
pub(super) async fn note(
    tx: &mut sql::Tx,
    by: By<'_>,
    entry: &RequestEntry,
    action: &str,
    details: serde_json::Value,
) -> sql::Result<()> {
    let new = audit::NewEntry {
        actor: by.actor,
        action,
        object_id: &entry.id.to_string(),
        shop: Some(&entry.shop),
        details,
    };
    audit::append(tx, by.keys, new, by.now).await?;
    Ok(())
}
