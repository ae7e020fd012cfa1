//! One order while a message is worked on: what was known before, and what is known after.

use std::collections::BTreeMap;

use domain::job::JobId;
use domain::order::OrderKey;
use domain::order::outcome::{FulfillmentState, Request};
use domain::order::record::Record;
use domain::order::settlement::{Cycle, Payments, Settlement};
use store::orders::{self, records};
use store::payments;
use store::sql::Tx;

use super::{Incoming, links, payment_reference, request};
use crate::Result;
use crate::outbox::Outbox;

pub(super) struct OrderUpdate {
    pub key: OrderKey,
    pub before: Option<Record>,
    pub after: Record,
    /// The payments of the order's agreement, if no other order claims it.
    pub payments: Payments,
    /// What these payments come to for each further cycle of the agreement.
    pub cycles: BTreeMap<Cycle, Settlement>,
    /// The orders that checkout sessions made of the same agreement, whose place this order takes.
    pub placeholders: Vec<OrderKey>,
    /// How far the fulfilment was before: that of the placeholder, if this order takes its place.
    pub was: FulfillmentState,
    /// What is requested of the order now.
    pub request: Option<Request>,
    /// The job that asks the storefront to fulfil what is requested now, if one does.
    pub provider_job: Option<JobId>,
    /// The further cycles whose state is new, and whether they are requested.
    pub moved: Vec<(Cycle, bool)>,
    /// Whether its row is what is known after.
    pub is_saved: bool,
}

impl OrderUpdate {
    pub fn new(key: OrderKey, before: Option<Record>, after: Record) -> Self {
        let was = before.as_ref().map(Record::fulfillment_state);
        OrderUpdate {
            key,
            was: was.unwrap_or(FulfillmentState::Initiated),
            before,
            after,
            payments: Payments::default(),
            cycles: BTreeMap::new(),
            placeholders: Vec::new(),
            request: None,
            provider_job: None,
            moved: Vec::new(),
            is_saved: true,
        }
    }

    /// The agreement that the order claimed before and claims no more.
    pub fn agreement_left(&self) -> Option<String> {
        let claimed = payment_reference(&self.key, self.before.as_ref()?);
        (claimed != self.payment_reference()).then_some(claimed)
    }

    /// Whether others would take the order for something else if its row stayed as it was.
    pub fn claims_anew(&self) -> bool {
        let is_news = |before: &Record| {
            before.named_agreement() != self.after.named_agreement()
                || before.cancelled.is_some() != self.after.cancelled.is_some()
        };
        self.key.0 == orders::CHECKOUT || self.before.as_ref().is_some_and(is_news)
    }

    /// The reference by which the order's payments are found.
    pub fn payment_reference(&self) -> String {
        payment_reference(&self.key, &self.after)
    }
}

/// Inserts the orders that are new, with what follows from their deliveries alone, locks those that
/// were known, and merges the records. Leaves out orders of which the message says nothing new. If the
/// caller shares the locks of their shops, so that none is erased meanwhile, these are only read: whatever
/// another transaction adds to one of them, this message has nothing to add.
pub(super) async fn load_updates(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: Incoming,
    is_shop_locked: bool,
) -> Result<Vec<OrderUpdate>> {
    let (context, now) = (outbox.context, outbox.now);
    let connections = context.connections.now();
    let can_ask = |(shop, _): &OrderKey| connections.of_shop(shop).is_called;
    let seen = records::peek(tx, incoming.keys().cloned().collect()).await?;
    let mut known = Vec::new();
    let mut new = Vec::new();
    for (key, news) in &incoming {
        let before = seen.get(key);
        let Some(said) = news.come_to(key, before, can_ask(key), now) else {
            continue;
        };
        if before.is_none() {
            let mut update = OrderUpdate::new(key.clone(), None, said.after.clone());
            links::complete(context, &mut update, now)?;
            request::decide(outbox, &mut update);
            update.is_saved = true;
            new.push((update, said));
        } else if is_shop_locked && before == Some(&said.after) {
            said.tell(outbox, key);
        } else {
            known.push(key.clone());
        }
    }
    let rows = new.iter().map(|(update, _)| (&update.key, &update.after));
    let inserted = records::insert_new(tx, rows, now).await?;
    let mut updates = Vec::with_capacity(incoming.len());
    for (update, said) in new {
        if inserted.contains(&update.key) {
            said.tell(outbox, &update.key);
            updates.push(update);
        } else {
            known.push(update.key);
        }
    }
    // A payment that comes at the same time cannot see an order that is being inserted. Both lock
    // the agreement, so the second of them sees the first.
    let new = updates.iter();
    let new = new.filter(|update| locks_agreement(&update.after));
    payments::lock_agreements(tx, new.map(OrderUpdate::payment_reference)).await?;
    let mut newly_claimed = Vec::new();
    for (key, before) in records::load(tx, known).await? {
        let news = incoming.get(&key);
        let said = news.and_then(|news| news.come_to(&key, Some(&before), can_ask(&key), now));
        let Some(said) = said else { continue };
        said.tell(outbox, &key);
        if said.after == before {
            continue;
        }
        let mut update = OrderUpdate::new(key, Some(before), said.after);
        if locks_agreement(&update.after) && update.agreement_left().is_some() {
            newly_claimed.push(update.payment_reference());
        }
        links::complete(context, &mut update, now)?;
        update.is_saved = false;
        updates.push(update);
    }
    // Nor can a payment see that a known order claims its agreement from now on. Only whoever has locked
    // an order knows which agreement it claims anew, so these locks alone come after those of known orders.
    // Another transaction that has such an agreement may wait for one of these orders. Then PostgreSQL
    // aborts one of the two, and its message is run again (`sql::is_outage`); SQLite has one writer.
    payments::lock_agreements(tx, newly_claimed).await?;
    updates.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    Ok(updates)
}

/// Whether an order locks its agreement, so that the second of an order and its payment sees the
/// first. Most orders claim no more than their own id, and they do not lock it: if a payment that
/// names this id comes, it looks for the order once more a minute later (`Internal::LinkPayment`).
fn locks_agreement(record: &Record) -> bool {
    record.cancelled.is_some() || record.named_agreement().is_some()
}
