//! Every application code occurs, with the statuses of its table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::code::Code;
use domain::redact::Hide;
use platform::clock::Clock;
use platform::logs::{Lines, LogFormat};
use providers::payment::IdempotencyKey;
use reqwest::{RequestBuilder, Response};
use sandbox::{Fault, LoginRules, Options, PAYMENT_KEY, Sandbox};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::both::payments::events::{declined_intent, retry_ends, with_api};
use crate::payments::provider_api::{client_by, priced, session};
use crate::support::delivery::{order, payment, storefront};
use crate::support::login::{Desk, desk};
use crate::support::order::deliver;
use crate::support::payment::{declined, event, intent};
use crate::support::requests::{complete, export, posted, request};
use crate::support::{START, service, without_pauses};

/// The codes that were used, with the statuses of the answers that had them.
#[derive(Default)]
struct Seen(BTreeMap<String, BTreeSet<u16>>);

impl Seen {
    fn answer(&mut self, answer: &Response) {
        let code = answer.headers().get("x-error-code");
        let code = code.expect("a code").to_str().unwrap();
        self.answered(code, answer.status().as_u16());
    }

    fn answered(&mut self, code: &str, status: u16) {
        self.elsewhere(code);
        self.0.entry(code.to_owned()).or_default().insert(status);
    }

    fn elsewhere(&mut self, code: &str) {
        self.0.entry(code.to_owned()).or_default();
    }

    async fn sent(&mut self, request: RequestBuilder) {
        self.answer(&request.send().await.unwrap());
    }
}

async fn logins(seen: &mut Seen) {
    let desk = desk().await;
    let mut answered = |answer: crate::support::login::Answer| {
        seen.answered(&answer.code.expect("a code"), answer.status);
    };
    answered(desk.validate("no token").await);
    answered(
        desk.validate("gho_0123456789abcdefghijABCDEFGHIJ012345")
            .await,
    );
    answered(desk.poll("3584d83530557fdd1f46af8289938c8ef79f9dc5").await);
    let (code, _) = desk.code().await;
    answered(desk.poll(&code).await);
    answered(desk.poll(&code).await);
    let token = desk.log_in("octavia").await;
    assert!(desk.identity().revoke(&token));
    desk.identity().set_rules(LoginRules {
        token_life: Some(Duration::from_mins(10)),
        ..LoginRules::default()
    });
    let ending = desk.log_in("octavia").await;
    desk.pass(900);
    answered(desk.validate(&token).await);
    answered(desk.validate(&ending).await);
    answered(desk.poll(&code).await);
    webhooks_and_orders(seen, desk).await;
}

async fn webhooks_and_orders(seen: &mut Seen, mut desk: Desk) {
    let service = &desk.service;
    let key = service.api_key().await;
    let order_path = "/api/commerce/orders/7";
    seen.sent(service.get(order_path)).await;
    seen.sent(service.get(order_path).bearer_auth(&key)).await;
    let unsigned = order("orders/create", 1).without("X-Storefront-Hmac-Sha256");
    seen.sent(service.request(&unsigned)).await;
    seen.sent(service.request(&payment("{}").without("Payment-Signature")))
        .await;
    seen.sent(service.get("/orders/7/track")).await;
    // Whoever stores a delivery has to wait for this transaction.
    let held = service.db().begin().await.unwrap();
    seen.sent(service.request(&order("orders/create", 1))).await;
    held.rollback().await.unwrap();
    service.db().close().await;
    // Only deliveries are deduplicated, so no read answers with these codes.
    for request in [
        service.get(order_path).bearer_auth(&key),
        service.get("/orders/7/track"),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 503);
        assert!(!answer.headers().contains_key("x-error-code"));
    }
    desk.service.halt().await;
    desk.sandbox.stop().await;
}

async fn privacy_requests(seen: &mut Seen) {
    let folder = tempfile::tempdir().unwrap();
    let service = service()
        .manual_clock()
        .without_workers()
        .setting(
            "PRIVACY_EXPORT_URL",
            &format!("file://{}", folder.path().display()),
        )
        .start()
        .await;
    let key = service.api_key().await;
    let link = |id| {
        let path = format!("/api/privacy/requests/{id}/export-link");
        service.post_to(&path).bearer_auth(&key)
    };
    let redaction = posted(&service, &request("customers/redact", 1)).await;
    complete(&service, redaction).await;
    seen.sent(link(redaction)).await;
    let id = posted(&service, &request("customers/data_request", 1)).await;
    let ends = START.plus(Duration::from_mins(4));
    export(&service, folder.path(), id, "{}", ends).await;
    let answer = link(id).send().await.unwrap();
    let body: serde_json::Value = answer.json().await.unwrap();
    let path = body["url"].as_str().unwrap().strip_prefix(&service.url);
    let path = path.unwrap().to_owned();
    std::fs::remove_dir_all(folder.path().join(id.to_string())).unwrap();
    seen.sent(service.get(&path)).await;
    service.clock().advance(Duration::from_mins(4));
    seen.sent(service.get(&path)).await;
    service.stop().await;
}

