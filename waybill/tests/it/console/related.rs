//! What belongs together: one subscription with its invoices and licences, and one customer with the orders.

use std::time::Duration;

use domain::api_key::Role;
use domain::event::Pattern;
use domain::license::Tier;
use operators::endpoints::WantedEndpoint;
use operators::licenses::{self, To, Wanted, When};
use serde_json::json;
use store::audit::By;

use crate::support::console::{Console, Session, role};
use crate::support::delivery::{SHOP, storefront};
use crate::support::endpoint::StandIn;
use crate::support::order::{body, captured, deliver, order_delivery, with};
use crate::support::payment::{event, invoice};
use crate::support::{Service, eventually, service};

async fn signed_in(service: &mut Service) -> (Console, Session) {
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    (console, session)
}

#[tokio::test]
async fn one_page_shows_all_that_belongs_to_a_subscription() {
    let mut service = service().start().await;
    let by = By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    };
    let user = "id:77".parse().unwrap();
    let wanted = Wanted {
        provider: None,
        to: To::User(&user),
        tier: Tier::Pro,
        expires_at: Some(by.now.plus(Duration::from_hours(24))),
        subscription: Some("sub_7"),
        item: None,
    };
    let when = When {
        now: by.now,
        grace: Duration::ZERO,
    };
    let granted = licenses::grant(service.db(), by, service.clock(), &wanted, when).await;
    assert!(granted.is_ok());
    let mut paid = invoice("in_7", "sub_7", 500, 30);
    paid["billing_reason"] = json!("subscription_create");
    paid["payment_intent"] = json!("pi_7");
    let later = invoice("in_8", "sub_7", 500, 60);
    let now = service.clock().now();
    deliver(&service, &captured(now, 7, "pact-7")).await;
    deliver(
        &service,
        &event(&service, "invoice.payment_succeeded", 2, &paid),
    )
    .await;
    deliver(
        &service,
        &event(&service, "invoice.payment_succeeded", 3, &later),
    )
    .await;
    let (console, session) = signed_in(&mut service).await;
    let page = console.shown(&session, "/subscriptions/sub_7").await;
    for expected in [
        "invoice.payment_succeeded",
        "subscription.",
        "payment_intent.succeeded",
        "Invoices",
        "/payments/in_7",
        "/payments/in_8",
        "/payments/pi_7",
        "Licences",
        "account 77",
        "Books",
        "cus_7",
        "What happened",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.to_lowercase().contains("canary"), "{page}");
    let list = console.shown(&session, "/subscriptions").await;
    assert!(list.contains("href=\"/subscriptions/sub_7\""), "{list}");
    let list = console.shown(&session, "/payments").await;
    assert!(list.contains("href=\"/payments/pi_7\""), "{list}");
    for what in ["sub_7", "in_7", "in_8"] {
        let led = console.leads(&session, &format!("/search?q={what}")).await;
        assert_eq!(led, "/subscriptions/sub_7", "{what}");
    }
    let (status, _) = console.page(&session, "/subscriptions/sub_404").await;
    assert_eq!(status, 404);
    service.stop().await;
}

#[tokio::test]
async fn one_page_shows_the_orders_and_requests_of_a_customer_and_not_who_it_is() {
    let mut service = service().start().await;
    let attributes = json!({"note_attributes": [{"name": "pact_id", "value": "pact-7"}]});
    let first = with(body(7, 0, "pending"), &attributes);
    deliver(&service, &order_delivery("orders/create", &first)).await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(8, 0, "pending")),
    )
    .await;
    deliver(&service, &captured(service.clock().now(), 7, "pact-7")).await;
    let request = json!({
        "shop_id": 1, "shop_domain": SHOP, "orders_requested": [7],
        "customer": {"id": 77, "email": "canary@example.com", "phone": "+12025550123"},
        "data_request": {"id": 9},
    });
    let request = storefront("customers/data_request", request.to_string());
    deliver(&service, &request).await;
    let (console, session) = signed_in(&mut service).await;
    let order = console.shown(&session, "/orders/7?shop=shop.example").await;
    let path = "/customers/77?shop=shop.example";
    assert!(order.contains(&format!("href=\"{path}\"")), "{order}");
    let page = console.shown(&session, path).await;
    for expected in [
        "/orders/7?shop=shop.example",
        "/orders/8?shop=shop.example",
        "orders/create",
        "order.created",
        "payment_intent.succeeded",
        "customers/data_request",
        "waybill privacy list",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    for trace in ["canary", "2025550123", "@example"] {
        assert!(!page.to_lowercase().contains(trace), "{trace}: {page}");
    }
    let token = console.token(&session).await;
    let fields = [("token", token.as_str()), ("q", "canary@example.com")];
    let answer = session.send(console.post("/search", &fields)).await;
    let found = answer.text().await.unwrap();
    assert!(found.contains(&format!("href=\"{path}\"")), "{found}");
    for (path, expected) in [
        ("/customers/78?shop=shop.example", 404),
        ("/customers/77?shop=other.example", 404),
        ("/customers/x?shop=shop.example", 404),
        ("/customers/77", 404),
    ] {
        let (status, _) = console.page(&session, path).await;
        assert_eq!(status, expected, "{path}");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_event_says_to_which_endpoints_it_went_and_for_which_it_waits() {
    let service = service().setting("ENDPOINT_NETWORKS", "127.0.0.0/8");
    let mut service = service.start().await;
    let (accepting, refusing) = (StandIn::start(200).await, StandIn::start(500).await);
    let by = By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    };
    let others: Vec<Pattern> = vec!["refund.*".parse().unwrap()];
    let late = StandIn::start(200).await;
    for (url, types) in [
        (&accepting.url, Vec::new()),
        (&refusing.url, Vec::new()),
        (&late.url, others),
    ] {
        let new = WantedEndpoint {
            id: service.clock().id(),
            url,
            types,
            since: None,
        };
        let allowed = &service.parts.config.endpoints;
        let (db, clock) = (service.db(), service.clock());
        let added = operators::endpoints::add(db, by, clock, allowed, new).await;
        added.unwrap();
    }
    let made = order_delivery("orders/create", &body(7, 0, "pending"));
    assert_eq!(service.answer(&made).await.0, 200);
    let (console, session) = signed_in(&mut service).await;
    let (went, waits) = (
        format!("went to {}", accepting.url),
        format!("waits for {}", refusing.url),
    );
    let path = "/orders/7?shop=shop.example";
    eventually("the event came to one of them", async || {
        let (status, page) = console.page(&session, path).await;
        status == 200 && page.contains(&went) && refusing.requests() > 0
    })
    .await;
    let page = console.shown(&session, path).await;
    assert!(page.contains(&waits), "{page}");
    assert!(!page.contains(&late.url), "it wants no orders: {page}");
    let has_broker = service.parts.config.amqp_url.is_some();
    eventually("it is in the broker, if there is one", async || {
        let page = console.shown(&session, path).await;
        page.contains("in RabbitMQ") == has_broker
    })
    .await;

    refusing.is(200);
    service
        .execute("update jobs set run_at = 0 where queue = 'endpoints' and state = 'ready'")
        .await;
    let went = format!("went to {}", refusing.url);
    eventually("it has gone to both", async || {
        let page = console.shown(&session, path).await;
        page.contains(&went) && !page.contains("waits for http")
    })
    .await;
    service.stop().await;
}
