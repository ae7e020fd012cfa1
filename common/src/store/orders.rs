//! The `orders`, `order_lines` and `customers` tables. The key of an order is its shop and
//! the provider's id; the newest `updated_at` wins, whatever order deliveries come in.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::money::{Currency, Money};
use crate::order::{Address, Line, Order};
use crate::sql::{Db, Result, Row, Tx, column};
use crate::store::qr_codes;

/// An order as a delivery described it, with its shop resolved.
#[derive(Clone, Debug)]
pub struct Received<'a> {
    pub shop: &'a str,
    pub order: &'a Order,
}

impl Received<'_> {
    /// The provider's time of this version; equal versions replace each other.
    fn version_at(&self) -> i64 {
        let order = self.order;
        order.updated_at.or(order.created_at).unwrap_or(0)
    }
}

/// Stores orders, their customers and lines, unless a newer version is there already. Each
/// (shop, id) must be there once.
pub async fn upsert(tx: &mut Tx, orders: &[Received<'_>], now: Timestamp) -> Result<()> {
    upsert_customers(tx, orders, now).await?;
    let written = upsert_orders(tx, orders, now).await?;
    let mut now_here = Vec::new();
    let mut replaced = Vec::new();
    for received in orders {
        let key = (received.shop.to_owned(), received.order.id);
        let Some(revision) = written.get(&key) else {
            continue;
        };
        now_here.push(received);
        if *revision > 1 {
            replaced.push(received);
        }
    }
    delete_lines(tx, &replaced).await?;
    insert_lines(tx, &now_here).await
}

/// Returns the orders that were written, with their revisions.
async fn upsert_orders(
    tx: &mut Tx,
    orders: &[Received<'_>],
    now: Timestamp,
) -> Result<HashMap<(String, i64), i64>> {
    let minor = |money: Option<Money>| money.map(|money| money.minor);
    let currencies: Vec<Option<String>> = texts(orders, |order| {
        order.currency.map(|currency| currency.to_string())
    });
    let financial = texts(orders, |order| {
        order
            .financial_status
            .as_ref()
            .map(|status| status.as_str().to_owned())
    });
    let fulfillment = texts(orders, |order| {
        order
            .fulfillment_status
            .as_ref()
            .map(|status| status.as_str().to_owned())
    });
    let shipping = texts(orders, |order| order.shipping_address.as_ref().map(address));
    let billing = texts(orders, |order| order.billing_address.as_ref().map(address));
    let each = || orders.iter().map(|received| received.order);
    let columns = [
        column("shop", orders.iter().map(|received| received.shop)),
        column("id", each().map(|order| order.id)),
        column("name", each().map(|order| order.name.as_deref())),
        column(
            "customer_id",
            each().map(|order| order.customer.as_ref().and_then(|customer| customer.id)),
        ),
        column("email", each().map(|order| order.email.as_deref())),
        column("phone", each().map(|order| order.phone.as_deref())),
        column("currency", currencies.iter().map(Option::as_deref)),
        column("total_minor", each().map(|order| minor(order.total))),
        column("subtotal_minor", each().map(|order| minor(order.subtotal))),
        column("tax_minor", each().map(|order| minor(order.tax))),
        column("financial_status", financial.iter().map(Option::as_deref)),
        column(
            "fulfillment_status",
            fulfillment.iter().map(Option::as_deref),
        ),
        column("shipping_address", shipping.iter().map(Option::as_deref)),
        column("billing_address", billing.iter().map(Option::as_deref)),
        column("ordered_at", each().map(|order| order.created_at)),
        column("cancelled_at", each().map(|order| order.cancelled_at)),
        column("version_at", orders.iter().map(Received::version_at)),
        column("created_at", orders.iter().map(|_| now.0)),
        column("updated_at", orders.iter().map(|_| now.0)),
    ];
    let rows = tx
        .insert(
            "orders",
            &columns,
            "on conflict (shop, id) do update
             set name = excluded.name,
                 customer_id = excluded.customer_id,
                 email = excluded.email,
                 phone = excluded.phone,
                 currency = excluded.currency,
                 total_minor = excluded.total_minor,
                 subtotal_minor = excluded.subtotal_minor,
                 tax_minor = excluded.tax_minor,
                 financial_status = excluded.financial_status,
                 fulfillment_status = excluded.fulfillment_status,
                 shipping_address = excluded.shipping_address,
                 billing_address = excluded.billing_address,
                 ordered_at = coalesce(excluded.ordered_at, orders.ordered_at),
                 cancelled_at = coalesce(excluded.cancelled_at, orders.cancelled_at),
                 version_at = excluded.version_at,
                 revision = orders.revision + 1,
                 updated_at = excluded.updated_at
             where orders.version_at <= excluded.version_at
             returning shop, id, revision",
        )
        .await?;
    rows.iter()
        .map(|row| Ok(((row.get("shop")?, row.get("id")?), row.get("revision")?)))
        .collect()
}

fn texts(orders: &[Received<'_>], text: impl Fn(&Order) -> Option<String>) -> Vec<Option<String>> {
    orders.iter().map(|received| text(received.order)).collect()
}

fn address(address: &Address) -> String {
    json!({
        "first_name": address.first_name,
        "last_name": address.last_name,
        "address1": address.address1,
        "address2": address.address2,
        "city": address.city,
        "province": address.province,
        "country": address.country,
        "zip": address.zip,
        "phone": address.phone,
    })
    .to_string()
}

async fn upsert_customers(tx: &mut Tx, orders: &[Received<'_>], now: Timestamp) -> Result<()> {
    let mut seen = HashSet::new();
    let mut customers = Vec::new();
    let mut newest_first: Vec<&Received<'_>> = orders.iter().collect();
    newest_first.sort_by_key(|received| Reverse(received.version_at()));
    for received in newest_first {
        let Some(customer) = &received.order.customer else {
            continue;
        };
        let Some(id) = customer.id else { continue };
        if seen.insert((received.shop, id)) {
            customers.push((received.shop, id, customer, received.version_at()));
        }
    }
    customers.sort_by_key(|(shop, id, ..)| (*shop, *id));
    let each = || customers.iter().map(|(_, _, customer, _)| *customer);
    let columns = [
        column("shop", customers.iter().map(|(shop, ..)| *shop)),
        column("id", customers.iter().map(|(_, id, ..)| *id)),
        column("email", each().map(|customer| customer.email.as_deref())),
        column("phone", each().map(|customer| customer.phone.as_deref())),
        column(
            "first_name",
            each().map(|customer| customer.first_name.as_deref()),
        ),
        column(
            "last_name",
            each().map(|customer| customer.last_name.as_deref()),
        ),
        column(
            "version_at",
            customers.iter().map(|(.., version_at)| *version_at),
        ),
        column("updated_at", customers.iter().map(|_| now.0)),
    ];
    tx.insert(
        "customers",
        &columns,
        "on conflict (shop, id) do update
         set email = coalesce(excluded.email, customers.email),
             phone = coalesce(excluded.phone, customers.phone),
             first_name = coalesce(excluded.first_name, customers.first_name),
             last_name = coalesce(excluded.last_name, customers.last_name),
             version_at = excluded.version_at,
             updated_at = excluded.updated_at
         where customers.version_at <= excluded.version_at",
    )
    .await?;
    Ok(())
}

/// Deletes the lines of an earlier version.
async fn delete_lines(tx: &mut Tx, orders: &[&Received<'_>]) -> Result<()> {
    for shop in orders.chunk_by(|a, b| a.shop == b.shop) {
        let ids: Vec<i64> = shop.iter().map(|received| received.order.id).collect();
        tx.query("delete from order_lines where shop = $1 and order_id in ($2..)")
            .bind(shop[0].shop)
            .bind(ids)
            .execute()
            .await?;
    }
    Ok(())
}

async fn insert_lines(tx: &mut Tx, orders: &[&Received<'_>]) -> Result<()> {
    let mut lines: Vec<(&str, i64, i64, &Line)> = Vec::new();
    for received in orders {
        let order = received.order;
        for (position, line) in (0..).zip(&order.lines) {
            lines.push((received.shop, order.id, position, line));
        }
    }
    let each = || lines.iter().map(|(_, _, _, line)| *line);
    let columns = [
        column("shop", lines.iter().map(|(shop, ..)| *shop)),
        column("order_id", lines.iter().map(|(_, order, ..)| *order)),
        column(
            "position",
            lines.iter().map(|(_, _, position, _)| *position),
        ),
        column("id", each().map(|line| line.id)),
        column("variant_id", each().map(|line| line.variant_id)),
        column("title", each().map(|line| line.title.as_deref())),
        column("quantity", each().map(|line| line.quantity)),
        column("price", each().map(|line| line.price.as_deref())),
        column("sku", each().map(|line| line.sku.as_deref())),
        column(
            "fulfillment_status",
            each().map(|line| line.fulfillment_status.as_deref()),
        ),
    ];
    tx.insert("order_lines", &columns, "").await?;
    Ok(())
}

/// The shops that have an order with this id.
pub async fn shops(tx: &mut Tx, id: i64) -> Result<Vec<String>> {
    let rows = tx
        .query("select shop from orders where id = $1 order by shop limit 2")
        .bind(id)
        .fetch_all()
        .await?;
    rows.iter().map(|row| row.get("shop")).collect()
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
    pub financial_status: Option<String>,
    pub fulfillment_status: Option<String>,
    pub fulfillment: Option<Fulfillment>,
    pub lines: Vec<StoredLine>,
    pub tracking_url: Option<String>,
    pub ordered_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// What Waybill has asked for an order.
#[derive(Clone, Debug, Serialize)]
pub struct Fulfillment {
    pub state: String,
    pub initiated_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, Serialize)]
pub struct StoredLine {
    pub id: i64,
    pub variant_id: Option<i64>,
    pub title: Option<String>,
    pub quantity: i64,
    pub price: Option<String>,
    pub sku: Option<String>,
    pub fulfillment_status: Option<String>,
}

impl StoredOrder {
    /// The JSON of `GET /api/commerce/orders/{order_id}`. `order_id` is the id as text, for
    /// readers whose numbers end at 2^53.
    pub fn view(&self, public_url: &str) -> Value {
        let link = |end: &str| {
            let id = self.id;
            let query = if self.shop.is_empty() {
                String::new()
            } else {
                format!("?shop={}", self.shop)
            };
            format!("{public_url}/api/commerce/orders/{id}/{end}{query}")
        };
        let amount = |money: Option<Money>| money.map(|money| money.to_string());
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
            "line_items": self.lines,
            "tracking": self.tracking_url.as_ref().map(|url| json!({
                "url": url,
                "qr_png": link("qr.png"),
                "qr_svg": link("qr.svg"),
            })),
            "created_at": self.ordered_at,
            "cancelled_at": self.cancelled_at,
            "updated_at": self.updated_at,
        })
    }
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
            "select orders.*, fulfillments.state as state,
                    fulfillments.initiated_at as initiated_at,
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
            order.lines = lines(db, &order.shop, order.id).await?;
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
            initiated_at,
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
        financial_status: row.get("financial_status")?,
        fulfillment_status: row.get("fulfillment_status")?,
        fulfillment,
        lines: Vec::new(),
        tracking_url: row.get("url")?,
        ordered_at: time("ordered_at")?,
        cancelled_at: time("cancelled_at")?,
        updated_at: Timestamp(row.get("updated_at")?),
    })
}

async fn lines(db: &Db, shop: &str, order_id: i64) -> Result<Vec<StoredLine>> {
    let rows = db
        .query(
            "select id, variant_id, title, quantity, price, sku, fulfillment_status
             from order_lines where shop = $1 and order_id = $2 order by position",
        )
        .bind(shop)
        .bind(order_id)
        .fetch_all()
        .await?;
    rows.iter()
        .map(|row| {
            Ok(StoredLine {
                id: row.get("id")?,
                variant_id: row.get("variant_id")?,
                title: row.get("title")?,
                quantity: row.get("quantity")?,
                price: row.get("price")?,
                sku: row.get("sku")?,
                fulfillment_status: row.get("fulfillment_status")?,
            })
        })
        .collect()
}
