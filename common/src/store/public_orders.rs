//! What the public pages read of `orders`, `fulfillments`, `shipments` and `parcels`. No
//! column that could hold personal data is selected here, so none can reach a page.

use crate::clock::Timestamp;
use crate::due::Account;
use crate::money::{Currency, Money};
use crate::order::{FinancialStatus, settlement};
use crate::sql::{Db, Result, Row};

/// The most shops, parcels or differing parcels with one number that a page lists.
const MOST: i64 = 50;

/// An order as everyone may see it who knows its id.
#[derive(Clone, Debug)]
pub struct PublicOrder {
    pub shop: String,
    pub id: i64,
    /// As the shop shows it, such as `#1001`.
    pub name: Option<String>,
    pub progress: Progress,
    pub account: Account,
    pub updated_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Received,
    Preparing,
    Shipped,
    Cancelled,
    /// Its fulfilment is cancelled, and the order is not.
    NotShipping,
}

impl Progress {
    fn of(cancelled: bool, fulfillment: Option<&str>) -> Self {
        match fulfillment {
            _ if cancelled => Progress::Cancelled,
            Some("requested") => Progress::Preparing,
            Some("fulfilled") => Progress::Shipped,
            Some("cancelled") => Progress::NotShipping,
            _ => Progress::Received,
        }
    }
}

/// The answer to a search by id.
#[derive(Debug)]
pub enum Found {
    One(Box<PublicOrder>),
    None,
    /// These shops have an order with this id, and none was named.
    Several(Vec<String>),
}

pub async fn find(db: &Db, id: i64, shop: Option<&str>) -> Result<Found> {
    let rows = db
        .query(
            "select orders.shop, orders.id, orders.name, orders.currency, orders.total_minor,
                    orders.outstanding_minor, orders.financial_status, orders.payment_status,
                    orders.cancelled_at, orders.updated_at, fulfillments.state as state,
                    fulfillments.updated_at as fulfillment_updated_at
             from orders
             left join fulfillments
               on fulfillments.shop = orders.shop and fulfillments.order_id = orders.id
             where orders.id = $1 and ($2 is null or orders.shop = $2)
             order by orders.shop limit $3",
        )
        .bind(id)
        .bind(shop)
        .bind(MOST)
        .fetch_all()
        .await?;
    match rows.as_slice() {
        [] => Ok(Found::None),
        [row] => Ok(Found::One(Box::new(order(row)?))),
        rows => {
            let shops = rows.iter().map(|row| row.get("shop"));
            Ok(Found::Several(shops.collect::<Result<_>>()?))
        }
    }
}

fn order(row: &Row) -> Result<PublicOrder> {
    let currency = row
        .get::<Option<String>>("currency")?
        .and_then(|code| Currency::parse(&code));
    let money = |name| -> Result<Option<Money>> {
        let minor: Option<i64> = row.get(name)?;
        Ok(minor
            .zip(currency)
            .map(|(minor, currency)| Money { minor, currency }))
    };
    let cancelled = row.get::<Option<i64>>("cancelled_at")?.is_some();
    let progress = Progress::of(cancelled, row.get::<Option<String>>("state")?.as_deref());
    let told = row
        .get::<Option<String>>("financial_status")?
        .map(FinancialStatus::from);
    let payments: Option<String> = row.get("payment_status")?;
    let status = settlement::status(told.as_ref(), payments.map(Into::into).as_ref());
    // What the storefront says is left does not count payments that it does not know.
    let outstanding = money("outstanding_minor")?.filter(|_| status == told);
    let updated_at: i64 = row.get("updated_at")?;
    let fulfillment_updated_at: Option<i64> = row.get("fulfillment_updated_at")?;
    Ok(PublicOrder {
        shop: row.get("shop")?,
        id: row.get("id")?,
        name: row.get("name")?,
        progress,
        account: Account {
            cancelled,
            withdrawn: progress == Progress::NotShipping,
            status,
            total: money("total_minor")?,
            outstanding,
        },
        updated_at: Timestamp(updated_at.max(fulfillment_updated_at.unwrap_or(updated_at))),
    })
}

/// A parcel that is under way or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub number: String,
    pub carrier: Option<String>,
    /// The carrier's page, as the storefront gave it: any text.
    pub url: Option<String>,
    /// The storefront says that the carrier has it.
    pub shipped: bool,
    pub updated_at: Timestamp,
}

/// The parcels of an order.
pub async fn parcels(db: &Db, shop: &str, order_id: i64) -> Result<Vec<Parcel>> {
    let rows = db
        .query(
            "select parcels.number, parcels.url, shipments.carrier, shipments.status,
                    shipments.updated_at as told_at
             from parcels
             join shipments
               on shipments.shop = parcels.shop and shipments.order_id = parcels.order_id
              and shipments.id = parcels.shipment_id
             where parcels.shop = $1 and parcels.order_id = $2
               and (shipments.status is null
                    or shipments.status not in ('cancelled', 'error', 'failure'))
             order by shipments.id, parcels.position, parcels.number limit $3",
        )
        .bind(shop)
        .bind(order_id)
        .bind(MOST)
        .fetch_all()
        .await?;
    rows.iter().map(parcel).collect()
}

/// The parcels with this number, of whatever order, the newest first. Those that a reader
/// could not tell apart are one.
pub async fn parcels_with_number(db: &Db, number: &str) -> Result<Vec<Parcel>> {
    let rows = db
        .query(
            "select parcels.number, parcels.url, shipments.carrier, shipments.status,
                    max(shipments.updated_at) as told_at
             from parcels
             join shipments
               on shipments.shop = parcels.shop and shipments.order_id = parcels.order_id
              and shipments.id = parcels.shipment_id
             where parcels.number = $1
               and (shipments.status is null
                    or shipments.status not in ('cancelled', 'error', 'failure'))
             group by parcels.number, parcels.url, shipments.carrier, shipments.status
             order by told_at desc limit $2",
        )
        .bind(number)
        .bind(MOST)
        .fetch_all()
        .await?;
    let mut found: Vec<Parcel> = Vec::new();
    for row in &rows {
        let next = parcel(row)?;
        let is_told = |known: &Parcel| {
            (&known.carrier, &known.url, known.shipped) == (&next.carrier, &next.url, next.shipped)
        };
        if !found.iter().any(is_told) {
            found.push(next);
        }
    }
    Ok(found)
}

fn parcel(row: &Row) -> Result<Parcel> {
    Ok(Parcel {
        number: row.get("number")?,
        carrier: row.get("carrier")?,
        url: row.get("url")?,
        shipped: row.get::<Option<String>>("status")?.as_deref() == Some("success"),
        updated_at: Timestamp(row.get("told_at")?),
    })
}
