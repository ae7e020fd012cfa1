//! The `checkouts` table: checkouts that were requested through the API, and the answers. A
//! request that is repeated with the same idempotency key finds the first one here, on any
//! replica and after any crash.

use std::time::Duration;

use strum::{EnumString, IntoStaticStr};
use uuid::Uuid;

use crate::orders::CHECKOUT;
use crate::sql::{Db, Error, Result, Row, Tx};
use crate::{json, parsed};
use domain::checkout::Item;
use domain::time::Timestamp;

/// How long the idempotency key of a checkout is remembered after its page has expired.
pub const KEPT: Duration = Duration::from_hours(24);

/// A requested checkout.
pub struct NewCheckout<'a> {
    pub id: Uuid,
    pub api_key_id: Uuid,
    /// The hash of the caller's idempotency key, if there is one.
    pub idempotency_key: Option<Uuid>,
    /// The hash of the requested items.
    pub request_key: Uuid,
    pub pact_id: &'a str,
    pub order_id: i64,
    pub items: &'a [Item],
}

/// A checkout as it is stored.
#[derive(Clone, Debug)]
pub struct Checkout {
    pub id: Uuid,
    pub request_key: Uuid,
    pub pact_id: String,
    pub order_id: i64,
    pub items: Vec<Item>,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The provider has not answered, or its answer was not stored.
    Pending,
    Open(PaymentPage),
    Refused(Refusal),
}

/// The page on which the buyer pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentPage {
    pub session_id: String,
    pub url: String,
    pub expires_at: Option<Timestamp>,
}

impl PaymentPage {
    /// True when nobody can pay on the page any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// Whether the order of a checkout can still be paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payability {
    Payable,
    /// The order is paid, or somebody has finished on its page and the money is on its way.
    Paid,
    Cancelled,
}

/// Why a checkout was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Refusal {
    Amount,
    Currency,
    Provider,
}

/// Inserts a checkout. False when its idempotency key was used before. If another transaction is
/// just inserting the same key, this waits for it.
pub async fn insert(tx: &mut Tx, new: &NewCheckout<'_>, now: Timestamp) -> Result<bool> {
    tx.query(
        "insert into checkouts (id, api_key_id, idempotency_key, request_key, pact_id,
                                order_id, items, state, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, 'pending', $8, $8)
         on conflict do nothing",
    )
    .bind(new.id)
    .bind(new.api_key_id)
    .bind(new.idempotency_key)
    .bind(new.request_key)
    .bind(new.pact_id)
    .bind(new.order_id)
    .bind(json(&new.items)?)
    .bind(now.0)
    .changed_one()
    .await
}

const COLUMNS: &str = "select id, request_key, pact_id, order_id, items, state, refusal,
                              session_id, url, expires_at
                       from checkouts where api_key_id = $1 and idempotency_key = $2";

pub async fn find(db: &Db, api_key_id: Uuid, idempotency_key: Uuid) -> Result<Option<Checkout>> {
    let row = db.query(COLUMNS).bind(api_key_id).bind(idempotency_key);
    row.first(read).await
}

fn read(row: &Row) -> Result<Checkout> {
    let items: String = row.get("items")?;
    let state: String = row.get("state")?;
    let refusal: Option<String> = row.get("refusal")?;
    let session_id: Option<String> = row.get("session_id")?;
    let url: Option<String> = row.get("url")?;
    let expires_at: Option<i64> = row.get("expires_at")?;
    let refusal = refusal.and_then(|it| it.parse().ok());
    let state = match (state.as_str(), session_id, url, refusal) {
        ("pending", ..) => State::Pending,
        ("open", Some(session_id), Some(url), _) => State::Open(PaymentPage {
            session_id,
            url,
            expires_at: expires_at.map(Timestamp),
        }),
        ("refused", _, _, Some(refusal)) => State::Refused(refusal),
        _ => return Err(Error::Decode("a checkout's state is unknown".into())),
    };
    Ok(Checkout {
        id: row.get("id")?,
        request_key: row.get("request_key")?,
        pact_id: row.get("pact_id")?,
        order_id: row.get("order_id")?,
        items: parsed(&items)?,
        state,
    })
}

/// Stores the page on which the buyer pays, in place of the expired page `ended` if there was
/// one. False when an answer is stored already.
pub async fn open(
    tx: &mut Tx,
    id: Uuid,
    ended: Option<&PaymentPage>,
    page: &PaymentPage,
    now: Timestamp,
) -> Result<bool> {
    tx.query(
        "update checkouts
         set state = 'open', session_id = $1, url = $2, expires_at = $3, updated_at = $4
         where id = $5 and (state = 'pending' or (state = 'open' and session_id = $6))",
    )
    .bind(page.session_id.as_str())
    .bind(page.url.as_str())
    .bind(page.expires_at.map(|at| at.0))
    .bind(now.0)
    .bind(id)
    .bind(ended.map(|page| page.session_id.as_str()))
    .changed_one()
    .await
}

/// Stores that the provider refused the checkout. False when an answer is stored already.
pub async fn refuse(tx: &mut Tx, id: Uuid, refusal: Refusal, now: Timestamp) -> Result<bool> {
    tx.query(
        "update checkouts set state = 'refused', refusal = $1, updated_at = $2
         where id = $3 and state = 'pending'",
    )
    .bind(refusal.into_str())
    .bind(now.0)
    .bind(id)
    .changed_one()
    .await
}

/// Whether the order of a checkout can still be paid for. `session_id` is the id of its page's
/// session, if it has one.
pub async fn payability(db: &Db, order_id: i64, session_id: Option<&str>) -> Result<Payability> {
    let row = db
        .query(
            "select is_paid, cancelled_at,
                    (select count(*) from checkout_sessions
                     where checkout_sessions.id = $1) as completed
             from orders where shop = $2 and id = $3",
        )
        .bind(session_id)
        .bind(CHECKOUT)
        .bind(order_id)
        .fetch_optional()
        .await?;
    let Some(row) = row else {
        return Ok(Payability::Payable);
    };
    if row.get::<i64>("is_paid")? != 0 || row.get::<i64>("completed")? != 0 {
        return Ok(Payability::Paid);
    }
    let cancelled_at: Option<i64> = row.get("cancelled_at")?;
    Ok(cancelled_at.map_or(Payability::Payable, |_| Payability::Cancelled))
}

/// Deletes checkouts that were requested before this time, and whose pages expired before it.
pub async fn forget(db: &Db, before: Timestamp, limit: i64) -> Result<u64> {
    db.transact(
        "delete from checkouts
         where id in (
             select id from checkouts
             where created_at < $1 and (expires_at is null or expires_at < $1)
             order by created_at
             limit $2
             for update skip locked
         )",
    )
    .bind(before.0)
    .bind(limit)
    .execute()
    .await
}
