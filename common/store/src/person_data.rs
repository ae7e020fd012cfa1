//! Everything that is stored about a person, as JSON for an export: the rows that `people` found,
//! and the rows that depend on them. [`EXPORTED`] lists the tables and columns, and the
//! statements are made from the same list. Rows are sorted by their keys and columns by their
//! names, so the same rows always give the same text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::erasure;
use crate::people::{self, PersonRows};
use crate::sql::{Db, Result, Row};
use domain::order::Topic;
use domain::privacy::{Keys, SubjectKey};
use domain::time::Timestamp;

/// The exported rows, by table.
pub type Data = BTreeMap<&'static str, Vec<Map<String, Value>>>;

/// A table whose rows are exported.
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
    /// How many of the first columns are the table's key.
    key: usize,
    ways: &'static [(By, &'static str)],
}

pub struct Column {
    pub name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Int,
    /// 0 or 1.
    Flag,
    Time,
    Json,
    Id,
}

/// The list by which rows are found. It is bound as the last value of the statement, after the
/// shop if the statement has one.
#[derive(Clone, Copy)]
enum By {
    Customers,
    /// Orders of the shop, and placeholders.
    Orders,
    /// The same orders, with their ids as text.
    OrderTexts,
    Payments,
    Sessions,
    Subscriptions,
    /// Payments, sessions and subscriptions, by their ids.
    PaymentTexts,
    /// Keyed hashes of addresses.
    Emails,
    /// Keyed hashes of telephone numbers.
    Phones,
}

/// Makes a table from its columns, each with its kind, and from the conditions by which its rows
/// are found.
macro_rules! table {
    ($name:literal, key $key:literal, $columns:tt, $($by:ident $condition:literal),+) => {
        Table {
            name: $name,
            columns: columns!($columns),
            key: $key,
            ways: &[$((By::$by, select!($name, $columns, $condition))),+],
        }
    };
}

macro_rules! columns {
    ([$($name:literal $kind:ident),+ $(,)?]) => {
        &[$(Column { name: $name, kind: Kind::$kind }),+]
    };
}

macro_rules! select {
    ($table:literal, [$first:literal $_:ident $(, $name:literal $kind:ident)* $(,)?],
     $condition:literal) => {
        concat!("select ", $first, $(", ", $name,)* " from ", $table, " where ", $condition)
    };
}

