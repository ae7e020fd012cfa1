//! The search: any id leads to what it belongs to, and an e-mail address is never in an address.

use domain::api_key::Role;
use serde_json::json;

use crate::support::console::{Console, Session, role};
use crate::support::endpoint::event_ids;
use crate::support::order::{body, captured, deliver, order_delivery, with};
use crate::support::{Service, service};

async fn signed_in(service: &mut Service) -> (Console, Session) {
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    (console, session)
}

/// Where a search from the form leads in the end.
async fn found(console: &Console, session: &Session, token: &str, what: &str) -> String {
    let request = console.post("/search", &[("token", token), ("q", what)]);
    let answer = session.send(request).await;
    assert_eq!(answer.status(), 303, "{what}");
    let path = answer.headers()["location"].to_str().unwrap();
    console.leads(session, path).await
}

#[tokio::test]
async fn any_id_leads_to_what_it_belongs_to() {
    let mut service = service().start().await;
    let order = with(
        body(5_000_000_000_000_700, 0, "pending"),
        &json!({"name": "#1007"}),
    );
    let delivery = order_delivery("orders/create", &order)
        .id("w-1")
        .also("X-Request-Id", "req-1");
    deliver(&service, &delivery).await;
    deliver(&service, &captured(service.clock().now(), 7, "pact-7")).await;
    let (console, session) = signed_in(&mut service).await;
    let token = console.token(&session).await;
    let order = "/orders/5000000000000700?shop=shop%2Eexample";
    let order = order.replace("%2E", ".");
    for what in ["5000000000000700", "#1007", "1007", " 1007 "] {
        assert_eq!(
            found(&console, &session, &token, what).await,
            order,
            "{what}"
        );
    }
    assert_eq!(
        found(&console, &session, &token, "pi_7").await,
        "/payments/pi_7"
    );
    let row = service
        .db()
        .query("select id from deliveries where external_id = 'w-1'");
    let job: uuid::Uuid = row.fetch_one().await.unwrap().get("id").unwrap();
    let page = format!("/jobs/{job}");
    for what in [
        "w-1".to_owned(),
        "req-1".to_owned(),
        job.to_string(),
        job.simple().to_string(),
    ] {
        assert_eq!(
            found(&console, &session, &token, &what).await,
            page,
            "{what}"
        );
    }
    let event = event_ids(service.db()).await.unwrap()[0];
    let led = found(&console, &session, &token, &event.to_string()).await;
    assert_eq!(led, format!("{order}#a{event}"));
    let nothing = console.shown(&session, "/search?q=nothing-has-this").await;
    assert!(nothing.contains("Nothing was found"), "{nothing}");
    service.stop().await;
}

#[tokio::test]
async fn an_address_finds_its_orders_and_stands_in_no_page_and_no_address() {
    let mut service = service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(7, 0, "pending")),
    )
    .await;
    let (console, session) = signed_in(&mut service).await;
    let token = console.token(&session).await;
    for (what, is_found) in [
        ("canary@example.com", true),
        ("  Canary@Example.COM ", true),
        ("canary@example.org", false),
    ] {
        let request = console.post("/search", &[("token", &token), ("q", what)]);
        let answer = session.send(request).await;
        assert_eq!(answer.status(), 200, "it leads to no address");
        let page = answer.text().await.unwrap();
        assert_eq!(
            page.contains("/orders/7?shop=shop.example"),
            is_found,
            "{page}"
        );
        assert!(!page.to_lowercase().contains("canary"), "{page}");
    }
    let page = console
        .shown(&session, "/search?q=canary%40example.com")
        .await;
    assert!(page.contains("Nothing was searched"), "{page}");
    assert!(
        !page.contains("/orders/7") && !page.contains("canary"),
        "{page}"
    );
    service.stop().await;
}
