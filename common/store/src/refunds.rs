//! The `refunds` table: what is refunded for a cancelled order, or of one that was paid twice, one row for each payment. The
//! amount and the id are those that the provider gave, as soon as it has answered.

use serde::Serialize;
use utoipa::ToSchema;

use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::money::{Currency, Money};
use domain::order::OrderKey;
use domain::time::Timestamp;
use strum::IntoStaticStr;

/// The payment id of a refund to which no payment is linked. The storefront refunds the money
/// itself.
pub const NO_PAYMENT: &str = "";

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum State {
    /// The refund is owed, but Waybill does not issue it.
    Recorded,
    /// A job will issue the refund through the payment provider.
    Requested,
    Issued,
    /// The provider had already refunded it (COMMERCE_005).
    AlreadyRefunded,
    /// The provider refuses the refund for good, or it failed after it was issued.
    Failed,
}

/// A refund as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Refund {
    /// The payment's id, or [`NO_PAYMENT`].
    pub payment_id: String,
    pub state: String,
    pub amount_minor: Option<i64>,
    pub currency: Option<String>,
    /// The payment provider's id of the refund.
    pub provider_id: Option<String>,
    /// When the provider was last asked for it. None: never.
    pub tried_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

impl Refund {
    /// The amount, if it and its currency are known.
    pub fn amount(&self) -> Option<Money> {
        let currency = Currency::parse(self.currency.as_deref()?)?;
        let minor = self.amount_minor?;
        Some(Money { minor, currency })
    }
}

const COLUMNS: &str =
    "select payment_id, state, amount_minor, currency, provider_id, tried_at, updated_at
                       from refunds where shop = $1 and order_id = $2
                       order by payment_id";

/// The refunds of an order, which the caller has locked.
pub async fn of(tx: &mut Tx, key: &OrderKey) -> Result<Vec<Refund>> {
    let rows = tx.query(COLUMNS).bind(key.0.as_str()).bind(key.1);
    rows.fetch_all()
        .await?
        .iter()
        .map(Refund::from_row)
        .collect()
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Refund)]
pub struct StoredRefund {
    /// `recorded`, `requested`, `issued`, `already_refunded` or `failed`.
    #[schema(example = "issued")]
    pub state: String,
    /// Null: no payment is linked to the order.
    #[schema(example = "pi_3MmlLrLkdIwHu7ix0snN0B15")]
    pub payment_id: Option<String>,
    /// The payment provider's id of the refund.
    #[schema(example = "re_3MmlLrLkdIwHu7ix0XpFxfgc")]
    pub refund_id: Option<String>,
    #[schema(example = "199.00")]
    pub amount: Option<String>,
    #[schema(example = "EUR")]
    pub currency: Option<String>,
    pub updated_at: Timestamp,
}

/// The refunds of an order, outside a transaction.
pub async fn list(db: &Db, shop: &str, order_id: i64) -> Result<Vec<StoredRefund>> {
    let rows = db.query(COLUMNS).bind(shop).bind(order_id);
    rows.all(|row| {
        let refund = Refund::from_row(row)?;
        Ok(StoredRefund {
            amount: refund.amount().map(|it| it.to_string()),
            state: refund.state,
            payment_id: Some(refund.payment_id).filter(|id| id != NO_PAYMENT),
            refund_id: refund.provider_id,
            currency: refund.currency,
            updated_at: refund.updated_at,
        })
    })
    .await
}

/// A refund to be written.
pub struct NewRefund<'a> {
    pub payment_id: &'a str,
    pub state: State,
    pub amount_minor: Option<i64>,
    pub currency: Option<String>,
}

