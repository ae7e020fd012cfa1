//! What follows from the record of an order: the state of its fulfilment, its parcels, the units
//! that go back into stock, the units that are requested, and the changes that are reported.
//! Everything here is computed from the record alone, so the sequence in which the deliveries
//! came makes no difference.

use std::collections::{BTreeMap, HashMap};

use strum::{Display, IntoStaticStr};

use super::record::{Cancellation, Record, Restock, Shipment};
use super::settlement::Settlement;
use super::{FinancialStatus, FulfillmentStatus, Tracking, settlement};
use crate::event::OrderSummary;
use crate::money::Money;

/// The reason that is given for the cancellation of an order whose payment was canceled.
pub const PAYMENT_CANCELED: &str = "payment_canceled";

/// How far the fulfilment of an order has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum FulfillmentState {
    /// The order is known, but nothing of it is to be shipped yet.
    Initiated,
    /// The order is paid and is to be shipped.
    Requested,
    Fulfilled,
    Cancelled,
}

/// One tracking number of an order, with the shipment that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel<'a> {
    pub shipment_id: i64,
    pub carrier: Option<&'a str>,
    pub tracking: &'a Tracking,
}

impl Record {
    /// The state of the order's fulfilment. The first of these rules that applies decides:
    ///
    /// 1. An order that the storefront cancelled is cancelled, whatever else is known.
    /// 2. An order that is shipped completely is fulfilled, even if its money is refunded later.
    /// 3. An order that was refunded in full, or whose payment was canceled, before it was
    ///    shipped is cancelled. It is requested again when another payment pays for it, unless the
    ///    storefront itself reported the full refund.
    /// 4. A paid order is requested, unless a placeholder still waits for the storefront's own
    ///    order.
    ///
    /// After everything was shipped once, more can become open: a shipment is cancelled or fails,
    /// or an item is added. Such an order is requested again only when all of it is paid.
    pub fn fulfillment_state(&self) -> FulfillmentState {
        if self.cancelled.is_some() {
            FulfillmentState::Cancelled
        } else if self.is_fulfilled() {
            FulfillmentState::Fulfilled
        } else if self.is_given_back() || self.cancellation().is_some() {
            FulfillmentState::Cancelled
        } else if self.waits_until.is_none() && self.is_paid() && !self.owes_for_more() {
            FulfillmentState::Requested
        } else {
            FulfillmentState::Initiated
        }
    }

    /// True when all items were shipped once, and items that were added since are not paid yet.
    fn owes_for_more(&self) -> bool {
        self.was_fulfilled && !self.is_paid_up()
    }

    /// True when the storefront last reported the order as fulfilled, unless it also reported
    /// shipments and every one of them was cancelled or failed.
    pub fn is_fulfilled(&self) -> bool {
        let reported = self.fulfillment.value == Some(FulfillmentStatus::Fulfilled);
        let came_to_nothing =
            !self.shipments.is_empty() && self.shipments.values().all(|part| !part.value.is_live());
        reported && !came_to_nothing
    }

    /// When and why the order was cancelled. A cancellation by the storefront is final. A
    /// canceled payment cancels the order only as long as no other payment is paid or authorized
    /// for it.
    pub fn cancellation(&self) -> Option<Cancellation> {
        let counts = settlement::is_cancelled_by_payment(
            self.was_paid,
            self.financial.value.as_ref(),
            self.settled.status.as_ref(),
        );
        let by_payment = self.settled.canceled_at.filter(|_| counts);
        self.cancelled.clone().or_else(|| {
            by_payment.map(|at| Cancellation {
                at,
                reason: Some(PAYMENT_CANCELED.to_owned()),
            })
        })
    }

    /// True when the storefront once reported the order as paid, or when its payments and
    /// checkout sessions now pay for all of it.
    pub fn is_paid(&self) -> bool {
        self.was_paid || self.settled.covers
    }

