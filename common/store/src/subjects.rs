//! Everything by which rows and kept bodies name people, page by page. An erasure that is done again
//! knows people by keyed hashes alone, and finds them by hashing all that is here.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::aggregates::{self, Aggregate};
use crate::checkout_sessions::SessionEntry;
use crate::customers::CustomerEntry;
use crate::erasure;
use crate::payments::PaymentEntry;
use crate::sql::{Db, Result, Row};
use domain::job::JobId;
use domain::order::record::Record;
use domain::payment::subscription;
use domain::privacy::{Mentions, SubjectKey, email};

/// Something that names a person. Addresses and numbers are as somebody wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject<'a> {
    Customer(i64),
    Email(&'a str),
    Phone(&'a str),
    Payment(&'a str),
    Session(&'a str),
    Subscription(&'a str),
}

impl<'a> Subject<'a> {
    /// What its tombstone stands for.
    pub fn key(self) -> SubjectKey<'a> {
        match self {
            Subject::Customer(id) => SubjectKey::Customer(id),
            Subject::Email(text) => SubjectKey::Email(text),
            Subject::Phone(text) => SubjectKey::Phone(text),
            Subject::Payment(id) | Subject::Session(id) | Subject::Subscription(id) => {
                SubjectKey::Payment(id)
            }
        }
    }
}

/// Rows of a table that one statement reads.
const ROWS: i64 = 500;
/// Bodies that one statement reads.
const BODIES: i64 = 200;

/// Calls `found` with everything that names somebody. The same may come more than once.
pub async fn each(db: &Db, mut found: impl FnMut(Subject<'_>)) -> Result<()> {
    customers(db, &mut found).await?;
    orders(db, &mut found).await?;
    with_ids::<PaymentEntry>(
        db,
        PAYMENTS,
        (|id| Subject::Payment(id), |it| it.record.email()),
        &mut found,
    )
    .await?;
    with_ids::<SessionEntry>(
        db,
        SESSIONS,
        (|id| Subject::Session(id), |it| it.record.email()),
        &mut found,
    )
    .await?;
    with_ids::<subscription::Record>(
        db,
        SUBSCRIPTIONS,
        (|id| Subject::Subscription(id), |_| None),
        &mut found,
    )
    .await?;
    bodies(db, &mut found).await
}

async fn customers(db: &Db, found: &mut impl FnMut(Subject<'_>)) -> Result<()> {
    let mut after = (String::new(), i64::MIN);
    loop {
        let rows = db
            .query(
                "select shop, id, record, redacted_at from customers
                 where (shop, id) > ($1, $2) order by shop, id limit $3",
            )
            .bind(after.0.as_str())
            .bind(after.1)
            .bind(ROWS)
            .fetch_all()
            .await?;
        for row in &rows {
            after = (row.get("shop")?, row.get("id")?);
            found(Subject::Customer(after.1));
            if let Some(CustomerEntry { record, .. }) = readable(row)? {
                addresses(record.email(), record.phone(), found);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

async fn orders(db: &Db, found: &mut impl FnMut(Subject<'_>)) -> Result<()> {
    let mut after = (i64::MIN, String::new());
    loop {
        let rows = db
            .query(
                "select id, shop, customer_id, record from orders
                 where (id, shop) > ($1, $2) order by id, shop limit $3",
            )
            .bind(after.0)
            .bind(after.1.as_str())
            .bind(ROWS)
            .fetch_all()
            .await?;
        for row in &rows {
            after = (row.get("id")?, row.get("shop")?);
            if let Some(id) = row.get("customer_id")? {
                found(Subject::Customer(id));
            }
            if let Some(Record { contact, .. }) = readable(row)? {
                let contact = &contact.value;
                addresses(contact.email.as_deref(), contact.phone.as_deref(), found);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

fn addresses(email: Option<&str>, phone: Option<&str>, found: &mut impl FnMut(Subject<'_>)) {
    if let Some(email) = email {
        found(Subject::Email(email));
    }
    if let Some(phone) = phone {
        found(Subject::Phone(phone));
    }
}

/// What a row says. A record that cannot be read is reported, and leads to nobody: the others must be
/// found all the same.
fn readable<A: Aggregate>(row: &Row) -> Result<Option<A>> {
    match aggregates::of(row) {
        Ok((_, value)) => Ok(Some(value)),
        Err(error) if aggregates::unreadable(&error).is_some() => {
            tracing::error!("nobody is found by this: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

const PAYMENTS: &str = "select id, record, entries from payments
                        where id > $1 order by id limit $2";
const SESSIONS: &str = "select id, record, shop, order_id from checkout_sessions
                        where id > $1 order by id limit $2";
const SUBSCRIPTIONS: &str = "select id, record from subscriptions
                             where id > $1 order by id limit $2";

/// What an id stands for, and the address in a row.
type Named<A> = (fn(&str) -> Subject<'_>, fn(&A) -> Option<&str>);

/// All rows of a table whose ids are texts.
async fn with_ids<A: Aggregate>(
    db: &Db,
    next: &'static str,
    (subject, email): Named<A>,
    found: &mut impl FnMut(Subject<'_>),
) -> Result<()> {
    let mut after = String::new();
    loop {
        let rows = db.query(next).bind(after.as_str()).bind(ROWS);
        let rows = rows.fetch_all().await?;
        for row in &rows {
            after = row.get("id")?;
            found(subject(&after));
            let value: Option<A> = readable(row)?;
            addresses(value.as_ref().and_then(email), None, found);
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

async fn bodies(db: &Db, found: &mut impl FnMut(Subject<'_>)) -> Result<()> {
    let mut after = JobId::nil();
    loop {
        let kept = erasure::kept_bodies(db, after, BODIES).await?;
        for job in &kept {
            mentioned(&job.mentions(), &job.body, found);
        }
        match kept.last() {
            Some(last) => after = last.id,
            None => return Ok(()),
        }
    }
}

/// What a body mentions.
fn mentioned(mentions: &Mentions, body: &Bytes, found: &mut impl FnMut(Subject<'_>)) {
    if let Some(id) = mentions.customer {
        found(Subject::Customer(id));
    }
    for address in mentions.emails.iter().chain(&mentions.own_emails) {
        found(Subject::Email(address));
        for written in spellings(body, address) {
            found(Subject::Email(&written));
        }
    }
    for number in mentions.phones.iter().chain(&mentions.own_phones) {
        found(Subject::Phone(number));
    }
    for id in &mentions.ids {
        found(match id.split('_').next() {
            Some("cs") => Subject::Session(id),
            Some("sub") => Subject::Subscription(id),
            _ => Subject::Payment(id),
        });
    }
}

/// How a body writes an address that it mentions. Bodies are searched for the address as it is
/// written.
fn spellings(body: &[u8], address: &str) -> BTreeSet<String> {
    let (address, length) = (address.as_bytes(), address.len());
    let places = body.windows(length.max(1));
    let same = places.filter(|place| place.eq_ignore_ascii_case(address));
    let texts = same.filter_map(|place| std::str::from_utf8(place).ok());
    let texts = texts.filter(|text| email(text).as_bytes() == address);
    texts.map(ToOwned::to_owned).collect()
}

#[cfg(test)]
#[path = "../tests/unit/subjects.rs"]
mod tests;
