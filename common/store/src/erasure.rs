//! What an erasure writes: personal columns become null, bodies of jobs are replaced by what
//! may stay of them. Ids, amounts and states are not touched. Customers and orders are counted
//! as they are found, because a late delivery may have erased one a moment before; payments,
//! sessions and jobs only where there was something to erase.

use bytes::Bytes;

use crate::sql::{Db, Error, Result, Row, Tx};
use domain::job::{JobId, State};
use domain::time::Timestamp;

/// The columns that [`customers`] and the others below make null, by table.
pub const ERASED: &[(&str, &[&str])] = &[
    (
        "customers",
        &[
            "email",
            "phone",
            "first_name",
            "last_name",
            "email_key",
            "phone_key",
        ],
    ),
    (
        "orders",
        &[
            "email",
            "phone",
            "shipping_address",
            "billing_address",
            "email_key",
            "phone_key",
        ],
    ),
    ("payments", &["receipt_email", "email_key"]),
    (
        "checkout_sessions",
        &["email", "client_reference_id", "email_key"],
    ),
    // With their orders.
    ("parcels", &["url"]),
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
         email_key = null, phone_key = null,
         redacted_at = coalesce(redacted_at, $1)
     where shop = $2 and id in ($3..)";

pub async fn orders(tx: &mut Tx, shop: &str, ids: Vec<i64>, now: Timestamp) -> Result<u64> {
    tx.query(PARCELS)
        .bind(shop)
        .bind(ids.clone())
        .execute()
        .await?;
    tx.query(ORDERS)
        .bind(now.0)
        .bind(shop)
        .bind(ids)
        .execute()
        .await
}

const PARCELS: &str = "update parcels set url = null
     where url is not null and shop = $1 and order_id in ($2..)";

const ORDERS: &str = "update orders
     set email = null, phone = null, shipping_address = null, billing_address = null,
         email_key = null, phone_key = null,
         redacted_at = coalesce(redacted_at, $1)
     where shop = $2 and id in ($3..)";

/// True when there is such an order, for an erasure to find.
pub async fn is_known(tx: &mut Tx, shop: &str, id: i64) -> Result<bool> {
    let row = tx
        .query("select id from orders where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .fetch_optional()
        .await?;
    Ok(row.is_some())
}

pub async fn payments(tx: &mut Tx, ids: Vec<String>) -> Result<u64> {
    tx.query(PAYMENTS).bind(ids).execute().await
}

const PAYMENTS: &str = "update payments set receipt_email = null, email_key = null
     where receipt_email is not null and id in ($1..)";

pub async fn checkout_sessions(tx: &mut Tx, ids: Vec<String>) -> Result<u64> {
    tx.query(CHECKOUT_SESSIONS).bind(ids).execute().await
}

const CHECKOUT_SESSIONS: &str = "update checkout_sessions
     set email = null, client_reference_id = null, email_key = null
     where (email is not null or client_reference_id is not null) and id in ($1..)";

/// True when an erasure was carried out since then, also of what came late.
pub async fn is_since(db: &Db, since: Timestamp) -> Result<bool> {
    let row = db
        .query(
            "select id from privacy_requests
             where topic <> 'customers/data_request' and state = 'done' and finished_at >= $1
             limit 1",
        )
        .bind(since.0)
        .fetch_optional()
        .await?;
    Ok(row.is_some())
}

/// Has a server take dead rows of people out of the pages of its tables, beside other work.
pub async fn vacuum(db: &Db) -> Result<()> {
    db.vacuum(
        "vacuum (skip_locked, truncate off)
         customers, orders, parcels, payments, checkout_sessions, jobs, events, privacy_keys",
    )
    .await
}

/// A job with a body that may be about somebody.
pub struct Kept {
    pub id: JobId,
    /// The topic or event type, as the provider spells it.
    pub kind: String,
    pub shop: Option<String>,
    pub body: Bytes,
    pub state: State,
}

/// Jobs that one step of a [`scan`] goes past, so that a statement is short however much is kept.
const STEP: i64 = 5000;

/// Bodies that it reads at most.
const BODIES: i64 = 200;

/// Texts that a [`scan`] looks for at a time.
pub const TEXTS: usize = 8;

/// A step of a [`scan`].
pub struct ScanPage {
    pub kept: Vec<Kept>,
    /// The last job that was looked at; None: there are no more.
    pub last: Option<JobId>,
}

/// The next deliveries after `after` that may be about somebody: all that are not done and all
/// of the payment provider, whose bodies show it, and of the others those with one of these ids, an
/// order's or a customer's, or with one of these texts, at most [`TEXTS`], somewhere in them.
/// Bodies of our own jobs are ids. A job keeps its id, so none is missed that becomes done
/// meanwhile.
pub async fn scan(db: &Db, after: JobId, texts: &[String], ids: Vec<String>) -> Result<ScanPage> {
    let end = db
        .query("select id from jobs where id > $1 order by id limit 1 offset $2")
        .bind(after)
        .bind(STEP - 1)
        .fetch_optional()
        .await?;
    let end: Option<JobId> = end.map(|row| row.get("id")).transpose()?;
    let mut query = db.query(MAY_BE_ABOUT).bind(after);
    for nth in 0..TEXTS {
        query = query.bind(texts.get(nth).map(String::as_bytes));
    }
    let query = query.bind(end.unwrap_or(JobId::max())).bind(BODIES);
    let rows = query.bind(ids).fetch_all().await?;
    let kept: Vec<Kept> = rows.iter().map(read).collect::<Result<_>>()?;
    let last = match kept.last() {
        Some(last) if kept.len() as u64 == BODIES.cast_unsigned() => Some(last.id),
        _ => end,
    };
    Ok(ScanPage { kept, last })
}

const MAY_BE_ABOUT: &str = "select id, kind, shop, body, state from jobs
     where id > $1 and id <= $10 and body is not null and source <> 'internal'
       and (state <> 'done' or source = 'payment' or (contains(body, $2..$9))
            or (source = 'storefront' and (object_id in ($12..) or subject in ($12..))))
     order by id limit $11";

/// Jobs by their ids, with their bodies.
pub async fn bodies(db: &Db, ids: Vec<JobId>) -> Result<Vec<Kept>> {
    let rows = db
        .query(
            "select id, kind, shop, body, state from jobs
             where body is not null and id in ($1..)",
        )
        .bind(ids)
        .fetch_all()
        .await?;
    rows.iter().map(read).collect()
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
    let state = state
        .parse()
        .map_err(|error| Error::Decode(Box::new(error)))?;
    Ok(Kept {
        id: row.get("id")?,
        kind: row.get("kind")?,
        shop: row.get("shop")?,
        body: Bytes::from(row.get::<Vec<u8>>("body")?),
        state,
    })
}
