//! What providers send in a schedule: orders with their payments, and privacy requests of their customers.

use axum::body::Body;
use axum::http::Request;
use domain::signature::{sign_payment, sign_storefront};
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::director::Focus;
use crate::random::Random;

pub const SHOP: &str = "shop.example";
pub const STOREFRONT_SECRET: &str = "storefront-test-secret";
pub const PAYMENT_SECRET: &str = "payment-test-secret";

/// The id of the first order.
const FIRST: i64 = 1000;

#[derive(Clone)]
pub struct Delivery {
    pub id: String,
    topic: &'static str,
    pub body: Value,
    pub order: i64,
    /// When it is sent first, in milliseconds.
    pub at: i64,
}

impl Delivery {
    pub fn name(&self) -> String {
        format!("{} of {}", self.topic, self.order)
    }

    fn is_of_payment(&self) -> bool {
        self.topic.starts_with("payment_intent")
    }

    pub fn is_erasure(&self) -> bool {
        self.topic == "customers/redact"
    }

    pub fn request(&self, now: Timestamp) -> Request<Body> {
        let body = self.body.to_string().into_bytes();
        let request = Request::post(if self.is_of_payment() {
            "/api/webhooks/payment"
        } else {
            "/api/webhooks/storefront"
        });
        let request = request
            .header("Content-Type", "application/json")
            .header("Content-Length", body.len());
        let request = if self.is_of_payment() {
            let signature = sign_payment(PAYMENT_SECRET, now.unix_seconds(), &body);
            request.header("Payment-Signature", signature)
        } else {
            request
                .header("X-Storefront-Topic", self.topic)
                .header("X-Storefront-Shop-Domain", SHOP)
                .header("X-Storefront-Webhook-Id", &self.id)
                .header(
                    "X-Storefront-Hmac-Sha256",
                    sign_storefront(STOREFRONT_SECRET, &body),
                )
        };
        request.body(Body::from(body)).unwrap()
    }
}

/// What there is of a customer that an erasure has to remove.
pub fn canary(order: i64) -> String {
    format!("cnry{order}")
}

fn order(id: i64, second: i64, financial: &str, cancelled: bool) -> Value {
    let at = |second: i64| format!("2027-01-15T07:00:{second:02}Z");
    let word = canary(id);
    let mail = format!("{word}@example.com");
    json!({
        "id": id, "name": format!("#{id}"), "created_at": at(0), "updated_at": at(second),
        "currency": "USD", "total_price": "30.00", "total_outstanding": "0.00",
        "financial_status": financial, "fulfillment_status": null,
        "cancelled_at": cancelled.then(|| at(second)), "cancel_reason": null,
        "line_items": [{"id": 1, "variant_id": 101, "title": "Mug", "quantity": 2, "price": "15.00", "sku": "MUG"}],
        "email": mail, "customer": {"id": id, "email": mail, "first_name": word, "last_name": word},
        "shipping_address": {"first_name": word, "address1": word, "city": word},
        "note_attributes": [{"name": "pact_id", "value": format!("pact_{id}")}],
        "fulfillments": [], "refunds": [],
    })
}

fn payment(id: i64) -> Value {
    json!({
        "id": format!("evt_{id}"), "object": "event", "type": "payment_intent.succeeded",
        "created": 1_799_999_000, "data": {"object": {
            "id": format!("pi_{id}"), "object": "payment_intent", "amount": 3000,
            "amount_received": 3000, "currency": "usd", "status": "succeeded",
            "metadata": {"pact_id": format!("pact_{id}")},
        }},
    })
}

fn request(id: i64) -> Value {
    json!({"shop_id": 1, "shop_domain": SHOP, "orders_requested": [],
           "customer": {"id": id, "email": format!("{}@example.com", canary(id)), "phone": null}})
}

/// The deliveries of a schedule. Most come close together, so that they share batches and messages.
pub fn deliveries(random: &mut Random, focus: Focus) -> Vec<Delivery> {
    let mut all = Vec::new();
    let is_calm = focus == Focus::Calm;
    let spread = match focus {
        // Events come also while a process stands still.
        Focus::Webhooks => 8_000,
        Focus::Calm => 1_500,
        _ if random.once_in(3) => 1_500,
        _ => 12,
    };
    let has_privacy = random.once_in(6);
    // When more come at a time, some of them wait for the sweep, which goes by the clock of its own host.
    let most = if is_calm { 1 } else { 3 };
    for nth in 0..random.between(1, most) {
        let id = FIRST + nth;
        let mut add = |topic: &'static str, body: Value, random: &mut Random| {
            let of_event = body["type"].is_string();
            all.push(Delivery {
                id: if of_event {
                    format!("evt_{id}")
                } else {
                    format!("{topic}-{id}")
                },
                topic,
                body,
                order: id,
                at: random.between(0, spread),
            });
        };
        let cancels = focus == Focus::Calls || random.once_in(2);
        add("orders/create", order(id, 1, "paid", false), random);
        if random.once_in(2) {
            add("orders/paid", order(id, 2, "paid", false), random);
        }
        if random.once_in(3) {
            add("orders/updated", order(id, 3, "paid", false), random);
        }
        if cancels || random.once_in(4) {
            add("payment_intent.succeeded", payment(id), random);
        }
        if cancels {
            add("orders/cancelled", order(id, 4, "paid", true), random);
        }
        if has_privacy && random.once_in(2) {
            let mut body = request(id);
            body["data_request"] = json!({ "id": id });
            add("customers/data_request", body, random);
        }
        if has_privacy && random.once_in(2) {
            let mut body = request(id);
            body["orders_to_redact"] = json!([id]);
            body.as_object_mut().unwrap().remove("orders_requested");
            add("customers/redact", body, random);
        }
    }
    all
}
