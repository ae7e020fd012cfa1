//! What follows from an order's record: the state of its fulfilment, its parcels, what goes
//! back into stock and what is refunded, and which changes lead from one record to the
//! next. Functions of the record alone, so they come out the same however it came about.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::{Value, json};

use super::record::{Cancellation, Record, Restock, Shipment};
use super::{FinancialStatus, FulfillmentStatus, Tracking, settlement};
use crate::money::Money;

/// Why an order is cancelled whose payment was canceled.
pub const PAYMENT_CANCELED: &str = "payment_canceled";

/// How far the fulfilment of an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FulfillmentState {
    /// The order is known; nothing is to be shipped yet.
    Initiated,
    /// It is paid: ship it.
    Requested,
    Fulfilled,
    Cancelled,
}

impl FulfillmentState {
    pub fn as_str(self) -> &'static str {
        match self {
            FulfillmentState::Initiated => "initiated",
            FulfillmentState::Requested => "requested",
            FulfillmentState::Fulfilled => "fulfilled",
            FulfillmentState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for FulfillmentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A tracking number of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel<'a> {
    pub shipment_id: i64,
    pub carrier: Option<&'a str>,
    pub tracking: &'a Tracking,
}

impl Record {
    /// A cancelled order ships nothing more, whatever else is known. What is shipped is
    /// shipped. An order refunded in full before that is not shipped any more, nor is one
    /// whose payment was canceled, until another one pays for it.
    pub fn fulfillment_state(&self) -> FulfillmentState {
        if self.cancelled.is_some() {
            FulfillmentState::Cancelled
        } else if self.was_fulfilled {
            FulfillmentState::Fulfilled
        } else if self.is_given_back() || self.cancellation().is_some() {
            FulfillmentState::Cancelled
        } else if self.is_paid() {
            FulfillmentState::Requested
        } else {
            FulfillmentState::Initiated
        }
    }

    /// When and why the order was cancelled: by the storefront, for good; or because its
    /// payment was canceled, until another one pays for it.
    pub fn cancellation(&self) -> Option<Cancellation> {
        let unpaid = !self.was_paid && self.settled.status.is_none();
        let by_payment = self.settled.canceled_at.filter(|_| unpaid);
        self.cancelled.clone().or_else(|| {
            by_payment.map(|at| Cancellation {
                at,
                reason: Some(PAYMENT_CANCELED.to_owned()),
            })
        })
    }

    /// As the storefront said once, or a session, or as the payments stand now.
    pub fn is_paid(&self) -> bool {
        self.was_paid || self.settled.covers
    }

    /// All that was paid went back, as the storefront says, or as the payments stand now.
    fn is_given_back(&self) -> bool {
        self.was_refunded || self.settled.status == Some(FinancialStatus::Refunded)
    }

    /// As the storefront or the payments say, whichever is further on.
    pub fn financial_status(&self) -> Option<FinancialStatus> {
        settlement::status(self.financial.value.as_ref(), self.settled.status.as_ref())
    }

    /// The parcels of the shipments that did not come to nothing.
    pub fn parcels(&self) -> Vec<Parcel<'_>> {
        let mut parcels = Vec::new();
        for (id, shipment) in &self.shipments {
            let shipment: &Shipment = &shipment.value;
            if !shipment.is_live() {
                continue;
            }
            for tracking in &shipment.tracking {
                parcels.push(Parcel {
                    shipment_id: *id,
                    carrier: shipment.carrier.as_deref(),
                    tracking,
                });
            }
        }
        parcels
    }

    /// Units that go back into stock by line id, when the order is cancelled: those never
    /// shipped and those that came back, but not what a refund wrote off.
    pub fn restocked(&self) -> BTreeMap<i64, i64> {
        if self.cancelled.is_none() {
            return BTreeMap::new();
        }
        let (shipped, told) = self.shipped();
        let mut refunded: HashMap<(i64, Restock), i64> = HashMap::new();
        for line in self.refunds.value.iter().flat_map(|refund| &refund.lines) {
            let units = refunded.entry((line.line_id, line.restock)).or_default();
            *units = units.saturating_add(line.quantity);
        }
        let refunded = |line, restock| refunded.get(&(line, restock)).copied().unwrap_or(0);
        let lines = self.lines.value.iter().map(|line| {
            let held = match shipped.get(&line.id) {
                Some(units) if *units > 0 => *units,
                // No shipment tells: all, if the line says so, or the order was fulfilled.
                _ if line.fulfillment_status.as_deref() == Some("fulfilled") => line.quantity,
                _ if self.was_fulfilled && !told => line.quantity,
                _ => 0,
            };
            let shipped = held.min(line.quantity);
            let returned = refunded(line.id, Restock::Return).min(shipped);
            let written_off = refunded(line.id, Restock::No);
            // Units that are with the customer are written off first.
            let lost = written_off.saturating_sub(shipped - returned).max(0);
            let unshipped = (line.quantity - shipped).saturating_sub(lost).max(0);
            (line.id, unshipped + returned)
        });
        lines.collect()
    }

