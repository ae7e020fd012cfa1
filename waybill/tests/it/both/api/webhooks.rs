//! What intake stores of deliveries, and by what it knows one that it has.

use domain::job::State;
use futures_util::future::join_all;
use serde_json::json;
use std::time::Duration;
use store::jobs;

use crate::api::profiles::{THIN, stripe};
use crate::support::backend::is_distributed;
use crate::support::delivery::{Delivery, SHOP, order, payment, storefront};
use crate::support::operator::{json as machine, said};
use crate::support::{START, Service, eventually, service};

const OK: &str = r#"{"status":"ok"}"#;
const DUPLICATE: &str = r#"{"detail":"Duplicate webhook"}"#;

fn event(id: &str) -> Delivery {
    payment(format!(
        r#"{{"id":"{id}","object":"event","type":"charge.refunded","data":{{"object":{{"id":"ch_1","customer":"cus_1"}}}}}}"#
    ))
}

async fn is(service: &Service, delivery: &Delivery, status: u16, body: &str) {
    assert_eq!(service.answer(delivery).await, (status, body.to_owned()));
}

#[tokio::test]
async fn an_accepted_delivery_is_a_committed_job() {
    let service = service().without_workers().start().await;
    is(&service, &order("orders/create", 1).id("w-1"), 200, OK).await;
    let job = service
        .db()
        .query("select queue, jobs.kind, source, jobs.shop, external_id, object_id, subject, state, body
             from jobs join deliveries on deliveries.id = jobs.id")
        .fetch_one()
        .await
        .unwrap();
    let text = |name: &str| job.get::<Option<String>>(name).unwrap().unwrap_or_default();
    assert_eq!(text("queue"), "orders");
    assert_eq!(text("kind"), "orders/create");
    assert_eq!(text("source"), "storefront");
    assert_eq!(text("shop"), SHOP);
    assert_eq!(text("external_id"), "w-1");
    assert_eq!(text("state"), "ready");
    let sent = order("orders/create", 1).body;
    let value: serde_json::Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(text("object_id"), value["id"].to_string());
    assert_eq!(text("subject"), value["customer"]["id"].to_string());
    assert_eq!(job.get::<Vec<u8>>("body").unwrap(), sent, "byte for byte");
    service.stop().await;
}

#[tokio::test]
async fn the_same_id_again_is_a_duplicate_and_makes_no_second_job() {
    let service = service().without_workers().start().await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service, &delivery, 200, OK).await;
    is(&service, &delivery, 409, DUPLICATE).await;
    is(&service, &order("orders/paid", 2).id("w-1"), 409, DUPLICATE).await;
    assert_eq!(service.jobs(State::Ready).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn two_shops_may_have_one_delivery_id() {
    let service = service().without_workers().start().await;
    for shop in [SHOP, "other.example"] {
        let delivery = order("orders/create", 1).id("w-1").of_shop(shop);
        is(&service, &delivery, 200, OK).await;
        is(&service, &delivery, 409, DUPLICATE).await;
    }
    assert_eq!(service.jobs(State::Ready).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn another_body_with_a_known_id_is_kept_once_and_run_when_an_operator_says_so() {
    let service = service().start().await;
    let captured = order("orders/create", 1);
    is(&service, &captured.clone().id("w-1"), 200, OK).await;
    for nth in 2..5 {
        // Somebody sends a captured body under the ids that come next, before the provider uses them.
        let id = format!("w-{nth}");
        is(&service, &captured.clone().id(&id), 200, OK).await;
        let real = order("orders/create", nth).id(&id);
        for _ in 0..3 {
            is(&service, &real, 409, DUPLICATE).await;
        }
        is(&service, &captured.clone().id(&id), 409, DUPLICATE).await;
    }
    assert_eq!(service.jobs(State::Dead).await, 3);
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    let list = said(&service, &["dead", "list"]).await;
    assert!(list.contains("another body"), "{list}");
    said(
        &service,
        &["dead", "requeue", "--kind", "orders/create", "--yes"],
    )
    .await;
    eventually("the deliveries are run", async || {
        service.count("select count(*) as n from orders").await == 4
    })
    .await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn of_two_bodies_with_one_id_in_one_batch_both_are_kept() {
    let service = service().without_workers().start().await;
    let posts = (1..=20).map(|seed| order("orders/create", seed).id("w-1"));
    let posts: Vec<Delivery> = posts.collect();
    let answers = join_all(posts.iter().map(|post| service.answer(post))).await;
    let accepted = answers.iter().filter(|(status, _)| *status == 200);
    assert_eq!(accepted.count(), 1, "{answers:?}");
    let kept = service.jobs(State::Ready).await + service.jobs(State::Dead).await;
    assert_eq!(kept, 20);
    service.stop().await;
}

#[tokio::test]
async fn a_duplicate_may_be_answered_200_instead() {
    let service = service()
        .setting("WEBHOOK_DUPLICATE_STATUS", "200")
        .without_workers()
        .start()
        .await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service, &delivery, 200, OK).await;
    is(&service, &delivery, 200, OK).await;
    assert_eq!(service.jobs(State::Ready).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn an_expired_id_is_taken_over_by_the_next_delivery() {
    let service = service()
        .setting("WEBHOOK_DEDUPE_TTL_SECONDS", "3600")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service, &delivery, 200, OK).await;
    service.clock().advance(Duration::from_secs(3599));
    is(&service, &delivery, 409, DUPLICATE).await;
    service.clock().advance(Duration::from_secs(1));
    is(&service, &delivery, 200, OK).await;
    is(&service, &delivery, 409, DUPLICATE).await;
    assert_eq!(service.jobs(State::Ready).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_duplicate_changes_nothing_in_the_database() {
    let service = service().without_workers().start().await;
    for nth in 0..32 {
        let first = order("orders/create", nth).id(&format!("w-{nth}"));
        is(&service, &first, 200, OK).await;
    }
    // Each row is shown by where it lies, and by the transaction that wrote or locked it last.
    let rows = async || -> Vec<String> {
        let sql = if is_distributed() {
            "select concat_ws(' ', id, ctid, xmin, xmax, job_id, expires_at) as row
             from webhook_ids order by id"
        } else {
            "select hex(id) || ' ' || hex(job_id) || ' ' || expires_at as row
             from webhook_ids order by id"
        };
        let rows = service.db().query(sql).fetch_all().await.unwrap();
        rows.iter().map(|row| row.get("row").unwrap()).collect()
    };
    let before = rows().await;
    assert_eq!(before.len(), 32);
    for nth in 0..32 {
        let again = order("orders/create", nth).id(&format!("w-{nth}"));
        is(&service, &again, 409, DUPLICATE).await;
    }
    assert_eq!(rows().await, before);
    service.stop().await;
}

#[tokio::test]
async fn large_bodies_beside_small_ones_are_all_accepted() {
    let service = service()
        .setting("STOREFRONT_RATE_PER_SECOND", "0")
        .without_workers()
        .start()
        .await;
    let large = "x".repeat(1_900_000);
    let posts = (0..100).map(|nth| {
        let size = if nth % 25 == 0 { large.len() } else { 10 };
        let body = json!({"id": nth + 1, "note": large[..size]}).to_string();
        storefront("orders/create", body).id(&format!("w-{nth}"))
    });
    let answers = join_all(posts.map(|post| {
        let service = &service;
        async move { service.answer(&post).await.0 }
    }));
    assert_eq!(answers.await, [200; 100]);
    service.stop().await;
}

#[tokio::test]
async fn without_an_id_or_with_deduplication_off_every_delivery_is_accepted() {
    let service_on = service().without_workers().start().await;
    let nameless = order("orders/create", 1);
    is(&service_on, &nameless, 200, OK).await;
    is(&service_on, &nameless, 200, OK).await;
    assert_eq!(service_on.jobs(State::Ready).await, 2);
    service_on.stop().await;

    let service_off = service()
        .setting("COMMERCE_IDEMPOTENCY_ENABLED", "false")
        .without_workers()
        .start()
        .await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service_off, &delivery, 200, OK).await;
    is(&service_off, &delivery, 200, OK).await;
    assert_eq!(service_off.jobs(State::Ready).await, 2);
    service_off.stop().await;
}

#[tokio::test]
async fn a_payment_event_sent_twice_is_one_job_and_two_successes() {
    let service = service().manual_clock().without_workers().start().await;
    is(&service, &event("evt_1"), 200, OK).await;
    is(&service, &event("evt_1"), 200, OK).await;
    is(&service, &event("evt_2"), 200, OK).await;
    assert_eq!(service.jobs(State::Ready).await, 2);
    // The two providers' ids do not meet.
    is(&service, &order("orders/create", 1).id("evt_1"), 200, OK).await;
    service.stop().await;
}

#[tokio::test]
async fn every_topic_and_event_type_becomes_a_job_of_its_queue() {
    let service = service().manual_clock().without_workers().start().await;
    for topic in sandbox::sample::storefront_topics() {
        let from = order(topic, 1).of_shop(sandbox::sample::shop());
        is(&service, &from.id(topic), 200, OK).await;
    }
    for kind in sandbox::sample::payment_types() {
        let body = sandbox::sample::payment(kind, 1, START.0).unwrap();
        is(&service, &payment(body), 200, OK).await;
    }
    let queued = async |sql| service.count(sql).await;
    assert_eq!(
        queued("select count(*) as n from jobs where queue = 'orders' and state = 'ready'").await,
        6
    );
    assert_eq!(
        queued("select count(*) as n from jobs where queue = 'payments' and state = 'ready'").await,
        21
    );
    let privacy = "select count(*) as n from jobs where queue = 'privacy' and state = 'ready' and deadline_at = 1802592000000";
    assert_eq!(queued(privacy).await, 3, "due in thirty days");
    service.stop().await;
}

#[tokio::test]
async fn an_unknown_topic_or_type_is_kept_as_done_so_that_nobody_retries_it() {
    let service = service().manual_clock().without_workers().start().await;
    is(
        &service,
        &storefront("products/update", "{}").id("w-1"),
        200,
        OK,
    )
    .await;
    is(
        &service,
        &payment(r#"{"id":"evt_1","type":"plan.created"}"#),
        200,
        OK,
    )
    .await;
    assert_eq!(service.jobs(State::Done).await, 2);
    assert_eq!(service.jobs(State::Ready).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_delivery_of_which_nothing_is_made_is_kept_with_the_reason_beside_others() {
    let service = service()
        .setting("PAYMENT_PROVIDER", "stripe")
        .without_workers()
        .start()
        .await;
    // Nobody can fetch what a thin event is about.
    let plain = r#"{"id":"evt_1","type":"payment_intent.succeeded"}"#;
    let answers = join_all([THIN, plain].map(|body| stripe(&service, body))).await;
    assert_eq!(answers, [OK, OK].map(|body| (200, body.to_owned())));
    assert_eq!(stripe(&service, THIN).await, (200, OK.to_owned()));
    let with_reason = "select count(*) as n from jobs
                       where kind like 'v1.%' and state = 'done' and last_error like '%PAYMENT_API_URL%'";
    assert_eq!(service.count(with_reason).await, 1);
    assert_eq!(service.count("select count(*) as n from jobs").await, 2);
    service.stop().await;
}

/// The API version that is kept with the delivery of this id.
async fn kept_version(service: &Service, id: &str) -> Option<String> {
    let query = "select api_version from deliveries where external_id = $1";
    let row = service.db().query(query).bind(id).fetch_one().await;
    row.unwrap().get("api_version").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_of_the_providers_api_is_kept_with_a_delivery_and_never_refuses_it() {
    let service = service().manual_clock().without_workers().start().await;
    let long = "2".repeat(65);
    for (id, header, kept) in [
        ("w-1", Some("2026-07"), Some("2026-07")),
        ("w-2", Some("unstable"), Some("unstable")),
        ("w-3", Some(" 2026-10 "), Some("2026-10")),
        ("w-4", Some("of tomorrow"), None),
        ("w-5", Some(long.as_str()), None),
        ("w-6", Some("\u{e9}"), None),
        ("w-7", Some(""), None),
        ("w-8", None, None),
    ] {
        let delivery = order("orders/create", 1).id(id);
        let delivery = match header {
            Some(header) => delivery.header("X-Storefront-API-Version", header),
            None => delivery.without("X-Storefront-API-Version"),
        };
        is(&service, &delivery, 200, OK).await;
        assert_eq!(kept_version(&service, id).await.as_deref(), kept, "{id}");
    }
    for (id, version, kept) in [
        ("evt_1", r#""2026-10-28.endive""#, Some("2026-10-28.endive")),
        ("evt_2", r#""2020-08-27""#, Some("2020-08-27")),
        ("evt_3", "null", None),
        ("evt_4", "7", None),
        ("evt_5", r#""a b""#, None),
    ] {
        let body = format!(
            r#"{{"id": "{id}", "type": "charge.refunded", "api_version": {version}, "data": {{}}}}"#
        );
        is(&service, &payment(body), 200, OK).await;
        assert_eq!(kept_version(&service, id).await.as_deref(), kept, "{id}");
    }
    let all = jobs::list(service.db(), &jobs::Filter::default(), 20).await;
    let of_tomorrow = all
        .unwrap()
        .into_iter()
        .find(|it| it.external_id.as_deref() == Some("evt_1"));
    let id = of_tomorrow.unwrap().id.to_string();
    let shown = said(&service, &["jobs", "show", &id]).await;
    assert!(shown.contains("2026-10-28.endive"), "{shown}");
    let shown = machine(&service, &["jobs", "show", &id]).await;
    assert_eq!(shown["api_version"], "2026-10-28.endive");
    service.stop().await;
}

#[tokio::test]
async fn kinds_of_a_later_version_wait_untouched() {
    let mut service = service().without_workers().start().await;
    is(&service, &order("orders/create", 1), 200, OK).await;
    service
        .execute("update jobs set kind = 'orders/of_tomorrow', notified_at = null")
        .await;
    service.start_workers();
    // A worker has had its chance once it has done something that came later.
    is(&service, &order("orders/create", 2), 200, OK).await;
    eventually("the other is done", async || {
        service.jobs(State::Done).await == 1
    })
    .await;
    let untouched = "select count(*) as n from jobs where state = 'ready' and attempts = 0 and unfinished_attempts = 0";
    assert_eq!(service.count(untouched).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_request_id_is_taken_kept_with_the_job_and_given_out() {
    let service = service().without_workers().start().await;
    let good = order("orders/create", 1);
    let answered = service
        .post(&good.clone().header("X-Request-Id", "trace-7"))
        .await;
    assert_eq!(answered.headers()["x-request-id"], "trace-7");
    assert_eq!(
        service
            .count("select count(*) as n from deliveries where trace = 'trace-7'")
            .await,
        1
    );
    // One that could forge a log line is replaced.
    let answered = service
        .post(&good.clone().header("X-Request-Id", "a b\tc"))
        .await;
    let own = answered.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let job = service
        .db()
        .query("select id, trace from deliveries order by id desc limit 1")
        .fetch_one()
        .await
        .unwrap();
    assert_eq!(
        job.get::<uuid::Uuid>("id").unwrap().to_string(),
        own,
        "it is the job's id"
    );
    assert_eq!(job.get::<Option<String>>("trace").unwrap(), None);
    service.stop().await;
}

#[tokio::test]
async fn one_id_at_two_replicas_from_sixty_four_clients_at_once_is_accepted_once() {
    let service = service().without_workers().start().await;
    let replica = crate::support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    for round in 0..5 {
        let delivery = order("orders/create", 1).id(&format!("round-{round}"));
        let answers = (0..64).map(|client| {
            let service = if client % 2 == 0 { &service } else { &replica };
            service.answer(&delivery)
        });
        let answers = join_all(answers).await;
        let count = |status| answers.iter().filter(|answer| answer.0 == status).count();
        assert_eq!((count(200), count(409)), (1, 63));
    }
    assert_eq!(service.jobs(State::Ready).await, 5);
    replica.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn batches_with_the_same_ids_in_other_orders_do_not_block_each_other() {
    let service = service().without_workers().start().await;
    let replica = crate::support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    let ids: Vec<String> = (0..200)
        .map(|n| format!("w-{:03}", (n * 37) % 200))
        .collect();
    let forth = ids.iter().map(|id| (&service, id));
    let back = ids.iter().rev().map(|id| (&replica, id));
    let answers = forth.chain(back).map(|(service, id)| async move {
        service.answer(&order("orders/create", 1).id(id)).await.0
    });
    let answers = join_all(answers).await;
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(200), count(409)), (200, 200));
    replica.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn a_shop_in_capitals_is_the_same_shop() {
    let service = service().without_workers().start().await;
    let delivery = order("orders/create", 1).header("X-Storefront-Shop-Domain", "SHOP.Example");
    is(&service, &delivery, 200, OK).await;
    assert_eq!(
        service
            .count("select count(*) as n from jobs where shop = 'shop.example'")
            .await,
        1
    );
    service.stop().await;
}
