//! The `ledger_entries` table: the double entry of payments (`payment::ledger`). Entries are
//! added and never changed. The entries of a payment are numbered without a gap, so the database
//! refuses an entry that is posted twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::aggregates;
use crate::payments::{self, PaymentEntry};
use crate::sql::{Db, FromRow, Result, Row, Tx, column};
use domain::money::decimal;
use domain::payment::ledger::{Posting, postings};
use domain::time::Timestamp;

/// A posting of a payment, with its number.
#[derive(Clone, Debug)]
pub struct NewEntry {
    pub payment_id: String,
    pub number: i64,
    pub posting: Posting,
}

pub async fn append(tx: &mut Tx, entries: &[NewEntry], now: Timestamp) -> Result<()> {
    let rows = entries.iter().map(|entry| {
        let posting = &entry.posting;
        [
            column("payment_id", &entry.payment_id),
            column("number", entry.number),
            column("entry", posting.entry.into_str()),
            column("account", posting.account.to_string()),
            column("amount_minor", posting.minor),
            column("currency", posting.currency.to_string()),
            column("created_at", now),
        ]
    });
    tx.insert("ledger_entries", rows.collect(), "").await?;
    Ok(())
}

/// An entry of the ledger.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Line {
    pub payment_id: String,
    pub number: i64,
    pub entry: String,
    pub account: String,
    /// A decimal in units of the currency.
    #[with(amount)]
    pub amount: String,
    pub currency: String,
    pub created_at: Timestamp,
}

/// The entries of a payment, sorted by number.
pub async fn of_payment(db: &Db, payment_id: &str) -> Result<Vec<Line>> {
    db.query(
        "select payment_id, number, entry, account, amount_minor, currency, created_at
         from ledger_entries where payment_id = $1 order by number",
    )
    .bind(payment_id)
    .all(Line::from_row)
    .await
}

/// The newest entries of an account, newest first.
pub async fn of_account(db: &Db, account: &str, limit: i64) -> Result<Vec<Line>> {
    db.query(
        "select payment_id, number, entry, account, amount_minor, currency, created_at
         from ledger_entries where account = $1
         order by created_at desc, payment_id, number desc
         limit $2",
    )
    .bind(account)
    .bind(limit)
    .all(Line::from_row)
    .await
}

/// What is booked of a payment. Amounts are in minor units.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromRow)]
pub struct Booked {
    pub payment_id: String,
    pub currency: String,
    pub captured: i64,
    pub refunded: i64,
}

/// What is booked of each of these payments, by currency.
pub async fn booked(db: &Db, payments: Vec<String>) -> Result<Vec<Booked>> {
    if payments.is_empty() {
        return Ok(Vec::new());
    }
    db.query(
        "select payment_id, currency,
                cast(sum(case when entry = 'captured' and account = 'provider' then -amount_minor else 0 end) as bigint)
                    as captured,
                cast(sum(case when entry = 'refunded' and account like 'credited%' then amount_minor else 0 end) as bigint)
                    as refunded
         from ledger_entries where payment_id in ($1..)
         group by payment_id, currency",
    )
    .bind(payments)
    .all(Booked::from_row)
    .await
}

/// The payments of which something was captured or refunded by entries of this time, from the first until before the
/// second.
pub async fn moved(db: &Db, (from, until): (Timestamp, Timestamp)) -> Result<Vec<String>> {
    db.query(
        "select distinct payment_id from ledger_entries
         where (account = 'provider' or (account >= 'credited' and account < 'creditee'))
           and created_at >= $1 and created_at < $2
         order by payment_id",
    )
    .bind(from.0)
    .bind(until.0)
    .all(|row| row.get("payment_id"))
    .await
}

fn amount(row: &Row) -> Result<String> {
    let currency: String = row.get("currency")?;
    Ok(decimal(row.get("amount_minor")?, &currency))
}

/// The balance of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct Balance {
    pub account: String,
    pub currency: String,
    /// A decimal in units of the currency.
    #[with(amount)]
    pub amount: String,
    #[serde(skip)]
    #[column("amount_minor")]
    pub minor: i64,
    pub entries: i64,
}

/// The first accounts by name whose names start with `prefix`: what the payments of one connection come to, or those of
/// all if `connection` is empty.
pub async fn balances(db: &Db, connection: &str, prefix: &str, limit: i64) -> Result<Vec<Balance>> {
    db.query(
        "select account, currency, cast(sum(amount_minor) as bigint) as amount_minor,
                count(*) as entries
         from ledger_entries
         where substr(account, 1, length($1)) = $1
           and ($2 = '' or substr(payment_id, length(payment_id) - length($3) + 1) = $3
                or ($2 = 'default' and payment_id not like '%@%'))
         group by account, currency
         order by account, currency
         limit $4",
    )
    .bind(prefix)
    .bind(connection)
    .bind(format!("@{connection}"))
    .bind(limit)
    .all(Balance::from_row)
    .await
}

/// The balances of the provider and of held money, and one balance each for all agreements and
/// all customers together.
async fn classes(db: &Db) -> Result<Vec<Balance>> {
    db.query(
        "select case when account like 'released:%' then 'released'
                     when account like 'credited:%' then 'credited'
                     else account end as account,
                currency, cast(sum(amount_minor) as bigint) as amount_minor, count(*) as entries
         from ledger_entries
         group by 1, currency
         order by 1, currency",
    )
    .all(Balance::from_row)
    .await
}

