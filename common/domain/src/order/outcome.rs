//! What follows from the record of an order: the state of its fulfilment, its parcels, the units
//! that go back into stock, the units that are requested, and the changes that are reported.
//! Everything here is computed from the record alone, so the sequence in which the deliveries
//! came makes no difference.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use strum::{Display, IntoStaticStr};

use super::account::Contradiction;
use super::record::{Cancellation, Offer, Record, Restock, Shipment};
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

/// How far a parcel is, for its buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParcelState {
    /// The carrier may not have it yet.
    Announced,
    /// The carrier has it.
    Shipped,
    OutForDelivery,
    /// The carrier was there, and nobody took it.
    Attempted,
    ReadyForPickup,
    Delivered,
    /// The carrier could not deliver it.
    NotDelivered,
    /// All that was in it came back to the shop.
    Returned,
    /// It is not sent.
    Cancelled,
}

impl Shipment {
    /// Its parcels, one for each tracking number.
    pub fn parcels(&self, id: i64) -> impl Iterator<Item = Parcel<'_>> {
        self.tracking.iter().map(move |tracking| Parcel {
            shipment_id: id,
            carrier: self.carrier.as_deref(),
            tracking,
        })
    }
}

impl Record {
    /// The state of the order's fulfilment. The first of these rules that applies decides:
    ///
    /// 1. An order that the storefront cancelled is cancelled, whatever else is known.
    /// 2. An order that is shipped completely is fulfilled, even if its money is refunded later.
    /// 3. An order that was refunded in full, or whose payment was canceled, before it was
    ///    shipped is cancelled. It is requested again when another payment pays for it, unless the
    ///    storefront itself reports the full refund.
    /// 4. An order of which something is [to be shipped](Record::to_ship) is requested.
    /// 5. A paid order of which nothing is left to be shipped is fulfilled, and cancelled if all
    ///    that was to be shipped was taken off it.
    pub fn fulfillment_state(&self) -> FulfillmentState {
        if self.cancelled.is_some() {
            FulfillmentState::Cancelled
        } else if self.is_fulfilled() {
            FulfillmentState::Fulfilled
        } else if self.is_given_back() || self.cancellation().is_some() || self.is_deleted() {
            FulfillmentState::Cancelled
        } else if self.to_ship().values().any(|units| *units > 0) {
            FulfillmentState::Requested
        } else if self.waits_until.is_some() || !self.may_ship_all() || self.is_open() {
            FulfillmentState::Initiated
        } else {
            let units = self.units();
            let mut that_ship = units.values().filter(|line| line.ships).peekable();
            if that_ship.peek().is_some() && that_ship.all(|line| line.shipped == 0) {
                FulfillmentState::Cancelled
            } else {
                FulfillmentState::Fulfilled
            }
        }
    }

    /// The units that are to be shipped, by line id: the open units of an order that is paid or
    /// that is shipped first, and none while a payment is disputed, of a test, or that a
    /// fulfilment service ships by itself. Of an order that was paid and to which something was
    /// added since, the units that the money still pays for: those of the version with the highest
    /// total that it reaches. For an order without a list of lines, it is one unit of
    /// [`WHOLE_ORDER`].
    pub fn to_ship(&self) -> BTreeMap<i64, i64> {
        let is_gone = self.cancelled.is_some() || self.is_deleted();
        let is_over = is_gone || self.is_fulfilled() || self.is_given_back();
        let waits = self.waits_until.is_some() || self.settled.is_disputed;
        // An order that is paid with a part outstanding has a total that is certain, so the units of
        // an earlier version that its money pays for are still shipped.
        let is_doubtful = self
            .contradiction()
            .is_some_and(|it| it != Contradiction::PaidAndOutstanding);
        if is_over || waits || is_doubtful || self.is_test {
            return BTreeMap::new();
        }
        let mut units = self.paid_units();
        for line in self.lines.value.iter().filter(|line| line.service_ships) {
            units.remove(&line.id);
        }
        units
    }

