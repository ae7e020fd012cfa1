//! `payment_intent.succeeded`: the captured payment is stored, and given back when the order
//! of its agreement is cancelled already.

use std::collections::BTreeSet;

use anyhow::Result;
use common::job::Job;
use common::payment::Intent;
use common::sql::Tx;
use common::store::orders;
use common::store::orders::records::{self, Key};
use common::store::payments::{self, Captured};

use super::effects::Effects;
use super::refunds;
use crate::failure::permanent;

pub const SUCCEEDED: &str = "payment_intent.succeeded";

pub struct Task {
    captured: Captured,
}

pub fn prepare(job: &Job) -> Result<Task> {
    let intent = Intent::read(&job.body).map_err(permanent)?;
    Ok(Task {
        captured: Captured {
            id: intent.id,
            pact_id: intent.pact_id,
            currency: intent.received.currency.to_string(),
            amount_minor: intent.amount.minor,
            received_minor: intent.received.minor,
        },
    })
}

/// Agreements are locked before orders, as everyone does.
pub async fn apply(effects: &mut Effects<'_>, tx: &mut Tx, tasks: &[&Task]) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let now = effects.now;
    let mut captured: Vec<&Captured> = tasks.iter().map(|task| &task.captured).collect();
    captured.sort_by(|a, b| a.id.cmp(&b.id));
    captured.dedup_by(|a, b| a.id == b.id);
    let pacts: BTreeSet<String> = captured
        .iter()
        .filter_map(|it| it.pact_id.clone())
        .collect();
    payments::lock_pacts(tx, pacts.iter().cloned()).await?;
    payments::insert(tx, &captured, now).await?;
    let mut keys: BTreeSet<Key> = BTreeSet::new();
    for pact in &pacts {
        if let [only] = orders::of_pact(tx, pact).await?.as_slice() {
            keys.insert(only.clone());
        }
    }
    let keys: Vec<&Key> = keys.iter().collect();
    for (key, mut entry) in records::load(tx, &keys).await? {
        if entry.record.cancelled.is_none() {
            continue;
        }
        let events_at = &mut entry.events_at;
        refunds::decide(effects, tx, &key, &entry.record, events_at).await?;
        records::save(tx, &[(&key, &entry)], now).await?;
    }
    Ok(())
}
