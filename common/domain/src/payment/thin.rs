//! Thin events: the provider names an object and leaves it out (`object` is `v2.core.event`, the
//! type is `v1.` and the usual one). The object is fetched from its API, as it is by then, and
//! read as if the event had brought it.

use std::sync::LazyLock;

use serde_json::json;
use serde_json::value::RawValue;
use strum::VariantArray;

use super::EventType;
use super::fields::{id, required, seconds_in_words};
use crate::json::{self, At, Field, Problem, Unreadable, fields};

/// What the types of thin events begin with.
const VERSION: &str = "v1.";
/// What a thin event says of itself.
const OBJECT: &str = "v2.core.event";
const LONGEST_PATH: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinEvent {
    pub id: String,
    pub kind: EventType,
    /// Unix seconds.
    pub created: i64,
    /// Below the API's address, such as `/v1/payment_intents/pi_1`.
    pub path: String,
    /// The account that it is of, where it is not the API key's own.
    pub context: Option<String>,
}

/// The type of the thin event in place of one of this type: `v1.charge.refunded`.
pub fn event_type(of: EventType) -> &'static str {
    static TYPES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let thin = |of: &EventType| format!("{VERSION}{}", of.into_str());
        EventType::VARIANTS.iter().map(thin).collect()
    });
    &TYPES[of as usize]
}

/// True for the `object` of a thin event.
pub fn is_thin(object: &str) -> bool {
    object == OBJECT
}

fields! { Body {
    id, object,
    #[serde(rename = "type")]
    kind,
    created, context, related_object,
}}

fields! { Related { url } }

impl ThinEvent {
    /// An error is final: the same bytes will never be one.
    pub fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let body: Body = json::object(body)?;
        let object = body.object.text().unwrap_or_default();
        if !object.is_some_and(|object| is_thin(&object)) {
            return Err(Problem::Foreign).at("object");
        }
        let event_type = required(body.kind.text()).at("type")?;
        let usual = event_type.strip_prefix(VERSION).unwrap_or_default();
        let related = required(body.related_object.object::<Related>()).at("related_object")?;
        Ok(ThinEvent {
            id: required(id(body.id)).at("id")?,
            kind: usual.parse().map_err(|_| Problem::Foreign).at("type")?,
            created: required(seconds_in_words(body.created)).at("created")?,
            path: required(path(related.url)).at("related_object.url")?,
            context: id(body.context).at("context")?,
        })
    }

    /// The event as it would have been with its object.
    pub fn with(&self, object: &RawValue) -> Vec<u8> {
        let event = json!({
            "id": self.id,
            "object": "event",
            "type": self.kind.into_str(),
            "created": self.created,
            "account": self.context,
            "data": { "object": object },
        });
        event.to_string().into_bytes()
    }
}

/// A path of the API's first version alone: it is asked with our key.
fn path(url: Field) -> Result<Option<String>, Problem> {
    let Some(path) = url.text()? else {
        return Ok(None);
    };
    let is_part = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !part.is_empty() && part.bytes().all(fits)
    };
    let parts = path.strip_prefix("/v1/").map(|rest| rest.split('/'));
    let fits = path.len() <= LONGEST_PATH && parts.is_some_and(|mut parts| parts.all(is_part));
    fits.then_some(Some(path)).ok_or(Problem::WrongShape)
}
