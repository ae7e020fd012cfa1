//! Tests of what is private in `src/migrations/tables.rs`.

use std::collections::BTreeMap;

use super::*;
use crate::migrations;
use crate::sql::Db;

/// What the database itself says that it has: columns, and the key in its sequence.
async fn schema(db: &Db) -> BTreeMap<String, (Vec<String>, Vec<String>)> {
    let query = db.query(
        "select tables.name as table_name, columns.name as column_name, columns.pk as place
         from sqlite_schema as tables, pragma_table_info(tables.name) as columns
         where tables.type = 'table' and tables.name not like '!_%' escape '!'
           and tables.name not like 'sqlite!_%' escape '!'
         order by tables.name, columns.cid",
    );
    let mut schema: BTreeMap<_, (Vec<_>, BTreeMap<i64, String>)> = BTreeMap::new();
    for row in query.fetch_all().await.unwrap() {
        let (columns, key) = schema.entry(row.get("table_name").unwrap()).or_default();
        let name: String = row.get("column_name").unwrap();
        columns.push(name.clone());
        let place: i64 = row.get("place").unwrap();
        if place > 0 {
            key.insert(place, name);
        }
    }
    let tables = schema.into_iter();
    tables
        .map(|(name, (columns, key))| (name, (columns, key.into_values().collect())))
        .collect()
}

#[tokio::test]
async fn every_table_and_column_of_the_schema_is_read_and_has_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/waybill.db", folder.path().display());
    let db = Db::open(&url, 1).await.unwrap();
    migrations::apply(&db).await.unwrap();
    let there = schema(&db).await;
    let names = |columns: &[Column]| columns.iter().map(|it| it.name.to_owned()).collect();
    let read: BTreeMap<String, (Vec<String>, Vec<String>)> = TABLES
        .iter()
        .map(|it| (it.name.to_owned(), (names(&it.columns), names(&it.key))))
        .collect();
    assert_eq!(read, there);
    assert!(read.values().all(|(_, key)| !key.is_empty()));
    db.close().await;
}

#[test]
fn every_text_says_what_it_may_hold() {
    let columns = |table: &'static Table| table.columns.iter().map(move |it| (table.name, it));
    let all = TABLES.iter().flat_map(columns);
    let silent = all.filter(|(_, column)| column.class.is_none());
    let silent: Vec<_> = silent.map(|(table, column)| (table, column.name)).collect();
    assert_eq!(
        silent,
        [],
        "say behind the column in the migration what it may hold"
    );
    let class = |line| column(line).and_then(|it| it.class);
    assert_eq!(class("    name text,"), None);
    assert_eq!(class("    name text not null, -- things"), None);
    assert_eq!(
        class("    name text not null, -- person"),
        Some(Class::Person)
    );
    assert_eq!(class("    id uuid not null"), Some(Class::Thing));
    assert_eq!(
        class("    account bigint, -- account"),
        Some(Class::Account)
    );
}
