//! Bodies that leave a status to their topic. Nobody signs the topic, so it counts only if the same
//! body was not accepted under another topic before. So nobody who has captured an `orders/create`
//! can make a cancellation of it.

use std::collections::{BTreeMap, HashSet};

use domain::job::{Job, JobId};
use domain::order::OrderKey;
use domain::order::record::Record;
use domain::order::{Order, Topic};
use domain::privacy::erased_body;
use domain::time::Timestamp;
use sha2::{Digest, Sha256};
use store::order_bodies::{self, BodyKey};
use store::sql::{self, Tx};

/// A body that lacks the key of a status, so that its topic can say it.
pub(super) struct CutBody {
    /// The hash of what may stay of the body after an erasure. So it is the same before and after
    /// one, and is about nobody.
    hash: String,
    /// What the body says alone. Set only if its topic says more.
    alone: Option<Box<Record>>,
}

impl CutBody {
    pub fn read(order: &Order, job: &Job, topic: Topic) -> Option<CutBody> {
        if !order.present_fields.leaves_a_status() {
            return None;
        }
        let kept = erased_body(job.kind.into_str(), &job.body);
        let hash = Sha256::digest(kept.as_deref().unwrap_or(&job.body));
        let alone = order
            .present_fields
            .leaves_to(topic)
            .then(|| Record::of(order.clone(), None, &job.body, job.created_at.0));
        Some(CutBody {
            hash: hex::encode(hash),
            alone: alone.map(Box::new),
        })
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What the body says without its topic, if the topic says more. Nothing else counts of a
    /// repetition, and of any delivery until the storefront has confirmed the topic.
    pub fn alone(&self) -> Option<&Record> {
        self.alone.as_deref()
    }
}

/// Remembers under which topic each body was accepted first. Returns the jobs whose topic does not
/// count, because their body was accepted under another one first.
pub(super) async fn repetitions(
    tx: &mut Tx,
    mut deliveries: Vec<(OrderKey, &Job, &CutBody)>,
    now: Timestamp,
) -> sql::Result<HashSet<JobId>> {
    if deliveries.is_empty() {
        return Ok(HashSet::new());
    }
    // The ids of jobs sort in the sequence in which their deliveries were accepted.
    deliveries.sort_unstable_by_key(|(_, job, _)| job.id);
    let mut bodies: BTreeMap<BodyKey, &str> = BTreeMap::new();
    for (key, job, cut) in &deliveries {
        let body = (key.clone(), cut.hash.clone());
        bodies.entry(body).or_insert(job.kind.into_str());
    }
    let first = order_bodies::remember(tx, &bodies, now).await?;
    let mut repeated = HashSet::new();
    let mut repeats: BTreeMap<&BodyKey, i64> = BTreeMap::new();
    for (key, job, cut) in deliveries {
        let body = (key, cut.hash.clone());
        let is_first = first
            .get(&body)
            .is_none_or(|topic| *topic == job.kind.into_str());
        if is_first || cut.alone.is_none() {
            continue;
        }
        repeated.insert(job.id);
        if let Some((body, _)) = bodies.get_key_value(&body) {
            *repeats.entry(body).or_default() += 1;
        }
        metrics::counter!("waybill_order_bodies_repeated_total", "topic" => job.kind.into_str())
            .increment(1);
        tracing::warn!(
            job = %job.id,
            order_id = body.0.1,
            topic = %job.kind,
            "a body came again under another topic, which does not count; see `waybill orders repeated`"
        );
    }
    order_bodies::repeat(tx, &repeats).await?;
    Ok(repeated)
}
