//! The records of rows, for tests that look into them or change them behind the service's back.

use serde_json::Value;
use store::sql::Db;

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
        "customers" => "shop || ' ' || cast(id as text)",
        _ => "id",
    }
}
