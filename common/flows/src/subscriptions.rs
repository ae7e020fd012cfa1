//! Subscriptions of the payment provider. Each paid invoice extends its subscription and the
//! licences of it.

use std::collections::BTreeMap;

use domain::event::{Event, LastEvent, SubscriptionEvent};
use domain::payment::subscription;
use domain::time::Timestamp;
use store::licenses;
use store::sql::Tx;
use store::subscriptions::{self, SubscriptionEntry};

use crate::Result;
use crate::outbox::Outbox;

/// Merges subscriptions with what is known of them, extends their licences, and adds the events that
/// say so.
pub(crate) async fn take(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: BTreeMap<String, SubscriptionEntry>,
) -> Result<()> {
    if incoming.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    let inserted = subscriptions::insert_new(tx, &incoming, now).await?;
    let known = incoming.keys().filter(|id| !inserted.contains(*id));
    let mut known = subscriptions::load(tx, known.cloned().collect()).await?;
    let mut saved: Vec<(String, SubscriptionEntry)> = Vec::new();
    for (id, new) in incoming {
        let before = known.remove(&id);
        let mut entry = new;
        let mut last_event = LastEvent::before(now);
        if let Some(before) = &before {
            let mut record = before.record.clone();
            record.merge(entry.record);
            if record == before.record {
                continue;
            }
            last_event = before.events_at;
            entry = SubscriptionEntry {
                record,
                events_at: before.events_at,
            };
        }
        let was = before.as_ref().map(|entry| &entry.record);
        if let Some(end) = subscription::extended(was, &entry.record) {
            let end = Timestamp::from_unix_seconds(end);
            let text = |part: &Option<domain::payment::record::Part<String>>| {
                part.as_ref().map(|part| part.value.clone())
            };
            let extended = SubscriptionEvent::Extended {
                customer_id: text(&entry.record.customer),
                pact_id: text(&entry.record.pact_id),
                period_end: end,
                grace_until: end.plus(outbox.context.config.license_grace),
            };
            outbox.event(&mut last_event, Event::of_subscription(&id, extended));
            licenses::extend(tx, &id, end, now).await?;
        }
        if before.is_some() {
            entry.events_at = last_event;
            saved.push((id, entry));
        }
    }
    let rows: Vec<(&str, &SubscriptionEntry)> = saved
        .iter()
        .map(|(id, entry)| (id.as_str(), entry))
        .collect();
    Ok(subscriptions::save(tx, &rows, now).await?)
}
