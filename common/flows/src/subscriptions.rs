//! Subscriptions of the payment provider. Each paid invoice extends its subscription and the
//! licences of it.

use std::collections::BTreeMap;

use domain::event::{Event, SubscriptionEvent};
use domain::payment::record::text;
use domain::payment::subscription::{self, Record};
use domain::time::Timestamp;
use store::aggregates::{self, Merged};
use store::licenses;
use store::sql::Tx;

use crate::Result;
use crate::outbox::Outbox;

/// Merges subscriptions with what is known of them, extends their licences, and adds the events that
/// say so.
pub(crate) async fn take(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: BTreeMap<String, Record>,
) -> Result<()> {
    let now = outbox.now;
    let mut saved: Vec<(String, Record)> = Vec::new();
    for Merged {
        key: id,
        before,
        after: record,
    } in aggregates::merge(tx, incoming, now).await?
    {
        if let Some(end) = subscription::extended(before.as_ref(), &record) {
            let end = Timestamp::from_unix_seconds(end);
            let owned = |part| text(part).map(ToOwned::to_owned);
            let extended = SubscriptionEvent::Extended {
                customer_id: owned(&record.customer),
                pact_id: owned(&record.pact_id),
                period_end: end,
                grace_until: end.plus(outbox.context.config.license_grace),
            };
            outbox.event(Event::of_subscription(&id, extended));
            licenses::extend(tx, &id, end, now).await?;
        }
        if before.is_some() {
            saved.push((id, record));
        }
    }
    Ok(aggregates::save(tx, saved.iter().map(|(id, record)| (id, record)), now).await?)
}
