//! An account at the identity provider.

use crate::time::Timestamp;

/// An account as the provider describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub provider_id: i64,
    pub login: String,
    /// When the provider made it, if it says so; if not, the account claims nothing.
    pub made_at: Option<Timestamp>,
}
