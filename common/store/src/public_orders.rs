//! What the public pages read of orders. A record forgets its person as soon as it is
//! read here, so nobody can reach a page.

use std::cmp::Reverse;

use crate::aggregates;
use crate::orders;
use crate::sql::{Db, Result, Row};
use domain::due::AmountDue;
use domain::money::Money;
use domain::order::outcome::{FulfillmentState, ParcelState};
use domain::order::record::Record;
use domain::order::{FinancialStatus, OrderKey};
use domain::record::Forget as _;
use domain::time::Timestamp;
use subtle::ConstantTimeEq as _;

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
    /// The status that the storefront reports or the one that follows from the payments.
    pub status: Option<FinancialStatus>,
    pub total: Option<Money>,
    pub due: AmountDue,
    /// The first of its parcels.
    pub parcels: Vec<Parcel>,
    /// How far each shipment is, with a parcel or without.
    pub shipments: Vec<ParcelState>,
    /// The link to its page, which its QR code has.
    pub page_url: Option<String>,
    /// Whoever asked for it has shown its own code, and has guessed nothing.
    pub is_of_code: bool,
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
/// taken its place, because the buyer may have the link of either. An order whose own link has a code is found by that
/// code alone.
pub async fn find(
    db: &Db,
    id: i64,
    shop: Option<&str>,
    code: Option<&str>,
) -> Result<PublicOrderLookup> {
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
    let mut found = Vec::new();
    for row in &rows {
        let (key, record) = read(row)?;
        if opens(&record, code) {
            found.push((key, record, row.get("updated_at")?));
        }
    }
    // A code names one order, and of other shops there may be orders with the same id that everyone may open.
    let has_code =
        |(_, record, _): &(OrderKey, Record, Timestamp)| record.own.page_code().is_some();
    if found.iter().any(has_code) {
        found.retain(has_code);
    }
    match found.as_slice() {
        [] => Ok(PublicOrderLookup::None),
        [(key, record, updated_at)] => {
            if let Some((shop, id)) = &record.own.successor {
                let successor = page_code(db, &(shop.clone(), *id)).await?;
                return Box::pin(find(db, *id, Some(shop), successor.as_deref())).await;
            }
            let mut order = order(key.clone(), record, *updated_at);
            order.is_of_code = record.own.page_code().is_some();
            Ok(PublicOrderLookup::One(Box::new(order)))
        }
        several => {
            let shops = several.iter().map(|((shop, _), ..)| shop.clone());
            Ok(PublicOrderLookup::Several(shops.collect()))
        }
    }
}

/// Whether the pages of an order open with this code.
fn opens(record: &Record, code: Option<&str>) -> bool {
    record.own.page_code().is_none_or(|own| {
        let given = code.unwrap_or_default();
        bool::from(own.as_bytes().ct_eq(given.as_bytes()))
    })
}

/// The code with which the pages of this order open, if they ask for one.
pub async fn page_code(db: &Db, key: &OrderKey) -> Result<Option<String>> {
    let record = orders::record(db, key).await?;
    Ok(record.and_then(|record| record.own.page_code().map(ToOwned::to_owned)))
}

/// The same of the only order with this id.
pub async fn page_code_of_id(db: &Db, id: i64) -> Result<Option<String>> {
    let rows = db.query("select shop from orders where id = $1 limit 2");
    let shops: Vec<String> = rows.bind(id).all(|row| row.get("shop")).await?;
    match shops.as_slice() {
        [shop] => page_code(db, &(shop.clone(), id)).await,
        _ => Ok(None),
    }
}

fn read(row: &Row) -> Result<(OrderKey, Record)> {
    let (key, mut record): (OrderKey, Record) = aggregates::of(row)?;
    record.forget_person();
    Ok((key, record))
}

fn order((shop, id): OrderKey, record: &Record, updated_at: Timestamp) -> PublicOrder {
    let totals = &record.totals.value;
    let total = totals.total.zip(totals.currency);
    let moved_at = Timestamp(record.own.fulfillment.updated_at);
    PublicOrder {
        shop,
        id,
        name: record.name.value.clone(),
        progress: Progress::of(record),
        status: record.financial_status(),
        total: total.map(|(minor, currency)| Money { minor, currency }),
        due: record.due(),
        parcels: parcels(record).take(MOST_PARCELS).collect(),
        shipments: record.shipment_states(),
        page_url: record.own.page_url.clone(),
        is_of_code: false,
        updated_at: updated_at.max(moved_at),
    }
}

/// A parcel, also one that came back or is not sent any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub number: String,
    pub carrier: Option<String>,
    pub state: ParcelState,
    /// The link to its page. A number that fits into no QR code has none.
    pub page_url: Option<String>,
    pub updated_at: Timestamp,
}

fn parcels(record: &Record) -> impl Iterator<Item = Parcel> {
    let mut parcels = record.parcels_with_state();
    // Those that are sent come first.
    parcels.sort_by_key(|(_, state)| *state == ParcelState::Cancelled);
    parcels.into_iter().map(|(parcel, state)| {
        let stated_at = record.own.shipments_at.get(&parcel.shipment_id);
        Parcel {
            number: parcel.tracking.number.clone(),
            carrier: parcel.carrier.map(ToOwned::to_owned),
            state,
            page_url: record.own.parcel_urls.get(&parcel.tracking.number).cloned(),
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
            |known: &Parcel| (&known.carrier, known.state) == (&next.carrier, next.state);
        if !found.iter().any(is_known) {
            found.push(next);
        }
    }
    Ok(found)
}
