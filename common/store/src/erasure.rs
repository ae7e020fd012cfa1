//! The statements of an erasure: personal columns become null, and the bodies of jobs are
//! replaced by the part that may stay. Ids, amounts and states are not touched. Customers and
//! orders are counted as they are found, because a late delivery may have erased one a moment
//! before. Payments, sessions and jobs are counted only where there was something to erase.

use bytes::Bytes;

use crate::sql::{Db, Error, Result, Row, Tx};
use domain::job::{JobId, State};
use domain::time::Timestamp;

/// The columns that [`customers`] and the functions below set to null, by table.
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
    // Erased together with the parcels' orders.
    ("parcels", &["url"]),
    // Deleted or replaced by `replace_body`.
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

/// True when the shop has this order, so that an erasure can find it.
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

/// True when a request for an erasure was finished since then. Erasing data that came late has no
/// request of its own, so it is not noticed here.
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

/// Has the database server remove the dead rows of people from the pages of its tables, while
/// other work goes on.
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
    /// The topic or event type, in the provider's spelling.
    pub kind: String,
    pub shop: Option<String>,
    pub body: Bytes,
    pub state: State,
}

/// How many jobs one step of a [`scan`] looks at, which keeps a statement short however many jobs
/// are kept.
const STEP: i64 = 5000;

/// How many bodies one step of a [`scan`] reads at most.
const BODIES: i64 = 200;

/// How many texts a [`scan`] looks for at a time.
pub const TEXTS: usize = 8;

/// The result of one step of a [`scan`].
pub struct ScanPage {
    pub kept: Vec<Kept>,
    /// The last job that was looked at. None when there are no more.
    pub last: Option<JobId>,
}

/// The next deliveries after the job `after` that may be about somebody:
///
/// - all deliveries that are not done;
/// - all deliveries of the payment provider, because only their bodies show whom they are about;
/// - storefront deliveries whose order or customer has one of these ids;
/// - all others that have one of these texts (at most [`TEXTS`]) somewhere in their bodies.
///
/// Bodies of our own jobs have only ids and are not searched. A job keeps its id, so a job that
/// becomes done during the scan is not missed.
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

/// The jobs with these ids that still have their bodies.
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

/// The payment events of the jobs after `after` up to `until` that still have their bodies.
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

/// Replaces the body of a job by the part that may stay, or by nothing if `body` is None. False
/// when the job has no body any more.
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