    /// The open units that are paid for, or that are shipped first.
    fn paid_units(&self) -> BTreeMap<i64, i64> {
        if self.may_ship_all() {
            return self.open();
        }
        let Some(offer) = self.paid_offer() else {
            return BTreeMap::new();
        };
        let paid_for = |line: &i64| offer.units.get(line).copied().unwrap_or(0);
        let units = self.units().into_iter();
        units
            .map(|(id, line)| {
                (
                    id,
                    line.open().min(paid_for(&id) - line.with_customer()).max(0),
                )
            })
            .collect()
    }

    /// The version that the money still pays for. A storefront that says no amounts says at least
    /// which version was paid, and that a part of the newest is.
    fn paid_offer(&self) -> Option<&Offer> {
        match self.kept() {
            _ if self.is_taken_back() => None,
            Some(kept) => self.offers.range(..=kept).next_back().map(|(_, it)| it),
            None => {
                let paid = self.offers.values().filter(|offer| offer.is_paid);
                paid.max_by_key(|offer| offer.version)
            }
        }
    }

    fn may_ship_all(&self) -> bool {
        self.is_paid() || self.ships_first()
    }

    pub(super) fn is_open(&self) -> bool {
        self.open().values().any(|units| *units > 0)
    }

    /// True when the order is gone from the shop, and no version of it is newer.
    pub fn is_deleted(&self) -> bool {
        self.deleted_at.is_some_and(|at| at >= self.version.at)
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

    /// The status that the storefront reports or the one that follows from the payments,
    /// whichever is further on.
    pub fn financial_status(&self) -> Option<FinancialStatus> {
        settlement::status(self.financial.value.as_ref(), self.settled.status.as_ref())
    }

    /// The parcels of all shipments that were not cancelled and did not fail.
    pub fn parcels(&self) -> Vec<Parcel<'_>> {
        let live = self.shipments.iter().filter(|(_, it)| it.value.is_live());
        live.flat_map(|(id, it)| it.value.parcels(*id)).collect()
    }

