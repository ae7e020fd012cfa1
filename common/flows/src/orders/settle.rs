//! What payments make of the orders of a message (`domain::order::settlement`), and placeholders
//! whose place the storefront's own orders take.
//!
//! Each agreement has one order, whatever comes first. A checkout session that comes before the
//! storefront's order makes a placeholder, which waits. The storefront's own order takes its place,
//! with its payments and with what was requested of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::event::OrderEvent;
use domain::order::OrderKey;
use domain::order::outcome::FulfillmentState;
use domain::order::record::Record;
use domain::order::settlement::{self, Linked, Payments, Settlement};
use store::checkout_sessions::{self, Bought};
use store::orders::records;
use store::orders::{self, Claim};
use store::sql::Tx;
use store::{invoices, payments};

use super::close;
use super::update::OrderUpdate;
use crate::Result;
use crate::outbox::Outbox;

/// Why a placeholder is cancelled whose place another order has taken.
const SUPERSEDED: &str = "superseded";

/// Enters into the orders what their payments come to. If several orders claim an agreement, its
/// payments are linked to none of them.
pub(super) async fn settle(tx: &mut Tx, updates: &mut [OrderUpdate]) -> Result<()> {
    let agreements: BTreeSet<String> = updates.iter().map(OrderUpdate::payment_reference).collect();
    let placeholders = agreements.iter().map(|it| orders::checkout_key(it).1);
    let placeholders = orders::standing(tx, orders::CHECKOUT, placeholders.collect()).await?;
    let placeholder_of = |agreement: &str| {
        Some(orders::checkout_key(agreement)).filter(|it| placeholders.contains(&it.1))
    };
    let of_agreements = payments::of_agreements(tx, agreements.iter().cloned().collect()).await?;
    // Only where there is a placeholder or a payment does it matter who else claims the agreement.
    let doubtful = agreements.iter().filter(|agreement| {
        let has_payment = of_agreements.iter().any(|(of, _)| of == *agreement);
        placeholder_of(agreement).is_some() || has_payment
    });
    let mut claims = orders::of_agreements(tx, doubtful.cloned().collect()).await?;
    for update in updates.iter_mut() {
        let agreement = update.payment_reference();
        let Some(placeholder) = placeholder_of(&agreement).filter(|it| *it != update.key) else {
            continue;
        };
        if is_only_claim(&claims, &agreement, &update.key) {
            checkout_sessions::move_orders(tx, &placeholder, &update.key).await?;
            update.placeholders.push(placeholder);
        }
    }
    let ids = updates.iter().map(|update| update.key.1).collect();
    let sessions = checkout_sessions::of_orders(tx, ids).await?;
    let own = sessions.iter().map(|it| orders::checkout_key(&it.id).1);
    let own = orders::standing(tx, orders::CHECKOUT, own.collect()).await?;
    for update in updates.iter_mut() {
        // What the sessions made before it was known which agreement they are of.
        let of_update = sessions.iter().filter(|it| it.key == update.key);
        let made = of_update.map(|it| orders::checkout_key(&it.id));
        let made = made.filter(|made| own.contains(&made.1) && *made != update.key);
        update.placeholders.extend(made);
    }
    let of_invoices = of_invoices(tx, &sessions).await?;
    let with_session = updates
        .iter()
        .filter(|update| sessions.iter().any(|it| it.key == update.key));
    let missing = with_session
        .map(OrderUpdate::payment_reference)
        .filter(|agreement| !claims.contains_key(agreement));
    claims.extend(orders::of_agreements(tx, missing.collect()).await?);
    let known = KnownPayments {
        of_agreements,
        sessions,
        of_invoices,
    };
    for update in updates {
        let payments = known.of(update);
        let agreement = update.payment_reference();
        let is_only_claim = is_only_claim(&claims, &agreement, &update.key);
        let record = &mut update.after;
        // An order that has no payments now may have had some before, which turned out to be of
        // another agreement. And an order that is linked already stays linked, because whoever
        // claims its agreement later comes too late.
        let was_linked = record.settled != Settlement::default();
        let is_linked = payments != Payments::default() && is_only_claim;
        if !was_linked && !is_linked {
            continue;
        }
        let before = record.clone();
        settlement::settle(record, &payments);
        update.cycles = settlement::cycles(record, &payments);
        update.is_saved &= *record == before;
        update.payments = payments;
    }
    Ok(())
}

