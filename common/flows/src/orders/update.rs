//! One order while a message is worked on: what was known before, and what is known after.

use std::collections::BTreeMap;

use domain::job::JobId;
use domain::order::OrderKey;
use domain::order::outcome::{FulfillmentState, Request};
use domain::order::record::Record;
use domain::order::settlement::{Cycle, Payments, Settlement};
use domain::time::Timestamp;
use store::orders::records;
use store::payments;
use store::sql::Tx;

use super::{Incoming, TrackingCode, TrackingCodes, payment_reference};
use crate::Result;

pub(super) struct OrderUpdate {
    pub key: OrderKey,
    pub before: Option<Record>,
    pub after: Record,
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
    pub fn new(key: OrderKey, before: Option<Record>, after: Record) -> Self {
        let was = before.as_ref().map(Record::fulfillment_state);
        OrderUpdate {
            key,
            was: was.unwrap_or(FulfillmentState::Initiated),
            before,
            after,
            tracking: None,
            payments: Payments::default(),
            cycles: BTreeMap::new(),
            placeholder: None,
            request: None,
            provider_job: None,
            is_settled_anew: false,
        }
    }

    /// The agreement that the order claimed before and claims no more.
    pub fn agreement_left(&self) -> Option<String> {
        let claimed = payment_reference(&self.key, self.before.as_ref()?);
        (claimed != self.payment_reference()).then_some(claimed)
    }

    /// The reference by which the order's payments are found.
    pub fn payment_reference(&self) -> String {
        payment_reference(&self.key, &self.after)
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
        .filter(|(key, record)| inserted.contains(*key) && locks_agreement(record))
        .map(|(key, record)| payment_reference(key, record))
        .collect();
    payments::lock_agreements(tx, agreements).await?;
    let known: Vec<&OrderKey> = incoming
        .keys()
        .filter(|key| !inserted.contains(*key))
        .collect();
    let mut locked = records::load(tx, &known).await?;
    let mut updates = Vec::with_capacity(incoming.len());
    let mut newly_claimed = Vec::new();
    for (key, record) in incoming {
        let before = locked.remove(&key);
        let after = match &before {
            None => record,
            Some(before) => {
                let mut after = before.clone();
                after.merge(record);
                let agreement = payment_reference(&key, &after);
                if locks_agreement(&after) && agreement != payment_reference(&key, before) {
                    newly_claimed.push(agreement);
                }
                after
            }
        };
        let is_news = before.as_ref() != Some(&after);
        if is_news {
            let tracking = codes.remove(&key);
            let mut update = OrderUpdate::new(key, before, after);
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
