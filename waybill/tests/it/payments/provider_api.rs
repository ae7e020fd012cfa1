//! The client of the payment provider's API, tested with the stand-in over HTTP: how it reads each
//! answer, and that a call has its effect only once, however often it is made.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::money::{Currency, Money};
use platform::clock::Clock;
use platform::token::Token;
use providers::Api;
use providers::CallFailure;
use providers::payment::{Confirmed, CreatedSession, IdempotencyKey, Item, NewSession, Payment};
use sandbox::{Fault, Options, PAYMENT_KEY, Price, Sandbox};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{START, without_pauses};

const VISA: Option<&str> = Some("pm_card_visa");

/// How long a call waits between its four tries: 1, 2 and 4 seconds.
const THREE_PAUSES: Duration = Duration::from_secs(7);

async fn sandbox() -> Sandbox {
    Sandbox::start(Options::default()).await.unwrap()
}

fn client(sandbox: &Sandbox) -> Payment {
    client_with(sandbox, PAYMENT_KEY)
}

fn client_with(sandbox: &Sandbox, key: &str) -> Payment {
    client_by(&Clock::system(), sandbox, key)
}

pub fn client_by(clock: &Clock, sandbox: &Sandbox, key: &str) -> Payment {
    let api = Api {
        url: sandbox.payment_url(),
        token: Token::new(key),
        connection: None,
    };
    Payment::new(&api, clock)
}

fn key(nth: u128) -> IdempotencyKey {
    IdempotencyKey {
        job: Uuid::from_u128(nth),
        number: 1,
    }
}

fn currency(code: &str) -> Currency {
    Currency::parse(code).unwrap()
}

