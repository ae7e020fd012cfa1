//! Decisions of operators. A request may concern more customers and orders than those that are
//! certain. [`hold`] stores the uncertain ones, and [`decide`] stores what an operator decided
//! about them and lets the request run again. Everything that the operator did not decide stays
//! held.

use serde_json::json;
use uuid::Uuid;

use super::actions::note;
use super::{By, find, set_state};
use crate::jobs;
use crate::sql::{self, Db, Tx};
use domain::privacy::{Decided, Held, State};

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum Undecided {
    #[error("there is no such privacy request here")]
    Unknown,
    #[error("the request is not held for a decision")]
    NotHeld,
    #[error("{0} is not among what the request holds, so nothing was decided")]
    NotAmongHeld(String),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Stores what an operator has to decide.
pub async fn hold(tx: &mut Tx, id: Uuid, held: &Held) -> sql::Result<()> {
    tx.query("update privacy_requests set held = $1 where id = $2")
        .bind(crate::json(held)?)
        .bind(id)
        .done()
        .await
}

/// Stores an operator's decision about who is meant, and lets the request run again.
pub async fn decide(db: &Db, by: By<'_>, id: Uuid, decision: &Decided) -> Result<(), Undecided> {
    let entry = find(db, id).await?.ok_or(Undecided::Unknown)?;
    let held = entry.held.as_ref().ok_or(Undecided::NotHeld)?;
    for customer in decision.customers.iter().chain(&decision.other_customers) {
        if !held.customers.contains_key(customer) {
            return Err(Undecided::NotAmongHeld(format!("customer {customer}")));
        }
    }
    for order in decision.orders.iter().chain(&decision.other_orders) {
        if !held.orders.contains(order) {
            return Err(Undecided::NotAmongHeld(format!("order {order}")));
        }
    }
    let mut tx = db.begin().await?;
    // This locks the job first and then the request.
    jobs::wake(&mut tx, id, by.now).await?;
    if !set_state(&mut tx, id, &[State::Held], State::Received, by.now).await? {
        tx.rollback().await?;
        return Err(Undecided::NotHeld);
    }
    let mut decided = entry.decided.clone().unwrap_or_default();
    decided.merge(decision);
    tx.query("update privacy_requests set decided = $1, progress = null where id = $2")
        .bind(crate::json(&decided)?)
        .bind(id)
        .execute()
        .await?;
    let details = json!({"topic": entry.topic, "decided": decision});
    note(&mut tx, by, &entry, "request.decided", details).await?;
    Ok(tx.commit().await?)
}
