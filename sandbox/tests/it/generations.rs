//! The shapes of objects and events in each generation of the API.

use sandbox::Generation;
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::{intent, payment_get, refund, start};

/// The intent as the API shows it, and the events of its payment and refund.
async fn sent_events(generation: Generation) -> (Value, Vec<Value>) {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().set_generation(generation);
    sandbox.payment().add_intent(intent("pi_1", 1999));
    sandbox.payment().post_succeeded("pi_1");
    sandbox.webhooks_done().await;
    refund(&sandbox, "payment_intent=pi_1&amount=99", "k-1")
        .send()
        .await
        .unwrap();
    sandbox.webhooks_done().await;
    let (_, intent) = payment_get(&sandbox, "payment_intents/pi_1").await;
    let events = receiver.taken().into_iter().map(|taken| taken.body);
    (intent, events.collect())
}

#[tokio::test]
async fn an_intent_holds_its_charges_or_names_the_latest() {
    for generation in Generation::ALL {
        let (intent, events) = sent_events(generation).await;
        let paid = &events[0]["data"]["object"];
        let charge = &events[1]["data"]["object"];
        let id = charge["id"].as_str().unwrap();
        assert_eq!(
            (&charge["amount_refunded"], &charge["refunded"]),
            (&json!(99), &json!(false))
        );
        match generation {
            Generation::Legacy => {
                assert!(paid.get("latest_charge").is_none());
                assert_eq!(paid["charges"]["data"][0]["id"], id);
                assert_eq!(
                    intent["charges"]["data"][0]["refunds"]["data"][0]["amount"],
                    99
                );
                assert_eq!(charge["refunds"]["total_count"], 1);
            }
            Generation::Acacia | Generation::Basil => {
                assert!(paid.get("charges").is_none());
                assert_eq!(paid["latest_charge"], id);
                assert!(charge.get("refunds").is_none());
            }
        }
        assert_eq!(
            paid.get("invoice").is_some(),
            generation != Generation::Basil
        );
        let version = events[0]["api_version"].as_str().unwrap();
        assert_eq!(version, generation.api_version());
    }
}
