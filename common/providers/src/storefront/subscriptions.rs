//! The webhooks that a storefront posts (its REST reference, resource Webhook; the REST API of `WooCommerce`, Webhooks).

use domain::subscription::{Subscription, Wanted, Wrong};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Credential, Storefront};
use crate::CallFailure;
use crate::changes::{NotNamed, PAGE, next_of_link, with_query};
use crate::subscriptions::Mended;

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "subscriptions";
const ACTIVE: &str = "active";
/// How many pages of subscriptions are read, at most.
const PAGES: usize = 20;

#[derive(Deserialize)]
struct Webhooks {
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
struct Webhook {
    id: i64,
    address: String,
    topic: String,
    api_version: Option<String>,
}

#[derive(Deserialize)]
struct WooCommerce {
    id: i64,
    status: String,
    topic: String,
    delivery_url: String,
}

impl Storefront {
    /// The subscriptions of a shop. Those that somebody has made on a page of the storefront need not be among them.
    pub async fn subscriptions(&self, shop: &str) -> Result<Vec<Subscription>, CallFailure> {
        match self.credential {
            Credential::Header(_) => self.of_app(shop).await,
            Credential::Basic => self.of_woocommerce(shop).await,
        }
    }

    async fn of_app(&self, shop: &str) -> Result<Vec<Subscription>, CallFailure> {
        let mut all = Vec::new();
        let mut page = None;
        for _ in 0..PAGES {
            let mut query = vec![("limit", PAGE.to_string())];
            query.extend(page.map(|page| ("page_info", page)));
            let url = with_query(&self.url("webhooks.json"), &query);
            let request = self.headers(self.provider.client.get(url), Some(shop));
            let (Webhooks { webhooks }, headers) = self.provider.page(OPERATION, request).await?;
            all.extend(webhooks.into_iter().map(|it| Subscription {
                id: it.id.to_string(),
                url: it.address,
                topics: vec![it.topic],
                is_active: true,
                api_version: it.api_version,
            }));
            page = next_of_link(&headers).map_err(|NotNamed| self.provider.unnamed_page())?;
            if page.is_none() {
                break;
            }
        }
        Ok(all)
    }

    async fn of_woocommerce(&self, shop: &str) -> Result<Vec<Subscription>, CallFailure> {
        let mut all = Vec::new();
        for page in 1..=PAGES {
            let query = [("per_page", PAGE.to_string()), ("page", page.to_string())];
            let url = with_query(&self.url("webhooks"), &query);
            let request = self.headers(self.provider.client.get(url), Some(shop));
            let (webhooks, _) = self.provider.page(OPERATION, request).await?;
            let webhooks: Vec<WooCommerce> = webhooks;
            let is_last = webhooks.len() < PAGE;
            all.extend(webhooks.into_iter().map(|it| Subscription {
                id: it.id.to_string(),
                url: it.delivery_url,
                topics: vec![it.topic],
                is_active: it.status == ACTIVE,
                api_version: None,
            }));
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// Mends what is wrong. `secret` is what a new webhook of `WooCommerce` signs with; the other API signs with the secret
    /// of the app.
    pub async fn mend(
        &self,
        shop: &str,
        wanted: &Wanted,
        wrong: &Wrong,
        secret: Option<&str>,
    ) -> Result<Mended, CallFailure> {
        let (id, topics) = match wrong {
            // What posts elsewhere may be somebody's, so it stays.
            Wrong::Missing { topics } | Wrong::Elsewhere { topics, .. } => (None, topics),
            Wrong::Off { id, topics } => (Some(id), topics),
            // It is chosen where the app is made.
            Wrong::OtherVersion { .. } => return Ok(Mended::ByHand),
        };
        for topic in topics {
            let (path, body) = match self.credential {
                Credential::Header(_) => {
                    let mut webhook = json!({"address": wanted.url, "format": "json"});
                    match id {
                        Some(id) => webhook["id"] = json!(id.parse::<i64>().ok()),
                        None => webhook["topic"] = json!(topic),
                    }
                    let path = id.map_or_else(
                        || "webhooks.json".to_owned(),
                        |id| format!("webhooks/{id}.json"),
                    );
                    (path, json!({ "webhook": webhook }))
                }
                Credential::Basic => {
                    let mut webhook = json!({"delivery_url": wanted.url, "status": ACTIVE});
                    if id.is_none() {
                        let Some(secret) = secret else {
                            return Ok(Mended::ByHand);
                        };
                        webhook["secret"] = json!(secret);
                        webhook["topic"] = json!(topic);
                        webhook["name"] = json!(format!("Waybill: {topic}"));
                    }
                    let path =
                        id.map_or_else(|| "webhooks".to_owned(), |id| format!("webhooks/{id}"));
                    (path, webhook)
                }
            };
            let method = id.map_or(Method::POST, |_| Method::PUT);
            let request = self.provider.client.request(method, self.url(&path));
            let request = self.headers(request.json(&body), Some(shop));
            let _: (Value, _) = self.provider.page(OPERATION, request).await?;
        }
        Ok(Mended::Done)
    }
}
