//! What the public pages read of orders and, as sums, from `payments`. A record forgets its person as soon as it is
//! read here, so nobody can reach a page.

use std::cmp::Reverse;

use crate::aggregates;
use crate::sql::{Db, Result, Row};
use domain::due::Account;
use domain::money::{Currency, Money};
use domain::order::OrderKey;
use domain::order::outcome::FulfillmentState;
use domain::order::record::Record;
use domain::order::settlement::Cycle;
use domain::record::Forget as _;
use domain::time::Timestamp;

/// The most shops that a page lists for one order id, and the most orders whose parcels it lists.
const MOST: i64 = 50;
/// The most parcels of an order that a page lists.
const MOST_PARCELS: usize = 50;

/// An order as everyone may see it who knows its id.
#[derive(Clone, Debug)]
pub struct PublicOrder {
    pub shop: String,
    pub id: i64,
    /// The name that the shop shows, such as `#1001`.
    pub name: Option<String>,
    pub progress: Progress,
    pub account: Account,
    /// The first of its parcels.
    pub parcels: Vec<Parcel>,
    pub updated_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Received,
    Preparing,
    Shipped,
    Cancelled,
    /// The fulfilment is cancelled, but the order is not.
    NotShipping,
}

impl Progress {
    fn of(record: &Record) -> Self {
        match record.fulfillment_state() {
            _ if record.cancelled.is_some() => Progress::Cancelled,
            FulfillmentState::Initiated => Progress::Received,
            FulfillmentState::Requested => Progress::Preparing,
            FulfillmentState::Fulfilled => Progress::Shipped,
            FulfillmentState::Cancelled => Progress::NotShipping,
        }
    }
}

/// The result of a search by id.
#[derive(Debug)]
pub enum PublicOrderLookup {
    One(Box<PublicOrder>),
    None,
    /// These shops have an order with this id, and no shop was named.
    Several(Vec<String>),
}

/// Finds an order by its id. A placeholder is found as the storefront's own order after that has
/// taken its place, because the buyer may have the link of either.
pub async fn find(db: &Db, id: i64, shop: Option<&str>) -> Result<PublicOrderLookup> {
    let rows = db
        .query(
            "select shop, id, record, updated_at from orders
             where id = $1 and ($2 is null or shop = $2)
             order by shop limit $3",
        )
        .bind(id)
        .bind(shop)
        .bind(MOST)
        .fetch_all()
        .await?;
    match rows.as_slice() {
        [] => Ok(PublicOrderLookup::None),
        [row] => {
            let (key, record) = read(row)?;
            if let Some((shop, id)) = record.own.successor {
                return Box::pin(find(db, id, Some(&shop))).await;
            }
            let mut order = order(key, &record, row.get("updated_at")?);
            if record.settled.status.is_some() {
                let agreement = record.agreement.value;
                order.account.brought = brought(db, &order, agreement).await?;
            }
            Ok(PublicOrderLookup::One(Box::new(order)))
        }
        rows => {
            let shops = rows.iter().map(|row| row.get("shop"));
            Ok(PublicOrderLookup::Several(shops.collect::<Result<_>>()?))
        }
    }
}