/// The payments and sessions that the orders of a message may be paid by.
struct KnownPayments {
    of_agreements: Vec<(String, Linked)>,
    sessions: Vec<Bought>,
    of_invoices: Vec<(OrderKey, Linked)>,
}

impl KnownPayments {
    /// The payments of an order: those of its agreement, of its sessions, and of the invoices of
    /// its sessions. A payment that is found in several ways counts once: the finding with the
    /// larger amount received.
    fn of(&self, update: &OrderUpdate) -> Payments {
        let agreement = update.payment_reference();
        let of_agreement = self.of_agreements.iter().filter(|(of, _)| *of == agreement);
        let mut linked: Vec<Linked> = of_agreement.map(|(_, payment)| payment.clone()).collect();
        let mut payments = Payments::default();
        for session in self.sessions.iter().filter(|it| it.key == update.key) {
            linked.extend(payment_of(session, &agreement));
            payments.price_changes.extend(session.record.price_change());
            payments.is_subscription_paid |= session.is_subscription_paid;
        }
        let of_invoice = self.of_invoices.iter().filter(|(of, _)| *of == update.key);
        linked.extend(of_invoice.map(|(_, payment)| payment.clone()));
        linked.sort_by(|a, b| a.id.cmp(&b.id).then(b.received.cmp(&a.received)));
        linked.dedup_by(|a, b| a.id == b.id);
        payments.linked = linked;
        payments
    }
}

/// The payments of the invoices that sessions named or that their subscriptions began with, each
/// with the order of its session.
async fn of_invoices(tx: &mut Tx, sessions: &[Bought]) -> Result<Vec<(OrderKey, Linked)>> {
    let subscribed = || {
        let has_invoice =
            |it: &&Bought| it.record.invoice.is_some() || it.record.subscription.is_some();
        sessions.iter().filter(has_invoice)
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

/// The payment that a session led to, unless the payment names another agreement.
fn payment_of(session: &Bought, agreement: &str) -> Option<Linked> {
    let known = match &session.payment {
        Some((Some(of), _)) if of != agreement => return None,
        known => known.as_ref().map(|(_, payment)| payment),
    };
    session.record.payment(known)
}

/// Whether this order claims the agreement and no other order does.
fn is_only_claim(claims: &HashMap<String, Vec<Claim>>, agreement: &str, key: &OrderKey) -> bool {
    matches!(claims.get(agreement).map(Vec::as_slice), Some([only]) if only.key == *key)
}

/// Closes placeholders whose place the storefront's own orders take. These orders have the payments
/// already, and what was requested of the placeholder counts as requested of the order.
pub(super) async fn supersede(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    updates: &mut Vec<OrderUpdate>,
) -> Result<()> {
    let closed: BTreeSet<OrderKey> = updates
        .iter()
        .flat_map(|update| update.placeholders.iter().cloned())
        .collect();
    if closed.is_empty() {
        return Ok(());
    }
    let mut records = records::load(tx, closed.iter().cloned().collect()).await?;
    // A placeholder may be in the same message, as the order of a session.
    updates.retain(|update| !closed.contains(&update.key));
    let places = updates.iter().enumerate();
    let places =
        places.flat_map(|(at, it)| it.placeholders.iter().map(move |key| (at, key.clone())));
    for (at, key) in places.collect::<Vec<_>>() {
        let (update, Some(mut record)) = (&mut updates[at], records.remove(&key)) else {
            continue;
        };
        if record.fulfillment_state() == FulfillmentState::Requested
            && update.was == FulfillmentState::Initiated
        {
            update.was = FulfillmentState::Requested;
        }
        for (cycle, moved) in std::mem::take(&mut record.own.cycles) {
            update.after.own.cycles.entry(cycle).or_insert(moved);
            update.is_saved = false;
        }
        record.own.successor = Some(update.key.clone());
        let (shop, order_id) = &update.key;
        let superseded = OrderEvent::Superseded {
            by_shop: shop.clone(),
            by_order_id: order_id.to_string(),
        };
        close(outbox, tx, &key, record, SUPERSEDED, superseded).await?;
    }
    Ok(())
}

/// Whether an order is cancelled because another one has taken its place.
pub(super) fn is_superseded(record: &Record) -> bool {
    let reason = record.cancelled.as_ref().map(|it| it.reason.as_deref());
    reason == Some(Some(SUPERSEDED))
}
