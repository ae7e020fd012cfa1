//! The body of a job in the form in which an operator may see it. It shows which fields the body
//! has and the values that an erasure would keep; of every other value it shows only what kind of
//! value it is. An operator who repairs an unreadable delivery learns its shape without learning
//! anybody's name.

use serde_json::{Map, Value, json};

use super::erased_body;
use crate::redact::redact;

/// Field names of at most this many bytes are shown, if they have only lower-case letters, digits
/// and underscores. Any other name could be that of a person.
const LONGEST_NAME: usize = 40;

/// A body in which everything that may be personal is replaced. `is_ours` is true for a body that
/// Waybill made itself, which has only ids.
pub fn operator_view(kind: &str, is_ours: bool, body: &[u8]) -> Value {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return json!(format!("[not JSON that can be read: {} bytes]", body.len()));
    };
    if is_ours {
        return redacted(&value);
    }
    let kept = erased_body(kind, body).and_then(|kept| serde_json::from_slice(&kept).ok());
    merged(&value, kept.as_ref())
}

/// The value, in which everything that `kept` does not have is replaced.
fn merged(value: &Value, kept: Option<&Value>) -> Value {
    match (value, kept) {
        (Value::Object(fields), Some(Value::Object(kept))) => {
            let fields = fields.iter().map(|(name, value)| {
                let kept = kept.get(name).filter(|kept| !kept.is_null());
                (shown_name(name), merged(value, kept))
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        (Value::Array(items), Some(Value::Array(kept))) => {
            // The erased list leaves out items of another shape, so the items that it keeps are
            // matched in sequence.
            let mut kept = kept.iter().peekable();
            let items = items.iter().map(|item| {
                let its = kept.next_if(|kept| kept.is_object() == item.is_object());
                merged(item, its)
            });
            Value::Array(items.collect())
        }
        (value, Some(kept)) if value == kept => value.clone(),
        (Value::Null, _) => Value::Null,
        (value, _) => json!(format!("[redacted: {}]", described(value))),
    }
}

fn shown_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.len() <= LONGEST_NAME && name.bytes().all(is_plain) {
        return name.to_owned();
    }
    format!("[redacted: a name of {} bytes]", name.len())
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) if text.is_empty() => "an empty text".to_owned(),
        Value::String(text) => format!("a text of {} characters", text.chars().count()),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => format!("an object of {} fields", fields.len()),
    }
}

/// A body that Waybill made, which has only ids. Texts that look personal nevertheless are
/// redacted.
fn redacted(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text).into_owned()),
        Value::Array(items) => items.iter().map(redacted).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), redacted(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
