//! The `payments` and `agreements` tables: the record of each payment, and the agreements
//! (`metadata.pact_id`) by which payments and orders find each other. Payments are read under a
//! lock, merged by the caller, and written back whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sha2::{Digest, Sha256};

use crate::sql::{Cell, Db, Error, FromRow, Result, Row, Tx, column};
use crate::versions::{self, Versions, value};
use crate::{json, parsed};
use domain::money::Currency;
use domain::order::settlement::{Cycle, Linked};
use domain::payment::Email;
use domain::payment::record::Record;
use domain::privacy::email_key;
use domain::time::Timestamp;

/// A payment as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentEntry {
    pub record: Record,
    /// How many ledger entries the payment has.
    pub entries: i64,
}

/// Inserts those payments that do not exist yet, and returns their ids. If another transaction is
/// inserting the same payment, this waits for it.
pub async fn insert_new(
    tx: &mut Tx,
    payments: &BTreeMap<String, PaymentEntry>,
    now: Timestamp,
) -> Result<HashSet<String>> {
    let rows = payments.iter().map(|(id, entry)| row(id, entry, now));
    let new = "on conflict (id) do nothing returning id";
    let inserted = tx
        .insert("payments", rows.collect::<Result<_>>()?, new)
        .await?;
    inserted.iter().map(|row| row.get("id")).collect()
}

/// Overwrites payments that [`load`] has locked.
pub async fn save(tx: &mut Tx, payments: &[(&str, &PaymentEntry)], now: Timestamp) -> Result<()> {
    let rows = payments.iter().map(|(id, entry)| row(id, entry, now));
    tx.overwrite("payments", "id", rows.collect::<Result<_>>()?, "")
        .await
}

fn row<'a>(id: &'a str, entry: &'a PaymentEntry, now: Timestamp) -> Result<[Cell<'a>; 23]> {
    let record = &entry.record;
    let amount = record.amount.as_ref().map_or(0, |part| part.value);
    let status = record.status.as_ref().map(|part| part.value.as_str());
    let email = record.receipt_email.as_ref();
    let email = email.map(|part| part.value.0.as_str());
    let failure = record.failure.as_ref();
    let failure = failure.map(|part| json(&part.value)).transpose()?;
    Ok([
        column("id", id),
        column("pact_id", record.agreement()),
        column("fulfillment_cycle", value(&record.cycle)),
        column("payment_type", value(&record.payment_type)),
        column("transfer_group", value(&record.transfer_group)),
        column("invoice", value(&record.invoice)),
        column("currency", record.currency.value.as_str()),
        column("amount_minor", amount),
        column("received_minor", record.received),
        column("state", record.state().as_str().to_owned()),
        column("succeeded", record.succeeded),
        column(
            "canceled_at",
            record.canceled.map(Timestamp::from_unix_seconds),
        ),
        column("refunded_minor", record.refunded),
        column("fully_refunded", record.fully_refunded),
        column("status", status),
        column("customer_id", value(&record.customer)),
        column("receipt_email", email),
        column("email_key", email.map(email_key)),
        column("failure", failure),
        column("versions", part_versions(record)?),
        column("entries", entry.entries),
        column("created_at", now),
        column("updated_at", now),
    ])
}

fn part_versions(record: &Record) -> Result<String> {
    let parts = [
        ("currency", Some(&record.currency.version)),
        ("amount", versions::of(&record.amount)),
        ("status", versions::of(&record.status)),
        ("pact_id", versions::of(&record.pact_id)),
        ("cycle", versions::of(&record.cycle)),
        ("payment_type", versions::of(&record.payment_type)),
        ("transfer_group", versions::of(&record.transfer_group)),
        ("invoice", versions::of(&record.invoice)),
        ("customer", versions::of(&record.customer)),
        ("receipt_email", versions::of(&record.receipt_email)),
        ("failure", versions::of(&record.failure)),
    ];
    json(&Versions::of(parts))
}

/// The payments with these ids, locked, sorted by id.
pub async fn load(tx: &mut Tx, ids: Vec<String>) -> Result<BTreeMap<String, PaymentEntry>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query(LOAD)
        .bind(ids)
        .all(|row| Ok((row.get("id")?, read(row)?)))
        .await
}

const LOAD: &str = "select id, pact_id, currency, amount_minor, received_minor, succeeded,
                           canceled_at, refunded_minor, fully_refunded, status, customer_id,
                           receipt_email, failure, versions, entries,
                           fulfillment_cycle, payment_type, transfer_group, invoice
                    from payments where id in ($1..)
                    order by id
                    for update";

