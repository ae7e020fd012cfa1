//! Everything that writes an order.
//!
//! An order is the merge of the records of its deliveries (`domain::order::record`), and what
//! happened is computed from the difference between what was known before and what is known after
//! (`domain::order::outcome`), so each thing happens once. Whatever brings news of an order ends in
//! [`absorb`] or [`finish`]: a delivery ([`apply`]), a checkout session, a payment, the
//! storefront's answer to a question, or the end of a wait.
//!
//! Rows are locked in this sequence, and those of one table in the sequence of their keys: customers,
//! orders that are inserted, agreements, orders that were known. Nobody who holds a
//! later lock waits for an earlier one.

mod bodies;
mod deliveries;
mod events;
mod give_back;
mod links;
mod request;
mod settle;
mod update;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use domain::event::OrderEvent;
use domain::job::Internal;
use domain::order::OrderKey;
use domain::order::record::{Cancellation, Record};
use domain::time::Timestamp;
use serde_json::json;
use store::orders::records;
use store::sql::{self, Tx};
use store::tracking_numbers;

pub use deliveries::{Task, apply, prepare};
pub use give_back::{GivenBack, give_back};
pub use links::new_link;

use crate::Result;
use crate::outbox::Outbox;
use bodies::News;
use update::{OrderUpdate, load_updates};

/// Orders that a message brings news of, by their keys.
type Incoming = BTreeMap<OrderKey, News>;

/// The reference by which an order's payments are found: the agreement that the order names, or
/// else the order's own id.
fn payment_reference(key: &OrderKey, record: &Record) -> String {
    let named = record.named_agreement();
    named.map_or_else(|| key.1.to_string(), Cow::into_owned)
}

/// Merges orders with what is known of them, and writes what follows.
async fn absorb(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: Incoming,
    is_shop_locked: bool,
) -> Result<()> {
    let mut updates = load_updates(outbox, tx, incoming, is_shop_locked).await?;
    // The next steps read which agreements orders claim.
    save(tx, &mut updates, OrderUpdate::claims_anew, outbox.now).await?;
    // When two orders claim an agreement, one may have left it to the other, which nobody settles here.
    let left: BTreeSet<String> = updates
        .iter()
        .filter_map(OrderUpdate::agreement_left)
        .collect();
    for agreement in left {
        let body = json!({ "pact_id": agreement });
        outbox.job_of(Internal::LinkPayment, &agreement, &body, outbox.now);
    }
    finish(outbox, tx, updates).await
}

/// Settles orders whose rows are there, and writes everything that follows from the difference
/// to what was known before.
async fn finish(outbox: &mut Outbox<'_>, tx: &mut Tx, mut updates: Vec<OrderUpdate>) -> Result<()> {
    if updates.is_empty() {
        return Ok(());
    }
    settle::settle(tx, &mut updates).await?;
    settle::supersede(outbox, tx, &mut updates).await?;
    for update in &mut updates {
        request::decide(outbox, update);
        request::move_cycles(outbox, update);
    }
    save(tx, &mut updates, |_| true, outbox.now).await?;
    write(outbox, tx, &mut updates).await?;
    outbox.causation.follow([]);
    Ok(())
}

/// Writes what follows from orders whose own rows are written.
async fn write(outbox: &mut Outbox<'_>, tx: &mut Tx, updates: &mut [OrderUpdate]) -> Result<()> {
    let numbers = updates.iter().map(|update| {
        let before = update.before.as_ref();
        let before = before.map(Record::tracking_numbers).unwrap_or_default();
        (&update.key, before, update.after.tracking_numbers())
    });
    tracking_numbers::replace(tx, &numbers.collect::<Vec<_>>()).await?;
    for update in updates {
        events::follow(outbox, tx, update).await?;
    }
    Ok(())
}

