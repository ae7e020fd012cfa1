//! The `payments` and `agreements` tables: the record of each payment, and the agreements
//! (`metadata.pact_id`) by which payments and orders find each other.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::aggregates::{self, Aggregate};
use crate::sql::{Cell, Db, Error, FromRow, Result, Row, Tx, column};
use domain::money::Currency;
use domain::order::settlement::{Cycle, Linked};
use domain::payment::record::{Record, text};
use domain::privacy::email_key;
use domain::record::Forget as _;
use domain::time::Timestamp;

/// A payment as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentEntry {
    pub record: Record,
    /// How many ledger entries the payment has.
    pub entries: i64,
}

impl Aggregate for PaymentEntry {
    type Key = String;
    type Record = Record;
    const TABLE: &'static str = "payments";
    const LOCK: &'static str = "select id, record, entries, updated_at
                                from payments where id in ($1..)
                                order by id
                                for update";

    fn of(record: Record, row: &Row) -> Result<Self> {
        Ok(PaymentEntry {
            record,
            entries: row.get("entries")?,
        })
    }

    fn record(&self) -> &Record {
        &self.record
    }

    fn columns(&self) -> Vec<Cell<'_>> {
        let record = &self.record;
        let canceled_at = record.canceled.map(Timestamp::from_unix_seconds);
        vec![
            column("pact_id", record.agreement()),
            column("invoice", text(&record.invoice)),
            column("fulfillment_cycle", text(&record.cycle)),
            column("payment_type", text(&record.payment_type)),
            column("transfer_group", text(&record.transfer_group)),
            column("customer_id", text(&record.customer)),
            column("email_key", record.email().map(email_key)),
            column("currency", record.currency.value.as_str()),
            column("amount_minor", record.amount()),
            column("received_minor", record.received),
            column("tip_minor", record.tip),
            column("refunded_minor", record.refunded()),
            column("lost_minor", record.lost()),
            column("state", record.state().as_str().to_owned()),
            column("canceled_at", canceled_at),
            column("entries", self.entries),
        ]
    }

    fn merge(&mut self, other: Self) {
        self.record.merge(other.record);
    }

    fn forget(&mut self, _: Timestamp) {
        self.record.forget_person();
    }
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

/// The payments, as they are known.
pub async fn known(tx: &mut Tx, ids: Vec<String>) -> Result<BTreeMap<String, PaymentEntry>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    aggregates::read(
        tx.query("select id, record, entries from payments where id in ($1..)")
            .bind(ids),
    )
    .await
}

/// The ids of these payments, that of which something was first heard last before the others.
pub async fn latest_first(tx: &mut Tx, ids: Vec<String>) -> Result<Vec<String>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    tx.query("select id from payments where id in ($1..) order by created_at desc, id desc")
        .bind(ids)
        .all(|row| row.get("id"))
        .await
}

/// What is known of a payment.
pub async fn record(db: &Db, id: &str) -> Result<Option<Record>> {
    let record = db
        .query("select record from payments where id = $1")
        .bind(id);
    let record: Option<String> = record.first(|row| row.get("record")).await?;
    let id = id.to_owned();
    record
        .map(|record| aggregates::record_of::<PaymentEntry>(&id, &record))
        .transpose()
}

/// The connected account that has this payment. None for the key's own, and for a payment that is
/// not known.
pub async fn account(db: &Db, id: &str) -> Result<Option<String>> {
    let record = record(db, id).await?;
    Ok(record.and_then(|it| text(&it.account).map(ToOwned::to_owned)))
}

/// The payments of these agreements, each with its agreement.
pub async fn of_agreements(tx: &mut Tx, agreements: Vec<String>) -> Result<Vec<(String, Linked)>> {
    tx.query(
        "select id, pact_id, currency, received_minor, tip_minor, refunded_minor,
                lost_minor, state, canceled_at,
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
            "select id, invoice, currency, received_minor, tip_minor, refunded_minor,
                lost_minor, state, canceled_at,
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
            "select id, currency, received_minor, tip_minor, refunded_minor,
                lost_minor, state, canceled_at,
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
    let refunded: i64 = row.get("refunded_minor")?;
    Ok(Linked {
        id: row.get(id)?,
        received: row.get("received_minor")?,
        tip: row.get("tip_minor")?,
        refunded: refunded.saturating_add(row.get("lost_minor")?),
        fully_refunded: ["refunded", "charged_back"].contains(&state.as_str()),
        is_disputed: state == "disputed",
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
    let page = db
        .query(
            "select id, record, entries from payments where id > $1
             order by id
             limit $2",
        )
        .bind(after)
        .bind(limit);
    aggregates::read(page).await
}
