//! The topics under which the storefront reports an order.

use strum::{EnumString, IntoStaticStr, VariantArray};

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(const_into_str)]
pub enum Topic {
    #[strum(serialize = "orders/create")]
    Create,
    #[strum(to_string = "orders/updated", serialize = "orders/partially_fulfilled")]
    Updated,
    #[strum(serialize = "orders/paid")]
    Paid,
    #[strum(serialize = "orders/fulfilled")]
    Fulfilled,
    #[strum(serialize = "orders/cancelled")]
    Cancelled,
    /// It is gone from the shop, or at WooCommerce in its trash. The body has nothing but its id.
    #[strum(serialize = "orders/delete")]
    Deleted,
}

impl Topic {
    /// Whether a topic is about an order, also one that is not handled.
    pub fn is_of_an_order(topic: &str) -> bool {
        topic.starts_with("orders/")
    }
}
