//! The storefront's admin API, as far as orders, fulfilment and checkouts need it. The shapes are
//! from the provider's REST reference, resources FulfillmentOrder and Fulfillment.

mod catalogue;
mod orders;
mod subscriptions;

use std::collections::BTreeMap;

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
use domain::order::outcome::WHOLE_ORDER;
use domain::profile::{StorefrontApi, StorefrontProfile};
use platform::clock::Clock;

#[derive(Clone)]
pub struct Storefront {
    provider: Provider,
    credential: Credential,
    /// Where the shop is named, if it is.
    shop_header: Option<&'static str>,
}

/// How a request shows our credential.
#[derive(Clone, Copy)]
enum Credential {
    /// In this header.
    Header(&'static str),
    /// As name and password, with a colon between.
    Basic,
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
    line_items: Option<Vec<FulfillmentLine>>,
}

/// The units of an order's line that a fulfilment order has.
#[derive(Deserialize)]
struct FulfillmentLine {
    id: Option<i64>,
    line_item_id: Option<i64>,
    /// The units that are not fulfilled yet.
    fulfillable_quantity: Option<i64>,
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

/// The units that are to be shipped, by the id of the order's line. The line [`WHOLE_ORDER`] stands
/// for whatever is open.
pub type Units = BTreeMap<i64, i64>;

/// What is to be fulfilled of an order.
struct Listed {
    open: Vec<Open>,
    /// True when a part of it may be fulfilled later, but not now.
    held: bool,
}

struct Open {
    id: i64,
    /// Pairs of the id of a fulfilment order's line and its units. None for all that is open.
    lines: Option<Vec<(i64, i64)>>,
}

impl FulfillmentOrder {
    /// The part of it that is among these units, which are taken from them. None when nothing is.
    fn part(&self, units: &mut Units) -> Option<Open> {
        let lines = self.line_items.iter().flatten();
        let lines: Vec<(i64, i64, i64)> = lines
            .filter_map(|it| Some((it.id?, it.line_item_id?, it.fulfillable_quantity?)))
            .collect();
        let whole = Open {
            id: self.id,
            lines: None,
        };
        if lines.is_empty() || units.contains_key(&WHOLE_ORDER) {
            return Some(whole);
        }
        let mut part = Vec::new();
        let mut is_all = true;
        for (id, of_order, open) in lines {
            let left = units.entry(of_order).or_default();
            let taken = open.min(*left).max(0);
            *left -= taken;
            is_all &= taken >= open;
            if taken > 0 {
                part.push((id, taken));
            }
        }
        let is_any = !part.is_empty();
        is_any.then_some(Open {
            lines: (!is_all).then_some(part),
            ..whole
        })
    }
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
            credential: match profile.api {
                StorefrontApi::Rest { token_header, .. } => Credential::Header(token_header),
                StorefrontApi::WooCommerce => Credential::Basic,
            },
            shop_header: profile.headers.shop,
        }
    }

    /// Creates fulfilments of these units, as far as they are open. A fulfilment order that lists no
    /// lines is fulfilled as a whole. The idempotency key of each fulfilment is `key` with the id of
    /// its fulfilment order.
    pub async fn request_fulfillment(
        &self,
        shop: &str,
        order_id: i64,
        units: &Units,
        key: Uuid,
    ) -> Result<Requested, CallFailure> {
        let call = || self.create_what_is_open(shop, order_id, units, key);
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
        units: &Units,
        key: Uuid,
    ) -> Result<Requested, CallFailure> {
        let listed = self.list(shop, order_id, units).await?;
        let mut first = None;
        for open in listed.open {
            let created = self.create(shop, order_id, (open, units), key).await?;
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

    async fn list(&self, shop: &str, order_id: i64, units: &Units) -> Result<Listed, CallFailure> {
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
        let mut units = units.clone();
        let mut listed = Listed {
            open: Vec::new(),
            held: false,
        };
        for order in orders.fulfillment_orders {
            match order.status.as_str() {
                "open" => listed.open.extend(order.part(&mut units)),
                "on_hold" | "scheduled" => listed.held |= order.part(&mut units).is_some(),
                _ => {}
            }
        }
        Ok(listed)
    }

    /// Creates a fulfilment. None when its fulfilment order was closed in the meantime.
    async fn create(
        &self,
        shop: &str,
        order_id: i64,
        (open, units): (Open, &Units),
        key: Uuid,
    ) -> Result<Option<String>, CallFailure> {
        let id = open.id;
        let mut wanted = json!({"fulfillment_order_id": id});
        if let Some(lines) = open.lines {
            let lines = lines.into_iter();
            let lines = lines.map(|(id, quantity)| json!({"id": id, "quantity": quantity}));
            wanted["fulfillment_order_line_items"] = lines.collect();
        }
        let body = json!({
            "fulfillment": {
                "line_items_by_fulfillment_order": [wanted],
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
            StatusCode::UNPROCESSABLE_ENTITY => {
                let listed = self.list(shop, order_id, units).await?.open;
                if listed.iter().all(|open| open.id != id) {
                    return Ok(None);
                }
                let status = response.status();
                Err(self.provider.refused_with(status, status_text(status)))
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
        let request = match self.credential {
            Credential::Header(name) => request.header(name, &self.provider.token),
            Credential::Basic => {
                let (name, password) = self.provider.token.split_once(':').unwrap_or_default();
                request.basic_auth(name, Some(password))
            }
        };
        let request = request.header("Accept", "application/json");
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

#[cfg(test)]
#[path = "../tests/unit/storefront.rs"]
mod tests;
