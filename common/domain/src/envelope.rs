//! An event as it is published.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::time::Timestamp;
use crate::trace::TraceContext;

/// An event in the form in which it is sent, whichever version of Waybill stored it. Its JSON is
/// the message on the broker and a line of `waybill events tail --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub kind: String,
    pub shop: Option<String>,
    pub object_id: String,
    pub created_at: Timestamp,
    pub data: Box<RawValue>,
    /// Sent as a header of the message, so the message's body does not have it.
    #[serde(skip)]
    pub traceparent: Option<TraceContext>,
}
