//! The question whether the storefront agrees with what only the topic of a delivery says. The
//! topic is not signed, and a cancellation gives money back. So where the storefront's API is set
//! up, such a topic counts only after the storefront has said the same. [`Internal::ConfirmTopic`] is the job that
//! asks; its body is the [`Question`].

use domain::job::Internal;
use domain::order::OrderKey;
use domain::order::record::Record;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::aggregates;
use store::sql::{self, Tx};

use crate::outbox::Outbox;

/// What the storefront is asked to confirm.
#[derive(Debug, Deserialize, Serialize)]
pub struct Question {
    pub shop: String,
    pub order_id: i64,
    /// The topic, as the storefront spells it.
    pub topic: String,
    /// When the order was last changed according to the body, in Unix milliseconds; 0 if the body
    /// does not say.
    pub stated_at: i64,
    /// The hash of the body, by which the order keeps it.
    pub hash: String,
}

/// Counts that the storefront does not confirm it.
pub async fn refute(tx: &mut Tx, question: Question) -> sql::Result<()> {
    let key = (question.shop, question.order_id);
    let count = |order: &mut Record| {
        if let Some(body) = order.own.bodies.get_mut(&question.hash) {
            body.refuted += 1;
        }
    };
    aggregates::edit(tx, vec![key], count)
        .await?
        .whole()
        .map(|_| ())
}

/// Stores the job that asks the question.
pub(crate) fn ask(outbox: &mut Outbox<'_>, key: &OrderKey, question: &Question) {
    outbox.job(Internal::ConfirmTopic, key, &json!(question));
}
