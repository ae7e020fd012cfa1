//! Refunds: requesting one, and finding those that were made.

use domain::connection::bare;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{IdempotencyKey, Payment};
use crate::{CallFailure, Provider};
use domain::money::{Currency, Money};

/// The result of a request for a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refunded {
    Issued {
        /// The provider's id of the refund, `re_..`.
        id: String,
        /// None when the currency does not have such an amount.
        amount: Option<Money>,
    },
    /// Nothing was left to be refunded (COMMERCE_005).
    Already,
}

#[derive(Deserialize)]
struct RefundObject {
    id: String,
    amount: Option<i64>,
    currency: Option<String>,
    status: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    order_id: Option<String>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<RefundObject>,
}

impl RefundObject {
    fn has_failed(&self) -> bool {
        ["failed", "canceled"].contains(&self.status.as_deref().unwrap_or_default())
    }

    fn is_for(&self, order_id: &str) -> bool {
        let metadata = self.metadata.as_ref();
        metadata.and_then(|it| it.order_id.as_deref()) == Some(order_id)
    }

    /// A refund for which the customer must still say where the money is to go is not issued. It is
    /// looked for again later.
    fn issued(self, provider: &Provider) -> Result<Refunded, CallFailure> {
        if self.status.as_deref() == Some("requires_action") {
            let what = "waits until the customer says where the money is to go";
            return Err(provider.waiting(what));
        }
        let currency = self.currency.as_deref().and_then(Currency::parse);
        let amount = self.amount.zip(currency);
        Ok(Refunded::Issued {
            amount: amount.and_then(|(minor, currency)| Money::of_provider(minor, currency).ok()),
            id: self.id,
        })
    }
}

impl Payment {
    /// Refunds everything that is left of a payment intent.
    pub async fn refund(
        &self,
        payment_id: &str,
        order_id: i64,
        key: IdempotencyKey,
    ) -> Result<Refunded, CallFailure> {
        let call = || self.refund_once(payment_id, order_id, key);
        self.provider.patiently("refund", call).await
    }

    async fn refund_once(
        &self,
        payment_id: &str,
        order_id: i64,
        key: IdempotencyKey,
    ) -> Result<Refunded, CallFailure> {
        let order_id = order_id.to_string();
        let form = [
            ("payment_intent", bare(payment_id)),
            ("metadata[order_id]", order_id.as_str()),
        ];
        let refund: RefundObject = match self.ask("refunds", &form, &key.to_string()).await? {
            Ok(refund) => refund,
            Err(refusal) if refusal.code() == "charge_already_refunded" => {
                return Ok(Refunded::Already);
            }
            Err(refusal) => return Err(refusal.renewable(&self.provider)),
        };
        if refund.has_failed() {
            let status = refund.status.as_deref().unwrap_or_default();
            return Err(self.provider.refused(format!("the refund is {status}")));
        }
        refund.issued(&self.provider)
    }

    /// The refund of a payment intent that was made for this order, if there is one.
    pub async fn find_refund(
        &self,
        payment_id: &str,
        order_id: i64,
    ) -> Result<Option<Refunded>, CallFailure> {
        let order_id = order_id.to_string();
        let payment = utf8_percent_encode(bare(payment_id), NON_ALPHANUMERIC);
        let path = format!("refunds?limit=100&payment_intent={payment}");
        let call = || async {
            match self.read::<List>(&path).await? {
                Ok(list) => Ok(list.data),
                // The refund is requested nevertheless, and the provider's refusal then says why
                // it cannot be made.
                Err(refusal) if refusal.code() == "resource_missing" => Ok(Vec::new()),
                Err(refusal) => Err(refusal.failure(&self.provider)),
            }
        };
        let refunds = self.provider.patiently("refund", call).await?;
        let mut refunds = refunds.into_iter();
        let ours = refunds.find(|refund| refund.is_for(&order_id) && !refund.has_failed());
        ours.map(|refund| refund.issued(&self.provider)).transpose()
    }
}
