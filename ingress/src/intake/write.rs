//! What the ids of a batch say of its deliveries, and how those are written that are not plain.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use domain::job::{JobId, Queue, State};
use domain::privacy::Keys;
use platform::clock::Clock;
use store::audit;
use store::jobs::{self, NewJob};
use store::privacy_requests;
use store::sql;
use store::webhook_ids::{self, BodyHash, Claim, DeliveryId, First, Remembered};

use super::{Verdict, Waiting};

/// Why a delivery waits for an operator.
const OTHER_BODY: &str = "another delivery of its shop came before with its id and another body, so the provider was \
                          answered as to a duplicate; if this one is the provider's, requeue it";

/// The sorted ids of deliveries, each with the one that brought it first.
pub(super) type Firsts = BTreeMap<DeliveryId, First>;

pub(super) fn first_of_each_id<'a>(deliveries: impl Iterator<Item = &'a Waiting>) -> Firsts {
    let mut firsts = Firsts::new();
    for Waiting {
        id, job, body_hash, ..
    } in deliveries
    {
        if let Some(id) = id {
            let (job, body) = (job.id, *body_hash);
            firsts.entry(*id).or_insert(First { job, body });
        }
    }
    firsts
}

pub(super) fn id_of(job: &NewJob) -> Option<DeliveryId> {
    let id = job.external_id.as_deref()?;
    // A shop is the same one while it moves from one connection to another.
    let sender = job.shop.as_deref().or(job.connection.as_deref());
    Some(DeliveryId::new(job.source, sender, id))
}

pub(super) fn claim(id: DeliveryId, job: JobId, body: Option<BodyHash>) -> Claim {
    Claim { id, job, body }
}

fn claims(first: &Firsts) -> Vec<Claim> {
    let of_first = |(id, first): (&DeliveryId, &First)| claim(*id, first.job, first.body);
    first.iter().map(of_first).collect()
}

/// The verdict on a delivery whose id was stored or is known. `None`: it is still to be written, because it has no id,
/// nothing is known of its id, or it has another body than the first one with its id.
pub(super) fn verdict_by_id(
    waiting: &Waiting,
    first: &Firsts,
    ids: &Remembered,
) -> Option<Verdict> {
    if ids.fresh.contains(&waiting.job.id) {
        return Some(Verdict::Accepted);
    }
    let id = waiting.id?;
    let in_batch = || first.get(&id).filter(|it| ids.fresh.contains(&it.job));
    let known = ids.known.get(&id).or_else(in_batch)?;
    (!is_of_another_body(waiting, *known)).then_some(Verdict::Duplicate)
}

/// Writes deliveries, and returns the jobs of those that are new, and of those that are kept for an operator.
pub(super) async fn write(
    tx: &mut sql::Tx,
    batch: &[Waiting],
    ttl: Duration,
    clock: &Clock,
    keys: &Keys,
) -> sql::Result<(HashSet<JobId>, HashSet<JobId>)> {
    let first = first_of_each_id(batch.iter());
    let ids = webhook_ids::remember(tx, &claims(&first), clock.now(), ttl).await?;
    let others = of_another_body(batch, &first, &ids);
    let held = remember_held(tx, others, clock, ttl).await?;
    let is_new = |it: &&Waiting| it.id.is_none() || ids.fresh.contains(&it.job.id);
    let new = batch.iter().filter(is_new).map(|waiting| &waiting.job);
    let new: Vec<&NewJob> = new.collect();
    let kept: Vec<&NewJob> = new.iter().copied().chain(&held).collect();
    jobs::insert(tx, &kept).await?;
    for waiting in batch {
        if let Some(note) = waiting.note {
            jobs::note(tx, waiting.job.id, note).await?;
        }
    }
    for job in &held {
        jobs::note(tx, job.id, OTHER_BODY).await?;
    }
    let ids_of = |jobs: &[&NewJob]| jobs.iter().map(|job| job.id).collect();
    let written = (ids_of(&new), ids_of(&held.iter().collect::<Vec<_>>()));
    let requests = kept.into_iter().filter(|job| job.queue == Queue::Privacy);
    privacy_requests::open(tx, keys, audit::STOREFRONT, &requests.collect::<Vec<_>>()).await?;
    Ok(written)
}

/// Whether a delivery has another body than the first one with its id, and would have an effect. One of which nothing is made
/// has none, whatever its body says.
fn is_of_another_body(waiting: &Waiting, first: First) -> bool {
    let bodies = waiting.body_hash.zip(first.body);
    waiting.job.state == State::Ready && bodies.is_some_and(|(body, first)| body != first)
}

/// The deliveries whose id came before with another body, as jobs that wait for an operator. Their own ids hold the hash
/// of the body, so that each of them is kept once. The erasure of a shop keeps the time until which it is held, so
/// that it is held as well when an operator requeues it.
fn of_another_body(batch: &[Waiting], first: &Firsts, ids: &Remembered) -> Vec<NewJob> {
    let other = |waiting: &Waiting| {
        let id = waiting.id?;
        let first = ids.known.get(&id).or_else(|| first.get(&id))?;
        let (external_id, body) = (waiting.job.external_id.as_deref()?, waiting.body_hash?);
        is_of_another_body(waiting, *first).then(|| NewJob {
            external_id: Some(format!("{external_id}/{}", body.to_hex())),
            state: State::Dead,
            notified_at: None,
            ..waiting.job.clone()
        })
    };
    batch.iter().filter_map(other).collect()
}

/// Remembers the ids of such deliveries, and returns those that are not kept yet.
async fn remember_held(
    tx: &mut sql::Tx,
    mut others: Vec<NewJob>,
    clock: &Clock,
    ttl: Duration,
) -> sql::Result<Vec<NewJob>> {
    if others.is_empty() {
        return Ok(others);
    }
    let mut first = Firsts::new();
    for job in &others {
        if let Some(id) = id_of(job) {
            let (job, body) = (job.id, None);
            first.entry(id).or_insert(First { job, body });
        }
    }
    let claims = claims(&first);
    let ids = webhook_ids::remember(tx, &claims, clock.now(), ttl).await?;
    others.retain(|job| ids.fresh.contains(&job.id));
    Ok(others)
}