    /// True when nothing is left to be paid, which includes items that were added after the
    /// payment.
    pub fn is_paid_up(&self) -> bool {
        let owes = matches!(
            self.financial.value,
            Some(
                FinancialStatus::Pending
                    | FinancialStatus::Authorized
                    | FinancialStatus::PartiallyPaid
                    | FinancialStatus::Expired
                    | FinancialStatus::Voided
            )
        );
        self.settled.covers || (self.was_paid && !owes)
    }

    /// True when the storefront says that the order was refunded in full, or when all of its
    /// payments were refunded.
    fn is_given_back(&self) -> bool {
        self.was_refunded || self.settled.status == Some(FinancialStatus::Refunded)
    }

    /// The status that the storefront reports or the one that follows from the payments,
    /// whichever is further on.
    pub fn financial_status(&self) -> Option<FinancialStatus> {
        settlement::status(self.financial.value.as_ref(), self.settled.status.as_ref())
    }

    /// The parcels of all shipments that were not cancelled and did not fail.
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

    /// The number of units that go back into stock when the order is cancelled, by line id. These
    /// are the units that were never shipped and the units that the customer returned. Units that
    /// a refund wrote off do not go back. Empty for an order that the storefront did not cancel.
    pub fn restocked(&self) -> BTreeMap<i64, i64> {
        if self.cancelled.is_none() {
            return BTreeMap::new();
        }
        let units = self.units();
        units
            .into_iter()
            .map(|(line, it)| (line, it.unshipped() + it.returned))
            .collect()
    }

    /// The number of units that are still to be shipped, by line id. For an order without a list
    /// of lines, it is one unit of [`WHOLE_ORDER`].
    fn open(&self) -> BTreeMap<i64, i64> {
        if self.lines.value.is_empty() {
            return BTreeMap::from([(WHOLE_ORDER, 1)]);
        }
        let units = self.units();
        units
            .into_iter()
            .map(|(line, it)| (line, (it.unshipped() - it.called_off).max(0)))
            .collect()
    }

    /// How many units of each line were ordered, shipped, returned, lost and called off, by line
    /// id.
    fn units(&self) -> BTreeMap<i64, Units> {
        let mut refunded: HashMap<(i64, Restock), i64> = HashMap::new();
        for line in self.refunds.value.iter().flat_map(|refund| &refund.lines) {
            let units = refunded.entry((line.line_id, line.restock)).or_default();
            *units = units.saturating_add(line.quantity);
        }
        let refunded = |line, restock| refunded.get(&(line, restock)).copied().unwrap_or(0);
        let shipped = self.shipped();
        let lists_lines = self
            .shipments
            .values()
            .any(|part| !part.value.lines.is_empty());
        let all_came_to_nothing =
            !self.shipments.is_empty() && self.shipments.values().all(|part| !part.value.is_live());
        let lines = self.lines.value.iter().map(|line| {
            let held = match shipped.get(&line.id) {
                Some(units) => units.live,
                // No shipment lists this line. All of it is shipped if the line says so itself,
                // or if the order is fulfilled and its shipments list no lines at all.
                None if all_came_to_nothing => 0,
                None if line.fulfillment_status.as_deref() == Some("fulfilled") => line.quantity,
                None if self.is_fulfilled() && !lists_lines => line.quantity,
                None => 0,
            };
            let shipped = held.min(line.quantity);
            let returned = refunded(line.id, Restock::Return).min(shipped);
            let written_off = refunded(line.id, Restock::No);
            let units = Units {
                ordered: line.quantity,
                shipped,
                returned,
                // A write-off counts against the units that the customer has before it counts
                // against unshipped units.
                lost: written_off.saturating_sub(shipped - returned).max(0),
                called_off: refunded(line.id, Restock::Cancel),
            };
            (line.id, units)
        });
        lines.collect()
    }

    /// The number of units of each line in shipments, by line id.
    fn shipped(&self) -> HashMap<i64, Shipped> {
        let mut units: HashMap<i64, Shipped> = HashMap::new();
        for shipment in self.shipments.values().map(|part| &part.value) {
            for (line, quantity) in &shipment.lines {
                let units = units.entry(*line).or_default();
                let sum = if shipment.is_live() {
                    &mut units.live
                } else {
                    &mut units.came_to_nothing
                };
                *sum = sum.saturating_add(*quantity);
            }
        }
        units
    }

