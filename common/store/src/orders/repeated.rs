//! Bodies of orders whose topics did not count.

use serde::Serialize;

use crate::aggregates;
use crate::sql::{Db, Result};
use domain::order::OrderKey;
use domain::order::own::Body;
use domain::order::record::Record;
use domain::time::Timestamp;

/// A body whose topic did not count, because it came again under a topic that says more than the
/// first one, or because the storefront did not confirm the topic.
#[derive(Clone, Debug, Serialize)]
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
pub async fn list(db: &Db, limit: i64) -> Result<Vec<Repeated>> {
    let orders = db.query(
        "select shop, id, record from orders where disputed_at is not null
         order by disputed_at desc
         limit $1",
    );
    let orders: Vec<(OrderKey, Record)> = aggregates::read(orders.bind(limit)).await?;
    let mut found = Vec::new();
    for ((shop, order_id), record) in orders {
        let disputed = record.own.bodies.into_values().filter(Body::is_disputed);
        found.extend(disputed.map(|body| Repeated {
            shop: shop.clone(),
            order_id,
            topic: body.topic,
            repeats: body.repeats,
            refuted: body.refuted,
            created_at: Timestamp(body.at),
        }));
    }
    found.sort_by_key(|body| std::cmp::Reverse(body.created_at));
    found.truncate(usize::try_from(limit).unwrap_or_default());
    Ok(found)
}
