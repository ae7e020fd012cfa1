//! Bodies that leave a status to their topic. Nobody signs the topic, so it counts only with a
//! body that was not accepted under another one already: whoever has captured an
//! `orders/create` cannot make a cancellation of it.

use std::collections::{BTreeMap, HashSet};

use domain::job::{Job, JobId};
use domain::order::Order;
use domain::order::record::Record;
use domain::privacy::erased_body;
use domain::time::Timestamp;
use sha2::{Digest, Sha256};
use store::order_bodies::{self, BodyKey};
use store::orders::records::OrderKey;
use store::sql::{self, Tx};

/// A body from which the key of a status was cut.
pub struct Cut {
    /// Of what may stay of the body after an erasure, so that it is the same before and after
    /// and is about nobody.
    hash: String,
    /// What the body says alone, where its topic says more.
    alone: Option<Box<Record>>,
}

impl Cut {
    pub fn read(order: &Order, job: &Job) -> Option<Cut> {
        if !order.present_fields.leaves_a_status() {
            return None;
        }
        let kept = erased_body(&job.kind, &job.body);
        let hash = Sha256::digest(kept.as_deref().unwrap_or(&job.body));
        let alone = order.present_fields.leaves_to(&job.kind).then(|| {
            let no_topic = "";
            Record::of(order.clone(), no_topic, &job.body, job.created_at.0)
        });
        Some(Cut {
            hash: hex::encode(hash),
            alone: alone.map(Box::new),
        })
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What the body says without its topic, where that says more: all that counts of a
    /// repetition, and of any until the storefront confirms the topic.
    pub fn alone(&self) -> Option<&Record> {
        self.alone.as_deref()
    }
}

/// Remembers under which topic each body was accepted first, and returns the jobs whose topic
/// does not count, because their body had another one.
pub async fn repetitions(
    tx: &mut Tx,
    mut deliveries: Vec<(OrderKey, &Job, &Cut)>,
    now: Timestamp,
) -> sql::Result<HashSet<JobId>> {
    if deliveries.is_empty() {
        return Ok(HashSet::new());
    }
    // Ids of jobs sort as their deliveries were accepted.
    deliveries.sort_unstable_by_key(|(_, job, _)| job.id);
    let mut bodies: BTreeMap<BodyKey, &str> = BTreeMap::new();
    for (key, job, cut) in &deliveries {
        let body = (key.clone(), cut.hash.clone());
        bodies.entry(body).or_insert(&job.kind);
    }
    let first = order_bodies::remember(tx, &bodies, now).await?;
    let mut repeated = HashSet::new();
    let mut repeats: BTreeMap<&BodyKey, i64> = BTreeMap::new();
    for (key, job, cut) in deliveries {
        let body = (key, cut.hash.clone());
        let is_first = first.get(&body).is_none_or(|topic| *topic == job.kind);
        if is_first || cut.alone.is_none() {
            continue;
        }
        repeated.insert(job.id);
        if let Some((body, _)) = bodies.get_key_value(&body) {
            *repeats.entry(body).or_default() += 1;
        }
        metrics::counter!("waybill_order_bodies_repeated_total", "topic" => job.kind.clone())
            .increment(1);
        tracing::warn!(
            job = %job.id,
            order_id = body.0.1,
            topic = job.kind,
            "a body came again under another topic, which does not count; see `waybill orders repeated`"
        );
    }
    order_bodies::repeat(tx, &repeats).await?;
    Ok(repeated)
}
