//! Asking the storefront whether what the topic of a delivery says, and its body does not, is
//! so. The topic is not signed, and a cancellation gives money back, so with the storefront's
//! API at hand it counts once the storefront says the same.

use anyhow::Result;
use domain::job::{Job, Queue};
use domain::order::record::Record;
use domain::order::{FinancialStatus, FulfillmentStatus, Order};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::order_bodies::{self, BodyKey};
use store::orders::records::OrderKey;
use store::sql::Tx;

use super::fulfillments::failed;
use super::outbox::{self, Outbox};
use super::{Answer, Providers, orders};

pub const KIND: &str = "topics/confirm";

/// What is to be confirmed.
#[derive(Debug, Deserialize, Serialize)]
pub struct Question {
    pub shop: String,
    pub order_id: i64,
    pub topic: String,
    /// When the body says that it was, Unix milliseconds; 0 when it does not say.
    pub stated_at: i64,
    /// The body's, as `order_bodies` keeps it.
    pub hash: String,
}

/// What the storefront says to it.
pub enum Verdict {
    /// It is so; this is what the storefront says of the three statuses.
    Confirmed(Box<Record>),
    /// It is not so, or there is no such order.
    Refuted,
}

/// Asks the question in a job of its own.
pub fn ask(outbox: &mut Outbox<'_>, key: &OrderKey, question: &Question) {
    outbox.job(Queue::Orders, KIND, key, &json!(question));
}

pub async fn call(providers: &Providers, job: &Job) -> Result<Answer> {
    let question: Question = outbox::body(job)?;
    let Some(provider) = &providers.storefront else {
        anyhow::bail!("STOREFRONT_API_URL and STOREFRONT_API_TOKEN are not set in this process");
    };
    let order = provider.order(&question.shop, question.order_id).await;
    let verdict = match order.map_err(failed)? {
        Some((order, body)) if says(&order, &question.topic) => {
            let no_topic = "";
            let record = Record::of(order, no_topic, &body, job.created_at.0);
            Verdict::Confirmed(Box::new(record))
        }
        Some((order, _)) if order.updated_at.unwrap_or(i64::MAX) < question.stated_at => {
            anyhow::bail!("the storefront's API is behind its webhooks; it is asked again later")
        }
        Some(_) | None => Verdict::Refuted,
    };
    Ok(Answer::Confirmation(verdict))
}

/// True if the order is what the topic says.
fn says(order: &Order, topic: &str) -> bool {
    match topic {
        "orders/cancelled" => order.cancelled_at.is_some(),
        "orders/paid" => matches!(
            order.financial_status,
            Some(
                FinancialStatus::Paid
                    | FinancialStatus::PartiallyRefunded
                    | FinancialStatus::Refunded
            )
        ),
        "orders/fulfilled" => order.fulfillment_status == Some(FulfillmentStatus::Fulfilled),
        _ => false,
    }
}

pub async fn record(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    verdict: &Verdict,
) -> Result<()> {
    let question: Question = outbox::body(job)?;
    let key = (question.shop, question.order_id);
    match verdict {
        Verdict::Confirmed(record) => {
            orders::confirmed(outbox, tx, key, Record::clone(record)).await
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
            let body: BodyKey = (key, question.hash);
            Ok(order_bodies::refute(tx, &body).await?)
        }
    }
}
