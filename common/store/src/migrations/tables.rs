//! The tables as the migrations make them, and the statements that copy each. Behind each column stands what it may hold.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};
use strum::EnumString;
use uuid::Uuid;

use crate::migrations::ALL;
use crate::sql::{self, Cell, Result, Row, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Int,
    Bytes,
    Uuid,
}

/// What a column may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Class {
    /// What may identify a person of a shop.
    Person,
    /// The JSON of a record, whose members say what they hold.
    Record,
    /// What identifies an account of the identity provider, which storefronts know nothing about, or a name that an operator
    /// gave. An operator deletes these.
    Account,
    /// A hash, a ciphertext or a key.
    Sealed,
    /// An id, an amount, a time, a state, or a text that is about nobody.
    Thing,
    /// A thing, as JSON.
    Json,
    /// A thing that Waybill needs for its own work, and that says nothing of what it is about.
    Own,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// None: a text that does not say it.
    pub class: Option<Class>,
}

impl Column {
    /// Whether it may hold what identifies a person of a shop.
    pub fn is_personal(&self) -> bool {
        matches!(self.class, Some(Class::Person | Class::Record))
    }
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
pub static TABLES: LazyLock<Vec<Table>> =
    LazyLock::new(|| ALL.iter().flat_map(|(_, _, sql)| read(sql)).collect());

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
    let class = words.skip_while(|word| *word != "--").nth(1);
    let class = class.and_then(|word| word.parse().ok());
    let is_thing = matches!(kind, Kind::Int | Kind::Uuid);
    (name != "--").then_some(Column {
        name,
        kind,
        class: class.or(is_thing.then_some(Class::Thing)),
    })
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
#[path = "../../tests/unit/migrations/tables.rs"]
mod tests;