    /// All parcels that a buyer may have heard of, also those that are not sent any more, and how far each is. One whose
    /// number is that of another shipment by now is left out.
    pub fn parcels_with_state(&self) -> Vec<(Parcel<'_>, ParcelState)> {
        let units = (self.shipped(), self.units());
        let live: BTreeSet<&str> = self
            .parcels()
            .iter()
            .map(|parcel| parcel.tracking.number.as_str())
            .collect();
        let mut parcels = Vec::new();
        for (id, shipment) in &self.shipments {
            let state = self.shipment_state(&shipment.value, &units);
            let is_again = |it: &Parcel<'_>| {
                state == ParcelState::Cancelled && live.contains(it.tracking.number.as_str())
            };
            let own = shipment.value.parcels(*id).filter(|it| !is_again(it));
            parcels.extend(own.map(|parcel| (parcel, state)));
        }
        parcels
    }

    /// How far each shipment is that is or was sent, with a tracking number or without.
    pub fn shipment_states(&self) -> Vec<ParcelState> {
        let units = (self.shipped(), self.units());
        let shipments = self.shipments.values();
        shipments
            .map(|shipment| self.shipment_state(&shipment.value, &units))
            .filter(|state| *state != ParcelState::Cancelled)
            .collect()
    }

    /// A storefront says of a shipment alone that a carrier has it (`success`), and of some what the carrier says. A
    /// shipment came back when as many units of each of its lines did as were ever sent.
    fn shipment_state(
        &self,
        shipment: &Shipment,
        (shipped, units): &(HashMap<i64, Shipped>, BTreeMap<i64, Units>),
    ) -> ParcelState {
        let came_back = |line: &i64| {
            let sent = shipped.get(line).map_or(0, |it| it.live);
            let returned = units.get(line).map_or(0, |it| it.returned);
            sent > 0 && returned >= sent
        };
        let lines = &shipment.lines;
        if !shipment.is_live() {
            return ParcelState::Cancelled;
        }
        if !lines.is_empty() && lines.iter().all(|(line, _)| came_back(line)) {
            return ParcelState::Returned;
        }
        let state = match shipment.delivery.as_deref() {
            Some("delivered") => ParcelState::Delivered,
            Some("out_for_delivery") => ParcelState::OutForDelivery,
            Some("attempted_delivery") => ParcelState::Attempted,
            Some("ready_for_pickup") => ParcelState::ReadyForPickup,
            Some("in_transit") => ParcelState::Shipped,
            Some("failure") => ParcelState::NotDelivered,
            Some("label_printed" | "label_purchased" | "confirmed") => ParcelState::Announced,
            _ if shipment.status.as_deref() == Some("success") => ParcelState::Shipped,
            _ => ParcelState::Announced,
        };
        match state {
            ParcelState::Announced if self.cancelled.is_some() => ParcelState::Cancelled,
            state => state,
        }
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
            .map(|(line, it)| (line, it.unshipped() + it.returned.min(it.shipped)))
            .collect()
    }

    /// The number of units that were not taken off the order by an edit or a refund, by line id.
    pub fn current(&self) -> BTreeMap<i64, i64> {
        let units = self.units().into_iter();
        units.map(|(line, it)| (line, it.left)).collect()
    }

    /// The number of units that are neither shipped nor taken off the order, by line id. For an
    /// order without a list of lines, it is one unit of [`WHOLE_ORDER`].
    fn open(&self) -> BTreeMap<i64, i64> {
        if self.lines.value.is_empty() {
            return BTreeMap::from([(WHOLE_ORDER, 1)]);
        }
        let units = self.units().into_iter();
        units.map(|(line, it)| (line, it.open())).collect()
    }

    /// How many units of each line were ordered and are left, and what became of them, by line id.
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
            let ordered = line.units();
            let held = match shipped.get(&line.id) {
                Some(units) => units.live,
                // No shipment lists this line. All of it is shipped if the line says so itself,
                // or if the order is fulfilled and its shipments list no lines at all.
                None if all_came_to_nothing => 0,
                None if line.fulfillment_status.as_deref() == Some("fulfilled") => ordered,
                None if self.is_fulfilled() && !lists_lines => ordered,
                None => 0,
            };
            let returned = refunded(line.id, Restock::Return);
            let written_off = refunded(line.id, Restock::No);
            let called_off = refunded(line.id, Restock::Cancel);
            let off = called_off
                .saturating_add(returned)
                .saturating_add(written_off);
            let units = Units {
                ordered,
                left: line
                    .current_quantity
                    .unwrap_or(ordered.saturating_sub(off).max(0)),
                shipped: held.min(ordered),
                returned,
                written_off,
                ships: line.requires_shipping != Some(false),
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
}

/// How many units of one line were ordered, and what became of them.
struct Units {
    ordered: i64,
    /// The units that were not taken off the order by an edit or a refund.
    left: i64,
    shipped: i64,
    /// A refund took these units back from the customer.
    returned: i64,
    /// A refund left these units where they were: with the customer, or nowhere.
    written_off: i64,
    /// False for what nobody ships.
    ships: bool,
}

impl Units {
    /// The units that were never shipped, without those that were written off before.
    fn unshipped(&self) -> i64 {
        let returned = self.returned.min(self.shipped);
        let lost = self.written_off.saturating_sub(self.shipped - returned);
        (self.ordered - self.shipped)
            .saturating_sub(lost.max(0))
            .max(0)
    }

    /// The shipped units that are still part of the order.
    fn with_customer(&self) -> i64 {
        let gone = self.returned.saturating_add(self.written_off);
        self.shipped.saturating_sub(gone).max(0)
    }

