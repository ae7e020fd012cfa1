//! What operators pause and let go on: each change with its entry in the audit.

use domain::pause::{LONGEST, Target};
use domain::time::Timestamp;
use serde_json::json;
use store::audit::By;
use store::pauses::{self, Pause};
use store::sql::{self, Db, Tx};
use uuid::Uuid;

/// Why nothing is paused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("a pause ends after now and within seven days")]
    Length,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Begins a pause. One of the same target that is in force is ended by it, so that the new end counts. False
/// when the pause with this id was begun before.
pub async fn begin(
    db: &Db,
    by: By<'_>,
    id: Uuid,
    target: Target,
    until: Timestamp,
) -> Result<bool, Refused> {
    if until <= by.now || until > by.now.plus(LONGEST) {
        return Err(Refused::Length);
    }
    let pause = Pause {
        id,
        target,
        until,
        actor: by.actor.to_owned(),
        begun_at: by.now,
        ended_at: None,
    };
    if pauses::find(db, id).await?.is_some() {
        return Ok(false);
    }
    let mut tx = db.begin().await?;
    pauses::end(&mut tx, &pause.target, by.now).await?;
    let is_new = pauses::insert(&mut tx, &pause).await?;
    if is_new {
        let details = json!({
            "scope": pause.target.scope().into_str(), "name": pause.target.name(), "until": until,
        });
        note(&mut tx, by, "pause.began", id, &pause.target, details).await?;
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    Ok(is_new)
}

/// Ends the pause of a target. What waited for it is due within some seconds. False when it was not paused.
pub async fn end(db: &Db, by: By<'_>, target: &Target) -> sql::Result<bool> {
    let mut tx = db.begin().await?;
    let ended = pauses::end(&mut tx, target, by.now).await?;
    for id in &ended {
        let details = json!({ "scope": target.scope().into_str(), "name": target.name() });
        note(&mut tx, by, "pause.ended", *id, target, details).await?;
    }
    tx.commit().await?;
    Ok(!ended.is_empty())
}

async fn note(
    tx: &mut Tx,
    by: By<'_>,
    action: &str,
    id: Uuid,
    target: &Target,
    details: serde_json::Value,
) -> sql::Result<()> {
    let shop = match target {
        Target::Shop(shop) => Some(shop.as_str()),
        Target::Queue(_) | Target::Provider(_) | Target::Connection(_) | Target::Condition(_) => {
            None
        }
    };
    by.note_of_shop(tx, shop, action, id, details).await
}
