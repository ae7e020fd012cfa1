//! The generations of the provider's API. They differ in the places where an object links to
//! others. A merchant's account uses one generation.

use serde::{Deserialize, Serialize};

/// The shape of objects and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// Before 2022-11-15: an intent contains its charges, and a charge its refunds.
    Legacy,
    /// Before 2025-03-31: an intent names its latest charge; intents and charges name their
    /// invoice, an invoice its subscription, intent and charge.
    Acacia,
    /// Since 2025-03-31: an invoice names its subscription under `parent`, and neither intent
    /// nor charge; those do not name the invoice.
    #[default]
    Basil,
}

impl Generation {
    pub const ALL: [Self; 3] = [Self::Legacy, Self::Acacia, Self::Basil];

    /// The `api_version` of its events.
    pub fn api_version(self) -> &'static str {
        match self {
            Generation::Legacy => "2020-08-27",
            Generation::Acacia => "2025-02-24.acacia",
            Generation::Basil => "2025-03-31.basil",
        }
    }

    /// Whether intents, charges and invoices name each other.
    pub fn links_invoices(self) -> bool {
        self != Generation::Basil
    }
}