/// The exported tables with all their columns, except pictures, which are drawn from the links
/// beside them.
pub const EXPORTED: &[Table] = &[
    table!("customers", key 2, [
        "shop" Text, "id" Int, "email_key" Text, "phone_key" Text, "redacted_at" Time,
        "record" Json, "created_at" Time, "updated_at" Time,
    ], Customers "shop = $1 and id in ($2..)"),
    table!("orders", key 2, [
        "shop" Text, "id" Int, "name" Text, "pact_id" Text, "customer_id" Int, "email_key" Text,
        "phone_key" Text, "listed_at" Time, "state" Text, "financial_status" Text,
        "payment_status" Text, "fulfillment_status" Text, "is_paid" Flag, "was_paid" Flag,
        "cancelled_at" Time, "currency" Text, "total_minor" Int, "disputed_at" Time,
        "redacted_at" Time, "record" Json, "created_at" Time, "updated_at" Time,
    ], Orders "shop = $1 and id in ($2..)"),
    table!("tracking_numbers", key 3, [
        "number" Text, "shop" Text, "order_id" Int,
    ], Orders "shop = $1 and order_id in ($2..)"),
    table!("refunds", key 3, [
        "shop" Text, "order_id" Int, "payment_id" Text, "state" Text, "amount_minor" Int,
        "currency" Text, "provider_id" Text, "created_at" Time, "updated_at" Time,
    ], Orders "shop = $1 and order_id in ($2..)"),
    table!("inventory_movements", key 1, [
        "id" Id, "shop" Text, "order_id" Int, "line_id" Int, "variant_id" Int, "sku" Text,
        "quantity" Int, "reason" Text, "created_at" Time,
    ], Orders "shop = $1 and order_id in ($2..)"),
    table!("events", key 1, [
        "id" Id, "kind" Text, "shop" Text, "object_id" Text, "body" Json, "created_at" Time,
    ], OrderTexts "shop = $1 and object_id in ($2..)",
       PaymentTexts "shop is null and object_id in ($1..)"),
    table!("payments", key 1, [
        "id" Text, "pact_id" Text, "invoice" Text, "fulfillment_cycle" Text,
        "payment_type" Text, "transfer_group" Text, "customer_id" Text, "email_key" Text,
        "currency" Text, "amount_minor" Int, "received_minor" Int, "refunded_minor" Int,
        "state" Text, "canceled_at" Time, "entries" Int, "record" Json, "created_at" Time,
        "updated_at" Time,
    ], Payments "id in ($1..)"),
    table!("invoices", key 1, [
        "id" Text, "subscription" Text, "payment_id" Text, "is_first" Flag, "created_at" Time,
    ], Payments "payment_id in ($1..)", Subscriptions "subscription in ($1..)"),
    table!("ledger_entries", key 2, [
        "payment_id" Text, "number" Int, "entry" Text, "account" Text, "amount_minor" Int,
        "currency" Text, "created_at" Time,
    ], Payments "payment_id in ($1..)"),
    table!("checkout_sessions", key 1, [
        "id" Text, "mode" Text, "payment_intent" Text, "subscription" Text, "invoice" Text,
        "customer_id" Text, "pact_id" Text, "email_key" Text, "shop" Text, "order_id" Int,
        "record" Json, "created_at" Time, "updated_at" Time,
    ], Sessions "id in ($1..)"),
    table!("subscriptions", key 1, [
        "id" Text, "period_end_at" Time, "customer_id" Text, "pact_id" Text, "record" Json,
        "created_at" Time, "updated_at" Time,
    ], Subscriptions "id in ($1..)"),
    table!("payment_retries", key 2, [
        "payment_id" Text, "number" Int, "job_id" Id, "state" Text, "due_at" Time,
        "code" Text, "updated_at" Time,
    ], Payments "payment_id in ($1..)"),
    table!("notifications", key 1, [
        "id" Id, "kind" Text, "payment_id" Text, "state" Text, "error" Text,
        "created_at" Time, "updated_at" Time,
    ], Payments "payment_id in ($1..)"),
    table!("privacy_requests", key 1, [
        "id" Id, "topic" Text, "shop" Text, "customer_id" Int, "email_key" Id, "phone_key" Id,
        "body_key" Id, "repeats" Id, "state" Text, "received_at" Time, "due_at" Time,
        "held_until" Time, "finished_at" Time, "warned_at" Time, "alarmed_at" Time,
        "overdue_at" Time, "progress" Json, "export_sha256" Text, "export_bytes" Int,
        "export_expires_at" Time, "export_removed_at" Time, "receipt" Json,
    ], Customers "shop = $1 and customer_id in ($2..)",
       Emails "shop = $1 and customer_id is null and email_key in ($2..)",
       Phones "shop = $1 and customer_id is null and phone_key in ($2..)"),
];

/// The fields of a delivery in the export. It came from a provider and still has its body.
pub const DELIVERY: &[&str] = &[
    "id",
    "kind",
    "source",
    "shop",
    "external_id",
    "received_at",
    "body",
];

/// The name of the list of deliveries in the export.
pub const DELIVERIES: &str = "deliveries";

/// How many bodies, which may be about other people, are in memory at a time.
const BODIES: usize = 100;

/// Reads the rows of all tables, without the row of the request that asks for them.
pub async fn read(db: &Db, keys: &Keys, found: &PersonRows, request: Uuid) -> Result<Data> {
    let mut data = Data::new();
    for table in EXPORTED {
        let mut rows = Vec::new();
        for (by, statement) in table.ways {
            for (shop, list) in by.lists(found, keys) {
                for row in select(db, statement, shop, list).await? {
                    rows.push(table.row(&row)?);
                }
            }
        }
        rows.retain(|row| table.name != "privacy_requests" || row["id"] != json!(request));
        rows.sort_by_cached_key(|row| table.key_of(row));
        rows.dedup_by_key(|row| table.key_of(row));
        data.insert(table.name, rows);
    }
    Ok(data)
}

