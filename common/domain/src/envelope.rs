//! An event as it is published.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;
use crate::trace::TraceContext;

/// An event in the form in which it is sent, whichever version of Waybill stored it. Its JSON is
/// the message on the broker and a line of `waybill events tail --json`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Event, description = "What happened. The fields of `data` are those of its type, under Events.")]
pub struct Envelope {
    /// The same whenever it is sent.
    pub id: Uuid,
    #[serde(rename = "type")]
    #[schema(example = "order.created")]
    pub kind: String,
    #[schema(example = "shop.example")]
    pub shop: Option<String>,
    #[schema(example = "820982911946154508")]
    pub object_id: String,
    pub created_at: Timestamp,
    #[schema(value_type = Object)]
    pub data: Box<RawValue>,
    /// Its place in the sequence that readers see, where it was read from the database.
    #[serde(skip)]
    pub position: i64,
    /// Sent as a header of the message, so the message's body does not have it.
    #[serde(skip)]
    pub traceparent: Option<TraceContext>,
}
