//! What an erasure writes: personal columns become null, bodies of jobs are replaced by what
//! may stay of them. Ids, amounts and states are not touched. Customers and orders are counted
//! as they are found, because a late delivery may have erased one a moment before; payments,
//! sessions and jobs only where there was something to erase.

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::job::{JobId, State};
use crate::sql::{Db, Result, Row, Tx};

/// The columns that [`customers`] and the others below make null, by table.
pub const ERASED: &[(&str, &[&str])] = &[
    ("customers", &["email", "phone", "first_name", "last_name"]),
    (
        "orders",
        &["email", "phone", "shipping_address", "billing_address"],
    ),
    ("payments", &["receipt_email"]),
    ("checkout_sessions", &["email", "client_reference_id"]),
    // Cut or replaced, by `replace_body`.
    ("jobs", &["body"]),
];

pub async fn customers(tx: &mut Tx, shop: &str, ids: Vec<i64>, now: Timestamp) -> Result<u64> {
    tx.query(CUSTOMERS)
        .bind(now.0)
        .bind(shop)
        .bind(ids)
        .execute()
        .await
}

const CUSTOMERS: &str = "update customers
     set email = null, phone = null, first_name = null, last_name = null,
         redacted_at = coalesce(redacted_at, $1)
     where shop = $2 and id in ($3..)";

pub async fn orders(tx: &mut Tx, shop: &str, ids: Vec<i64>, now: Timestamp) -> Result<u64> {
    tx.query(ORDERS)
        .bind(now.0)
        .bind(shop)
        .bind(ids)
        .execute()
        .await
}

const ORDERS: &str = "update orders
     set email = null, phone = null, shipping_address = null, billing_address = null,
         redacted_at = coalesce(redacted_at, $1)
     where shop = $2 and id in ($3..)";

pub async fn payments(tx: &mut Tx, ids: Vec<String>) -> Result<u64> {
    tx.query(PAYMENTS).bind(ids).execute().await
}

const PAYMENTS: &str = "update payments set receipt_email = null
     where receipt_email is not null and id in ($1..)";

pub async fn checkout_sessions(tx: &mut Tx, ids: Vec<String>) -> Result<u64> {
    tx.query(CHECKOUT_SESSIONS).bind(ids).execute().await
}

const CHECKOUT_SESSIONS: &str = "update checkout_sessions
     set email = null, client_reference_id = null
     where (email is not null or client_reference_id is not null) and id in ($1..)";

/// A job with a body that may be about somebody.
pub struct Kept {
    pub id: JobId,
    /// The topic or event type, as the provider spells it.
    pub kind: String,
    pub shop: Option<String>,
    pub body: Bytes,
    pub is_ready: bool,
}

/// Jobs that are not done, with their bodies: all ids at once, because rows come and go while
/// they are walked. Deliveries alone; bodies of our own jobs are ids.
pub async fn unfinished(db: &Db) -> Result<Vec<JobId>> {
    let ready = db
        .query("select id from jobs where state = 'ready' and source <> 'internal'")
        .fetch_all();
    let dead = db
        .query("select id from jobs where state = 'dead' and source <> 'internal'")
        .fetch_all();
    let (ready, dead) = (ready.await?, dead.await?);
    let rows = ready.iter().chain(&dead);
    rows.map(|row| row.get("id")).collect()
}

pub async fn bodies(db: &Db, ids: Vec<JobId>) -> Result<Vec<Kept>> {
    let rows = db
        .query(
            "select id, kind, shop, body, state from jobs
             where body is not null and id in ($1..)
             order by id",
        )
        .bind(ids)
        .fetch_all()
        .await?;
    rows.iter().map(read).collect()
}

/// The next finished deliveries after `cursor` with one of these ids: an order's, a customer's.
pub async fn finished_of(db: &Db, cursor: JobId, ids: Vec<String>) -> Result<Vec<Kept>> {
    let rows = db
        .query(
            "select id, kind, shop, body, state from jobs
             where id > $1 and state = 'done' and body is not null and source = 'storefront'
               and (object_id in ($2..) or subject in ($2..))
             order by id limit 200",
        )
        .bind(cursor)
        .bind(ids)
        .fetch_all()
        .await?;
    rows.iter().map(read).collect()
}

/// Texts that [`finished_with`] looks for at a time.
pub const TEXTS: usize = 8;

/// The next finished deliveries after `cursor` with one of these texts somewhere in them, which
/// are at most [`TEXTS`]. The server looks through all bodies that are kept.
pub async fn finished_with(db: &Db, cursor: JobId, texts: &[String]) -> Result<Vec<Kept>> {
    let mut query = db
        .query(
            "select id, kind, shop, body, state from jobs
             where id > $1 and state = 'done' and body is not null and source <> 'internal'
               and (contains(body, $2..$9))
             order by id limit 200",
        )
        .bind(cursor);
    for nth in 0..TEXTS {
        query = query.bind(texts.get(nth).map(String::as_bytes));
    }
    query.fetch_all().await?.iter().map(read).collect()
}

/// Payment events of jobs after `after` up to `until`, with their bodies.
pub async fn payment_events(db: &Db, after: JobId, until: JobId) -> Result<Vec<Kept>> {
    let rows = db
        .query(
            "select id, kind, shop, body, state from jobs
             where id > $1 and id <= $2 and source = 'payment' and body is not null
             order by id",
        )
        .bind(after)
        .bind(until)
        .fetch_all()
        .await?;
    rows.iter().map(read).collect()
}

/// Puts what may stay of a body in its place; None: nothing. False: it has none any more.
pub async fn replace_body(tx: &mut Tx, id: JobId, body: Option<Vec<u8>>) -> Result<bool> {
    let changed = tx
        .query("update jobs set body = $1 where id = $2 and body is not null")
        .bind(body)
        .bind(id)
        .execute()
        .await?;
    Ok(changed == 1)
}

fn read(row: &Row) -> Result<Kept> {
    let state: String = row.get("state")?;
    Ok(Kept {
        id: row.get("id")?,
        kind: row.get("kind")?,
        shop: row.get("shop")?,
        body: Bytes::from(row.get::<Vec<u8>>("body")?),
        is_ready: state == State::Ready.as_str(),
    })
}
