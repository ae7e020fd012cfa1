//! An account at the identity provider.

use crate::time::Timestamp;

/// An account as the provider describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub provider_id: i64,
    pub login: String,
    /// When the account was made, if the identity provider says so. An account without this time
    /// cannot claim anything.
    pub made_at: Option<Timestamp>,
}
