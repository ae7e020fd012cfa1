//! Storms are reproducible and complete, and repeat deliveries that were not accepted.

use std::collections::{BTreeMap, BTreeSet};

use platform::clock::Clock;
use sandbox::{Poster, Storm, storm};
use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{NOW, SHOP, start};

fn storm() -> Storm {
    Storm {
        orders: 20,
        seed: 42,
        shop: SHOP.to_owned(),
        ..Storm::default()
    }
}

#[test]
fn the_seed_decides_every_delivery_and_its_place() {
    let deliveries = storm().deliveries(NOW);
    assert_eq!(deliveries, storm().deliveries(NOW));
    let other = Storm {
        seed: 43,
        ..storm()
    };
    assert_ne!(deliveries, other.deliveries(NOW));
    let neighbours = deliveries.windows(2);
    let together = neighbours.filter(|two| two[0].id == two[1].id).count();
    assert!(
        together < 10,
        "repeats are spread: {together} follow their like"
    );
}

#[test]
fn each_order_comes_in_each_topic_so_often_under_one_id() {
    let mut times: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for delivery in storm().deliveries(NOW) {
        let key = (delivery.topic.clone(), delivery.body.to_string());
        times.entry(key).or_default().push(delivery.id);
    }
    assert_eq!(times.len(), 20 * 5);
    let counts: BTreeSet<usize> = times.values().map(Vec::len).collect();
    assert_eq!(counts, BTreeSet::from([1, 2, 3]));
    assert!(times.values().all(|ids| ids.iter().all(|id| *id == ids[0])));
    let ids: BTreeSet<&String> = times.values().map(|ids| &ids[0]).collect();
    assert_eq!(ids.len(), 20 * 5, "no two share an id");
}

#[tokio::test]
async fn every_delivery_is_taken_once_although_the_receiver_refuses_some() {
    let receiver = Receiver::start(7).await;
    let deliveries = storm().deliveries(NOW);
    let poster = Poster::new(receiver.webhooks(), Clock::manual(NOW)).unwrap();
    let heard = std::sync::Mutex::new(Vec::new());
    let progress = |ended| heard.lock().unwrap().push(ended);
    let report = poster.post_all(&deliveries, 8, progress).await;
    let count = u64::try_from(deliveries.len()).unwrap();
    assert_eq!((report.deliveries, report.accepted), (count, 100));
    assert_eq!(report.duplicates, count - 100);
    assert_eq!(
        (report.refused, report.given_up, report.unanswered),
        (0, 0, 0)
    );
    assert_eq!(report.answers[&200], 100);
    assert!(report.answers[&503] >= count / 7);
    assert_eq!(receiver.taken().len(), 100);
    let heard = heard.into_inner().unwrap();
    assert_eq!(heard.last(), Some(&deliveries.len()));
}

#[tokio::test]
async fn what_no_retry_changes_is_not_retried() {
    let receiver = Receiver::start(0).await;
    let mut webhooks = receiver.webhooks();
    webhooks.storefront_secret = "another".to_owned();
    let poster = Poster::new(webhooks, Clock::manual(NOW)).unwrap();
    let own = [("orders/create".to_owned(), json!({"id": 1}).to_string())];
    let deliveries = storm::shuffled(own, 2..=2, 1, SHOP);
    let report = poster.post_all(&deliveries, 2, |_| {}).await;
    assert_eq!((report.deliveries, report.refused), (2, 2));
    assert_eq!(report.answers, BTreeMap::from([(401, 2)]));
}

#[tokio::test]
async fn a_sandbox_without_webhooks_posts_none() {
    let sandbox = start(None).await;
    let refused = sandbox.post(&storm().deliveries(NOW), 2).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("without webhooks")
    );
}
