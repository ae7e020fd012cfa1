//! Events without their object.

use domain::job::Kind;
use domain::payment::thin::ThinEvent;
use domain::payment::{Event, EventType, Object};
use domain::privacy::erased_body;
use serde_json::value::RawValue;

const BODY: &[u8] = include_bytes!("../../fixtures/profiles/stripe.thin_event.json");

#[test]
fn a_thin_event_becomes_the_event_that_it_stands_for() {
    let thin = ThinEvent::read(BODY).unwrap();
    assert_eq!(thin.kind, EventType::IntentSucceeded);
    assert_eq!(thin.path, "/v1/payment_intents/pi_3Thin1");
    assert_eq!(thin.created, 1_793_182_965);
    let object = r#"{"id":"pi_3Thin1","object":"payment_intent","amount":1099,"currency":"usd","status":"succeeded"}"#;
    let object = RawValue::from_string(object.to_owned()).unwrap();
    let event = Event::read(&thin.with(&object)).unwrap();
    assert_eq!(event.id, thin.id);
    assert_eq!((event.kind, event.created), (thin.kind, thin.created));
    let Object::Intent(intent) = event.object else {
        panic!("an intent");
    };
    assert_eq!(
        (intent.id.as_str(), intent.received.minor),
        ("pi_3Thin1", 1099)
    );
}

#[test]
fn a_time_before_1970_is_out_of_range_however_it_is_written() {
    let text = String::from_utf8(BODY.to_vec()).unwrap();
    let thin = text.replace("2026-", "1966-");
    assert_ne!(thin, text);
    assert!(ThinEvent::read(thin.as_bytes()).is_err());
    let words = r#"{"type":"charge.refunded","timestamp":"1966-10-28T10:22:45Z","data":{"object":
        {"id":"ch_1","object":"charge","amount":5,"amount_refunded":5,"currency":"usd"}}}"#;
    assert!(Event::read(words.as_bytes()).is_err());
}

#[test]
fn only_a_path_of_the_api_is_ever_asked_with_our_key() {
    let text = String::from_utf8(BODY.to_vec()).unwrap();
    for url in [
        "https://elsewhere.example/v1/payment_intents/pi_1",
        "//elsewhere.example/v1/x",
        "/v1/../v2/x",
        "/v1/payment_intents/pi_1?expand=x",
        "/v1/",
        "/v2/core/accounts/acct_1",
        "",
    ] {
        let body = text.replace("/v1/payment_intents/pi_3Thin1", url);
        assert!(ThinEvent::read(body.as_bytes()).is_err(), "{url}");
    }
}

#[test]
fn the_types_of_thin_events_are_ours_with_a_version_before_them() {
    let thin = |of| Some(Kind::ThinPayment(of));
    let named = Kind::named("v1.charge.refunded");
    assert_eq!(named, thin(EventType::ChargeRefunded));
    assert_eq!(Kind::named("v1.billing.meter.no_meter_found"), None);
    assert!(Event::read(BODY).is_err(), "it has no object");
    let kept = erased_body("v1.payment_intent.succeeded", BODY).unwrap();
    assert_eq!(ThinEvent::read(&kept), ThinEvent::read(BODY));
}

#[test]
fn an_event_of_standard_webhooks_has_its_time_in_words_and_its_id_elsewhere() {
    let body = br#"{"type":"charge.refunded","timestamp":"2026-10-28T10:22:45Z","data":{"object":
        {"id":"ch_1","object":"charge","amount":1099,"amount_refunded":1099,"currency":"usd","refunded":true}}}"#;
    let event = Event::read(body).unwrap();
    assert_eq!(event.created, 1_793_182_965);
    assert!(event.id.starts_with("evt_"), "{}", event.id);
    assert_eq!(Event::read(body).unwrap().id, event.id);
    let bare = br#"{"type":"charge.refunded","created":1,"data":{"object":{}}}"#;
    assert_eq!(Event::read(bare).unwrap_err().to_string(), "id is missing");
}
