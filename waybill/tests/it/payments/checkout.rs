//! A checkout from the call that opens it to its refund, with a real browser on the sandbox's
//! pages.

use sandbox::{Options, PAYMENT_KEY, Sandbox, Webhooks};
use serde_json::{Value, json};
use store::orders::checkout_key;

use crate::support::browser::Browser;
use crate::support::order::{kinds, shown, times};
use crate::support::payment::balances;
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, eventually, service};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_paid_in_a_browser_is_an_order_to_ship_and_what_is_refunded_is_a_credit() {
    let (options, url) = service().listening().await;
    let webhooks = Webhooks {
        base_url: url.clone(),
        storefront_secret: STOREFRONT_SECRET.to_owned(),
        payment_secret: PAYMENT_SECRET.to_owned(),
        shop: String::new(),
    };
    let sandbox = Sandbox::start(Options {
        webhooks: Some(webhooks),
        ..Options::default()
    })
    .await
    .unwrap();
    let service = options
        .setting("PAYMENT_API_URL", &sandbox.payment_url())
        .setting("PAYMENT_API_KEY", PAYMENT_KEY)
        .start()
        .await;
    let key = service.api_key().await;
    let body = json!({
        "lineItems": [{"name": "Enamel mug", "amount": 1450, "currency": "EUR", "quantity": 2}],
        "returnUrl": format!("{url}/livez"),
        "cancelUrl": format!("{url}/readyz"),
        "customerEmail": "ada@example.com",
    });
    let asked = service
        .post_to("/api/commerce/checkout")
        .bearer_auth(&key)
        .header("Idempotency-Key", "basket-1")
        .body(body.to_string());
    let open = async || asked.try_clone().unwrap().send().await.unwrap();
    let opened = open().await;
    assert_eq!(opened.status(), 201);
    let session: Value = opened.json().await.unwrap();
    let agreement = session["pact_id"].as_str().unwrap();
    let (shop, id) = checkout_key(agreement);
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "pending");

    // A card that is declined first: the buyer is notified on the page and by mail, and tries
    // again.
    let mut browser = Browser::start();
    let page = browser.visit(session["checkout_url"].as_str().unwrap(), 360, "light");
    assert!(page.text.contains("29.00 EUR"), "{}", page.text);
    assert_eq!(page.complaints, Vec::<String>::new());
    browser.press("Decline");
    sandbox.webhooks_done().await;
    service.settled().await;
    let failed = "select count(*) as n from events where kind = 'payment.failed'";
    assert_eq!(service.count(failed).await, 1);
    let kept = "select count(*) as n from notifications where state = 'kept'";
    assert_eq!(service.count(kept).await, 1);
    browser.press("Pay");
    sandbox.webhooks_done().await;
    service.settled().await;
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(order["total_price"], "29.00");
    assert_eq!(order["line_items"][0]["title"], "Enamel mug");
    assert_eq!(order["fulfillment"]["state"], "requested");
    let reported = kinds(service.db(), &shop, id).await;
    for kind in ["order.created", "order.paid", "order.fulfillment_requested"] {
        assert_eq!(times(&reported, kind), 1, "{kind}");
    }
    let orders = service.count("select count(*) as n from orders").await;
    assert_eq!(orders, 1, "the session's order is the one that was there");
    let again = open().await;
    assert_eq!(again.status(), 409, "nobody is led to pay a second time");
    assert_eq!(again.headers()["x-error-code"], "COMMERCE_005");
    let released = format!("released:{agreement}");
    let held = balances(service.db()).await;
    assert_eq!(held[&released], 2900);
    assert_eq!(held["provider"], -2900);
    // The buyer is led to the page of the order.
    let page = browser.visit(&format!("{url}/orders/{id}/track"), 360, "dark");
    assert!(page.text.contains("Preparing"), "{}", page.text);

    // A refund at the provider's dashboard, in part and then of the rest.
    let dashboard = format!("{}/payment/dashboard", sandbox.url());
    browser.visit(&dashboard, 1280, "light");
    browser.fill("amount", "9.00");
    browser.press("Refund");
    sandbox.webhooks_done().await;
    let refunds = "select count(*) as n from events where kind = 'payment.refunded'";
    eventually("the refund is known", async || {
        service.count(refunds).await == 1
    })
    .await;
    service.settled().await;
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "partially_refunded");
    let held = balances(service.db()).await;
    let credited = |held: &std::collections::BTreeMap<String, i64>| -> i64 {
        let credits = held
            .iter()
            .filter(|(account, _)| account.starts_with("credited"));
        credits.map(|(_, minor)| minor).sum()
    };
    assert_eq!(credited(&held), 900);
    assert_eq!(held[&released], 2000);
    browser.press("Refund");
    sandbox.webhooks_done().await;
    eventually("so is the other", async || {
        service.count(refunds).await == 2
    })
    .await;
    service.settled().await;
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "refunded");
    assert_eq!(
        order["fulfillment"]["state"], "cancelled",
        "it was not shipped"
    );
    assert_eq!(credited(&balances(service.db()).await), 2900);
    drop(browser);
    service.stop().await;
    sandbox.stop().await;
}
