//! What payments make of the orders of a message (`domain::order::settlement`), and the
//! orders of checkout sessions that the storefront's own take the place of.
//!
//! There is one order for each agreement, whatever comes first. A session that comes before
//! the storefront's order makes one that stands in for it and waits; the storefront's own
//! takes its place, with its payments and with what was requested of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use domain::event::OrderEvent;
use domain::order::outcome::FulfillmentState;
use domain::order::record::{Cancellation, Record};
use domain::order::settlement::{self, Linked, Payments, Settlement};
use store::checkout_sessions::{self, Bought};
use store::fulfillment_cycles;
use store::fulfillments::{self, Moved};
use store::orders::records::{self, OrderKey};
use store::orders::{self, Claim};
use store::sql::Tx;
use store::{invoices, payments};

use super::{OrderUpdate, Outbox, refunds};

/// Why an order of a checkout session is closed whose place another one has taken.
const SUPERSEDED: &str = "superseded";

/// Enters into the orders what their payments come to. An agreement that several orders
/// claim links none of them.
pub(super) async fn settle(tx: &mut Tx, updates: &mut [OrderUpdate]) -> Result<()> {
    let pact = |update: &OrderUpdate| refunds::payment_reference(&update.key, &update.after.record);
    let pacts: BTreeSet<String> = updates.iter().map(pact).collect();
    let placeholders = pacts.iter().map(|pact| orders::checkout_key(pact).1);
    let placeholders = orders::standing(tx, orders::CHECKOUT, placeholders.collect()).await?;
    let placeholder =
        |pact: &str| Some(orders::checkout_key(pact)).filter(|it| placeholders.contains(&it.1));
    let of_pacts = payments::of_pacts(tx, pacts.iter().cloned().collect()).await?;
    let doubtful = pacts
        .iter()
        .filter(|pact| placeholder(pact).is_some() || of_pacts.iter().any(|(of, _)| of == *pact));
    let mut claims = orders::of_pacts(tx, doubtful.cloned().collect()).await?;
    for update in updates.iter_mut() {
        let pact = pact(update);
        let Some(placeholder) = placeholder(&pact).filter(|it| *it != update.key) else {
            continue;
        };
        if is_alone(&claims, &pact, &update.key) {
            checkout_sessions::move_orders(tx, &placeholder, &update.key).await?;
            update.placeholder = Some(placeholder);
        }
    }
    let ids = updates.iter().map(|update| update.key.1).collect();
    let bought = checkout_sessions::of_orders(tx, ids).await?;
    let of_invoices = of_invoices(tx, &bought).await?;
    let more = updates
        .iter()
        .filter(|update| bought.iter().any(|it| it.key == update.key));
    let more = more.map(pact).filter(|pact| !claims.contains_key(pact));
    claims.extend(orders::of_pacts(tx, more.collect()).await?);
    for update in updates {
        let pact = pact(update);
        let of_pact = of_pacts.iter().filter(|(of, _)| *of == pact);
        let mut linked: Vec<Linked> = of_pact.map(|(_, payment)| payment.clone()).collect();
        let mut of_update = Payments::default();
        for session in bought.iter().filter(|it| it.key == update.key) {
            linked.extend(payment_of(session, &pact));
            of_update.pages.extend(session.record.page());
            of_update.is_subscription_paid |= session.is_subscription_paid;
        }
        let of_invoice = of_invoices.iter().filter(|(of, _)| *of == update.key);
        linked.extend(of_invoice.map(|(_, payment)| payment.clone()));
        linked.sort_by(|a, b| a.id.cmp(&b.id).then(b.received.cmp(&a.received)));
        linked.dedup_by(|a, b| a.id == b.id);
        of_update.linked = linked;
        let record = &mut update.after.record;
        // Its payments may have turned out to be of another agreement, and who claims the
        // agreement of an order that is linked already comes too late.
        let was_linked = record.settled != Settlement::default();
        let is_linked = of_update != Payments::default() && is_alone(&claims, &pact, &update.key);
        if !was_linked && !is_linked {
            continue;
        }
        let before = record.clone();
        settlement::settle(record, &of_update);
        update.cycles = settlement::cycles(record, &of_update);
        update.is_settled_anew |= *record != before;
        update.payments = of_update;
    }
    Ok(())
}

