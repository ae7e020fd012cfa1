//! Compares the columns in the database with the list that says which of them may hold personal
//! data.

use std::collections::BTreeSet;

use store::erasure::ERASED;
use store::person_data::{DELIVERY, EXPORTED};
use store::sql::Db;

use super::columns::{ACCOUNTS, PLAIN, SEALED};
use crate::support::backend::is_distributed;
use crate::support::service;

type Columns = BTreeSet<(String, String)>;

fn listed(list: &[(&str, &str)]) -> Columns {
    let columns = list.iter().flat_map(|(table, columns)| {
        let columns = columns.split_whitespace();
        columns.map(|column| ((*table).to_owned(), column.to_owned()))
    });
    columns.collect()
}

fn named(list: &[(&str, &[&str])]) -> Columns {
    let columns = list.iter().flat_map(|(table, columns)| {
        let columns = columns.iter();
        columns.map(|column| ((*table).to_owned(), (*column).to_owned()))
    });
    columns.collect()
}

/// Every column of every table, but those of the list of migrations.
async fn schema(db: &Db) -> Columns {
    let sql = if is_distributed() {
        "select cast(table_name as text) as name, cast(column_name as text) as field
         from information_schema.columns where table_schema = current_schema()"
    } else {
        "select m.name as name, p.name as field
         from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table'"
    };
    let rows = db.query(sql).fetch_all().await.unwrap();
    let columns = rows
        .iter()
        .map(|row| (row.get("name").unwrap(), row.get("field").unwrap()));
    columns
        .filter(|(table, _): &(String, String)| !table.starts_with("_sqlx"))
        .collect()
}

#[tokio::test]
async fn every_column_of_the_schema_is_known_for_what_it_may_hold() {
    let service = service().without_workers().start().await;
    let [accounts, sealed, plain] = [ACCOUNTS, SEALED, PLAIN].map(listed);
    let lists = [named(ERASED), accounts, sealed, plain];
    let known: Columns = lists.iter().flatten().cloned().collect();
    let entries: usize = lists.iter().map(BTreeSet::len).sum();
    assert_eq!(known.len(), entries, "a column is listed once");
    let schema = schema(service.db()).await;
    assert!(schema.len() > 200, "{}", schema.len());
    let unknown: Vec<_> = schema.difference(&known).collect();
    assert_eq!(
        unknown,
        Vec::<&(String, String)>::new(),
        "new columns: say in columns.rs what they may hold, or erase them (`store::erasure`) and export \
         them (`store::person_data`)"
    );
    let gone: Vec<_> = known.difference(&schema).collect();
    assert_eq!(gone, Vec::<&(String, String)>::new());
    service.stop().await;
}

#[test]
fn whatever_is_personal_is_exported() {
    let of_table = |table: &store::person_data::Table| {
        let columns = table.columns.iter();
        let columns = columns.map(|column| (table.name.to_owned(), column.name.to_owned()));
        columns.collect::<Vec<_>>()
    };
    let mut exported: Columns = EXPORTED.iter().flat_map(of_table).collect();
    exported.extend(named(&[("deliveries", DELIVERY)]));
    let kept: Vec<_> = named(ERASED).difference(&exported).cloned().collect();
    assert_eq!(kept, Vec::<(String, String)>::new());
}
