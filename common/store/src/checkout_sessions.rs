//! The `checkout_sessions` table: what was bought on the payment provider's page, and the order
//! that each session belongs to.

use std::collections::{BTreeMap, HashSet};

use crate::sql::{Cell, Db, Result, Row, Tx, column};
use crate::versions::{self, Versions, value};
use crate::{json, parsed, payments};
use domain::money::Currency;
use domain::order::OrderKey;
use domain::order::settlement::Linked;
use domain::payment::checkout::Record;
use domain::payment::record::Part;
use domain::payment::{Email, Mode, PaymentStatus};
use domain::privacy::email_key;
use domain::time::Timestamp;

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    pub record: Record,
    pub order: Option<OrderKey>,
}

/// Inserts those sessions that do not exist yet, and returns their ids.
pub async fn insert_new(
    tx: &mut Tx,
    sessions: &BTreeMap<String, SessionEntry>,
    now: Timestamp,
) -> Result<HashSet<String>> {
    let rows = sessions.iter().map(|(id, entry)| row(id, entry, now));
    let new = "on conflict (id) do nothing returning id";
    let inserted = tx
        .insert("checkout_sessions", rows.collect::<Result<_>>()?, new)
        .await?;
    inserted.iter().map(|row| row.get("id")).collect()
}

/// Overwrites sessions whose rows this transaction has inserted or locked.
pub async fn save(tx: &mut Tx, sessions: &[(&str, &SessionEntry)], now: Timestamp) -> Result<()> {
    let rows = sessions.iter().map(|(id, entry)| row(id, entry, now));
    tx.overwrite("checkout_sessions", "id", rows.collect::<Result<_>>()?, "")
        .await
}

fn row<'a>(id: &'a str, entry: &'a SessionEntry, now: Timestamp) -> Result<[Cell<'a>; 22]> {
    let record = &entry.record;
    let minor = |part: &Option<Part<i64>>| part.as_ref().map(|part| part.value);
    let status = record.payment_status.as_ref().map(PaymentStatus::as_str);
    let currency = record.currency.as_ref().map(|part| part.value.as_str());
    let email = record.email.as_ref().map(|part| part.value.0.as_str());
    let order = entry.order.as_ref();
    Ok([
        column("id", id),
        column("mode", record.mode.as_ref().map(|part| part.value.as_str())),
        column("payment_status", status),
        column("total_minor", minor(&record.total)),
        column("currency", currency),
        column("subtotal_minor", minor(&record.subtotal)),
        column("discount_minor", minor(&record.discount)),
        column("added_minor", minor(&record.added)),
        column("fulfillment_cycle", value(&record.cycle)),
        column("payment_intent", value(&record.payment_intent)),
        column("subscription", value(&record.subscription)),
        column("invoice", value(&record.invoice)),
        column("customer_id", value(&record.customer)),
        column("client_reference_id", value(&record.client_reference_id)),
        column("pact_id", value(&record.pact_id)),
        column("email", email),
        column("email_key", email.map(email_key)),
        column("versions", part_versions(record)?),
        column("shop", order.map(|key| &key.0)),
        column("order_id", order.map(|key| key.1)),
        column("created_at", now),
        column("updated_at", now),
    ])
}

fn part_versions(record: &Record) -> Result<String> {
    let parts = [
        ("mode", versions::of(&record.mode)),
        ("total", versions::of(&record.total)),
        ("currency", versions::of(&record.currency)),
        ("subtotal", versions::of(&record.subtotal)),
        ("discount", versions::of(&record.discount)),
        ("added", versions::of(&record.added)),
        ("cycle", versions::of(&record.cycle)),
        ("payment_intent", versions::of(&record.payment_intent)),
        ("subscription", versions::of(&record.subscription)),
        ("invoice", versions::of(&record.invoice)),
        ("customer", versions::of(&record.customer)),
        (
            "client_reference_id",
            versions::of(&record.client_reference_id),
        ),
        ("pact_id", versions::of(&record.pact_id)),
        ("email", versions::of(&record.email)),
    ];
    json(&Versions::of(parts))
}

/// The sessions with these ids, locked, sorted by id.
pub async fn load(tx: &mut Tx, ids: Vec<String>) -> Result<BTreeMap<String, SessionEntry>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query(
        "select id, mode, payment_status, total_minor, currency, payment_intent, subscription,
                invoice, customer_id, client_reference_id, pact_id, email, versions, shop,
                order_id, subtotal_minor, discount_minor, added_minor,
                fulfillment_cycle
         from checkout_sessions where id in ($1..)
         order by id
         for update",
    )
    .bind(ids)
    .all(|row| Ok((row.get("id")?, read(row)?)))
    .await
}

