//! The `customers` table. Each field has the value of the newest order that had the field.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::sql::{Db, Result, Tx, column};
use domain::order::Customer;
use domain::privacy::{email_key, phone_key};
use domain::time::Timestamp;

/// A customer as an order describes it, with the time of the order's version in Unix
/// milliseconds.
pub struct Seen<'a> {
    pub shop: &'a str,
    pub id: i64,
    pub customer: &'a Customer,
    pub version_at: i64,
}

/// Merges what orders say about their customers, including older orders.
pub async fn upsert(tx: &mut Tx, seen: &[Seen<'_>], now: Timestamp) -> Result<()> {
    let mut customers: BTreeMap<(&str, i64), (i64, [StatedField<'_>; 4])> = BTreeMap::new();
    for one in seen {
        let (newest, fields) = customers
            .entry((one.shop, one.id))
            .or_insert((one.version_at, Default::default()));
        *newest = one.version_at.max(*newest);
        let customer = one.customer;
        let stated = [
            &customer.email,
            &customer.phone,
            &customer.first_name,
            &customer.last_name,
        ];
        for (field, value) in fields.iter_mut().zip(stated) {
            let other = StatedField {
                value: value.as_deref(),
                at: if value.is_some() { one.version_at } else { 0 },
            };
            if other.key() > field.key() {
                *field = other;
            }
        }
    }
    let fields = || customers.values().map(|(_, fields)| fields);
    let value = |index: usize| fields().map(move |fields| fields[index].value);
    let at = |index: usize| fields().map(move |fields| fields[index].at);
    let found_by = |index: usize, key: fn(&str) -> String| -> Vec<Option<String>> {
        fields()
            .map(|fields| fields[index].value.map(key))
            .collect()
    };
    let (emails, phones) = (found_by(0, email_key), found_by(1, phone_key));
    let columns = [
        column("shop", customers.keys().map(|(shop, _)| *shop)),
        column("id", customers.keys().map(|(_, id)| *id)),
        column("email", value(0)),
        column("phone", value(1)),
        column("first_name", value(2)),
        column("last_name", value(3)),
        column("email_key", emails.iter().map(Option::as_deref)),
        column("phone_key", phones.iter().map(Option::as_deref)),
        column("email_at", at(0)),
        column("phone_at", at(1)),
        column("first_name_at", at(2)),
        column("last_name_at", at(3)),
        column("version_at", customers.values().map(|(newest, _)| *newest)),
        column("updated_at", customers.iter().map(|_| now.0)),
    ];
    tx.insert("customers", &columns, &MERGE).await?;
    Ok(())
}

/// A field of a customer, with the time of the order's version that had it. The time is 0 when no
/// order had it.
#[derive(Clone, Copy, Default)]
struct StatedField<'a> {
    value: Option<&'a str>,
    at: i64,
}

impl StatedField<'_> {
    /// A field with a value comes before one without, then the newer, then the greater text.
    fn key(&self) -> (bool, i64, Option<&str>) {
        (self.value.is_some(), self.at, self.value)
    }
}

/// Keeps the newer of a field's two values, in the sequence of [`StatedField::key`], with its
/// time. The expressions of an update see the row as it was before.
const NEWER: &str = "
    VALUE = case when excluded.FIELD is null
                   or (customers.FIELD is not null
                       and (excluded.FIELD_at, excluded.FIELD)
                           < (customers.FIELD_at, customers.FIELD))
                 then customers.VALUE else excluded.VALUE end";

const NEWER_AT: &str = "
    FIELD_at = case when excluded.FIELD is null then customers.FIELD_at
                    when customers.FIELD is null or excluded.FIELD_at > customers.FIELD_at
                    then excluded.FIELD_at else customers.FIELD_at end";

static MERGE: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("email", "email"),
        ("email", "email_key"),
        ("phone", "phone"),
        ("phone", "phone_key"),
        ("first_name", "first_name"),
        ("last_name", "last_name"),
    ];
    let values = values.map(|(field, value)| NEWER.replace("FIELD", field).replace("VALUE", value));
    let times = ["email", "phone", "first_name", "last_name"];
    let times = times.map(|field| NEWER_AT.replace("FIELD", field));
    let fields = [&values[..], &times[..]].concat();
    format!(
        "on conflict (shop, id) do update
         set {},
             version_at = case when excluded.version_at > customers.version_at
                               then excluded.version_at else customers.version_at end,
             updated_at = excluded.updated_at",
        fields.join(",")
    )
});

/// A customer as an operator sees it, without personal data.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    pub updated_at: Timestamp,
    /// When the person was erased.
    pub redacted_at: Option<Timestamp>,
}

pub async fn find(db: &Db, shop: &str, id: i64) -> Result<Option<Summary>> {
    let row = db
        .query("select updated_at, redacted_at from customers where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .fetch_optional()
        .await?;
    let read = |row: crate::sql::Row| {
        Ok(Summary {
            updated_at: Timestamp(row.get("updated_at")?),
            redacted_at: row.get::<Option<i64>>("redacted_at")?.map(Timestamp),
        })
    };
    row.map(read).transpose()
}