impl Table {
    pub fn statements(&self) -> impl Iterator<Item = &'static str> {
        self.ways.iter().map(|(_, statement)| *statement)
    }

    fn row(&self, row: &Row) -> Result<Map<String, Value>> {
        let columns = self.columns.iter();
        columns
            .map(|column| Ok((column.name.to_owned(), column.value(row)?)))
            .collect()
    }

    fn key_of(&self, row: &Map<String, Value>) -> Vec<(Option<i64>, Option<String>)> {
        let key = self.columns[..self.key].iter();
        key.map(|column| {
            let value = &row[column.name];
            (value.as_i64(), value.as_str().map(ToOwned::to_owned))
        })
        .collect()
    }
}

impl Column {
    fn value(&self, row: &Row) -> Result<Value> {
        Ok(match self.kind {
            Kind::Text => json!(row.get::<Option<String>>(self.name)?),
            Kind::Int => json!(row.get::<Option<i64>>(self.name)?),
            Kind::Flag => json!(row.get::<Option<i64>>(self.name)?.map(|flag| flag != 0)),
            Kind::Time => json!(row.get::<Option<i64>>(self.name)?.map(Timestamp)),
            Kind::Id => json!(row.get::<Option<Uuid>>(self.name)?),
            Kind::Json => match row.get::<Option<String>>(self.name)? {
                Some(text) => as_json(text.as_bytes()),
                None => Value::Null,
            },
        })
    }
}

/// The JSON of a text. A text that is not JSON stays a text.
fn as_json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|_| json!(String::from_utf8_lossy(text)))
}

enum List {
    Ints(Vec<i64>),
    Texts(Vec<String>),
    Ids(Vec<Uuid>),
}

impl By {
    fn lists<'a>(self, found: &'a PersonRows, keys: &Keys) -> Vec<(Option<&'a str>, List)> {
        let shop = Some(found.shop.as_str());
        let texts = |set: &BTreeSet<String>| List::Texts(set.iter().cloned().collect());
        match self {
            By::Customers => {
                let shops = found.shops().len();
                let shops = [shop, Some("")].into_iter().take(shops);
                let ids: Vec<i64> = found.customers.iter().copied().collect();
                shops.map(|shop| (shop, List::Ints(ids.clone()))).collect()
            }
            By::Orders => of_shops(found)
                .map(|(shop, ids)| (Some(shop), List::Ints(ids)))
                .collect(),
            By::OrderTexts => of_shops(found)
                .map(|(shop, ids)| {
                    let ids = ids.iter().map(ToString::to_string).collect();
                    (Some(shop), List::Texts(ids))
                })
                .collect(),
            By::Payments => vec![(None, texts(&found.payments))],
            By::Sessions => vec![(None, texts(&found.sessions))],
            By::Subscriptions => vec![(None, texts(&found.subscriptions))],
            By::PaymentTexts => {
                let all = [&found.payments, &found.sessions, &found.subscriptions];
                vec![(
                    None,
                    List::Texts(all.into_iter().flatten().cloned().collect()),
                )]
            }
            By::Emails => {
                let ids = found.emails.iter();
                let ids = ids.filter_map(|it| keys.subject(&found.shop, SubjectKey::Email(it)));
                vec![(shop, List::Ids(ids.collect()))]
            }
            By::Phones => {
                let ids = found.phones.iter();
                let ids = ids.filter_map(|it| keys.subject(&found.shop, SubjectKey::Phone(it)));
                vec![(shop, List::Ids(ids.collect()))]
            }
        }
    }
}

/// The ids of the orders, by shop.
fn of_shops(found: &PersonRows) -> impl Iterator<Item = (&str, Vec<i64>)> {
    let mut shops: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (shop, id) in &found.orders {
        shops.entry(shop).or_default().push(*id);
    }
    shops.into_iter()
}

async fn select(
    db: &Db,
    statement: &'static str,
    shop: Option<&str>,
    list: List,
) -> Result<Vec<Row>> {
    match list {
        List::Ints(list) => people::rows_of(db, statement, shop, list).await,
        List::Texts(list) => people::rows_of(db, statement, shop, list).await,
        List::Ids(list) => people::rows_of(db, statement, shop, list).await,
    }
}

