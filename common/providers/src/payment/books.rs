//! The charges and refunds of a time, as the provider's books have them (its API reference, List all charges and List all
//! refunds).

use serde::Deserialize;

use super::Payment;
use crate::CallFailure;
use crate::changes::Period;

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "books";

/// What the provider says of a charge now. Amounts are in minor units.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Charge {
    pub id: String,
    /// The payment that it belongs to. None for a charge that was made without one.
    pub payment_intent: Option<String>,
    #[serde(rename = "amount_captured")]
    pub captured: i64,
    #[serde(rename = "amount_refunded")]
    pub refunded: i64,
    /// In lower case.
    pub currency: String,
}

#[derive(Deserialize)]
struct Refund {
    id: String,
    charge: Option<Charge>,
}

impl Payment {
    /// The charges that were made in this period.
    pub async fn charges(&self, period: Period) -> Result<Vec<Charge>, CallFailure> {
        let id = |charge: &Charge| charge.id.clone();
        self.all(OPERATION, "charges", created_in(period), id).await
    }

    /// The charges of which something was given back in this period, as they are now.
    pub async fn refunded_charges(&self, period: Period) -> Result<Vec<Charge>, CallFailure> {
        let mut query = created_in(period);
        query.push(("expand[]", "data.charge".to_owned()));
        let id = |refund: &Refund| refund.id.clone();
        let refunds = self.all(OPERATION, "refunds", query, id).await?;
        Ok(refunds.into_iter().filter_map(|it| it.charge).collect())
    }

    /// The charges of a payment, or the charge that it is. None where the provider does not know it.
    pub async fn charges_of(&self, payment: &str) -> Result<Vec<Charge>, CallFailure> {
        let found = if payment.starts_with("ch_") {
            let url = format!("{}/v1/charges/{payment}", self.provider.url);
            let request = self.provider.client.get(url);
            let request = self.about(request.bearer_auth(&self.provider.token));
            let charge = self.provider.page(OPERATION, request).await;
            charge.map(|(charge, _)| vec![charge])
        } else {
            let query = vec![("payment_intent", payment.to_owned())];
            let id = |charge: &Charge| charge.id.clone();
            self.all(OPERATION, "charges", query, id).await
        };
        match found {
            Err(failure) if failure.status() == Some(404) => Ok(Vec::new()),
            found => found,
        }
    }
}

fn created_in(period: Period) -> Vec<(&'static str, String)> {
    vec![
        ("created[gte]", period.from.unix_seconds().to_string()),
        ("created[lt]", period.until.unix_seconds().to_string()),
    ]
}