    /// What was paid for the order less what the storefront refunded, in minor units. None when
    /// the storefront does not say how much was paid.
    pub fn kept_minor(&self) -> Option<i64> {
        let refunds = self.refunds.value.iter();
        let back = refunds.fold(0_i64, |sum, refund| {
            sum.saturating_add(refund.amount.unwrap_or(0))
        });
        Some(self.paid_minor()?.saturating_sub(back).max(0))
    }

    /// What was paid for the order, in minor units: the total less what is outstanding. None when
    /// the storefront does not say how much was paid.
    pub fn paid_minor(&self) -> Option<i64> {
        let outstanding = match self.outstanding.value {
            // A part may have been paid, but the storefront does not say how much.
            None if !self.was_paid => return None,
            outstanding => outstanding.unwrap_or(0),
        };
        let total = self.totals.value.total?;
        Some(total.saturating_sub(outstanding).max(0))
    }

    /// True when the storefront took money for the order, for all of it or for a part.
    pub fn took_money(&self) -> bool {
        self.was_paid || self.financial.value == Some(FinancialStatus::PartiallyPaid)
    }
}

/// How many units of one line were ordered, and what became of them.
struct Units {
    ordered: i64,
    shipped: i64,
    returned: i64,
    /// A refund wrote these units off before they were shipped.
    lost: i64,
    /// A refund took these units off the order before they were shipped. They are still in stock.
    called_off: i64,
}

impl Units {
    fn unshipped(&self) -> i64 {
        (self.ordered - self.shipped)
            .saturating_sub(self.lost)
            .max(0)
    }
}

/// How many units of one line are in shipments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shipped {
    live: i64,
    /// Units in shipments that were cancelled or that failed.
    came_to_nothing: i64,
}

impl Shipped {
    fn all(self) -> i64 {
        self.live.saturating_add(self.came_to_nothing)
    }
}

/// How far the fulfilment of a further cycle of an order's agreement has come. It is never
/// `Fulfilled`, because no provider reports when a further cycle is shipped.
pub fn cycle_state(record: &Record, settled: &Settlement) -> FulfillmentState {
    if record.cancelled.is_some() || settled.status == Some(FinancialStatus::Refunded) {
        FulfillmentState::Cancelled
    } else if settled.covers && record.waits_until.is_none() {
        FulfillmentState::Requested
    } else {
        FulfillmentState::Initiated
    }
}

/// How many units of each line were ever requested or shipped, by line id. The units that were
/// requested and not shipped yet are the level less the units in shipments.
pub type Level = BTreeMap<i64, i64>;

/// The line id that stands for the whole order when nobody listed its lines.
const WHOLE_ORDER: i64 = 0;

/// Which units of an order are to be requested now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The units to request, by line id. The map is empty when the whole order is requested
    /// because nobody listed its lines. None when nothing is requested and only `level` changes.
    pub units: Option<BTreeMap<i64, i64>>,
    /// True when every unit to request was in a shipment that was cancelled or failed, so it is
    /// requested once more.
    pub is_repeated: bool,
    pub level: Level,
}

