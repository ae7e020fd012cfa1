//! `POST /api/commerce/checkout`, with the sandbox's providers over real HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::api_key::{Rights, Shops};
use domain::job::Queue;
use domain::order::record::Cancellation;
use futures_util::future::join_all;
use platform::clock::Clock;
use reqwest::Response;
use sandbox::{Fault, Options as SandboxOptions, PAYMENT_KEY, Price, STOREFRONT_TOKEN, Sandbox};
use serde_json::{Value, json};
use store::orders::checkout_key;
use workers::Worker;

use crate::support::order::{deliver, events, kinds, shown};
use crate::support::records::change_orders;
use crate::support::{Options, START, Service, payment, service, without_pauses};

const PATH: &str = "/api/commerce/checkout";
/// The sandbox's enamel mug, 14.50 US dollars.
const MUG: i64 = 44_872_223_000_001;

async fn sandbox() -> Sandbox {
    Sandbox::start(SandboxOptions::default()).await.unwrap()
}

fn with_providers(sandbox: &Sandbox) -> Options {
    service()
        .setting("PAYMENT_API_URL", &sandbox.payment_url())
        .setting("PAYMENT_API_KEY", PAYMENT_KEY)
        .setting("STOREFRONT_API_URL", &sandbox.storefront_url())
        .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN)
        .setting("CHECKOUT_RETURN_ORIGINS", "https://shop.example")
}

async fn start() -> (Sandbox, Service, String) {
    let sandbox = sandbox().await;
    let service = with_providers(&sandbox).without_workers().start().await;
    let key = service.api_key().await;
    (sandbox, service, key)
}

async fn stop(sandbox: Sandbox, service: Service) {
    service.stop().await;
    sandbox.stop().await;
}

fn mug() -> Value {
    json!({
        "line_items": [{"name": "Enamel mug", "amount": 1450, "currency": "EUR", "quantity": 2}],
        "return_url": "https://shop.example/thanks",
    })
}

async fn post(service: &Service, key: &str, again: Option<&str>, body: &str) -> Response {
    let mut request = service.post_to(PATH).bearer_auth(key);
    if let Some(again) = again {
        request = request.header("Idempotency-Key", again);
    }
    request.body(body.to_owned()).send().await.unwrap()
}

/// Status, code and body. An error says the same as `message` and as `detail`.
async fn answer(response: Response) -> (u16, Option<String>, Value) {
    let code = response.headers().get("x-error-code");
    let code = code.map(|code| code.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    if status != 201 {
        assert_eq!(body["message"], body["detail"]);
        assert!(body["message"].is_string(), "{body}");
    }
    (status, code, body)
}

async fn opened(service: &Service, key: &str, again: Option<&str>, body: &Value) -> Value {
    let (status, _, body) = answer(post(service, key, again, &body.to_string()).await).await;
    assert_eq!(status, 201, "{body}");
    body
}

async fn refused(service: &Service, key: &str, body: &str) -> (u16, Option<String>, String) {
    let (status, code, body) = answer(post(service, key, None, body).await).await;
    (status, code, body["message"].as_str().unwrap().to_owned())
}

async fn session(sandbox: &Sandbox, id: &Value) -> Value {
    let id = id.as_str().unwrap();
    let url = format!("{}/v1/checkout/sessions/{id}", sandbox.payment_url());
    let asked = reqwest::Client::new().get(url).bearer_auth(PAYMENT_KEY);
    asked.send().await.unwrap().json().await.unwrap()
}

const ORDERS: &str = "select count(*) as n from orders";

#[tokio::test]
async fn a_checkout_is_a_page_to_pay_on_and_a_pending_order() {
    let (sandbox, service, key) = start().await;
    let mut body = mug();
    body["cancel_url"] = json!("https://shop.example/cart");
    body["customer_email"] = json!("ada@example.com");
    body["client_reference_id"] = json!("basket-7");
    let checkout = opened(&service, &key, None, &body).await;
    let agreement = checkout["pact_id"].as_str().unwrap();
    let (shop, id) = checkout_key(agreement);
    assert_eq!(checkout["order_id"], id.to_string());
    let seen = session(&sandbox, &checkout["session_id"]).await;
    for (name, value) in [
        ("url", checkout["checkout_url"].clone()),
        ("amount_total", json!(2900)),
        ("currency", json!("eur")),
        ("success_url", json!("https://shop.example/thanks")),
        ("cancel_url", json!("https://shop.example/cart")),
        ("customer_email", json!("ada@example.com")),
        ("client_reference_id", json!("basket-7")),
        ("metadata", json!({"pact_id": agreement})),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
    assert!(checkout["expires_at"].as_str().unwrap().ends_with('Z'));
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "pending");
    assert_eq!(order["total_price"], "29.00");
    assert_eq!(order["currency"], "EUR");
    assert_eq!(order["fulfillment"]["state"], "initiated");
    let line = &order["line_items"][0];
    assert_eq!(
        (&line["title"], &line["quantity"]),
        (&json!("Enamel mug"), &json!(2))
    );
    assert_eq!(line["price"], "14.50");
    assert!(
        order["tracking"]["url"]
            .as_str()
            .unwrap()
            .contains("/orders/")
    );
    let reported = events(service.db(), &shop, id).await;
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].0, "order.created");
    assert_eq!(reported[0].1["total_price"], "29.00");
    let kept = "select count(*) as n from checkouts
                where items like '%ada%' or url like '%ada%' or pact_id like '%ada%'";
    assert_eq!(service.count(kept).await, 0, "nobody's e-mail is stored");
    stop(sandbox, service).await;
}

