//! The delivery faults with which events are posted.

use std::time::Duration;

use domain::signature::{self, Secrets};
use sandbox::{DeliveryFaults, Sandbox, Shuffle};
use serde_json::{Value, json};

use crate::support::receiver::{PAYMENT_SECRET, Receiver};
use crate::support::{NOW, client, intent, read, sandbox, start};

/// Posts the success of so many intents.
fn succeed(sandbox: &Sandbox, count: usize) {
    for nth in 0..count {
        let id = format!("pi_{nth}");
        sandbox.payment().add_intent(intent(&id, 1999));
        assert!(sandbox.payment().post_succeeded(&id));
    }
}

/// The intents whose events arrived, in that order.
fn arrived(receiver: &Receiver) -> Vec<String> {
    let arrivals = receiver.arrivals().into_iter();
    let bodies = arrivals.map(|arrival| serde_json::from_str::<Value>(&arrival.body).unwrap());
    bodies
        .map(|body| body["data"]["object"]["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn shuffled(seed: u64) -> Vec<String> {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().set_delivery_faults(DeliveryFaults {
        shuffle: Some(Shuffle { seed, hold: 6 }),
        ..DeliveryFaults::default()
    });
    succeed(&sandbox, 5);
    assert_eq!(receiver.arrivals().len(), 0, "held back");
    succeed(&sandbox, 8);
    sandbox.webhooks_done().await;
    arrived(&receiver)
}

#[tokio::test]
async fn repeats_come_under_one_id_and_with_one_body() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().set_delivery_faults(DeliveryFaults {
        duplicates: 3,
        ..DeliveryFaults::default()
    });
    succeed(&sandbox, 1);
    sandbox.webhooks_done().await;
    let arrivals = receiver.arrivals();
    assert_eq!((arrivals.len(), receiver.taken().len()), (3, 1));
    assert!(arrivals.iter().all(|arrival| arrival.id == arrivals[0].id));
    assert!(
        arrivals
            .iter()
            .all(|arrival| arrival.body == arrivals[0].body)
    );
}

#[tokio::test]
async fn events_that_are_held_back_come_in_the_order_of_their_seed() {
    let first = shuffled(7).await;
    assert_eq!(first, shuffled(7).await);
    assert_ne!(first, shuffled(8).await);
    let mut sorted = first.clone();
    sorted.sort();
    assert_ne!(first[..6], sorted[..6]);
    sorted.dedup();
    assert_eq!((first.len(), sorted.len()), (13, 8), "none is lost");
}

#[tokio::test]
async fn two_events_that_are_held_back_change_places() {
    for seed in 0..8 {
        let receiver = Receiver::start(0).await;
        let sandbox = start(Some(receiver.webhooks())).await;
        let shuffle = Some(Shuffle { seed, hold: 2 });
        sandbox.payment().set_delivery_faults(DeliveryFaults {
            shuffle,
            ..DeliveryFaults::default()
        });
        succeed(&sandbox, 2);
        sandbox.webhooks_done().await;
        assert_eq!(arrived(&receiver), ["pi_1", "pi_0"]);
    }
}

#[tokio::test]
async fn a_delay_is_kept() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let delay = Duration::from_millis(200);
    sandbox.payment().set_delivery_faults(DeliveryFaults {
        delay,
        ..DeliveryFaults::default()
    });
    let clock = platform::clock::Clock::system();
    let started = clock.elapsed();
    succeed(&sandbox, 1);
    sandbox.webhooks_done().await;
    assert!(clock.elapsed() >= started + delay);
    assert_eq!(receiver.taken().len(), 1);
}

#[tokio::test]
async fn a_wrong_signature_comes_before_the_right_one_and_an_old_secrets_after_it() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().set_delivery_faults(DeliveryFaults {
        wrong_signature: true,
        old_secret: Some("whsec_old".to_owned()),
        ..DeliveryFaults::default()
    });
    succeed(&sandbox, 1);
    sandbox.webhooks_done().await;
    let arrival = receiver.arrivals().remove(0);
    let parts: Vec<_> = arrival.signature.split(',').collect();
    let [t, wrong, right, old] = parts[..] else {
        panic!("{}", arrival.signature)
    };
    let holds = |secret: &str, v1: &str| {
        let secrets = Secrets::new([secret.to_owned()]);
        let header = format!("{t},{v1}");
        let header = [header.as_bytes()];
        let now = NOW.unix_seconds();
        signature::payment(&secrets, header, arrival.body.as_bytes(), now, 300).is_ok()
    };
    assert!(holds(PAYMENT_SECRET, right) && holds("whsec_old", old));
    assert!(!holds(PAYMENT_SECRET, wrong) && !holds("whsec_old", wrong));
}

#[tokio::test]
async fn delivery_faults_can_be_set_over_http_and_the_rest_becomes_as_usual() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let url = format!("{}/_control/delivery_faults", sandbox.url());
    let set = async |body: Value| {
        let asked = client().post(&url).json(&body).send().await;
        read(asked.unwrap()).await
    };
    let wish =
        json!({"duplicates": 2, "shuffle": {"hold": 9, "seed": 3}, "old_secret": "whsec_old"});
    let (status, delivery_faults) = set(wish).await;
    let expected = json!({
        "duplicates": 2,
        "shuffle": {"hold": 9, "seed": 3},
        "delay_ms": 0,
        "wrong_signature": false,
        "old_secret": true,
    });
    assert_eq!((status, delivery_faults), (200, expected));
    succeed(&sandbox, 2);
    let release = client().post(format!("{}/_control/release", sandbox.url()));
    assert_eq!(release.send().await.unwrap().status(), 204);
    let (_, usual) = set(json!({"generation": "legacy"})).await;
    assert_eq!(
        (&usual["duplicates"], &usual["shuffle"]),
        (&json!(1), &json!(null))
    );
    succeed(&sandbox, 1);
    sandbox.webhooks_done().await;
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 2 * 2 + 1);
    assert!(
        arrivals
            .iter()
            .any(|arrival| arrival.body.contains("2020-08-27"))
    );
    for (wrong, part) in [
        (json!({"duplicates": 0}), "1 to 100"),
        (json!({"shuffle": {"hold": 0}}), "1 to 1000"),
        (json!({"delay_ms": 3_600_001}), "an hour"),
        (json!({"old_secret": ""}), "a secret"),
        (json!({"generation": "new"}), "`basil`"),
        (json!({"politeness": 1}), "`delay_ms`"),
    ] {
        let (status, reported) = set(wrong).await;
        let detail = reported["detail"].as_str().unwrap();
        assert!(status == 422 && detail.contains(part), "{detail}");
    }
}

#[tokio::test]
async fn without_webhooks_there_are_no_delivery_faults() {
    let sandbox = sandbox().await;
    let url = format!("{}/_control/delivery_faults", sandbox.url());
    let set = client().post(url).json(&json!({"duplicates": 2}));
    let (status, reported) = read(set.send().await.unwrap()).await;
    assert!(
        status == 422
            && reported["detail"]
                .as_str()
                .unwrap()
                .contains("without webhooks")
    );
}
