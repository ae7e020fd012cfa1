//! Deadlines of privacy requests are reported in time and only once, whichever worker looks. Data
//! that was kept long enough is removed.

use std::time::Duration;

use domain::job::Queue;
use futures_util::future::join;
use platform::metrics;
use serde_json::{Value, json};
use store::audit;
use workers::Worker;

use crate::both::api::events::unpublished;
use crate::support::backend::{is_distributed, statement};
use crate::support::delivery::storefront;
use crate::support::order::{body, captured, deliver, order_delivery};
use crate::support::{Service, eventually, service};

const DAY: Duration = Duration::from_hours(24);

fn worker(service: &Service, queue: Queue) -> Worker {
    Worker::new(service.parts.clone(), queue, 1)
}

async fn notices(service: &Service) -> Vec<String> {
    let rows = service
        .db()
        .query("select kind from events where kind like 'privacy.deadline_%' order by created_at, kind")
        .fetch_all()
        .await
        .unwrap();
    rows.iter().map(|row| row.get("kind").unwrap()).collect()
}

#[tokio::test]
async fn a_deadline_that_comes_near_is_notified_once_at_seven_days_two_days_and_none() {
    let service = service().manual_clock().without_workers().start().await;
    let other = crate::support::service()
        .clock(service.clock())
        .without_workers()
        .start_beside(&service)
        .await;
    let request = json!({"shop_id": 1, "shop_domain": "shop.example"}).to_string();
    let answer = service.answer(&storefront("shop/redact", request)).await;
    assert_eq!(answer.0, 200);
    let (one, two) = (
        worker(&service, Queue::Orders),
        worker(&other, Queue::Payments),
    );
    let look = async || {
        let (one, two) = join(one.keep_house(), two.keep_house()).await;
        one.unwrap();
        two.unwrap();
    };

    service.clock().advance(22 * DAY);
    look().await;
    assert_eq!(notices(&service).await, Vec::<String>::new());
    let shown = metrics::render();
    assert!(shown.contains("waybill_privacy_requests_open 1"), "{shown}");
    let left = 8 * 24 * 3600;
    let gauge = format!("waybill_privacy_next_deadline_seconds {left}");
    assert!(shown.contains(&gauge), "{shown}");

    let mut reported = Vec::new();
    for (wait, kind, label) in [
        (DAY, "privacy.deadline_near", "warning"),
        (5 * DAY, "privacy.deadline_alarm", "alarm"),
        (2 * DAY, "privacy.deadline_passed", "overdue"),
    ] {
        service
            .clock()
            .advance(wait.saturating_sub(Duration::from_millis(1)));
        look().await;
        assert_eq!(notices(&service).await, reported, "{kind} is not due");
        service.clock().advance(Duration::from_millis(1));
        reported.push(kind.to_owned());
        for _ in 0..3 {
            look().await;
        }
        assert_eq!(notices(&service).await, reported);
        let counter = format!(r#"waybill_privacy_deadline_notices_total{{notice="{label}"}} 1"#);
        assert!(metrics::render().contains(&counter), "{counter}");
    }
    let row = service
        .db()
        .query("select shop, object_id, body from events where kind = 'privacy.deadline_alarm'")
        .fetch_one()
        .await
        .unwrap();
    let id: String = row.get("object_id").unwrap();
    let body: Value = serde_json::from_str(&row.get::<String>("body").unwrap()).unwrap();
    let expected = json!({
        "request_id": id, "shop": "shop.example", "topic": "shop/redact", "code": "COMMERCE_007",
        "due_at": "2027-02-14T08:00:00.000Z",
    });
    assert_eq!(body, expected);
    let audited = audit::list(service.db(), Some(&id), 0, 10).await.unwrap();
    let actions: Vec<&str> = audited.iter().map(|entry| entry.action.as_str()).collect();
    let expected = [
        "request.received",
        "erasure.held",
        "deadline.near",
        "deadline.alarm",
        "deadline.passed",
    ];
    assert_eq!(actions, expected);
    let chain = audit::verify(service.db(), &service.parts.keys).await;
    assert!(chain.unwrap().broken.is_none());
    other.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_is_done_is_not_reported() {
    let service = service().manual_clock().without_workers().start().await;
    let request = json!({"shop_id": 1, "shop_domain": "shop.example"}).to_string();
    let answer = service.answer(&storefront("shop/redact", request)).await;
    assert_eq!(answer.0, 200);
    service
        .execute("update privacy_requests set state = 'done', finished_at = received_at")
        .await;
    service.clock().advance(40 * DAY);
    worker(&service, Queue::Privacy).keep_house().await.unwrap();
    assert_eq!(notices(&service).await, Vec::<String>::new());
    let shown = metrics::render();
    assert!(
        shown.contains("waybill_privacy_next_deadline_seconds NaN"),
        "{shown}"
    );
    service.stop().await;
}

#[tokio::test]
async fn old_notifications_and_events_are_forgotten_unless_something_is_to_follow() {
    let service = service().manual_clock().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "pending")),
    )
    .await;
    let now = service.clock().now();
    deliver(&service, &captured(now, 1, "nothing")).await;
    for state in [
        "pending",
        "sent",
        "refused",
        "failed",
        "no_address",
        "not_needed",
        "kept",
    ] {
        let mut tx = service.db().begin().await.unwrap();
        tx.query(
            "insert into notifications (id, kind, payment_id, state, created_at, updated_at)
             values ($1, 'payment_failed', 'pi_1', $2, $3, $3)",
        )
        .bind(service.clock().id())
        .bind(state)
        .bind(now.0)
        .execute()
        .await
        .unwrap();
        tx.commit().await.unwrap();
    }
    eventually("the events are out", async || {
        unpublished(&service).await == 0
    })
    .await;
    // From here on nobody publishes what a test takes back.
    let running = service;
    let service = crate::support::service()
        .clock(running.clock())
        .without_workers()
        .start_beside(&running)
        .await;
    running.stop().await;
    let keep_house = async || worker(&service, Queue::Orders).keep_house().await.unwrap();
    let orders = "select count(*) as n from events where kind like 'order.%'";
    let written = service.count(orders).await;
    assert!(written > 0);
    service.clock().advance(90 * DAY);
    keep_house().await;
    let notifications = "select count(*) as n from notifications";
    assert_eq!(service.count(notifications).await, 7, "90 days are kept");
    assert_eq!(service.count(orders).await, written);
    let payments = "select count(*) as n from events where kind like 'payment.%'";
    let unpublished = service.count(payments).await;
    assert!(unpublished > 0);
    if is_distributed() {
        let behind = "update endpoints set position =
            (select min(position) - 1 from events where kind like 'payment.%') where secret is null";
        service.execute(behind).await;
    }
    service.clock().advance(Duration::from_millis(10));
    keep_house().await;
    let kept = if is_distributed() { unpublished } else { 0 };
    assert_eq!(service.count(payments).await, kept);
    assert_eq!(service.count(notifications).await, 1);
    let pending = "select count(*) as n from notifications where state = 'pending'";
    assert_eq!(service.count(pending).await, 1);
    assert_eq!(service.count(orders).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_step_of_housekeeping_that_fails_keeps_no_other_from_being_taken() {
    let service = service().manual_clock().without_workers().start().await;
    let worker = worker(&service, Queue::Orders);
    service
        .execute(
            "insert into device_code_requests (client, times, newest_at)
             values ('a', '[]', 5)",
        )
        .await;
    let begun = "select count(*) as n from device_code_requests";
    // The deadlines are looked at first, and webhook ids come before logins.
    for away in ["privacy_requests", "webhook_ids"] {
        let rename = |from: &str, to: &str| statement(format!("alter table {from} rename to {to}"));
        service.execute(rename(away, "away")).await;
        assert!(worker.keep_house().await.is_err());
        service.execute(rename("away", away)).await;
        assert_eq!(service.count(begun).await, 0, "{away}");
        service
            .execute(
                "insert into device_code_requests (client, times, newest_at)
                 values ('a', '[]', 5)",
            )
            .await;
    }
    worker.keep_house().await.unwrap();
    service.stop().await;
}
