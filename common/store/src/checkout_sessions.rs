//! The `checkout_sessions` table: what was bought on the payment provider's page, and the order
//! that each session belongs to.

use std::collections::{BTreeMap, HashSet};

use crate::sql::{Column, Db, Result, Row, Tx, column};
use crate::versions::{self, Versions};
use crate::{json, parsed, payments};
use domain::event::LastEvent;
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
    /// The time in the id of the session's last event. The next event's id gets a later time.
    pub events_at: LastEvent,
}

/// Inserts those sessions that do not exist yet, and returns their ids.
pub async fn insert_new(
    tx: &mut Tx,
    sessions: &BTreeMap<String, SessionEntry>,
    now: Timestamp,
) -> Result<HashSet<String>> {
    let rows: Vec<(&str, &SessionEntry)> =
        sessions.iter().map(|(id, it)| (id.as_str(), it)).collect();
    let inserted = insert(tx, &rows, now, "on conflict (id) do nothing returning id").await?;
    inserted.iter().map(|row| row.get("id")).collect()
}

/// Overwrites sessions whose rows this transaction has inserted or locked.
pub async fn save(tx: &mut Tx, sessions: &[(&str, &SessionEntry)], now: Timestamp) -> Result<()> {
    insert(
        tx,
        sessions,
        now,
        "on conflict (id) do update
         set mode = excluded.mode, payment_status = excluded.payment_status,
             total_minor = excluded.total_minor, currency = excluded.currency,
             payment_intent = excluded.payment_intent, subscription = excluded.subscription,
             invoice = excluded.invoice, customer_id = excluded.customer_id,
             client_reference_id = excluded.client_reference_id, pact_id = excluded.pact_id,
             subtotal_minor = excluded.subtotal_minor,
             discount_minor = excluded.discount_minor, added_minor = excluded.added_minor,
             fulfillment_cycle = excluded.fulfillment_cycle,
             email = excluded.email, email_key = excluded.email_key, versions = excluded.versions, shop = excluded.shop,
             order_id = excluded.order_id, events_at = excluded.events_at,
             updated_at = excluded.updated_at",
    )
    .await?;
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    sessions: &[(&str, &SessionEntry)],
    now: Timestamp,
    rest: &str,
) -> Result<Vec<Row>> {
    let records = || sessions.iter().map(|(_, entry)| &entry.record);
    let orders = || sessions.iter().map(|(_, entry)| entry.order.as_ref());
    let versions: Vec<String> = records().map(part_versions).collect::<Result<_>>()?;
    let emails: Vec<Option<String>> = records()
        .map(|it| it.email.as_ref().map(|part| email_key(&part.value.0)))
        .collect();
    let part = |part: fn(&Record) -> &Option<Part<String>>| {
        records().map(move |it| part(it).as_ref().map(|part| part.value.as_str()))
    };
    let minor = |part: fn(&Record) -> &Option<Part<i64>>| {
        records().map(move |it| part(it).as_ref().map(|part| part.value))
    };
    let columns: Vec<Column<'_>> = vec![
        column("id", sessions.iter().map(|(id, _)| *id)),
        column(
            "mode",
            records().map(|it| it.mode.as_ref().map(|part| part.value.as_str())),
        ),
        column(
            "payment_status",
            records().map(|it| it.payment_status.as_ref().map(PaymentStatus::as_str)),
        ),
        column(
            "total_minor",
            records().map(|it| it.total.as_ref().map(|part| part.value)),
        ),
        column(
            "currency",
            records().map(|it| it.currency.as_ref().map(|part| part.value.as_str())),
        ),
        column("subtotal_minor", minor(|it| &it.subtotal)),
        column("discount_minor", minor(|it| &it.discount)),
        column("added_minor", minor(|it| &it.added)),
        column("fulfillment_cycle", part(|it| &it.cycle)),
        column("payment_intent", part(|it| &it.payment_intent)),
        column("subscription", part(|it| &it.subscription)),
        column("invoice", part(|it| &it.invoice)),
        column("customer_id", part(|it| &it.customer)),
        column("client_reference_id", part(|it| &it.client_reference_id)),
        column("pact_id", part(|it| &it.pact_id)),
        column(
            "email",
            records().map(|it| it.email.as_ref().map(|part| part.value.0.as_str())),
        ),
        column("email_key", emails.iter().map(Option::as_deref)),
        column("versions", versions.iter().map(String::as_str)),
        column(
            "shop",
            orders().map(|order| order.map(|key| key.0.as_str())),
        ),
        column("order_id", orders().map(|order| order.map(|key| key.1))),
        column(
            "events_at",
            sessions.iter().map(|(_, entry)| entry.events_at.millis()),
        ),
        column("created_at", sessions.iter().map(|_| now.0)),
        column("updated_at", sessions.iter().map(|_| now.0)),
    ];
    tx.insert("checkout_sessions", &columns, rest).await
}

fn part_versions(record: &Record) -> Result<String> {
    let parts = [
        ("mode", versions::of(record.mode.as_ref())),
        ("total", versions::of(record.total.as_ref())),
        ("currency", versions::of(record.currency.as_ref())),
        ("subtotal", versions::of(record.subtotal.as_ref())),
        ("discount", versions::of(record.discount.as_ref())),
        ("added", versions::of(record.added.as_ref())),
        ("cycle", versions::of(record.cycle.as_ref())),
        (
            "payment_intent",
            versions::of(record.payment_intent.as_ref()),
        ),
        ("subscription", versions::of(record.subscription.as_ref())),
        ("invoice", versions::of(record.invoice.as_ref())),
        ("customer", versions::of(record.customer.as_ref())),
        (
            "client_reference_id",
            versions::of(record.client_reference_id.as_ref()),
        ),
        ("pact_id", versions::of(record.pact_id.as_ref())),
        ("email", versions::of(record.email.as_ref())),
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
                order_id, events_at, subtotal_minor, discount_minor, added_minor,
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
        events_at: LastEvent::from_millis(row.get("events_at")?),
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
        "select checkout_sessions.mode as mode,
                checkout_sessions.payment_status as payment_status,
                checkout_sessions.total_minor as total_minor,
                checkout_sessions.currency as currency,
                checkout_sessions.payment_intent as payment_intent,
                checkout_sessions.subscription as subscription,
                checkout_sessions.invoice as invoice,
                checkout_sessions.customer_id as customer_id,
                checkout_sessions.client_reference_id as client_reference_id,
                checkout_sessions.pact_id as pact_id, checkout_sessions.email as email,
                checkout_sessions.versions as versions, checkout_sessions.shop as shop,
                checkout_sessions.order_id as order_id,
                checkout_sessions.events_at as events_at,
                checkout_sessions.subtotal_minor as subtotal_minor,
                checkout_sessions.discount_minor as discount_minor,
                checkout_sessions.added_minor as added_minor,
                checkout_sessions.fulfillment_cycle as fulfillment_cycle,
                payments.id as payment_id, payments.pact_id as payment_agreement,
                payments.currency as payment_currency,
                payments.received_minor as received_minor,
                payments.refunded_minor as refunded_minor, payments.state as state,
                payments.canceled_at as canceled_at,
                payments.fulfillment_cycle as payment_cycle,
                subscriptions.period_end_at as period_end_at
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
    let SessionEntry { record, order, .. } = read(row)?;
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
