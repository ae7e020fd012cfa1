//! The `events` table: what happened, written in the transaction in which it happened, for
//! the merchant's own systems. Ids and amounts only, never personal data.

use uuid::Uuid;

use crate::clock::Timestamp;
use crate::sql::{Db, Result, Tx, column};

/// A domain event, `order.created` for example.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: Uuid,
    pub kind: &'static str,
    pub shop: String,
    /// The id of the order, payment, .. it happened to.
    pub object_id: String,
    pub body: serde_json::Value,
}

pub async fn insert(tx: &mut Tx, events: &[Event], now: Timestamp) -> Result<()> {
    let bodies: Vec<String> = events.iter().map(|event| event.body.to_string()).collect();
    let columns = [
        column("id", events.iter().map(|event| event.id)),
        column("kind", events.iter().map(|event| event.kind)),
        column("shop", events.iter().map(|event| event.shop.as_str())),
        column(
            "object_id",
            events.iter().map(|event| event.object_id.as_str()),
        ),
        column("body", bodies.iter().map(String::as_str)),
        column("created_at", events.iter().map(|_| now.0)),
    ];
    tx.insert("events", &columns, "").await?;
    Ok(())
}

/// The kinds of the events of one object, oldest first.
pub async fn kinds(db: &Db, shop: &str, object_id: &str) -> Result<Vec<String>> {
    let rows = db
        .query("select kind from events where shop = $1 and object_id = $2 order by id")
        .bind(shop)
        .bind(object_id)
        .fetch_all()
        .await?;
    rows.iter().map(|row| row.get("kind")).collect()
}
