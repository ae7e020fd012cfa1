//! What is requested for shipping: of the order itself, and of the further cycles of an agreement
//! that is paid more than once.

use config::connection::SharedRegistry;
use domain::order::outcome::{self, FulfillmentState, Request, level_of};
use domain::order::own::{Asked, ProviderState};
use store::orders;

use super::update::OrderUpdate;
use crate::outbox::Outbox;

/// Decides what is requested of an order now, and notes it in its record. It may be done again after
/// the payments have changed the order.
pub(super) fn decide(outbox: &Outbox<'_>, update: &mut OrderUpdate) {
    let (before, record) = (update.before.as_ref(), &update.after);
    let mut fulfillment = before.map_or_else(Default::default, |it| it.own.fulfillment.clone());
    let state = record.fulfillment_state();
    // What was requested of a placeholder counts as requested of the order that takes its
    // place.
    if !update.placeholders.is_empty() && update.was == FulfillmentState::Requested {
        fulfillment.requested = level_of(record);
    }
    update.request = outcome::request(record, &fulfillment.requested);
    let asks = asks_storefront(outbox.context.connections, update);
    let id = update.provider_job.take();
    update.provider_job = asks.then(|| id.unwrap_or_else(|| outbox.context.clock.id()));
    let is_moved = before.is_none_or(|before| before.fulfillment_state() != state);
    if is_moved || update.request.is_some() {
        fulfillment.reach(state, outbox.now.0);
    }
    if let Some(request) = &update.request {
        fulfillment.requested.clone_from(&request.level);
    }
    if let Some(job) = update.provider_job {
        fulfillment.asked = Some(Asked {
            job,
            state: ProviderState::Pending,
            id: None,
        });
    }
    let noted = &mut update.after.own.fulfillment;
    if *noted != fulfillment {
        *noted = fulfillment;
        update.is_saved = false;
    }
}

/// Whether the storefront is asked to fulfil what is requested now. It does not know the orders of
/// checkout sessions. And where a shipment came to nothing, its units are requested again, but the
/// storefront's own staff ship them.
fn asks_storefront(connections: &SharedRegistry, update: &OrderUpdate) -> bool {
    let asks = |request: &Request| request.units.is_some() && !request.is_repeated;
    update.key.0 != orders::CHECKOUT
        && update.request.as_ref().is_some_and(asks)
        && connections.now().of_shop(&update.key.0).is_called
}

/// Notes the further cycles of an order whose state is new.
pub(super) fn move_cycles(outbox: &Outbox<'_>, update: &mut OrderUpdate) {
    for (cycle, settled) in &update.cycles {
        let state = outcome::cycle_state(&update.after, settled);
        let known = update.after.own.cycles.get(cycle);
        let was_requested = known.is_some_and(|known| known.is_requested);
        let is_requested = state == FulfillmentState::Requested;
        let is_news = match state {
            FulfillmentState::Requested => !was_requested,
            FulfillmentState::Cancelled => was_requested,
            FulfillmentState::Initiated | FulfillmentState::Fulfilled => false,
        };
        if is_news {
            let own = &mut update.after.own;
            own.move_cycle(cycle.clone(), is_requested, outbox.now.0);
            update.moved.push((cycle.clone(), is_requested));
            update.is_saved = false;
        }
    }
}
