//! The `orders` table as it is read and shown. How it is written: [`records`].

pub mod records;

use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::money::{Currency, Money};
use crate::order::record::Returned;
use crate::sql::{Db, Result, Row, Tx};
use crate::store::order_lines::{self, StoredLine};
use crate::store::refunds::{self, Refund};
use crate::store::shipments::{self, StoredShipment};
use crate::store::{inventory, parsed, qr_codes};

/// The shops that have an order with this id; two at most.
pub async fn shops(tx: &mut Tx, id: i64) -> Result<Vec<String>> {
    let rows = tx
        .query("select shop from orders where id = $1 order by shop limit 2")
        .bind(id)
        .fetch_all()
        .await?;
    rows.iter().map(|row| row.get("shop")).collect()
}

/// The orders that claim an agreement; two at most. An order claims what its attribute
/// names; without one, its id. Buyers can write that attribute on some storefronts, so a
/// claim by attribute is worth no more than one by id.
pub async fn of_pact(tx: &mut Tx, pact_id: &str) -> Result<Vec<records::Key>> {
    let id = pact_id.parse::<i64>().ok();
    let id = id.filter(|id| id.to_string() == pact_id);
    let rows = tx
        .query(
            "select shop, id from orders where pact_id = $1
             union all
             select shop, id from orders where id = $2 and pact_id is null
             order by shop, id
             limit 2",
        )
        .bind(pact_id)
        .bind(id)
        .fetch_all()
        .await?;
    rows.iter()
        .map(|row| Ok((row.get("shop")?, row.get("id")?)))
        .collect()
}

/// An order as it stands, without personal data.
#[derive(Clone, Debug)]
pub struct StoredOrder {
    pub shop: String,
    pub id: i64,
    pub name: Option<String>,
    pub currency: Option<Currency>,
    pub total: Option<Money>,
    pub subtotal: Option<Money>,
    pub tax: Option<Money>,
    pub outstanding: Option<Money>,
    pub financial_status: Option<String>,
    pub fulfillment_status: Option<String>,
    pub fulfillment: Option<Fulfillment>,
    pub lines: Vec<StoredLine>,
    pub shipments: Vec<StoredShipment>,
    pub refunds: Vec<Refund>,
    /// What the storefront refunded itself.
    pub storefront_refunds: Vec<Returned>,
    /// Units by line id that went back into stock.
    pub restocked: Vec<(i64, i64)>,
    pub tracking_url: Option<String>,
    pub ordered_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    pub cancel_reason: Option<String>,
    pub updated_at: Timestamp,
}

