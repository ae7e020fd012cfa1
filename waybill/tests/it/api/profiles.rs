//! Deliveries as each provider posts them: its headers, its signature, its bodies.

use std::sync::{Arc, Mutex};

use domain::job::State;
use domain::signature::{sign_payment, sign_standard, sign_storefront};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::both::connections::{self, connect_account, with_connections};
use crate::support::delivery::order;
use crate::support::payment::intent;
use crate::support::{Options, PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, service};

const OK: &str = r#"{"status":"ok"}"#;
const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub const THIN: &str =
    include_str!("../../../../common/domain/tests/fixtures/profiles/stripe.thin_event.json");

fn of(provider: &str) -> Options {
    service().setting("STOREFRONT_PROVIDER", provider)
}

async fn post(
    service: &Service,
    source: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut request = service.post_to(&format!("/api/webhooks/{source}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// The columns of the newest job.
async fn newest(service: &Service) -> Vec<String> {
    let columns = [
        "kind",
        "state",
        "shop",
        "external_id",
        "object_id",
        "subject",
        "api_version",
        "last_error",
    ];
    let row = service
        .db()
        .query(
            "select deliveries.kind, state, deliveries.shop, external_id, object_id, subject, api_version,
                    last_error
             from jobs join deliveries on deliveries.id = jobs.id
             order by jobs.id desc limit 1",
        )
        .fetch_one()
        .await
        .unwrap();
    columns
        .iter()
        .map(|name| row.get::<Option<String>>(name).unwrap().unwrap_or_default())
        .collect()
}

fn sample(topic: &str, seed: u64) -> String {
    String::from_utf8(order(topic, seed).body).unwrap()
}

/// As Shopify posts it.
async fn shopify(service: &Service, id: &str, body: &str) -> (u16, String) {
    let hmac = sign_storefront(STOREFRONT_SECRET, body.as_bytes());
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Shopify-Topic", "orders/create"),
        ("X-Shopify-Hmac-SHA256", &hmac),
        ("X-Shopify-Shop-Domain", "Shop.Example"),
        ("X-Shopify-API-Version", "2026-07"),
        ("X-Shopify-Webhook-Id", id),
        ("X-Shopify-Event-Id", "98880550-7158-44d4-b7cd-2c97c8a091b5"),
        ("X-Shopify-Triggered-At", "2026-10-28T10:22:45.330Z"),
    ];
    post(service, "storefront", &headers, body).await
}

#[tokio::test]
async fn a_delivery_of_shopify_is_taken_by_its_own_headers() {
    let service = of("shopify").without_workers().start().await;
    let body = sample("orders/create", 1);
    assert_eq!(shopify(&service, "w-1", &body).await, (200, OK.to_owned()));
    let job = newest(&service).await;
    assert_eq!(job[..4], ["orders/create", "ready", "shop.example", "w-1"]);
    assert_eq!(job[6], "2026-07");
    // It would take a 409 for a failure.
    assert_eq!(shopify(&service, "w-1", &body).await, (200, OK.to_owned()));
    assert_eq!(service.jobs(State::Ready).await, 1);
    // All deliveries of one action have one event id.
    assert_eq!(shopify(&service, "w-2", &body).await.0, 200);
    assert_eq!(service.jobs(State::Ready).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn many_orders_at_once_are_taken_by_default_from_a_provider_that_ends_subscriptions() {
    let service = of("shopify")
        .without("STOREFRONT_RATE_PER_SECOND")
        .without_workers()
        .start()
        .await;
    let bodies: Vec<String> = (1..=200)
        .map(|seed| sample("orders/create", seed))
        .collect();
    let posted = bodies.iter().enumerate();
    let posted = posted.map(async |(nth, body)| shopify(&service, &nth.to_string(), body).await.0);
    let statuses = join_all(posted).await;
    assert!(statuses.iter().all(|it| *it == 200), "{statuses:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_delivery_by_names_of_ones_own_is_taken() {
    let service = of("headers")
        .setting(
            "STOREFRONT_HEADERS",
            "signature=X-Shoplazza-Hmac-Sha256, topic=X-Shoplazza-Topic, shop=X-Shoplazza-Shop-Domain",
        )
        .without_workers()
        .start()
        .await;
    let body = sample("orders/paid", 1);
    let hmac = sign_storefront(STOREFRONT_SECRET, body.as_bytes());
    let headers = [
        ("X-Shoplazza-Hmac-Sha256", hmac.as_str()),
        ("X-Shoplazza-Topic", "orders/paid"),
        ("X-Shoplazza-Shop-Domain", "shop.example"),
        // Not named, so it says nothing.
        ("X-Storefront-Webhook-Id", "w-1"),
    ];
    for _ in 0..2 {
        let answer = post(&service, "storefront", &headers, &body).await;
        assert_eq!(answer, (200, OK.to_owned()));
    }
    let job = newest(&service).await;
    assert_eq!(job[..4], ["orders/paid", "ready", "shop.example", ""]);
    service.stop().await;
}

fn woocommerce_order(name: &str) -> String {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../common/domain/tests/fixtures/woocommerce"
    );
    std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap()
}

/// As WooCommerce posts it.
async fn woocommerce(service: &Service, topic: &str, id: &str, body: &str) -> u16 {
    let hmac = sign_storefront(STOREFRONT_SECRET, body.as_bytes());
    let (resource, event) = topic.split_once('.').unwrap();
    let headers = [
        ("Content-Type", "application/json"),
        ("X-WC-Webhook-Source", "https://Shop.Example/"),
        ("X-WC-Webhook-Topic", topic),
        ("X-WC-Webhook-Resource", resource),
        ("X-WC-Webhook-Event", event),
        ("X-WC-Webhook-Signature", &hmac),
        ("X-WC-Webhook-ID", "12"),
        ("X-WC-Webhook-Delivery-ID", id),
    ];
    post(service, "storefront", &headers, body).await.0
}

#[tokio::test]
async fn an_order_of_woocommerce_becomes_an_order() {
    let service = of("woocommerce").start().await;
    let created = woocommerce_order("order.created.processing");
    assert_eq!(
        woocommerce(&service, "order.created", "d1", &created).await,
        200
    );
    let job = newest(&service).await;
    assert_eq!(job[0], "orders/create");
    assert_eq!(job[2], "shop.example");
    assert_eq!((job[4].as_str(), job[5].as_str()), ("1727", "26"));
    service.settled().await;
    let row = async || {
        let row = service
            .db()
            .query(
                "select name, record, financial_status, fulfillment_status, total_minor, pact_id, cancelled_at
                 from orders where shop = 'shop.example' and id = 1727",
            )
            .fetch_one()
            .await
            .unwrap();
        let text = |name: &str| row.get::<Option<String>>(name).unwrap().unwrap_or_default();
        let cancelled: Option<i64> = row.get("cancelled_at").unwrap();
        let total: i64 = row.get("total_minor").unwrap();
        let record: Value = serde_json::from_str(&text("record")).unwrap();
        (
            [
                text("name"),
                record["contact"]["value"]["email"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
                text("financial_status"),
                text("fulfillment_status"),
                text("pact_id"),
            ],
            total,
            cancelled.is_some(),
        )
    };
    let texts = |financial: &str, fulfillment: &str| {
        [
            "#1727",
            "mara.lindqvist@example.com",
            financial,
            fulfillment,
            "pact-woo-1",
        ]
        .map(ToOwned::to_owned)
    };
    assert_eq!(row().await, (texts("paid", ""), 2935, false));

    let completed = woocommerce_order("order.updated.completed");
    assert_eq!(
        woocommerce(&service, "order.updated", "d2", &completed).await,
        200
    );
    service.settled().await;
    assert_eq!(row().await, (texts("paid", "fulfilled"), 2935, false));
    let refunded = woocommerce_order("order.updated.refunded");
    assert_eq!(
        woocommerce(&service, "order.updated", "d3", &refunded).await,
        200
    );
    // An order that was refunded in full and is tidied away stays as it is.
    assert_eq!(
        woocommerce(&service, "order.deleted", "d4", r#"{"id":1727}"#).await,
        200
    );
    service.settled().await;
    assert_eq!(newest(&service).await[..2], ["orders/delete", "done"]);
    assert_eq!(row().await, (texts("refunded", "fulfilled"), 2935, false));
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

/// It makes the id of a delivery of the webhook and the second, and switches a webhook off after
/// five answers that are not 2xx.
#[tokio::test]
async fn two_orders_of_one_second_are_two_deliveries_and_a_duplicate_is_200() {
    let service = of("woocommerce").without_workers().start().await;
    let first = woocommerce_order("order.created.processing");
    let second = woocommerce_order("order.created.pending.guest");
    assert_eq!(
        woocommerce(&service, "order.created", "same", &first).await,
        200
    );
    assert_eq!(
        woocommerce(&service, "order.created", "same", &second).await,
        200
    );
    assert_eq!(newest(&service).await[5], "", "a guest is no customer");
    assert_eq!(service.jobs(State::Ready).await, 2);
    assert_eq!(
        woocommerce(&service, "order.created", "same", &first).await,
        200
    );
    assert_eq!(service.jobs(State::Ready).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn the_form_that_says_that_a_webhook_was_set_up_is_answered_and_not_kept() {
    let service = of("woocommerce").without_workers().start().await;
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let ping = post(&service, "storefront", &[form], "webhook_id=12").await;
    assert_eq!(ping, (200, OK.to_owned()));
    let long = format!("webhook_id={}", "1".repeat(100));
    for other in ["webhook_id=", "webhook_id=1&x=2", "{}", "", &long] {
        let answer = post(&service, "storefront", &[form], other).await;
        assert_eq!(answer.0, 401, "{other}");
    }
    let as_json = [("Content-Type", "application/json")];
    assert_eq!(
        post(&service, "storefront", &as_json, "webhook_id=12")
            .await
            .0,
        401
    );
    let signed = [form, ("X-WC-Webhook-Signature", "AAAA")];
    assert_eq!(
        post(&service, "storefront", &signed, "webhook_id=12")
            .await
            .0,
        401
    );
    assert_eq!(service.count("select count(*) as n from jobs").await, 0);
    service.stop().await;

    let generic = of("generic").without_workers().start().await;
    assert_eq!(
        post(&generic, "storefront", &[form], "webhook_id=12")
            .await
            .0,
        401
    );
    generic.stop().await;
}

async fn standard(service: &Service, source: &str, id: &str, at: i64, body: &str) -> (u16, String) {
    let signature = sign_standard(STANDARD_SECRET, id, at, body.as_bytes()).unwrap();
    let older = sign_standard(
        "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        id,
        at,
        body.as_bytes(),
    );
    let list = format!("{} {signature}", older.unwrap());
    let time = at.to_string();
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", time.as_str()),
        ("webhook-signature", list.as_str()),
    ];
    post(service, source, &headers, body).await
}

#[tokio::test]
async fn deliveries_of_standard_webhooks_are_taken_on_both_paths() {
    let service = of("standard-webhooks")
        .setting("STOREFRONT_WEBHOOK_SECRET", STANDARD_SECRET)
        .setting("PAYMENT_PROVIDER", "standard-webhooks")
        .setting("PAYMENT_WEBHOOK_SECRET", STANDARD_SECRET)
        .setting("STOREFRONT_SHOPS", "shop.example")
        .start()
        .await;
    let now = service.clock().now().unix_seconds();
    let whole = format!(
        r#"{{"type":"order.created","timestamp":"2027-01-15T08:00:00Z","data":{}}}"#,
        sample("orders/create", 1)
    );
    let answer = standard(&service, "storefront", "msg_1", now, &whole).await;
    assert_eq!(answer, (200, OK.to_owned()));
    let job = newest(&service).await;
    assert_eq!(job[0], "orders/create");
    assert_eq!(job[2..4], ["shop.example", "msg_1"]);
    assert_eq!(
        standard(&service, "storefront", "msg_1", now, &whole)
            .await
            .0,
        200
    );
    service.settled().await;
    assert_eq!(service.count("select count(*) as n from orders").await, 1);

    let paid = json!({
        "type": "payment_intent.succeeded", "timestamp": "2027-01-15T08:00:00Z",
        "data": {"object": intent("pi_1", "succeeded", 1099, Some("p-1"))},
    });
    let paid = paid.to_string();
    assert_eq!(
        standard(&service, "payment", "msg_2", now, &paid).await.0,
        200
    );
    assert_eq!(newest(&service).await[3..5], ["msg_2", "pi_1"]);
    // An event that came before is answered like a fresh one.
    assert_eq!(
        standard(&service, "payment", "msg_2", now, &paid).await.0,
        200
    );
    let other = r#"{"type":"charge.refunded","data":{"amount":1}}"#;
    assert_eq!(
        standard(&service, "payment", "msg_3", now, other).await.0,
        200
    );
    let job = newest(&service).await;
    assert_eq!(job[..2], ["charge.refunded", "done"]);
    assert!(job[7].contains("data.object"), "{job:?}");
    service.settled().await;
    assert_eq!(
        service
            .count("select count(*) as n from payments where state = 'succeeded'")
            .await,
        1
    );
    assert_eq!(service.jobs(State::Dead).await, 0);
    for (age, status) in [(330, 401), (270, 200), (-270, 200), (-330, 401)] {
        for (source, body) in [("storefront", &whole), ("payment", &paid)] {
            let id = format!("msg_{source}_{age}");
            let answer = standard(&service, source, &id, now - age, body).await;
            assert_eq!(answer.0, status, "{source}, {age} s");
        }
    }
    service.settled().await;
    service.stop().await;
}

/// An API that gives one answer, and the heads of the requests that it had.
pub async fn api(answer: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    platform::task::spawn("an API", async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = socket.read_u8().await else {
                    break;
                };
                head.push(byte);
            }
            seen.lock().unwrap().push(String::from_utf8(head).unwrap());
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                answer.len()
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    (url, heads)
}

pub async fn stripe(service: &Service, body: &str) -> (u16, String) {
    let now = service.clock().now().unix_seconds();
    let right = sign_payment(PAYMENT_SECRET, now, body.as_bytes());
    let (_, right) = right.split_once(",v1=").unwrap();
    let rolled = sign_payment("the secret that it is rolled to", now, body.as_bytes());
    // As while a secret is rolled, and with the decoy of test events.
    let header = format!(
        "{rolled},v1={right},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"
    );
    post(service, "payment", &[("Stripe-Signature", &header)], body).await
}

#[tokio::test]
async fn events_of_stripe_are_taken_whichever_secret_signed() {
    let service = service()
        .setting("PAYMENT_PROVIDER", "stripe")
        .start()
        .await;
    let body = include_str!(
        "../../../../common/domain/tests/fixtures/payment/payment_intent.succeeded.2026-10-28.endive.json"
    );
    assert_eq!(stripe(&service, body).await, (200, OK.to_owned()));
    service.settled().await;
    assert_eq!(
        service
            .count("select count(*) as n from payments where state = 'succeeded'")
            .await,
        1
    );
    service.stop().await;
}

#[tokio::test]
async fn the_object_of_a_thin_event_is_fetched_and_worked_on() {
    let object = intent("pi_3Thin1", "succeeded", 1099, Some("pact-thin"));
    let (url, heads) = api(object.to_string()).await;
    let service = with_connections()
        .setting("PAYMENT_PROVIDER", "stripe")
        .start()
        .await;
    let api = connections::api(url, "sk_test_key");
    connect_account(&service, "stripe", "acct_7", Some(api)).await;
    let body = THIN.replace(r#""context": null"#, r#""context": "acct_7""#);
    assert_eq!(stripe(&service, &body).await.0, 200);
    let job = newest(&service).await;
    assert_eq!(
        (job[0].as_str(), job[4].as_str()),
        ("v1.payment_intent.succeeded", "pi_3Thin1@connected")
    );
    service.settled().await;
    assert_eq!(newest(&service).await[1], "done");
    let row = service
        .db()
        .query("select received_minor, pact_id from payments where id = 'pi_3Thin1@connected'")
        .fetch_one()
        .await
        .unwrap();
    assert_eq!(row.get::<i64>("received_minor").unwrap(), 1099);
    assert_eq!(row.get::<String>("pact_id").unwrap(), "pact-thin@connected");
    let asked = heads.lock().unwrap().join("").to_ascii_lowercase();
    assert!(
        asked.starts_with("get /v1/payment_intents/pi_3thin1 http"),
        "{asked}"
    );
    assert!(
        asked.contains("authorization: bearer sk_test_key"),
        "{asked}"
    );
    assert!(asked.contains("stripe-context: acct_7"), "{asked}");
    // What was fetched is not kept beside the payment: nobody would have to erase it.
    let kept = service
        .count("select count(*) as n from jobs where state = 'ready'")
        .await;
    assert_eq!(kept, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_thin_event_that_nobody_can_fetch_is_kept_and_noted() {
    let service = service()
        .setting("PAYMENT_PROVIDER", "stripe")
        .start()
        .await;
    assert_eq!(stripe(&service, THIN).await.0, 200);
    let job = newest(&service).await;
    assert_eq!(job[..2], ["v1.payment_intent.succeeded", "done"]);
    assert!(job[7].contains("PAYMENT_API_URL"), "{job:?}");
    let metrics = service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let counted = r#"waybill_deliveries_not_understood_total{source="payment",profile="stripe"}"#;
    assert!(metrics.contains(counted), "{metrics}");
    let other = THIN.replace(
        "v1.payment_intent.succeeded",
        "v1.billing.meter.no_meter_found",
    );
    let other = other.replace("evt_test_61", "evt_test_62");
    assert_eq!(stripe(&service, &other).await.0, 200);
    assert_eq!(
        newest(&service).await[7],
        "",
        "it is of no type that is handled"
    );
    assert_eq!(
        service.jobs(State::Dead).await + service.jobs(State::Ready).await,
        0
    );
    service.stop().await;
}

#[tokio::test]
async fn a_request_with_the_header_of_another_profile_is_refused_as_ever() {
    let service = of("shopify").without_workers().start().await;
    let body = sample("orders/create", 1);
    let hmac = sign_storefront(STOREFRONT_SECRET, body.as_bytes());
    for name in [
        "X-Storefront-Hmac-Sha256",
        "shopify-hmac-sha256",
        "X-WC-Webhook-Signature",
    ] {
        let headers = [(name, hmac.as_str()), ("X-Shopify-Topic", "orders/create")];
        let answer = post(&service, "storefront", &headers, &body).await;
        let expected = r#"{"detail":"Invalid signature in x-shopify-hmac-sha256"}"#;
        assert_eq!(answer, (401, expected.to_owned()), "{name}");
    }
    let now = service.clock().now().unix_seconds();
    let signed = sign_payment(PAYMENT_SECRET, now, b"{}");
    let answer = post(&service, "payment", &[("Stripe-Signature", &signed)], "{}").await;
    assert_eq!(
        answer,
        (401, r#"{"detail":"Invalid payment signature"}"#.to_owned())
    );
    service.stop().await;
}

/// What is said of a delivery that is refused: its status and the text.
async fn refusal(service: &Service, source: &str, headers: &[(&str, &str)], body: &str) -> String {
    let (status, text) = post(service, source, headers, body).await;
    let text: Value = serde_json::from_str(&text).unwrap();
    format!("{status} {}", text["detail"].as_str().unwrap())
}

#[tokio::test]
async fn what_is_refused_is_said_in_the_names_of_the_headers_that_the_sender_uses() {
    let privacy = r#"{"shop_domain":"other.example","customer":{"id":1},"orders_to_redact":[]}"#;
    let long = "x".repeat(256);
    // The profile, its own names, and what it calls a topic and a shop.
    for (provider, hmac, topic, shop, id, topics, shops) in [
        (
            "generic",
            "x-storefront-hmac-sha256",
            "X-Storefront-Topic",
            "X-Storefront-Shop-Domain",
            "X-Storefront-Webhook-Id",
            [
                "X-Storefront-Topic is missing or is not a topic like orders/create",
                "customers/redact",
            ],
            ["X-Storefront-Shop-Domain is not a domain", "shop.example"],
        ),
        (
            "shopify",
            "x-shopify-hmac-sha256",
            "x-shopify-topic",
            "x-shopify-shop-domain",
            "x-shopify-webhook-id",
            [
                "x-shopify-topic is missing or is not a topic like orders/create",
                "customers/redact",
            ],
            ["x-shopify-shop-domain is not a domain", "shop.example"],
        ),
        (
            "woocommerce",
            "x-wc-webhook-signature",
            "x-wc-webhook-topic",
            "x-wc-webhook-source",
            "x-wc-webhook-delivery-id",
            [
                "x-wc-webhook-topic is missing or is not a topic like order.created",
                "customers/redact",
            ],
            [
                "x-wc-webhook-source is not the address of a shop",
                "https://shop.example/",
            ],
        ),
        (
            "headers",
            "x-my-hmac",
            "x-my-topic",
            "x-my-shop",
            "x-my-id",
            [
                "x-my-topic is missing or is not a topic like orders/create",
                "customers/redact",
            ],
            ["x-my-shop is not a domain", "shop.example"],
        ),
    ] {
        let mut options = of(provider).setting("STOREFRONT_SHOPS", "shop.example,another.example");
        if provider == "headers" {
            let names = "signature=x-my-hmac,topic=x-my-topic,shop=x-my-shop,id=x-my-id";
            options = options.setting("STOREFRONT_HEADERS", names);
        }
        let service = options.without_workers().start().await;
        let signed = sign_storefront(STOREFRONT_SECRET, privacy.as_bytes());
        let [no_topic, redact] = topics;
        let [no_shop, known] = shops;
        let said = async |headers: &[(&str, &str)]| {
            refusal(&service, "storefront", headers, privacy).await
        };
        let unsigned = said(&[(topic, redact)]).await;
        if provider == "generic" {
            assert_eq!(unsigned, "401 Invalid HMAC signature");
        } else {
            assert_eq!(unsigned, format!("401 Invalid signature in {hmac}"));
        }
        assert_eq!(said(&[(topic, redact), (hmac, "AAAA")]).await, unsigned);
        let sent = (hmac, signed.as_str());
        assert_eq!(said(&[sent]).await, format!("422 {no_topic}"));
        let odd = said(&[sent, (topic, redact), (shop, "not a domain")]).await;
        assert_eq!(odd, format!("422 {no_shop}"));
        let stranger = said(&[sent, (topic, redact), (shop, "https://x.example")]).await;
        let unknown = format!("422 {shop} is not one of STOREFRONT_SHOPS");
        // Only one of the profiles has an address there.
        if provider == "woocommerce" {
            assert_eq!(stranger, unknown);
        }
        let stranger = said(&[sent, (topic, redact), (shop, "x.example")]).await;
        assert_eq!(stranger, unknown);
        let wrong_id = said(&[sent, (topic, redact), (shop, known), (id, &long)]).await;
        let not_an_id = format!("422 {id} is not an id of at most 255 visible characters");
        assert_eq!(wrong_id, not_an_id);
        let another = said(&[sent, (topic, redact), (shop, known)]).await;
        let not_its_own = format!("422 {shop} is not the shop_domain of the body");
        assert_eq!(another, not_its_own);
        service.stop().await;
    }
}

#[tokio::test]
async fn a_shop_in_no_header_and_the_headers_of_signatures_are_named_as_they_are() {
    let service = of("standard-webhooks")
        .setting("STOREFRONT_WEBHOOK_SECRET", STANDARD_SECRET)
        .setting("STOREFRONT_SHOPS", "shop.example")
        .setting("PAYMENT_PROVIDER", "stripe")
        .without_workers()
        .start()
        .await;
    let now = service.clock().now().unix_seconds();
    let redact = |shop: &str| {
        format!(r#"{{"type":"shop.redact","data":{{"shop_id":1,"shop_domain":"{shop}"}}}}"#)
    };
    let answer = standard(&service, "storefront", "m-1", now, &redact("other.example")).await;
    let said = r#"{"detail":"STOREFRONT_SHOPS is not the shop_domain of the body"}"#;
    assert_eq!(answer, (422, said.to_owned()));
    let unsigned = refusal(&service, "storefront", &[], "{}").await;
    assert_eq!(unsigned, "401 Invalid signature in webhook-signature");
    let unsigned = refusal(&service, "payment", &[], "{}").await;
    assert_eq!(unsigned, "401 Invalid signature in stripe-signature");
    service.stop().await;
}

#[tokio::test]
async fn calls_to_shopify_carry_its_own_header_of_the_token() {
    let (url, heads) = api(r#"{"fulfillment_orders":[]}"#.to_owned()).await;
    let service = of("shopify")
        .setting("STOREFRONT_API_URL", &url)
        .setting("STOREFRONT_API_TOKEN", "shpat_token")
        .start()
        .await;
    let mut paid: Value = serde_json::from_str(&sample("orders/paid", 1)).unwrap();
    paid["financial_status"] = json!("paid");
    assert_eq!(shopify(&service, "w-1", &paid.to_string()).await.0, 200);
    eventually("the storefront was asked", async || {
        !heads.lock().unwrap().is_empty()
    })
    .await;
    let asked = heads.lock().unwrap().join("").to_ascii_lowercase();
    assert!(
        asked.contains("x-shopify-access-token: shpat_token"),
        "{asked}"
    );
    assert!(!asked.contains("x-storefront-access-token"), "{asked}");
    service.settled().await;
    service.stop().await;
}
