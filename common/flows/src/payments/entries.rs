//! Payments and the ledger: merges what a message says with what is known, books the difference,
//! and adds the events of what has changed.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::event::Event;
use domain::payment::ledger;
use domain::payment::outcome::{Change, changes};
use domain::payment::record::Record;
use domain::time::Timestamp;
use store::aggregates::{self, Merged};
use store::ledger::{self as ledger_entries, NewEntry};
use store::payment_retries;
use store::payments::PaymentEntry;
use store::sql::Tx;

use super::events::{event_of, released};
use super::settle::Affected;
use crate::outbox::Outbox;
use crate::{Result, notifications, retries};

/// How old the report of a failure may be. The last of our own attempts comes so long after a
/// failure, so what is reported later concerns nobody any more.
const STALE: Duration = Duration::from_hours(72);

/// What the payments of a message come to.
#[derive(Default)]
struct Taken {
    /// The rows that are to be saved.
    saved: Vec<(String, PaymentEntry)>,
    entries: Vec<NewEntry>,
    /// Payments that failed a short time ago and are still owed.
    failed: Vec<(String, Record)>,
    /// Payments that were paid or canceled just now.
    ended: Vec<String>,
}

pub(super) async fn take_payments(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    mut incoming: BTreeMap<String, PaymentEntry>,
    affected: &mut Affected,
) -> Result<()> {
    if incoming.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    for entry in incoming.values_mut() {
        entry.entries = count(&ledger::postings(None, &entry.record));
    }
    let mut taken = Taken::default();
    for merged in aggregates::merge(tx, incoming, now).await? {
        taken.add(outbox, affected, merged);
    }
    let rows = taken.saved.iter().map(|(id, entry)| (id, entry));
    aggregates::save(tx, rows, now).await?;
    ledger_entries::append(tx, &taken.entries, now).await?;
    let settled = payment_retries::settled(tx, &taken.failed).await?;
    taken.failed.retain(|(id, _)| !settled.contains(id));
    retries::schedule(outbox, tx, &taken.failed).await?;
    notifications::of_failures(outbox, tx, &taken.failed).await?;
    retries::stop(outbox, tx, taken.ended).await
}

impl Taken {
    /// Adds what is new of one payment.
    fn add(
        &mut self,
        outbox: &mut Outbox<'_>,
        affected: &mut Affected,
        merged: Merged<PaymentEntry>,
    ) {
        let now = outbox.now;
        let Merged {
            key: id,
            before,
            mut after,
        } = merged;
        let before = before.as_ref();
        let mut number = before.map_or(0, |entry| entry.entries);
        let was = before.map(|entry| &entry.record);
        for posting in ledger::postings(was, &after.record) {
            number += 1;
            self.entries.push(NewEntry {
                payment_id: id.clone(),
                number,
                posting,
            });
        }
        let changes = changes(was, &after.record);
        add_events(outbox, &id, &changes, was, &after.record);
        if changes.contains(&Change::Failed) && is_recent(&after.record, now) {
            self.failed.push((id.clone(), after.record.clone()));
        }
        if is_over(&after.record) {
            if !was.is_some_and(is_over) {
                self.ended.push(id.clone());
            }
            affected.add_payment(&id, was, &after.record);
        }
        if before.is_some() {
            after.entries = number;
            self.saved.push((id, after));
        }
    }
}

/// Adds the events of a payment's changes. That its money is released is said before what goes back.
fn add_events(
    outbox: &mut Outbox<'_>,
    id: &str,
    changes: &[Change],
    was: Option<&Record>,
    after: &Record,
) {
    let (going_back, others): (Vec<Change>, Vec<Change>) = changes.iter().partition(|change| {
        use Change::{Disputed, RefundFailed, Refunded};
        matches!(
            change,
            Refunded { .. } | RefundFailed { .. } | Disputed { .. }
        )
    });
    let event = |change: &Change| event_of(*change, was, after);
    let events = others.iter().filter_map(event).chain(released(was, after));
    for event in events.chain(going_back.iter().filter_map(event)) {
        outbox.event(Event::of_payment(id, event));
    }
}

/// Whether a payment was paid or canceled.
fn is_over(record: &Record) -> bool {
    record.is_paid() || record.canceled.is_some()
}

fn is_recent(record: &Record, now: Timestamp) -> bool {
    let created = record.failure.as_ref().map(|part| part.version.created);
    created.is_some_and(|at| now.since(Timestamp::from_unix_seconds(at)) <= STALE)
}

fn count(postings: &[ledger::Posting]) -> i64 {
    i64::try_from(postings.len()).unwrap_or(i64::MAX)
}
