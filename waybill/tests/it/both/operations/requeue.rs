//! `waybill jobs requeue` processes finished deliveries again, and nothing is done twice.

use std::time::Duration;

use domain::job::{JobId, Queue, Source, State};
use domain::time::Timestamp;
use sandbox::{Options, STOREFRONT_TOKEN, Sandbox};
use serde_json::{Value, json as value};
use store::deliveries;
use store::jobs::ended::{self, Ended};
use store::jobs::{NewJob, requeue_as_seen};
use store::sql::{Db, Tx};

use crate::both::privacy::erasure::places;
use crate::support::delivery::{SHOP, order, storefront};
use crate::support::job as made;
use crate::support::operator::{items, json, refused, said};
use crate::support::order::{body, deliver, order_delivery, post_all, rows};
use crate::support::records;
use crate::support::{Service, eventually, pause, service};

async fn requeued(service: &Service, filters: &[&str]) -> Value {
    let requeue = ["jobs", "requeue", "--yes", "--rate", "1000"];
    let report = json(service, &[&requeue, filters].concat()).await;
    eventually("what was requeued is done", async || {
        service.awaited().await == 0
    })
    .await;
    report
}

/// The id of the one job of a kind.
async fn job(service: &Service, kind: &str) -> String {
    let jobs = items(service, &["jobs", "list", "--kind", kind]).await;
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");
    jobs[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_deliveries_are_worked_on_again_and_nothing_is_done_twice() {
    let service = service().start().await;
    for id in 1..=3 {
        deliver(
            &service,
            &order_delivery("orders/create", &body(id, 1, "pending")),
        )
        .await;
        deliver(
            &service,
            &order_delivery("orders/paid", &body(id, 2, "paid")),
        )
        .await;
    }
    let events = "select count(*) as n from events";
    let calls = "select count(*) as n from deliveries where source = 'internal'";
    let before = (service.count(events).await, service.count(calls).await);
    let known = rows(service.db()).await;
    let dry = json(&service, &["jobs", "requeue", "--all", "--dry-run"]).await;
    assert_eq!(dry["matched"], 6);
    let report = requeued(&service, &["--all"]).await;
    assert_eq!(report["done"], 6, "{report}");
    assert_eq!(rows(service.db()).await, known);
    let after = (service.count(events).await, service.count(calls).await);
    assert_eq!(after, before);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_is_made_anew_of_the_deliveries_that_filters_name() {
    let service = service().start().await;
    for (id, shop) in [(1, SHOP), (2, "other.example")] {
        let delivery = order_delivery("orders/create", &body(id, 1, "pending")).of_shop(shop);
        deliver(&service, &delivery).await;
    }
    service.execute("delete from orders").await;
    let today = service.clock().now().to_string();
    let today = today.split('T').next().unwrap().to_owned();
    for (filters, matched) in [
        (&["--before", "1h"][..], 0),
        (&["--before", &today], 0),
        (&["--since", "2100-01-01"], 0),
        (&["--before", "2020-01-31"], 0),
        (&["--since", &today], 2),
        (&["--kind", "payment_*"], 0),
        (&["--shop", "Other.example", "--since", "1h"], 1),
    ] {
        let report = json(
            &service,
            &[&["jobs", "requeue", "--dry-run"], filters].concat(),
        )
        .await;
        assert_eq!(report["matched"], matched, "{filters:?}");
    }
    requeued(&service, &["--kind", "orders/*", "--shop", "other.example"]).await;
    let orders = "select count(*) as n from orders where shop = 'other.example' and id = 2";
    assert_eq!(service.count(orders).await, 1);
    let orders = records::orders(service.db()).await;
    assert_eq!(orders[0].1.lines.value.len(), 2);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_were_made_are_not_made_again() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = service()
        .setting("STOREFRONT_API_URL", &sandbox.storefront_url())
        .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN)
        .start()
        .await;
    deliver(
        &service,
        &order_delivery("orders/paid", &body(1, 1, "paid")),
    )
    .await;
    let asked = sandbox.storefront().fault_injector.requests();
    let call = job(&service, "fulfillments/request").await;
    let (code, error) = refused(&service, &["jobs", "requeue", &call]).await;
    assert!(code == 1 && error.contains("a second time"), "{error}");
    let (code, error) = refused(&service, &["jobs", "requeue", "--kind", "fulfillments/*"]).await;
    assert!(code == 1 && error.contains("no delivery"), "{error}");
    let text = said(&service, &["jobs", "requeue", "--all", "--yes"]).await;
    assert!(
        text.contains("is ready") && text.contains("no delivery"),
        "{text}"
    );
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    assert_eq!(sandbox.storefront().fault_injector.requests(), asked);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waybill_only_keeps_and_what_has_no_body_any_more_says_so() {
    let service = service().start().await;
    post_all(&service, &[storefront("products/update", r#"{"id":1}"#)]).await;
    let kept = job(&service, "products/update").await;
    let (code, error) = refused(&service, &["jobs", "requeue", &kept]).await;
    assert!(
        code == 1 && error.contains("does nothing with them"),
        "{error}"
    );
    deliver(&service, &order("orders/create", 1)).await;
    service
        .execute("update deliveries set body = null where kind = 'orders/create'")
        .await;
    let cut = job(&service, "orders/create").await;
    let (code, error) = refused(&service, &["jobs", "requeue", &cut]).await;
    assert!(code == 1 && error.contains("JOB_RETENTION_DAYS"), "{error}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_delivery_of_an_erased_person_does_not_bring_them_back() {
    let service = service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "pending")),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/paid", &body(1, 2, "paid")),
    )
    .await;
    assert!(!places(&service, "anary").await.is_empty());
    let redact = value!({
        "shop_id": 1, "shop_domain": SHOP, "customer": {"id": 77}, "orders_to_redact": [],
    });
    deliver(
        &service,
        &storefront("customers/redact", redact.to_string()),
    )
    .await;
    assert_eq!(places(&service, "anary").await, Vec::<String>::new());
    let answered = job(&service, "customers/redact").await;
    let (code, error) = refused(&service, &["jobs", "requeue", &answered]).await;
    assert!(code == 1 && error.contains("was answered"), "{error}");
    for lost in [
        "delete from refunds",
        "delete from orders",
        "delete from customers",
    ] {
        service.execute(lost).await;
    }
    let report = requeued(&service, &["--all"]).await;
    assert_eq!(report["done"], 2, "{report}");
    let orders = "select count(*) as n from orders where redacted_at is not null";
    assert_eq!(service.count(orders).await, 1, "the order is back");
    assert_eq!(places(&service, "anary").await, Vec::<String>::new());
    assert_eq!(places(&service, "2025550123").await, Vec::<String>::new());
    service.stop().await;
}

/// When the job of [`long_done`] was done, and a time after which its body is not kept.
const LONG_AGO: Timestamp = Timestamp(1_000_000_000_000);
const CUT_BEFORE: Timestamp = Timestamp(1_000_000_000_001);

/// A service with a delivery that was done long ago, as an operator sees it.
async fn long_done() -> (Service, Ended) {
    let service = service().without_workers().start().await;
    let id = service.clock().id_at(LONG_AGO);
    let new = made::ready(
        id,
        Queue::Orders,
        Source::Storefront,
        "orders/create",
        LONG_AGO,
    );
    let state = State::Done;
    made::insert(service.db(), &[NewJob { state, ..new }]).await;
    let seen = ended::done(service.db(), &ended::Filter::default()).await;
    (service, seen.unwrap().remove(0))
}

async fn has_body(service: &Service, id: JobId) -> bool {
    deliveries::body(service.db(), id).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_not_cut_while_its_job_is_being_requeued() {
    let (service, seen) = long_done().await;
    let cutter = Db::open(&service.backend.database_url, 1).await.unwrap();
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    assert!(requeue_as_seen(&mut tx, &seen, now, None).await.unwrap());
    let requeued = async {
        pause(Duration::from_millis(200)).await;
        tx.commit().await
    };
    let cut = deliveries::cut_bodies(&cutter, CUT_BEFORE, JobId::nil(), 10);
    let (cut, requeued) = tokio::join!(cut, requeued);
    cut.unwrap();
    requeued.unwrap();
    assert_eq!(service.jobs(State::Ready).await, 1);
    assert!(has_body(&service, seen.id).await);
    cutter.close().await;
    service.stop().await;
}

/// Whoever deletes a body waits for the end of this transaction.
async fn keep_from_cutting(service: &Service, gate: &Db) -> Tx {
    for wait in [
        "create function wait() returns trigger language plpgsql as
         'begin perform pg_advisory_xact_lock(7); return new; end'",
        "create trigger wait before update of body on deliveries for each row
         execute function wait()",
    ] {
        service.execute(wait).await;
    }
    let mut tx = gate.begin().await.unwrap();
    let close = "select cast(pg_advisory_xact_lock(7) as text) as closed";
    tx.query(close).fetch_all().await.unwrap();
    tx
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_job_is_not_requeued_while_its_body_is_being_cut() {
    let (service, seen) = long_done().await;
    let others = Db::open(&service.backend.database_url, 3).await.unwrap();
    let closed = keep_from_cutting(&service, &others).await;
    let waiting = async |number: i64| {
        let waiting = "select count(*) as n from pg_stat_activity
                       where wait_event_type = 'Lock' and datname = current_database()";
        eventually("they wait", async || service.count(waiting).await == number).await;
    };
    let cut = deliveries::cut_bodies(&others, CUT_BEFORE, JobId::nil(), 10);
    let requeued = async {
        waiting(1).await;
        let mut tx = service.db().begin().await.unwrap();
        let requeued = requeue_as_seen(&mut tx, &seen, service.clock().now(), None).await;
        tx.commit().await.unwrap();
        requeued
    };
    let opened = async {
        waiting(2).await;
        closed.rollback().await
    };
    let (cut, requeued, opened) = tokio::join!(cut, requeued, opened);
    cut.unwrap();
    opened.unwrap();
    assert!(!requeued.unwrap(), "its body was cut first");
    assert_eq!(service.jobs(State::Done).await, 1);
    assert!(!has_body(&service, seen.id).await);
    others.close().await;
    service.stop().await;
}
