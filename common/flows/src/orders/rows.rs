//! The rows that belong to orders: lines, fulfilments, QR codes, shipments and their parcels.

use config::Config;
use domain::code::Code;
use domain::order::Line;
use domain::order::OrderKey;
use domain::order::record::{Part, Shipment};
use domain::time::Timestamp;
use qr::{QrError, Symbol};
use store::fulfillments::{self, Moved};
use store::order_lines;
use store::qr_codes;
use store::shipments::{self, NewParcel};
use store::sql::Tx;

use super::tracking::TrackingCode;
use super::update::OrderUpdate;
use crate::Result;
use crate::outbox::Outbox;

/// How many parcels of one shipment get a QR code. Nobody ships more at once, and so many codes take
/// 5 ms while the order is locked.
const MOST_CODES: i64 = 250;

pub(super) async fn write(outbox: &Outbox<'_>, tx: &mut Tx, updates: &[OrderUpdate]) -> Result<()> {
    let now = outbox.now;
    let config = outbox.context.config;
    let mut moved = Vec::new();
    let mut codes = Vec::new();
    let mut replaced: Vec<(&OrderKey, &[Line])> = Vec::new();
    for update in updates {
        let (before, after) = (update.before.as_ref(), &update.after);
        let state = after.fulfillment_state();
        let is_moved = before.is_none_or(|before| before.fulfillment_state() != state);
        if is_moved || update.request.is_some() {
            moved.push(Moved {
                key: &update.key,
                state,
                provider_job: update.provider_job,
                requested: update.request.as_ref().map(|request| &request.level),
            });
        }
        match before {
            None => {
                let code = match &update.tracking {
                    Some(drawn) => drawn.row(&update.key),
                    None => TrackingCode::draw(config, update.key.1)?.row(&update.key),
                };
                codes.push(code);
            }
            Some(before) if before.lines.value != after.lines.value => {
                replaced.push((&update.key, &after.lines.value));
            }
            Some(_) => {}
        }
    }
    order_lines::replace(tx, &replaced).await?;
    fulfillments::save(tx, &moved, now).await?;
    qr_codes::insert(tx, &codes, now).await?;
    write_shipments(config, tx, updates, now).await
}

async fn write_shipments(
    config: &Config,
    tx: &mut Tx,
    updates: &[OrderUpdate],
    now: Timestamp,
) -> Result<()> {
    let mut rows = Vec::new();
    let mut parcels = Vec::new();
    for update in updates {
        for (id, shipment) in &update.after.shipments {
            let before = update.before.as_ref();
            let before = before.and_then(|before| before.shipments.get(id));
            if before == Some(shipment) {
                continue;
            }
            rows.push((&update.key, *id, shipment));
            let gone = gone(before, shipment);
            if !gone.is_empty() {
                shipments::delete_parcels(tx, &update.key, *id, gone).await?;
            }
            for (position, tracking) in (0..).zip(&shipment.value.tracking) {
                let is_known = before.is_some_and(|before| has(before, &tracking.number));
                let is_drawn = !is_known && position < MOST_CODES;
                let symbol = is_drawn.then(|| draw_parcel(config, &update.key, &tracking.number));
                parcels.push(NewParcel {
                    key: &update.key,
                    shipment_id: *id,
                    position,
                    tracking,
                    qr: symbol
                        .flatten()
                        .map(|symbol| (symbol.url.clone(), symbol.packed())),
                });
            }
        }
    }
    shipments::save(tx, &rows, now).await?;
    shipments::save_parcels(tx, &parcels, now).await?;
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

fn has(shipment: &Part<Shipment>, number: &str) -> bool {
    let tracking = &shipment.value.tracking;
    tracking.iter().any(|it| it.number == number)
}

/// The tracking numbers that a shipment no longer has.
fn gone(before: Option<&Part<Shipment>>, after: &Part<Shipment>) -> Vec<String> {
    let before = before.map(|before| before.value.tracking.as_slice());
    before
        .unwrap_or_default()
        .iter()
        .filter(|tracking| !has(after, &tracking.number))
        .map(|tracking| tracking.number.clone())
        .collect()
}
