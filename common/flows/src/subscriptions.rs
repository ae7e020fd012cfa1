//! Subscriptions of the payment provider. Each paid invoice extends its subscription and the
//! licences of it, and their end ends them.

use std::collections::{BTreeMap, BTreeSet};

use domain::event::{Event, SubscriptionEvent};
use domain::payment::record::text;
use domain::payment::subscription::{self, Change, Record};
use domain::time::Timestamp;
use store::aggregates::{self, Merged};
use store::sql::Tx;
use store::{invoices, licenses};

use crate::Result;
use crate::outbox::Outbox;

/// Merges subscriptions with what is known of them, extends and shortens their licences, and adds the events that
/// say so. `touched` are others of which a payment went back or came again.
pub(crate) async fn take(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: BTreeMap<String, Record>,
    mut touched: BTreeSet<String>,
) -> Result<()> {
    let now = outbox.now;
    let mut known = BTreeMap::new();
    if !touched.is_empty() {
        // All of them in one sequence, before any is merged.
        touched.extend(incoming.keys().cloned());
        known = aggregates::lock::<Record>(tx, touched.into_iter().collect()).await?;
    }
    let mut changed = aggregates::merge(tx, incoming, now).await?;
    for merged in &changed {
        known.remove(&merged.key);
    }
    changed.extend(known.into_iter().map(|(key, record)| Merged {
        key,
        before: Some(record.clone()),
        after: record,
    }));
    let ids = changed.iter().map(|merged| merged.key.clone()).collect();
    let mut returned: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, invoice) in invoices::returned(tx, ids).await? {
        returned.entry(id).or_default().insert(invoice);
    }
    let mut saved: Vec<(String, Record)> = Vec::new();
    for Merged {
        key: id,
        before,
        mut after,
    } in changed
    {
        after.returned = returned.remove(&id).unwrap_or_default();
        if let Some(change) = subscription::change(before.as_ref(), &after) {
            outbox.event(Event::of_subscription(
                &id,
                event_of(outbox, &after, change),
            ));
            follow(tx, (&id, None), change, now).await?;
        }
        for item in licenses::items_of(tx, &id).await? {
            if let Some(change) = subscription::change_of(&item, before.as_ref(), &after) {
                follow(tx, (&id, Some(&item)), change, now).await?;
            }
        }
        if before.is_some() || !after.returned.is_empty() {
            saved.push((id, after));
        }
    }
    Ok(aggregates::save(tx, saved.iter().map(|(id, record)| (id, record)), now).await?)
}

fn event_of(outbox: &Outbox<'_>, record: &Record, change: Change) -> SubscriptionEvent {
    let owned = |part| text(part).map(ToOwned::to_owned);
    let (customer_id, pact_id) = (owned(&record.customer), owned(&record.pact_id));
    match change {
        Change::Extended { to } => {
            let period_end = Timestamp::from_unix_seconds(to);
            SubscriptionEvent::Extended {
                customer_id,
                pact_id,
                period_end,
                grace_until: period_end.plus(outbox.context.config.license_grace),
            }
        }
        Change::Shortened { to, .. } => SubscriptionEvent::Shortened {
            customer_id,
            pact_id,
            period_end: Timestamp::from_unix_seconds(to),
        },
    }
}

/// Extends or shortens the licences of a subscription, or of one of its items.
async fn follow(
    tx: &mut Tx,
    of: (&str, Option<&str>),
    change: Change,
    now: Timestamp,
) -> Result<()> {
    let at = Timestamp::from_unix_seconds;
    match change {
        Change::Extended { to } => licenses::extend(tx, of, at(to), now).await?,
        Change::Shortened { from, to } => {
            licenses::shorten(tx, of, at(from), at(to), now).await?;
        }
    }
    Ok(())
}
