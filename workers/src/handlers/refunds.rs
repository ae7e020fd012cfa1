//! The call that refunds a payment of an order that is cancelled, or was paid twice. What is owed was decided in
//! `flows::refunds`; here the payment provider is asked.
//!
//! The job's id is the idempotency key, so one refund is made however often the job runs. Some
//! providers keep a failure under its key and answer with it ever after. After such a failure, and
//! after one that was final, the call first looks whether there is a refund, and then asks under
//! the next key.

use anyhow::Result;
use domain::job::Job;
use domain::order::OrderKey;
use flows::outbox::Outbox;
use flows::refunds::{self, RefundJob};
use platform::clock::Clock;
use providers::CallFailure;
use providers::payment::{IdempotencyKey, Refunded};
use store::refunds::{self as rows, State};
use store::sql::{self, Db, Tx};
use store::{orders, payments};

use super::{Answer, KEYS_A_RUN, Providers};
use crate::failure::call_failed;

/// Asks the payment provider, unless the refund has its answer. Before every attempt but the first
/// it looks for a refund, because an answer may have been lost, or people may have refunded the
/// payment themselves.
pub async fn call(db: &Db, clock: &Clock, providers: &Providers, job: &Job) -> Result<Answer> {
    let refund = RefundJob::read(job)?;
    let key = refund.order_key();
    let payment_id = refund.payment_id.as_str();
    let provider = providers.clients.of_payment(payment_id)?;
    let Some(this_try) = rows::begin_try(db, &key, payment_id, clock.now()).await? else {
        return Ok(Answer::NotAsked);
    };
    let provider = provider.of_account(payments::account(db, payment_id).await?);
    let mut idempotency_key = IdempotencyKey {
        job: job.id,
        number: this_try.key_number,
    };
    let mut keys = 1;
    loop {
        if keys > 1 || !this_try.is_first {
            let found = provider.find_refund(payment_id, key.1).await;
            if let Some(found) = found.map_err(call_failed)? {
                return Ok(Answer::Refund(found));
            }
        }
        if !is_owed(db, &key).await? {
            rows::drop_request(db, &key, payment_id).await?;
            return Ok(Answer::NotAsked);
        }
        let answer = provider.refund(payment_id, key.1, idempotency_key).await;
        if let Err(CallFailure::Stored { .. }) = answer {
            idempotency_key.number += 1;
            let number = idempotency_key.number;
            rows::try_again(db, &key, payment_id, number, clock.now()).await?;
            if keys < KEYS_A_RUN {
                keys += 1;
                continue;
            }
        }
        return Ok(Answer::Refund(answer.map_err(call_failed)?));
    }
}

/// Whether a refund is still owed: that of a cancelled order is withdrawn where it is not, and an order that was paid twice
/// may have been given back in another way meanwhile.
async fn is_owed(db: &Db, key: &OrderKey) -> Result<bool> {
    let order = orders::record(db, key).await?;
    Ok(order.is_some_and(|order| order.cancelled.is_some() || order.too_much() > 0))
}

/// Writes the provider's answer.
pub async fn record(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    answer: &Refunded,
) -> Result<()> {
    let refund = RefundJob::read(job)?;
    let answer = match answer {
        Refunded::Issued { id, amount } => rows::Answer {
            state: State::Issued,
            amount_minor: amount.map(|amount| amount.minor),
            provider_id: Some(id.clone()),
        },
        Refunded::Already => rows::Answer {
            state: State::AlreadyRefunded,
            amount_minor: None,
            provider_id: None,
        },
    };
    refunds::end(outbox, tx, &refund, &answer, None).await?;
    Ok(())
}

/// Records that there will be no refund.
pub async fn on_exhausted(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    error: &str,
) -> sql::Result<()> {
    let Ok(refund) = RefundJob::read(job) else {
        return Ok(());
    };
    let answer = rows::Answer {
        state: State::Failed,
        amount_minor: None,
        provider_id: None,
    };
    refunds::end(outbox, tx, &refund, &answer, Some(error)).await
}
