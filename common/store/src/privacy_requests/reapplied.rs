//! Enters an erasure again whose entry is in the journal and which this database does not know, because
//! it was restored from an older backup.

use serde_json::json;

use super::{By, state};
use crate::audit;
use crate::sql::{Result, Tx, column};
use domain::privacy::journal::Erased;
use domain::privacy::{Decided, State};

/// Enters the request of an erasure, or makes the one that is there run again with what operators had
/// decided. `customer` is the customer's id, if the database has anything of the customer. False when
/// the request is done.
pub async fn reapply(
    tx: &mut Tx,
    by: By<'_>,
    erased: &Erased,
    customer: Option<i64>,
    decided: &Decided,
) -> Result<bool> {
    let decided = match decided {
        none if *none == Decided::default() => None,
        decided => Some(crate::json(decided)?),
    };
    match state(tx, erased.job).await? {
        Some(State::Done) => return Ok(false),
        Some(_) => {
            tx.query(
                "update privacy_requests
                 set state = 'received', held = null, held_until = null, decided = $1,
                     finished_at = null
                 where id = $2",
            )
            .bind(decided)
            .bind(erased.job)
            .execute()
            .await?;
        }
        None => insert(tx, by, erased, customer, decided).await?,
    }
    Ok(true)
}

async fn insert(
    tx: &mut Tx,
    by: By<'_>,
    erased: &Erased,
    customer: Option<i64>,
    decided: Option<String>,
) -> Result<()> {
    let row = [
        column("id", erased.job),
        column("topic", &erased.kind),
        column("shop", &erased.shop),
        column("customer_id", customer),
        column("email_key", erased.named.email),
        column("phone_key", erased.named.phone),
        column("body_key", erased.named.body),
        column("state", State::Received.into_str()),
        column("decided", decided),
        column("received_at", erased.received_at.0),
        column("due_at", erased.due_at.0),
    ];
    tx.insert("privacy_requests", vec![row], "").await?;
    let new = audit::NewEntry {
        actor: by.actor,
        action: "request.received",
        object_id: &erased.job.to_string(),
        shop: Some(&erased.shop),
        details: json!({
            "topic": erased.kind,
            "customer_id": customer,
            "repeats": null,
            "erased_at": erased.erased_at,
        }),
    };
    audit::append(tx, by.keys, new, by.now).await
}
