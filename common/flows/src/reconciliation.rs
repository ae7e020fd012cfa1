//! What a provider lists as changed is compared with what is known, and what never came becomes a job as if it had come.
//! From there on everything is as with a webhook: the merge, the limits of a record, tombstones and events.
//!
//! An order is known if the same or a later version of it is, or if a delivery waits that brings one. An event is known by
//! its id among all that came about its object, so a webhook that comes after all is a duplicate of what was found. An
//! order that was found has an id made of its version, so of two processes that find it one makes its job.

use std::collections::BTreeMap;

use bytes::Bytes;
use config::connection::{PaymentConnection, StorefrontConnection};
use domain::job::{Kind, Source};
use domain::order::record::{Record, Version};
use domain::order::{Order, OrderKey, Topic};
use domain::reconciliation::{Cause, age};
use domain::time::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use store::jobs::{self, NewJob};
use store::reconciliations::{self, Reconciled};
use store::sql::{self, Tx};
use store::webhook_ids::{self, Claim, DeliveryId};

use crate::Context;
use crate::deliveries::{self, LONGEST_ID, Unreadable, body, is_topic, is_visible};

/// What a provider lists.
pub struct Listed {
    job: NewJob,
    /// When it changed there. None when that cannot be read.
    changed_at: Option<Timestamp>,
    /// The order and its version. None for an event, and for an order that cannot be read.
    order: Option<(OrderKey, Version)>,
}

impl Listed {
    /// Whether it says that it changed after this time.
    pub fn is_after(&self, until: Timestamp) -> bool {
        self.changed_at.is_some_and(|at| at > until)
    }
}

/// An order of a storefront's API.
pub fn order(
    context: &Context<'_>,
    connection: &StorefrontConnection,
    shop: &str,
    order: &RawValue,
) -> Result<Listed, Unreadable> {
    let text = order.get().as_bytes();
    let read = body::listed(connection.profile, Bytes::copy_from_slice(text))?;
    let id = read.object_id.clone().ok_or(Unreadable::Envelope)?;
    let now = context.clock.now();
    let version = version(&read.body, now);
    let key = id.parse().ok().map(|id| (shop.to_owned(), id));
    let order = key.zip(version);
    let unread = || hex::encode(&Sha256::digest(text)[..12]);
    let of_version = version.map_or_else(unread, |it| format!("{}.{}", it.at, it.tie >> 32));
    let kind = Topic::Updated.into_str().to_owned();
    let job = NewJob {
        shop: Some(shop.to_owned()),
        external_id: Some(format!("reconciled/{id}/{of_version}")),
        object_id: read.object_id,
        subject: read.subject,
        connection: deliveries::named(&connection.name),
        ..deliveries::job(context.clock.id(), now, Source::Storefront, kind, read.body)
    };
    Ok(Listed {
        changed_at: version.map(|it| Timestamp(it.at)),
        job,
        order,
    })
}

/// The version that a body is of. None when it cannot be read, or has no time.
fn version(body: &[u8], now: Timestamp) -> Option<Version> {
    let order = Order::read(body).ok()?;
    let version = Record::of(order, None, body, now.0).version;
    (version.at > 0).then_some(version)
}

/// An event of a payment provider's API. None: nothing would follow from it.
pub fn event(
    context: &Context<'_>,
    connection: &PaymentConnection,
    event: &RawValue,
) -> Result<Option<Listed>, Unreadable> {
    let text = of_account(event.get(), connection.account.as_deref());
    let read = body::payment(&text)?;
    let (Some(id), Some(kind)) = (read.id.clone(), read.kind.clone()) else {
        return Err(Unreadable::Envelope);
    };
    if !is_visible(&id, LONGEST_ID) || !is_topic(&kind) {
        return Err(Unreadable::Envelope);
    }
    if Kind::of(Source::Payment, &kind).is_none() {
        return Ok(None);
    }
    let now = context.clock.now();
    let changed_at = read.created.map(Timestamp::from_unix_seconds);
    let new = deliveries::job(context.clock.id(), now, Source::Payment, kind, text);
    let made = deliveries::event(connection, &read, id, new);
    Ok(made.not_understood.is_none().then_some(Listed {
        job: made.job,
        changed_at,
        order: None,
    }))
}

/// The event with the account that it is of. An API that is asked for the events of one account need not name it.
fn of_account(event: &str, account: Option<&str>) -> Bytes {
    if let Some(account) = account
        && let Ok(Value::Object(mut event)) = serde_json::from_str(event)
        && !["account", "context"]
            .iter()
            .any(|name| event.get(*name).is_some_and(Value::is_string))
    {
        event.insert("account".to_owned(), account.into());
        return Bytes::from(Value::Object(event).to_string());
    }
    Bytes::copy_from_slice(event.as_bytes())
}

