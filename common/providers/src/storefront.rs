//! The storefront's admin API, as far as orders, fulfilment and checkouts need it. The shapes are
//! from the provider's REST reference, resources FulfillmentOrder and Fulfillment.

mod catalogue;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

pub use catalogue::Variant;

use super::probe::{self, ProbeError, Probed};
use super::{CallFailure, Provider};
use crate::Api;
use domain::order::Order;
use domain::profile::{OWN_TOKEN_HEADER, StorefrontProfile};
use platform::clock::Clock;

#[derive(Clone)]
pub struct Storefront {
    provider: Provider,
    /// Where the access token stands.
    token_header: &'static str,
    /// Where the shop is named, if it is.
    shop_header: Option<&'static str>,
}

/// The result of a request for fulfilment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// The storefront's id of the fulfilment, or of the first one when there are several.
    Created { id: String },
    /// Nothing of the order is open, because it was fulfilled or cancelled there already.
    NothingOpen,
}

#[derive(Deserialize)]
struct OfOrder {
    order: Value,
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

/// The fields of an order that are requested. They say only how the order stands.
const STATUSES: [&str; 7] = [
    "id",
    "created_at",
    "updated_at",
    "cancelled_at",
    "cancel_reason",
    "financial_status",
    "fulfillment_status",
];

const UNREADABLE: &str = "its answer about an order cannot be read";

/// What is left to be fulfilled of an order.
struct Listed {
    open: Vec<i64>,
    /// True when a part of it may be fulfilled later, but not now.
    held: bool,
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
    pub fn new(api: &Api, profile: &StorefrontProfile, clock: &Clock) -> Self {
        Storefront {
            provider: Provider::new(
                "storefront",
                "STOREFRONT_API_URL",
                "STOREFRONT_API_TOKEN",
                api,
                clock,
            ),
            token_header: profile.token_header.unwrap_or(OWN_TOKEN_HEADER),
            shop_header: profile.headers.shop,
        }
    }

    /// Creates fulfilments of everything that is open of an order. The idempotency key of each
    /// fulfilment is `key` with the id of its fulfilment order.
    pub async fn request_fulfillment(
        &self,
        shop: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Requested, CallFailure> {
        let call = || self.create_what_is_open(shop, order_id, key);
        self.provider.patiently("fulfillment", call).await
    }

    /// How an order stands at the storefront now, with the JSON that says so. It has only
    /// statuses and times, and nothing about the customer. None when there is no such order.
    pub async fn order(
        &self,
        shop: &str,
        order_id: i64,
    ) -> Result<Option<(Order, Vec<u8>)>, CallFailure> {
        let path = format!("orders/{order_id}.json?fields={}", STATUSES.join(","));
        let Some(OfOrder { order }) = self.get("order", Some(shop), &path).await? else {
            return Ok(None);
        };
        let lacking = STATUSES.iter().find(|name| order.get(**name).is_none());
        if let Some(name) = lacking {
            let what = format!("its answer about an order has no {name}");
            return Err(self.provider.refused(what));
        }
        let body = order.to_string().into_bytes();
        let read = Order::read(&body);
        let order = read.map_err(|_| self.provider.refused(UNREADABLE.to_owned()))?;
        Ok(Some((order, body)))
    }

    /// Reads an object. None when it does not exist.
    async fn get<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        shop: Option<&str>,
        path: &str,
    ) -> Result<Option<T>, CallFailure> {
        let call = || async {
            let request = self.provider.client.get(self.url(path));
            let response = self.provider.send(self.headers(request, shop)).await?;
            match response.status() {
                StatusCode::OK => Ok(Some(self.provider.json(response).await?)),
                StatusCode::NOT_FOUND => Ok(None),
                status => Err(self.provider.refused_with(status, status_text(status))),
            }
        };
        self.provider.patiently(operation, call).await
    }

    /// True while the storefront is left alone because it did not answer.
    pub fn is_left_alone(&self) -> bool {
        self.provider.is_left_alone()
    }

    /// Asks, in the same way as every call, for what is open of an order that cannot exist.
    pub async fn probe(&self, shop: &str) -> Result<Probed, ProbeError> {
        let url = self.url("orders/1/fulfillment_orders.json");
        probe::ask(self.headers(self.provider.client.get(url), Some(shop))).await
    }

    /// Creates one fulfilment for each fulfilment order, because these may be at different
    /// locations.
    async fn create_what_is_open(
        &self,
        shop: &str,
        order_id: i64,
        key: Uuid,
    ) -> Result<Requested, CallFailure> {
        let listed = self.list(shop, order_id).await?;
        let mut first = None;
        for id in listed.open {
            let created = self.create(shop, order_id, id, key).await?;
            first = first.or(created);
        }
        if listed.held {
            let what = "holds a part of the order back; it is asked again later";
            return Err(self.provider.waiting(what));
        }
        Ok(match first {
            Some(id) => Requested::Created { id },
            None => Requested::NothingOpen,
        })
    }

    async fn list(&self, shop: &str, order_id: i64) -> Result<Listed, CallFailure> {
        let path = format!("orders/{order_id}/fulfillment_orders.json");
        let request = self.provider.client.get(self.url(&path));
        let response = self
            .provider
            .send(self.headers(request, Some(shop)))
            .await?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(self.provider.refused_with(status, status_text(status)));
        }
        let orders: FulfillmentOrders = self.provider.json(response).await?;
        let orders = orders.fulfillment_orders;
        let open = orders.iter().filter(|order| order.status == "open");
        Ok(Listed {
            open: open.map(|order| order.id).collect(),
            held: orders
                .iter()
                .any(|order| ["on_hold", "scheduled"].contains(&order.status.as_str())),
        })
    }

    /// Creates a fulfilment. None when its fulfilment order was closed in the meantime.
    async fn create(
        &self,
        shop: &str,
        order_id: i64,
        id: i64,
        key: Uuid,
    ) -> Result<Option<String>, CallFailure> {
        let body = json!({
            "fulfillment": {
                "line_items_by_fulfillment_order": [{ "fulfillment_order_id": id }],
                "notify_customer": false,
            }
        });
        let request = self
            .provider
            .client
            .post(self.url("fulfillments.json"))
            .header("Idempotency-Key", format!("{key}-{id}"))
            .json(&body);
        let response = self
            .provider
            .send(self.headers(request, Some(shop)))
            .await?;
        match response.status() {
            StatusCode::OK | StatusCode::CREATED => {
                let created: Created = self.provider.json(response).await?;
                Ok(Some(created.fulfillment.id.to_string()))
            }
            StatusCode::UNPROCESSABLE_ENTITY
                if !self.list(shop, order_id).await?.open.contains(&id) =>
            {
                Ok(None)
            }
            status => Err(self.provider.refused_with(status, status_text(status))),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.provider.url)
    }

    /// Adds the headers of every request. A header names the shop, because there is only one
    /// address with one token, whatever shop a delivery claims to come from.
    fn headers(
        &self,
        request: reqwest::RequestBuilder,
        shop: Option<&str>,
    ) -> reqwest::RequestBuilder {
        let request = request
            .header(self.token_header, &self.provider.token)
            .header("Accept", "application/json");
        match self.shop_header.zip(shop) {
            Some((header, shop)) => request.header(header, shop),
            None => request,
        }
    }
}

fn status_text(status: StatusCode) -> String {
    let hint = match status {
        StatusCode::NOT_FOUND => "; does STOREFRONT_API_URL belong to the shop of this order?",
        _ => "",
    };
    format!("it answered {}{hint}", status.as_u16())
}