#[tokio::test]
async fn a_wrong_address_of_the_provider_is_named_and_the_checkout_is_kept_until_it_is_right() {
    let sandbox = sandbox().await;
    let nowhere = format!("{}/nowhere", sandbox.url());
    let service = with_providers(&sandbox)
        .setting("PAYMENT_API_URL", &nowhere)
        .without_workers()
        .start()
        .await;
    let key = service.api_key().await;
    let answered = post(&service, &key, Some("k-1"), &mug().to_string()).await;
    assert_eq!(answered.headers()["retry-after"], "60");
    let (status, code, body) = answer(answered).await;
    assert_eq!((status, code), (503, None));
    let text = body["message"].as_str().unwrap();
    assert!(text.contains("PAYMENT_API_URL"), "{text}");
    let pending = "select count(*) as n from orders where cancelled_at is null";
    assert_eq!(service.count(pending).await, 1);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn a_variant_costs_what_the_storefront_says_whatever_the_caller_thinks() {
    let (sandbox, service, key) = start().await;
    sandbox
        .storefront()
        .set_price(u64::try_from(MUG).unwrap(), "12.34");
    for id in [
        json!(MUG),
        json!(MUG.to_string()),
        json!(format!("gid://storefront/ProductVariant/{MUG}")),
    ] {
        let body = json!({
            "lineItems": [{"variantId": id, "quantity": 3}],
            "returnUrl": "https://shop.example/thanks",
        });
        let checkout = opened(&service, &key, None, &body).await;
        let seen = session(&sandbox, &checkout["session_id"]).await;
        assert_eq!(
            (&seen["amount_total"], &seen["currency"]),
            (&json!(3702), &json!("usd"))
        );
        let (shop, order_id) = checkout_key(checkout["pact_id"].as_str().unwrap());
        let order = shown(&service, &key, &shop, order_id).await;
        let line = &order["line_items"][0];
        assert_eq!(line["variant_id"], MUG);
        assert_eq!(
            (&line["title"], &line["price"]),
            (&json!("Enamel mug"), &json!("12.34"))
        );
        assert_eq!(line["sku"], "MUG-ENAMEL");
    }
    let own_price = json!({
        "line_items": [{"variant_id": MUG, "quantity": 1, "amount": 1, "currency": "USD"}],
        "return_url": "https://shop.example/thanks",
    });
    let checkout = opened(&service, &key, None, &own_price).await;
    let seen = session(&sandbox, &checkout["session_id"]).await;
    assert_eq!(seen["amount_total"], 1234);
    let unknown = json!({
        "line_items": [{"variant_id": MUG, "quantity": 1}, {"variant_id": 7, "quantity": 1}],
        "return_url": "https://shop.example/thanks",
    });
    let (status, _, message) = refused(&service, &key, &unknown.to_string()).await;
    assert_eq!(status, 400);
    assert_eq!(
        message,
        "line_items[1]: the storefront does not sell this variant"
    );
    // What is refused before anybody was asked to be paid makes no order.
    assert_eq!(service.count(ORDERS).await, 4);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn fields_of_an_item_that_are_not_known_are_passed_over() {
    let (sandbox, service, key) = start().await;
    let body = json!({
        "lineItems": [
            {"variantId": MUG.to_string(), "quantity": 2, "title": "Cheap mug", "image": {"src": "x"},
             "properties": [], "product_id": 7, "final_price": 1, "selected": true,
             "price": 1, "name": null, "amount": "1.00", "currency": {"iso_code": "USD"}},
        ],
        "returnUrl": "https://shop.example/thanks",
    });
    let checkout = opened(&service, &key, None, &body).await;
    let seen = session(&sandbox, &checkout["session_id"]).await;
    assert_eq!(seen["amount_total"], 2900, "at the storefront's price");
    // What is known is read as strictly as before.
    let mut twice = body.clone();
    twice["lineItems"][0]["variant_id"] = json!(MUG);
    let (status, _, message) = refused(&service, &key, &twice.to_string()).await;
    assert_eq!(status, 400);
    assert!(message.contains("both spellings"), "{message}");
    stop(sandbox, service).await;
}

#[tokio::test]
async fn a_shop_that_sells_in_a_currency_that_cannot_be_paid_in_gets_that_answer() {
    let (sandbox, service, key) = start().await;
    sandbox.storefront().set_currency("CAD");
    let body = json!({
        "line_items": [
            {"name": "Card", "amount": 100, "currency": "USD", "quantity": 1},
            {"variant_id": MUG, "quantity": 1},
        ],
        "return_url": "https://shop.example/thanks",
    });
    let (status, code, message) = refused(&service, &key, &body.to_string()).await;
    assert_eq!((status, code.as_deref()), (400, Some("COMMERCE_002")));
    assert_eq!(
        message,
        "line_items[1]: the storefront sells this variant in a currency that cannot be paid in \
         here; that is USD, EUR, GBP or MXN"
    );
    sandbox.storefront().set_currency("EUR");
    let (status, code, message) = refused(&service, &key, &body.to_string()).await;
    assert_eq!((status, code.as_deref()), (400, Some("COMMERCE_002")));
    assert_eq!(message, "all items must be in the same currency");
    assert_eq!(service.count(ORDERS).await, 0);
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn the_sessions_id_has_its_place_anywhere_in_the_address() {
    let (sandbox, service, key) = start().await;
    for (given, passed_on) in [
        (
            "https://shop.example/thanks/{CHECKOUT_SESSION_ID}",
            "https://shop.example/thanks/{CHECKOUT_SESSION_ID}",
        ),
        (
            "https://shop.example/{CHECKOUT_SESSION_ID}/done?id={CHECKOUT_SESSION_ID}",
            "https://shop.example/{CHECKOUT_SESSION_ID}/done?id={CHECKOUT_SESSION_ID}",
        ),
        (
            "https://shop.example/{other}",
            "https://shop.example/%7Bother%7D",
        ),
    ] {
        let mut body = mug();
        body["return_url"] = json!(given);
        let checkout = opened(&service, &key, None, &body).await;
        let seen = session(&sandbox, &checkout["session_id"]).await;
        assert_eq!(seen["success_url"], passed_on);
    }
    stop(sandbox, service).await;
}

#[tokio::test]
async fn a_price_of_the_payment_provider_is_known_to_it_alone() {
    let (sandbox, service, key) = start().await;
    sandbox.payment().add_price(Price {
        id: "price_candle".to_owned(),
        name: "Candle".to_owned(),
        amount: 1200,
        currency: domain::money::Currency::parse("USD").unwrap(),
        months: None,
    });
    let body = json!({
        "line_items": [{"price": "price_candle", "quantity": 2}],
        "return_url": "https://shop.example/thanks",
    });
    let checkout = opened(&service, &key, None, &body).await;
    let seen = session(&sandbox, &checkout["session_id"]).await;
    assert_eq!(seen["amount_total"], 2400);
    let (shop, id) = checkout_key(checkout["pact_id"].as_str().unwrap());
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(
        order["total_price"],
        Value::Null,
        "until its session is completed"
    );
    stop(sandbox, service).await;
}

#[tokio::test]
async fn the_same_key_and_body_have_the_same_answer_also_at_once_and_on_another_replica() {
    let (sandbox, first, key) = start().await;
    let second = with_providers(&sandbox)
        .without_workers()
        .start_beside(&first)
        .await;
    let (body, camel) = (
        mug(),
        json!({
            "lineItems": [{"name": "Enamel mug", "amount": 1450, "currency": "eur", "quantity": 2}],
            "returnUrl": "https://SHOP.example/thanks",
        }),
    );
    let calls = (0..8).map(|nth| {
        let service = if nth % 2 == 0 { &first } else { &second };
        opened(
            service,
            &key,
            Some("basket-1"),
            if nth < 4 { &body } else { &camel },
        )
    });
    let answers = join_all(calls).await;
    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
    let made = sandbox.payment().sessions_by_key();
    assert_eq!(made.values().collect::<Vec<_>>(), [&1]);
    assert_eq!(first.count(ORDERS).await, 1);
    let asked = sandbox.payment().fault_injector.requests();
    assert_eq!(
        opened(&second, &key, Some("basket-1"), &body).await,
        answers[0]
    );
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        asked,
        "nobody is asked again"
    );

    let mut other = mug();
    other["line_items"][0]["quantity"] = json!(3);
    let reused = post(&first, &key, Some("basket-1"), &other.to_string()).await;
    let (status, _, body) = answer(reused).await;
    assert_eq!(status, 422);
    assert!(
        body["message"].as_str().unwrap().contains("use a new one"),
        "{body}"
    );
    assert_eq!(first.count(ORDERS).await, 1);
    // The key of one holder is not another's, and without one each call is new.
    let stranger = first.api_key().await;
    let theirs = opened(&first, &stranger, Some("basket-1"), &other).await;
    assert_ne!(theirs["session_id"], answers[0]["session_id"]);
    let without = opened(&first, &key, None, &mug()).await;
    let again = opened(&first, &key, None, &mug()).await;
    assert_ne!(without["session_id"], again["session_id"]);
    second.stop().await;
    stop(sandbox, first).await;
}

#[tokio::test]
async fn two_bodies_under_one_key_at_once_are_one_checkout_and_one_refusal() {
    let (sandbox, service, key) = start().await;
    let mut other = mug();
    other["line_items"][0]["amount"] = json!(1);
    let bodies = [mug().to_string(), other.to_string()];
    let calls = (0..6).map(|nth| post(&service, &key, Some("k"), &bodies[nth % 2]));
    let mut statuses = BTreeMap::new();
    for response in join_all(calls).await {
        *statuses.entry(response.status().as_u16()).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(201, 3), (422, 3)]));
    assert_eq!(service.count(ORDERS).await, 1);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn a_checkout_whose_answer_was_lost_goes_on_where_it_stopped() {
    let (sandbox, first, key) = start_by_hand().await;
    let fault_injector = &sandbox.payment().fault_injector;
    let body = json!({
        "line_items": [{"variant_id": MUG, "quantity": 1}],
        "return_url": "https://shop.example/thanks",
    });
    // The page is opened there, and nobody here gets to know: no try has an answer.
    fault_injector.fail_next(4, Fault::Lose);
    let body_text = body.to_string();
    let lost = post(&first, &key, Some("k"), &body_text);
    let lost = without_pauses(first.clock(), lost).await;
    assert_eq!(first.clock().now(), START.plus(Duration::from_secs(7)));
    assert_eq!(lost.headers()["retry-after"], "5");
    let (status, code, _) = answer(lost).await;
    assert_eq!((status, code.as_deref()), (503, Some("COMMERCE_003")));
    let pending = "select count(*) as n from checkouts where state = 'pending'";
    assert_eq!(first.count(pending).await, 1);
    let made = sandbox.payment().sessions_by_key();
    assert_eq!(made.values().collect::<Vec<_>>(), [&1]);
    // Meanwhile the price is another, and the process is another too.
    sandbox
        .storefront()
        .set_price(u64::try_from(MUG).unwrap(), "99.00");
    let second = with_providers(&sandbox)
        .without_workers()
        .clock(first.clock())
        .start_beside(&first)
        .await;
    let checkout = opened(&second, &key, Some("k"), &body).await;
    assert_eq!(sandbox.payment().sessions_by_key(), made, "the same page");
    let seen = session(&sandbox, &checkout["session_id"]).await;
    assert_eq!(seen["amount_total"], 1450, "at the price of the first call");
    assert_eq!(first.count(ORDERS).await, 1);
    assert_eq!(first.count(pending).await, 0);
    second.stop().await;
    stop(sandbox, first).await;
}

#[tokio::test]
async fn a_failure_that_the_provider_keeps_does_not_keep_a_checkout_from_its_page() {
    let (sandbox, first, key) = start_by_hand().await;
    let second = with_providers(&sandbox)
        .without_workers()
        .clock(first.clock())
        .start_beside(&first)
        .await;
    // One failure: the request itself gets its page, and so do others, the same one.
    sandbox.payment().break_next(1);
    let body = mug();
    let body_text = body.to_string();
    let asked = post(&first, &key, Some("k"), &body_text);
    let (status, _, page) = answer(without_pauses(first.clock(), asked).await).await;
    assert_eq!(status, 201, "{page}");
    assert_eq!(opened(&second, &key, Some("k"), &body).await, page);
    // More than one request goes through: the next one goes on where it stopped.
    sandbox.payment().break_next(6);
    let asked = post(&first, &key, Some("m"), &body_text);
    let (status, code, _) = answer(without_pauses(first.clock(), asked).await).await;
    assert_eq!((status, code.as_deref()), (503, Some("COMMERCE_003")));
    let asked = post(&second, &key, Some("m"), &body_text);
    let (status, _, page) = answer(without_pauses(first.clock(), asked).await).await;
    assert_eq!(status, 201, "{page}");
    assert_eq!(opened(&first, &key, Some("m"), &body).await, page);
    let orders = "select count(*) as n from orders where cancelled_at is null";
    assert_eq!(first.count(orders).await, 2);
    second.stop().await;
    stop(sandbox, first).await;
}

/// Providers and a service whose clock is one, which the test moves.
async fn start_by_hand() -> (Sandbox, Service, String) {
    let clock = Clock::manual(START);
    let options = SandboxOptions {
        clock: clock.clone(),
        ..SandboxOptions::default()
    };
    let sandbox = Sandbox::start(options).await.unwrap();
    let options = with_providers(&sandbox).without_workers().clock(&clock);
    let service = options.start().await;
    let key = service.api_key().await;
    (sandbox, service, key)
}

#[tokio::test]
async fn a_key_whose_page_has_ended_opens_another_page_for_the_same_order() {
    let (sandbox, service, key) = start_by_hand().await;
    let first = opened(&service, &key, Some("k"), &mug()).await;
    service.clock().advance(Duration::from_hours(24));
    let bodies = [mug().to_string(), mug().to_string(), mug().to_string()];
    let calls = bodies
        .iter()
        .map(|body| post(&service, &key, Some("k"), body));
    let mut answers = Vec::new();
    for response in join_all(calls).await {
        let (status, _, body) = answer(response).await;
        assert_eq!(status, 201, "{body}");
        answers.push(body);
    }
    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
    let second = &answers[0];
    assert_ne!(second["session_id"], first["session_id"]);
    assert_ne!(second["checkout_url"], first["checkout_url"]);
    assert_eq!(second["order_id"], first["order_id"]);
    assert_eq!(second["pact_id"], first["pact_id"]);
    assert_eq!(second["expires_at"], "2027-01-17T08:00:00.000Z");
    let seen = session(&sandbox, &second["session_id"]).await;
    assert_eq!(seen["status"], "open");
    assert_eq!(seen["amount_total"], 2900);
    assert_eq!(service.count(ORDERS).await, 1);
    let created = "select count(*) as n from events where kind = 'order.created'";
    assert_eq!(service.count(created).await, 1);
    // While the new page lives it is the answer.
    service.clock().advance(Duration::from_hours(23));
    assert_eq!(opened(&service, &key, Some("k"), &mug()).await, *second);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn a_key_is_remembered_until_a_day_after_its_page_has_ended_and_its_order_for_good() {
    let (sandbox, service, key) = start_by_hand().await;
    let first = opened(&service, &key, Some("k"), &mug()).await;
    let worker = Worker::new(service.parts.clone(), Queue::Orders, 1);
    let after = async |hours| {
        service.clock().advance(Duration::from_hours(hours));
        worker.keep_house().await.unwrap();
        service.count("select count(*) as n from checkouts").await
    };
    assert_eq!(after(23).await, 1);
    assert_eq!(opened(&service, &key, Some("k"), &mug()).await, first);
    assert_eq!(after(24).await, 1, "its page ended 23 hours ago");
    let second = opened(&service, &key, Some("k"), &mug()).await;
    assert_eq!(second["order_id"], first["order_id"]);
    assert_eq!(after(47).await, 1, "its second page ended 23 hours ago");
    assert_eq!(after(2).await, 0);
    assert_eq!(service.count(ORDERS).await, 1);
    let third = opened(&service, &key, Some("k"), &mug()).await;
    assert_ne!(third["order_id"], first["order_id"]);
    drop(worker);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn nobody_is_led_to_pay_for_an_order_that_is_cancelled() {
    let (sandbox, service, key) = start_by_hand().await;
    opened(&service, &key, Some("k"), &mug()).await;
    change_orders(service.db(), "orders", |order| {
        order.cancelled = Some(Cancellation {
            at: 1,
            reason: Some("payment_canceled".to_owned()),
        });
    })
    .await;
    for hours in [0, 24] {
        service.clock().advance(Duration::from_hours(hours));
        let again = post(&service, &key, Some("k"), &mug().to_string()).await;
        let (status, code, body) = answer(again).await;
        assert_eq!((status, code), (409, None), "{body}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains("use a new Idempotency-Key"), "{message}");
    }
    let made = sandbox.payment().sessions_by_key();
    assert_eq!(made.values().collect::<Vec<_>>(), [&1]);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn who_has_finished_on_a_page_is_not_led_to_another() {
    let (sandbox, service, key) = start_by_hand().await;
    let first = opened(&service, &key, Some("k"), &mug()).await;
    let mut service = service;
    service.start_workers();
    // A bank transfer: the page is done, and the money takes days.
    let id = first["session_id"].as_str().unwrap();
    let fields = json!({"payment_status": "unpaid", "metadata": {"pact_id": first["pact_id"]}});
    let done = payment::session(id, "unpaid", 2900, &fields);
    deliver(
        &service,
        &payment::event(&service, "checkout.session.completed", 1, &done),
    )
    .await;
    service.clock().advance(Duration::from_hours(24));
    let again = post(&service, &key, Some("k"), &mug().to_string()).await;
    let (status, code, _) = answer(again).await;
    assert_eq!((status, code.as_deref()), (409, Some("COMMERCE_005")));
    stop(sandbox, service).await;
}

#[tokio::test]
async fn what_the_provider_refuses_is_refused_for_good_and_its_order_called_off() {
    let (sandbox, service, key) = start().await;
    let body = json!({
        "line_items": [{"price": "price_none", "quantity": 1}],
        "return_url": "https://shop.example/thanks",
    });
    for _ in 0..2 {
        let response = post(&service, &key, Some("k"), &body.to_string()).await;
        let (status, _, body) = answer(response).await;
        let message = body["message"].as_str().unwrap();
        assert_eq!(status, 400);
        assert!(message.contains("ids of prices"), "{message}");
        assert!(!message.contains("resource_missing") && !message.contains("price_none"));
    }
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        1,
        "it is not asked again"
    );
    let order = "select id as n from orders";
    let id = service.count(order).await;
    let order = shown(&service, &key, "checkout", id).await;
    assert_eq!(order["cancel_reason"], "checkout_refused");
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    let reported = kinds(service.db(), "checkout", id).await;
    assert_eq!(reported, ["order.created", "order.cancelled"]);
    // Only the provider knows that this amount is too much.
    let mut much = mug();
    much["line_items"][0] =
        json!({"name": "Palace", "amount": 99_999_999, "currency": "USD", "quantity": 999});
    let (status, code, _) = refused(&service, &key, &much.to_string()).await;
    assert_eq!((status, code.as_deref()), (400, Some("COMMERCE_001")));
    stop(sandbox, service).await;
}

#[tokio::test]
async fn where_a_buyer_could_be_led_astray_nothing_is_opened() {
    let (sandbox, service, key) = start().await;
    let long = format!("https://shop.example/{}", "a".repeat(10_000));
    for address in [
        "https://evil.example/",
        "http://shop.example/",
        "https://shop.example:8443/",
        "https://shop.example@evil.example/",
        "https://user:word@shop.example/",
        "https://shop.example\\@evil.example/",
        "https:\\\\shop.example",
        "javascript:alert(1)//https://shop.example",
        "data:text/html,x",
        "//shop.example/",
        "/thanks",
        "https://shop.example/\u{0}",
        "https://shop.example/\r\nLocation: https://evil.example",
        "https://sh\top.example/",
        "http://127.0.0.1/",
        "",
        &long,
    ] {
        for field in ["return_url", "cancel_url"] {
            let mut body = mug();
            body[field] = json!(address);
            let (status, code, message) = refused(&service, &key, &body.to_string()).await;
            assert_eq!((status, code), (400, None), "{address:?}");
            assert!(message.starts_with(field), "{message}");
            assert!(!message.contains("evil"), "{message}");
        }
    }
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    assert_eq!(service.count(ORDERS).await, 0);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_refused_by_its_place_and_never_by_its_content() {
    let (sandbox, service, key) = start().await;
    let item = |item: Value| {
        let mut body = mug();
        body["line_items"] = json!([{"price": "price_1", "quantity": 1}, item]);
        body.to_string()
    };
    let named = |field: &str, value: Value| {
        let mut named = json!({"name": "x", "amount": 5, "currency": "USD", "quantity": 1});
        named[field] = value;
        item(named)
    };
    let with = |field: &str, value: Value| {
        let mut body = mug();
        body[field] = value;
        body.to_string()
    };
    let items = |count: usize| {
        with(
            "line_items",
            json!(vec![json!({"price": "p", "quantity": 1}); count]),
        )
    };
    let (amount, currency) = (Some("COMMERCE_001"), Some("COMMERCE_002"));
    for (body, code, reported) in [
        ("canary".to_owned(), None, "not JSON"),
        ("[\"canary\"]".to_owned(), None, "not a JSON object"),
        (String::new(), None, "not JSON"),
        ("{}".to_owned(), None, "line_items"),
        (items(0), None, "1 to 100"),
        (items(101), None, "1 to 100"),
        (with("line_items", json!("canary")), None, "line 1, column"),
        (with("lineItems", json!([])), None, "both spellings"),
        (
            with("returnUrl", json!("https://shop.example/")),
            None,
            "both spellings",
        ),
        (with("canary", json!(1)), None, "not known"),
        (
            with("return_url", Value::Null),
            None,
            "return_url is missing",
        ),
        (
            with("customer_email", json!("canary")),
            None,
            "customer_email",
        ),
        (
            with("customer_email", json!("a b@c.example")),
            None,
            "customer_email",
        ),
        (
            with("client_reference_id", json!("a\nb")),
            None,
            "client_reference_id",
        ),
        (
            with("client_reference_id", json!("x".repeat(201))),
            None,
            "client_reference_id",
        ),
        (with("shop", json!("canary/canary")), None, "shop"),
        (
            item(json!({"quantity": 1})),
            None,
            "line_items[1]: must have",
        ),
        (
            item(json!({"price": "price_1", "name": "x", "quantity": 1})),
            None,
            "line_items[1]: must have",
        ),
        (
            item(json!({"price": 1450, "quantity": 1})),
            None,
            "line_items[1]: price",
        ),
        (
            item(json!({"price": "canary canary", "quantity": 1})),
            None,
            "line_items[1]: price",
        ),
        (
            item(json!({"variant_id": 0, "quantity": 1})),
            None,
            "line_items[1]: variant_id",
        ),
        (
            item(json!({"variant_id": "canary", "quantity": 1})),
            None,
            "line_items[1]: variant_id",
        ),
        (
            item(json!({"price": "price_1"})),
            None,
            "line_items[1]: quantity",
        ),
        (
            item(json!({"price": "price_1", "quantity": 0})),
            None,
            "line_items[1]: quantity",
        ),
        (
            item(json!({"price": "price_1", "quantity": 1000})),
            None,
            "line_items[1]: quantity",
        ),
        (
            item(json!({"price": "price_1", "quantity": 1.5})),
            None,
            "line_items[1]: quantity",
        ),
        (named("name", json!(" ")), None, "line_items[1]: name"),
        (
            named("name", json!("x".repeat(251))),
            None,
            "line_items[1]: name",
        ),
        (named("amount", json!(0)), amount, "line_items[1]: amount"),
        (named("amount", json!(-5)), amount, "line_items[1]: amount"),
        (
            named("amount", json!(19.99)),
            amount,
            "line_items[1]: amount",
        ),
        (
            named("amount", json!("1999")),
            amount,
            "line_items[1]: amount",
        ),
        (
            named("amount", json!(100_000_000)),
            amount,
            "line_items[1]: amount",
        ),
        (
            named("currency", json!("JPY")),
            currency,
            "line_items[1]: currency",
        ),
        (
            named("currency", json!("canary")),
            currency,
            "line_items[1]: currency",
        ),
    ] {
        let (status, seen, message) = refused(&service, &key, &body).await;
        assert_eq!((status, seen.as_deref()), (400, code), "{body}: {message}");
        assert!(message.contains(reported), "{body}: {message}");
        assert!(!message.contains("canary"), "{message}");
    }
    let mixed = json!({
        "line_items": [
            {"name": "x", "amount": 5, "currency": "USD", "quantity": 1},
            {"name": "x", "amount": 5, "currency": "EUR", "quantity": 1},
        ],
        "return_url": "https://shop.example/",
    });
    let (status, code, _) = refused(&service, &key, &mixed.to_string()).await;
    assert_eq!((status, code.as_deref()), (400, currency));
    for wrong in ["a b", "", &"k".repeat(256)] {
        let response = post(&service, &key, Some(wrong), &mug().to_string()).await;
        let (status, _, body) = answer(response).await;
        let message = body["message"].as_str().unwrap();
        assert_eq!(status, 400);
        assert!(message.starts_with("Idempotency-Key"), "{message}");
    }
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    assert_eq!(service.count(ORDERS).await, 0);
    stop(sandbox, service).await;
}

#[tokio::test]
async fn who_may_not_open_checkouts_gets_that_answer_in_a_message() {
    let (sandbox, service, _) = start().await;
    let body = mug().to_string();
    let (status, code, message) = refused(&service, "wb_wrong", &body).await;
    assert_eq!((status, code.as_deref()), (401, Some("AUTH_001")));
    assert_eq!(message, "Invalid API key");
    let of_shops = |shops: &[&str]| Rights {
        scopes: None,
        shops: Shops(Some(shops.iter().map(|&it| it.to_owned()).collect())),
    };
    let blind = service
        .api_key_for("blind", &of_shops(&["a.example"]))
        .await;
    let (status, _, message) = refused(&service, &blind, &body).await;
    assert_eq!(status, 403);
    assert!(message.contains("--shop checkout"), "{message}");
    let seeing = of_shops(&["a.example", "checkout"]);
    let seeing = service.api_key_for("seeing", &seeing).await;
    let mut other = mug();
    other["shop"] = json!("b.example");
    let (status, _, message) = refused(&service, &seeing, &other.to_string()).await;
    assert_eq!(status, 400);
    assert!(message.starts_with("shop"), "{message}");
    let variant = json!({
        "line_items": [{"variant_id": MUG, "quantity": 1}],
        "return_url": "https://shop.example/thanks",
    });
    opened(&service, &seeing, None, &variant).await;
    // It is not clear which shop the variant belongs to, or it belongs to none.
    for shops in [&["a.example", "b.example", "checkout"][..], &["checkout"]] {
        let unclear = service.api_key_for("unclear", &of_shops(shops)).await;
        let (status, _, message) = refused(&service, &unclear, &variant.to_string()).await;
        assert_eq!(status, 400);
        assert!(message.starts_with("shop must name"), "{message}");
    }
    let checkout = opened(&service, &seeing, None, &mug()).await;
    let id = checkout["order_id"].as_str().unwrap().parse().unwrap();
    shown(&service, &seeing, "checkout", id).await;
    stop(sandbox, service).await;

    let bare = crate::support::service().without_workers().start().await;
    let key = bare.api_key().await;
    let here = json!({
        "line_items": [{"name": "x", "amount": 5, "currency": "USD", "quantity": 1}],
        "return_url": format!("{}/thanks", bare.url),
    });
    let (status, _, message) = refused(&bare, &key, &here.to_string()).await;
    assert_eq!(status, 503);
    assert!(message.contains("PAYMENT_API_URL"), "{message}");
    bare.stop().await;
}
