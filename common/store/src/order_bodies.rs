//! The `order_bodies` table: bodies that leave a status to their topic, each with the topic under
//! which it was accepted first. The primary key decides which of two deliveries of one body is
//! the first, however many replicas work on them.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::sql::{Db, FromRow, Result, Row, Tx, column};
use domain::order::OrderKey;
use domain::time::Timestamp;

/// The key of an order, and the hash of a body about it.
pub type BodyKey = (OrderKey, String);

/// Stores the topics of bodies that are new, and returns for each body the topic under which it
/// was accepted first. The rows stay locked until the end of the transaction.
pub async fn remember(
    tx: &mut Tx,
    bodies: &BTreeMap<BodyKey, &str>,
    now: Timestamp,
) -> Result<HashMap<BodyKey, String>> {
    let rows = bodies.iter().map(|(((shop, order_id), hash), topic)| {
        [
            column("shop", shop),
            column("order_id", *order_id),
            column("hash", hash),
            column("topic", *topic),
            column("repeats", 0),
            column("created_at", now),
        ]
    });
    let rows = tx
        .insert(
            "order_bodies",
            rows.collect(),
            "on conflict (shop, order_id, hash) do update set topic = order_bodies.topic
             returning shop, order_id, hash, topic",
        )
        .await?;
    rows.iter()
        .map(|row| Ok(((key(row)?, row.get("hash")?), row.get("topic")?)))
        .collect()
}

/// Counts the repetitions of bodies that [`remember`] has locked.
pub async fn repeat(tx: &mut Tx, repeats: &BTreeMap<&BodyKey, i64>) -> Result<()> {
    for (((shop, id), hash), times) in repeats {
        tx.query(
            "update order_bodies set repeats = repeats + $1
             where shop = $2 and order_id = $3 and hash = $4",
        )
        .bind(*times)
        .bind(shop.as_str())
        .bind(*id)
        .bind(hash.as_str())
        .execute()
        .await?;
    }
    Ok(())
}

/// Counts that the storefront does not confirm the status that the topic of a body says.
pub async fn refute(tx: &mut Tx, ((shop, id), hash): &BodyKey) -> Result<()> {
    tx.query(
        "update order_bodies set refuted = refuted + 1
         where shop = $1 and order_id = $2 and hash = $3",
    )
    .bind(shop.as_str())
    .bind(*id)
    .bind(hash.as_str())
    .done()
    .await
}

/// A body whose topic did not count, because it came again under a topic that says more than the
/// first one, or because the storefront did not confirm the topic.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Repeated {
    pub shop: String,
    pub order_id: i64,
    /// The topic under which the body was accepted first.
    pub topic: String,
    pub repeats: i64,
    /// How often the storefront did not confirm the topic.
    pub refuted: i64,
    /// When the body came for the first time.
    pub created_at: Timestamp,
}

/// The repeated or unconfirmed bodies, the newest first.
pub async fn repeated(db: &Db, limit: i64) -> Result<Vec<Repeated>> {
    db.query(
        "select shop, order_id, topic, repeats, refuted, created_at from order_bodies
         where repeats > 0 or refuted > 0
         order by created_at desc, shop, order_id, hash
         limit $1",
    )
    .bind(limit)
    .all(Repeated::from_row)
    .await
}

fn key(row: &Row) -> Result<OrderKey> {
    Ok((row.get("shop")?, row.get("order_id")?))
}
