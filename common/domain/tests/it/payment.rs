//! What every payment fixture contains, in both generations of the provider's API.

mod bought;
mod fields;
mod gone_back;
mod hostile;
mod records;
mod thin;

use domain::money::{Currency, Money};
use domain::payment::{
    Charge, Email, Event, EventType, Intent, Metadata, Object, PaymentError, Status,
};
use strum::VariantArray;

pub const OLD: &str = "2020-08-27";
pub const NEW: &str = "2026-10-28.endive";

/// Names of all fixtures, without `.json`.
pub fn fixtures() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/payment");
    let files = std::fs::read_dir(folder).expect("the folder of fixtures");
    let names = files.map(|file| file.expect("a file").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".json")?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

pub fn body(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/payment");
    std::fs::read_to_string(format!("{folder}/{name}.json")).expect("a fixture")
}

fn read(kind: EventType, variant: &str) -> Event {
    let name = format!("{}.{variant}", kind.into_str());
    let event = Event::read(body(&name).as_bytes()).expect("an event");
    assert_eq!(event.kind, kind);
    event
}

fn intent(kind: EventType, variant: &str) -> Intent {
    match read(kind, variant).object {
        Object::Intent(intent) => intent,
        other => panic!("{other:?}"),
    }
}

fn charge(variant: &str) -> Charge {
    match read(EventType::ChargeRefunded, variant).object {
        Object::Charge(charge) => charge,
        other => panic!("{other:?}"),
    }
}

fn money(minor: i64, code: &str) -> Money {
    let currency = Currency::parse(code).expect("a currency");
    Money { minor, currency }
}

fn usd(minor: i64) -> Money {
    money(minor, "USD")
}

#[expect(clippy::unnecessary_wraps, reason = "for fields that are optional")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "for fields that are optional")]
fn ada() -> Option<Email> {
    Some(Email("ada@example.com".to_owned()))
}

#[test]
fn every_fixture_is_an_event_and_every_type_is_there_in_both_generations() {
    let names = fixtures();
    assert_eq!(names.len(), 72);
    for name in &names {
        let event = Event::read(body(name).as_bytes()).expect("an event");
        assert!(event.id.starts_with("evt_"), "{name}");
        let version = event.api_version.expect("a version");
        assert!(name.starts_with(event.kind.into_str()) && name.ends_with(&version));
    }
    for &kind in EventType::VARIANTS {
        assert_eq!(kind.into_str().parse(), Ok(kind));
        // Before 2025-03-31 an invoice named its payment.
        let is_new = kind == EventType::InvoicePaymentPaid;
        for version in [OLD, NEW].into_iter().skip(usize::from(is_new)) {
            let name = format!("{}.{version}", kind.into_str());
            assert!(names.contains(&name), "{name}");
        }
    }
    let event = read(EventType::IntentSucceeded, OLD);
    assert_eq!(
        (event.id.as_str(), event.created),
        ("evt_1Example01", 1_735_732_801)
    );
}

/// The values of the metadata in the fixtures.
fn metadata() -> Metadata {
    Metadata {
        pact_id: some("pact_Example01"),
        payment_type: some("order"),
        cycle: some("once"),
    }
}

/// The intent that all fixtures are about, before anything happened to it.
fn plain() -> Intent {
    Intent {
        id: "pi_Example01".to_owned(),
        amount: usd(4995),
        received: usd(0),
        tip: 0,
        status: None,
        metadata: metadata(),
        transfer_group: None,
        customer: some("cus_Example01"),
        receipt_email: ada(),
        charge: None,
        invoice: None,
        error: None,
        cancellation_reason: None,
    }
}

#[test]
fn succeeded_intents() {
    let paid = Intent {
        received: usd(4995),
        status: Some(Status::Succeeded),
        charge: some("ch_Example01"),
        ..plain()
    };
    let read = |variant: &str| intent(EventType::IntentSucceeded, &format!("{variant}{NEW}"));
    assert_eq!(read(""), paid);
    assert_eq!(read("expanded_links."), paid, "and a deleted customer");
    let nobodys = Intent {
        metadata: Metadata::default(),
        customer: None,
        receipt_email: None,
        ..paid.clone()
    };
    assert_eq!(read("empty_metadata."), nobodys);
    let yen = Intent {
        amount: money(5400, "JPY"),
        received: money(5400, "JPY"),
        ..paid.clone()
    };
    assert_eq!(read("jpy."), yen);
    assert_eq!(read("jpy.").received.to_string(), "5400");
    let dinars = Intent {
        amount: money(12500, "KWD"),
        received: money(10250, "KWD"),
        ..paid.clone()
    };
    assert_eq!(read("kwd_captured_in_part."), dinars);
    assert_eq!(read("kwd_captured_in_part.").received.to_string(), "10.250");
    let old = Intent {
        charge: some("ch_Example02"),
        invoice: some("in_Example01"),
        ..paid
    };
    assert_eq!(
        intent(EventType::IntentSucceeded, OLD),
        old,
        "the latest of two charges"
    );
}

