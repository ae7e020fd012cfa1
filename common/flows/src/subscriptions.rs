//! Subscriptions of the payment provider. Each paid invoice extends its subscription and the
//! licences of it.

use std::collections::BTreeMap;

use domain::event::{Event, SubscriptionEvent};
use domain::payment::subscription::{self, Record};
use domain::time::Timestamp;
use store::licenses;
use store::sql::Tx;
use store::subscriptions;

use crate::Result;
use crate::outbox::Outbox;

/// Merges subscriptions with what is known of them, extends their licences, and adds the events that
/// say so.
pub(crate) async fn take(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: BTreeMap<String, Record>,
) -> Result<()> {
    if incoming.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    let inserted = subscriptions::insert_new(tx, &incoming, now).await?;
    let known = incoming.keys().filter(|id| !inserted.contains(*id));
    let mut known = subscriptions::load(tx, known.cloned().collect()).await?;
    let mut saved: Vec<(String, Record)> = Vec::new();
    for (id, new) in incoming {
        let before = known.remove(&id);
        let mut entry = new;
        if let Some(before) = &before {
            let mut record = before.clone();
            record.merge(entry);
            if record == *before {
                continue;
            }
            entry = record;
        }
        if let Some(end) = subscription::extended(before.as_ref(), &entry) {
            let end = Timestamp::from_unix_seconds(end);
            let text = |part: &Option<domain::payment::record::Part<String>>| {
                part.as_ref().map(|part| part.value.clone())
            };
            let extended = SubscriptionEvent::Extended {
                customer_id: text(&entry.customer),
                pact_id: text(&entry.pact_id),
                period_end: end,
                grace_until: end.plus(outbox.context.config.license_grace),
            };
            outbox.event(Event::of_subscription(&id, extended));
            licenses::extend(tx, &id, end, now).await?;
        }
        if before.is_some() {
            saved.push((id, entry));
        }
    }
    let rows: Vec<(&str, &Record)> = saved
        .iter()
        .map(|(id, entry)| (id.as_str(), entry))
        .collect();
    Ok(subscriptions::save(tx, &rows, now).await?)
}