/// Which units are to be requested after an order changed from `before` to `after`. None when
/// nothing changes, neither a request nor the level. Each unit is requested once, and once more
/// when its shipment was cancelled or failed, or when its fulfilment was called off in between.
/// `was` is the state of the fulfilment before. `level` is what was requested of the order so
/// far.
pub fn request(was: FulfillmentState, after: &Record, level: &Level) -> Option<Request> {
    match (was, after.fulfillment_state()) {
        (FulfillmentState::Requested, FulfillmentState::Cancelled) => {
            let shipped = after.shipped();
            let level = after.open().into_keys();
            let level = level.map(|line| (line, of(&shipped, line).all())).collect();
            return Some(Request {
                level,
                ..Request::default()
            });
        }
        (_, FulfillmentState::Requested) => {}
        _ => return None,
    }
    let knows_lines = !after.lines.value.is_empty();
    if knows_lines && level.get(&WHOLE_ORDER).is_some_and(|units| *units > 0) {
        return Some(Request {
            level: level_of(after),
            ..Request::default()
        });
    }
    if was == FulfillmentState::Requested && !after.is_paid_up() {
        return None;
    }
    let shipped = after.shipped();
    let asked = after.open().into_iter().filter_map(|(line, open)| {
        let requested = level.get(&line).copied().unwrap_or(0);
        let awaited = requested.saturating_sub(of(&shipped, line).all()).max(0);
        Some((line, open.saturating_sub(awaited))).filter(|(_, units)| *units > 0)
    });
    let asked: BTreeMap<i64, i64> = asked.collect();
    if asked.is_empty() {
        return None;
    }
    let mut risen = level_of(after);
    for (line, units) in level {
        let to = risen.entry(*line).or_default();
        *to = (*units).max(*to);
    }
    Some(Request {
        is_repeated: asked
            .keys()
            .all(|line| of(&shipped, *line).came_to_nothing > 0),
        units: Some(if knows_lines { asked } else { BTreeMap::new() }),
        level: risen,
    })
}

/// Whether units were requested that nobody has shipped. An order that was shipped in full once awaits
/// none: not every storefront says in which shipment a unit is.
pub fn is_awaited(record: &Record, level: &Level) -> bool {
    let (shipped, units) = (record.shipped(), record.units());
    let mut requested = level.iter();
    !record.was_fulfilled
        && requested.any(|(line, requested)| {
            units.get(line).is_none_or(|line| line.unshipped() > 0)
                && *requested > of(&shipped, *line).all()
        })
}

/// The level of an order when all of its open units have been requested.
pub fn level_of(record: &Record) -> Level {
    let shipped = record.shipped();
    let open = record.open().into_iter();
    open.map(|(line, open)| (line, open.saturating_add(of(&shipped, line).all())))
        .collect()
}

fn of(shipped: &HashMap<i64, Shipped>, line: i64) -> Shipped {
    shipped.get(&line).copied().unwrap_or_default()
}

/// What happened to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    /// A status, an amount or a line changed.
    Updated,
    Paid,
    Cancelled,
    FulfillmentRequested,
    Fulfilled,
    /// The fulfilment had been requested and is now called off.
    FulfillmentCancelled,
    TrackingUpdated,
}

/// The changes from one record of an order to a later one, in the sequence in which they are
/// reported. `Created` comes once in the life of an order. `Paid`, `Cancelled`, `Fulfilled` and
/// `FulfillmentRequested` also come once, with two exceptions: a payment was canceled or refunded
/// in full and another payment followed, or more was to be shipped after everything had been
/// shipped.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let was = before.map_or(FulfillmentState::Initiated, Record::fulfillment_state);
    changes_from(was, before, after)
}

/// The same as [`changes`], for an order whose fulfilment is in the state `was`, although its
/// record does not say so. That is the case for an order that takes the place of a placeholder
/// whose fulfilment was already requested.
pub fn changes_from(was: FulfillmentState, before: Option<&Record>, after: &Record) -> Vec<Change> {
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

/// The order as an event shows it. It has the statuses and amounts whose change is reported as an
/// update, but not the lines.
pub fn summary(record: &Record) -> OrderSummary {
    let totals = &record.totals.value;
    let total = totals.total.zip(totals.currency);
    let total = total.map(|(minor, currency)| Money { minor, currency }.to_string());
    let financial = record.financial_status();
    let fulfillment = record.fulfillment.value.as_ref();
    OrderSummary {
        currency: totals.currency.map(|currency| currency.to_string()),
        total_price: total,
        financial_status: financial.map(|it| it.as_str().to_owned()),
        fulfillment_status: fulfillment.map(|it| it.as_str().to_owned()),
    }
}

/// The parts of an order whose change is reported as an update.
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
