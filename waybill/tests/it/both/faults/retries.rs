//! Jobs that fail, hang, panic or end their process are retried or dead-lettered.

use std::time::Duration;

use domain::job::{JobId, MAX_UNFINISHED_ATTEMPTS, Queue, Source, State};
use serde_json::json;
use store::{deliveries, job_attempts, jobs};
use workers::Worker;

use crate::support::backend::is_distributed;
use crate::support::delivery::{Delivery, order, storefront};
use crate::support::{START, Service, eventually, service};

/// Makes every write of an order fail, as a bug or a full table space would.
async fn break_orders(service: &Service) {
    service
        .execute("alter table orders rename to orders_elsewhere")
        .await;
}

async fn mend_orders(service: &Service) {
    service
        .execute("alter table orders_elsewhere rename to orders")
        .await;
}

async fn attempts(service: &Service) -> i64 {
    service
        .count("select coalesce(max(attempts), 0) as n from jobs")
        .await
}

fn named(id: i64, name: &str) -> Delivery {
    let body = json!({"id": id, "name": name, "updated_at": "2027-01-01T00:00:00Z"});
    storefront("orders/create", body.to_string()).id(&format!("w-{id}"))
}

/// A kind may have several names, and its jobs are found under each of them.
#[tokio::test]
async fn a_failed_job_is_tried_again_under_whatever_name_its_topic_came() {
    let service = service().manual_clock().start().await;
    break_orders(&service).await;
    let part = order("orders/partially_fulfilled", 1);
    assert_eq!(service.answer(&part).await.0, 200);
    eventually("the attempt is counted", async || {
        attempts(&service).await == 1
    })
    .await;
    mend_orders(&service).await;
    service.clock().advance(Duration::from_secs(1));
    eventually("it is done", async || service.jobs(State::Done).await == 1).await;
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_failed_job_is_tried_again_with_growing_pauses_until_it_succeeds() {
    let service = service().manual_clock().start().await;
    break_orders(&service).await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    // On a manual clock the jitter is none: 1 s, 2 s, 4 s.
    for (attempt, pause) in [(1, 1), (2, 2), (3, 4)] {
        eventually("the attempt is counted", async || {
            attempts(&service).await == attempt
        })
        .await;
        let due = service.count("select run_at as n from jobs").await - service.clock().now().0;
        assert_eq!(due, pause * 1000, "after attempt {attempt}");
        service
            .clock()
            .advance(Duration::from_secs(pause.unsigned_abs()));
    }
    eventually("the fourth attempt is counted", async || {
        attempts(&service).await == 4
    })
    .await;
    mend_orders(&service).await;
    service.clock().advance(Duration::from_secs(8));
    eventually("it is done", async || service.jobs(State::Done).await == 1).await;
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    assert_eq!(
        service
            .count("select count(*) as n from jobs where last_error is null")
            .await,
        1
    );
    // What happened before it succeeded can still be read.
    let tried = job_attempts::list(service.db(), only_job(&service).await);
    let tried = tried.await.unwrap();
    let numbers: Vec<i64> = tried.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    for (attempt, second) in tried.iter().zip([0, 1, 3, 7]) {
        assert_eq!(attempt.outcome, "retried");
        assert_eq!(attempt.started_at, START.plus(Duration::from_secs(second)));
        assert!(!attempt.error.is_empty());
        assert_eq!(attempt.status, None, "nobody was asked");
    }
    service.stop().await;
}

async fn only_job(service: &Service) -> JobId {
    let row = service.db().query("select id from jobs").fetch_one().await;
    row.unwrap().get("id").unwrap()
}

const ATTEMPTS: &str = "select count(*) as n from job_attempts";

#[tokio::test]
async fn a_job_that_succeeds_at_once_has_no_attempts() {
    let service = service().start().await;
    for id in 1..=20 {
        assert_eq!(service.answer(&named(id, &id.to_string())).await.0, 200);
    }
    service.drained().await;
    assert_eq!(service.jobs(State::Done).await, 20);
    assert_eq!(service.count(ATTEMPTS).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn the_first_attempt_and_the_last_twenty_are_kept_until_the_body_is_cut() {
    let service = service().without_workers().manual_clock().start().await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    let id = only_job(&service).await;
    let error = |number: i64| format!("error {number}");
    for number in 1..=30_i64 {
        let mut tx = service.db().begin().await.unwrap();
        let attempt = job_attempts::NewAttempt {
            started_at: START.plus(Duration::from_secs(number.unsigned_abs())),
            duration_ms: number,
            outcome: job_attempts::Outcome::Retried,
            error: &error(number),
            status: Some(503),
        };
        job_attempts::add(&mut tx, id, &attempt).await.unwrap();
        tx.commit().await.unwrap();
    }
    let kept = job_attempts::list(service.db(), id).await.unwrap();
    let numbers: Vec<i64> = kept.iter().map(|attempt| attempt.number).collect();
    let expected: Vec<i64> = [1].into_iter().chain(11..=30).collect();
    assert_eq!(numbers, expected);
    for attempt in &kept {
        assert_eq!(attempt.error, error(attempt.number));
        assert_eq!(
            (attempt.duration_ms, attempt.status),
            (attempt.number, Some(503))
        );
    }
    let worker = Worker::new(service.parts.clone(), Queue::Orders, 1);
    service.clock().advance(Duration::from_hours(30 * 24));
    worker.keep_house().await.unwrap();
    assert_eq!(service.count(ATTEMPTS).await, 21, "its job is not done yet");
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    assert_eq!(jobs::finish(&mut tx, &[id], now).await.unwrap(), [id]);
    tx.commit().await.unwrap();
    worker.keep_house().await.unwrap();
    assert_eq!(service.count(ATTEMPTS).await, 21, "it was done just now");
    service.clock().advance(Duration::from_hours(8 * 24));
    worker.keep_house().await.unwrap();
    assert_eq!(service.count(ATTEMPTS).await, 0);
    assert_eq!(service.jobs(State::Done).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn after_twelve_failures_a_job_is_dead_and_keeps_its_body() {
    let service = service().manual_clock().start().await;
    break_orders(&service).await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    for attempt in 1..=12 {
        eventually("the attempt is counted", async || {
            attempts(&service).await == attempt
        })
        .await;
        service.clock().advance(Duration::from_hours(1));
    }
    assert_eq!(service.jobs(State::Dead).await, 1);
    let kept = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                where body is not null and last_error is not null";
    assert_eq!(service.count(kept).await, 1);
    service.clock().advance(Duration::from_hours(24));
    mend_orders(&service).await;
    assert_eq!(service.jobs(State::Dead).await, 1, "dead stays dead");
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_fails_does_not_take_its_neighbours_with_it() {
    let service = service().without_workers().manual_clock().start().await;
    service
        .execute("create unique index one_name on orders (name)")
        .await;
    for id in 1..=20 {
        let name = if id == 7 || id == 13 {
            "the same".to_owned()
        } else {
            format!("#{id}")
        };
        assert_eq!(service.answer(&named(id, &name)).await.0, 200);
    }
    let unreadable = storefront("orders/create", r#"{"id":"none"}"#).id("w-99");
    assert_eq!(service.answer(&unreadable).await.0, 200);
    let mut service = service;
    service.start_workers();
    eventually("all but two are done", async || {
        service.jobs(State::Done).await == 19
    })
    .await;
    eventually("one is dead", async || service.jobs(State::Dead).await == 1).await;
    let failed = "select count(*) as n from jobs where state = 'ready' and attempts = 1";
    eventually("one will be tried again", async || {
        service.count(failed).await == 1
    })
    .await;
    assert_eq!(service.count("select count(*) as n from orders").await, 19);
    assert_eq!(service.count("select count(*) as n from events").await, 19);
    let outcomes = "select count(*) as n from job_attempts
                    join jobs on jobs.id = job_attempts.job_id and jobs.last_error = error
                    where (jobs.state = 'dead' and outcome = 'dead')
                       or (jobs.state = 'ready' and outcome = 'retried')";
    assert_eq!(service.count(outcomes).await, 2);
    assert_eq!(service.count(ATTEMPTS).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_job_whose_runs_ended_their_process_five_times_is_dead_lettered_and_its_neighbours_succeed()
 {
    let service = service().without_workers().start().await;
    for id in 1..=5 {
        assert_eq!(service.answer(&named(id, &id.to_string())).await.0, 200);
    }
    service
        .execute(
            "update jobs set unfinished_attempts = 5
             where id in (select id from deliveries where external_id = 'w-3')",
        )
        .await;
    assert_eq!(MAX_UNFINISHED_ATTEMPTS, 5);
    let mut service = service;
    service.start_workers();
    eventually("it is dead-lettered", async || {
        service.jobs(State::Dead).await == 1
    })
    .await;
    eventually("the others are done", async || {
        service.jobs(State::Done).await == 4
    })
    .await;
    let dead_lettered = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
        where external_id = 'w-3' and state = 'dead' and last_error like '%process ended%'";
    assert_eq!(service.count(dead_lettered).await, 1);
    assert_eq!(
        service
            .count(
                "select count(*) as n from jobs where unfinished_attempts > 0 and state = 'done'"
            )
            .await,
        0
    );
    service.stop().await;
}

#[tokio::test]
async fn jobs_that_were_never_notified_are_found_by_the_sweep() {
    let service = service().manual_clock().start().await;
    // As after a crash between the commit and the notification: nobody knows but the database.
    let quiet = crate::support::service()
        .without_workers()
        .clock(service.clock());
    let quiet = quiet.start_beside(&service).await;
    if is_distributed() {
        quiet.parts.bus.close().await;
        eventually("the bus is gone", async || {
            !quiet.parts.bus.is_ready(Queue::Orders)
        })
        .await;
    }
    // Embedded, a bus within another process notifies nobody here.
    assert_eq!(quiet.answer(&named(1, "a")).await.0, 200);
    // It takes no job that was accepted a moment ago, of which a worker may be about to be notified.
    service.clock().advance(Duration::from_secs(4));
    service.drained().await;
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    quiet.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn a_message_that_comes_twice_does_the_work_once() {
    let service = service().start().await;
    for id in 1..=3 {
        assert_eq!(service.answer(&named(id, &id.to_string())).await.0, 200);
    }
    service.drained().await;
    let rows = service
        .db()
        .query("select id from jobs order by id")
        .fetch_all()
        .await
        .unwrap();
    let ids: Vec<uuid::Uuid> = rows.iter().map(|row| row.get("id").unwrap()).collect();
    let queue = Queue::Orders;
    for _ in 0..5 {
        service
            .parts
            .bus
            .notify(queue, "orders/create", &ids)
            .await
            .unwrap();
        service
            .parts
            .bus
            .notify_again(queue, "orders/create", &ids)
            .await
            .unwrap();
    }
    // The messages before this one have been worked on when it has.
    assert_eq!(service.answer(&named(4, "4")).await.0, 200);
    service.drained().await;
    assert_eq!(service.count("select count(*) as n from events").await, 4);
    assert_eq!(
        service
            .count("select cast(sum(attempts) + sum(unfinished_attempts) as bigint) as n from jobs")
            .await,
        0
    );
    service.stop().await;
}

#[tokio::test]
async fn expired_ids_and_old_bodies_are_cut() {
    let service = service().manual_clock().start().await;
    assert_eq!(service.answer(&named(1, "a")).await.0, 200);
    service.drained().await;
    service.clock().advance(Duration::from_hours(8 * 24));
    let now = service.clock().now();
    let db = service.db();
    assert_eq!(
        store::webhook_ids::forget_expired(db, now, 10)
            .await
            .unwrap(),
        1
    );
    let old = now.minus(service.parts.config.job_retention);
    let last = deliveries::cut_bodies(db, old, JobId::nil(), 10)
        .await
        .unwrap();
    let next = deliveries::cut_bodies(db, old, last.expect("there is one"), 10).await;
    assert_eq!(next.unwrap(), None);
    assert_eq!(
        service
            .count("select count(*) as n from deliveries where body is null")
            .await,
        1
    );
    service.stop().await;
}

#[tokio::test]
async fn a_call_that_is_deferred_keeps_the_time_that_it_was_given_while_it_was_claimed() {
    let service = service().without_workers().start().await;
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    let (until, later) = (
        now.plus(Duration::from_secs(35)),
        now.plus(Duration::from_hours(24)),
    );
    for is_released in [false, true] {
        let id = service.clock().id();
        let job = jobs::NewJob::new(
            id,
            Queue::Privacy,
            Source::Storefront,
            "customers/redact".to_owned(),
            "{}".into(),
            now,
        );
        jobs::insert(&mut tx, &[&job]).await.unwrap();
        let claimed = jobs::claim(&mut tx, &[id], now, until).await.unwrap();
        let [claimed] = claimed[..] else {
            panic!("{claimed:?}");
        };
        assert_eq!((claimed.id, claimed.token, claimed.runs), (id, 1, 1));
        if is_released {
            // An operator has decided meanwhile what the job waits for.
            jobs::release(&mut tx, id, now).await.unwrap();
        }
        let deferred = jobs::defer_claimed(&mut tx, claimed, until, later, "it waits", false);
        assert!(deferred.await.unwrap());
        let run_at = tx
            .query("select run_at from jobs where id = $1")
            .bind(id)
            .fetch_one()
            .await
            .unwrap();
        let expected = if is_released { now } else { later };
        assert_eq!(run_at.get::<i64>("run_at").unwrap(), expected.0);
    }
    tx.rollback().await.unwrap();
    service.stop().await;
}