    /// Units by line id that live shipments hold, and whether any of them tells its lines.
    fn shipped(&self) -> (HashMap<i64, i64>, bool) {
        let mut units: HashMap<i64, i64> = HashMap::new();
        let live = self.shipments.values().filter(|part| part.value.is_live());
        for (line, quantity) in live.flat_map(|part| &part.value.lines) {
            let units = units.entry(*line).or_default();
            *units = units.saturating_add(*quantity);
        }
        let told = !units.is_empty();
        (units, told)
    }

    /// What was paid for the order, in minor units, as far as the storefront tells.
    pub fn paid_minor(&self) -> Option<i64> {
        let outstanding = match self.outstanding.value {
            // A part was paid; how much, the storefront does not tell.
            None if !self.was_paid => return None,
            outstanding => outstanding.unwrap_or(0),
        };
        let total = self.totals.value.total?;
        Some(total.saturating_sub(outstanding).max(0))
    }

    /// True when the storefront took money for it, all or a part.
    pub fn took_money(&self) -> bool {
        self.was_paid || self.financial.value == Some(FinancialStatus::PartiallyPaid)
    }
}

/// What happened to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    /// A status or an amount is another.
    Updated,
    Paid,
    Cancelled,
    FulfillmentRequested,
    Fulfilled,
    /// What had been requested is not wanted any more.
    FulfillmentCancelled,
    TrackingUpdated,
}

/// The changes from one record of an order to a later one, in the order in which they are
/// told. `Created` and `Fulfilled` come once in the life of an order at the most; so do
/// `Paid`, `Cancelled` and `FulfillmentRequested`, unless a payment was canceled or went
/// back in full and another one followed.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let mut changes = Vec::new();
    match before {
        None => changes.push(Change::Created),
        Some(before) if visible(before) != visible(after) => changes.push(Change::Updated),
        Some(_) => {}
    }
    if after.is_paid() && before.is_none_or(|before| !before.is_paid()) {
        changes.push(Change::Paid);
    }
    let is_cancelled = |record: &Record| record.cancellation().is_some();
    if is_cancelled(after) && before.is_none_or(|before| !is_cancelled(before)) {
        changes.push(Change::Cancelled);
    }
    let was = before.map_or(FulfillmentState::Initiated, Record::fulfillment_state);
    let is = after.fulfillment_state();
    match (was, is) {
        _ if was == is => {}
        (_, FulfillmentState::Requested) => changes.push(Change::FulfillmentRequested),
        (_, FulfillmentState::Fulfilled) => changes.push(Change::Fulfilled),
        (FulfillmentState::Requested, FulfillmentState::Cancelled) => {
            changes.push(Change::FulfillmentCancelled);
        }
        _ => {}
    }
    let parcels = before.map(Record::parcels).unwrap_or_default();
    if parcels != after.parcels() {
        changes.push(Change::TrackingUpdated);
    }
    changes
}

/// An order in an event: what an update is told for, without its lines.
pub fn summary(record: &Record) -> Value {
    let totals = &record.totals.value;
    let total = totals.total.zip(totals.currency);
    let total = total.map(|(minor, currency)| Money { minor, currency }.to_string());
    json!({
        "currency": totals.currency.map(|currency| currency.to_string()),
        "total_price": total,
        "financial_status": record.financial_status().as_ref().map(FinancialStatus::as_str),
        "fulfillment_status": record.fulfillment.value.as_ref().map(FulfillmentStatus::as_str),
    })
}

/// What an update is told for.
fn visible(record: &Record) -> impl PartialEq + '_ {
    let shipped = |part: &Option<FulfillmentStatus>| part.as_ref().map(|it| it.as_str().to_owned());
    (
        record.financial_status().map(|it| it.as_str().to_owned()),
        shipped(&record.fulfillment.value),
        &record.totals.value,
        record.outstanding.value,
        &record.lines.value,
    )
}
