//! The `notifications` table: of what customers are to be notified. A row says why, and whether
//! the notification was sent. The address and the text are made when it is sent or shown.

use std::collections::HashSet;

use serde::Serialize;
use strum::IntoStaticStr;
use uuid::Uuid;

use crate::orders::{self, Claim};
use crate::payment_retries::paid_of;
use crate::payments::PaymentEntry;
use crate::sql::{Db, FromRow, Result, Tx, column};
use crate::{aggregates, checkout_sessions};
use domain::money::Money;
use domain::payment::record::is_left_to_provider;
use domain::time::Timestamp;

/// A payment of the customer has failed.
pub const PAYMENT_FAILED: &str = "payment_failed";

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum State {
    /// No mail is configured, so the notification is shown but not sent.
    Kept,
    Pending,
    Sent,
    /// Nobody gave us an address.
    NoAddress,
    /// Before it was sent, the reason disappeared, or a later notification said the same.
    NotNeeded,
    /// Before it was sent, the failure had become old.
    TooLate,
    /// The mail server refuses the address.
    Refused,
    /// The mail server could not be reached in all tries.
    Failed,
}

#[derive(Clone, Debug)]
pub struct NewNotification {
    pub id: Uuid,
    pub kind: &'static str,
    pub payment_id: String,
    pub state: State,
}

pub async fn insert(tx: &mut Tx, rows: &[NewNotification], now: Timestamp) -> Result<()> {
    let rows = rows.iter().map(|new| {
        [
            column("id", new.id),
            column("kind", new.kind),
            column("payment_id", &new.payment_id),
            column("state", new.state.into_str()),
            column("created_at", now),
            column("updated_at", now),
        ]
    });
    tx.insert("notifications", rows.collect(), "").await?;
    Ok(())
}

/// Records how a notification ended. False when that was recorded before.
pub async fn ended(
    tx: &mut Tx,
    id: Uuid,
    state: State,
    error: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    tx.query(
        "update notifications set state = $1, error = $2, updated_at = $3
         where id = $4 and state in ('pending', 'failed')",
    )
    .bind(state.into_str())
    .bind(error)
    .bind(now.0)
    .bind(id)
    .changed_one()
    .await
}

/// A notification with the values that its text is made of.
pub struct Letter {
    pub state: String,
    /// When the failure became known.
    pub created_at: Timestamp,
    /// True when a later failure of the payment has a notification of its own.
    pub is_superseded: bool,
    pub payment_state: String,
    /// True when nothing is owed any more: it was paid otherwise, or the order is cancelled.
    pub is_settled: bool,
    pub amount: Money,
    pub decline_code: Option<String>,
    /// The address to which it is sent: the payment's receipt address, or else that of its
    /// checkout, or else that of the order of its agreement.
    pub email: Option<String>,
    /// The order of the payment's agreement.
    pub order: Option<Claim>,
    /// The code with which the order's pages open, if they ask for one.
    pub page_code: Option<String>,
    /// When we try the payment again, if we do.
    pub next_retry_at: Option<Timestamp>,
    /// True when it is left to the provider, and not to us, to try the payment again.
    pub is_left_to_provider: bool,
}

/// Which of the payments have a notification already.
pub async fn reported_of(tx: &mut Tx, payments: Vec<String>) -> Result<HashSet<String>> {
    tx.query("select distinct payment_id from notifications where payment_id in ($1..)")
        .bind(payments)
        .all(|row| row.get("payment_id"))
        .await
}

pub async fn letter(db: &Db, id: Uuid) -> Result<Option<Letter>> {
    let row = db
        .query(
            "select notifications.state, notifications.created_at,
                    payments.state as payment_state, payments.created_at as paid_at,
                    (select count(*) from notifications later
                     where later.payment_id = payments.id and later.id > notifications.id
                    ) as later,
                    (select count(*) from checkout_sessions
                     where checkout_sessions.payment_intent = payments.id
                       and checkout_sessions.mode = 'payment') as sessions,
                    payments.id as payment_id, payments.record,
                    (select min(payment_retries.due_at) from payment_retries
                     where payment_retries.payment_id = payments.id
                       and payment_retries.state = 'scheduled') as next_retry_at
             from notifications
             join payments on payments.id = notifications.payment_id
             where notifications.id = $1",
        )
        .bind(id)
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(None) };
    let id: String = row.get("payment_id")?;
    let payment = aggregates::record_of::<PaymentEntry>(&id, &row.get::<String>("record")?)?;
    let agreement = payment.agreement();
    let order = match agreement {
        Some(agreement) => orders::owner(db, agreement).await?,
        None => None,
    };
    let cycle = payment.cycle();
    let is_paid_otherwise = match agreement {
        Some(agreement) => paid_of(db, agreement, &id, row.get("paid_at")?)
            .await?
            .contains(&cycle),
        None => false,
    };
    let email = match payment.email() {
        Some(email) => Some(email.to_owned()),
        None => checkout_sessions::buyer(db, &id).await?,
    };
    let record = match &order {
        Some(order) => orders::record(db, &order.key).await?,
        None => None,
    };
    let page_code = record.as_ref().and_then(|record| record.own.page_code());
    let page_code = page_code.map(ToOwned::to_owned);
    let order_email = record.and_then(|record| record.contact.value.email);
    let is_of_checkout = row.get::<i64>("sessions")? > 0;
    let failure = payment.failure.as_ref().map(|part| &part.value);
    let is_left_to_provider = failure
        .is_some_and(|failure| is_left_to_provider(agreement.is_some(), is_of_checkout, failure));
    Ok(Some(Letter {
        page_code,
        state: row.get("state")?,
        created_at: row.get("created_at")?,
        is_superseded: row.get::<i64>("later")? > 0,
        is_left_to_provider,
        payment_state: row.get("payment_state")?,
        is_settled: is_paid_otherwise || order.as_ref().is_some_and(|it| it.settles(&cycle)),
        amount: Money {
            minor: payment.amount(),
            currency: payment.currency.value,
        },
        decline_code: failure.and_then(|failure| failure.decline_code.clone()),
        email: email.or(order_email),
        order,
        next_retry_at: row.get("next_retry_at")?,
    }))
}

impl Letter {
    /// True while the payment still fails and is owed. That may be over before the notification is
    /// sent.
    pub fn is_needed(&self) -> bool {
        self.payment_state == "requires_payment_method" && !self.is_settled
    }
}

/// A notification as an operator sees it, without personal data.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Summary {
    pub id: Uuid,
    pub kind: String,
    pub payment_id: String,
    pub state: String,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The newest notifications of a payment, or of all payments when `payment_id` is empty.
pub async fn list(db: &Db, payment_id: &str, limit: i64) -> Result<Vec<Summary>> {
    db.query(
        "select id, kind, payment_id, state, error, created_at, updated_at
         from notifications
         where $1 = '' or payment_id = $1
         order by id desc
         limit $2",
    )
    .bind(payment_id)
    .bind(limit)
    .all(Summary::from_row)
    .await
}

/// Deletes at most `limit` notifications that ended before `before`.
pub async fn forget(db: &Db, before: Timestamp, limit: i64) -> Result<u64> {
    db.transact(
        "delete from notifications
         where id in (
             select id from notifications
             where updated_at < $1 and state <> 'pending'
             order by updated_at
             limit $2
             for update skip locked
         )",
    )
    .bind(before.0)
    .bind(limit)
    .execute()
    .await
}
