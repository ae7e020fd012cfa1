//! Orders as records: they are read under a lock, merged by the caller, and written back whole.
//! The key of an order is its shop and the provider's id.

use std::collections::{BTreeMap, HashSet};

use crate::sql::{Cell, Result, Row, Tx, column};
use crate::{json, order_lines, parsed, shipments};
use domain::money::Currency;
use domain::order::record::{Addresses, Cancellation, Contact, Part, Record, Totals, Version};
use domain::order::settlement::Settlement;
use domain::order::{FinancialStatus, FulfillmentStatus, OrderKey};
use domain::privacy::{email_key, phone_key};
use domain::record::Rest;
use domain::time::Timestamp;

/// Inserts those orders that do not exist yet, with their lines, and returns their keys. If
/// another transaction is inserting the same order, this waits for it.
pub async fn insert_new(
    tx: &mut Tx,
    orders: &BTreeMap<OrderKey, Record>,
    now: Timestamp,
) -> Result<HashSet<OrderKey>> {
    let rows = orders.iter().map(|(key, record)| row(key, record, now));
    let new = "on conflict (shop, id) do nothing returning shop, id";
    let inserted = tx
        .insert("orders", rows.collect::<Result<_>>()?, new)
        .await?;
    let inserted: HashSet<OrderKey> = inserted
        .iter()
        .map(|row| Ok((row.get("shop")?, row.get("id")?)))
        .collect::<Result<_>>()?;
    let lines: Vec<_> = orders
        .iter()
        .filter(|(key, _)| inserted.contains(*key))
        .map(|(key, record)| (key, record.lines.value.as_slice()))
        .collect();
    order_lines::insert(tx, &lines).await?;
    Ok(inserted)
}

/// Overwrites orders that [`load`] has locked, but not their lines.
pub async fn save(tx: &mut Tx, orders: &[(&OrderKey, &Record)], now: Timestamp) -> Result<()> {
    let rows = orders.iter().map(|(key, record)| row(key, record, now));
    let rows = rows.collect::<Result<_>>()?;
    let revision = ", revision = orders.revision + 1";
    tx.overwrite("orders", "shop, id", rows, revision).await
}

/// Records which order has taken the place of another one.
pub async fn set_successor(tx: &mut Tx, key: &OrderKey, successor: &OrderKey) -> Result<()> {
    tx.query("update orders set successor_shop = $1, successor_id = $2 where shop = $3 and id = $4")
        .bind(successor.0.as_str())
        .bind(successor.1)
        .bind(key.0.as_str())
        .bind(key.1)
        .done()
        .await
}

fn row<'a>(key: &'a OrderKey, record: &'a Record, now: Timestamp) -> Result<[Cell<'a>; 34]> {
    let totals = &record.totals.value;
    let email = record.contact.value.email.as_deref();
    let phone = record.contact.value.phone.as_deref();
    let addresses = &record.addresses.value;
    let financial = record.financial.value.as_ref();
    let fulfillment = record.fulfillment.value.as_ref();
    let cancelled = record.cancelled.as_ref();
    let settled = &record.settled;
    Ok([
        column("shop", &key.0),
        column("id", key.1),
        column("name", record.name.value.as_deref()),
        column("ordered_at", record.ordered_at),
        column("customer_id", record.customer.value),
        column("email", email),
        column("phone", phone),
        column("email_key", email.map(email_key)),
        column("phone_key", phone.map(phone_key)),
        column("currency", totals.currency.map(|it| it.to_string())),
        column("total_minor", totals.total),
        column("subtotal_minor", totals.subtotal),
        column("tax_minor", totals.tax),
        column("outstanding_minor", record.outstanding.value),
        column("financial_status", financial.map(FinancialStatus::as_str)),
        column(
            "fulfillment_status",
            fulfillment.map(FulfillmentStatus::as_str),
        ),
        column("shipping_address", addresses.shipping.as_deref()),
        column("billing_address", addresses.billing.as_deref()),
        column("refunds", refunds(record)?),
        column("pact_id", record.agreement.value.as_deref()),
        column("cancelled_at", cancelled.map(|it| it.at)),
        column(
            "cancel_reason",
            cancelled.and_then(|it| it.reason.as_deref()),
        ),
        column("was_paid", record.was_paid),
        column("was_refunded", record.was_refunded),
        column("was_fulfilled", record.was_fulfilled),
        column("version_at", record.version.at),
        column("version_tie", record.version.tie),
        column("part_versions", part_versions(record)?),
        column(
            "payment_status",
            settled.status.as_ref().map(FinancialStatus::as_str),
        ),
        column("payment_covers", settled.covers),
        column("payment_canceled_at", settled.canceled_at),
        column("waits_until", record.waits_until),
        column("created_at", now),
        column("updated_at", now),
    ])
}

