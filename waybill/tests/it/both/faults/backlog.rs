//! Very many jobs that wait: whom they keep waiting, and what it costs to look at them.

use std::time::Duration;

use domain::job::{Queue, Source};
use domain::time::Timestamp;
use sandbox::{Fault, Options as SandboxOptions, STOREFRONT_TOKEN, Sandbox};
use serde_json::json;
use store::jobs::missed::{self, Look};
use store::jobs::{self, NewJob};
use store::sql::Db;
use tokio::time::Instant;
use uuid::Uuid;

use crate::support::backend::environment;
use crate::support::delivery::{Delivery, storefront};
use crate::support::order::{self, order_delivery, post_all};
use crate::support::requests::request;
use crate::support::{Service, pause, service, within};

/// How many jobs wait. With `BACKLOG_TIMES=50` there are a million.
const WAITING: u32 = 20_000;
/// Nobody's order waits longer than this behind those of others.
pub const PROMISED: Duration = Duration::from_secs(2);
const LARGE: &str = "large.example";
const READY: &str =
    "select count(*) as n from jobs where shop = 'large.example' and state = 'ready'";

fn waiting() -> i64 {
    let given = environment("BACKLOG_TIMES");
    let times = given.map_or(1, |text| text.parse().expect("BACKLOG_TIMES is a number"));
    i64::from(WAITING) * times
}

fn body(id: i64) -> String {
    json!({"id": id, "name": format!("#{id}"), "updated_at": "2027-01-01T00:00:00Z"}).to_string()
}

/// Orders of one shop that came long ago, of which no worker was notified.
async fn fill(service: &Service, kind: &str, shop: &str, ids: std::ops::Range<i64>) {
    const CHUNK: i64 = 2000;
    let now = service.clock().now();
    let came = now.minus(Duration::from_hours(1));
    for first in ids.clone().step_by(usize::try_from(CHUNK).unwrap()) {
        let job = |id: i64| NewJob {
            shop: Some(shop.to_owned()),
            external_id: Some(Uuid::now_v7().to_string()),
            object_id: Some(id.to_string()),
            run_at: Timestamp(came.0 + id),
            ..NewJob::new(
                service.clock().id_at(came),
                Queue::Orders,
                Source::Storefront,
                kind.to_owned(),
                body(id).into(),
                came,
            )
        };
        let jobs: Vec<NewJob> = (first..ids.end.min(first + CHUNK)).map(job).collect();
        let mut tx = service.db().begin().await.unwrap();
        let all: Vec<&NewJob> = jobs.iter().collect();
        jobs::insert(&mut tx, &all).await.unwrap();
        tx.commit().await.unwrap();
    }
}

fn small(topic: &str, id: i64) -> Delivery {
    storefront(topic, body(id)).of_shop("small.example")
}

