//! The charges and refunds of a time, as the provider's books have them (its API reference, List all charges and List all
//! refunds).

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Payment;
use crate::CallFailure;
use crate::changes::{PAGE, Period, with_query};

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

#[derive(Deserialize)]
struct List<T> {
    data: Vec<T>,
    #[serde(default)]
    has_more: bool,
}

impl Payment {
    /// The charges that were made in this period.
    pub async fn charges(&self, period: Period) -> Result<Vec<Charge>, CallFailure> {
        self.all("charges", period, &[], |charge: &Charge| charge.id.clone())
            .await
    }

    /// The charges of which something was given back in this period, as they are now.
    pub async fn refunded_charges(&self, period: Period) -> Result<Vec<Charge>, CallFailure> {
        let expand = [("expand[]", "data.charge")];
        let refunds = self.all("refunds", period, &expand, |refund: &Refund| {
            refund.id.clone()
        });
        Ok(refunds
            .await?
            .into_iter()
            .filter_map(|it| it.charge)
            .collect())
    }

    /// All pages of a list.
    async fn all<T: DeserializeOwned>(
        &self,
        list: &str,
        period: Period,
        more: &[(&str, &str)],
        id: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, CallFailure> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let mut query = vec![
                ("limit", PAGE.to_string()),
                ("created[gte]", period.from.unix_seconds().to_string()),
                ("created[lt]", period.until.unix_seconds().to_string()),
            ];
            query.extend(
                more.iter()
                    .map(|(name, value)| (*name, (*value).to_owned())),
            );
            query.extend(all.last().map(|last| ("starting_after", id(last))));
            let url = with_query(&format!("{}/v1/{list}", self.provider.url), &query);
            let request = self.provider.client.get(url);
            let request = self.about(request.bearer_auth(&self.provider.token));
            let ask = self.provider.send(request);
            let (page, _) = self.provider.page(OPERATION, ask).await?;
            let List { data, has_more } = page;
            let is_empty = data.is_empty();
            all.extend(data);
            if !has_more || is_empty {
                return Ok(all);
            }
        }
    }
}
