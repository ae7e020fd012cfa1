//! `/livez`, `/readyz`, `/metrics`.

use crate::support::backend::is_distributed;
use crate::support::delivery::order;
use crate::support::proxy;
use crate::support::{eventually, service};

#[tokio::test]
async fn a_running_service_is_alive_and_ready() {
    let service = service().start().await;
    let live = service.get("/livez").send().await.unwrap();
    assert_eq!(
        (live.status().as_u16(), live.text().await.unwrap().as_str()),
        (200, r#"{"status":"ok"}"#)
    );
    let ready = service.get("/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 200);
    let body: serde_json::Value = ready.json().await.unwrap();
    assert_eq!(
        body,
        serde_json::json!({"status": "ready", "database": "up", "bus": "up"})
    );
    service.stop().await;
}

#[tokio::test]
async fn without_the_broker_it_is_degraded_and_goes_on_accepting() {
    if !is_distributed() {
        return;
    }
    let (backend, broker) = proxy::to_broker().await;
    let service = service()
        .amqp_url(broker.url.clone())
        .without_workers()
        .start_on(backend)
        .await;
    broker.kill();
    eventually("readyz says degraded", async || {
        let ready = service.get("/readyz").send().await.unwrap();
        ready.status() == 200 && ready.text().await.unwrap().contains("degraded")
    })
    .await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    broker.restore();
    eventually("readyz says ready", async || {
        service
            .get("/readyz")
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
            .contains("\"ready\"")
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn deliveries_and_refusals_are_counted() {
    let service = service().without_workers().start().await;
    service.answer(&order("orders/create", 1).id("w-1")).await;
    service.answer(&order("orders/create", 1).id("w-1")).await;
    service
        .answer(&order("orders/create", 1).header("X-Storefront-Hmac-Sha256", "x"))
        .await;
    let metrics = service
        .get("/metrics")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for line in [
        r#"waybill_deliveries_accepted_total{source="storefront",known="yes"} 1"#,
        r#"waybill_deliveries_duplicate_total{source="storefront"} 1"#,
        r#"waybill_deliveries_refused_total{source="storefront",reason="signature"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    service.stop().await;
}
