//! The charges and refunds of a time, as the provider's books have them (its API reference, List all charges and List all
//! refunds).

use domain::payment::charge::returned;
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
    amount: i64,
    /// Old versions of the API leave it out.
    amount_captured: Option<i64>,
    amount_refunded: i64,
    captured: Option<bool>,
    refunded: Option<bool>,
    status: Option<String>,
    /// In lower case.
    pub currency: String,
}

impl Charge {
    /// What was taken, and what of it went back. A charge that is pending or failed has taken nothing.
    pub fn moved(&self) -> (i64, i64) {
        let has_taken = self
            .status
            .as_deref()
            .is_none_or(|status| status == "succeeded");
        let captured = match (has_taken, self.captured, self.amount_captured) {
            (false, ..) | (_, Some(false), _) => 0,
            (_, _, Some(taken)) if taken > 0 => taken,
            _ => self.amount,
        };
        let is_whole = self.refunded == Some(true);
        let returned = returned((self.amount, captured), (self.amount_refunded, is_whole));
        (captured, returned)
    }
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
        let is_charge = ["ch_", "py_"].iter().any(|it| payment.starts_with(it));
        let found = if is_charge {
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
            // A parameter that names nothing is refused with 400, a path with 404.
            Err(failure) if matches!(failure.status(), Some(400 | 404)) => Ok(Vec::new()),
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