/// The payments of the invoices that the sessions' subscriptions began with, by session's
/// order and invoice.
async fn of_invoices(tx: &mut Tx, bought: &[Bought]) -> Result<Vec<(OrderKey, Linked)>> {
    let subscribed = || {
        let sessions = bought.iter();
        sessions.filter(|it| it.record.invoice.is_some() || it.record.subscription.is_some())
    };
    let subscriptions = subscribed().filter_map(subscription_of).collect();
    let first = invoices::first_of(tx, subscriptions).await?;
    let mut keys: BTreeMap<String, Vec<&OrderKey>> = BTreeMap::new();
    for session in subscribed() {
        let named = session.record.invoice.as_ref().map(|it| it.value.clone());
        let began = subscription_of(session).and_then(|it| first.get(&it).cloned());
        for invoice in named.into_iter().chain(began) {
            keys.entry(invoice).or_default().push(&session.key);
        }
    }
    let mut wanted: BTreeMap<String, Option<String>> =
        keys.keys().map(|invoice| (invoice.clone(), None)).collect();
    wanted.extend(invoices::payments_of(tx, keys.keys().cloned().collect()).await?);
    let found = payments::of_invoices(tx, &wanted).await?;
    let linked = found.into_iter().flat_map(|(invoice, payment)| {
        let keys = keys.get(&invoice).into_iter().flatten();
        keys.map(move |key| ((*key).clone(), payment.clone()))
    });
    Ok(linked.collect())
}

fn subscription_of(session: &Bought) -> Option<String> {
    let part = session.record.subscription.as_ref();
    part.map(|part| part.value.clone())
}

/// The payment that a session led to, unless that names another agreement.
fn payment_of(session: &Bought, pact: &str) -> Option<Linked> {
    let known = match &session.payment {
        Some((Some(of), _)) if of != pact => return None,
        known => known.as_ref().map(|(_, payment)| payment),
    };
    session.record.payment(known)
}

fn is_alone(claims: &HashMap<String, Vec<Claim>>, pact: &str, key: &OrderKey) -> bool {
    matches!(claims.get(pact).map(Vec::as_slice), Some([only]) if only.key == *key)
}

/// Closes the orders that checkout sessions made, now that the storefront's own are known.
/// These have their payments already; what was requested of the one was requested of the
/// other.
pub(super) async fn supersede(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    updates: &mut Vec<OrderUpdate>,
) -> Result<()> {
    let closed: BTreeSet<OrderKey> = updates
        .iter()
        .filter_map(|update| update.placeholder.clone())
        .collect();
    if closed.is_empty() {
        return Ok(());
    }
    let mut entries = records::load(tx, &closed.iter().collect::<Vec<_>>()).await?;
    // They may be in the message themselves, as orders of sessions.
    updates.retain(|update| !closed.contains(&update.key));
    for update in updates.iter_mut() {
        let Some((key, mut entry)) = update
            .placeholder
            .as_ref()
            .and_then(|key| entries.remove_entry(key))
        else {
            continue;
        };
        if entry.record.fulfillment_state() == FulfillmentState::Requested
            && update.was == FulfillmentState::Initiated
        {
            update.was = FulfillmentState::Requested;
        }
        fulfillment_cycles::move_to(tx, &key, &update.key).await?;
        entry.record.cancelled = Some(Cancellation {
            at: outbox.now.0,
            reason: Some(SUPERSEDED.to_owned()),
        });
        entry.record.waits_until = None;
        let (shop, order_id) = &update.key;
        let superseded = OrderEvent::Superseded {
            by_shop: shop.clone(),
            by_order_id: order_id.to_string(),
        };
        outbox.order_event(&key, &mut entry.events_at, superseded);
        let moved = Moved {
            key: &key,
            state: FulfillmentState::Cancelled,
            to_provider: false,
            requested: None,
        };
        fulfillments::save(tx, &[moved], outbox.now).await?;
        records::save(tx, &[(&key, &entry)], outbox.now).await?;
        records::set_successor(tx, &key, &update.key).await?;
    }
    Ok(())
}

/// Whether it is closed because another order has taken its place.
pub(super) fn is_superseded(record: &Record) -> bool {
    let reason = record.cancelled.as_ref().map(|it| it.reason.as_deref());
    reason == Some(Some(SUPERSEDED))
}
