//! Jobs of the orders queue: each is done exactly once, and a bad job does not affect its
//! neighbours.

use std::time::Duration;

use domain::job::{JobId, Queue};
use serde_json::json;

use crate::House;

const DONE: &str = "select count(*) as n from jobs where state = 'done'";
const DEAD: &str = "select count(*) as n from jobs where state = 'dead'";
/// When the first of all jobs was done.
const FINISHED: &str = "select min(finished_at) as n from jobs";
const ORDERS: &str = "select count(*) as n from orders";
const EVENTS: &str = "select count(*) as n from events";

const CREATED: &str = "orders/create";

fn order(id: i64) -> String {
    json!({
        "id": id,
        "name": format!("#{id}"),
        "created_at": "2027-01-15T07:00:00Z",
        "updated_at": "2027-01-15T07:00:01Z",
        "currency": "USD",
        "total_price": "20.00",
        "total_outstanding": "20.00",
        "financial_status": "pending",
        "fulfillment_status": null,
        "cancelled_at": null,
        "line_items": [{"id": 1, "title": "Mug", "quantity": 2, "price": "10.00", "sku": "MUG"}],
        "note_attributes": [],
        "fulfillments": [],
        "refunds": [],
    })
    .to_string()
}

async fn last_error(house: &House, id: JobId) -> String {
    let row = house
        .parts
        .db
        .query("select last_error from jobs where id = $1")
        .bind(id)
        .fetch_one();
    row.await.unwrap().get("last_error").unwrap()
}

#[tokio::test]
async fn a_message_of_many_jobs_is_worked_on_once_however_often_it_comes() {
    let mut house = House::open().await;
    let bodies: Vec<String> = (1..=20).map(order).collect();
    let ids = house.store(CREATED, &bodies).await;
    house.announce(CREATED, &ids).await;
    house.announce(CREATED, &ids).await;
    house.start_worker(Queue::Orders);
    house.eventually("all are done", DONE, 20).await;
    assert_eq!(house.count(ORDERS).await, 20);
    let events = house.count(EVENTS).await;
    assert!(events >= 20, "{events}");
    let finished = house.count(FINISHED).await;
    house.parts.clock.advance(Duration::from_secs(1));
    house.announce(CREATED, &ids).await;
    // What comes after the repeated message has passed it.
    let last = house.store(CREATED, &[order(21)]).await;
    house.announce(CREATED, &last).await;
    house.eventually("the next one is done", DONE, 21).await;
    let each = events / 20;
    assert_eq!(house.count(EVENTS).await, events + each, "nothing twice");
    assert_eq!(
        house.count(FINISHED).await,
        finished,
        "what is done is not finished again"
    );
    house.close().await;
}

#[tokio::test]
async fn a_job_whose_runs_ended_their_process_waits_and_its_neighbours_do_not() {
    let mut house = House::open().await;
    let bodies: Vec<String> = (1..=3).map(order).collect();
    let ids = house.store(CREATED, &bodies).await;
    let set = "update jobs set unfinished_attempts = 3 where id = $1 returning 1 as n";
    let mut tx = house.parts.db.begin().await.unwrap();
    tx.query(set).bind(ids[1]).done().await.unwrap();
    tx.commit().await.unwrap();
    // As a message comes whose process has ended.
    let bus = &house.parts.bus;
    bus.notify_again(Queue::Orders, CREATED, &ids)
        .await
        .unwrap();
    house.start_worker(Queue::Orders);
    house.eventually("the others are done", DONE, 2).await;
    let wait = "select run_at - created_at as n from jobs where state = 'ready'";
    house
        .eventually("it waits for eight seconds", wait, 8000)
        .await;
    // The sweep that finds one that nobody was notified of does not take it before its time.
    house.store(CREATED, &[order(4)]).await;
    house.parts.clock.advance(Duration::from_secs(7));
    house.eventually("the sweep has looked", DONE, 3).await;
    house.eventually("it waits", wait, 8000).await;
    house.parts.clock.advance(Duration::from_secs(2));
    house.eventually("it is done", DONE, 4).await;
    let counted = "select sum(unfinished_attempts) as n from jobs";
    assert_eq!(house.count(counted).await, 0);
    house.close().await;
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_dead_and_its_neighbours_succeed() {
    let mut house = House::open().await;
    let mut bodies: Vec<String> = (1..=5).map(order).collect();
    bodies.insert(2, r#"{"id": "canary@example.com"}"#.to_owned());
    let ids = house.store(CREATED, &bodies).await;
    house.announce(CREATED, &ids).await;
    house.start_worker(Queue::Orders);
    house.eventually("the others are done", DONE, 5).await;
    house.eventually("it is dead", DEAD, 1).await;
    assert_eq!(house.count(ORDERS).await, 5);
    let error = last_error(&house, ids[2]).await;
    assert!(!error.is_empty() && !error.contains("canary"), "{error}");
    house.close().await;
}

#[tokio::test]
async fn a_job_that_was_never_announced_is_found_by_the_sweep() {
    let mut house = House::open().await;
    house.start_worker(Queue::Orders);
    house.store(CREATED, &[order(1)]).await;
    // So long a message is waited for that was marked as sent.
    house.parts.clock.advance(Duration::from_secs(4));
    house.eventually("it is done", DONE, 1).await;
    assert_eq!(house.count(ORDERS).await, 1);
    house.close().await;
}

#[tokio::test]
async fn a_worker_that_has_stopped_leaves_what_comes_later_to_the_next() {
    let mut house = House::open().await;
    house.start_worker(Queue::Orders);
    house.shutdown.cancel();
    for work in house.working.drain(..) {
        work.await.unwrap();
    }
    let ids = house.store(CREATED, &[order(1)]).await;
    house.announce(CREATED, &ids).await;
    assert_eq!(house.count(DONE).await, 0);
    house.shutdown = tokio_util::sync::CancellationToken::new();
    house.start_worker(Queue::Orders);
    house.eventually("the next one does it", DONE, 1).await;
    house.close().await;
}
