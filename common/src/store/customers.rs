//! The `customers` table. Each field is as new as the newest order that told it.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::order::Customer;
use crate::sql::{Result, Tx, column};

/// A customer as an order of a given time (Unix milliseconds) described it.
pub struct Seen<'a> {
    pub shop: &'a str,
    pub id: i64,
    pub customer: &'a Customer,
    pub version_at: i64,
}

/// Takes in what orders said of their customers, older ones too.
pub async fn upsert(tx: &mut Tx, seen: &[Seen<'_>], now: Timestamp) -> Result<()> {
    let mut customers: BTreeMap<(&str, i64), (i64, [Told<'_>; 4])> = BTreeMap::new();
    for one in seen {
        let (newest, fields) = customers
            .entry((one.shop, one.id))
            .or_insert((one.version_at, Default::default()));
        *newest = one.version_at.max(*newest);
        let customer = one.customer;
        let told = [
            &customer.email,
            &customer.phone,
            &customer.first_name,
            &customer.last_name,
        ];
        for (field, value) in fields.iter_mut().zip(told) {
            let other = Told {
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
    let columns = [
        column("shop", customers.keys().map(|(shop, _)| *shop)),
        column("id", customers.keys().map(|(_, id)| *id)),
        column("email", value(0)),
        column("phone", value(1)),
        column("first_name", value(2)),
        column("last_name", value(3)),
        column("email_at", at(0)),
        column("phone_at", at(1)),
        column("first_name_at", at(2)),
        column("last_name_at", at(3)),
        column("version_at", customers.values().map(|(newest, _)| *newest)),
        column("updated_at", customers.iter().map(|_| now.0)),
    ];
    tx.insert("customers", &columns, MERGE).await?;
    Ok(())
}

/// A field that an order told at a time; 0 when it did not.
#[derive(Clone, Copy, Default)]
struct Told<'a> {
    value: Option<&'a str>,
    at: i64,
}

impl Told<'_> {
    /// What is told comes before what is not, then the newer, then the greater text.
    fn key(&self) -> (bool, i64, Option<&str>) {
        (self.value.is_some(), self.at, self.value)
    }
}

/// As [`Told::key`] orders them. The expressions of an update see the row as it was.
const MERGE: &str = "on conflict (shop, id) do update
    set email = case when excluded.email is null
                       or (customers.email is not null
                           and (excluded.email_at, excluded.email)
                               < (customers.email_at, customers.email))
                     then customers.email else excluded.email end,
        email_at = case when excluded.email is null then customers.email_at
                        when customers.email is null or excluded.email_at > customers.email_at
                        then excluded.email_at else customers.email_at end,
        phone = case when excluded.phone is null
                       or (customers.phone is not null
                           and (excluded.phone_at, excluded.phone)
                               < (customers.phone_at, customers.phone))
                     then customers.phone else excluded.phone end,
        phone_at = case when excluded.phone is null then customers.phone_at
                        when customers.phone is null or excluded.phone_at > customers.phone_at
                        then excluded.phone_at else customers.phone_at end,
        first_name = case when excluded.first_name is null
                       or (customers.first_name is not null
                           and (excluded.first_name_at, excluded.first_name)
                               < (customers.first_name_at, customers.first_name))
                     then customers.first_name else excluded.first_name end,
        first_name_at = case when excluded.first_name is null then customers.first_name_at
                        when customers.first_name is null
                          or excluded.first_name_at > customers.first_name_at
                        then excluded.first_name_at else customers.first_name_at end,
        last_name = case when excluded.last_name is null
                       or (customers.last_name is not null
                           and (excluded.last_name_at, excluded.last_name)
                               < (customers.last_name_at, customers.last_name))
                     then customers.last_name else excluded.last_name end,
        last_name_at = case when excluded.last_name is null then customers.last_name_at
                        when customers.last_name is null
                          or excluded.last_name_at > customers.last_name_at
                        then excluded.last_name_at else customers.last_name_at end,
        version_at = case when excluded.version_at > customers.version_at
                          then excluded.version_at else customers.version_at end,
        updated_at = excluded.updated_at";
