//! The charts of the console: what the processes counted, minute by minute.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::api_key::Role;
use domain::job::Queue;
use process::measures::Measures;
use serde_json::{Value, json};
use store::backlog::Line;
use store::measures::{self, MINUTE};
use uuid::Uuid;

use crate::support::console::{Console, Session, role};
use crate::support::delivery::order;
use crate::support::{Service, eventually, service};

async fn reader(service: &mut Service) -> (Console, Session) {
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    (console, session)
}

/// The steps in which something was counted, the newest first.
async fn counted(console: &Console, session: &Session, span: &str) -> Vec<Value> {
    let path = format!("/charts?span={span}&format=json");
    let answer: Value = serde_json::from_str(&console.shown(session, &path).await).unwrap();
    let steps = answer["items"].as_array().unwrap().iter();
    let is_counted = |step: &&Value| {
        let fields = step.as_object().unwrap().iter();
        let mut counts = fields.filter(|(name, _)| *name != "at");
        counts.any(|(_, value)| !value.is_null() && *value != 0)
    };
    steps.filter(is_counted).cloned().collect()
}

async fn rows(service: &Service) -> i64 {
    service.count("select count(*) as n from measures").await
}

#[tokio::test]
async fn what_came_is_in_the_charts_after_a_minute_and_processes_add_up() {
    let mut service = service().without_workers().manual_clock().start().await;
    let measures = service.parts.measures.clone();
    let (db, clock) = (service.db().clone(), service.clock().clone());
    measures.write_regularly(&db, &clock);
    // Another process, with the same queues.
    let other = Measures::default();
    other.write_regularly(&db, &clock);
    let (console, session) = reader(&mut service).await;
    for id in 1..=3 {
        let delivery = order("orders/create", id).id(&format!("w-{id}"));
        assert_eq!(service.answer(&delivery).await.0, 200);
    }
    let again = order("orders/create", 1).id("w-1");
    assert_eq!(service.answer(&again).await.0, 409);
    let mut forged = order("orders/create", 9);
    forged = forged.header(
        "X-Storefront-Hmac-Sha256",
        "bm90IHRoZSBzaWduYXR1cmUgb2YgdGhpcyBib2R5IGE=",
    );
    assert_eq!(service.answer(&forged).await.0, 401);
    for _ in 0..4 {
        other.delivery(process::measures::Delivery::Accepted);
    }
    for (process, due) in [(&measures, 7), (&other, 5)] {
        let line = Line {
            queue: Queue::Orders,
            due,
            due_since: Some(clock.now().minus(Duration::from_secs(30))),
            later: 0,
            dead: 0,
        };
        process.queues(&[line], clock.now());
    }
    assert_eq!(rows(&service).await, 0, "the minute is not over");
    service.clock().advance(MINUTE);
    eventually("both have written", async || {
        let steps = counted(&console, &session, "hour").await;
        steps.len() == 1 && steps[0]["accepted"] == 7
    })
    .await;
    let steps = counted(&console, &session, "hour").await;
    assert_eq!(steps[0]["duplicates"], 1);
    assert_eq!(steps[0]["refused"], 1);
    assert_eq!(steps[0]["due_orders"], 7, "it is the same for both");
    assert_eq!(steps[0]["oldest_orders_s"], 30);
    assert!(steps[0]["median_ms"].as_i64().unwrap() >= 1, "{}", steps[0]);
    let page = console.shown(&session, "/charts").await;
    for expected in [
        "<svg",
        "<title id=\"hour-deliveries-t\">",
        "highest 7",
        "<polyline",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("style="), "{page}");
    let csv = console.shown(&session, "/charts?format=csv").await;
    assert!(
        csv.starts_with("at,accepted,duplicates,refused,median_ms,"),
        "{csv}"
    );

    // Nothing is written while nothing is measured.
    let before = rows(&service).await;
    service.clock().advance(MINUTE * 3);
    other.delivery(process::measures::Delivery::Refused);
    service.clock().advance(MINUTE);
    eventually("the next is written", async || {
        rows(&service).await > before
    })
    .await;
    assert_eq!(rows(&service).await, before + 1);
    service.stop().await;
}

#[tokio::test]
async fn old_minutes_become_ten_minutes_and_are_deleted_after_eight_days() {
    // Workers would keep house too, and nobody knows when.
    let mut service = service().without_workers().manual_clock().start().await;
    let now = measures::begin(service.clock().now(), Duration::from_hours(1));
    let names = |accepted: i64, due: i64| {
        let both = [
            ("accepted".to_owned(), accepted),
            ("queue_due_orders".to_owned(), due),
        ];
        BTreeMap::from(both)
    };
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let db = service.db().clone();
    for (process, minutes, accepted, due) in [
        (one, 239, 5, 3),
        (two, 239, 6, 4),
        (one, 231, 7, 9),
        (one, 59, 1, 2),
        (one, 1, 1, 1),
    ] {
        let at = now.minus(MINUTE * minutes);
        let written = measures::add(&db, process, at, &names(accepted, due)).await;
        written.unwrap();
    }
    assert_eq!(rows(&service).await, 10);
    // Two workers keep house at the same time.
    let (first, second) = tokio::join!(measures::roll_up(&db, now), measures::roll_up(&db, now));
    assert!(first.is_ok() || second.is_ok());
    measures::roll_up(&db, now).await.unwrap();
    assert_eq!(rows(&service).await, 6);
    let since = measures::since(&db, now.minus(MINUTE * 240)).await.unwrap();
    let all: Vec<(i64, &str, i64)> = since
        .iter()
        .map(|it| ((now.0 - it.at.0) / 60_000, it.name.as_str(), it.value))
        .collect();
    assert_eq!(
        all,
        [
            (240, "accepted", 18),
            (240, "queue_due_orders", 9),
            (59, "accepted", 1),
            (59, "queue_due_orders", 2),
            (1, "accepted", 1),
            (1, "queue_due_orders", 1),
        ]
    );
    service.clock().advance(Duration::from_hours(1));
    let (console, session) = reader(&mut service).await;
    let steps = counted(&console, &session, "week").await;
    let accepted: Vec<&Value> = steps.iter().map(|step| &step["accepted"]).collect();
    assert_eq!(accepted, [&json!(2), &json!(18)]);
    let later = now.plus(measures::KEPT);
    measures::roll_up(&db, later).await.unwrap();
    measures::roll_up(&db, later.plus(Duration::from_hours(1)))
        .await
        .unwrap();
    assert_eq!(rows(&service).await, 0);
    service.stop().await;
}
