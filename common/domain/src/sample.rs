//! What distinguishes the samples of `waybill trigger` from real orders and payments: ids and names that no provider
//! gives.

use std::ops::RangeInclusive;

/// The ids of sample customers, and of sample orders. Those of storefronts are smaller, or much larger.
pub const CUSTOMERS: RangeInclusive<i64> = 1_000_000_000_000_000..=1_999_999_999_999_999;
pub const ORDERS: RangeInclusive<i64> = 5_000_000_000_000_000..=5_999_999_999_999_999;

/// With this the names of sample orders begin, so that none is the name of a real order.
pub const NAME: &str = "#TEST-";

/// Stands in the ids of sample payments and all that belongs to them, after what says of which kind they are.
pub const MARK: &str = "Sample";

/// With these the ids of the payment provider's objects begin.
pub const OBJECTS: [&str; 8] = [
    "ch_Sample",
    "cs_test_Sample",
    "dp_Sample",
    "in_Sample",
    "inpay_Sample",
    "pi_Sample",
    "re_Sample",
    "sub_Sample",
];

/// Whether an order is a sample.
pub fn is_order(id: i64, name: Option<&str>) -> bool {
    ORDERS.contains(&id) && name.is_some_and(|name| name.starts_with(NAME))
}
