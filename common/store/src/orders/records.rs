//! Orders as records: they are read under a lock, merged by the caller, and written back whole.
//! The key of an order is its shop and the provider's id.

use std::collections::{BTreeMap, HashSet};

use crate::sql::{Column, Result, Row, Tx, column};
use crate::{json, order_lines, parsed, shipments};
use domain::event::LastEvent;
use domain::money::Currency;
use domain::order::record::{Addresses, Cancellation, Contact, Part, Record, Totals, Version};
use domain::order::settlement::Settlement;
use domain::order::{FinancialStatus, FulfillmentStatus, OrderKey};
use domain::privacy::{email_key, phone_key};
use domain::time::Timestamp;

/// An order as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct OrderEntry {
    pub record: Record,
    /// The time in the id of the order's last event. The next event's id gets a later time.
    pub events_at: LastEvent,
}

/// Inserts those orders that do not exist yet, with their lines, and returns their keys. If
/// another transaction is inserting the same order, this waits for it.
pub async fn insert_new(
    tx: &mut Tx,
    orders: &BTreeMap<OrderKey, OrderEntry>,
    now: Timestamp,
) -> Result<HashSet<OrderKey>> {
    let rows: Vec<(&OrderKey, &OrderEntry)> = orders.iter().collect();
    let inserted = insert(
        tx,
        &rows,
        now,
        "on conflict (shop, id) do nothing returning shop, id",
    )
    .await?;
    let inserted: HashSet<OrderKey> = inserted
        .iter()
        .map(|row| Ok((row.get("shop")?, row.get("id")?)))
        .collect::<Result<_>>()?;
    let lines: Vec<_> = orders
        .iter()
        .filter(|(key, _)| inserted.contains(*key))
        .map(|(key, entry)| (key, entry.record.lines.value.as_slice()))
        .collect();
    order_lines::insert(tx, &lines).await?;
    Ok(inserted)
}

/// Overwrites orders that [`load`] has locked, but not their lines.
pub async fn save(tx: &mut Tx, orders: &[(&OrderKey, &OrderEntry)], now: Timestamp) -> Result<()> {
    insert(
        tx,
        orders,
        now,
        "on conflict (shop, id) do update
         set name = excluded.name, ordered_at = excluded.ordered_at,
             customer_id = excluded.customer_id, email = excluded.email, phone = excluded.phone,
             email_key = excluded.email_key, phone_key = excluded.phone_key,
             currency = excluded.currency, total_minor = excluded.total_minor,
             subtotal_minor = excluded.subtotal_minor, tax_minor = excluded.tax_minor,
             outstanding_minor = excluded.outstanding_minor,
             financial_status = excluded.financial_status,
             fulfillment_status = excluded.fulfillment_status,
             shipping_address = excluded.shipping_address,
             billing_address = excluded.billing_address,
             refunds = excluded.refunds, pact_id = excluded.pact_id,
             cancelled_at = excluded.cancelled_at, cancel_reason = excluded.cancel_reason,
             was_paid = excluded.was_paid, was_refunded = excluded.was_refunded,
             was_fulfilled = excluded.was_fulfilled,
             version_at = excluded.version_at, version_tie = excluded.version_tie,
             part_versions = excluded.part_versions, payment_status = excluded.payment_status,
             payment_covers = excluded.payment_covers,
             payment_canceled_at = excluded.payment_canceled_at,
             waits_until = excluded.waits_until, events_at = excluded.events_at,
             revision = orders.revision + 1, updated_at = excluded.updated_at",
    )
    .await?;
    Ok(())
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

async fn insert(
    tx: &mut Tx,
    orders: &[(&OrderKey, &OrderEntry)],
    now: Timestamp,
    rest: &str,
) -> Result<Vec<Row>> {
    let records = || orders.iter().map(|(_, entry)| &entry.record);
    let currencies: Vec<Option<String>> = records()
        .map(|record| record.totals.value.currency.map(|it| it.to_string()))
        .collect();
    let refunds: Vec<Option<String>> = records().map(refunds).collect::<Result<_>>()?;
    let part_versions: Vec<Option<String>> = records().map(part_versions).collect::<Result<_>>()?;
    let emails: Vec<Option<String>> = records()
        .map(|it| it.contact.value.email.as_deref().map(email_key))
        .collect();
    let phones: Vec<Option<String>> = records()
        .map(|it| it.contact.value.phone.as_deref().map(phone_key))
        .collect();
    let money = |part: fn(&Totals) -> Option<i64>| records().map(move |it| part(&it.totals.value));
    let flag = |flag: fn(&Record) -> bool| records().map(move |record| i64::from(flag(record)));
    let columns: Vec<Column<'_>> = vec![
        column("shop", orders.iter().map(|((shop, _), _)| shop.as_str())),
        column("id", orders.iter().map(|((_, id), _)| *id)),
        column("name", records().map(|it| it.name.value.as_deref())),
        column("ordered_at", records().map(|it| it.ordered_at)),
        column("customer_id", records().map(|it| it.customer.value)),
        column(
            "email",
            records().map(|it| it.contact.value.email.as_deref()),
        ),
        column(
            "phone",
            records().map(|it| it.contact.value.phone.as_deref()),
        ),
        column("email_key", emails.iter().map(Option::as_deref)),
        column("phone_key", phones.iter().map(Option::as_deref)),
        column("currency", currencies.iter().map(Option::as_deref)),
        column("total_minor", money(|totals| totals.total)),
        column("subtotal_minor", money(|totals| totals.subtotal)),
        column("tax_minor", money(|totals| totals.tax)),
        column(
            "outstanding_minor",
            records().map(|it| it.outstanding.value),
        ),
        column(
            "financial_status",
            records().map(|it| it.financial.value.as_ref().map(FinancialStatus::as_str)),
        ),
        column(
            "fulfillment_status",
            records().map(|it| it.fulfillment.value.as_ref().map(FulfillmentStatus::as_str)),
        ),
        column(
            "shipping_address",
            records().map(|it| it.addresses.value.shipping.as_deref()),
        ),
        column(
            "billing_address",
            records().map(|it| it.addresses.value.billing.as_deref()),
        ),
        column("refunds", refunds.iter().map(Option::as_deref)),
        column("pact_id", records().map(|it| it.agreement.value.as_deref())),
        column(
            "cancelled_at",
            records().map(|it| it.cancelled.as_ref().map(|it| it.at)),
        ),
        column(
            "cancel_reason",
            records().map(|it| it.cancelled.as_ref().and_then(|it| it.reason.as_deref())),
        ),
        column("was_paid", flag(|record| record.was_paid)),
        column("was_refunded", flag(|record| record.was_refunded)),
        column("was_fulfilled", flag(|record| record.was_fulfilled)),
        column("version_at", records().map(|record| record.version.at)),
        column("version_tie", records().map(|record| record.version.tie)),
        column("part_versions", part_versions.iter().map(Option::as_deref)),
        column(
            "payment_status",
            records().map(|it| it.settled.status.as_ref().map(FinancialStatus::as_str)),
        ),
        column("payment_covers", flag(|record| record.settled.covers)),
        column(
            "payment_canceled_at",
            records().map(|it| it.settled.canceled_at),
        ),
        column("waits_until", records().map(|it| it.waits_until)),
        column(
            "events_at",
            orders.iter().map(|(_, entry)| entry.events_at.millis()),
        ),
        column("created_at", orders.iter().map(|_| now.0)),
        column("updated_at", orders.iter().map(|_| now.0)),
    ];
    tx.insert("orders", &columns, rest).await
}

