//! Tests of what is private in `src/payment.rs`.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{ErrorBody, Payment, Refusal};
use crate::Api;
use crate::CallFailure;
use platform::clock::Clock;
use platform::token::Token;

fn failure(status: u16, error: &Value) -> CallFailure {
    let body = json!({ "error": error }).to_string();
    let body: ErrorBody = serde_json::from_str(&body).unwrap();
    let refusal = Refusal {
        status: StatusCode::from_u16(status).unwrap(),
        error: body.error,
        is_stored: false,
    };
    let api = Api {
        url: "http://127.0.0.1:1".to_owned(),
        token: Token::new("key"),
        connection: None,
    };
    refusal.failure(&Payment::new(&api, &Clock::system()).provider)
}

#[test]
fn errors_have_the_codes_of_the_application() {
    let invalid = "invalid_request_error";
    let param = "line_items[0][price_data][currency]";
    for (error, code) in [
        (
            json!({"type": invalid, "code": "amount_too_small"}),
            Some("COMMERCE_001"),
        ),
        (
            json!({"type": invalid, "code": "amount_too_large"}),
            Some("COMMERCE_001"),
        ),
        (
            json!({"type": invalid, "code": "parameter_invalid_integer", "param": "amount"}),
            Some("COMMERCE_001"),
        ),
        (
            json!({"type": invalid, "code": "currency_not_supported"}),
            Some("COMMERCE_002"),
        ),
        (
            json!({"type": invalid, "param": "currency"}),
            Some("COMMERCE_002"),
        ),
        (
            json!({"type": invalid, "param": param}),
            Some("COMMERCE_002"),
        ),
        (
            json!({"type": invalid, "code": "parameter_missing", "param": "currency"}),
            None,
        ),
        (json!({"type": "api_error", "param": "currency"}), None),
        (json!({"type": "idempotency_error"}), None),
        (json!({}), None),
    ] {
        let failure = failure(400, &error);
        assert_eq!(failure.code(), code, "{error}");
        assert!(failure.is_final(), "{error}");
        assert_eq!(failure.status(), code.is_none().then_some(400), "{error}");
        let text = failure.to_string();
        assert!(text.contains("answered 400"), "{text}");
        assert!(code.is_none_or(|code| text.starts_with(code)), "{text}");
    }
}

#[test]
fn nothing_but_short_codes_of_the_provider_is_passed_on() {
    let reported = |error| failure(400, &error).to_string();
    assert_eq!(
        reported(json!({"type": "invalid_request_error", "code": "resource_missing"})),
        "the payment provider refused: it answered 400, resource_missing"
    );
    assert_eq!(
        reported(json!({"type": "idempotency_error", "message": "ada@example.com"})),
        "the payment provider refused: it answered 400, idempotency_error"
    );
    let long = "a".repeat(65);
    for person in ["Ada Lovelace", "ada@example.com", long.as_str(), ""] {
        let text = reported(json!({"type": person, "code": person, "message": person}));
        assert_eq!(text, "the payment provider refused: it answered 400");
    }
}