/// The orders with these keys, locked, with their lines and shipments. The keys must be sorted,
/// so that all transactions that lock several orders lock them in the same sequence.
pub async fn load(tx: &mut Tx, keys: &[&OrderKey]) -> Result<BTreeMap<OrderKey, Record>> {
    let keys: Vec<OrderKey> = keys.iter().map(|key| (*key).clone()).collect();
    let mut records = BTreeMap::new();
    if keys.is_empty() {
        return Ok(records);
    }
    let rows = tx.query(LOAD).bind(keys).fetch_all().await?;
    for row in &rows {
        records.insert((row.get("shop")?, row.get("id")?), read(row)?);
    }
    // Lines and shipments are of orders that are there.
    let found: Vec<OrderKey> = records.keys().cloned().collect();
    if found.is_empty() {
        return Ok(records);
    }
    for (key, line) in order_lines::of(tx, found.clone()).await? {
        if let Some(record) = records.get_mut(&key) {
            record.lines.value.push(line);
        }
    }
    for (key, id, shipment) in shipments::of(tx, found).await? {
        if let Some(record) = records.get_mut(&key) {
            record.shipments.insert(id, shipment);
        }
    }
    Ok(records)
}

/// The columns are named, because a prepared `*` fails after a migration has added a column.
const LOAD: &str = "select shop, id, name, ordered_at, customer_id, email, phone, currency, total_minor,
                           subtotal_minor, tax_minor, outstanding_minor, financial_status,
                           fulfillment_status, shipping_address, billing_address, refunds,
                           pact_id, cancelled_at, cancel_reason, was_paid, was_refunded,
                           was_fulfilled, version_at, version_tie, part_versions, payment_status, payment_covers,
                           payment_canceled_at, waits_until
                    from orders
                    where (shop, id) in ($1..)
                    order by shop, id
                    for update";

fn read(row: &Row) -> Result<Record> {
    let version = Version {
        at: row.get("version_at")?,
        tie: row.get("version_tie")?,
    };
    let part_versions: BTreeMap<String, Version> =
        match row.get::<Option<String>>("part_versions")? {
            Some(part_versions) => parsed(&part_versions)?,
            None => BTreeMap::new(),
        };
    let reported = |part: &str| part_versions.get(part).copied().unwrap_or(version);
    let currency: Option<String> = row.get("currency")?;
    let financial: Option<String> = row.get("financial_status")?;
    let fulfillment: Option<String> = row.get("fulfillment_status")?;
    let payment: Option<String> = row.get("payment_status")?;
    let reason: Option<String> = row.get("cancel_reason")?;
    let cancelled: Option<i64> = row.get("cancelled_at")?;
    let refunds: Option<String> = row.get("refunds")?;
    Ok(Record {
        version,
        name: Part {
            version: reported("name"),
            value: row.get("name")?,
        },
        ordered_at: row.get("ordered_at")?,
        totals: Part {
            version: reported("totals"),
            value: Totals {
                currency: currency.and_then(|code| Currency::parse(&code)),
                total: row.get("total_minor")?,
                subtotal: row.get("subtotal_minor")?,
                tax: row.get("tax_minor")?,
            },
        },
        outstanding: Part {
            version: reported("outstanding"),
            value: row.get("outstanding_minor")?,
        },
        financial: Part {
            version: reported("financial"),
            value: financial.map(Into::into),
        },
        fulfillment: Part {
            version: reported("fulfillment"),
            value: fulfillment.map(Into::into),
        },
        lines: Part {
            version: reported("lines"),
            value: Vec::new(),
        },
        customer: Part {
            version: reported("customer"),
            value: row.get("customer_id")?,
        },
        contact: Part {
            version: reported("contact"),
            value: Contact {
                email: row.get("email")?,
                phone: row.get("phone")?,
            },
        },
        addresses: Part {
            version: reported("addresses"),
            value: Addresses {
                shipping: row.get("shipping_address")?,
                billing: row.get("billing_address")?,
            },
        },
        refunds: Part {
            version: reported("refunds"),
            value: match refunds {
                Some(refunds) => parsed(&refunds)?,
                None => Vec::new(),
            },
        },
        agreement: Part {
            version: reported("pact"),
            value: row.get("pact_id")?,
        },
        cancelled: cancelled.map(|at| Cancellation { at, reason }),
        was_paid: row.get("was_paid")?,
        was_refunded: row.get("was_refunded")?,
        was_fulfilled: row.get("was_fulfilled")?,
        shipments: BTreeMap::new(),
        settled: Settlement {
            status: payment.map(Into::into),
            covers: row.get("payment_covers")?,
            canceled_at: row.get("payment_canceled_at")?,
        },
        waits_until: row.get("waits_until")?,
        rest: Rest::default(),
    })
}

fn refunds(record: &Record) -> Result<Option<String>> {
    let refunds = &record.refunds.value;
    (!refunds.is_empty()).then(|| json(refunds)).transpose()
}

/// The versions of the parts that the newest body did not have.
fn part_versions(record: &Record) -> Result<Option<String>> {
    let parts = [
        ("name", record.name.version),
        ("totals", record.totals.version),
        ("financial", record.financial.version),
        ("fulfillment", record.fulfillment.version),
        ("lines", record.lines.version),
        ("outstanding", record.outstanding.version),
        ("customer", record.customer.version),
        ("contact", record.contact.version),
        ("addresses", record.addresses.version),
        ("refunds", record.refunds.version),
        ("pact", record.agreement.version),
    ];
    let part_versions: BTreeMap<&str, Version> = parts
        .into_iter()
        .filter(|(_, version)| *version != record.version)
        .collect();
    (!part_versions.is_empty())
        .then(|| json(&part_versions))
        .transpose()
}
