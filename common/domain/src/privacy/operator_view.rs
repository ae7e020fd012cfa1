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