fn read(row: &Row) -> Result<PaymentEntry> {
    let versions: String = row.get("versions")?;
    let versions: Versions = parsed(&versions)?;
    let currency: String = row.get("currency")?;
    let status: Option<String> = row.get("status")?;
    let failure: Option<String> = row.get("failure")?;
    let email: Option<String> = row.get("receipt_email")?;
    let canceled_at: Option<i64> = row.get("canceled_at")?;
    let record = Record {
        succeeded: row.get::<i64>("succeeded")? != 0,
        canceled: canceled_at.map(|at| Timestamp(at).unix_seconds()),
        failure: versions.part("failure", failure.map(|it| parsed(&it)).transpose()?),
        received: row.get("received_minor")?,
        refunded: row.get("refunded_minor")?,
        fully_refunded: row.get::<i64>("fully_refunded")? != 0,
        currency: versions
            .part("currency", Currency::parse(&currency))
            .ok_or_else(|| Error::Decode("a payment's currency cannot be read".into()))?,
        amount: versions.part("amount", Some(row.get("amount_minor")?)),
        status: versions.part("status", status.map(Into::into)),
        pact_id: versions.part("pact_id", row.get("pact_id")?),
        cycle: versions.part("cycle", row.get("fulfillment_cycle")?),
        payment_type: versions.part("payment_type", row.get("payment_type")?),
        transfer_group: versions.part("transfer_group", row.get("transfer_group")?),
        invoice: versions.part("invoice", row.get("invoice")?),
        customer: versions.part("customer", row.get("customer_id")?),
        receipt_email: versions.part("receipt_email", email.map(Email)),
    };
    Ok(PaymentEntry {
        record,
        entries: row.get("entries")?,
    })
}

/// Locks agreements until the transaction ends. Every transaction that decides something from an
/// order and its payments does this, so that of two transactions which each bring one half, the
/// second sees both. A hash of the name is stored, because buyers may have written the name.
pub async fn lock_agreements(tx: &mut Tx, ids: impl IntoIterator<Item = String>) -> Result<()> {
    let hash = |id: String| hex::encode(&Sha256::digest(id)[..16]);
    let ids: BTreeSet<String> = ids.into_iter().map(hash).collect();
    if ids.is_empty() {
        return Ok(());
    }
    tx.insert(
        "agreements",
        ids.into_iter()
            .map(|id| [column("id", id), column("revision", 1)])
            .collect(),
        "on conflict (id) do update set revision = agreements.revision + 1",
    )
    .await?;
    Ok(())
}

/// The agreements of payments, sessions and subscriptions, by their ids. As long as no invoice names
/// the agreement of a subscription, it has the agreement of the session that began it.
pub const AGREEMENTS: [&str; 4] = [
    "select pact_id from payments where pact_id is not null and id in ($1..)",
    "select pact_id from checkout_sessions where pact_id is not null and id in ($1..)",
    "select pact_id from subscriptions where pact_id is not null and id in ($1..)",
    "select pact_id from checkout_sessions where pact_id is not null and subscription in ($1..)",
];

/// The payments of these agreements, each with its agreement.
pub async fn of_agreements(tx: &mut Tx, agreements: Vec<String>) -> Result<Vec<(String, Linked)>> {
    tx.query(
        "select id, pact_id, currency, received_minor, refunded_minor, state, canceled_at,
                fulfillment_cycle
         from payments where pact_id in ($1..)
         order by id",
    )
    .bind(agreements)
    .all(|row| Ok((row.get("pact_id")?, linked(row)?)))
    .await
}

/// The ids of the payments and of the checkout sessions that belong to an order, at most `limit`: those
/// of the order's agreement, which is called like the order where it has no other name, and those of
/// the sessions that sold it.
pub async fn of_order(db: &Db, shop: &str, order_id: i64, limit: i64) -> Result<Vec<String>> {
    db.query(
        "with sold as (
             select coalesce(pact_id, cast(id as text)) as agreement from orders
             where shop = $1 and id = $2
         )
         select payments.id as id from sold join payments on payments.pact_id = sold.agreement
         union
         select checkout_sessions.id as id
         from sold join checkout_sessions on checkout_sessions.pact_id = sold.agreement
         union
         select checkout_sessions.id as id from checkout_sessions
         where order_id = $2 and shop = $1
         union
         select payments.id as id
         from checkout_sessions join payments on payments.id = checkout_sessions.payment_intent
         where checkout_sessions.order_id = $2 and checkout_sessions.shop = $1
         order by 1
         limit $3",
    )
    .bind(shop)
    .bind(order_id)
    .bind(limit)
    .all(|row| row.get("id"))
    .await
}

