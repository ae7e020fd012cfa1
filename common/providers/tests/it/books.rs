//! What a charge of the payment provider's books has moved.

use providers::payment::Charge;
use serde_json::{Value, json};

fn moved(fields: &Value) -> (i64, i64) {
    let mut charge = json!({
        "id": "ch_1", "payment_intent": "pi_1", "currency": "eur", "amount": 1000, "amount_captured": 1000,
        "amount_refunded": 0, "captured": true, "refunded": false, "status": "succeeded",
    });
    for (name, value) in fields.as_object().unwrap() {
        charge[name] = value.clone();
    }
    serde_json::from_value::<Charge>(charge).unwrap().moved()
}

#[test]
fn only_money_that_was_taken_moves_and_what_was_never_captured_does_not_come_back() {
    assert_eq!(moved(&json!({})), (1000, 0));
    assert_eq!(moved(&json!({"amount_refunded": 400})), (1000, 400));
    // 10.00 were authorised and 7.00 are captured, and the provider counts the rest as refunded.
    let partly = json!({"amount_captured": 700, "amount_refunded": 300});
    assert_eq!(moved(&partly), (700, 0));
    let partly = json!({"amount_captured": 700, "amount_refunded": 500});
    assert_eq!(moved(&partly), (700, 200));
    let released =
        json!({"amount_captured": 0, "captured": false, "amount_refunded": 1000, "refunded": true});
    assert_eq!(moved(&released), (0, 0));
    // A debit of a bank account is captured before anybody has the money.
    assert_eq!(moved(&json!({"status": "pending"})), (0, 0));
    assert_eq!(
        moved(&json!({"status": "failed", "amount_captured": 0})),
        (0, 0)
    );
    // Old versions of the API leave the captured amount out.
    assert_eq!(moved(&json!({"amount_captured": null})), (1000, 0));
}
