//! What operators see of a body.

use domain::privacy::operator_view;
use serde_json::json;

#[test]
fn the_shape_is_seen_and_nobody_in_it() {
    let body = json!({
        "id": 7, "email": "ann@x.example", "total_price": "10.10",
        "customer": {"id": 5, "first_name": "Ann", "tags": ["Ann"]},
        "line_items": [{"id": 1, "title": "Apron", "properties": [{"value": "Ann"}]}, 7],
        "note_attributes": [{"name": "for", "value": "Ann"}],
        "Ann Lee": true, "refunds": "Ann", "shipping_address": {"city": "Annville"},
    });
    let shown = operator_view("orders/create", false, body.to_string().as_bytes());
    assert_eq!(
        shown,
        json!({
            "id": 7, "email": "[redacted: a text of 13 characters]", "total_price": "10.10",
            "customer": {
                "id": 5, "first_name": "[redacted: a text of 3 characters]",
                "tags": "[redacted: a list of 1]",
            },
            "line_items": [
                {"id": 1, "title": "Apron", "properties": "[redacted: a list of 1]"},
                "[redacted: a number]",
            ],
            "note_attributes": ["[redacted: an object of 2 fields]"],
            "[redacted: a name of 7 bytes]": "[redacted: true or false]",
            "refunds": "[redacted: a text of 3 characters]",
            "shipping_address": "[redacted: an object of 1 fields]",
        })
    );
    assert!(!shown.to_string().contains("Ann"));
}

#[test]
fn a_word_that_an_erasure_replaces_is_not_seen() {
    let body = br#"{"id":7,"financial_status":"Ann Lee","cancel_reason":"customer",
        "email":"","note":null}"#;
    assert_eq!(
        operator_view("orders/create", false, body),
        json!({
            "id": 7, "financial_status": "[redacted: a text of 7 characters]",
            "cancel_reason": "customer", "email": "[redacted: an empty text]", "note": null,
        })
    );
}

#[test]
fn what_is_kept_of_no_kind_and_what_is_no_json_shows_nothing() {
    let unknown = operator_view("customers/update", false, br#"{"email":"ann@x.example"}"#);
    assert_eq!(unknown, json!("[redacted: an object of 1 fields]"));
    let broken = operator_view("orders/create", false, b"{ann");
    assert_eq!(broken, json!("[not JSON that can be read: 4 bytes]"));
    let ours = operator_view(
        "refunds/issue",
        true,
        br#"{"order_id":7,"x":"ann@x.example"}"#,
    );
    assert_eq!(ours["order_id"], 7);
    assert!(!ours.to_string().contains("ann@"));
}
