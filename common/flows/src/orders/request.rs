//! What is requested for shipping: of the order itself, and of the further cycles of an agreement
//! that is paid more than once.

use std::collections::BTreeSet;

use config::Config;
use domain::order::OrderKey;
use domain::order::outcome::{self, FulfillmentState, Level, Request, level_of};
use domain::order::settlement::Cycle;
use store::sql::Tx;
use store::{fulfillment_cycles, fulfillments, orders};

use super::update::OrderUpdate;
use crate::Result;
use crate::outbox::Outbox;

/// Decides what is requested of each order now. What was requested of an order so far is read only
/// where something can have been requested before.
pub(super) async fn decide(
    outbox: &Outbox<'_>,
    tx: &mut Tx,
    updates: &mut [OrderUpdate],
) -> Result<()> {
    let may_have_request = |update: &&OrderUpdate| {
        let is = update.after.fulfillment_state();
        let is_about_a_request = matches!(
            is,
            FulfillmentState::Requested | FulfillmentState::Cancelled
        ) || update.was == FulfillmentState::Requested;
        update.before.is_some() && is_about_a_request
    };
    let known: BTreeSet<&OrderKey> = updates
        .iter()
        .filter(may_have_request)
        .map(|update| &update.key)
        .collect();
    let levels = fulfillments::requested(tx, &known.into_iter().collect::<Vec<_>>()).await?;
    for update in updates {
        let record = &update.after;
        let nothing = Level::new();
        let level = levels.get(&update.key).unwrap_or(&nothing);
        // What was requested of a placeholder counts as requested of the order that takes its
        // place.
        let is_taken_over =
            update.placeholder.is_some() && update.was == FulfillmentState::Requested;
        // One of several payments may have been refunded before, which left the order unpaid and called nothing off.
        if update.was == FulfillmentState::Initiated
            && record.fulfillment_state() == FulfillmentState::Cancelled
            && outcome::is_awaited(record, level)
        {
            update.was = FulfillmentState::Requested;
        }
        update.request = if is_taken_over && record.cancelled.is_none() {
            Some(Request {
                level: level_of(record),
                ..Request::default()
            })
        } else {
            outcome::request(update.was, record, level)
        };
        let asks = asks_storefront(outbox.context.config, update);
        update.provider_job = asks.then(|| outbox.context.clock.id());
    }
    Ok(())
}

/// Whether the storefront is asked to fulfil what is requested now. It does not know the orders of
/// checkout sessions. And where a shipment came to nothing, its units are requested again, but the
/// storefront's own staff ship them.
fn asks_storefront(config: &Config, update: &OrderUpdate) -> bool {
    let asks = |request: &Request| request.units.is_some() && !request.is_repeated;
    config.storefront_api.is_some()
        && update.key.0 != orders::CHECKOUT
        && update.request.as_ref().is_some_and(asks)
}

/// Writes the further cycles of an order whose state is new, and returns them.
pub(super) async fn move_cycles(
    outbox: &Outbox<'_>,
    tx: &mut Tx,
    update: &OrderUpdate,
) -> Result<Vec<(Cycle, FulfillmentState)>> {
    if update.cycles.is_empty() {
        return Ok(Vec::new());
    }
    let known = fulfillment_cycles::of(tx, &update.key).await?;
    let mut moved = Vec::new();
    for (cycle, settled) in &update.cycles {
        let state = outcome::cycle_state(&update.after, settled);
        let is_requested = known.get(cycle).copied();
        let is_news = match state {
            FulfillmentState::Requested => is_requested != Some(true),
            FulfillmentState::Cancelled => is_requested == Some(true),
            FulfillmentState::Initiated | FulfillmentState::Fulfilled => false,
        };
        if is_news {
            moved.push((cycle.clone(), state));
        }
    }
    let rows: Vec<fulfillment_cycles::Moved<'_>> = moved
        .iter()
        .map(|(cycle, state)| fulfillment_cycles::Moved {
            key: &update.key,
            cycle: cycle.clone(),
            state: *state,
        })
        .collect();
    fulfillment_cycles::save(tx, &rows, outbox.now).await?;
    Ok(moved)
}