/// How long it takes from a delivery until its job is done.
pub async fn waited(service: &Service, delivery: &Delivery) -> Duration {
    let begun = Instant::now();
    let response = service.post(delivery).await;
    assert_eq!(response.status(), 200);
    let id: Uuid = response.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    loop {
        let job = jobs::show(service.db(), id).await.unwrap().unwrap();
        if job.state == "done" {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{}", job.state);
        pause(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_nobody_waits_for_two_seconds_behind_another_shops_orders() {
    let mut service = service().without_workers().start().await;
    fill(&service, "orders/create", LARGE, 1..waiting() + 1).await;
    service.start_workers();
    within(Duration::from_mins(1), "the work has begun", async || {
        service.count(READY).await < waiting()
    })
    .await;
    let (mut waits, mut next) = (Vec::new(), waiting() + 1);
    for id in 1..=5 {
        // A fast machine would have done all before the end.
        if service.count(READY).await < waiting() / 2 {
            fill(&service, "orders/create", LARGE, next..next + waiting()).await;
            next += waiting();
        }
        // The second one is of a kind of its own, the third of a queue of its own.
        for delivery in [
            small("orders/create", id),
            small("orders/updated", id),
            request("customers/data_request", u64::try_from(id).unwrap()),
        ] {
            waits.push(waited(&service, &delivery).await);
        }
    }
    let left = service.count(READY).await;
    waits.sort_unstable();
    platform::terminal::err(&format!("{left} were left; waited {waits:?}\n"));
    assert!(left > 0, "all were done before, so nothing was shown");
    // The longest one may have met a moment in which the machine did something else.
    let [.., second, longest] = waits[..] else {
        panic!("{waits:?}");
    };
    assert!(second < PROMISED && longest < PROMISED * 2, "{waits:?}");
    service.stop().await;
}

/// More calls than one process makes at a time, of a provider that takes two seconds for each.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_nobody_waits_for_a_provider_that_is_slow_and_it_is_kept_busy() {
    const CALLS: i64 = 384;
    const ALONE: u32 = 30;
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let mut service = service()
        .setting("STOREFRONT_API_URL", &sandbox.storefront_url())
        .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN)
        .start()
        .await;
    let provider = &sandbox.storefront().fault_injector;
    provider.fail(Fault::Slow(Duration::from_secs(2)));
    let mut alone = Duration::ZERO;
    for nth in 0..ALONE {
        let id = 20_000 + i64::from(nth);
        alone += waited(&service, &small("orders/create", id)).await / ALONE;
    }
    let begun = Instant::now();
    for first in (1..=CALLS).step_by(32) {
        let paid = |id| order_delivery("orders/paid", &order::body(id, 1, "paid"));
        let deliveries: Vec<Delivery> = (first..first + 32).map(paid).collect();
        post_all(&service, &deliveries).await;
    }
    let mut waits = Vec::new();
    while begun.elapsed() < Duration::from_secs(8) {
        let id = 10_000 + i64::try_from(waits.len()).unwrap();
        waits.push(waited(&service, &small("orders/create", id)).await);
    }
    let asked = provider.requests();
    waits.sort_unstable();
    let count = u32::try_from(waits.len()).unwrap();
    let mean = waits.iter().sum::<Duration>() / count;
    let [.., longest] = waits[..] else {
        panic!("{waits:?}");
    };
    platform::terminal::err(&format!(
        "{asked} calls; of {count} orders each waited {mean:?}, the slowest {longest:?}; before \
         the calls {alone:?}\n"
    ));
    assert!(asked >= 160, "64 every two seconds would be 256; {asked}");
    assert!(longest < PROMISED, "{longest:?}");
    assert!(mean < alone * 3, "{mean:?}, and without calls {alone:?}");
    service.halt().await;
    let other = crate::support::service().without_workers();
    let other = other.start_beside(&service).await;
    let notified =
        "select count(*) as n from jobs where state = 'ready' and notified_at is not null";
    // The sweep may have been about to notify workers of some.
    assert!(
        other.count(notified).await < 64,
        "other processes may have what waited in the one that has stopped"
    );
    other.stop().await;
}

#[tokio::test]
async fn shops_have_turns_and_every_one_of_them_comes() {
    let service = service().without_workers().start().await;
    let (kind, queue) = ("orders/create", Queue::Orders);
    fill(&service, kind, LARGE, 1..3001).await;
    for shop in 0..150 {
        let first = 10_000 + 10 * shop;
        let name = format!("shop{shop}.example");
        fill(&service, kind, &name, first..first + 2).await;
    }
    let mut turn = String::new();
    let now = service.clock().now();
    let mut taken = Vec::new();
    let without = "select count(*) as n from (
                       select shop from jobs where shop <> 'large.example'
                       group by shop having count(notified_at) = 0) as shops";
    for shops_without_turn in [87, 23, 0, 0, 0] {
        let mut tx = service.db().begin().await.unwrap();
        let due = missed::take(&mut tx, queue, kind, &mut turn, now, 160).await;
        tx.commit().await.unwrap();
        taken.extend(due.unwrap());
        assert_eq!(service.count(without).await, shops_without_turn);
    }
    let ids: Vec<Uuid> = taken.iter().map(|due| due.id).collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((ids.len(), distinct.len()), (800, 800), "none twice");
    let left = "select count(*) as n from jobs
                where shop <> 'large.example' and notified_at is null";
    assert_eq!(
        service.count(left).await,
        0,
        "all jobs of small shops had a turn"
    );
    let notified = "select count(*) as n from jobs where notified_at is not null";
    assert_eq!(service.count(notified).await, 800);
    service.stop().await;
}

#[tokio::test]
async fn no_shop_is_passed_over_when_few_jobs_are_taken_at_a_time() {
    let service = service().without_workers().start().await;
    let (kind, queue) = ("orders/create", Queue::Orders);
    fill(&service, kind, LARGE, 1..1001).await;
    for shop in 0..30 {
        let first = 10_000 + 100 * shop;
        fill(
            &service,
            kind,
            &format!("shop{shop:02}.example"),
            first..first + 20,
        )
        .await;
    }
    let mut turn = String::new();
    let now = service.clock().now();
    for limit in [32, 32, 64] {
        let mut tx = service.db().begin().await.unwrap();
        let due = missed::take(&mut tx, queue, kind, &mut turn, now, limit).await;
        assert_eq!(due.unwrap().len(), limit);
        tx.commit().await.unwrap();
    }
    let without = "select count(*) as n from (
                       select shop from jobs group by shop having count(notified_at) = 0) as shops";
    assert_eq!(service.count(without).await, 0, "every shop had a turn");
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_is_due_later_is_not_taken_and_keeps_no_other_from_it() {
    let service = service().without_workers().start().await;
    let (kind, queue) = ("orders/create", Queue::Orders);
    fill(&service, kind, LARGE, 1..101).await;
    service
        .execute("update jobs set run_at = run_at + 3630000, attempts = 1")
        .await;
    let db = service.db();
    let now = service.clock().now();
    assert_eq!(missed::look(db, queue, now).await.unwrap(), Look::default());
    fill(&service, kind, "small.example", 200..203).await;
    let look = missed::look(db, queue, now).await.unwrap();
    assert_eq!((look.kinds, look.notified), (vec![kind.to_owned()], None));
    let mut tx = db.begin().await.unwrap();
    let mut turn = String::new();
    let due = missed::take(&mut tx, queue, kind, &mut turn, now, 2).await;
    assert_eq!(due.unwrap().len(), 2);
    let due = missed::take(&mut tx, queue, kind, &mut turn, now, 2).await;
    assert_eq!(due.unwrap().len(), 1);
    tx.commit().await.unwrap();
    let look = missed::look(db, queue, now).await.unwrap();
    assert_eq!((look.kinds, look.notified), (Vec::new(), Some((now, now))));
    service.stop().await;
}

/// The time of the fastest of some rounds of the sweep: its looks, and one taking, which is rolled back. They
/// are spread over more than a second, because other tests may take the processors for a part of one.
async fn round(service: &Service) -> Duration {
    let (kind, queue, db) = ("orders/create", Queue::Orders, service.db());
    let now = service.clock().now();
    let mut fastest = Duration::MAX;
    for _ in 0..100 {
        pause(Duration::from_millis(10)).await;
        let begun = Instant::now();
        let look = missed::look(db, queue, now).await.unwrap();
        assert_eq!(look.kinds, [kind]);
        let mut tx = db.begin().await.unwrap();
        let mut turn = String::new();
        let due = missed::take(&mut tx, queue, kind, &mut turn, now, 512).await;
        assert_eq!(due.unwrap().len(), 512);
        tx.rollback().await.unwrap();
        fastest = fastest.min(begun.elapsed());
    }
    fastest
}

#[tokio::test]
async fn heavy_a_round_of_the_sweep_costs_the_same_however_many_jobs_wait() {
    let service = service().without_workers().start().await;
    fill(&service, "orders/create", LARGE, 1..2001).await;
    let few = round(&service).await;
    fill(&service, "orders/create", LARGE, 2001..waiting() + 1).await;
    let many = round(&service).await;
    platform::terminal::err(&format!("of 2000: {few:?}; of {}: {many:?}\n", waiting()));
    assert!(many < few * 2, "{few:?} and {many:?}");
    service.stop().await;
}

/// The time of the fastest of some deliveries until it is answered, and of the fastest look of the sweep. They are spread
/// over more than a second, because other tests may take the processors for a part of one.
async fn costs(service: &Service, first: i64) -> (Duration, Duration) {
    let (mut answer, mut look) = (Duration::MAX, Duration::MAX);
    for id in first..first + 100 {
        pause(Duration::from_millis(10)).await;
        let begun = Instant::now();
        let response = service.post(&small("orders/create", id)).await;
        assert_eq!(response.status(), 200);
        answer = answer.min(begun.elapsed());
        let begun = Instant::now();
        let now = service.clock().now();
        missed::look(service.db(), Queue::Orders, now)
            .await
            .unwrap();
        look = look.min(begun.elapsed());
    }
    (answer, look)
}

/// Somebody's transaction holds a snapshot, so all versions of the jobs that were done since are kept.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_while_a_snapshot_is_held_intake_costs_the_same_and_work_goes_on() {
    let mut service = service().without_workers().start().await;
    let other = Db::open(&service.backend.database_url, 1).await.unwrap();
    let mut held = other.begin().await.unwrap();
    for statement in [
        "set transaction isolation level repeatable read",
        "set local idle_in_transaction_session_timeout = 0",
        "select count(*) as n from jobs",
    ] {
        held.query(statement).fetch_all().await.unwrap();
    }
    let before = costs(&service, 100_001).await;
    fill(&service, "orders/create", LARGE, 1..waiting() + 1).await;
    for statement in [
        "update jobs set notified_at = run_at where shop = 'large.example'",
        "update jobs set notified_at = null, state = 'done', finished_at = run_at
         where shop = 'large.example'",
        "vacuum jobs",
    ] {
        service.db().on_server(&[statement]).await.unwrap();
    }
    let after = costs(&service, 200_001).await;
    service.start_workers();
    let mut waits = Vec::new();
    for id in 300_001..300_006 {
        waits.push(waited(&service, &small("orders/create", id)).await);
    }
    waits.sort_unstable();
    let done = waiting();
    platform::terminal::err(&format!(
        "answer and look at first {before:?}, after {done} jobs were done {after:?}; waited {waits:?}\n"
    ));
    // Nothing of the old versions is read when a delivery is stored.
    assert!(after.0 < before.0 * 3, "{before:?}, {after:?}");
    // A look reads the index entries of all of them, and it rests for twenty times as long.
    let of_each = after.1.saturating_sub(before.1) / u32::try_from(done).unwrap();
    assert!(of_each < Duration::from_micros(5), "{of_each:?} for each");
    assert!(waits[2] < PROMISED, "{waits:?}");
    held.rollback().await.unwrap();
    other.close().await;
    service.stop().await;
}
