//! The stand-in for the storefront: the fulfilment orders of its orders, the fulfilments that are
//! made for them, and its products.
//!
//! A fulfilment order is made when it is first asked for. All ids are made from the shop and the
//! order's id, so they are the same after the sandbox was started anew.

mod api;
mod objects;
mod subscriptions;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use domain::time::Timestamp;
use platform::clock::Clock;
use serde_json::{Value, json};

pub use api::{error, routes};

use crate::fault_injector::{FaultInjector, Provider};
use crate::lock;
use crate::subscriptions::Subscriptions;
use crate::webhook_sender::WebhookSender;
use crate::webhooks::Delivery;

/// How many orders' bodies are kept for later webhooks. Each has about 3 kB.
const MOST_BODIES: usize = 10_000;

/// The stand-in for the storefront. All clones share their state.
#[derive(Clone)]
pub struct Storefront {
    /// The fault injector, which counts requests and plays faults.
    pub fault_injector: FaultInjector,
    pub subscriptions: Subscriptions,
    shop: String,
    clock: Clock,
    webhook_sender: Option<WebhookSender>,
    books: Arc<Mutex<Books>>,
}

/// A shop's domain in lower case, and an order's id there.
type OrderKey = (String, i64);

#[derive(Default)]
struct Books {
    orders: BTreeMap<OrderKey, FulfillmentOrder>,
    /// The order of each fulfilment order.
    order_of: BTreeMap<i64, OrderKey>,
    /// The answer to each idempotency key of a shop, and the fulfilment order that it was for.
    answers: BTreeMap<(String, String), (i64, Value)>,
    /// The newest delivered body of each order.
    bodies: BTreeMap<OrderKey, Value>,
    /// The prices of variants for which a test has set another price.
    prices: BTreeMap<u64, String>,
    /// The currency in which the shops sell, if a test has set another one.
    currency: Option<String>,
}

struct FulfillmentOrder {
    id: i64,
    open: bool,
    held: bool,
    created: u32,
}

/// A place in the list of the orders that changed: the next one changed later than `from`, or at the same time and has a
/// greater id than `after`.
struct Place {
    from: Timestamp,
    until: Timestamp,
    after: i64,
}

impl Place {
    fn read(page: &str) -> Option<Self> {
        let mut numbers = page.split('_').map(str::parse);
        Some(Place {
            from: Timestamp(numbers.next()?.ok()?),
            until: Timestamp(numbers.next()?.ok()?),
            after: numbers.next()?.ok()?,
        })
    }
}

/// Why no fulfilment was made.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// This shop has no such fulfilment order.
    Unknown,
    Closed,
    /// The key was used for another fulfilment order.
    KeyReused,
}

impl Storefront {
    pub(crate) fn new(shop: &str, clock: Clock, webhook_sender: Option<WebhookSender>) -> Self {
        Storefront {
            fault_injector: FaultInjector::new(Provider::Storefront),
            subscriptions: Subscriptions::default(),
            shop: shop.to_ascii_lowercase(),
            clock,
            webhook_sender,
            books: Arc::default(),
        }
    }

    /// Closes an order's fulfilment order, as if somebody had fulfilled it elsewhere.
    pub fn close(&self, shop: &str, order_id: i64) {
        let key = (shop.to_ascii_lowercase(), order_id);
        lock(&self.books).fulfillment_order(&key).open = false;
    }

    /// Opens an order's fulfilment order again, as when somebody adds items to the order.
    pub fn open(&self, shop: &str, order_id: i64) {
        let key = (shop.to_ascii_lowercase(), order_id);
        lock(&self.books).fulfillment_order(&key).open = true;
    }

    /// Holds an order's fulfilment order back, or releases it.
    pub fn hold(&self, shop: &str, order_id: i64, held: bool) {
        let key = (shop.to_ascii_lowercase(), order_id);
        lock(&self.books).fulfillment_order(&key).held = held;
    }

    /// Sets the price of a variant from now on, as a decimal in US dollars.
    pub fn set_price(&self, variant_id: u64, price: &str) {
        lock(&self.books)
            .prices
            .insert(variant_id, price.to_owned());
    }

    /// Sets the currency from now on. The numbers of the prices stay the same.
    pub fn set_currency(&self, code: &str) {
        lock(&self.books).currency = Some(code.to_owned());
    }

    /// How many fulfilments were made, by shop and order.
    pub fn created(&self) -> BTreeMap<(String, i64), u32> {
        let books = lock(&self.books);
        let made = books.orders.iter().filter(|(_, order)| order.created > 0);
        made.map(|(key, order)| (key.clone(), order.created))
            .collect()
    }

    /// Stores an order's body, so that later webhooks of the order have all fields. An older body
    /// than the stored one, and a body that is not an order, are ignored.
    pub fn remember(&self, delivery: &Delivery) {
        if !delivery.topic.starts_with("orders/") {
            return;
        }
        let Ok(body) = serde_json::from_str::<Value>(&delivery.body) else {
            return;
        };
        let Some(id) = body["id"].as_i64() else {
            return;
        };
        let key = (delivery.shop.to_ascii_lowercase(), id);
        let bodies = &mut lock(&self.books).bodies;
        let newer = match bodies.get(&key) {
            Some(known) => updated_at(&body) >= updated_at(known),
            None => bodies.len() < MOST_BODIES,
        };
        if newer {
            bodies.insert(key, body);
        }
    }

