//! `/livez`, `/readyz`, `/metrics`.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::backend::Backend;
use crate::support::delivery::order;
use crate::support::process::{Process, command, free_port, is_ready, output, settings};
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
    let body: Value = ready.json().await.unwrap();
    assert_eq!(
        body,
        json!({
            "status": "ready", "database": "up", "bus": "up", "erasures": "current", "reason": null,
        })
    );
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn without_the_broker_it_is_degraded_and_goes_on_accepting() {
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
        r#"waybill_connection_deliveries_total{source="storefront",connection="default",outcome="accepted"} 1"#,
        r#"waybill_connection_deliveries_total{source="storefront",connection="default",outcome="duplicate"} 1"#,
        r#"waybill_connection_deliveries_total{source="storefront",connection="default",outcome="refused"} 1"#,
        // They are there before the first one, so that Prometheus sees that one as an increase.
        r#"waybill_deliveries_accepted_total{source="payment",known="yes"} 0"#,
        r#"waybill_deliveries_refused_total{source="payment",reason="rate"} 0"#,
        r#"waybill_deliveries_not_understood_total{source="payment",profile="generic"} 0"#,
        r#"waybill_signatures_refused_total{source="payment",reason="stale"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    service.stop().await;
}

/// The settings of a worker that listens on `port`.
fn worker_settings(backend: &Backend, port: u16) -> Vec<(String, String)> {
    let mut settings = settings(backend, free_port());
    settings.push(("WORKER_LISTEN_ADDR".into(), format!("127.0.0.1:{port}")));
    settings
}

fn run(name: &str, arguments: &[&str], settings: &[(String, String)]) -> Output {
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut command: Command = command(name, &settings);
    command.args(arguments);
    output(command)
}

async fn asked(port: u16, path: &str) -> (u16, Value) {
    let url = format!("http://127.0.0.1:{port}{path}");
    let answer = reqwest::get(url).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn a_worker_answers_health_checks_where_it_is_asked_to() {
    let backend = Backend::create().await;
    let port = free_port();
    let settings = worker_settings(&backend, port);
    let alone = run("waybill", &["health", "--worker"], &settings);
    assert_eq!(alone.status.code(), Some(1), "nobody is there yet");
    let mut worker = Process::start("waybill-orders", &[], &settings);
    is_ready(port).await;
    let ready = json!({
        "status": "ready", "database": "up", "bus": "up", "loop": "up", "erasures": "current",
        "reason": null,
    });
    assert_eq!(asked(port, "/readyz").await, (200, ready));
    assert_eq!(asked(port, "/livez").await, (200, json!({"status": "ok"})));
    assert_eq!(
        asked(port, "/api/commerce/orders/1").await,
        (404, json!({"detail": "Not found"}))
    );
    let healthy = run("waybill", &["health", "--worker"], &settings);
    assert_eq!(healthy.status.code(), Some(0), "{healthy:?}");

    let second = run("waybill-orders", &[], &settings);
    assert_eq!(second.status.code(), Some(1));
    let reported = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        reported.contains("WORKER_LISTEN_ADDR") && reported.contains("port of its own"),
        "{reported}"
    );
    assert!(worker.terminate().await.success());
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_worker_without_its_broker_is_alive_and_not_ready() {
    let (backend, broker) = proxy::to_broker().await;
    let port = free_port();
    let mut settings = worker_settings(&backend, port);
    settings.retain(|(name, _)| name != "AMQP_URL");
    settings.push(("AMQP_URL".into(), broker.url.clone()));
    let mut worker = Process::start("waybill-payments", &[], &settings);
    is_ready(port).await;
    broker.kill();
    eventually("readyz says what is missing", async || {
        let missing = json!({
            "status": "unavailable", "database": "up", "bus": "down", "loop": "up",
            "erasures": "current", "reason": null,
        });
        asked(port, "/readyz").await == (503, missing)
    })
    .await;
    assert_eq!(asked(port, "/livez").await.0, 200, "a start would not help");
    let metrics = reqwest::get(format!("http://127.0.0.1:{port}/metrics"))
        .await
        .unwrap();
    assert!(
        metrics
            .text()
            .await
            .unwrap()
            .contains("\nwaybill_broker_up 0\n")
    );
    broker.restore();
    is_ready(port).await;
    assert!(worker.terminate().await.success());
}
