//! A delivery of the storefront is verified, stored once and answered, and the workers are
//! notified over the bus.

use std::time::Duration;

use domain::job::{Queue, State};
use store::jobs;

use crate::{Ingress, status};

const JOBS: &str = "select count(*) as n from jobs";

#[tokio::test]
async fn a_signed_delivery_is_a_job_of_its_queue_and_is_announced_on_the_bus() {
    let ingress = Ingress::start().await;
    let listener = ingress.parts.bus.listen(Queue::Orders, 1);
    let delivery = ingress.delivery("orders/create", "w-1", r#"{"id": 7}"#);
    assert_eq!(status(delivery).await, 200);
    let message = listener.next().await.expect("the bus is open");
    let stored = jobs::ready(&ingress.parts.db, &message.jobs, ingress.parts.clock.now())
        .await
        .unwrap();
    let [job] = stored.as_slice() else {
        panic!("{} jobs for one delivery", stored.len());
    };
    assert_eq!(&job.body[..], br#"{"id": 7}"#);
    assert_eq!(ingress.count(JOBS).await, 1);
    message.ack().await;
    ingress.stop().await;
}

#[tokio::test]
async fn a_delivery_that_comes_again_is_a_duplicate_and_stored_once() {
    let ingress = Ingress::start().await;
    for expected in [200, 409, 409] {
        let delivery = ingress.delivery("orders/create", "w-1", r#"{"id": 7}"#);
        assert_eq!(status(delivery).await, expected);
    }
    let other = ingress.delivery("orders/create", "w-2", r#"{"id": 7}"#);
    assert_eq!(status(other).await, 200);
    assert_eq!(ingress.count(JOBS).await, 2);
    ingress.stop().await;
}

#[tokio::test]
async fn what_is_not_signed_for_these_bytes_is_refused_and_nothing_is_stored() {
    let ingress = Ingress::start().await;
    let body = r#"{"id": 7}"#;
    let unsigned = ingress.unsigned("orders/create", "w-1", body);
    assert_eq!(status(unsigned).await, 401);
    let changed = ingress
        .delivery("orders/create", "w-1", body)
        .body(r#"{"id": 8}"#);
    assert_eq!(status(changed).await, 401);
    assert_eq!(ingress.count(JOBS).await, 0);
    // The id was not remembered, so the true delivery is no duplicate.
    let delivery = ingress.delivery("orders/create", "w-1", body);
    assert_eq!(status(delivery).await, 200);
    ingress.stop().await;
}

#[tokio::test]
async fn deliveries_that_arrive_together_are_all_stored_in_their_queues() {
    let ingress = Ingress::start().await;
    let customer = r#"{"shop_id": 1, "shop_domain": "shop.example",
        "customer": {"id": 77, "email": null, "phone": null}, "orders_requested": []}"#;
    let mut answers = Vec::new();
    for n in 0..40 {
        let order = ingress.delivery("orders/paid", &format!("w-{n}"), r#"{"id": 7}"#);
        answers.push(status(order));
    }
    let request = ingress.delivery("customers/data_request", "w-p", customer);
    answers.push(status(request));
    assert_eq!(futures_util::future::join_all(answers).await, [200; 41]);
    let db = &ingress.parts.db;
    for (queue, expected) in [(Queue::Orders, 40), (Queue::Privacy, 1)] {
        let ready = jobs::count(db, queue, State::Ready).await.unwrap();
        assert_eq!(ready, expected, "{queue}");
    }
    ingress.stop().await;
}

#[tokio::test]
async fn while_the_database_is_away_a_delivery_is_answered_503_and_can_come_again() {
    let ingress = Ingress::start().await;
    let mut writer = ingress.parts.db.begin().await.unwrap();
    let lock = "update privacy_keys set id = id";
    writer.query(lock).execute().await.unwrap();
    let delivery = || ingress.delivery("orders/create", "w-1", r#"{"id": 7}"#);
    assert_eq!(status(delivery()).await, 503, "somebody else is writing");
    writer.rollback().await.unwrap();
    // The batch of the first try may still be failing. A provider sends it again until it is taken.
    let again = async { while status(delivery()).await == 503 {} };
    let taken = tokio::time::timeout(Duration::from_secs(20), again).await;
    assert!(taken.is_ok(), "it is never taken");
    assert_eq!(ingress.count(JOBS).await, 1);
    ingress.stop().await;
}
