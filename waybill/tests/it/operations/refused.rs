//! Deliveries that were refused: kept without their bodies, bounded, and with the setting that would
//! have taken them.

use std::time::Duration;

use domain::signature::sign_storefront;
use serde_json::Value;
use store::refused_deliveries::KEPT;

use crate::both::operations::doctor::doctor;
use crate::support::delivery::{Delivery, order, payment_at};
use crate::support::operator::{items, said};
use crate::support::process::run;
use crate::support::{START, STOREFRONT_SECRET, Service, eventually, service};

const CANARY: &str = "canary-person@example.com";

/// A delivery of Shopify, with a person in its body.
fn shopify() -> Delivery {
    let body = format!(r#"{{"id":1,"email":"{CANARY}"}}"#).into_bytes();
    let hmac = sign_storefront(STOREFRONT_SECRET, &body);
    Delivery {
        path: "/api/webhooks/storefront",
        headers: vec![
            ("X-Shopify-Topic", b"orders/create".to_vec()),
            ("X-Shopify-Hmac-Sha256", hmac.into()),
            ("X-Shopify-Shop-Domain", b"Shop.Example".to_vec()),
        ],
        body,
    }
}

async fn rows(service: &Service) -> i64 {
    service
        .count("select count(*) as n from refused_deliveries")
        .await
}

async fn counted(service: &Service) -> i64 {
    service
        .count("select cast(coalesce(sum(deliveries), 0) as bigint) as n from refused_deliveries")
        .await
}

async fn list(service: &Service) -> Vec<Value> {
    let since = ["refused", "list", "--since", "4000000000s"];
    items(service, &since).await.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_refused_delivery_is_kept_with_the_setting_that_would_take_it() {
    let service = service().without_workers().start().await;
    for _ in 0..3 {
        assert_eq!(service.answer(&shopify()).await.0, 401);
    }
    let forged = order("orders/paid", 1).header(
        "X-Storefront-Hmac-Sha256",
        sign_storefront("another secret", &order("orders/paid", 1).body),
    );
    assert_eq!(service.answer(&forged).await.0, 401);
    let now = service.clock().now().unix_seconds();
    let old = payment_at(now - 1000, r#"{"id":"evt_1","type":"charge.refunded"}"#);
    assert_eq!(service.answer(&old).await.0, 401);
    eventually("all are written", async || counted(&service).await == 5).await;

    let listed = list(&service).await;
    assert_eq!(listed.len(), 3, "{listed:?}");
    let of = |signature: &str| {
        let found = listed.iter().find(|it| it["signature"] == signature);
        found.unwrap_or_else(|| panic!("{signature}: {listed:?}"))
    };
    let missing = of("missing");
    assert_eq!(missing["deliveries"], 3);
    assert_eq!(missing["header"], "x-shopify-hmac-sha256");
    assert_eq!(missing["advice"], "STOREFRONT_PROVIDER=shopify");
    assert_eq!(missing["topic"], "orders/create");
    assert_eq!(missing["shop"], "shop.example");
    assert!(missing["body_key"].is_null(), "its body was not read");
    let mismatch = of("mismatch");
    assert_eq!(
        mismatch["advice"],
        "STOREFRONT_WEBHOOK_SECRET to the provider's"
    );
    assert!(mismatch["body_key"].is_string(), "{mismatch}");
    let stale = of("stale");
    assert_eq!(stale["source"], "payment");
    assert!(
        (1000..1060).contains(&stale["age_seconds"].as_i64().unwrap()),
        "{stale}"
    );

    let text = said(&service, &["refused", "list"]).await;
    assert!(text.contains("set STOREFRONT_PROVIDER=shopify"), "{text}");
    let summary = said(&service, &["refused", "summary"]).await;
    let first = summary.lines().nth(1).unwrap();
    assert!(
        first.contains("    3") && first.contains("signature missing"),
        "{summary}"
    );
    for text in [text, summary, format!("{listed:?}")] {
        assert!(!text.contains("canary"), "{text}");
    }
    let output = run(doctor(&service, &[])).await;
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = doctor["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|it| it["check"] == "refused deliveries");
    let finding = finding.unwrap();
    assert_eq!(finding["level"], "warning");
    assert!(
        finding["found"]
            .as_str()
            .unwrap()
            .starts_with("5 in the last day"),
        "{finding}"
    );
    let advice = finding["advice"].as_str().unwrap();
    assert!(
        advice.contains("set STOREFRONT_PROVIDER=shopify"),
        "{finding}"
    );
    service.stop().await;
}

#[tokio::test]
async fn strangers_add_to_a_count_and_not_to_the_table() {
    let service = service().without_workers().start().await;
    for n in 0..60 {
        let request = service.post_to("/api/webhooks/storefront");
        let request = request
            .header(format!("x-{n}-signature"), "x")
            .header("X-Storefront-Topic", format!("topic/{n}"))
            .header("X-Storefront-Shop-Domain", format!("{n}.example"))
            .header("User-Agent", format!("agent {n}"));
        let answer = request
            .body(format!(r#"{{"n":{n}}}"#))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 401);
    }
    eventually("all are counted", async || counted(&service).await == 60).await;
    let rows = rows(&service).await;
    assert!(rows <= 2, "an hour may have ended: {rows}");
    let listed = list(&service).await;
    assert!(
        listed[0]["headers"]
            .as_str()
            .unwrap()
            .ends_with("-signature"),
        "{listed:?}"
    );
    assert!(
        listed[0]["advice"]
            .as_str()
            .unwrap()
            .contains("STOREFRONT_HEADERS"),
        "{listed:?}"
    );
    // A duplicate is not refused for anybody's fault.
    let delivery = order("orders/create", 1).id("w-1");
    assert_eq!(service.answer(&delivery).await.0, 200);
    assert_eq!(service.answer(&delivery).await.0, 409);
    let huge = Delivery {
        body: vec![b'x'; 3 << 20],
        ..order("orders/create", 2)
    };
    assert_eq!(service.answer(&huge).await.0, 413);
    eventually("it is counted too", async || counted(&service).await == 61).await;
    service.stop().await;
}

#[tokio::test]
async fn refused_deliveries_are_kept_for_thirty_days() {
    let mut service = service().manual_clock().without_workers().start().await;
    assert_eq!(service.answer(&shopify()).await.0, 401);
    eventually("it is written", async || counted(&service).await == 1).await;
    assert_eq!(list(&service).await[0]["last_at"], START.to_string());
    let worker = workers::Worker::new(service.parts.clone(), domain::job::Queue::Orders, 1);
    service
        .clock()
        .advance(KEPT.saturating_sub(Duration::from_hours(1)));
    worker.keep_house().await.unwrap();
    assert_eq!(rows(&service).await, 1);
    service.clock().advance(Duration::from_hours(2));
    worker.keep_house().await.unwrap();
    assert_eq!(rows(&service).await, 0);
    service.halt().await;
}

#[tokio::test]
async fn what_was_refused_last_is_written_at_the_end() {
    let mut service = service().without_workers().start().await;
    assert_eq!(service.answer(&shopify()).await.0, 401);
    let db = store::sql::Db::open(&service.backend.database_url, 1)
        .await
        .unwrap();
    service.halt().await;
    let summary = store::refused_deliveries::summary(&db, domain::time::Timestamp(0)).await;
    assert_eq!(summary.unwrap()[0].deliveries, 1);
    db.close().await;
}