/// Writes refunds of an order. An existing row takes the new state and amount only if nothing is
/// being done for it.
pub async fn save(
    tx: &mut Tx,
    key: &OrderKey,
    refunds: &[NewRefund<'_>],
    now: Timestamp,
) -> Result<()> {
    let rows = refunds.iter().map(|it| {
        [
            column("shop", &key.0),
            column("order_id", key.1),
            column("payment_id", it.payment_id),
            column("state", it.state.into_str()),
            column("amount_minor", it.amount_minor),
            column("currency", &it.currency),
            column("created_at", now),
            column("updated_at", now),
        ]
    });
    tx.overwrite(
        "refunds",
        "shop, order_id, payment_id",
        rows.collect(),
        " where refunds.state = 'recorded'
            or (refunds.payment_id = '' and refunds.state = 'already_refunded')",
    )
    .await
}

/// Deletes what is not owed any more of this payment, or of all: what people were asked to give back, what no job has
/// issued yet, and what is said of the storefront's own money. Of one payment also that it was given back without our asking.
pub async fn withdraw(tx: &mut Tx, key: &OrderKey, payment_id: Option<&str>) -> Result<()> {
    tx.query(
        "delete from refunds
         where shop = $1 and order_id = $2 and payment_id = coalesce($3, payment_id)
           and (state in ('recorded', 'requested') or payment_id = ''
                or (state = 'already_refunded' and tried_at is null and $3 is not null))",
    )
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(payment_id)
    .done()
    .await
}

/// Deletes a request for a refund that is not owed any more, and that the provider has not made.
pub async fn drop_request(db: &Db, key: &OrderKey, payment_id: &str) -> Result<()> {
    db.transact(
        "delete from refunds
         where shop = $1 and order_id = $2 and payment_id = $3 and state = 'requested'",
    )
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(payment_id)
    .done()
    .await
}

/// A refund that is to be requested now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// The number of its idempotency key.
    pub key_number: i64,
    pub is_first: bool,
}

/// Records that a refund is about to be requested, if it is still to be issued. A refund that had
/// failed gets the next idempotency key, because the provider keeps its answer to the last one.
pub async fn begin_try(
    db: &Db,
    key: &OrderKey,
    payment_id: &str,
    now: Timestamp,
) -> Result<Option<Try>> {
    let mut tx = db.begin().await?;
    let row = tx
        .query(
            "select state, tried_at, coalesce(key_number, 1) as key_number from refunds
             where shop = $1 and order_id = $2 and payment_id = $3
               and state in ('requested', 'failed')
             for update",
        )
        .bind(key.0.as_str())
        .bind(key.1)
        .bind(payment_id)
        .fetch_optional()
        .await?;
    let Some(row) = row else {
        tx.rollback().await?;
        return Ok(None);
    };
    let is_first = row.get::<Option<i64>>("tried_at")?.is_none();
    let has_failed = row.get::<String>("state")? == State::Failed.into_str();
    let key_number = row.get::<i64>("key_number")? + i64::from(has_failed);
    note_try(&mut tx, key, payment_id, key_number, now).await?;
    tx.commit().await?;
    Ok(Some(Try {
        key_number,
        // A refund that failed before this time was recorded has been requested too.
        is_first: is_first && !has_failed,
    }))
}

/// Records that a refund is requested once more, under this key.
pub async fn try_again(
    db: &Db,
    key: &OrderKey,
    payment_id: &str,
    key_number: i64,
    now: Timestamp,
) -> Result<()> {
    let mut tx = db.begin().await?;
    note_try(&mut tx, key, payment_id, key_number, now).await?;
    tx.commit().await
}

async fn note_try(
    tx: &mut Tx,
    key: &OrderKey,
    payment_id: &str,
    key_number: i64,
    now: Timestamp,
) -> Result<()> {
    tx.query(
        "update refunds set tried_at = $1, key_number = $2
         where shop = $3 and order_id = $4 and payment_id = $5",
    )
    .bind(now.0)
    .bind(key_number)
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(payment_id)
    .done()
    .await
}

/// Records that a refund failed after it was issued. False when that was known.
pub async fn fail(tx: &mut Tx, key: &OrderKey, payment_id: &str, now: Timestamp) -> Result<bool> {
    tx.query(
        "update refunds set state = 'failed', updated_at = $1
         where shop = $2 and order_id = $3 and payment_id = $4 and state = 'issued'",
    )
    .bind(now.0)
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(payment_id)
    .changed_one()
    .await
}

/// The provider's answer.
pub struct Answer {
    pub state: State,
    pub amount_minor: Option<i64>,
    pub provider_id: Option<String>,
}

/// Records the provider's answer. False when it was recorded before.
pub async fn answered(
    tx: &mut Tx,
    key: &OrderKey,
    payment_id: &str,
    answer: &Answer,
    now: Timestamp,
) -> Result<bool> {
    tx.query(
        "update refunds
         set state = $1, amount_minor = coalesce($2, amount_minor), provider_id = $3,
             updated_at = $4
         where shop = $5 and order_id = $6 and payment_id = $7
           and state in ('recorded', 'requested', 'failed') and state <> $1",
    )
    .bind(answer.state.into_str())
    .bind(answer.amount_minor)
    .bind(answer.provider_id.as_deref())
    .bind(now.0)
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(payment_id)
    .changed_one()
    .await
}
