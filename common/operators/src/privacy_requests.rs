//! A privacy request that an operator enters by hand, because a customer wrote to the merchant. It is stored
//! like one that the storefront passes on: a job and its request in one transaction. The audit says who
//! entered it.

use std::time::Duration;

use bus::Bus;
use domain::job::{JobId, Kind};
use domain::privacy::{Held, PERIOD, Request, Topic};
use platform::clock::Clock;
use serde_json::{Map, Value, json};
use store::audit::By;
use store::connections;
use store::customers;
use store::jobs::{self, NewJob};
use store::people::{self, Sought};
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
    /// Enter it although nothing is known of this person, who may be written wrong.
    pub is_sure: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum NotEntered {
    #[error("a request by hand is a customer's; only the storefront has a shop erased")]
    Shop,
    #[error("name the customer by their id or their e-mail address")]
    Nobody,
    #[error("this is no shop's domain, no customer's id or no e-mail address")]
    Unreadable,
    #[error("nothing is known of this customer of {0}{1}: see whether both are written right")]
    NothingKnown(String, &'static str),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Where a request by hand is entered.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub db: &'a Db,
    /// Without a bus the workers' sweep finds the request.
    pub bus: Option<&'a Bus>,
    /// `STOREFRONT_SHOPS`. Empty: any shop.
    pub shops: &'a [String],
    /// How long its key is remembered.
    pub remembered: Duration,
}

/// Enters the request, and returns its id and whether it is new.
pub async fn enter(
    place: Place<'_>,
    clock: &Clock,
    by: By<'_>,
    asked: ByHand<'_>,
) -> Result<(JobId, bool), NotEntered> {
    let db = place.db;
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
    if !asked.is_sure && !is_known(db, &request).await? {
        let is_listed = place.shops.is_empty() || place.shops.contains(&shop);
        let is_foreign = !is_listed && !connections::has_shop(place.db, &shop).await?;
        let foreign = if is_foreign {
            ", which is not one of STOREFRONT_SHOPS"
        } else {
            ""
        };
        return Err(NotEntered::NothingKnown(shop, foreign));
    }
    let (id, key) = (clock.id(), format!("by-hand:{}", asked.key));
    let kind = Kind::Privacy(topic);
    let (source, queue) = (kind.row().source, kind.queue());
    let bus = place.bus.filter(|bus| bus.is_up());
    let job = NewJob {
        shop: Some(shop.clone()),
        external_id: Some(key.clone()),
        subject: request.person.id.map(|id| id.to_string()),
        notified_at: bus.map(|_| by.now),
        deadline_at: Some(by.now.plus(PERIOD)),
        ..NewJob::of(kind, id, body, by.now)
    };
    let mut tx = db.begin().await?;
    let claim = Claim {
        id: DeliveryId::new(source, Some(&shop), &key),
        job: id,
        body: None,
    };
    let ids = webhook_ids::remember(&mut tx, &[claim], by.now, place.remembered).await?;
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

/// Whether there are rows of the person whom a request means, or rows that may be theirs.
async fn is_known(db: &Db, request: &Request) -> sql::Result<bool> {
    if let Some(id) = request.person.id
        && customers::find(db, &request.shop, id).await?.is_some()
    {
        return Ok(true);
    }
    let found = people::find(db, &Sought::of(request)).await?;
    let are_none = found.orders.is_empty()
        && found.payments.is_empty()
        && found.sessions.is_empty()
        && found.subscriptions.is_empty();
    Ok(!are_none || found.held != Held::default())
}
