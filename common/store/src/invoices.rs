//! The `invoices` table: which payment and which subscription a paid invoice belongs to. Since
//! 2025-03-31 the payment provider says this only in the invoice, if it says it at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Invoice {
    /// The invoice's id, `in_..`.
    pub id: String,
    pub subscription: Option<String>,
    pub payment_id: Option<String>,
    /// True for the first invoice of its subscription.
    pub is_first: bool,
}

/// Writes invoices. A field that an invoice leaves out keeps its stored value. Of several payments the one with the least id
/// stays. The ids must be
/// distinct and sorted.
pub async fn save(tx: &mut Tx, invoices: &[Invoice], now: Timestamp) -> Result<()> {
    let rows = invoices.iter().map(|it| {
        [
            column("id", &it.id),
            column("subscription", &it.subscription),
            column("payment_id", &it.payment_id),
            column("is_first", it.is_first),
            column("created_at", now),
        ]
    });
    tx.insert(
        "invoices",
        rows.collect(),
        "on conflict (id) do update
         set subscription = coalesce(excluded.subscription, invoices.subscription),
             payment_id = case
                 when excluded.payment_id is null then invoices.payment_id
                 when invoices.payment_id < excluded.payment_id then invoices.payment_id
                 else excluded.payment_id
             end,
             is_first = case when excluded.is_first = 1 then 1 else invoices.is_first end",
    )
    .await?;
    Ok(())
}

/// The payments of these invoices, by invoice.
pub async fn payments_of(
    tx: &mut Tx,
    ids: Vec<String>,
) -> Result<BTreeMap<String, Option<String>>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query("select id, payment_id from invoices where id in ($1..)")
        .bind(ids)
        .all(|row| Ok((row.get("id")?, row.get("payment_id")?)))
        .await
}

/// The first invoices of these subscriptions, by subscription.
pub async fn first_of(tx: &mut Tx, subscriptions: Vec<String>) -> Result<BTreeMap<String, String>> {
    if subscriptions.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query("select id, subscription from invoices where is_first = 1 and subscription in ($1..)")
        .bind(subscriptions)
        .all(|row| Ok((row.get("subscription")?, row.get("id")?)))
        .await
}

/// The subscriptions of these invoices, and of those that these payments pay.
pub async fn subscriptions_of(
    tx: &mut Tx,
    invoices: Vec<String>,
    payments: Vec<String>,
) -> Result<BTreeSet<String>> {
    const BY_ID: &str = "select subscription from invoices
                         where subscription is not null and id in ($1..)";
    const BY_PAYMENT: &str = "select subscription from invoices
                              where subscription is not null and payment_id in ($1..)";
    let mut found = BTreeSet::new();
    for (sql, ids) in [(BY_ID, invoices), (BY_PAYMENT, payments)] {
        if !ids.is_empty() {
            let of_these = tx.query(sql).bind(ids).all(|row| row.get("subscription"));
            let of_these: Vec<String> = of_these.await?;
            found.extend(of_these);
        }
    }
    Ok(found)
}

/// The invoices of these subscriptions whose payments went back, each with its subscription.
pub async fn returned(tx: &mut Tx, subscriptions: Vec<String>) -> Result<Vec<(String, String)>> {
    if subscriptions.is_empty() {
        return Ok(Vec::new());
    }
    tx.query(
        "select invoices.subscription as subscription, invoices.id as id
         from invoices join payments on payments.id = invoices.payment_id
         where (payments.state in ('refunded', 'charged_back')
                or (payments.received_minor > 0
                    and payments.refunded_minor + payments.lost_minor >= payments.received_minor))
           and invoices.subscription in ($1..)
         union
         select invoices.subscription as subscription, invoices.id as id
         from invoices join payments on payments.invoice = invoices.id
         where (payments.state in ('refunded', 'charged_back')
                or (payments.received_minor > 0
                    and payments.refunded_minor + payments.lost_minor >= payments.received_minor))
           and invoices.subscription in ($1..)",
    )
    .bind(subscriptions)
    .all(|row| Ok((row.get("subscription")?, row.get("id")?)))
    .await
}

/// The invoices that these payments pay.
pub async fn of_payments(tx: &mut Tx, payments: Vec<String>) -> Result<Vec<Invoice>> {
    if payments.is_empty() {
        return Ok(Vec::new());
    }
    tx.query(
        "select id, subscription, payment_id, is_first from invoices
         where payment_id in ($1..)
         order by id",
    )
    .bind(payments)
    .all(Invoice::from_row)
    .await
}

pub async fn find(db: &Db, id: &str) -> Result<Option<Invoice>> {
    db.query("select id, subscription, payment_id, is_first from invoices where id = $1")
        .bind(id)
        .first(Invoice::from_row)
        .await
}

/// The invoices of a subscription, the first one and then the newest, at most `limit`.
pub async fn of_subscription(db: &Db, subscription: &str, limit: i64) -> Result<Vec<Invoice>> {
    db.query(
        "select id, subscription, payment_id, is_first from invoices
         where subscription = $1
         order by is_first desc, created_at desc, id desc
         limit $2",
    )
    .bind(subscription)
    .bind(limit)
    .all(Invoice::from_row)
    .await
}