/// How much the payments with which the order was settled brought, less refunds, in minor units:
/// the payments of its agreement and of its checkout sessions. An order without an agreement of
/// its own has the one that is named like its id. None when a payment is in another currency, or
/// when the order's currency is not known.
async fn brought(db: &Db, order: &PublicOrder, agreement: Option<String>) -> Result<Option<i64>> {
    let Some(total) = order.account.total else {
        return Ok(None);
    };
    let rows = db
        .query(
            "select payments.id, payments.currency, payments.received_minor,
                    payments.refunded_minor, payments.fulfillment_cycle
             from payments where payments.pact_id = $1
             union
             select payments.id, payments.currency, payments.received_minor,
                    payments.refunded_minor, payments.fulfillment_cycle
             from checkout_sessions
             join payments on payments.id = checkout_sessions.payment_intent
             where payments.pact_id is null and checkout_sessions.shop = $2
               and checkout_sessions.order_id = $3",
        )
        .bind(agreement.unwrap_or_else(|| order.id.to_string()))
        .bind(order.shop.as_str())
        .bind(order.id)
        .fetch_all()
        .await?;
    let mut sum = Some(0_i64);
    for row in &rows {
        let cycle: Option<String> = row.get("fulfillment_cycle")?;
        // Payments of further cycles pay for fulfilments of their own.
        if !Cycle::named(cycle.as_deref()).is_first() {
            continue;
        }
        let received: i64 = row.get("received_minor")?;
        let kept = received.saturating_sub(row.get("refunded_minor")?).max(0);
        let is_same = Currency::parse(&row.get::<String>("currency")?) == Some(total.currency);
        if is_same || kept == 0 {
            sum = sum.map(|sum| sum.saturating_add(kept));
        } else {
            sum = None;
        }
    }
    Ok(sum)
}

fn read(row: &Row) -> Result<(OrderKey, Record)> {
    let (key, mut record): (OrderKey, Record) = aggregates::of(row)?;
    record.forget_person();
    Ok((key, record))
}

fn order((shop, id): OrderKey, record: &Record, updated_at: Timestamp) -> PublicOrder {
    let totals = &record.totals.value;
    let money = |minor: Option<i64>| {
        let money = minor.zip(totals.currency);
        money.map(|(minor, currency)| Money { minor, currency })
    };
    let progress = Progress::of(record);
    let moved_at = Timestamp(record.own.fulfillment.updated_at);
    PublicOrder {
        shop,
        id,
        name: record.name.value.clone(),
        progress,
        account: Account {
            cancelled: record.cancelled.is_some(),
            withdrawn: progress == Progress::NotShipping,
            stated: record.financial.value.clone(),
            status: record.financial_status(),
            total: money(totals.total),
            outstanding: money(record.outstanding.value),
            brought: Some(0),
        },
        parcels: parcels(record).take(MOST_PARCELS).collect(),
        updated_at: updated_at.max(moved_at),
    }
}

/// A parcel that is under way or will be soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub number: String,
    pub carrier: Option<String>,
    /// True when the storefront says that the carrier has the parcel.
    pub shipped: bool,
    pub updated_at: Timestamp,
}

fn parcels(record: &Record) -> impl Iterator<Item = Parcel> {
    let parcels = record.parcels().into_iter();
    parcels.map(|parcel| {
        let status = record.shipments[&parcel.shipment_id]
            .value
            .status
            .as_deref();
        let stated_at = record.own.shipments_at.get(&parcel.shipment_id);
        Parcel {
            number: parcel.tracking.number.clone(),
            carrier: parcel.carrier.map(ToOwned::to_owned),
            shipped: status == Some("success"),
            updated_at: Timestamp(stated_at.copied().unwrap_or_default()),
        }
    })
}

/// The parcels with this number, of the orders that changed last, the newest first. Parcels that a
/// reader could not tell apart are listed once.
pub async fn parcels_with_number(db: &Db, number: &str) -> Result<Vec<Parcel>> {
    let orders: Vec<(OrderKey, Record)> = db
        .query(
            "select orders.shop as shop, orders.id as id, orders.record as record
             from tracking_numbers
             join orders
               on orders.shop = tracking_numbers.shop and orders.id = tracking_numbers.order_id
             where tracking_numbers.number = $1
             order by orders.updated_at desc limit $2",
        )
        .bind(number)
        .bind(MOST)
        .all(read)
        .await?;
    let all = orders.iter().flat_map(|(_, record)| parcels(record));
    let mut with_number: Vec<Parcel> = all.filter(|it| it.number == number).collect();
    with_number.sort_by_key(|it| Reverse(it.updated_at));
    let mut found: Vec<Parcel> = Vec::new();
    for next in with_number {
        let is_known =
            |known: &Parcel| (&known.carrier, known.shipped) == (&next.carrier, next.shipped);
        if !found.iter().any(is_known) {
            found.push(next);
        }
    }
    Ok(found)
}
