//! Lists orders, page by page, for the commerce API and for `waybill orders list` (docs/orders.md).
//!
//! - The newest order comes first. An order is as old as its `created_at`, or, while no delivery
//!   has said when it was ordered, as its row. Neither changes when the order does, so an order
//!   keeps its place, and orders that are added meanwhile move no other.
//! - A page is one statement on an index, or one for each shop, when the reader may see only some
//!   shops. It counts nothing. A cursor is the place of the last order that was looked at.
//! - The filters by status and by `updated_at` have no index: these columns change with nearly
//!   every delivery, and each index on them would be written as often. A page looks at
//!   [`LOOKED_AT`] orders at most and then ends, with few or no orders in it and with a cursor.
//!   Whoever wants to follow changes reads events (docs/events.md).
//! - Only orders of shops that the reader may see are looked at, so a cursor names no other shop.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::amount;
pub use super::cursor::{Cursor, NotACursor};
use super::view::Successor;
use crate::aggregates;
use crate::sql::{Db, FromRow, Query, Result};
use domain::order::record::Record;
use domain::order::{FinancialStatus, OrderKey};
use domain::time::Timestamp;

/// How many orders a page looks at, at most, to find those that fit.
pub const LOOKED_AT: usize = 1000;

/// What a filter by `fulfillment.state` may ask for.
pub const STATES: [&str; 5] = ["initiated", "requested", "fulfilled", "cancelled", NONE];

/// The word of a filter by status for orders that have no such status.
pub const NONE: &str = "none";

/// An order in a list. Its fields are those of the order itself.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ListedOrder {
    /// The storefront's id as text, for readers whose numbers end at 2^53.
    #[schema(example = "820982911946154508")]
    pub order_id: String,
    pub id: i64,
    #[schema(example = "shop.example")]
    pub shop: String,
    #[schema(example = "#1042")]
    pub name: Option<String>,
    #[schema(example = "paid")]
    pub financial_status: Option<String>,
    #[schema(example = "paid")]
    pub payment_status: Option<String>,
    #[schema(example = "fulfilled")]
    pub fulfillment_status: Option<String>,
    /// Null: nothing was asked for this order yet.
    pub fulfillment: Option<ListedFulfillment>,
    #[schema(example = "EUR")]
    pub currency: Option<String>,
    #[schema(example = "199.00")]
    pub total_price: Option<String>,
    /// When it was ordered, as the storefront says.
    pub created_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    #[schema(example = "customer")]
    pub cancel_reason: Option<String>,
    /// Of an order that a checkout session made: the storefront's own, which has taken its
    /// place.
    pub superseded_by: Option<Successor>,
    /// When anything of it changed here.
    pub updated_at: Timestamp,
    /// When it was ordered, or when Waybill came to know it, while nobody has said that.
    #[serde(skip)]
    pub listed_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ListedFulfillment {
    /// `initiated`, `requested`, `fulfilled` or `cancelled`.
    #[schema(example = "fulfilled")]
    pub state: String,
}

/// A page of the list.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderList {
    /// The newest first. With filters by status or `updated_after` a page may have few orders, or
    /// none, and yet not be the last.
    pub orders: Vec<ListedOrder>,
    /// What to give as `after` for the next page; null: that was all.
    #[schema(value_type = Option<String>, example = "MTc5NTE4NDk4NDAwMC44MjA5ODI5MTE5NDYxNTQ1MDguc2hvcC5leGFtcGxl")]
    pub next: Option<Cursor>,
}

/// Which orders to list. `None` means any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those whose orders the reader may see, or has asked for.
    pub shops: Option<Vec<String>>,
    /// As the shop shows it. The `#` before it may be left out.
    pub name: Option<String>,
    /// Of `fulfillment.state`.
    pub state: Option<String>,
    pub financial_status: Option<String>,
    pub payment_status: Option<String>,
    pub fulfillment_status: Option<String>,
    /// Those that were created at this time or later.
    pub created_after: Option<Timestamp>,
    /// Those that changed at this time or later.
    pub updated_after: Option<Timestamp>,
}

