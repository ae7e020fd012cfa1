//! Everything that is stored about a person, as JSON for an export: the rows that `people` found,
//! and the rows that depend on them. The columns, and what each is, are read from the migrations. Rows are sorted by their
//! keys and columns by their names, so the same rows always give the same text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::aggregates::{self, Aggregate as _};
use crate::checkout_sessions::SessionEntry;
use crate::customers::CustomerEntry;
use crate::erasure;
use crate::migrations::tables::{Class, Column, Kind, TABLES, Table};
use crate::payments::PaymentEntry;
use crate::people::{self, PersonRows};
use crate::sql::{Db, Result, Row};
use domain::order::Topic;
use domain::order::record::Record as Order;
use domain::payment::subscription::Record as Subscription;
use domain::privacy::{Keys, SubjectKey};
use domain::time::Timestamp;

/// The exported rows, by table.
pub type Data = BTreeMap<&'static str, Vec<Map<String, Value>>>;

/// A table whose rows are exported: with all its columns but those that Waybill needs for its own work.
pub struct Exported {
    pub table: &'static Table,
    ways: Vec<(By, String)>,
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

macro_rules! table {
    ($name:literal, $($by:ident $condition:literal),+) => {
        ($name, &[$((By::$by, $condition)),+])
    };
}

/// The exported tables, with the conditions by which their rows are found.
const WAYS: [(&str, &[(By, &str)]); 14] = [
    table!("customers", Customers "shop = $1 and id in ($2..)"),
    table!("orders", Orders "shop = $1 and id in ($2..)"),
    table!("tracking_numbers", Orders "shop = $1 and order_id in ($2..)"),
    table!("refunds", Orders "shop = $1 and order_id in ($2..)"),
    table!("inventory_movements", Orders "shop = $1 and order_id in ($2..)"),
    table!("events", OrderTexts "shop = $1 and object_id in ($2..)",
        PaymentTexts "shop is null and object_id in ($1..)"),
    table!("payments", Payments "id in ($1..)"),
    table!("invoices", Payments "payment_id in ($1..)", Subscriptions "subscription in ($1..)"),
    table!("ledger_entries", Payments "payment_id in ($1..)"),
    table!("checkout_sessions", Sessions "id in ($1..)"),
    table!("subscriptions", Subscriptions "id in ($1..)"),
    table!("payment_retries", Payments "payment_id in ($1..)"),
    table!("notifications", Payments "payment_id in ($1..)"),
    table!("privacy_requests", Customers "shop = $1 and customer_id in ($2..)",
        Emails "shop = $1 and customer_id is null and email_key in ($2..)",
        Phones "shop = $1 and customer_id is null and phone_key in ($2..)"),
];

pub static EXPORTED: LazyLock<Vec<Exported>> = LazyLock::new(|| {
    let of_name = |name| TABLES.iter().find(|table| table.name == name);
    let exported = WAYS.iter().filter_map(|(name, ways)| {
        let table = of_name(*name)?;
        let columns = shown(table)
            .map(|it| it.name)
            .collect::<Vec<_>>()
            .join(", ");
        let ways = ways.iter();
        let ways = ways.map(|(by, condition)| {
            (
                *by,
                ["select", &columns, "from", name, "where", condition].join(" "),
            )
        });
        let ways = ways.collect();
        Some(Exported { table, ways })
    });
    exported.collect()
});

fn shown(table: &'static Table) -> impl Iterator<Item = &'static Column> {
    table
        .columns
        .iter()
        .filter(|it| it.class != Some(Class::Own))
}

/// The fields of a delivery in the export. It came from a provider and still has its body.
const DELIVERY: &[&str] = &[
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
    for Exported { table, ways } in EXPORTED.iter() {
        let mut rows = Vec::new();
        for (by, statement) in ways {
            for (shop, list) in by.lists(found, keys) {
                for row in select(db, statement, shop, list).await? {
                    rows.push(row_of(table, &row)?);
                }
            }
        }
        rows.retain(|row| table.name != "privacy_requests" || row["id"] != json!(request));
        rows.sort_by_cached_key(|row| key_of(table, row));
        rows.dedup_by_key(|row| key_of(table, row));
        data.insert(table.name, rows);
    }
    Ok(data)
}

fn row_of(table: &'static Table, row: &Row) -> Result<Map<String, Value>> {
    let values = shown(table).map(|column| {
        let value = if column.class == Some(Class::Record) {
            record(table.name, row)?
        } else {
            value(column, row)?
        };
        Ok((column.name.to_owned(), value))
    });
    values.collect()
}

fn key_of(table: &Table, row: &Map<String, Value>) -> Vec<(Option<i64>, Option<String>)> {
    let key = table.key.iter().map(|column| {
        let value = &row[column.name];
        (value.as_i64(), value.as_str().map(ToOwned::to_owned))
    });
    key.collect()
}

fn value(column: &Column, row: &Row) -> Result<Value> {
    let Column { name, kind, class } = *column;
    let int = || row.get::<Option<i64>>(name);
    let is_time = ["_at", "_until"].iter().any(|end| name.ends_with(end));
    let is_flag = ["is_", "was_"].iter().any(|begin| name.starts_with(begin));
    Ok(match kind {
        Kind::Int if is_time => json!(int()?.map(Timestamp)),
        Kind::Int if is_flag => json!(int()?.map(|flag| flag != 0)),
        Kind::Int => json!(int()?),
        Kind::Uuid => json!(row.get::<Option<Uuid>>(name)?),
        Kind::Bytes => Value::Null,
        Kind::Text => match row.get::<Option<String>>(name)? {
            Some(text) if class == Some(Class::Json) => as_json(text.as_bytes()),
            text => json!(text),
        },
    })
}

fn record(table: &str, row: &Row) -> Result<Value> {
    match table {
        CustomerEntry::TABLE => aggregates::exported::<CustomerEntry>(row),
        PaymentEntry::TABLE => aggregates::exported::<PaymentEntry>(row),
        SessionEntry::TABLE => aggregates::exported::<SessionEntry>(row),
        Subscription::TABLE => aggregates::exported::<Subscription>(row),
        _ => aggregates::exported::<Order>(row),
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

#[cfg(test)]
#[path = "../tests/unit/person_data.rs"]
mod tests;
