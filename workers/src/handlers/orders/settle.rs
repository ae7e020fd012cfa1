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
use domain::order::settlement::{self, Linked, Payments, Settled};
use store::checkout_sessions::{self, Bought};
use store::fulfillment_cycles;
use store::fulfillments::{self, Moved};
use store::orders::records::{self, Key};
use store::orders::{self, Claim};
use store::sql::Tx;
use store::{invoices, payments};

use super::{Effects, Story, refunds};

/// Why an order of a checkout session is closed whose place another one has taken.
const SUPERSEDED: &str = "superseded";

/// Enters into the orders what their payments come to. An agreement that several orders
/// claim links none of them.
pub(super) async fn settle(tx: &mut Tx, stories: &mut [Story]) -> Result<()> {
    let pact = |story: &Story| refunds::pact_of(&story.key, &story.after.record);
    let pacts: BTreeSet<String> = stories.iter().map(pact).collect();
    let stand_ins = pacts.iter().map(|pact| orders::checkout_key(pact).1);
    let stand_ins = orders::standing(tx, orders::CHECKOUT, stand_ins.collect()).await?;
    let stand_in =
        |pact: &str| Some(orders::checkout_key(pact)).filter(|it| stand_ins.contains(&it.1));
    let of_pacts = payments::of_pacts(tx, pacts.iter().cloned().collect()).await?;
    let doubtful = pacts
        .iter()
        .filter(|pact| stand_in(pact).is_some() || of_pacts.iter().any(|(of, _)| of == *pact));
    let mut claims = orders::of_pacts(tx, doubtful.cloned().collect()).await?;
    for story in stories.iter_mut() {
        let pact = pact(story);
        let Some(stand_in) = stand_in(&pact).filter(|it| *it != story.key) else {
            continue;
        };
        if is_alone(&claims, &pact, &story.key) {
            checkout_sessions::move_orders(tx, &stand_in, &story.key).await?;
            story.stand_in = Some(stand_in);
        }
    }
    let ids = stories.iter().map(|story| story.key.1).collect();
    let bought = checkout_sessions::of_orders(tx, ids).await?;
    let of_invoices = of_invoices(tx, &bought).await?;
    let more = stories
        .iter()
        .filter(|story| bought.iter().any(|it| it.key == story.key));
    let more = more.map(pact).filter(|pact| !claims.contains_key(pact));
    claims.extend(orders::of_pacts(tx, more.collect()).await?);
    for story in stories {
        let pact = pact(story);
        let of_pact = of_pacts.iter().filter(|(of, _)| *of == pact);
        let mut linked: Vec<Linked> = of_pact.map(|(_, payment)| payment.clone()).collect();
        let mut of_story = Payments::default();
        for session in bought.iter().filter(|it| it.key == story.key) {
            linked.extend(payment_of(session, &pact));
            of_story.pages.extend(session.record.page());
            of_story.is_subscription_paid |= session.is_subscription_paid;
        }
        let of_invoice = of_invoices.iter().filter(|(of, _)| *of == story.key);
        linked.extend(of_invoice.map(|(_, payment)| payment.clone()));
        linked.sort_by(|a, b| a.id.cmp(&b.id).then(b.received.cmp(&a.received)));
        linked.dedup_by(|a, b| a.id == b.id);
        of_story.linked = linked;
        let record = &mut story.after.record;
        // Its payments may have turned out to be of another agreement, and who claims the
        // agreement of an order that is linked already comes too late.
        let was_linked = record.settled != Settled::default();
        let is_linked = of_story != Payments::default() && is_alone(&claims, &pact, &story.key);
        if !was_linked && !is_linked {
            continue;
        }
        let before = record.clone();
        settlement::settle(record, &of_story);
        story.cycles = settlement::cycles(record, &of_story);
        story.is_settled_anew |= *record != before;
        story.payments = of_story;
    }
    Ok(())
}

/// The payments of the invoices that the sessions' subscriptions began with, by session's
/// order and invoice.
async fn of_invoices(tx: &mut Tx, bought: &[Bought]) -> Result<Vec<(Key, Linked)>> {
    let subscribed = || {
        let sessions = bought.iter();
        sessions.filter(|it| it.record.invoice.is_some() || it.record.subscription.is_some())
    };
    let subscriptions = subscribed().filter_map(subscription_of).collect();
    let first = invoices::first_of(tx, subscriptions).await?;
    let mut keys: BTreeMap<String, Vec<&Key>> = BTreeMap::new();
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

fn is_alone(claims: &HashMap<String, Vec<Claim>>, pact: &str, key: &Key) -> bool {
    matches!(claims.get(pact).map(Vec::as_slice), Some([only]) if only.key == *key)
}

/// Closes the orders that checkout sessions made, now that the storefront's own are known.
/// These have their payments already; what was requested of the one was requested of the
/// other.
pub(super) async fn supersede(
    effects: &mut Effects<'_>,
    tx: &mut Tx,
    stories: &mut Vec<Story>,
) -> Result<()> {
    let closed: BTreeSet<Key> = stories
        .iter()
        .filter_map(|story| story.stand_in.clone())
        .collect();
    if closed.is_empty() {
        return Ok(());
    }
    let mut entries = records::load(tx, &closed.iter().collect::<Vec<_>>()).await?;
    // They may be in the message themselves, as orders of sessions.
    stories.retain(|story| !closed.contains(&story.key));
    for story in stories.iter_mut() {
        let Some((key, mut entry)) = story
            .stand_in
            .as_ref()
            .and_then(|key| entries.remove_entry(key))
        else {
            continue;
        };
        if entry.record.fulfillment_state() == FulfillmentState::Requested
            && story.was == FulfillmentState::Initiated
        {
            story.was = FulfillmentState::Requested;
        }
        fulfillment_cycles::move_to(tx, &key, &story.key).await?;
        entry.record.cancelled = Some(Cancellation {
            at: effects.now.0,
            reason: Some(SUPERSEDED.to_owned()),
        });
        entry.record.waits_until = None;
        let (shop, order_id) = &story.key;
        let superseded = OrderEvent::Superseded {
            by_shop: shop.clone(),
            by_order_id: order_id.to_string(),
        };
        effects.order_event(&key, &mut entry.events_at, superseded);
        let moved = Moved {
            key: &key,
            state: FulfillmentState::Cancelled,
            to_provider: false,
            requested: None,
        };
        fulfillments::save(tx, &[moved], effects.now).await?;
        records::save(tx, &[(&key, &entry)], effects.now).await?;
        records::set_successor(tx, &key, &story.key).await?;
    }
    Ok(())
}

/// Whether it is closed because another order has taken its place.
pub(super) fn is_superseded(record: &Record) -> bool {
    let reason = record.cancelled.as_ref().map(|it| it.reason.as_deref());
    reason == Some(Some(SUPERSEDED))
}