fn read(row: &Row) -> Result<SessionEntry> {
    let versions: String = row.get("versions")?;
    let versions: Versions = parsed(&versions)?;
    let mode: Option<String> = row.get("mode")?;
    let status: Option<String> = row.get("payment_status")?;
    let currency: Option<String> = row.get("currency")?;
    let email: Option<String> = row.get("email")?;
    let record = Record {
        payment_status: status.map(PaymentStatus::from),
        mode: versions.part("mode", mode.map(Mode::from)),
        total: versions.part("total", row.get("total_minor")?),
        currency: versions.part("currency", currency.and_then(|code| Currency::parse(&code))),
        subtotal: versions.part("subtotal", row.get("subtotal_minor")?),
        discount: versions.part("discount", row.get("discount_minor")?),
        added: versions.part("added", row.get("added_minor")?),
        cycle: versions.part("cycle", row.get("fulfillment_cycle")?),
        payment_intent: versions.part("payment_intent", row.get("payment_intent")?),
        subscription: versions.part("subscription", row.get("subscription")?),
        invoice: versions.part("invoice", row.get("invoice")?),
        customer: versions.part("customer", row.get("customer_id")?),
        client_reference_id: versions.part("client_reference_id", row.get("client_reference_id")?),
        pact_id: versions.part("pact_id", row.get("pact_id")?),
        email: versions.part("email", email.map(Email)),
    };
    let shop: Option<String> = row.get("shop")?;
    let order_id: Option<i64> = row.get("order_id")?;
    Ok(SessionEntry {
        record,
        order: shop.zip(order_id),
    })
}

/// Moves the sessions of the order `from` to the order `to`.
pub async fn move_orders(tx: &mut Tx, from: &OrderKey, to: &OrderKey) -> Result<()> {
    tx.query(
        "update checkout_sessions set shop = $1, order_id = $2
         where order_id = $3 and shop = $4",
    )
    .bind(to.0.as_str())
    .bind(to.1)
    .bind(from.1)
    .bind(from.0.as_str())
    .done()
    .await
}

/// The orders whose sessions led to these payments.
pub async fn orders_of(tx: &mut Tx, payments: Vec<String>) -> Result<Vec<OrderKey>> {
    const ORDERS: &str = "select shop, order_id from checkout_sessions
                          where order_id is not null and payment_intent in ($1..)";
    keys(tx, ORDERS, payments).await
}

/// The orders whose sessions began with these invoices.
pub async fn orders_of_invoices(tx: &mut Tx, invoices: Vec<String>) -> Result<Vec<OrderKey>> {
    const ORDERS: &str = "select shop, order_id from checkout_sessions
                          where order_id is not null and invoice in ($1..)";
    keys(tx, ORDERS, invoices).await
}

/// The orders whose sessions began these subscriptions.
pub async fn orders_of_subscriptions(tx: &mut Tx, ids: Vec<String>) -> Result<Vec<OrderKey>> {
    const ORDERS: &str = "select shop, order_id from checkout_sessions
                          where order_id is not null and subscription in ($1..)";
    keys(tx, ORDERS, ids).await
}

async fn keys(tx: &mut Tx, orders: &'static str, ids: Vec<String>) -> Result<Vec<OrderKey>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let query = tx.query(orders).bind(ids);
    query
        .all(|row| Ok((row.get("shop")?, row.get("order_id")?)))
        .await
}

/// What a session of an order says about its payment.
#[derive(Clone, Debug)]
pub struct Bought {
    pub key: OrderKey,
    pub record: Record,
    /// What is known of the session's payment, with the agreement that the payment itself names.
    pub payment: Option<(Option<String>, Linked)>,
    /// True when an invoice of the session's subscription was paid that was not for a trial.
    pub is_subscription_paid: bool,
}

/// The sessions of orders with these ids, in all shops.
pub async fn of_orders(tx: &mut Tx, order_ids: Vec<i64>) -> Result<Vec<Bought>> {
    tx.query(
        "select checkout_sessions.mode, checkout_sessions.payment_status,
                checkout_sessions.total_minor, checkout_sessions.currency,
                checkout_sessions.payment_intent, checkout_sessions.subscription,
                checkout_sessions.invoice, checkout_sessions.customer_id,
                checkout_sessions.client_reference_id, checkout_sessions.pact_id,
                checkout_sessions.email, checkout_sessions.versions, checkout_sessions.shop,
                checkout_sessions.order_id,
                checkout_sessions.subtotal_minor, checkout_sessions.discount_minor,
                checkout_sessions.added_minor, checkout_sessions.fulfillment_cycle,
                payments.id as payment_id, payments.pact_id as payment_agreement,
                payments.currency as payment_currency, payments.received_minor,
                payments.refunded_minor, payments.state, payments.canceled_at,
                payments.fulfillment_cycle as payment_cycle, subscriptions.period_end_at
         from checkout_sessions
         left join payments on payments.id = checkout_sessions.payment_intent
         left join subscriptions on subscriptions.id = checkout_sessions.subscription
         where checkout_sessions.order_id in ($1..)
         order by checkout_sessions.id",
    )
    .bind(order_ids)
    .all(bought)
    .await
}

fn bought(row: &Row) -> Result<Bought> {
    let SessionEntry { record, order } = read(row)?;
    let payment = match row.get::<Option<String>>("payment_id")? {
        Some(_) => Some((row.get("payment_agreement")?, payments::joined(row)?)),
        None => None,
    };
    Ok(Bought {
        key: order.unwrap_or_default(),
        record,
        payment,
        is_subscription_paid: row.get::<Option<i64>>("period_end_at")?.is_some(),
    })
}

/// The checkout sessions that began a subscription, at most `limit`.
pub async fn of_subscription(db: &Db, subscription: &str, limit: i64) -> Result<Vec<String>> {
    db.query(
        "select id from checkout_sessions where subscription = $1
         order by id
         limit $2",
    )
    .bind(subscription)
    .bind(limit)
    .all(|row| row.get("id"))
    .await
}
