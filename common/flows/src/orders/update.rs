//! One order while a message is worked on: what was known before, and what is known after.

use std::collections::BTreeMap;

use domain::event::LastEvent;
use domain::job::JobId;
use domain::order::OrderKey;
use domain::order::outcome::{FulfillmentState, Request};
use domain::order::record::Record;
use domain::order::settlement::{Cycle, Payments, Settlement};
use domain::time::Timestamp;
use store::orders::records::{self, OrderEntry};
use store::payments;
use store::sql::Tx;

use super::{Incoming, TrackingCode, TrackingCodes, payment_reference};
use crate::Result;

pub(super) struct OrderUpdate {
    pub key: OrderKey,
    pub before: Option<OrderEntry>,
    /// Its row reserves times for the events that follow from this message.
    pub after: OrderEntry,
    /// The newest event so far.
    pub last_event: LastEvent,
    pub tracking: Option<TrackingCode>,
    /// The payments of the order's agreement, if no other order claims it.
    pub payments: Payments,
    /// What these payments come to for each further cycle of the agreement.
    pub cycles: BTreeMap<Cycle, Settlement>,
    /// The order that a checkout session made of the same agreement, whose place this order takes.
    pub placeholder: Option<OrderKey>,
    /// How far the fulfilment was before: that of the placeholder, if this order takes its place.
    pub was: FulfillmentState,
    /// What is requested of the order now.
    pub request: Option<Request>,
    /// The job that asks the storefront to fulfil what is requested now, if one does.
    pub provider_job: Option<JobId>,
    /// Whether its payments changed the order after its row was written.
    pub is_settled_anew: bool,
}

impl OrderUpdate {
    pub fn new(
        key: OrderKey,
        before: Option<OrderEntry>,
        after: OrderEntry,
        last_event: LastEvent,
    ) -> Self {
        let was = before.as_ref().map(|it| it.record.fulfillment_state());
        OrderUpdate {
            key,
            was: was.unwrap_or(FulfillmentState::Initiated),
            before,
            after,
            last_event,
            tracking: None,
            payments: Payments::default(),
            cycles: BTreeMap::new(),
            placeholder: None,
            request: None,
            provider_job: None,
            is_settled_anew: false,
        }
    }

    pub fn record_before(&self) -> Option<&Record> {
        self.before.as_ref().map(|before| &before.record)
    }

    /// The agreement that the order claimed before and claims no more.
    pub fn agreement_left(&self) -> Option<String> {
        let claimed = payment_reference(&self.key, self.record_before()?);
        (claimed != self.payment_reference()).then_some(claimed)
    }

    /// The reference by which the order's payments are found.
    pub fn payment_reference(&self) -> String {
        payment_reference(&self.key, &self.after.record)
    }
}

/// Inserts the orders that are new, locks those that were known, and merges the records. Leaves out
/// orders of which the message says nothing new.
pub(super) async fn load_updates(
    tx: &mut Tx,
    incoming: Incoming,
    mut codes: TrackingCodes,
    now: Timestamp,
) -> Result<Vec<OrderUpdate>> {
    let inserted = records::insert_new(tx, &incoming, now).await?;
    // A payment that comes at the same time cannot see an order that is being inserted. Both lock
    // the agreement, so the second of them sees the first.
    let agreements: Vec<String> = incoming
        .iter()
        .filter(|(key, entry)| inserted.contains(*key) && locks_agreement(&entry.record))
        .map(|(key, entry)| payment_reference(key, &entry.record))
        .collect();
    payments::lock_agreements(tx, agreements).await?;
    let known: Vec<&OrderKey> = incoming
        .keys()
        .filter(|key| !inserted.contains(*key))
        .collect();
    let mut locked = records::load(tx, &known).await?;
    let mut updates = Vec::with_capacity(incoming.len());
    let mut newly_claimed = Vec::new();
    for (key, entry) in incoming {
        let before = locked.remove(&key);
        let mut last_event = LastEvent::before(now);
        let after = match &before {
            None => entry,
            Some(before) => {
                let mut after = before.clone();
                after.record.merge(entry.record);
                last_event = last_event.max(before.events_at);
                let agreement = payment_reference(&key, &after.record);
                if locks_agreement(&after.record)
                    && agreement != payment_reference(&key, &before.record)
                {
                    newly_claimed.push(agreement);
                }
                after
            }
        };
        let is_news = before.as_ref() != Some(&after);
        if is_news {
            let tracking = codes.remove(&key);
            let after = OrderEntry {
                events_at: last_event.reserve(),
                ..after
            };
            let mut update = OrderUpdate::new(key, before, after, last_event);
            update.tracking = tracking;
            updates.push(update);
        }
    }
    // Nor can a payment see that a known order claims its agreement from now on. Only whoever has locked
    // an order knows which agreement it claims anew, so these locks alone come after those of known orders.
    // Another transaction that has such an agreement may wait for one of these orders. Then PostgreSQL
    // aborts one of the two, and its message is run again (`sql::is_outage`); SQLite has one writer.
    payments::lock_agreements(tx, newly_claimed).await?;
    Ok(updates)
}

/// Whether an order locks its agreement, so that the second of an order and its payment sees the
/// first. Most orders claim no more than their own id, and they do not lock it: if a payment that
/// names this id comes, it looks for the order once more a minute later (`Internal::LinkPayment`).
fn locks_agreement(record: &Record) -> bool {
    record.cancelled.is_some() || record.agreement.value.is_some()
}