/// What Waybill has asked for an order, and since when.
#[derive(Clone, Debug, Serialize)]
pub struct Fulfillment {
    pub state: String,
    /// What became of the request at the storefront: `pending`, `created`, `not_needed` or
    /// `failed`; None: it was not asked.
    pub provider_state: Option<String>,
    pub initiated_at: Timestamp,
    pub requested_at: Option<Timestamp>,
    pub fulfilled_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

impl StoredOrder {
    /// The JSON of `GET /api/commerce/orders/{order_id}` (docs/orders.md). `order_id` is the
    /// id as text, for readers whose numbers end at 2^53.
    pub fn view(&self, public_url: &str) -> Value {
        let base = format!("{public_url}/api/commerce/orders/{}", self.id);
        let shop = percent(&self.shop);
        let link = |path: &str| format!("{base}/{path}?shop={shop}");
        let amount = |money: Option<Money>| money.map(|money| money.to_string());
        let shipments: Vec<Value> = self
            .shipments
            .iter()
            .map(|shipment| {
                let parcels: Vec<Value> = shipment
                    .parcels
                    .iter()
                    .map(|parcel| {
                        let path = format!("parcels/{}", percent(&parcel.tracking_number));
                        let qr = |end: &str| {
                            let page = parcel.page_url.as_ref();
                            page.map(|_| link(&format!("{path}/{end}")))
                        };
                        json!({
                            "tracking_number": parcel.tracking_number,
                            "tracking_url": parcel.tracking_url,
                            "page_url": parcel.page_url,
                            "qr_png": qr("qr.png"),
                            "qr_svg": qr("qr.svg"),
                        })
                    })
                    .collect();
                json!({
                    "id": shipment.id,
                    "status": shipment.status,
                    "carrier": shipment.carrier,
                    "parcels": parcels,
                    "updated_at": shipment.updated_at,
                })
            })
            .collect();
        let refunds: Vec<Value> = self.refunds.iter().map(refund).collect();
        let storefront_refunds: Vec<Value> = self
            .storefront_refunds
            .iter()
            .map(|refund| {
                let money = refund.amount.zip(self.currency);
                let money = money.map(|(minor, currency)| Money { minor, currency });
                json!({ "id": refund.id, "amount": amount(money) })
            })
            .collect();
        let restocked: Vec<Value> = self
            .restocked
            .iter()
            .map(|(line_id, quantity)| json!({ "line_id": line_id, "quantity": quantity }))
            .collect();
        json!({
            "order_id": self.id.to_string(),
            "id": self.id,
            "shop": self.shop,
            "name": self.name,
            "financial_status": self.financial_status,
            "fulfillment_status": self.fulfillment_status,
            "fulfillment": self.fulfillment,
            "currency": self.currency.map(|currency| currency.to_string()),
            "total_price": amount(self.total),
            "subtotal_price": amount(self.subtotal),
            "total_tax": amount(self.tax),
            "total_outstanding": amount(self.outstanding),
            "line_items": self.lines,
            "tracking": self.tracking_url.as_ref().map(|url| json!({
                "url": url,
                "qr_png": link("qr.png"),
                "qr_svg": link("qr.svg"),
            })),
            "shipments": shipments,
            "refunds": refunds,
            "storefront_refunds": storefront_refunds,
            "restocked": restocked,
            "created_at": self.ordered_at,
            "cancelled_at": self.cancelled_at,
            "cancel_reason": self.cancel_reason,
            "updated_at": self.updated_at,
        })
    }
}

fn percent(text: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

fn refund(refund: &Refund) -> Value {
    let payment_id = Some(&refund.payment_id).filter(|id| !id.is_empty());
    json!({
        "state": refund.state,
        "payment_id": payment_id,
        "refund_id": refund.provider_id,
        "amount": refund.amount().map(|amount| amount.to_string()),
        "currency": refund.currency,
        "updated_at": refund.updated_at,
    })
}

/// The answer to a search by id.
#[derive(Debug)]
pub enum Found {
    One(Box<StoredOrder>),
    None,
    /// Several shops have an order with this id, and none was named.
    Several,
}

pub async fn find(db: &Db, id: i64, shop: Option<&str>) -> Result<Found> {
    let rows = db
        .query(
            "select orders.shop as shop, orders.id as id, orders.name as name,
                    orders.currency as currency, orders.total_minor as total_minor,
                    orders.subtotal_minor as subtotal_minor, orders.tax_minor as tax_minor,
                    orders.outstanding_minor as outstanding_minor,
                    orders.financial_status as financial_status,
                    orders.fulfillment_status as fulfillment_status,
                    orders.refunds as refunds, orders.ordered_at as ordered_at,
                    orders.cancelled_at as cancelled_at,
                    orders.cancel_reason as cancel_reason, orders.updated_at as updated_at,
                    fulfillments.state as state,
                    fulfillments.provider_state as provider_state,
                    fulfillments.initiated_at as initiated_at,
                    fulfillments.requested_at as requested_at,
                    fulfillments.fulfilled_at as fulfilled_at,
                    fulfillments.cancelled_at as fulfillment_cancelled_at,
                    fulfillments.updated_at as fulfillment_updated_at, qr_codes.url as url
             from orders
             left join fulfillments
               on fulfillments.shop = orders.shop and fulfillments.order_id = orders.id
             left join qr_codes
               on qr_codes.shop = orders.shop and qr_codes.order_id = orders.id
              and qr_codes.kind = $3
             where orders.id = $1 and ($2 is null or orders.shop = $2)
             limit 2",
        )
        .bind(id)
        .bind(shop)
        .bind(qr_codes::TRACKING)
        .fetch_all()
        .await?;
    match rows.as_slice() {
        [] => Ok(Found::None),
        [row] => {
            let mut order = read(row)?;
            let shop = order.shop.as_str();
            order.lines = order_lines::list(db, shop, id).await?;
            order.shipments = shipments::list(db, shop, id).await?;
            if order.cancelled_at.is_some() {
                order.refunds = refunds::list(db, shop, id).await?;
                order.restocked = inventory::list(db, shop, id).await?;
            }
            Ok(Found::One(Box::new(order)))
        }
        _ => Ok(Found::Several),
    }
}

fn read(row: &Row) -> Result<StoredOrder> {
    let currency = row
        .get::<Option<String>>("currency")?
        .and_then(|code| Currency::parse(&code));
    let money = |name| -> Result<Option<Money>> {
        let minor: Option<i64> = row.get(name)?;
        Ok(minor
            .zip(currency)
            .map(|(minor, currency)| Money { minor, currency }))
    };
    let time =
        |name| -> Result<Option<Timestamp>> { Ok(row.get::<Option<i64>>(name)?.map(Timestamp)) };
    let state: Option<String> = row.get("state")?;
    let fulfillment = match (
        state,
        time("initiated_at")?,
        time("fulfillment_updated_at")?,
    ) {
        (Some(state), Some(initiated_at), Some(updated_at)) => Some(Fulfillment {
            state,
            provider_state: row.get("provider_state")?,
            initiated_at,
            requested_at: time("requested_at")?,
            fulfilled_at: time("fulfilled_at")?,
            cancelled_at: time("fulfillment_cancelled_at")?,
            updated_at,
        }),
        _ => None,
    };
    Ok(StoredOrder {
        shop: row.get("shop")?,
        id: row.get("id")?,
        name: row.get("name")?,
        currency,
        total: money("total_minor")?,
        subtotal: money("subtotal_minor")?,
        tax: money("tax_minor")?,
        outstanding: money("outstanding_minor")?,
        financial_status: row.get("financial_status")?,
        fulfillment_status: row.get("fulfillment_status")?,
        fulfillment,
        lines: Vec::new(),
        shipments: Vec::new(),
        refunds: Vec::new(),
        storefront_refunds: match row.get::<Option<String>>("refunds")? {
            Some(refunds) => parsed(&refunds)?,
            None => Vec::new(),
        },
        restocked: Vec::new(),
        tracking_url: row.get("url")?,
        ordered_at: time("ordered_at")?,
        cancelled_at: time("cancelled_at")?,
        cancel_reason: row.get("cancel_reason")?,
        updated_at: Timestamp(row.get("updated_at")?),
    })
}