/// A sum of the ledger that differs from what the events of its payment come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub payment_id: String,
    pub entry: String,
    pub account: String,
    pub currency: String,
    pub booked: String,
    pub expected: String,
}

/// The result of a check of the ledger.
#[derive(Clone, Debug)]
pub struct Books {
    pub payments: u64,
    /// The balances of provider, held, released and credited, by currency.
    pub balances: Vec<Balance>,
    pub wrong: Vec<Mismatch>,
    /// Currencies whose entries do not sum to zero.
    pub unbalanced: Vec<String>,
}

impl Books {
    pub fn is_balanced(&self) -> bool {
        self.wrong.is_empty() && self.unbalanced.is_empty()
    }

    pub fn entries(&self) -> i64 {
        self.balances.iter().map(|balance| balance.entries).sum()
    }
}

/// How many payments are checked at a time.
const PAGE: i64 = 500;

/// Compares the entries of every payment with what its events come to, and checks that each
/// currency sums to zero. Workers may go on in the meantime.
pub async fn verify(db: &Db) -> Result<Books> {
    let mut after = String::new();
    let mut payments = 0;
    let mut wrong = Vec::new();
    loop {
        let page = payments::page(db, &after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        let mut booked = sums(db, &after, last).await?;
        for (id, entry) in &page {
            payments += 1;
            let expected = expected(&postings(None, &entry.record));
            if booked.remove(id).unwrap_or_default() != expected {
                // A worker may have changed the payment in between, so it is compared again under
                // a lock.
                wrong.extend(recheck(db, id).await?);
            }
        }
        after.clone_from(last);
    }
    let balances = classes(db).await?;
    let mut totals: BTreeMap<&str, i128> = BTreeMap::new();
    for balance in &balances {
        *totals.entry(&balance.currency).or_default() += i128::from(balance.minor);
    }
    let unbalanced = totals.into_iter().filter(|(_, total)| *total != 0);
    let unbalanced = unbalanced
        .map(|(currency, _)| currency.to_owned())
        .collect();
    Ok(Books {
        payments,
        balances,
        wrong,
        unbalanced,
    })
}

async fn recheck(db: &Db, id: &str) -> Result<Vec<Mismatch>> {
    let mut tx = db.begin().await?;
    let entry = aggregates::lock::<PaymentEntry>(&mut tx, vec![id.to_owned()])
        .await?
        .remove(id);
    let booked = sums_of(&mut tx, id).await?;
    tx.rollback().await?;
    let expected = entry.map(|entry| expected(&postings(None, &entry.record)));
    let expected = expected.unwrap_or_default();
    let keys: BTreeSet<_> = booked.keys().chain(expected.keys()).collect();
    let sum = |sums: &Sums, key| sums.get(key).copied().unwrap_or(0);
    let wrong = keys.into_iter().filter_map(|key| {
        let (is, should) = (sum(&booked, key), sum(&expected, key));
        let (entry, account, currency) = key.clone();
        (is != should).then(|| Mismatch {
            payment_id: id.to_owned(),
            booked: decimal(is, &currency),
            expected: decimal(should, &currency),
            entry,
            account,
            currency,
        })
    });
    Ok(wrong.collect())
}

/// The sums of one payment, by entry, account and currency.
type Sums = BTreeMap<(String, String, String), i64>;

/// The sums in the ledger for each payment after the id `after`, up to and including `last`.
async fn sums(db: &Db, after: &str, last: &str) -> Result<BTreeMap<String, Sums>> {
    let rows = db
        .query(
            "select payment_id, entry, account, currency,
                    cast(sum(amount_minor) as bigint) as minor
             from ledger_entries
             where payment_id > $1 and payment_id <= $2
             group by payment_id, entry, account, currency",
        )
        .bind(after)
        .bind(last)
        .fetch_all()
        .await?;
    group(&rows)
}

/// The sums in the ledger for one payment. The caller has locked the payment.
async fn sums_of(tx: &mut Tx, payment_id: &str) -> Result<Sums> {
    let rows = tx
        .query(
            "select payment_id, entry, account, currency,
                    cast(sum(amount_minor) as bigint) as minor
             from ledger_entries where payment_id = $1
             group by payment_id, entry, account, currency",
        )
        .bind(payment_id)
        .fetch_all()
        .await?;
    Ok(group(&rows)?.remove(payment_id).unwrap_or_default())
}

fn group(rows: &[Row]) -> Result<BTreeMap<String, Sums>> {
    let mut payments: BTreeMap<String, Sums> = BTreeMap::new();
    for row in rows {
        let minor: i64 = row.get("minor")?;
        if minor != 0 {
            let key = (row.get("entry")?, row.get("account")?, row.get("currency")?);
            let sums = payments.entry(row.get("payment_id")?).or_default();
            sums.insert(key, minor);
        }
    }
    Ok(payments)
}

/// The sums that follow from the record of a payment.
fn expected(postings: &[Posting]) -> Sums {
    let mut sums = Sums::new();
    for posting in postings {
        let key = (
            posting.entry.into_str().to_owned(),
            posting.account.to_string(),
            posting.currency.to_string(),
        );
        *sums.entry(key).or_default() += posting.minor;
    }
    sums.retain(|_, minor| *minor != 0);
    sums
}
