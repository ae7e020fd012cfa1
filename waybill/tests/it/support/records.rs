//! The records of rows, for tests that look into them or change them behind the service's back.

use domain::order::OrderKey;
use domain::order::record::{Part, Record, Version};
use domain::record;
use domain::time::Timestamp;
use serde_json::Value;
use store::aggregates;
use store::orders::records::insert_new;
use store::sql::{Db, Row};

use super::backend::statement;

/// The records of the rows of a table, `payments`, or of some of them, `payments where id = 'pi_1'`.
pub async fn records(db: &Db, rows: &str) -> Vec<Value> {
    let texts = texts(db, rows).await;
    let records = texts.iter().map(|text| serde_json::from_str(text));
    records.collect::<Result<_, _>>().unwrap()
}

/// The value of a part of each record that has it.
pub async fn values(db: &Db, rows: &str, part: &str) -> Vec<Value> {
    let records = records(db, rows).await;
    let parts = records.iter().map(|record| &record[part]["value"]);
    parts.filter(|value| !value.is_null()).cloned().collect()
}

/// The records as they are written.
pub async fn texts(db: &Db, rows: &str) -> Vec<String> {
    let keyed = keyed(db, rows).await.into_iter();
    keyed.map(|(_, text)| text).collect()
}

/// Replaces each record by what `change` makes of its text.
pub async fn edit(db: &Db, rows: &str, change: impl Fn(&str) -> String) {
    let table = rows.split(' ').next().unwrap();
    let key = key(table);
    let update = statement(format!("update {table} set record = $1 where {key} = $2"));
    let keyed = keyed(db, rows).await;
    assert!(!keyed.is_empty(), "{rows}");
    let mut tx = db.begin().await.unwrap();
    for (key, text) in keyed {
        let query = tx.query(update).bind(change(&text)).bind(key);
        query.execute().await.unwrap();
    }
    tx.commit().await.unwrap();
}

/// The rows' keys, each as one text, and their records.
async fn keyed(db: &Db, rows: &str) -> Vec<(String, String)> {
    let key = key(rows.split(' ').next().unwrap());
    let sql = statement(format!(
        "select {key} as name, record from {rows} order by 1"
    ));
    let rows = db.query(sql).fetch_all().await.unwrap();
    let keyed = rows
        .iter()
        .map(|row| (row.get("name").unwrap(), row.get("record").unwrap()));
    keyed.collect()
}

fn key(table: &str) -> &'static str {
    match table {
        "customers" | "orders" => "shop || ' ' || cast(id as text)",
        _ => "id",
    }
}

fn order_key(row: &Row) -> OrderKey {
    (row.get("shop").unwrap(), row.get("id").unwrap())
}

/// All orders, sorted by their keys.
pub async fn orders(db: &Db) -> Vec<(OrderKey, Record)> {
    let all = "select shop, id, record from orders order by shop, id";
    let rows = db.query(all).fetch_all().await.unwrap();
    let orders = rows.iter().map(|row| {
        let text: String = row.get("record").unwrap();
        (order_key(row), record::read(&text).unwrap())
    });
    orders.collect()
}

/// Orders with a link to their page. Every order has one.
pub async fn with_page(db: &Db) -> i64 {
    let orders = orders(db).await.into_iter();
    let with_page = orders.filter(|(_, order)| order.own.page_url.is_some());
    i64::try_from(with_page.count()).unwrap()
}

/// Changes orders, `orders where id = 41`, as nothing in the service does.
pub async fn change_orders(db: &Db, rows: &str, change: impl Fn(&mut Record)) {
    let keys = statement(format!("select shop, id from {rows}"));
    let keys: Vec<OrderKey> = {
        let rows = db.query(keys).fetch_all().await.unwrap();
        rows.iter().map(order_key).collect()
    };
    assert!(!keys.is_empty(), "{rows}");
    let mut tx = db.begin().await.unwrap();
    aggregates::edit(&mut tx, keys, change).await.unwrap();
    tx.commit().await.unwrap();
}

/// Inserts an order, which became known then.
pub async fn insert_order(db: &Db, key: &OrderKey, mut order: Record, known_at: i64) {
    order.own.known_at = known_at;
    let mut tx = db.begin().await.unwrap();
    let inserted = insert_new(&mut tx, [(key, &order)], Timestamp(known_at)).await;
    assert_eq!(inserted.unwrap().len(), 1);
    tx.commit().await.unwrap();
}

/// An order of which nothing is known.
pub fn unknown_order() -> Record {
    Record::unknown(Version { at: 1, tie: 0 })
}

/// A part as some version said it.
pub fn part<T>(value: T) -> Part<T> {
    let version = Version { at: 1, tie: 0 };
    Part { version, value }
}
