//! Orders as records: they are read under a lock, merged by the caller, and written back whole.
//! The key of an order is its shop and the provider's id.

use std::borrow::Cow;

use std::collections::{BTreeMap, BTreeSet};

use crate::aggregates::{self, Aggregate};
use crate::held;
use crate::sql::{Cell, Result, Row, Tx, column};
use domain::order::record::Record;
use domain::order::{FinancialStatus, FulfillmentStatus, OrderKey};
use domain::privacy::{email_key, phone_key};
use domain::record::Forget as _;
use domain::time::Timestamp;

impl Aggregate for Record {
    type Key = OrderKey;
    type Record = Record;
    const TABLE: &'static str = "orders";
    const LOCK: &'static str = "select shop, id, record, updated_at
                                from orders where (shop, id) in ($1..)
                                order by shop, id
                                for update";

    fn of(record: Record, _: &Row) -> Result<Self> {
        Ok(record)
    }

    fn record(&self) -> &Record {
        self
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        let text = |status: &FinancialStatus| status.as_str().to_owned();
        let totals = &self.totals.value;
        let contact = &self.contact.value;
        let fulfillment = self.fulfillment.value.as_ref();
        let settled = self.settled.status.as_ref();
        let held = held::of(self);
        vec![
            column("name", self.name.value.as_deref()),
            column("pact_id", self.named_agreement().map(Cow::into_owned)),
            column("customer_id", self.customer.value),
            column("email_key", contact.email.as_deref().map(email_key)),
            column("phone_key", contact.phone.as_deref().map(phone_key)),
            column("listed_at", self.ordered_at.unwrap_or(self.own.known_at)),
            column("state", self.fulfillment_state().into_str()),
            column(
                "financial_status",
                self.financial_status().as_ref().map(text),
            ),
            column("payment_status", settled.map(FinancialStatus::as_str)),
            column(
                "fulfillment_status",
                fulfillment.map(FulfillmentStatus::as_str),
            ),
            column("is_paid", self.is_paid()),
            column("cancelled_at", self.cancelled.as_ref().map(|it| it.at)),
            column("currency", totals.currency.map(|it| it.to_string())),
            column("total_minor", totals.total),
            column("held", held.map(|(reason, _)| reason.into_str())),
            column("held_minor", held.and_then(|(_, minor)| minor)),
            column("disputed_at", self.own.disputed_at()),
            column("redacted_at", self.own.redacted_at),
        ]
    }

    fn merge(&mut self, other: Self) {
        self.merge(other);
    }

    fn forget(&mut self, now: Timestamp) {
        self.forget_person();
        self.own.redacted_at.get_or_insert(now.0);
    }
}

/// Inserts those orders that do not exist yet, and returns their keys. If another transaction is
/// inserting the same order, this waits for it.
pub async fn insert_new<'a>(
    tx: &mut Tx,
    orders: impl IntoIterator<Item = (&'a OrderKey, &'a Record)>,
    now: Timestamp,
) -> Result<BTreeSet<OrderKey>> {
    aggregates::insert_new(tx, orders, now).await
}

/// Overwrites orders that this transaction has inserted or locked.
pub async fn save<'a>(
    tx: &mut Tx,
    orders: impl IntoIterator<Item = (&'a OrderKey, &'a Record)>,
    now: Timestamp,
) -> Result<()> {
    aggregates::save(tx, orders, now).await
}

/// The orders with these keys, locked in the sequence of their keys.
pub async fn load(tx: &mut Tx, keys: Vec<OrderKey>) -> Result<BTreeMap<OrderKey, Record>> {
    aggregates::lock(tx, keys).await
}

/// The orders with these keys as they are at the moment.
pub async fn peek(tx: &mut Tx, keys: Vec<OrderKey>) -> Result<BTreeMap<OrderKey, Record>> {
    let orders = tx.query("select shop, id, record from orders where (shop, id) in ($1..)");
    aggregates::read(orders.bind(keys)).await
}
