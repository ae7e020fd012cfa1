//! What becomes of a privacy request. No event says whom a request is about, but by the
//! storefront's number of the customer.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::time::Timestamp;

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", content = "data")]
pub enum PrivacyEvent {
    /// what a request asked for is done
    #[serde(rename = "privacy.request_completed")]
    RequestCompleted {
        /// `customers/data_request`, `customers/redact` or `shop/redact`
        topic: String,
        /// the storefront's id of the customer; null: of none, or it is about a whole shop
        customer_id: Option<String>,
        /// how many of what; its fields are the names of tables, and depend on the topic
        #[schema(value_type = Object)]
        counts: Value,
        /// of the export, in hex; null: there is none
        export_sha256: Option<String>,
    },
    /// an operator is to decide, and its deadline goes on: whether an erasure is meant, or whom a request means beside the
    /// certain part, which is done
    #[serde(rename = "privacy.request_held")]
    RequestHeld {
        /// as above
        topic: String,
        /// how many other customers it may mean as well
        customers: usize,
        /// how many orders without a customer it may mean as well
        orders: usize,
        /// when the erasure of a shop begins unless somebody decides before; null: not before somebody decides
        #[schema(value_type = Option<String>, format = DateTime)]
        begins_at: Option<Timestamp>,
        /// its deadline, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        due_at: Timestamp,
    },
    /// it was given up: it will not be tried again before somebody says so, and its deadline goes on
    #[serde(rename = "privacy.request_failed")]
    RequestFailed {
        /// as above
        topic: String,
        /// `COMMERCE_007`
        code: &'static str,
        /// why, without personal data
        error: String,
        /// its deadline, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        due_at: Timestamp,
    },
    /// seven days are left for it, once per request
    #[serde(rename = "privacy.deadline_near")]
    DeadlineNear(RequestDeadline),
    /// 48 hours are left for it, once per request
    #[serde(rename = "privacy.deadline_alarm")]
    DeadlineAlarm(RequestDeadline),
    /// none is left for it, once per request
    #[serde(rename = "privacy.deadline_passed")]
    DeadlinePassed(RequestDeadline),
    /// something came late of a customer whose data was erased, and was erased as well
    #[serde(rename = "privacy.erased_again")]
    ErasedAgain {
        /// how many rows of which table something was erased in
        #[schema(value_type = Object)]
        counts: Value,
    },
}

/// The deadline of a request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RequestDeadline {
    /// as above
    pub topic: String,
    /// `COMMERCE_007`
    pub code: &'static str,
    /// its deadline
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
}
