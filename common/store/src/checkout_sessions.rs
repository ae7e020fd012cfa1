//! The `checkout_sessions` table: what was bought on the payment provider's page, and the order
//! that each session belongs to.

use std::collections::BTreeMap;

use crate::aggregates::{self, Aggregate};
use crate::payments;
use crate::sql::{Cell, Db, Result, Row, Tx, column};
use domain::order::OrderKey;
use domain::order::settlement::Linked;
use domain::payment::Mode;
use domain::payment::checkout::Record;
use domain::payment::record::text;
use domain::privacy::email_key;
use domain::record::Forget as _;
use domain::time::Timestamp;

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    pub record: Record,
    pub order: Option<OrderKey>,
}

impl Aggregate for SessionEntry {
    type Key = String;
    type Record = Record;
    const TABLE: &'static str = "checkout_sessions";
    const LOCK: &'static str = "select id, record, shop, order_id, updated_at
                                from checkout_sessions where id in ($1..)
                                order by id
                                for update";

    fn of(record: Record, row: &Row) -> Result<Self> {
        let shop: Option<String> = row.get("shop")?;
        Ok(SessionEntry {
            record,
            order: shop.zip(row.get("order_id")?),
        })
    }

    fn record(&self) -> &Record {
        &self.record
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        let record = &self.record;
        let order = self.order.as_ref();
        vec![
            column("mode", record.mode().map(Mode::as_str)),
            column("payment_intent", text(&record.payment_intent)),
            column("subscription", text(&record.subscription)),
            column("invoice", text(&record.invoice)),
            column("customer_id", text(&record.customer)),
            column("pact_id", text(&record.pact_id)),
            column("email_key", record.email().map(email_key)),
            column("shop", order.map(|key| &key.0)),
            column("order_id", order.map(|key| key.1)),
        ]
    }

    fn merge(&mut self, other: Self) {
        self.record.merge(other.record);
    }

    fn forget(&mut self, _: Timestamp) {
        self.record.forget_person();
    }
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

/// The sessions that led to these payments or began these subscriptions, and that name no agreement.
pub async fn unnamed(
    tx: &mut Tx,
    payments: Vec<String>,
    subscriptions: Vec<String>,
) -> Result<BTreeMap<String, SessionEntry>> {
    const OF_PAYMENTS: &str = "select id from checkout_sessions
                               where pact_id is null and payment_intent in ($1..)";
    const OF_SUBSCRIPTIONS: &str = "select id from checkout_sessions
                                    where pact_id is null and subscription in ($1..)";
    let mut ids: Vec<String> = Vec::new();
    for (sql, named) in [(OF_PAYMENTS, payments), (OF_SUBSCRIPTIONS, subscriptions)] {
        if !named.is_empty() {
            let found = tx.query(sql).bind(named).all(|row| row.get("id"));
            let found: Vec<String> = found.await?;
            ids.extend(found);
        }
    }
    aggregates::lock(tx, ids).await
}

/// What a session of an order says about its payment.
#[derive(Clone, Debug)]
pub struct Bought {
    pub id: String,
    pub key: OrderKey,
    pub record: Record,
    /// What is known of the session's payment, with the agreement that the payment itself names.
    pub payment: Option<(Option<String>, Linked)>,
    /// True when an invoice of the session's subscription was paid that was not for a trial, or the session itself says
    /// that it was paid and names no payment.
    pub is_subscription_paid: bool,
}

/// The sessions of orders with these ids, in all shops.
pub async fn of_orders(tx: &mut Tx, order_ids: Vec<i64>) -> Result<Vec<Bought>> {
    tx.query(
        "select checkout_sessions.id, checkout_sessions.record, checkout_sessions.shop,
                checkout_sessions.order_id,
                payments.id as payment_id, payments.pact_id as payment_agreement,
                payments.currency as payment_currency, payments.received_minor, payments.tip_minor,
                payments.refunded_minor, payments.lost_minor, payments.state, payments.canceled_at,
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
    let (id, SessionEntry { record, order }) = aggregates::of(row)?;
    let payment = match row.get::<Option<String>>("payment_id")? {
        Some(_) => Some((row.get("payment_agreement")?, payments::joined(row)?)),
        None => None,
    };
    let has_period = row.get::<Option<i64>>("period_end_at")?.is_some();
    Ok(Bought {
        id,
        key: order.unwrap_or_default(),
        is_subscription_paid: has_period || record.is_paid_subscription(),
        record,
        payment,
    })
}

/// The address of the buyer in a session that led to this payment. Of several it is the greatest.
pub async fn buyer(db: &Db, payment: &str) -> Result<Option<String>> {
    let sessions: Vec<(String, SessionEntry)> = aggregates::read(
        db.query(
            "select id, record, shop, order_id from checkout_sessions
             where payment_intent = $1",
        )
        .bind(payment),
    )
    .await?;
    let emails = sessions.iter().filter_map(|(_, it)| it.record.email());
    Ok(emails.max().map(ToOwned::to_owned))
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
