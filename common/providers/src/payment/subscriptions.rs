//! The endpoints to which the payment provider posts (its API reference, Webhook Endpoints).

use domain::subscription::{Subscription, Wanted, Wrong};
use serde::Deserialize;
use serde_json::Value;

use super::Payment;
use crate::CallFailure;
use crate::subscriptions::Mended;

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "subscriptions";
const LIST: &str = "webhook_endpoints";
const ENABLED: &str = "enabled";

#[derive(Deserialize)]
struct Endpoint {
    id: String,
    url: String,
    enabled_events: Vec<String>,
    status: String,
    api_version: Option<String>,
}

impl Payment {
    /// The endpoints of the key's own account.
    pub async fn subscriptions(&self) -> Result<Vec<Subscription>, CallFailure> {
        let id = |it: &Endpoint| it.id.clone();
        // An account that is connected has none of its own: its platform subscribes for it.
        let own = self.of_account(None);
        let all = own.all(OPERATION, LIST, Vec::new(), id).await?;
        let endpoints = all.into_iter().map(|it: Endpoint| Subscription {
            id: it.id,
            url: it.url,
            topics: it.enabled_events,
            is_active: it.status == ENABLED,
            api_version: it.api_version,
        });
        Ok(endpoints.collect())
    }

    /// Mends what is wrong. A new endpoint has a secret of its own, which the service would have to know first, so none is
    /// made: what nobody subscribes to is added to an endpoint that there is.
    pub async fn mend(&self, wanted: &Wanted, wrong: &Wrong) -> Result<Mended, CallFailure> {
        let (id, form) = match wrong {
            Wrong::Off { id, .. } => (
                id.clone(),
                vec![("disabled".to_owned(), "false".to_owned())],
            ),
            Wrong::Missing { topics } => {
                let mut all = self.subscriptions().await?;
                all.sort_by_key(|it| it.url != wanted.url);
                let Some(ours) = all
                    .into_iter()
                    .find(|it| it.is_active && wanted.is_ours(&it.url))
                else {
                    return Ok(Mended::ByHand);
                };
                let types = ours.topics.iter().chain(topics).enumerate();
                let form = types.map(|(at, name)| (format!("enabled_events[{at}]"), name.clone()));
                (ours.id, form.collect())
            }
            // What posts elsewhere may be somebody's, and has a secret that is not known here.
            Wrong::Elsewhere { .. } | Wrong::OtherVersion { .. } => return Ok(Mended::ByHand),
        };
        let provider = &self.provider;
        let request = provider
            .client
            .post(format!("{}/v1/{LIST}/{id}", provider.url))
            .bearer_auth(&provider.token)
            .form(&form);
        let _: (Value, _) = provider.page(OPERATION, request).await?;
        Ok(Mended::Done)
    }
}
