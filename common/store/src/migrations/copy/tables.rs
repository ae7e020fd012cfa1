//! The tables that are copied, as the migrations make them, and the statements for each.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::migrations::ALL;
use crate::sql::{self, Cell, Result, Row, Value};

/// A table that is not copied: its rows are about processes that run.
pub const OF_PROCESSES: &str = "leases";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Int,
    Bytes,
    Uuid,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// A table with its statements, which both databases understand.
pub struct Table {
    pub name: &'static str,
    pub columns: Vec<Column>,
    /// The columns of the primary key, in its sequence.
    pub key: Vec<Column>,
    pub count: String,
    /// The first rows by key, and those after a key.
    pub first: String,
    pub next: String,
}

/// The tables in the sequence in which they were made, so that a row comes after those to which it
/// refers.
pub static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let mut tables: Vec<Table> = ALL.iter().flat_map(|(_, _, sql)| read(sql)).collect();
    tables.retain(|table| table.name != OF_PROCESSES);
    tables
});

fn read(sql: &'static str) -> Vec<Table> {
    let made = sql.split("\ncreate table ").skip(1);
    let made = made.filter_map(|text| text.split_once("\n);").map(|(table, _)| table));
    made.filter_map(|text| text.split_once(" ("))
        .map(|(name, columns)| Table::new(name, columns))
        .collect()
}

/// A column, from its line in a migration. None for a comment or a constraint.
fn column(line: &'static str) -> Option<Column> {
    let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
    let (name, kind) = (words.next()?, words.next()?);
    let kind = match kind {
        "text" => Kind::Text,
        "bigint" => Kind::Int,
        "bytea" => Kind::Bytes,
        "uuid" => Kind::Uuid,
        _ => return None,
    };
    (name != "--").then_some(Column { name, kind })
}

/// The names of the columns of the primary key, which is said of a column or in a line of its own.
fn key(columns: &'static str) -> Vec<&'static str> {
    let mut key = Vec::new();
    for line in columns.lines() {
        let line = line.trim();
        if let Some(names) = line.strip_prefix("primary key (") {
            let names = names.split(')').next().unwrap_or_default();
            return names.split(',').map(str::trim).collect();
        }
        if !line.starts_with("--") && line.contains(" primary key") {
            key.extend(line.split(' ').next());
        }
    }
    key
}

impl Table {
    fn new(name: &'static str, definition: &'static str) -> Self {
        let columns: Vec<Column> = definition.lines().filter_map(column).collect();
        let of_name = |name: &str| columns.iter().find(|it| it.name == name).copied();
        let key: Vec<Column> = key(definition).into_iter().filter_map(of_name).collect();
        let list = |columns: &[Column], prefix: &str| {
            let names = columns.iter().map(|it| format!("{prefix}{}", it.name));
            names.collect::<Vec<_>>().join(", ")
        };
        let names = list(&columns, "");
        let keys = list(&key, "");
        let keys = if key.len() > 1 {
            format!("({keys})")
        } else {
            keys
        };
        let places: Vec<String> = (1..=key.len()).map(|nth| format!("${nth}")).collect();
        let sorted = format!("order by {} limit", list(&key, ""));
        let places = if key.len() > 1 {
            format!("({})", places.join(", "))
        } else {
            places.join("")
        };
        Table {
            count: format!("select count(*) as n from {name}"),
            first: format!("select {names} from {name} {sorted} $1"),
            next: format!(
                "select {names} from {name} where {keys} > {places} {sorted} ${}",
                key.len() + 1
            ),
            name,
            columns,
            key,
        }
    }
}

/// The values of these columns in a row, each with its column's name.
pub fn values(columns: &[Column], row: &Row) -> Result<Vec<Cell<'static>>> {
    let value = |column: &Column| -> Result<Cell<'static>> {
        let name = column.name;
        Ok(match column.kind {
            Kind::Text => sql::column(name, row.get::<Option<String>>(name)?),
            Kind::Int => sql::column(name, row.get::<Option<i64>>(name)?),
            Kind::Bytes => sql::column(name, row.get::<Option<Vec<u8>>>(name)?),
            Kind::Uuid => sql::column(name, row.get::<Option<Uuid>>(name)?),
        })
    };
    columns.iter().map(value).collect()
}

/// Adds a value to what a row is compared by, so that no two different rows add the same.
pub fn digest_into(value: &Value<'_>, digest: &mut Sha256) {
    let number = value.int().map(i64::to_be_bytes);
    let id = value.uuid();
    let number = number.as_ref().map(<[u8; 8]>::as_slice);
    let id = id.as_ref().map(|id| id.as_bytes().as_slice());
    let text = value.text().map(str::as_bytes);
    match text.or(value.bytes()).or(number).or(id) {
        None => digest.update([0]),
        Some(bytes) => {
            digest.update([1]);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/migrations/copy/tables.rs"]
mod tests;