/// The orders with these keys, locked, with their lines and shipments. The keys must be sorted,
/// so that all transactions that lock several orders lock them in the same sequence.
pub async fn load(tx: &mut Tx, keys: &[&OrderKey]) -> Result<BTreeMap<OrderKey, OrderEntry>> {
    let keys: Vec<OrderKey> = keys.iter().map(|key| (*key).clone()).collect();
    let mut entries = BTreeMap::new();
    let rows = tx.query(LOAD).bind(keys).fetch_all().await?;
    for row in &rows {
        entries.insert((row.get("shop")?, row.get("id")?), read(row)?);
    }
    // Lines and shipments are of orders that are there.
    let found: Vec<OrderKey> = entries.keys().cloned().collect();
    if found.is_empty() {
        return Ok(entries);
    }
    for (key, line) in order_lines::of(tx, found.clone()).await? {
        if let Some(entry) = entries.get_mut(&key) {
            entry.record.lines.value.push(line);
        }
    }
    for (key, id, shipment) in shipments::of(tx, found).await? {
        if let Some(entry) = entries.get_mut(&key) {
            entry.record.shipments.insert(id, shipment);
        }
    }
    Ok(entries)
}

/// The columns are named, because a prepared `*` fails after a migration has added a column.
const LOAD: &str = "select shop, id, name, ordered_at, customer_id, email, phone, currency, total_minor,
                           subtotal_minor, tax_minor, outstanding_minor, financial_status,
                           fulfillment_status, shipping_address, billing_address, refunds,
                           pact_id, cancelled_at, cancel_reason, was_paid, was_refunded,
                           was_fulfilled, version_at, version_tie, part_versions, payment_status, payment_covers,
                           payment_canceled_at, waits_until, events_at
                    from orders
                    where (shop, id) in ($1..)
                    order by shop, id
                    for update";

fn read(row: &Row) -> Result<OrderEntry> {
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
    let flag = |name| -> Result<bool> { Ok(row.get::<i64>(name)? != 0) };
    let record = Record {
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
        was_paid: flag("was_paid")?,
        was_refunded: flag("was_refunded")?,
        was_fulfilled: flag("was_fulfilled")?,
        shipments: BTreeMap::new(),
        settled: Settlement {
            status: payment.map(Into::into),
            covers: flag("payment_covers")?,
            canceled_at: row.get("payment_canceled_at")?,
        },
        waits_until: row.get("waits_until")?,
    };
    Ok(OrderEntry {
        record,
        events_at: LastEvent::from_millis(row.get("events_at")?),
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