/// An intent that nobody has paid yet.
async fn open_intent(sandbox: &Sandbox) -> String {
    let made = reqwest::Client::new()
        .post(format!("{}/v1/payment_intents", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .form(&[("amount", "1999"), ("currency", "usd")])
        .send();
    let intent: Value = made.await.unwrap().json().await.unwrap();
    intent["id"].as_str().unwrap().to_owned()
}

async fn at_provider(sandbox: &Sandbox, path: &str) -> Value {
    let url = format!("{}/v1/{path}", sandbox.payment_url());
    let asked = reqwest::Client::new().get(url).bearer_auth(PAYMENT_KEY);
    asked.send().await.unwrap().json().await.unwrap()
}

fn declined(code: &str, decline_code: &str) -> Confirmed {
    Confirmed::Declined {
        code: Some(code.to_owned()),
        decline_code: Some(decline_code.to_owned()),
    }
}

fn mug() -> Item {
    priced("USD", 1450)
}

pub fn priced(code: &str, minor: i64) -> Item {
    Item::Priced {
        name: "Enamel mug & spoon".to_owned(),
        price: Money {
            minor,
            currency: currency(code),
        },
    }
}

pub fn session(items: impl IntoIterator<Item = (Item, i64)>) -> NewSession {
    NewSession {
        items: items.into_iter().collect(),
        success_url: "https://shop.example/thanks?a=b".to_owned(),
        cancel_url: "https://shop.example/cart".to_owned(),
        client_reference_id: None,
        pact_id: "pact_7".to_owned(),
        customer_email: None,
    }
}

fn once(key: &str) -> BTreeMap<String, u32> {
    [(key.to_string(), 1)].into()
}

#[tokio::test]
async fn a_payment_is_confirmed_once_and_then_known_to_be_paid() {
    let sandbox = sandbox().await;
    let client = client(&sandbox);
    let id = open_intent(&sandbox).await;
    let confirmed = client.confirm(&id, VISA, key(1)).await;
    assert_eq!(confirmed, Ok(Confirmed::Succeeded));
    let again = client.confirm(&id, VISA, key(1)).await;
    assert_eq!(again, Ok(Confirmed::Succeeded), "the same call");
    let other = client.confirm(&id, VISA, key(2)).await;
    assert_eq!(other, Ok(Confirmed::Already));
    assert_eq!(sandbox.payment().captures(), once(&id));
    assert_eq!(
        sandbox.payment().confirms_by_key(),
        once(&key(1).to_string())
    );
    let reused = client.confirm(&id, None, key(1)).await;
    let text = reused.unwrap_err().to_string();
    let refused = "the payment provider refused: it answered 400, idempotency_error";
    assert_eq!(text, refused);
}

#[tokio::test]
async fn a_canceled_payment_is_not_tried_again() {
    let sandbox = sandbox().await;
    let id = open_intent(&sandbox).await;
    let path = format!("{}/v1/payment_intents/{id}/cancel", sandbox.payment_url());
    let cancel = reqwest::Client::new().post(path).bearer_auth(PAYMENT_KEY);
    assert_eq!(cancel.send().await.unwrap().status(), 200);
    let confirmed = client(&sandbox).confirm(&id, VISA, key(1)).await;
    assert_eq!(confirmed, Ok(Confirmed::Already));
    assert_eq!(sandbox.payment().captures(), BTreeMap::new());
}

#[tokio::test]
async fn a_declined_payment_says_why_and_another_card_pays() {
    let sandbox = sandbox().await;
    let client = client(&sandbox);
    let id = open_intent(&sandbox).await;
    for (nth, card, code, decline_code) in [
        (1, "chargeDeclined", "card_declined", "generic_decline"),
        (
            2,
            "chargeDeclinedInsufficientFunds",
            "card_declined",
            "insufficient_funds",
        ),
        (
            3,
            "chargeDeclinedExpiredCard",
            "expired_card",
            "expired_card",
        ),
        // The buyer is not there.
        (
            4,
            "authenticationRequired",
            "authentication_required",
            "authentication_required",
        ),
    ] {
        let card = format!("pm_card_{card}");
        for _ in 0..2 {
            let confirmed = client.confirm(&id, Some(&card), key(nth)).await;
            assert_eq!(confirmed, Ok(declined(code, decline_code)), "{card}");
        }
        assert_eq!(
            sandbox.payment().confirms_by_key()[&key(nth).to_string()],
            1
        );
    }
    // A declined card is taken off its intent.
    let without = client.confirm(&id, None, key(5)).await.unwrap_err();
    assert!(without.is_final() && without.code().is_none(), "{without}");
    let confirmed = client.confirm(&id, VISA, key(6)).await;
    assert_eq!(confirmed, Ok(Confirmed::Succeeded));
}

#[tokio::test]
async fn a_payment_that_takes_its_time_is_pending() {
    let sandbox = sandbox().await;
    let client = client(&sandbox);
    let id = open_intent(&sandbox).await;
    let bank = Some("pm_usBankAccount_processing");
    for nth in [1, 1, 2] {
        let confirmed = client.confirm(&id, bank, key(nth)).await;
        assert_eq!(confirmed, Ok(Confirmed::Pending));
    }
    assert!(sandbox.payment().settle(&id));
    let confirmed = client.confirm(&id, bank, key(3)).await;
    assert_eq!(confirmed, Ok(Confirmed::Already));
}

#[tokio::test]
async fn an_id_cannot_lead_to_another_path() {
    let sandbox = sandbox().await;
    let client = client(&sandbox);
    for (nth, id) in (1..).zip([
        "pi_none",
        "pi_1/cancel?a=b#",
        "../refunds",
        "pi 1",
        "pi%2F1",
        "pi_ü",
    ]) {
        let failure = client.confirm(id, VISA, key(nth)).await.unwrap_err();
        let text = failure.to_string();
        assert!(
            text.ends_with("it answered 404, resource_missing"),
            "{text}"
        );
    }
    let asked = sandbox.payment().fault_injector.requests();
    for id in ["", ".", ".."] {
        let failure = client.confirm(id, VISA, key(1)).await.unwrap_err();
        assert!(failure.is_final(), "{failure}");
    }
    assert_eq!(sandbox.payment().fault_injector.requests(), asked);
}

#[tokio::test]
async fn a_key_that_the_provider_does_not_take_is_a_wrong_setting() {
    let sandbox = sandbox().await;
    let wrong = client_with(&sandbox, "sk_wrong");
    let failure = wrong.confirm("pi_1", VISA, key(1)).await.unwrap_err();
    let expected = CallFailure::Misconfigured {
        provider: "payment",
        status: 401,
        setting: "PAYMENT_API_KEY".to_owned(),
    };
    assert_eq!((failure.code(), failure), (None, expected.clone()));
    assert!(wrong.is_left_alone());
    let wrong = client_with(&sandbox, "sk_wrong");
    let failure = wrong.checkout(&session([(mug(), 1)]), "k").await;
    assert_eq!(failure, Err(expected));
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        2,
        "each was asked once"
    );
}

#[tokio::test]
async fn however_often_a_confirmation_is_tried_it_is_made_once() {
    let sandbox = sandbox().await;
    let fault_injector = &sandbox.payment().fault_injector;
    let id = open_intent(&sandbox).await;
    fault_injector.fail_next(1, Fault::Status(500));
    fault_injector.fail_next(1, Fault::Lose);
    fault_injector.fail_next(1, Fault::Status(409));
    let clock = Clock::manual(START);
    let client = client_by(&clock, &sandbox, PAYMENT_KEY);
    let confirmed = without_pauses(&clock, client.confirm(&id, VISA, key(1))).await;
    assert_eq!(confirmed, Ok(Confirmed::Succeeded));
    assert_eq!(clock.now(), START.plus(THREE_PAUSES));
    let name = key(1).to_string();
    assert_eq!(fault_injector.requests_by_key(), [(name, 4)].into());
    assert_eq!(
        sandbox.payment().confirms_by_key(),
        once(&key(1).to_string())
    );
    assert_eq!(sandbox.payment().captures(), once(&id));
}

#[tokio::test]
async fn what_does_not_speak_as_the_provider_is_a_wrong_address_and_not_asked_again() {
    let sandbox = sandbox().await;
    let api = Api {
        url: format!("{}/nowhere", sandbox.url()),
        token: Token::new(PAYMENT_KEY),
        connection: None,
    };
    let clock = Clock::manual(START);
    let client = Payment::new(&api, &clock);
    let failure = client.confirm("pi_1", VISA, key(1)).await.unwrap_err();
    let expected = CallFailure::WrongAddress {
        provider: "payment",
        status: 404,
        setting: "PAYMENT_API_URL".to_owned(),
    };
    assert_eq!(failure, expected);
    assert!(!failure.is_final() && failure.code().is_none());
    let text = failure.to_string();
    assert!(text.contains("404 at PAYMENT_API_URL"), "{text}");
    assert_eq!(clock.now(), START, "it waited for nothing");
}

#[tokio::test]
async fn however_often_a_session_is_asked_for_it_is_opened_once() {
    let sandbox = sandbox().await;
    let fault_injector = &sandbox.payment().fault_injector;
    fault_injector.fail_next(1, Fault::Lose);
    fault_injector.fail_next(1, Fault::RateLimit);
    fault_injector.fail_next(1, Fault::Html);
    let clock = Clock::manual(START);
    let client = client_by(&clock, &sandbox, PAYMENT_KEY);
    let wish = session([(mug(), 1)]);
    let opened = without_pauses(&clock, client.checkout(&wish, "k-1"));
    let opened = opened.await.unwrap();
    assert_eq!(clock.now(), START.plus(THREE_PAUSES));
    let again = client.checkout(&wish, "k-1").await.unwrap();
    assert_eq!(opened, again);
    assert_eq!(
        fault_injector.requests_by_key(),
        [("k-1".to_owned(), 5)].into()
    );
    assert_eq!(sandbox.payment().sessions_by_key(), once("k-1"));
    let other = client.checkout(&session([(mug(), 2)]), "k-1").await;
    let text = other.unwrap_err().to_string();
    assert!(
        text.ends_with("it answered 400, idempotency_error"),
        "{text}"
    );
}

#[tokio::test]
async fn a_provider_that_says_later_four_times_is_a_timeout_and_left_alone() {
    let sandbox = sandbox().await;
    let fault_injector = &sandbox.payment().fault_injector;
    let clock = Clock::manual(START);
    let client = client_by(&clock, &sandbox, PAYMENT_KEY);
    fault_injector.fail(Fault::Status(503));
    let failure = without_pauses(&clock, client.confirm("pi_1", VISA, key(1)));
    let failure = failure.await.unwrap_err();
    assert_eq!(clock.now(), START.plus(THREE_PAUSES));
    assert_eq!(failure.code(), Some("COMMERCE_003"));
    assert!(!failure.is_final());
    assert_eq!(
        failure.to_string(),
        "COMMERCE_003: the payment provider answered 503"
    );
    let paused = client.checkout(&session([(mug(), 1)]), "k").await;
    let paused = paused.unwrap_err();
    assert_eq!(paused, CallFailure::Paused("payment"));
    assert_eq!(paused.code(), Some("COMMERCE_003"));
    assert_eq!(fault_injector.requests(), 4);
}

#[tokio::test]
async fn a_try_without_an_answer_ends_after_five_seconds() {
    let sandbox = sandbox().await;
    let fault_injector = &sandbox.payment().fault_injector;
    let id = open_intent(&sandbox).await;
    fault_injector.fail_next(1, Fault::Timeout);
    let confirmed = client(&sandbox).confirm(&id, VISA, key(1)).await;
    assert_eq!(confirmed, Ok(Confirmed::Succeeded));
    assert_eq!(fault_injector.requests_by_key()[&key(1).to_string()], 2);
}

#[tokio::test]
async fn a_session_sells_what_is_asked_for_and_is_named_everywhere() {
    let sandbox = sandbox().await;
    sandbox.payment().add_price(Price {
        id: "price_candle".to_owned(),
        name: "Candle".to_owned(),
        amount: 1200,
        currency: currency("USD"),
        months: None,
    });
    let mut wish = session([(mug(), 1), (Item::Known("price_candle".to_owned()), 2)]);
    wish.client_reference_id = Some("order-7".to_owned());
    wish.customer_email = Some("ada+1@example.com".to_owned());
    let key = "k".repeat(255);
    let opened = client(&sandbox).checkout(&wish, &key).await.unwrap();
    let CreatedSession {
        id,
        url,
        payment_intent,
        expires_at,
    } = opened;
    assert!(
        expires_at.is_some_and(|at| at > 1_700_000_000),
        "{expires_at:?}"
    );
    assert_eq!(url, format!("{}/checkout/{id}", sandbox.payment_url()));
    let shown = at_provider(&sandbox, &format!("checkout/sessions/{id}")).await;
    for (name, value) in [
        ("mode", json!("payment")),
        ("amount_total", json!(3850)),
        ("currency", json!("usd")),
        ("success_url", json!("https://shop.example/thanks?a=b")),
        ("cancel_url", json!("https://shop.example/cart")),
        ("client_reference_id", json!("order-7")),
        ("customer_email", json!("ada+1@example.com")),
        ("metadata", json!({"pact_id": "pact_7"})),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    let intent = format!("payment_intents/{}", payment_intent.unwrap());
    let intent = at_provider(&sandbox, &intent).await;
    assert_eq!(intent["metadata"], json!({"pact_id": "pact_7"}));
    assert_eq!(sandbox.payment().sessions_by_key(), once(&key));
    let page = reqwest::get(url).await.unwrap().text().await.unwrap();
    assert!(page.contains("Enamel mug &#38; spoon"), "{page}");
}

#[tokio::test]
async fn amounts_and_currencies_that_cannot_be_paid_are_not_asked_for() {
    let sandbox = sandbox().await;
    let client = client(&sandbox);
    let refused = async |items: Vec<(Item, i64)>| {
        let failure = client.checkout(&session(items), "k").await.unwrap_err();
        let code = failure.code().unwrap_or_default();
        assert!(failure.is_final() && failure.to_string().starts_with(code));
        code
    };
    for (price, quantity) in [(0, 1), (-5, 1), (-5, -1), (1450, 0), (1450, -1)] {
        let items = vec![(priced("EUR", price), quantity)];
        assert_eq!(refused(items).await, "COMMERCE_001", "{price} {quantity}");
    }
    let known = Item::Known("price_1".to_owned());
    assert_eq!(refused(vec![(known, 0)]).await, "COMMERCE_001");
    for code in ["JPY", "CAD", "XXX"] {
        assert_eq!(refused(vec![(priced(code, 5), 1)]).await, "COMMERCE_002");
    }
    let mixed = vec![(mug(), 1), (priced("EUR", 1450), 1)];
    assert_eq!(refused(mixed).await, "COMMERCE_002");
    for key in ["", "k 1", "k\n", "ü", &"k".repeat(256)] {
        let failure = client.checkout(&session([(mug(), 1)]), key).await;
        assert!(failure.unwrap_err().is_final(), "{key:?}");
    }
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    for code in ["USD", "EUR", "GBP", "MXN"] {
        let wish = session([(priced(code, 5000), 1)]);
        assert!(client.checkout(&wish, code).await.is_ok(), "{code}");
    }
}

#[tokio::test]
async fn what_the_provider_alone_can_refuse_has_the_same_codes() {
    let sandbox = sandbox().await;
    sandbox.payment().add_price(Price {
        id: "price_yen".to_owned(),
        name: "Candle".to_owned(),
        amount: 1200,
        currency: currency("JPY"),
        months: None,
    });
    let client = client(&sandbox);
    let too_much = session([(priced("USD", 100_000_000), 1)]);
    let failure = client.checkout(&too_much, "k-1").await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "COMMERCE_001: invalid payment amount: the payment provider answered 400, amount_too_large"
    );
    let yen = session([(Item::Known("price_yen".to_owned()), 1)]);
    let failure = client.checkout(&yen, "k-2").await.unwrap_err();
    assert_eq!(failure.code(), Some("COMMERCE_002"));
    let unknown = session([(Item::Known("price_none".to_owned()), 1)]);
    let failure = client.checkout(&unknown, "k-3").await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the payment provider refused: it answered 400, resource_missing"
    );
    let mut person = session([(mug(), 1)]);
    person.customer_email = Some("ada lovelace".to_owned());
    let failure = client.checkout(&person, "k-4").await.unwrap_err();
    assert!(!failure.to_string().contains("ada"), "{failure}");
    let nothing = client.checkout(&session([]), "k-5").await.unwrap_err();
    assert!(nothing.is_final(), "{nothing}");
}