/// How far the search for deliveries has come. There is no index of the people that bodies are about, so all
/// bodies of the shop, and those that name no shop, are scanned in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// How many of the person's shops are done with.
    pub shops: usize,
    pub after: Uuid,
    /// Jobs whose bodies are about the person.
    pub jobs: BTreeSet<Uuid>,
    pub is_over: bool,
}

/// Continues the scan by `step` jobs. Every delivery that still has its body is checked by the
/// same rule as in an erasure.
pub async fn scan(db: &Db, found: &PersonRows, scan: &mut Scan, step: i64) -> Result<()> {
    let shops = found.shops();
    let Some(shop) = shops.iter().nth(scan.shops) else {
        scan.is_over = true;
        return Ok(());
    };
    let end = erasure::last_of(db, shop, scan.after, step).await?;
    let rows = db
        .query(
            "select id, kind, object_id, subject,
                    (select state from jobs where jobs.id = deliveries.id) as state
             from deliveries
             where coalesce(shop, '') = $1 and id > $2 and id <= $3
               and body is not null and source <> 'internal'",
        )
        .bind(shop.as_str())
        .bind(scan.after)
        .bind(end.unwrap_or(Uuid::max()))
        .fetch_all()
        .await?;
    let mut perhaps = Vec::new();
    for row in &rows {
        if may_be_about(row, found)? {
            perhaps.push(row.get("id")?);
        }
    }
    for ids in perhaps.chunks(BODIES) {
        for kept in erasure::bodies(db, ids.to_vec()).await? {
            if people::concerns(db, found, &kept).await? {
                scan.jobs.insert(kept.id);
            }
        }
    }
    scan.shops += usize::from(end.is_none());
    scan.after = end.unwrap_or_default();
    scan.is_over = scan.shops == shops.len();
    Ok(())
}

/// Whether the body of a job must be read. For the job of an order that is done, and for every
/// job that names a customer, the columns decide; all other bodies are read.
fn may_be_about(row: &Row, found: &PersonRows) -> Result<bool> {
    let kind: String = row.get("kind")?;
    let state: String = row.get("state")?;
    let number = |id: Option<String>| id.and_then(|id| id.parse::<i64>().ok());
    let order = number(row.get("object_id")?);
    let customer = number(row.get("subject")?);
    let is_order = Topic::is_of_an_order(&kind);
    if !(is_order && state == "done" || kind.contains('/') && customer.is_some()) {
        return Ok(true);
    }
    let is_their_order = order.filter(|_| is_order).is_some_and(|id| {
        let mut shops = found.shops().into_iter();
        found.guest_orders.contains(&id) || shops.any(|shop| found.orders.contains(&(shop, id)))
    });
    Ok(is_their_order || customer.is_some_and(|id| found.customers.contains(&id)))
}

/// The deliveries that a scan found, with their bodies, without the delivery of the request
/// itself.
pub async fn deliveries(db: &Db, scan: &Scan, request: Uuid) -> Result<Vec<Map<String, Value>>> {
    let ids: Vec<Uuid> = scan
        .jobs
        .iter()
        .copied()
        .filter(|id| *id != request)
        .collect();
    let mut deliveries = BTreeMap::new();
    for ids in ids.chunks(BODIES) {
        let rows = db
            .query(
                "select id, kind, source, shop, external_id, created_at, body from deliveries
                 where body is not null and id in ($1..)",
            )
            .bind(ids.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            let id: Uuid = row.get("id")?;
            let values = [
                json!(id),
                json!(row.get::<String>("kind")?),
                json!(row.get::<String>("source")?),
                json!(row.get::<Option<String>>("shop")?),
                json!(row.get::<Option<String>>("external_id")?),
                json!(row.get::<Timestamp>("created_at")?),
                as_json(&row.get::<Vec<u8>>("body")?),
            ];
            let names = DELIVERY.iter().map(|name| (*name).to_owned());
            deliveries.insert(id, names.zip(values).collect());
        }
    }
    Ok(deliveries.into_values().collect())
}