#[test]
fn failed_and_canceled_intents() {
    let failed = Intent {
        status: Some(Status::RequiresPaymentMethod),
        charge: some("ch_Example01"),
        error: Some(PaymentError {
            charge: some("ch_Example01"),
            code: some("card_declined"),
            decline_code: some("insufficient_funds"),
            payment_method: some("pm_Example01"),
        }),
        ..plain()
    };
    for version in [OLD, NEW] {
        assert_eq!(intent(EventType::IntentFailed, version), failed);
    }
    let not_authenticated = Intent {
        error: Some(PaymentError {
            code: some("payment_intent_authentication_failure"),
            payment_method: some("pm_Example01"),
            ..PaymentError::default()
        }),
        ..failed
    };
    let variant = format!("not_authenticated.{NEW}");
    assert_eq!(intent(EventType::IntentFailed, &variant), not_authenticated);
    for (version, reason) in [(OLD, "requested_by_customer"), (NEW, "abandoned")] {
        let canceled = Intent {
            status: Some(Status::Canceled),
            cancellation_reason: some(reason),
            ..plain()
        };
        assert_eq!(intent(EventType::IntentCanceled, version), canceled);
    }
}

#[test]
fn a_payment_names_its_cycle_and_is_counted_in_the_providers_minor_units() {
    let read = |variant: &str| intent(EventType::IntentSucceeded, &format!("{variant}{NEW}"));
    let second = read("second_cycle.");
    assert_eq!(second.metadata.cycle, some("2"));
    assert_eq!(second.metadata.payment_type, some("subscription_box"));
    assert_eq!(second.transfer_group, some("group_Example44"));
    // At the provider this amount is 10000.
    assert_eq!(read("isk.").received, money(100, "ISK"));
}

#[test]
fn refunded_charges() {
    let refunded = |minor: i64| Charge {
        id: "ch_Example01".to_owned(),
        payment_intent: some("pi_Example01"),
        amount: usd(4995),
        captured: usd(4995),
        refunded: usd(minor),
        fully_refunded: minor == 4995,
        customer: some("cus_Example01"),
        metadata: metadata(),
        transfer_group: None,
        invoice: None,
    };
    assert_eq!(charge(OLD), refunded(1500));
    assert_eq!(charge(NEW), refunded(4995));
    assert_eq!(charge(NEW).payment_id(), "pi_Example01");
    let direct = charge(&format!("without_intent.{NEW}"));
    assert_eq!(direct.payment_id(), "ch_Example01");
    let expected = Charge {
        payment_intent: None,
        customer: None,
        metadata: Metadata::default(),
        ..refunded(100)
    };
    assert_eq!(direct, expected);
}

#[test]
fn what_was_never_captured_is_not_given_back() {
    let returned = |variant: &str| charge(&format!("{variant}{NEW}")).returned();
    assert_eq!(returned(""), 4995);
    assert_eq!(returned("without_intent."), 100);
    assert_eq!(returned("never_captured."), 0);
    let in_part = charge(&format!("captured_in_part.{NEW}"));
    assert_eq!((in_part.captured, in_part.refunded), (usd(4000), usd(1995)));
    assert_eq!(in_part.returned(), 1000, "995 were never taken");
}

/// A charge of which 700 of 1000 are captured has 300 refunded at once. When everything is
/// refunded, the result is the same whether or not the provider counts the part that was never
/// captured.
#[test]
fn what_went_back_of_a_partial_capture_is_what_was_taken_at_most() {
    let returned = |captured, refunded, fully_refunded| {
        let charge = Charge {
            id: "ch_1".to_owned(),
            payment_intent: some("pi_1"),
            amount: usd(1000),
            captured: usd(captured),
            refunded: usd(refunded),
            fully_refunded,
            customer: None,
            metadata: Metadata::default(),
            transfer_group: None,
            invoice: None,
        };
        charge.returned()
    };
    assert_eq!(returned(700, 300, false), 0, "only let go");
    assert_eq!(returned(700, 500, false), 200);
    assert_eq!(returned(700, 1000, true), 700);
    assert_eq!(
        returned(700, 700, true),
        700,
        "what was let go is not counted"
    );
    assert_eq!(returned(700, 100, false), 100, "nor here");
    assert_eq!(returned(0, 1000, true), 0);
    assert_eq!(returned(1000, 1000, true), 1000);
}
