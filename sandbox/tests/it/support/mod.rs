//! A sandbox for a test, calls to its APIs, and a receiver of its webhooks.

pub mod receiver;

use common::clock::{Clock, Timestamp};
use common::money::Currency;
use reqwest::{RequestBuilder, Response};
use sandbox::{Intent, Options, PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox, Webhooks};
use serde_json::{Value, json};

/// 2027-01-15, a whole second.
pub const NOW: Timestamp = Timestamp(1_800_000_000_000);
pub const SHOP: &str = "shop.example";
pub const ORDER: i64 = 5_000_000_000_000_700;

/// A sandbox whose clock stands, without webhooks.
pub async fn sandbox() -> Sandbox {
    start(None).await
}

pub async fn start(webhooks: Option<Webhooks>) -> Sandbox {
    let options = Options {
        clock: Clock::manual(NOW),
        webhooks,
        ..Options::default()
    };
    Sandbox::start(options).await.unwrap()
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub async fn read(answer: Response) -> (u16, Value) {
    (answer.status().as_u16(), answer.json().await.unwrap())
}

pub fn fulfillment_orders(sandbox: &Sandbox, shop: &str, order: i64) -> RequestBuilder {
    let base = sandbox.storefront_url();
    client()
        .get(format!("{base}/orders/{order}/fulfillment_orders.json"))
        .header("X-Storefront-Access-Token", STOREFRONT_TOKEN)
        .header("X-Storefront-Shop-Domain", shop)
}

/// The id of an order's fulfilment order.
pub async fn fulfillment_order(sandbox: &Sandbox, shop: &str, order: i64) -> i64 {
    let asked = fulfillment_orders(sandbox, shop, order).send().await;
    let (status, body) = read(asked.unwrap()).await;
    assert_eq!(status, 200, "{body}");
    body["fulfillment_orders"][0]["id"].as_i64().unwrap()
}

pub fn fulfil(sandbox: &Sandbox, id: i64, key: &str) -> RequestBuilder {
    let lines = json!([{"fulfillment_order_id": id}]);
    let wish = json!({"line_items_by_fulfillment_order": lines, "notify_customer": false});
    client()
        .post(format!("{}/fulfillments.json", sandbox.storefront_url()))
        .header("X-Storefront-Access-Token", STOREFRONT_TOKEN)
        .header("Idempotency-Key", key)
        .json(&json!({"fulfillment": wish}))
}

pub fn refund(sandbox: &Sandbox, form: &str, key: &str) -> RequestBuilder {
    client()
        .post(format!("{}/v1/refunds", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .header("Idempotency-Key", key)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form.to_owned())
}

pub fn intent(id: &str, amount: i64) -> Intent {
    Intent {
        id: id.to_owned(),
        amount,
        currency: Currency::parse("USD").unwrap(),
        pact_id: Some("pact_1".to_owned()),
    }
}