async fn calls_to_providers(seen: &mut Seen) {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let clock = Clock::manual(START);
    let provider = client_by(&clock, &sandbox, PAYMENT_KEY);
    for (currency, amount) in [("EUR", 0), ("JPY", 5)] {
        let wish = session([(priced(currency, amount), 1)]);
        let failure = provider.checkout(&wish, "k").await.unwrap_err();
        seen.elsewhere(failure.code().expect("a code"));
    }
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    let pi = declined_intent(&sandbox).await;
    let mut failed = declined(&pi, 1000, 1, "insufficient_funds");
    failed["last_payment_error"]["payment_method"]["id"] = json!("pm_card_chargeDeclined");
    let kind = "payment_intent.payment_failed";
    deliver(&service, &event(&service, kind, 1, &failed)).await;
    // The customer pays before it is tried again.
    let url = format!("{}/v1/payment_intents/{pi}/confirm", sandbox.payment_url());
    let paid = reqwest::Client::new()
        .post(url)
        .bearer_auth(PAYMENT_KEY)
        .form(&[("payment_method", "pm_card_visa")])
        .send();
    assert_eq!(paid.await.unwrap().status(), 200);
    service.clock().advance(Duration::from_mins(61));
    retry_ends(&service, "stopped").await;
    let row = service
        .db()
        .query("select code from payment_retries where state = 'stopped'")
        .fetch_one();
    seen.elsewhere(&row.await.unwrap().get::<String>("code").unwrap());
    service.stop().await;
    sandbox.payment().fault_injector.fail(Fault::Status(503));
    let key = IdempotencyKey {
        job: uuid::Uuid::nil(),
        number: 1,
    };
    let confirmed = without_pauses(&clock, provider.confirm("pi_1", None, key)).await;
    seen.elsewhere(confirmed.unwrap_err().code().expect("a code"));
    sandbox.stop().await;
}

async fn checkouts_and_codes(seen: &mut Seen) {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = with_api(service(), &sandbox)
        .setting("CHECKOUT_RETURN_ORIGINS", "https://shop.example")
        .start()
        .await;
    let key = service.api_key().await;
    let wish = |amount: i64, currency: &str| {
        let item = json!({"name": "Mug", "amount": amount, "currency": currency, "quantity": 1});
        json!({"line_items": [item], "return_url": "https://shop.example/thanks"})
    };
    let post = |path: &str, body: serde_json::Value| {
        let request = service.post_to(path).bearer_auth(&key).json(&body);
        request.header("Idempotency-Key", "basket-7")
    };
    let checkout = "/api/commerce/checkout";
    seen.sent(post(checkout, wish(0, "EUR"))).await;
    seen.sent(post(checkout, wish(5, "JPY"))).await;
    let opened = post(checkout, wish(2900, "USD")).send().await.unwrap();
    let opened: serde_json::Value = opened.json().await.unwrap();
    let agreement = opened["pact_id"].as_str().unwrap();
    let paid = intent("pi_paid", "succeeded", 2900, Some(agreement));
    deliver(
        &service,
        &event(&service, "payment_intent.succeeded", 1, &paid),
    )
    .await;
    seen.sent(post(checkout, wish(2900, "USD"))).await;
    for body in [
        json!({"kind": "order", "order_id": ""}),
        json!({"kind": "payment", "order_id": "1", "amount": 0, "currency": "USD"}),
        json!({"kind": "payment", "order_id": "1", "amount": 1, "currency": "JPY"}),
    ] {
        seen.sent(post("/api/commerce/qr", body)).await;
    }
    sandbox.payment().fault_injector.fail(Fault::Status(503));
    let other = service.post_to(checkout).bearer_auth(&key);
    seen.sent(other.json(&wish(1, "USD"))).await;
    service.stop().await;
    sandbox.stop().await;
}

/// A value that cannot be shown.
struct Unshowable;

impl fmt::Debug for Unshowable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

/// What the log says while a parcel comes whose number fits no QR code, and of a value that
/// cannot be shown.
async fn log_lines(seen: &mut Seen) {
    let written = Arc::new(Mutex::new(String::new()));
    let sink = written.clone();
    let write = move |line: &str| sink.lock().unwrap().push_str(line);
    let lines = Lines::new(LogFormat::Json, Hide::PersonalDataAndSecrets, write);
    let subscriber = tracing_subscriber::registry().with(lines);
    // Everything of the service runs on this thread.
    let _logged = tracing::subscriber::set_default(subscriber);
    let service = service().start().await;
    let shipped = json!({
        "id": 7, "updated_at": "2027-01-15T08:00:00Z", "fulfillment_status": "fulfilled",
        "fulfillments": [{"id": 9, "status": "success", "tracking_number": ".."}],
    });
    deliver(
        &service,
        &storefront("orders/fulfilled", shipped.to_string()),
    )
    .await;
    tracing::info!(value = ?Unshowable, "a value that cannot be shown");
    service.stop().await;
    for line in written.lock().unwrap().lines() {
        for code in [Code::Qr, Code::Redaction] {
            if line.contains(code.id()) {
                seen.elsewhere(code.id());
            }
        }
    }
}

#[tokio::test]
async fn every_code_is_given_with_the_statuses_of_the_table() {
    let mut seen = Seen::default();
    logins(&mut seen).await;
    privacy_requests(&mut seen).await;
    calls_to_providers(&mut seen).await;
    checkouts_and_codes(&mut seen).await;
    log_lines(&mut seen).await;
    for code in Code::ALL {
        let statuses = seen.0.get(code.id());
        let statuses = statuses.unwrap_or_else(|| panic!("{code} is used nowhere"));
        assert!(
            statuses.iter().eq(code.meaning().statuses),
            "{code} came with {statuses:?}"
        );
    }
}