impl Filter {
    /// Whether orders must be looked at that the statements cannot leave out.
    fn is_by_what_changes(&self) -> bool {
        let statuses = [
            &self.state,
            &self.financial_status,
            &self.payment_status,
            &self.fulfillment_status,
        ];
        self.updated_after.is_some() || statuses.iter().any(|it| it.is_some())
    }

    fn fits(&self, order: &Candidate) -> bool {
        is(self.state.as_ref(), Some(&order.state))
            && is(
                self.financial_status.as_ref(),
                order.financial_status.as_ref(),
            )
            && is(self.payment_status.as_ref(), order.payment_status.as_ref())
            && is(
                self.fulfillment_status.as_ref(),
                order.fulfillment_status.as_ref(),
            )
            && self.updated_after.is_none_or(|at| order.updated_at >= at)
    }

    /// The names by which the order may be known: with and without `#`.
    fn names(&self) -> Option<(String, String)> {
        let name = self.name.as_ref()?;
        let bare = name.strip_prefix('#').unwrap_or(name);
        Some((name.clone(), format!("#{bare}")))
    }
}

fn is(wanted: Option<&String>, status: Option<&String>) -> bool {
    match wanted {
        None => true,
        Some(wanted) if wanted == NONE => status.is_none(),
        wanted => status == wanted,
    }
}

