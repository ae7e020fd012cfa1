//! `orders/create`: the order, its lines and customer are stored, its tracking QR code is
//! made, its fulfilment initiated, and the event `order.created` written; each once per
//! order, however often and in whatever order its deliveries come.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use common::clock::{Clock, Timestamp};
use common::config::Config;
use common::job::Job;
use common::order::{FinancialStatus, Order};
use common::sql::Tx;
use common::store::events::{self, Event};
use common::store::fulfillments::{self, NewFulfillment};
use common::store::orders::{self, Received};
use common::store::qr_codes::{self, QrCode};
use serde_json::json;

use crate::failure::permanent;

pub struct Task {
    order: Order,
    tracking_url: String,
    tracking_png: Vec<u8>,
}

pub fn prepare(config: &Config, job: &Job) -> Result<Task> {
    let order = Order::read(&job.body).map_err(permanent)?;
    let symbol = config.qr.order(&order.id.to_string()).map_err(permanent)?;
    Ok(Task {
        tracking_url: symbol.url.clone(),
        tracking_png: symbol.png(),
        order,
    })
}

pub async fn apply(clock: &Clock, tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<()> {
    let now = clock.now();
    // Sorted by key, as every writer of these rows does: no two of them wait in a circle.
    let mut orders: BTreeMap<(String, i64), &Task> = BTreeMap::new();
    for (job, task) in tasks {
        let shop = shop_of(tx, job, task).await?;
        if orders.insert((shop, task.order.id), task).is_some() {
            // What the later one takes from the earlier is for the database to say.
            bail!("two versions of one order; they are run in turn");
        }
    }
    let received: Vec<Received<'_>> = orders
        .iter()
        .map(|((shop, _), task)| Received {
            shop,
            order: &task.order,
        })
        .collect();
    orders::upsert(tx, &received, now).await?;
    initiate(clock, tx, &orders, now).await
}

/// A delivery without the shop's header belongs to the shop of the order with that id, when
/// there is exactly one; otherwise to the shop without a name.
async fn shop_of(tx: &mut Tx, job: &Job, task: &Task) -> Result<String> {
    if let Some(shop) = &job.shop {
        return Ok(shop.clone());
    }
    let mut shops = orders::shops(tx, task.order.id).await?;
    Ok(match shops.pop() {
        Some(shop) if shops.is_empty() => shop,
        _ => String::new(),
    })
}

/// Fulfilment, QR code and event of the orders that have no fulfilment yet.
async fn initiate(
    clock: &Clock,
    tx: &mut Tx,
    orders: &BTreeMap<(String, i64), &Task>,
    now: Timestamp,
) -> Result<()> {
    let wanted: Vec<NewFulfillment<'_>> = orders
        .iter()
        .map(|((shop, order_id), task)| NewFulfillment {
            shop,
            order_id: *order_id,
            cancelled: task.order.cancelled_at.is_some(),
        })
        .collect();
    let mut codes = Vec::new();
    let mut events = Vec::new();
    for (shop, order_id) in fulfillments::initiate(tx, &wanted, now).await? {
        let Some(task) = orders.get(&(shop.clone(), order_id)) else {
            continue;
        };
        codes.push(QrCode {
            shop: shop.clone(),
            order_id,
            kind: qr_codes::TRACKING,
            url: task.tracking_url.clone(),
            png: task.tracking_png.clone(),
        });
        events.push(created(clock, shop, &task.order));
    }
    qr_codes::insert(tx, &codes, now).await?;
    events::insert(tx, &events, now).await?;
    Ok(())
}

fn created(clock: &Clock, shop: String, order: &Order) -> Event {
    Event {
        id: clock.id(),
        kind: "order.created",
        object_id: order.id.to_string(),
        body: json!({
            "order_id": order.id.to_string(),
            "shop": shop,
            "currency": order.currency.map(|currency| currency.to_string()),
            "total_price": order.total.map(|total| total.to_string()),
            "financial_status": order.financial_status.as_ref().map(FinancialStatus::as_str),
        }),
        shop,
    }
}
