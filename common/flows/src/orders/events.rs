//! What follows from the changes of an order: its events, the call to the storefront, and what a
//! cancelled order gives back.

use std::collections::BTreeMap;

use domain::event::{MOST_LISTED, OrderEvent, RequestedLine, TrackedParcel};
use domain::job::Internal;
use domain::money::Money;
use domain::order::Line;
use domain::order::outcome::{Change, FulfillmentState, Parcel, changes_from, summary};
use domain::order::record::Record;
use domain::order::settlement::Cycle;
use domain::time::Timestamp;
use serde_json::json;
use store::held;
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
    let first = Cycle::first();
    let called_off = request.as_ref().and_then(|it| it.called_off.as_ref());
    if let Some(units) = called_off {
        let (cycle, lines) = (first.to_string(), lines_of(record, Some(units)));
        let event = match record.fulfillment_state() {
            FulfillmentState::Requested => OrderEvent::FulfillmentReduced { cycle, lines },
            _ => OrderEvent::FulfillmentCancelled { cycle, lines },
        };
        outbox.order_event(key, event);
    }
    let units = request.as_ref().and_then(|it| it.units.as_ref());
    if let Some(units) = units {
        let event = requested(&first, record, Some(units));
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
            OrderEvent::FulfillmentCancelled {
                cycle: cycle.to_string(),
                lines: Vec::new(),
            }
        };
        outbox.order_event(key, event);
    }
    let held = held::of(record);
    if before.and_then(held::of) != held {
        let currency = record.totals.value.currency;
        let minor = held.and_then(|(_, minor)| minor).zip(currency);
        let event = OrderEvent::Held {
            reason: held.map(|(reason, _)| reason.into_str().to_owned()),
            amount: minor.map(|(minor, currency)| Money { minor, currency }.to_string()),
            currency: currency.map(|it| it.to_string()),
        };
        outbox.order_event(key, event);
    }
    if record.cancelled.is_some() && !settle::is_superseded(record) {
        stock::restock(outbox, tx, key, record).await?;
        refunds::decide(outbox, tx, key, record, payments).await?;
    } else if record.cancelled.is_none() && before.is_some_and(|it| it.cancelled.is_some()) {
        stock::restock(outbox, tx, key, record).await?;
        store::refunds::withdraw(tx, key, None).await?;
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
    OrderEvent::FulfillmentRequested {
        cycle: cycle.to_string(),
        lines: lines_of(record, units),
    }
}

fn lines_of(record: &Record, units: Option<&BTreeMap<i64, i64>>) -> Vec<RequestedLine> {
    let lines = record.lines.value.iter();
    let asked = lines.filter_map(|line| match units {
        Some(units) => Some((line, *units.get(&line.id)?)),
        None => Some((line, line.units())),
    });
    let asked = asked.map(|(line, units)| requested_line(line, units));
    asked.take(MOST_LISTED).collect()
}

fn requested_line(line: &Line, units: i64) -> RequestedLine {
    RequestedLine {
        line_id: line.id.to_string(),
        variant_id: line.variant_id.map(|id| id.to_string()),
        sku: line.sku.clone(),
        fulfillment_service: line.fulfillment_service.clone(),
        quantity: line.quantity.map(|_| units),
    }
}

fn parcel(parcel: &Parcel<'_>) -> TrackedParcel {
    TrackedParcel {
        shipment_id: parcel.shipment_id.to_string(),
        carrier: parcel.carrier.map(ToOwned::to_owned),
        tracking_number: parcel.tracking.number.clone(),
    }
}
