//! The storefront's admin API, as far as fulfilment needs it. Shapes: the provider's REST
//! reference, resources FulfillmentOrder and Fulfillment.

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::{Failure, Provider};
use crate::config::Api;

#[derive(Clone)]
pub struct Storefront {
    provider: Provider,
}

/// What a request for fulfilment came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// The storefront's id of the fulfilment.
    Created { id: String },
    /// Nothing of the order is open: it was fulfilled or cancelled there already.
    NothingOpen,
}

#[derive(Deserialize)]
struct FulfillmentOrders {
    fulfillment_orders: Vec<FulfillmentOrder>,
}

#[derive(Deserialize)]
struct FulfillmentOrder {
    id: i64,
    status: String,
}

#[derive(Deserialize)]
struct Created {
    fulfillment: CreatedFulfillment,
}

#[derive(Deserialize)]
struct CreatedFulfillment {
    id: i64,
}

impl Storefront {
    pub fn new(api: &Api) -> Self {
        Storefront {
            provider: Provider::new("storefront", api),
        }
    }

    /// Creates the fulfilment of all that is open of an order. `key` is the idempotency key.
    pub async fn request_fulfillment(
        &self,
        shop: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Requested, Failure> {
        let call = || self.create_what_is_open(shop, order_id, key);
        self.provider.patiently(call).await
    }

    async fn create_what_is_open(
        &self,
        shop: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Requested, Failure> {
        let open = self.open(shop, order_id).await?;
        if open.is_empty() {
            return Ok(Requested::NothingOpen);
        }
        self.create(shop, &open, key).await
    }

    async fn open(&self, shop: &str, order_id: i64) -> Result<Vec<i64>, Failure> {
        let path = format!("orders/{order_id}/fulfillment_orders.json");
        let request = self.provider.client.get(self.url(&path));
        let response = self.provider.send(self.headers(request, shop)).await?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(self.provider.refused(told(status)));
        }
        let orders: FulfillmentOrders = self.provider.json(response).await?;
        let open = orders.fulfillment_orders.into_iter();
        Ok(open
            .filter(|order| order.status == "open")
            .map(|order| order.id)
            .collect())
    }

    async fn create(&self, shop: &str, open: &[i64], key: Uuid) -> Result<Requested, Failure> {
        let orders: Vec<_> = open
            .iter()
            .map(|id| json!({ "fulfillment_order_id": id }))
            .collect();
        let body = json!({
            "fulfillment": {
                "line_items_by_fulfillment_order": orders,
                "notify_customer": false,
            }
        });
        let request = self
            .provider
            .client
            .post(self.url("fulfillments.json"))
            .header("Idempotency-Key", key.to_string())
            .json(&body);
        let response = self.provider.send(self.headers(request, shop)).await?;
        match response.status() {
            StatusCode::OK | StatusCode::CREATED => {
                let created: Created = self.provider.json(response).await?;
                let id = created.fulfillment.id.to_string();
                Ok(Requested::Created { id })
            }
            // Someone else closed them since they were listed: look again.
            StatusCode::UNPROCESSABLE_ENTITY => Err(self
                .provider
                .timeout("has no open fulfilment order any more")),
            status => Err(self.provider.refused(told(status))),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.provider.url)
    }

    /// The shop is named in a header: the address and its token are one, whatever shop a
    /// delivery claims to be from.
    fn headers(&self, request: reqwest::RequestBuilder, shop: &str) -> reqwest::RequestBuilder {
        request
            .header("X-Storefront-Access-Token", &self.provider.token)
            .header("X-Storefront-Shop-Domain", shop)
            .header("Accept", "application/json")
    }
}

fn told(status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!(
                "it answered {}; check STOREFRONT_API_TOKEN",
                status.as_u16()
            )
        }
        StatusCode::NOT_FOUND => {
            "it answered 404; does STOREFRONT_API_URL belong to the shop of this order?".to_owned()
        }
        status => format!("it answered {}", status.as_u16()),
    }
}
