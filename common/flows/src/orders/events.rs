//! What follows from the changes of an order: its events, the call to the storefront, and what a
//! cancelled order gives back.

use std::collections::BTreeMap;

use domain::event::{MOST_LISTED, OrderEvent, RequestedLine, TrackedParcel};
use domain::job::Internal;
use domain::order::Line;
use domain::order::outcome::{Change, Parcel, changes_from, summary};
use domain::order::record::Record;
use domain::order::settlement::Cycle;
use domain::time::Timestamp;
use serde_json::json;
use store::sql::Tx;

use super::settle;
use super::update::OrderUpdate;
use crate::outbox::Outbox;
use crate::{Result, refunds, stock};

/// Adds the events of an order's changes, and writes what follows from them.
pub(super) async fn follow(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    update: &mut OrderUpdate,
) -> Result<()> {
    let agreement = update.payment_reference();
    let OrderUpdate {
        key,
        before,
        after,
        payments,
        was,
        request,
        provider_job,
        moved,
        ..
    } = update;
    let (before, record) = (before.as_ref(), &*after);
    // A payment or its agreement may have moved the order, so what follows may follow from the
    // delivery that was about one of them.
    let moved_by = payments.linked.iter().map(|payment| payment.id.as_str());
    let moved_by = moved_by.chain([agreement.as_str()]).map(|id| (None, id));
    outbox.causation.follow(moved_by);
    for change in changes_from(*was, before, record) {
        if let Some(event) = event_of(change, record) {
            outbox.order_event(key, event);
        }
    }
    let units = request.as_ref().and_then(|request| request.units.as_ref());
    if let Some(units) = units {
        let event = requested(&Cycle::first(), record, Some(units));
        outbox.order_event(key, event);
    }
    if let Some(id) = *provider_job {
        let (shop, order_id) = &*key;
        let body = json!({ "shop": shop, "order_id": order_id });
        outbox.job_with_id(id, Internal::RequestFulfillment, key, &body);
    }
    for (cycle, is_requested) in moved {
        let event = if *is_requested {
            requested(cycle, record, None)
        } else {
            fulfillment_cancelled(cycle)
        };
        outbox.order_event(key, event);
    }
    if record.cancelled.is_some() && !settle::is_superseded(record) {
        stock::restock(outbox, tx, key, record).await?;
        refunds::decide(outbox, tx, key, record, payments).await?;
    }
    Ok(())
}

/// The event of a change. A request has events of its own, which list its units.
fn event_of(change: Change, record: &Record) -> Option<OrderEvent> {
    Some(match change {
        Change::Created => OrderEvent::Created(summary(record)),
        Change::Updated => OrderEvent::Updated(summary(record)),
        Change::Paid => OrderEvent::Paid(summary(record)),
        Change::Cancelled => {
            let cancellation = record.cancellation()?;
            OrderEvent::Cancelled {
                cancelled_at: Timestamp(cancellation.at),
                reason: cancellation.reason,
            }
        }
        Change::FulfillmentRequested => return None,
        Change::Fulfilled => OrderEvent::Fulfilled,
        Change::FulfillmentCancelled => fulfillment_cancelled(&Cycle::first()),
        Change::TrackingUpdated => {
            let parcels = record.parcels();
            let parcels = parcels.iter().take(MOST_LISTED).map(parcel).collect();
            OrderEvent::TrackingUpdated { parcels }
        }
    })
}

/// The event of what is to be shipped for a cycle. `units` says how many of each line; without it
/// all units of all lines are meant.
fn requested(cycle: &Cycle, record: &Record, units: Option<&BTreeMap<i64, i64>>) -> OrderEvent {
    let lines = record.lines.value.iter();
    let asked = lines.filter_map(|line| match units {
        Some(units) => Some((line, *units.get(&line.id)?)),
        None => Some((line, line.quantity)),
    });
    OrderEvent::FulfillmentRequested {
        cycle: cycle.to_string(),
        lines: asked
            .take(MOST_LISTED)
            .map(|(line, units)| requested_line(line, units))
            .collect(),
    }
}

fn fulfillment_cancelled(cycle: &Cycle) -> OrderEvent {
    OrderEvent::FulfillmentCancelled {
        cycle: cycle.to_string(),
    }
}

fn requested_line(line: &Line, units: i64) -> RequestedLine {
    RequestedLine {
        line_id: line.id.to_string(),
        variant_id: line.variant_id.map(|id| id.to_string()),
        sku: line.sku.clone(),
        quantity: units,
    }
}

fn parcel(parcel: &Parcel<'_>) -> TrackedParcel {
    TrackedParcel {
        shipment_id: parcel.shipment_id.to_string(),
        carrier: parcel.carrier.map(ToOwned::to_owned),
        tracking_number: parcel.tracking.number.clone(),
    }
}
