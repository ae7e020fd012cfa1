//! Further erasures: an order of a person whose data was erased came late, and other rows may lead
//! to that person which the first erasure could not find, such as a payment that only this order
//! leads to.

use std::collections::{BTreeMap, BTreeSet};

use domain::job::Internal;
use domain::order::OrderKey;
use serde_json::json;
use store::erasure;
use store::sql::Tx;

use crate::Result;
use crate::outbox::Outbox;

/// Asks for a job that erases what belongs to these orders, one for each shop. Its body holds ids alone. For each order the
/// map says whether it has a tombstone of its own; if it has one and its erasure already knows the
/// order, there is nothing more to erase. The job leaves the order's customer alone, because they
/// may have come back since.
pub(crate) async fn erase_again(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    erased: &BTreeMap<OrderKey, bool>,
) -> Result<()> {
    let mut of_shops: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for ((shop, id), has_tombstone) in erased {
        if *has_tombstone && erasure::is_known(tx, shop, *id).await? {
            continue;
        }
        of_shops.entry(shop).or_default().insert(*id);
    }
    for (shop, orders) in of_shops {
        let first = orders.first().copied().unwrap_or_default();
        let key = (shop.to_owned(), first);
        let body = json!({ "orders": orders });
        outbox.job(Internal::EraseAgain, &key, &body);
    }
    Ok(())
}
