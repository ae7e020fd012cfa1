//! The QR codes of orders and of their parcels. Each is drawn once.

use std::collections::BTreeMap;

use config::Config;
use domain::code::Code;
use domain::order::OrderKey;
use domain::order::own::{Modules, QrCode};
use domain::order::record::{Part, Record, Shipment};
use domain::time::Timestamp;
use qr::{QrError, Symbol};

use super::update::OrderUpdate;
use crate::Result;

/// How many parcels of one shipment get a QR code. Nobody ships more at once, and so many codes take
/// 5 ms while the order is locked.
const MOST_CODES: usize = 250;

/// Draws the code of an order's public page. It is done before the transaction is opened, wherever
/// it is known by then that the order is new.
pub fn draw(config: &Config, order_id: i64) -> Result<QrCode> {
    Ok(code(config.qr.order(&order_id.to_string())?))
}

fn code(symbol: Symbol) -> QrCode {
    QrCode {
        modules: Modules(symbol.packed()),
        url: symbol.url,
    }
}

/// Draws the codes that are missing: of a new order, and of the parcels of shipments that have changed.
pub(super) fn complete(
    config: &Config,
    update: &mut OrderUpdate,
    drawn: Option<QrCode>,
    now: Timestamp,
) -> Result<()> {
    let key = &update.key;
    let Record { own, shipments, .. } = &mut update.after;
    let known = update.before.as_ref().map(|before| &before.shipments);
    if known.is_none() {
        own.known_at = now.0;
        own.code = Some(drawn.map_or_else(|| draw(config, key.1), Ok)?);
    }
    for (id, shipment) in shipments.iter() {
        let before = known.and_then(|known| known.get(id));
        if before == Some(shipment) {
            continue;
        }
        own.shipments_at.insert(*id, now.0);
        for tracking in shipment.value.tracking.iter().take(MOST_CODES) {
            let number = &tracking.number;
            let is_known = before.is_some_and(|before| has(before, number));
            if is_known || own.parcel_codes.contains_key(number) {
                continue;
            }
            if let Some(symbol) = draw_parcel(config, key, number) {
                own.parcel_codes.insert(number.clone(), code(symbol));
            }
        }
    }
    own.parcel_codes
        .retain(|number, _| is_in_some(shipments, number));
    Ok(())
}

/// The QR code of a parcel. A number that fits no QR code, or makes no link, is tracked without
/// one.
fn draw_parcel(config: &Config, key: &OrderKey, number: &str) -> Option<Symbol> {
    let log = |error: &QrError| {
        let (shop, order) = key;
        tracing::info!(shop, order, %error, code = %Code::Qr, "a parcel gets no QR code");
    };
    config.qr.package(number).inspect_err(log).ok()
}

fn is_in_some(shipments: &BTreeMap<i64, Part<Shipment>>, number: &str) -> bool {
    shipments.values().any(|shipment| has(shipment, number))
}

fn has(shipment: &Part<Shipment>, number: &str) -> bool {
    let tracking = &shipment.value.tracking;
    tracking.iter().any(|it| it.number == number)
}
