//! What follows from an order's record: the state of its fulfilment, its parcels, what goes
//! back into stock and what is refunded, and which changes lead from one record to the
//! next. Functions of the record alone, so they come out the same however it came about.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::record::{Cancellation, Record, Restock, Shipment};
use super::settlement::Settlement;
use super::{FinancialStatus, FulfillmentStatus, Tracking, settlement};
use crate::event::OrderSummary;
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
    /// whose payment was canceled, until another one pays for it. When all was shipped once
    /// and more is open since, a shipment that came to nothing or an item added later, it is
    /// requested as soon as all of it is paid.
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

    /// All was shipped once, and what was added since is not paid yet.
    fn owes_for_more(&self) -> bool {
        self.was_fulfilled && !self.is_paid_up()
    }

    /// All of it is shipped: the storefront said so last, and it is not so that every shipment
    /// that it reported came to nothing.
    pub fn is_fulfilled(&self) -> bool {
        let reported = self.fulfillment.value == Some(FulfillmentStatus::Fulfilled);
        let came_to_nothing =
            !self.shipments.is_empty() && self.shipments.values().all(|part| !part.value.is_live());
        reported && !came_to_nothing
    }

    /// When and why the order was cancelled: by the storefront, for good; or because its
    /// payment was canceled, as long as nothing is paid or authorized for it otherwise.
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

    /// As the storefront said once, or a session, or as the payments stand now.
    pub fn is_paid(&self) -> bool {
        self.was_paid || self.settled.covers
    }

    /// Nothing is left to be paid: items that were added later are paid too.
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
        let units = self.units();
        units
            .into_iter()
            .map(|(line, it)| (line, it.unshipped() + it.returned))
            .collect()
    }

    /// Units that are still to be shipped by line id.
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

    /// What has become of the units of each line.
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
                // No shipment mentions it: all, if the line says so, or the order is fulfilled.
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
                // Units that are with the customer are written off first.
                lost: written_off.saturating_sub(shipped - returned).max(0),
                called_off: refunded(line.id, Restock::Cancel),
            };
            (line.id, units)
        });
        lines.collect()
    }

    /// Units by line id that shipments hold, and that shipments held which came to nothing.
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

    /// What the storefront took for the order and has not given back, in minor units, as far as
    /// it says.
    pub fn kept_minor(&self) -> Option<i64> {
        let refunds = self.refunds.value.iter();
        let back = refunds.fold(0_i64, |sum, refund| {
            sum.saturating_add(refund.amount.unwrap_or(0))
        });
        Some(self.paid_minor()?.saturating_sub(back).max(0))
    }

    /// What was paid for the order, in minor units, as far as the storefront says.
    pub fn paid_minor(&self) -> Option<i64> {
        let outstanding = match self.outstanding.value {
            // A part was paid; how much, the storefront does not say.
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

/// What has become of the units of a line.
struct Units {
    ordered: i64,
    shipped: i64,
    returned: i64,
    /// Written off before they were shipped.
    lost: i64,
    /// Refunded before they were shipped; they are in stock.
    called_off: i64,
}

impl Units {
    fn unshipped(&self) -> i64 {
        (self.ordered - self.shipped)
            .saturating_sub(self.lost)
            .max(0)
    }
}

/// Units of a line in shipments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shipped {
    live: i64,
    /// In shipments that were cancelled or failed.
    came_to_nothing: i64,
}

impl Shipped {
    fn all(self) -> i64 {
        self.live.saturating_add(self.came_to_nothing)
    }
}

/// How far a further cycle of an order's agreement is. Nobody says when it is shipped.
pub fn cycle_state(record: &Record, settled: &Settlement) -> FulfillmentState {
    if record.cancelled.is_some() || settled.status == Some(FinancialStatus::Refunded) {
        FulfillmentState::Cancelled
    } else if settled.covers && record.waits_until.is_none() {
        FulfillmentState::Requested
    } else {
        FulfillmentState::Initiated
    }
}

/// How many units of each line were ever requested or shipped, by line id. Units that were
/// requested and not shipped yet are what it has more than the shipments.
pub type Level = BTreeMap<i64, i64>;

/// Stands for all of an order whose lines nobody listed.
const WHOLE_ORDER: i64 = 0;

/// What is requested of an order now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Units by line id; `Some` and without lines when nobody listed them.
    pub units: Option<BTreeMap<i64, i64>>,
    /// No more than units whose shipment came to nothing.
    pub is_repeated: bool,
    pub level: Level,
}

/// What is to be requested when an order becomes another: each unit once, and once more when
/// its shipment came to nothing or the fulfilment was called off in between. `level` is what
/// was requested of it so far; an order whose request an older version wrote has none.
pub fn request(
    was: FulfillmentState,
    before: Option<&Record>,
    after: &Record,
    level: Option<&Level>,
) -> Option<Request> {
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
    let older = || before.filter(|_| was == FulfillmentState::Requested);
    let level = level.cloned().or_else(|| older().map(level_of));
    let level = level.unwrap_or_default();
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
        let to = risen.entry(line).or_default();
        *to = units.max(*to);
    }
    Some(Request {
        is_repeated: asked
            .keys()
            .all(|line| of(&shipped, *line).came_to_nothing > 0),
        units: Some(if knows_lines { asked } else { BTreeMap::new() }),
        level: risen,
    })
}

/// The level of an order of which everything open is requested.
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
/// reported. `Created` comes once in the life of an order; so do `Paid`, `Cancelled`, `Fulfilled`
/// and `FulfillmentRequested`, unless a payment was canceled or went back in full and another
/// one followed, or more was to be shipped after all had been.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let was = before.map_or(FulfillmentState::Initiated, Record::fulfillment_state);
    changes_from(was, before, after)
}

/// The same, of an order whose fulfilment was in another state than its record says, because
/// it takes the place of one for which it was requested.
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

/// An order in an event: what an update is reported for, without its lines.
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

/// What an update is reported for.
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