    /// The units that are left to be sent, whatever the refunds of the others were called.
    fn open(&self) -> i64 {
        if !self.ships {
            return 0;
        }
        let open = self.left.saturating_sub(self.with_customer());
        open.min(self.ordered - self.shipped).max(0)
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
    let is_back = settled.status == Some(FinancialStatus::Refunded);
    let is_gone = record.cancelled.is_some() || record.is_deleted();
    if is_gone || is_back || settled.is_disputed {
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
pub const WHOLE_ORDER: i64 = 0;

/// Which units of an order are to be requested or called off now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The units to request, by line id. The map is empty when the whole order is requested
    /// because nobody listed its lines. None when nothing is requested.
    pub units: Option<BTreeMap<i64, i64>>,
    /// The units that were requested and are not to be shipped any more, by line id. The map is
    /// empty when the whole order is called off because nobody listed its lines. None when nothing
    /// is called off.
    pub called_off: Option<BTreeMap<i64, i64>>,
    /// True when every unit to request was in a shipment that was cancelled or failed, so it is
    /// requested once more.
    pub is_repeated: bool,
    pub level: Level,
}

/// Which units are to be requested and which are called off, so that those that are requested and
/// not shipped are the units [to ship](Record::to_ship). None when nothing changes, neither a
/// request nor the level. `level` is what was requested of the order so far. Each unit is requested
/// once, and once more when its shipment was cancelled or failed, or when it was called off in
/// between.
pub fn request(after: &Record, level: &Level) -> Option<Request> {
    // Not every storefront says in which shipment a unit is.
    if after.is_fulfilled() {
        return None;
    }
    let to_ship = after.to_ship();
    let knows_lines = !after.lines.value.is_empty();
    let of_whole_order = level.get(&WHOLE_ORDER).is_some_and(|units| *units > 0);
    if knows_lines && of_whole_order && to_ship.values().any(|units| *units > 0) {
        return Some(Request {
            level: level_of(after),
            ..Request::default()
        });
    }
    let shipped = after.shipped();
    let units = after.units();
    let mut asked = BTreeMap::new();
    let mut called_off = BTreeMap::new();
    let mut now = level.clone();
    let lines: BTreeSet<i64> = level.keys().chain(to_ship.keys()).copied().collect();
    for line in lines {
        let (want, requested) = (number(&to_ship, line), number(level, line));
        let sent = sent(&shipped, &units, line);
        let awaited = requested.saturating_sub(sent).max(0);
        // An order that was shipped in full once may have shipped it without saying so.
        let may_be_sent = after.was_fulfilled && !shipped.contains_key(&line);
        if want > awaited {
            asked.insert(line, want - awaited);
        } else if want < awaited && !may_be_sent {
            called_off.insert(line, awaited - want);
        } else {
            continue;
        }
        now.insert(line, sent.saturating_add(want));
    }
    if asked.is_empty() && called_off.is_empty() {
        return None;
    }
    let came_to_nothing = |line: &i64| of(&shipped, *line).came_to_nothing > 0;
    let is_repeated = !asked.is_empty() && asked.keys().all(came_to_nothing);
    let by_line = |mut units: BTreeMap<i64, i64>| {
        (!units.is_empty()).then(|| {
            units.remove(&WHOLE_ORDER);
            units
        })
    };
    Some(Request {
        is_repeated,
        units: by_line(asked),
        called_off: by_line(called_off),
        level: now,
    })
}

/// The level of an order when all of its open units have been requested.
pub fn level_of(record: &Record) -> Level {
    let (shipped, units) = (record.shipped(), record.units());
    let open = record.open().into_iter();
    open.map(|(line, open)| (line, open.saturating_add(sent(&shipped, &units, line))))
        .collect()
}

/// How many units of a line are or were in shipments.
fn sent(shipped: &HashMap<i64, Shipped>, units: &BTreeMap<i64, Units>, line: i64) -> i64 {
    let by_line = units.get(&line).map_or(0, |line| line.shipped);
    of(shipped, line).all().max(by_line)
}

fn number(units: &BTreeMap<i64, i64>, line: i64) -> i64 {
    units.get(&line).copied().unwrap_or(0)
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
    TrackingUpdated,
}

/// The changes from one record of an order to a later one, in the sequence in which they are
/// reported. `Created` comes once in the life of an order. `Paid`, `Cancelled`, `Fulfilled` and
/// `FulfillmentRequested` come again only after the order fell back: it was not paid any more, its
/// cancellation was taken back, or more was to be shipped.
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
