//! The links that the QR codes of orders and of their parcels have. A link is made once and stays, because its code may
//! have been printed; the picture is drawn from it whenever somebody asks for it.

use std::collections::BTreeMap;

use domain::code::Code;
use domain::order::OrderKey;
use domain::order::record::{Part, Record, Shipment};
use domain::privacy::Keys;
use domain::time::Timestamp;
use qr::{QrConfig, QrError};
use serde_json::json;
use store::audit::{self, By, NewEntry};
use store::orders::{CHECKOUT, records};
use store::sql::Db;
use uuid::Uuid;

use super::update::OrderUpdate;
use crate::{Context, Result};

/// How many parcels of one shipment get a link. Nobody ships more at once.
const MOST_LINKS: usize = 250;

/// The link to an order's page has so many bytes of a keyed hash, as hexadecimal digits.
const PAGE_CODE_BYTES: usize = 10;

/// The link to an order's public page.
///
/// Where ids count up, the link holds a code without which the page does not open, so that nobody
/// looks through the orders of others. The id of an order that a checkout makes cannot be guessed.
fn page(context: Context<'_>, key: &OrderKey) -> Result<String> {
    let connections = context.connections.now();
    let profile = connections.of_shop(&key.0).profile;
    let is_closed = context.config.has_page_codes(profile) && key.0 != CHECKOUT;
    let salt = is_closed.then_some([].as_slice());
    page_with(&context.config.qr, context.keys, key, salt)
}

/// Gives the pages of an order a link with a code, without which they do not open any more. `None` when there is no such
/// order.
pub async fn new_link(
    db: &Db,
    by: By<'_>,
    qr: &QrConfig,
    key: &OrderKey,
    salt: Uuid,
) -> Result<Option<String>> {
    let mut tx = db.begin().await?;
    let Some(mut record) = records::load(&mut tx, vec![key.clone()]).await?.remove(key) else {
        return Ok(None);
    };
    let url = page_with(qr, by.keys, key, Some(salt.as_bytes()))?;
    record.own.page_url = Some(url.clone());
    records::save(&mut tx, [(key, &record)], by.now).await?;
    let entry = NewEntry {
        actor: by.actor,
        action: "order.link_renewed",
        object_id: &key.1.to_string(),
        shop: Some(&key.0),
        details: json!({}),
    };
    audit::append(&mut tx, by.keys, entry, by.now).await?;
    tx.commit().await?;
    Ok(Some(url))
}

fn page_with(
    qr: &QrConfig,
    keys: &Keys,
    (shop, order_id): &OrderKey,
    salt: Option<&[u8]>,
) -> Result<String> {
    let page_code = salt.map(|salt| {
        let parts = [shop.as_bytes(), &order_id.to_be_bytes(), salt];
        hex::encode(&keys.code("page of an order", &parts)[..PAGE_CODE_BYTES])
    });
    let qr = qr.opened_by(page_code.as_deref());
    Ok(qr.order_link(&order_id.to_string())?)
}

/// Adds the links that are missing: to the page of a new order, and to those of the parcels of shipments that have
/// changed.
pub(super) fn complete(
    context: Context<'_>,
    update: &mut OrderUpdate,
    now: Timestamp,
) -> Result<()> {
    let key = &update.key;
    let Record { own, shipments, .. } = &mut update.after;
    let known = update.before.as_ref().map(|before| &before.shipments);
    if known.is_none() {
        own.known_at = now.0;
        own.page_url = Some(page(context, key)?);
    }
    for (id, shipment) in shipments.iter() {
        let before = known.and_then(|known| known.get(id));
        if before == Some(shipment) {
            continue;
        }
        own.shipments_at.insert(*id, now.0);
        for tracking in shipment.value.tracking.iter().take(MOST_LINKS) {
            let number = &tracking.number;
            let is_known = before.is_some_and(|before| has(before, number));
            if is_known || own.parcel_urls.contains_key(number) {
                continue;
            }
            if let Some(link) = parcel_link(context, key, number) {
                own.parcel_urls.insert(number.clone(), link);
            }
        }
    }
    own.parcel_urls
        .retain(|number, _| is_in_some(shipments, number));
    Ok(())
}

/// The link to a parcel's page. A number that fits no QR code, or makes no link, is tracked without
/// one.
fn parcel_link(context: Context<'_>, key: &OrderKey, number: &str) -> Option<String> {
    let log = |error: &QrError| {
        let (shop, order) = key;
        tracing::info!(shop, order, %error, code = %Code::Qr, "a parcel gets no QR code");
    };
    let link = context.config.qr.package_link(number);
    link.inspect_err(log).ok()
}

fn is_in_some(shipments: &BTreeMap<i64, Part<Shipment>>, number: &str) -> bool {
    shipments.values().any(|shipment| has(shipment, number))
}

fn has(shipment: &Part<Shipment>, number: &str) -> bool {
    let tracking = &shipment.value.tracking;
    tracking.iter().any(|it| it.number == number)
}