    /// The shop of a request that names none.
    pub(crate) fn shop(&self) -> &str {
        &self.shop
    }

    /// The newest delivered body of an order.
    fn order(&self, shop: Option<&str>, order_id: i64) -> Option<Value> {
        let shop = shop.unwrap_or(&self.shop).to_ascii_lowercase();
        lock(&self.books).bodies.get(&(shop, order_id)).cloned()
    }

    /// The orders of a shop that changed in a period, and where the next page begins.
    fn changed(
        &self,
        shop: Option<&str>,
        place: &Place,
        limit: usize,
    ) -> (Vec<Value>, Option<String>) {
        let shop = shop.unwrap_or(&self.shop).to_ascii_lowercase();
        let books = lock(&self.books);
        let of_shop = books.bodies.iter().filter(|((of, _), _)| *of == shop);
        let mut changed: Vec<(Timestamp, i64, &Value)> = of_shop
            .filter_map(|((_, id), body)| Some((updated_at(body)?, *id, body)))
            .filter(|(at, id, _)| (*at, *id) > (place.from, place.after) && *at <= place.until)
            .collect();
        changed.sort_by_key(|(at, id, _)| (*at, *id));
        let is_more = changed.len() > limit;
        changed.truncate(limit);
        let last = changed.last().filter(|_| is_more);
        let next = last.map(|(at, id, _)| format!("{}_{}_{id}", at.0, place.until.0));
        let orders = changed.into_iter().map(|(_, _, body)| body.clone());
        (orders.collect(), next)
    }

    /// The time as the header `Date` has it.
    fn date(&self) -> String {
        self.clock.now().to_http_date()
    }

    fn shop_object(&self, shop: Option<&str>) -> Value {
        let books = lock(&self.books);
        let currency = books.currency.as_deref().unwrap_or(objects::CURRENCY);
        objects::shop(shop.unwrap_or(&self.shop), currency)
    }

    fn variant(&self, id: u64) -> Option<Value> {
        let books = lock(&self.books);
        objects::variant(id, books.prices.get(&id).map(String::as_str))
    }

    pub(crate) fn view(&self) -> Value {
        let created = self.created().into_iter();
        let created = created.map(|((shop, order_id), fulfillments)| {
            json!({"shop": shop, "order_id": order_id, "fulfillments": fulfillments})
        });
        let mut view = self.fault_injector.view();
        view["created"] = created.collect();
        view
    }

    fn fulfillment_order(&self, shop: Option<&str>, order_id: i64) -> Value {
        let shop = shop.unwrap_or(&self.shop).to_ascii_lowercase();
        let mut books = lock(&self.books);
        let order = books.fulfillment_order(&(shop, order_id));
        let status = match (order.open, order.held) {
            (false, _) => "closed",
            (true, true) => "on_hold",
            (true, false) => "open",
        };
        objects::fulfillment_order(order.id, order_id, status)
    }

    /// Makes the fulfilment, or gives the same answer as before if the key is known.
    fn fulfil(&self, shop: Option<&str>, key: Option<&str>, id: i64) -> Result<Value, Refusal> {
        let mut books = lock(&self.books);
        let order_key = books.order_of.get(&id).cloned().ok_or(Refusal::Unknown)?;
        if shop.is_some_and(|shop| !shop.eq_ignore_ascii_case(&order_key.0)) {
            return Err(Refusal::Unknown);
        }
        let key = key.map(|key| (order_key.0.clone(), key.to_owned()));
        if let Some((before, answer)) = key.as_ref().and_then(|key| books.answers.get(key)) {
            let same = *before == id;
            return same.then(|| answer.clone()).ok_or(Refusal::KeyReused);
        }
        let order = books.fulfillment_order(&order_key);
        if !order.open || order.held {
            return Err(Refusal::Closed);
        }
        order.open = false;
        order.created += 1;
        let now = self.clock.now();
        let fulfillment = objects::fulfillment(&order_key.0, order_key.1, now);
        let answer = json!({"fulfillment": fulfillment});
        if let Some(key) = key {
            books.answers.insert(key, (id, answer.clone()));
        }
        if let Some(webhook_sender) = &self.webhook_sender {
            let body = objects::fulfilled(books.bodies.get(&order_key), &fulfillment, now);
            let (shop, _) = &order_key;
            let webhook_id = self.clock.id().to_string();
            let delivery =
                Delivery::storefront("orders/fulfilled", &webhook_id, shop, body.to_string());
            books
                .bodies
                .entry(order_key)
                .and_modify(|known| *known = body);
            webhook_sender.send(delivery);
        }
        Ok(answer)
    }
}

impl Books {
    /// The fulfilment order of an order. It is made if the order was not known.
    fn fulfillment_order(&mut self, key: &OrderKey) -> &mut FulfillmentOrder {
        let order_of = &mut self.order_of;
        self.orders.entry(key.clone()).or_insert_with(|| {
            let mut id = objects::id("fulfillment_order", &key.0, key.1);
            while order_of.contains_key(&id) {
                id += 1;
            }
            order_of.insert(id, key.clone());
            FulfillmentOrder {
                id,
                open: true,
                held: false,
                created: 0,
            }
        })
    }
}

fn updated_at(body: &Value) -> Option<Timestamp> {
    if let Some(at) = body["date_modified_gmt"].as_str() {
        return format!("{at}Z").parse().ok();
    }
    body["updated_at"].as_str()?.parse().ok()
}
