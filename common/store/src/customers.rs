//! The `customers` table. Each field has the value of the newest order that had the field.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::sql::{Db, FromRow, Result, Tx, column};
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
pub async fn upsert<'a>(tx: &mut Tx, seen: &[Seen<'a>], now: Timestamp) -> Result<()> {
    let mut customers: BTreeMap<(&str, i64), (i64, [StatedField<'a>; 4])> = BTreeMap::new();
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
    let rows = customers.iter().map(|(&(shop, id), (newest, fields))| {
        let [email, phone, first_name, last_name] = *fields;
        [
            column("shop", shop),
            column("id", id),
            column("email", email.value),
            column("phone", phone.value),
            column("first_name", first_name.value),
            column("last_name", last_name.value),
            column("email_key", email.value.map(email_key)),
            column("phone_key", phone.value.map(phone_key)),
            column("email_at", email.at),
            column("phone_at", phone.at),
            column("first_name_at", first_name.at),
            column("last_name_at", last_name.at),
            column("version_at", *newest),
            column("updated_at", now),
        ]
    });
    tx.insert("customers", rows.collect(), &MERGE).await?;
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
#[derive(Clone, Copy, Debug, FromRow)]
pub struct Summary {
    pub updated_at: Timestamp,
    /// When the person was erased.
    pub redacted_at: Option<Timestamp>,
}

pub async fn find(db: &Db, shop: &str, id: i64) -> Result<Option<Summary>> {
    db.query("select updated_at, redacted_at from customers where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .first(Summary::from_row)
        .await
}
