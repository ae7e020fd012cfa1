//! A sandbox for a test, calls to its APIs, and a receiver of its webhooks.

pub mod device;
pub mod receiver;

use domain::money::Currency;
use domain::time::Timestamp;
use platform::clock::Clock;
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
    payment_post(sandbox, "refunds", form).header("Idempotency-Key", key)
}

/// A form to a path of the payment provider under `/v1`.
pub fn payment_post(sandbox: &Sandbox, path: &str, form: &str) -> RequestBuilder {
    client()
        .post(format!("{}/v1/{path}", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form.to_owned())
}

pub async fn payment_get(sandbox: &Sandbox, path: &str) -> (u16, Value) {
    let url = format!("{}/v1/{path}", sandbox.payment_url());
    let asked = client().get(url).bearer_auth(PAYMENT_KEY).send().await;
    read(asked.unwrap()).await
}

/// Fields of a session of one mug for 14.50 USD.
pub const MUG: &str = "mode=payment\
    &success_url=https://shop.example/thanks?session={CHECKOUT_SESSION_ID}%26a=b\
    &cancel_url=https://shop.example/cart\
    &line_items[0][price_data][currency]=usd\
    &line_items[0][price_data][unit_amount]=1450\
    &line_items[0][price_data][product_data][name]=Enamel+mug\
    &line_items[0][quantity]=1";

/// The same as a subscription, each month.
pub fn monthly_mug() -> String {
    let monthly = "line_items[0][price_data][recurring][interval]=month";
    format!(
        "{}&{monthly}",
        MUG.replace("mode=payment", "mode=subscription")
    )
}

/// Opens a checkout session.
pub async fn open(sandbox: &Sandbox, form: &str) -> Value {
    let asked = payment_post(sandbox, "checkout/sessions", form).send();
    let (status, session) = read(asked.await.unwrap()).await;
    assert_eq!(status, 200, "{session}");
    session
}

/// A session's page.
pub async fn visit(session: &Value) -> (u16, String) {
    let url = session["url"].as_str().unwrap();
    let page = client().get(url).send().await.unwrap();
    (page.status().as_u16(), page.text().await.unwrap())
}

/// Presses a button of a page, without being led on.
pub async fn press(url: &str, form: &str) -> Response {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let content_type = "application/x-www-form-urlencoded";
    let pressed = client.post(url).header("Content-Type", content_type);
    pressed.body(form.to_owned()).send().await.unwrap()
}

/// Pays a checkout session on its page, and waits until the events of that are taken.
pub async fn pay(sandbox: &Sandbox, session: &Value) -> Response {
    let paid = press(&format!("{}/pay", session["url"].as_str().unwrap()), "").await;
    sandbox.webhooks_done().await;
    paid
}

pub fn intent(id: &str, amount: i64) -> Intent {
    Intent {
        id: id.to_owned(),
        amount,
        currency: Currency::parse("USD").unwrap(),
        pact_id: Some("pact_1".to_owned()),
    }
}
