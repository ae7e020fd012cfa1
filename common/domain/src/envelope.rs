//! An event as it is published.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::time::Timestamp;
use crate::trace::TraceContext;

/// An event as it goes out, whichever version of Waybill stored it. Its JSON is the message on the broker and a line of
/// `waybill events tail --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub kind: String,
    pub shop: Option<String>,
    pub object_id: String,
    #[serde(deserialize_with = "timestamp")]
    pub created_at: Timestamp,
    pub data: Box<RawValue>,
    /// A header of the message; its body is as ever.
    #[serde(skip)]
    pub traceparent: Option<TraceContext>,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let instant = OffsetDateTime::parse(&text, &Rfc3339).map_err(serde::de::Error::custom)?;
    let millis = instant.unix_timestamp_nanos().div_euclid(1_000_000);
    i64::try_from(millis)
        .map(Timestamp)
        .map_err(serde::de::Error::custom)
}