/// Saves those of the orders whose rows are not what is known by now.
async fn save(
    tx: &mut Tx,
    updates: &mut [OrderUpdate],
    is_due: impl Fn(&OrderUpdate) -> bool,
    now: Timestamp,
) -> Result<()> {
    let unsaved = updates.iter_mut();
    let unsaved: Vec<_> = unsaved.filter(|it| !it.is_saved && is_due(it)).collect();
    let rows = unsaved.iter().map(|update| (&update.key, &update.after));
    records::save(tx, rows, now).await?;
    for update in unsaved {
        update.is_saved = true;
    }
    Ok(())
}

/// Cancels an order from which nothing else follows: nothing was paid or shipped, or another order
/// has taken over its payments and its fulfilment. The event says why it is closed.
async fn close(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    mut record: Record,
    reason: &str,
    event: OrderEvent,
) -> sql::Result<()> {
    record.cancelled = Some(Cancellation {
        at: outbox.now.0,
        reason: Some(reason.to_owned()),
    });
    record.waits_until = None;
    let state = record.fulfillment_state();
    record.own.fulfillment.reach(state, outbox.now.0);
    outbox.order_event(key, event);
    records::save(tx, [(key, &record)], outbox.now).await
}

/// Inserts the order of a checkout whose agreement was made a moment ago. So there is neither a
/// payment nor another order of that agreement, and none is looked for.
pub(crate) async fn insert_of_checkout(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: OrderKey,
    record: Record,
) -> Result<()> {
    let mut incoming = Incoming::new();
    incoming.entry(key).or_default().add(record);
    let mut updates = load_updates(outbox, tx, incoming, false).await?;
    write(outbox, tx, &mut updates).await
}

/// Cancels the order of a checkout that nobody can pay for. Nothing goes back into stock, because
/// nothing was sold.
pub(crate) async fn call_off(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    reason: &str,
) -> Result<()> {
    let Some(record) = records::load(tx, vec![key.clone()]).await?.remove(key) else {
        return Ok(());
    };
    let cancelled = OrderEvent::Cancelled {
        cancelled_at: outbox.now,
        reason: Some(reason.to_owned()),
    };
    Ok(close(outbox, tx, key, record, reason, cancelled).await?)
}

/// Makes or completes the orders of checkout sessions. The caller has locked their agreements.
pub(crate) async fn of_sessions(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    records: Vec<(OrderKey, Record)>,
) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let mut incoming = Incoming::new();
    for (key, record) in records {
        incoming.entry(key).or_default().add(record);
    }
    absorb(outbox, tx, incoming, false).await
}

/// Merges an order with what the storefront has confirmed of it. An order that was erased with its
/// shop meanwhile stays erased.
pub async fn confirmed(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: OrderKey,
    record: Record,
) -> Result<()> {
    if records::load(tx, vec![key.clone()]).await?.is_empty() {
        return Ok(());
    }
    let mut incoming = Incoming::new();
    incoming.entry(key).or_default().add(record);
    absorb(outbox, tx, incoming, false).await
}

/// Settles orders again whose payments have changed.
pub(crate) async fn settle_again(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    keys: &BTreeSet<OrderKey>,
) -> Result<()> {
    let keys = keys.iter().cloned().collect();
    let orders = records::load(tx, keys).await?.into_iter();
    let updates = orders.map(|(key, before)| OrderUpdate::new(key, Some(before.clone()), before));
    finish(outbox, tx, updates.collect()).await
}

/// Ends the wait of orders that checkout sessions made. The storefront's own orders did not come,
/// so what is paid is requested now. The caller has locked their agreements.
pub(crate) async fn end_wait(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    keys: &BTreeSet<OrderKey>,
) -> Result<()> {
    let keys = keys.iter().cloned().collect();
    let orders = records::load(tx, keys).await?.into_iter();
    let waiting = orders.filter(|(_, record)| record.waits_until.is_some());
    let updates = waiting.map(|(key, before)| {
        let mut after = before.clone();
        after.waits_until = None;
        let mut update = OrderUpdate::new(key, Some(before), after);
        update.is_saved = false;
        update
    });
    finish(outbox, tx, updates.collect()).await
}
