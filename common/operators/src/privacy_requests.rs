//! A privacy request that an operator enters by hand, because a customer wrote to the merchant. It is stored
//! like one that the storefront passes on: a job and its request in one transaction. The audit says who
//! entered it.

use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use domain::job::{JobId, Kind, State};
use domain::privacy::{PERIOD, Request, Topic};
use platform::clock::Clock;
use serde_json::{Map, Value, json};
use store::audit::By;
use store::jobs::{self, NewJob};
use store::privacy_requests;
use store::sql::{self, Db};
use store::webhook_ids::{self, Claim, DeliveryId};
use uuid::Uuid;

use crate::jobs::notify_of;

/// What a customer asked for. It has personal data, so it has no Debug.
pub struct ByHand<'a> {
    /// A key of whoever asks, such as a form: with the same key it is entered once.
    pub key: Uuid,
    /// Not the erasure of a shop.
    pub topic: Topic,
    pub shop: &'a str,
    pub customer: Option<i64>,
    pub email: Option<&'a str>,
}

#[derive(Debug, thiserror::Error)]
pub enum NotEntered {
    #[error("a request by hand is a customer's; only the storefront has a shop erased")]
    Shop,
    #[error("name the customer by their id or their e-mail address")]
    Nobody,
    #[error("this is no shop's domain, no customer's id or no e-mail address")]
    Unreadable,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Enters the request, and returns its id and whether it is new. Its key is `remembered` for this long.
/// Without a bus the workers' sweep finds it.
pub async fn enter(
    db: &Db,
    bus: Option<&Bus>,
    clock: &Clock,
    by: By<'_>,
    asked: ByHand<'_>,
    remembered: Duration,
) -> Result<(JobId, bool), NotEntered> {
    let ByHand { topic, shop, .. } = asked;
    let orders = match topic {
        Topic::DataRequest => "orders_requested",
        Topic::Redact => "orders_to_redact",
        Topic::ShopRedact => return Err(NotEntered::Shop),
    };
    let shop = shop.trim().to_ascii_lowercase();
    let mut customer = Map::new();
    if let Some(id) = asked.customer {
        customer.insert("id".to_owned(), json!(id));
    }
    if let Some(email) = asked.email {
        if !email.contains('@') {
            return Err(NotEntered::Unreadable);
        }
        customer.insert("email".to_owned(), json!(email));
    }
    let mut body = Map::new();
    body.insert("shop_domain".to_owned(), json!(shop));
    body.insert("customer".to_owned(), Value::Object(customer));
    body.insert(orders.to_owned(), json!([]));
    let body = Value::Object(body).to_string();
    let request = Request::read(topic, body.as_bytes()).map_err(|_| NotEntered::Unreadable)?;
    if request.is_about_nobody() {
        return Err(NotEntered::Nobody);
    }
    let (id, key) = (clock.id(), format!("by-hand:{}", asked.key));
    let kind = Kind::Privacy(topic);
    let (source, queue) = (kind.row().source, kind.queue());
    let bus = bus.filter(|bus| bus.is_up());
    let job = NewJob {
        id,
        queue,
        kind: kind.to_string(),
        source,
        shop: Some(shop.clone()),
        external_id: Some(key.clone()),
        object_id: None,
        subject: request.person.id.map(|id| id.to_string()),
        api_version: None,
        body: Bytes::from(body),
        state: State::Ready,
        run_at: by.now,
        notified_at: bus.map(|_| by.now),
        deadline_at: Some(by.now.plus(PERIOD)),
        trace: None,
        traceparent: None,
        created_at: by.now,
    };
    let mut tx = db.begin().await?;
    let claim = Claim {
        id: DeliveryId::new(source, Some(&shop), &key),
        job: id,
        body: None,
    };
    let ids = webhook_ids::remember(&mut tx, &[claim], by.now, remembered).await?;
    if !ids.fresh.contains(&id) {
        tx.rollback().await?;
        let first = ids.known.get(&claim.id);
        return Ok((first.map_or(id, |first| first.job), false));
    }
    jobs::insert(&mut tx, &[&job]).await?;
    privacy_requests::open(&mut tx, by.keys, by.actor, &[&job]).await?;
    tx.commit().await?;
    if let Some(bus) = bus {
        notify_of(db, bus, queue, kind.into_str(), &[id]).await?;
    }
    Ok((id, true))
}
