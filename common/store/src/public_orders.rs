//! What the public pages read from `orders`, `fulfillments`, `shipments`, `parcels` and, as sums,
//! from `payments`. No column that may have personal data is selected here, so none can reach a
//! page.

use crate::sql::{Db, FromRow, Result, Row};
use domain::due::Account;
use domain::money::{Currency, Money};
use domain::order::FinancialStatus;
use domain::order::settlement::{self, Cycle};
use domain::time::Timestamp;

/// The most shops that a page lists for one order id, and the most parcels that it lists.
const MOST: i64 = 50;

/// An order as everyone may see it who knows its id.
#[derive(Clone, Debug)]
pub struct PublicOrder {
    pub shop: String,
    pub id: i64,
    /// The name that the shop shows, such as `#1001`.
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
    /// The fulfilment is cancelled, but the order is not.
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
            "select orders.shop, orders.id, orders.name, orders.currency, orders.total_minor,
                    orders.outstanding_minor, orders.financial_status, orders.payment_status,
                    orders.pact_id, orders.cancelled_at, orders.updated_at, orders.successor_shop,
                    orders.successor_id, fulfillments.state,
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
        [] => Ok(PublicOrderLookup::None),
        [row] => {
            let successor: Option<String> = row.get("successor_shop")?;
            if let Some((shop, id)) = successor.zip(row.get("successor_id")?) {
                return Box::pin(find(db, id, Some(&shop))).await;
            }
            let mut order = order(row)?;
            let is_linked = row.get::<Option<String>>("payment_status")?.is_some();
            if is_linked {
                let agreement: Option<String> = row.get("pact_id")?;
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
    let stated = row
        .get::<Option<String>>("financial_status")?
        .map(FinancialStatus::from);
    let payments: Option<String> = row.get("payment_status")?;
    let status = settlement::status(stated.as_ref(), payments.map(Into::into).as_ref());
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
            stated,
            status,
            total: money("total_minor")?,
            outstanding: money("outstanding_minor")?,
            brought: Some(0),
        },
        updated_at: Timestamp(updated_at.max(fulfillment_updated_at.unwrap_or(updated_at))),
    })
}

/// A parcel that is under way or will be soon.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Parcel {
    pub number: String,
    pub carrier: Option<String>,
    /// True when the storefront says that the carrier has the parcel.
    #[with(is_shipped)]
    pub shipped: bool,
    #[column("stated_at")]
    pub updated_at: Timestamp,
}

/// The parcels of an order.
pub async fn parcels(db: &Db, shop: &str, order_id: i64) -> Result<Vec<Parcel>> {
    db.query(
        "select parcels.number, shipments.carrier, shipments.status,
                shipments.updated_at as stated_at
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
    .all(Parcel::from_row)
    .await
}

/// The parcels with this number, of all orders, the newest first. Parcels that a reader could not
/// tell apart are listed once.
pub async fn parcels_with_number(db: &Db, number: &str) -> Result<Vec<Parcel>> {
    let rows = db
        .query(
            "select parcels.number, shipments.carrier, shipments.status,
                    max(shipments.updated_at) as stated_at
             from parcels
             join shipments
               on shipments.shop = parcels.shop and shipments.order_id = parcels.order_id
              and shipments.id = parcels.shipment_id
             where parcels.number = $1
               and (shipments.status is null
                    or shipments.status not in ('cancelled', 'error', 'failure'))
             group by parcels.number, shipments.carrier, shipments.status
             order by stated_at desc limit $2",
        )
        .bind(number)
        .bind(MOST)
        .fetch_all()
        .await?;
    let mut found: Vec<Parcel> = Vec::new();
    for row in &rows {
        let next = Parcel::from_row(row)?;
        let is_known =
            |known: &Parcel| (&known.carrier, known.shipped) == (&next.carrier, next.shipped);
        if !found.iter().any(is_known) {
            found.push(next);
        }
    }
    Ok(found)
}

fn is_shipped(row: &Row) -> Result<bool> {
    Ok(row.get::<Option<String>>("status")?.as_deref() == Some("success"))
}