/// Stores the jobs of what is not known, and returns what they are. `cause` says why something that changed at a time
/// probably never came.
pub async fn store(
    context: &Context<'_>,
    tx: &mut Tx,
    connection: &str,
    listed: Vec<Listed>,
    cause: impl Fn(Timestamp) -> Cause,
) -> sql::Result<Vec<Reconciled>> {
    let mut missing = without_known(context, tx, listed).await?;
    let sender = |job: &NewJob| job.shop.clone().or_else(|| job.connection.clone());
    let id = |it: &Listed| {
        let id = it.job.external_id.as_deref().unwrap_or_default();
        DeliveryId::new(it.job.source, sender(&it.job).as_deref(), id)
    };
    missing.sort_by_key(id);
    missing.dedup_by_key(|it| id(it));
    let claims: Vec<Claim> = missing
        .iter()
        .map(|it| Claim {
            id: id(it),
            job: it.job.id,
            body: None,
        })
        .collect();
    let now = context.clock.now();
    let ids = webhook_ids::remember(tx, &claims, now, context.config.dedupe_ttl).await?;
    missing.retain(|it| ids.fresh.contains(&it.job.id));
    let new: Vec<&NewJob> = missing.iter().map(|it| &it.job).collect();
    jobs::insert(tx, &new).await?;
    let found: Vec<Reconciled> = missing
        .into_iter()
        .map(|it| {
            let changed_at = it.changed_at.unwrap_or(now);
            Reconciled {
                job_id: it.job.id,
                source: it.job.source.into_str().to_owned(),
                connection: connection.to_owned(),
                shop: it.job.shop.unwrap_or_default(),
                kind: it.job.kind,
                changed_at,
                found_at: now,
                cause: cause(changed_at),
            }
        })
        .collect();
    reconciliations::note(tx, &found).await?;
    Ok(found)
}

/// Leaves out the events that came, and the orders of which a version is known or waits that says as much.
async fn without_known(
    context: &Context<'_>,
    tx: &mut Tx,
    mut listed: Vec<Listed>,
) -> sql::Result<Vec<Listed>> {
    let keys = |listed: &[Listed]| -> Vec<OrderKey> {
        let keys = listed.iter().filter_map(|it| it.order.as_ref());
        keys.map(|(key, _)| key.clone()).collect()
    };
    let objects = listed.iter().filter(|it| it.job.source == Source::Payment);
    let objects = objects.filter_map(|it| it.job.object_id.clone()).collect();
    let came = reconciliations::events(tx, objects).await?;
    listed.retain(|it| {
        let id = it.job.external_id.as_ref();
        it.job.source != Source::Payment || id.is_none_or(|id| !came.contains(id))
    });
    let known = reconciliations::versions(tx, keys(&listed)).await?;
    listed.retain(|it| is_news(it, &known));
    let Some(shop) = listed.iter().find_map(|it| it.job.shop.clone()) else {
        return Ok(listed);
    };
    let ids = keys(&listed).into_iter().map(|(_, id)| id.to_string());
    let mut waiting: BTreeMap<OrderKey, Version> = BTreeMap::new();
    for body in reconciliations::waiting(tx, &shop, ids.collect()).await? {
        let Some(version) = version(&body, context.clock.now()) else {
            continue;
        };
        if let Some(id) = Order::read(&body).ok().map(|order| order.id) {
            let newest = waiting.entry((shop.clone(), id)).or_default();
            *newest = (*newest).max(version);
        }
    }
    listed.retain(|it| is_news(it, &waiting));
    // A delivery that waited when the orders were read, and was done when it was looked for, is in its order by now.
    let known = reconciliations::versions(tx, keys(&listed)).await?;
    listed.retain(|it| is_news(it, &known));
    Ok(listed)
}

fn is_news(it: &Listed, known: &BTreeMap<OrderKey, Version>) -> bool {
    let Some((key, version)) = &it.order else {
        return true;
    };
    known.get(key).is_none_or(|known| version.is_past(*known))
}

/// Counts what was found, after it is committed.
pub fn count(found: &[Reconciled], connection_label: &str) {
    for it in found {
        metrics::counter!(
            "waybill_reconciled_deliveries_total",
            "source" => it.source.clone(), "connection" => connection_label.to_owned(), "kind" => it.kind.clone(),
            "age" => age(it.changed_at, it.found_at), "cause" => it.cause.into_str()
        )
        .increment(1);
    }
}
