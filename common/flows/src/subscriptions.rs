//! Subscriptions of the payment provider. Each paid invoice extends its subscription and the
//! licences of it, and their end ends them.

use std::collections::BTreeMap;

use domain::event::{Event, SubscriptionEvent};
use domain::payment::record::text;
use domain::payment::subscription::{self, Change, Record};
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
        let owned = |part| text(part).map(ToOwned::to_owned);
        let (customer_id, pact_id) = (owned(&record.customer), owned(&record.pact_id));
        match subscription::change(before.as_ref(), &record) {
            None => {}
            Some(Change::Extended { to }) => {
                let period_end = Timestamp::from_unix_seconds(to);
                let extended = SubscriptionEvent::Extended {
                    customer_id,
                    pact_id,
                    period_end,
                    grace_until: period_end.plus(outbox.context.config.license_grace),
                };
                outbox.event(Event::of_subscription(&id, extended));
                licenses::extend(tx, &id, period_end, now).await?;
            }
            Some(Change::Shortened { from, to }) => {
                let [was, period_end] = [from, to].map(Timestamp::from_unix_seconds);
                let shortened = SubscriptionEvent::Shortened {
                    customer_id,
                    pact_id,
                    period_end,
                };
                outbox.event(Event::of_subscription(&id, shortened));
                licenses::shorten(tx, &id, was, period_end, now).await?;
            }
        }
        if before.is_some() {
            saved.push((id, record));
        }
    }
    Ok(aggregates::save(tx, saved.iter().map(|(id, record)| (id, record)), now).await?)
}