/// The payments without an agreement that pay one of these invoices, each with its invoice.
/// Either the payment names its invoice, or the invoice names its payment.
pub async fn of_invoices(
    tx: &mut Tx,
    invoices: &BTreeMap<String, Option<String>>,
) -> Result<Vec<(String, Linked)>> {
    if invoices.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: Vec<(String, Linked)> = tx
        .query(
            "select id, invoice, currency, received_minor, refunded_minor, state, canceled_at,
                    fulfillment_cycle
             from payments where pact_id is null and invoice in ($1..)
             order by id",
        )
        .bind(invoices.keys().cloned().collect::<Vec<_>>())
        .all(|row| Ok((row.get("invoice")?, linked(row)?)))
        .await?;
    let of_payment: BTreeMap<&String, &String> = invoices
        .iter()
        .filter_map(|(invoice, payment)| Some((payment.as_ref()?, invoice)))
        .collect();
    let rows = tx
        .query(
            "select id, currency, received_minor, refunded_minor, state, canceled_at,
                    fulfillment_cycle
             from payments where pact_id is null and invoice is null and id in ($1..)
             order by id",
        )
        .bind(
            of_payment
                .keys()
                .map(|id| (*id).clone())
                .collect::<Vec<_>>(),
        )
        .fetch_all()
        .await?;
    for row in &rows {
        let linked = linked(row)?;
        if let Some(invoice) = of_payment.get(&linked.id) {
            found.push(((*invoice).clone(), linked));
        }
    }
    Ok(found)
}

fn linked(row: &Row) -> Result<Linked> {
    linked_as(row, ["id", "currency", "fulfillment_cycle"])
}

/// A payment that is joined to its session in one row, where some column names would be the same.
pub(super) fn joined(row: &Row) -> Result<Linked> {
    linked_as(row, ["payment_id", "payment_currency", "payment_cycle"])
}

fn linked_as(row: &Row, [id, currency, cycle]: [&'static str; 3]) -> Result<Linked> {
    let state: String = row.get("state")?;
    let currency: String = row.get(currency)?;
    let cycle: Option<String> = row.get(cycle)?;
    Ok(Linked {
        id: row.get(id)?,
        received: row.get("received_minor")?,
        refunded: row.get("refunded_minor")?,
        fully_refunded: state == "refunded",
        canceled_at: row
            .get::<Option<i64>>("canceled_at")?
            .filter(|_| state == "canceled"),
        cycle: Cycle::named(cycle.as_deref()),
        currency: Currency::parse(&currency)
            .ok_or_else(|| Error::Decode("a payment's currency cannot be read".into()))?,
    })
}

/// A payment as an operator sees it, without personal data.
#[derive(Clone, Debug, serde::Serialize, FromRow)]
pub struct Summary {
    pub id: String,
    pub state: String,
    pub pact_id: Option<String>,
    /// The name of the cycle of the agreement that is paid. None means the first cycle.
    pub fulfillment_cycle: Option<String>,
    #[serde(rename = "type")]
    pub payment_type: Option<String>,
    pub transfer_group: Option<String>,
    pub customer_id: Option<String>,
    pub currency: String,
    #[serde(skip)]
    pub amount_minor: i64,
    #[serde(skip)]
    pub received_minor: i64,
    #[serde(skip)]
    pub refunded_minor: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Which payments to list. An empty text means any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub state: String,
    pub pact_id: String,
}

/// The payments that changed last, the newest first.
pub async fn list(db: &Db, filter: &Filter, limit: i64) -> Result<Vec<Summary>> {
    db.query(
        "select id, state, pact_id, customer_id, currency, amount_minor, received_minor,
                refunded_minor, created_at, updated_at, fulfillment_cycle, payment_type,
                transfer_group
         from payments
         where ($1 = '' or state = $1) and ($2 = '' or pact_id = $2)
         order by updated_at desc, id desc
         limit $3",
    )
    .bind(filter.state.as_str())
    .bind(filter.pact_id.as_str())
    .bind(limit)
    .all(Summary::from_row)
    .await
}

pub async fn find(db: &Db, id: &str) -> Result<Option<Summary>> {
    db.query(
        "select id, state, pact_id, customer_id, currency, amount_minor, received_minor,
                refunded_minor, created_at, updated_at, fulfillment_cycle, payment_type,
                transfer_group
         from payments where id = $1",
    )
    .bind(id)
    .first(Summary::from_row)
    .await
}

/// The next payments after the id `after`, sorted by id, as records.
pub async fn page(db: &Db, after: &str, limit: i64) -> Result<Vec<(String, PaymentEntry)>> {
    db.query(
        "select id, pact_id, currency, amount_minor, received_minor, succeeded, canceled_at,
                refunded_minor, fully_refunded, status, customer_id, receipt_email, failure,
                versions, entries, fulfillment_cycle, payment_type,
                transfer_group, invoice
         from payments where id > $1
         order by id
         limit $2",
    )
    .bind(after)
    .bind(limit)
    .all(|row| Ok((row.get("id")?, read(row)?)))
    .await
}
