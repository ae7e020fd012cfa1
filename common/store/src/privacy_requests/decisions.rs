//! What a request may mean beside what is certain is for an operator to say: [`hold`] notes it,
//! [`decide`] writes down what they said and lets the request go on. What they say nothing of
//! stays held.

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
    #[error("there is no such privacy request here; `waybill privacy list --all` shows them")]
    Unknown,
    #[error(
        "the request is not held for a decision; `waybill privacy list --state held` shows those \
         that are"
    )]
    NotHeld,
    #[error(
        "{0} is not among what the request holds; `waybill privacy show` lists it. Nothing was \
         decided"
    )]
    NotAmongHeld(String),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Notes what is left to an operator.
pub async fn hold(tx: &mut Tx, id: Uuid, held: &Held) -> sql::Result<()> {
    tx.query("update privacy_requests set held = $1 where id = $2")
        .bind(crate::json(held)?)
        .bind(id)
        .execute()
        .await?;
    Ok(())
}

/// Takes an operator's word for who is meant, and lets the request run again.
pub async fn decide(db: &Db, by: By<'_>, id: Uuid, said: &Decided) -> Result<(), Undecided> {
    let entry = find(db, id).await?.ok_or(Undecided::Unknown)?;
    let held = entry.held.as_ref().ok_or(Undecided::NotHeld)?;
    for customer in said.customers.iter().chain(&said.other_customers) {
        if !held.customers.contains_key(customer) {
            return Err(Undecided::NotAmongHeld(format!("customer {customer}")));
        }
    }
    for order in said.orders.iter().chain(&said.other_orders) {
        if !held.orders.contains(order) {
            return Err(Undecided::NotAmongHeld(format!("order {order}")));
        }
    }
    let mut tx = db.begin().await?;
    // Locks the job, and the request after it.
    jobs::wake(&mut tx, id, by.now).await?;
    if !set_state(&mut tx, id, &[State::Held], State::Received, by.now).await? {
        tx.rollback().await?;
        return Err(Undecided::NotHeld);
    }
    let mut decided = entry.decided.clone().unwrap_or_default();
    decided.merge(said);
    tx.query("update privacy_requests set decided = $1, progress = null where id = $2")
        .bind(crate::json(&decided)?)
        .bind(id)
        .execute()
        .await?;
    let details = json!({"topic": entry.topic, "decided": said});
    note(&mut tx, by, &entry, "request.decided", details).await?;
    Ok(tx.commit().await?)
}