/// The next page after a cursor, with at most `limit` orders.
pub async fn page(
    db: &Db,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<OrderList> {
    let most = if filter.is_by_what_changes() {
        LOOKED_AT.max(limit + 1)
    } else {
        limit + 1
    };
    let looked_at = look(db, filter, after, most).await?;
    let is_last = looked_at.len() < most;
    let mut found = Vec::new();
    let mut next = None;
    let mut is_full = false;
    for order in looked_at {
        is_full = found.len() == limit;
        if is_full {
            break;
        }
        next = Some(order.place());
        if filter.fits(&order) {
            found.push(order);
        }
    }
    Ok(OrderList {
        orders: shown(db, found).await?,
        next: next.filter(|_| is_full || !is_last),
    })
}

/// What the list shows of orders.
async fn shown(db: &Db, found: Vec<Candidate>) -> Result<Vec<ListedOrder>> {
    let keys: Vec<OrderKey> = found.iter().map(|it| (it.shop.clone(), it.id)).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let orders = db.query("select shop, id, record from orders where (shop, id) in ($1..)");
    let mut records: BTreeMap<OrderKey, Record> = aggregates::read(orders.bind(keys)).await?;
    let orders = found.into_iter().filter_map(|order| {
        let record = records.remove(&(order.shop.clone(), order.id))?;
        Some(ListedOrder::of(order, record))
    });
    Ok(orders.collect())
}

/// The next orders that the statements can find, at most `most` of them.
async fn look(
    db: &Db,
    filter: &Filter,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Vec<Candidate>> {
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let since = filter.created_after.map_or(i64::MIN, |at| at.0);
    let names = filter.names();
    let mut found = Vec::new();
    let Some(shops) = &filter.shops else {
        let begin = Cursor {
            at: i64::MAX,
            shop: String::new(),
            id: 0,
        };
        let after = after.unwrap_or(&begin);
        let statement = if names.is_some() { NAMED } else { ALL };
        let query = db
            .query(statement)
            .bind(after.at)
            .bind(since)
            .bind(limit)
            .bind(after.shop.as_str())
            .bind(after.id);
        return read_all(query, names).await;
    };
    for shop in shops {
        let (at, id) = place_within(shop, after);
        let statement = if names.is_some() {
            NAMED_OF_SHOP
        } else {
            OF_SHOP
        };
        let query = db
            .query(statement)
            .bind(at)
            .bind(since)
            .bind(limit)
            .bind(shop.as_str())
            .bind(id);
        found.extend(read_all(query, names.clone()).await?);
    }
    found.sort_by_key(|order| Reverse(order.place()));
    found.dedup_by_key(|order| order.place());
    found.truncate(most);
    Ok(found)
}

/// Where a cursor is among the orders of one shop: those that are older come after it, and of
/// those that are as old, the ones up to this id. Shops are compared here and not by the database,
/// which may sort texts in another way.
fn place_within(shop: &str, after: Option<&Cursor>) -> (i64, i64) {
    match after {
        None => (i64::MAX, i64::MAX),
        Some(after) if shop == after.shop => (after.at, after.id.saturating_sub(1)),
        Some(after) if *shop < *after.shop => (after.at, i64::MAX),
        Some(after) => (after.at, i64::MIN),
    }
}

async fn read_all(query: Query<'_, '_>, names: Option<(String, String)>) -> Result<Vec<Candidate>> {
    let query = match names {
        Some((name, other)) => query.bind(name).bind(other),
        None => query,
    };
    query.all(Candidate::from_row).await
}

/// A statement that reads the orders which fit a condition, sorted by these expressions. Their records,
/// which are much larger, are read of those that are shown.
macro_rules! orders {
    ($condition:literal, $sequence:literal) => {
        concat!(
            "select shop, id, listed_at, state, financial_status, payment_status,
                    fulfillment_status, updated_at
             from orders where ",
            $condition,
            " order by ",
            $sequence,
            " limit $3"
        )
    };
}

const ALL: &str = orders!(
    "listed_at <= $1 and listed_at >= $2
     and (listed_at < $1 or shop < $4 or (shop = $4 and id < $5))",
    "listed_at desc, shop desc, id desc"
);

const OF_SHOP: &str = orders!(
    "shop = $4
     and listed_at <= $1 and listed_at >= $2
     and (listed_at < $1 or id <= $5)",
    "shop desc, listed_at desc, id desc"
);

/// Few orders have one name. The sums and the joined text keep the databases from going through
/// all orders, or all of the shop, by their age in search of them.
const NAMED: &str = orders!(
    "(name = $6 or name = $7)
     and listed_at + 0 <= $1 and listed_at + 0 >= $2
     and (listed_at < $1 or shop < $4 or (shop = $4 and id < $5))",
    "listed_at + 0 desc, shop desc, id desc"
);

const NAMED_OF_SHOP: &str = orders!(
    "(name = $6 or name = $7) and shop || '' = $4
     and listed_at + 0 <= $1 and listed_at + 0 >= $2
     and (listed_at < $1 or id <= $5)",
    "listed_at + 0 desc, id desc"
);

/// An order that is looked at.
#[derive(FromRow)]
struct Candidate {
    shop: String,
    id: i64,
    listed_at: i64,
    state: String,
    financial_status: Option<String>,
    payment_status: Option<String>,
    fulfillment_status: Option<String>,
    updated_at: Timestamp,
}

impl Candidate {
    fn place(&self) -> Cursor {
        Cursor {
            at: self.listed_at,
            shop: self.shop.clone(),
            id: self.id,
        }
    }
}

impl ListedOrder {
    fn of(order: Candidate, record: Record) -> Self {
        let text = |status: FinancialStatus| status.as_str().to_owned();
        let totals = &record.totals.value;
        let cancellation = record.cancellation();
        let fulfillment = record.fulfillment.value.as_ref();
        ListedOrder {
            order_id: order.id.to_string(),
            id: order.id,
            shop: order.shop,
            financial_status: record.financial_status().map(text),
            payment_status: record.settled.status.clone().map(text),
            fulfillment_status: fulfillment.map(|it| it.as_str().to_owned()),
            fulfillment: Some(ListedFulfillment {
                state: record.fulfillment_state().to_string(),
            }),
            currency: totals.currency.map(|currency| currency.to_string()),
            total_price: amount(totals.total, totals.currency),
            created_at: record.ordered_at.map(Timestamp),
            cancelled_at: cancellation.as_ref().map(|it| Timestamp(it.at)),
            cancel_reason: cancellation.and_then(|it| it.reason),
            superseded_by: Successor::of(&record.own),
            name: record.name.value,
            updated_at: order.updated_at,
            listed_at: Timestamp(order.listed_at),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/orders/list.rs"]
mod tests;
