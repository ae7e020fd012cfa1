//! The call that asks the storefront whether it agrees with what only the topic of a delivery says.
//! The question is stored by `flows::orders`, which also says why it is asked
//! (`flows::confirmations`).

use anyhow::Result;
use domain::job::Job;
use domain::order::record::Record;
use domain::order::{FinancialStatus, FulfillmentStatus, Order, Topic};
use flows::confirmations::{self, Question};
use flows::orders;
use flows::outbox::{self, Outbox};
use store::sql::Tx;

use super::{Answer, Providers};
use crate::failure::call_failed;

/// What the storefront answers.
pub enum Verdict {
    /// The topic is right. This is what the storefront says of the three statuses.
    Confirmed(Box<Record>),
    /// The topic is wrong, or there is no such order.
    Refuted,
}

pub async fn call(providers: &Providers, job: &Job) -> Result<Answer> {
    let question: Question = outbox::body(job)?;
    let provider = providers.clients.of_shop(&question.shop)?;
    let order = provider.order(&question.shop, question.order_id).await;
    let verdict = match order.map_err(call_failed)? {
        Some((order, body)) if agrees(&order, &question.topic) => {
            let record = Record::of(order, None, &body, job.created_at.0);
            Verdict::Confirmed(Box::new(record))
        }
        Some((order, _)) if order.updated_at.unwrap_or(i64::MAX) < question.stated_at => {
            anyhow::bail!("the storefront's API is behind its webhooks; it is asked again later")
        }
        None if question.topic == Topic::Deleted.into_str() => {
            Verdict::Confirmed(Box::new(Record::deleted(job.created_at.0)))
        }
        Some(_) | None => Verdict::Refuted,
    };
    Ok(Answer::Confirmation(verdict))
}

/// Whether the order is what the topic says.
fn agrees(order: &Order, topic: &str) -> bool {
    match topic.parse() {
        Ok(Topic::Cancelled) => order.cancelled_at.is_some(),
        Ok(Topic::Paid) => matches!(
            order.financial_status,
            Some(
                FinancialStatus::Paid
                    | FinancialStatus::PartiallyRefunded
                    | FinancialStatus::Refunded
            )
        ),
        Ok(Topic::Fulfilled) => order.fulfillment_status == Some(FulfillmentStatus::Fulfilled),
        Ok(Topic::Create | Topic::Updated | Topic::Deleted) | Err(_) => false,
    }
}

pub async fn record(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    verdict: &Verdict,
) -> Result<()> {
    let question: Question = outbox::body(job)?;
    match verdict {
        Verdict::Confirmed(record) => {
            let key = (question.shop, question.order_id);
            Ok(orders::confirmed(outbox, tx, key, Record::clone(record)).await?)
        }
        Verdict::Refuted => {
            metrics::counter!("waybill_order_topics_refuted_total", "topic" => question.topic.clone())
                .increment(1);
            tracing::warn!(
                job = %job.id,
                order_id = question.order_id,
                topic = question.topic,
                "the storefront does not confirm what a topic alone says, so it does not count; see `waybill orders repeated`"
            );
            Ok(confirmations::refute(tx, question).await?)
        }
    }
}
