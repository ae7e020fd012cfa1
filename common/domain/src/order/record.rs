//! What all deliveries of an order come to. A delivery is read into a [`Record`], and the order
//! is the merge of the records of its deliveries.
//!
//! Merging is commutative, associative and idempotent, so deliveries can come in any sequence and
//! any number of times. Of each part of the order (totals, lines, ..) the newest reported value
//! stays. A fact such as "it was cancelled" is never taken back, so a cancelled order stays
//! cancelled, except at a storefront that takes cancellations back: there the newest version
//! decides.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::own::Own;
use super::read::is_past_providers;
use super::settlement::Settlement;
use super::{
    Address, FinancialStatus, Fulfillment, FulfillmentStatus, Line, Order, Presentment, Refund,
    RefundLine, Terms, Topic, Tracking, Transaction,
};
use crate::connection::{self, DEFAULT, qualified};
use crate::money::{Currency, Money};
use crate::record::{Class, Forget, Rest, member, things};

/// Which of two versions of an order is newer: the one with the later time of the provider, which
/// counts in seconds. Of two versions of one second the one that is further on is newer, by what
/// only grows (cancelled, paid, fulfilled, refunds, shipments, parcels, lines, removed units), then
/// the one with the greater hash of its body. The header with the time of sending decides nothing,
/// because it is not signed: a captured body could be sent again as the last of its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// The provider's time of the version in Unix milliseconds.
    pub at: i64,
    pub tie: i64,
}

things!(Version, Restock);

impl Version {
    /// Older than every other version.
    pub const NEVER: Version = Version {
        at: i64::MIN,
        tie: i64::MIN,
    };

    /// Whether it says more than another version does. Two texts of one version say the same, so the hashes of their
    /// bodies decide nothing here.
    pub fn is_past(self, other: Version) -> bool {
        (self.at, self.tie >> 32) > (other.at, other.tie >> 32)
    }
}

impl Default for Version {
    fn default() -> Self {
        Version::NEVER
    }
}

/// A part of an order, as the newest version that has this part reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part<T> {
    pub version: Version,
    pub value: T,
}

/// A part as it is kept: without its version if that is the order's newest, as it mostly is.
#[derive(Serialize, Deserialize)]
pub struct Written<T> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    value: T,
}

impl<T> Part<T> {
    pub(crate) fn beside(&self, newest: Version) -> Written<&T> {
        Written {
            version: (self.version != newest).then_some(self.version),
            value: &self.value,
        }
    }

    pub(crate) fn read(part: Written<T>, newest: Option<Version>) -> Self {
        Part {
            version: part.version.or(newest).unwrap_or(Version::NEVER),
            value: part.value,
        }
    }
}

/// The version stays, so that no older delivery brings the person back.
impl<T: Forget> Forget for Part<T> {
    fn forget_person(&mut self) {
        self.value.forget_person();
    }

    fn classes(at: &str, see: &mut dyn FnMut(&str, Class)) {
        see(&member(at, "version"), Class::Thing);
        T::classes(&member(at, "value"), see);
    }
}

impl<T: Default> Part<T> {
    fn if_present(is_present: bool, version: Version, value: T) -> Self {
        if is_present {
            Part { version, value }
        } else {
            Part::default()
        }
    }

    fn merge(&mut self, other: Self) {
        if other.version > self.version {
            *self = other;
        }
    }
}

/// Amounts in minor units of `currency`. All are None when the currency is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Totals {
    pub currency: Option<Currency>,
    pub total: Option<i64>,
    pub subtotal: Option<i64>,
    pub tax: Option<i64>,
    /// The total without what was removed, and with what was added.
    pub current: Option<i64>,
    /// By how much cash was rounded. So much is neither due nor owed.
    pub cash_rounding: i64,
    /// The currency of the shop that the total's set of amounts names, if that is another one.
    pub other_currency: Option<Currency>,
    pub presentment: Option<Presentment>,
}

/// How the buyer pays for the order.
#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Means {
    /// Set when the order is shipped before it is paid.
    pub terms: Option<Terms>,
    /// True when the shop took nothing but its own credit.
    pub own_credit: bool,
}

/// The units that an earlier version had, by line id, which its total pays for.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Offer {
    #[required]
    pub version: Version,
    pub units: BTreeMap<i64, i64>,
    /// True when the storefront said of this version that it is paid.
    pub is_paid: bool,
}

#[derive(Clone, Default, PartialEq, Eq, row::Record)]
pub struct Contact {
    #[person]
    pub email: Option<String>,
    #[person]
    pub phone: Option<String>,
}

#[derive(Clone, Default, PartialEq, Eq, row::Record)]
pub struct Addresses {
    #[person]
    pub shipping: Option<Address>,
    #[person]
    pub billing: Option<Address>,
}

/// When the order was cancelled for the first time, and why.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Cancellation {
    /// Unix milliseconds.
    #[required]
    pub at: i64,
    #[thing]
    pub reason: Option<String>,
}

/// A refund that the storefront made.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Returned {
    #[required]
    pub id: i64,
    /// The sum of its successful transactions in the order's currency, in minor units. None when
    /// a transaction does not say its amount in that currency.
    pub amount: Option<i64>,
    /// True when money went back as credit of the shop or by its people's hand, which no payment
    /// provider knows of.
    pub past_providers: bool,
    pub lines: Vec<ReturnedLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct ReturnedLine {
    #[required]
    pub line_id: i64,
    pub quantity: i64,
    #[required]
    pub restock: Restock,
}

/// What a refund did with its units (the provider's `restock_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restock {
    /// The units had not been shipped, and stay in stock.
    Cancel,
    /// The units came back from the customer into stock.
    Return,
    /// The units are written off.
    No,
}

/// A shipment of the order. The storefront calls it a fulfilment.
#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Shipment {
    #[thing]
    pub status: Option<String>,
    /// What the carrier says, in the storefront's word: `in_transit`, `delivered`, ..
    #[thing]
    pub delivery: Option<String>,
    #[thing]
    pub carrier: Option<String>,
    pub tracking: Vec<Tracking>,
    /// Pairs of an order line's id and the number of its units in this shipment.
    pub lines: Vec<(i64, i64)>,
}

impl Shipment {
    /// False for a shipment that was cancelled or that failed.
    pub fn is_live(&self) -> bool {
        is_live(self.status.as_deref())
    }
}

fn is_live(status: Option<&str>) -> bool {
    !matches!(status, Some("cancelled" | "error" | "failure"))
}

#[derive(Clone, Default, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    /// The newest version of all merged deliveries.
    #[required]
    pub version: Version,
    /// The name that the shop shows, such as `#1001`.
    #[thing]
    #[part]
    pub name: Part<Option<String>>,
    /// The earliest time of the order that was reported, in Unix milliseconds.
    pub ordered_at: Option<i64>,
    #[part]
    pub totals: Part<Totals>,
    /// What is still to be paid of the current total, in minor units of the totals' currency.
    #[part]
    pub outstanding: Part<Option<i64>>,
    /// What earlier versions sold for another total, by that total.
    pub offers: BTreeMap<i64, Offer>,
    #[part]
    pub means: Part<Means>,
    #[part]
    pub financial: Part<Option<FinancialStatus>>,
    #[part]
    pub fulfillment: Part<Option<FulfillmentStatus>>,
    #[part]
    pub lines: Part<Vec<Line>>,
    /// The storefront's id of the customer.
    #[part]
    pub customer: Part<Option<i64>>,
    #[part]
    pub contact: Part<Contact>,
    #[part]
    pub addresses: Part<Addresses>,
    #[part]
    pub refunds: Part<Vec<Returned>>,
    /// The id of the agreement, by which the order's payments are found.
    #[thing]
    #[part]
    pub agreement: Part<Option<String>>,
    /// The order's own id as it counts within the connection whose payments pay for it (`crate::connection`). None
    /// where that is the default one. The first delivery decides it, because an order stays with the account that sold it.
    #[thing]
    pub own_reference: Option<String>,
    pub cancelled: Option<Cancellation>,
    /// What the newest version says of a cancellation, at a storefront that takes them back.
    #[part]
    pub revocable: Part<Option<Cancellation>>,
    /// The fields of the newest version that have a value which could not be read.
    #[thing]
    pub unread: Vec<String>,
    /// True when some version says that it is a test, of which nothing is to be shipped.
    pub is_test: bool,
    /// True when some version was paid in full.
    pub was_paid: bool,
    /// True when some version was fulfilled in full.
    pub was_fulfilled: bool,
    /// The shipments by the storefront's id.
    pub shipments: BTreeMap<i64, Part<Shipment>>,
    /// When it was last heard that the order is gone from the shop, in Unix milliseconds. A version
    /// that is newer brings it back.
    pub deleted_at: Option<i64>,
    /// What the payments of the order's agreement come to now.
    pub settled: Settlement,
    /// Only for a placeholder: until when it waits for the storefront's own order, in Unix
    /// milliseconds. Until then nothing is requested for it.
    pub waits_until: Option<i64>,
    pub own: Own,
    pub rest: Rest,
}

impl Record {
    /// The agreement as payments name it within their connection. None: the order's id stands for it.
    pub fn named_agreement(&self) -> Option<Cow<'_, str>> {
        match (&self.own_reference, &self.agreement.value) {
            (None, None) => None,
            (None, Some(agreement)) => Some(qualified(DEFAULT, agreement)),
            (Some(own), None) => Some(Cow::Borrowed(own.as_str())),
            (Some(own), Some(agreement)) => Some(qualified(connection::of_id(own), agreement)),
        }
    }

    /// Says that the payments of this connection pay for the order of this id.
    pub fn paid_by(&mut self, connection: &str, id: &str) {
        if connection != DEFAULT {
            self.own_reference = Some(qualified(connection, id).into_owned());
        }
    }

    /// The record of one delivery. `received_at`, in Unix milliseconds, takes the place of a time
    /// that the body does not have.
    ///
    /// The body decides and not the topic, because the body is signed and the topic is not: a
    /// captured body of `orders/create` that is sent again as `orders/paid` must not mark the
    /// order as paid. The topic counts only for a status whose key the body does not have. The
    /// caller remembers earlier bodies and knows whether the topic may count; it passes no
    /// topic when it may not.
    pub fn of(order: Order, topic: Option<Topic>, body: &[u8], received_at: i64) -> Self {
        let present = order.present_fields;
        let by_topic = |of| topic == Some(of) && present.leaves_to(of);
        let financial = match order.financial_status.clone() {
            None if by_topic(Topic::Paid) => Some(FinancialStatus::Paid),
            status => status,
        };
        let fulfillment = match order.fulfillment_status.clone() {
            None if by_topic(Topic::Fulfilled) => Some(FulfillmentStatus::Fulfilled),
            status => status,
        };
        let stated_at = order.updated_at.or(order.created_at);
        // A time that cannot be read is still the time of a cancellation.
        let is_cancelled = by_topic(Topic::Cancelled) || order.unread.contains(&"cancelled_at");
        let cancelled_at = order
            .cancelled_at
            .or_else(|| is_cancelled.then(|| stated_at.unwrap_or(received_at)));
        let tie = tie(
            &order,
            cancelled_at.is_some(),
            financial.as_ref(),
            fulfillment.as_ref(),
        );
        let version = Version {
            at: stated_at.unwrap_or(0),
            tie: (tie << 32) | hash(body),
        };
        let minor = |money: Option<Money>| money.map(|money| money.minor);
        let shipments = order.fulfillments.into_iter().map(|fulfillment| {
            let version = Version {
                at: fulfillment.updated_at.unwrap_or(version.at),
                tie: tie_of_shipment(&fulfillment, version),
            };
            let shipment = Shipment {
                status: fulfillment.status,
                delivery: fulfillment.shipment_status,
                carrier: fulfillment.tracking_company,
                tracking: fulfillment.tracking,
                lines: fulfillment.lines,
            };
            (fulfillment.id, Part::if_present(true, version, shipment))
        });
        let cancelled = cancelled_at.map(|at| Cancellation {
            at,
            reason: order.cancel_reason,
        });
        let unread = order.unread.into_iter().map(ToOwned::to_owned);
        Record {
            version,
            unread: unread.collect(),
            means: Part::if_present(
                present.terms,
                version,
                Means {
                    terms: order.terms,
                    own_credit: order.own_credit,
                },
            ),
            revocable: Part::if_present(
                order.can_come_back && (present.cancelled_at || cancelled.is_some()),
                version,
                cancelled.clone(),
            ),
            name: Part::if_present(present.name, version, order.name),
            ordered_at: order.created_at,
            totals: Part::if_present(
                present.total,
                version,
                Totals {
                    currency: order.currency,
                    total: minor(order.total),
                    subtotal: minor(order.subtotal),
                    tax: minor(order.tax),
                    current: minor(order.current),
                    cash_rounding: order.cash_rounding,
                    other_currency: order.other_currency,
                    presentment: order.presentment,
                },
            ),
            outstanding: Part::if_present(present.outstanding, version, minor(order.outstanding)),
            // A deposit of which a part went back is no paid order.
            was_paid: match financial {
                Some(FinancialStatus::Paid) => true,
                Some(FinancialStatus::PartiallyRefunded) => order
                    .outstanding
                    .is_none_or(|outstanding| outstanding.minor <= 0),
                _ => false,
            },
            was_fulfilled: fulfillment == Some(FulfillmentStatus::Fulfilled),
            is_test: order.is_test,
            financial: Part::if_present(
                present.financial_status || financial.is_some(),
                version,
                financial,
            ),
            fulfillment: Part::if_present(
                present.fulfillment_status || fulfillment.is_some(),
                version,
                fulfillment,
            ),
            lines: Part::if_present(present.lines, version, order.lines),
            customer: Part::if_present(
                present.customer,
                version,
                order.customer.and_then(|customer| customer.id),
            ),
            contact: Part::if_present(
                present.contact,
                version,
                Contact {
                    email: order.email,
                    phone: order.phone,
                },
            ),
            addresses: Part::if_present(
                present.addresses,
                version,
                Addresses {
                    shipping: order.shipping_address,
                    billing: order.billing_address,
                },
            ),
            refunds: Part::if_present(
                present.refunds,
                version,
                returned(&order.refunds, order.currency),
            ),
            // A body without an agreement takes none away: an app that rewrites the attributes may have dropped it.
            agreement: Part::if_present(order.pact_id.is_some(), version, order.pact_id),
            cancelled,
            shipments: shipments.collect(),
            deleted_at: by_topic(Topic::Deleted).then_some(received_at),
            ..Record::default()
        }
    }

    /// The record of an order that is gone from the shop since this time, in Unix milliseconds.
    pub fn deleted(at: i64) -> Self {
        Record {
            deleted_at: Some(at),
            ..Record::default()
        }
    }

    /// The record of an order of which nothing is known.
    pub fn unknown(version: Version) -> Self {
        Record {
            version,
            ..Record::default()
        }
    }

    /// Merges the record of another delivery, newer or older, into this one. Deliveries say
    /// nothing of the provider's payments, so the caller settles these afterwards.
    pub fn merge(&mut self, other: Record) {
        self.merge_offers(&other);
        if other.version > self.version {
            self.unread = other.unread;
        }
        self.version = self.version.max(other.version);
        self.name.merge(other.name);
        self.ordered_at = match (self.ordered_at, other.ordered_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.totals.merge(other.totals);
        self.financial.merge(other.financial);
        self.fulfillment.merge(other.fulfillment);
        self.lines.merge(other.lines);
        self.outstanding.merge(other.outstanding);
        self.customer.merge(other.customer);
        self.contact.merge(other.contact);
        self.addresses.merge(other.addresses);
        self.refunds.merge(other.refunds);
        self.agreement.merge(other.agreement);
        self.own_reference = [self.own_reference.take(), other.own_reference]
            .into_iter()
            .flatten()
            .min();
        self.means.merge(other.means);
        self.revocable.merge(other.revocable);
        self.cancelled = if self.can_come_back() {
            self.revocable.value.clone()
        } else {
            earliest(self.cancelled.take(), other.cancelled)
        };
        self.was_paid |= other.was_paid;
        self.was_fulfilled |= other.was_fulfilled;
        self.is_test |= other.is_test;
        self.deleted_at = self.deleted_at.max(other.deleted_at);
        for (id, shipment) in other.shipments {
            self.shipments.entry(id).or_default().merge(shipment);
        }
        // What the newest version sells is not said twice.
        if let Some((total, _)) = self.offer() {
            self.offers.remove(&total);
        }
    }

    /// True when the storefront can take a cancellation back.
    pub fn can_come_back(&self) -> bool {
        self.revocable.version != Version::NEVER
    }

    /// What the newest version sells, and for which total. None when these are of two versions.
    fn offer(&self) -> Option<(i64, Offer)> {
        let (totals, lines) = (&self.totals, &self.lines);
        let total = totals.value.current.or(totals.value.total)?;
        let is_of_one = totals.version == lines.version && total > 0;
        is_of_one.then(|| {
            let units = lines.value.iter().map(|line| (line.id, line.left()));
            let offer = Offer {
                version: lines.version,
                units: units.collect(),
                is_paid: self.financial.version == lines.version
                    && self.financial.value == Some(FinancialStatus::Paid),
            };
            (total, offer)
        })
    }

    /// Keeps of each total the newest units.
    fn merge_offers(&mut self, other: &Record) {
        let mut offers: Vec<_> = other.offers.clone().into_iter().collect();
        if (self.totals.version, self.lines.version) != (other.totals.version, other.lines.version)
        {
            offers.extend(self.offer());
            offers.extend(other.offer());
        }
        for (total, offer) in offers {
            match self.offers.get(&total) {
                Some(known) if known.version >= offer.version => {}
                _ => drop(self.offers.insert(total, offer)),
            }
        }
    }
}

/// The earlier of two cancellations. Of two at the same time, the one that has a reason.
fn earliest(a: Option<Cancellation>, b: Option<Cancellation>) -> Option<Cancellation> {
    let (Some(a), Some(b)) = (&a, &b) else {
        return a.or(b);
    };
    let key = |it: &Cancellation| (it.at, it.reason.is_none(), it.reason.clone());
    Some(if key(b) < key(a) {
        b.clone()
    } else {
        a.clone()
    })
}

/// How far on a version is, in 31 bits.
fn tie(
    order: &Order,
    cancelled: bool,
    financial: Option<&FinancialStatus>,
    fulfillment: Option<&FulfillmentStatus>,
) -> i64 {
    let financial = rank(FinancialStatus::KNOWN, financial);
    let fulfillment = rank(FulfillmentStatus::KNOWN, fulfillment);
    let statuses = (i64::from(cancelled) << 5) | (financial << 2) | fulfillment;
    let removed = order.lines.iter().map(|line| line.units() - line.left());
    let counts = [
        count(order.refunds.len()),
        count(order.fulfillments.len()),
        count(order.fulfillments.iter().map(|it| it.tracking.len()).sum()),
        count(order.lines.len()),
        removed.fold(0, i64::saturating_add),
    ];
    let counts = counts.into_iter();
    counts.fold(statuses, |tie, count| (tie << 5) | count.clamp(0, 31))
}

fn rank<T: PartialEq>(known: &[T], status: Option<&T>) -> i64 {
    let rank = known.iter().position(|known| Some(known) == status);
    rank.map_or(0, count)
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A shipment has a time of its own. Of one time a shipment that came to nothing is newer, then
/// what the newer version of the order says of it.
fn tie_of_shipment(fulfillment: &Fulfillment, version: Version) -> i64 {
    if fulfillment.updated_at.is_none() {
        return version.tie;
    }
    let came_to_nothing = !is_live(fulfillment.status.as_deref());
    let version = (version.at.max(0) << 20) | (version.tie & 0xF_FFFF);
    (i64::from(came_to_nothing) << 62) | (version & !(3 << 61))
}

/// 32 bits of the hash of a body.
fn hash(body: &[u8]) -> i64 {
    let mut hash = [0; 8];
    hash[4..].copy_from_slice(&Sha256::digest(body)[..4]);
    i64::from_be_bytes(hash)
}

fn returned(refunds: &[Refund], currency: Option<Currency>) -> Vec<Returned> {
    let moved = |refund: &Refund| {
        let is_moved = |it: &&Transaction| {
            it.kind.as_deref() == Some("refund") && it.status.as_deref() == Some("success")
        };
        refund
            .transactions
            .iter()
            .filter(is_moved)
            .cloned()
            .collect()
    };
    let amount = |moved: &[Transaction]| {
        let amounts = moved.iter().map(|it| {
            let amounts = [it.in_shop, it.amount].into_iter().flatten();
            let mut in_shop = amounts.filter(|amount| Some(amount.currency) == currency);
            // An amount below zero gives nothing back, and must not add to what was paid.
            in_shop.next().map(|amount| amount.minor.max(0))
        });
        let mut amounts = amounts.into_iter();
        let sum = amounts.try_fold(0_i64, |sum, amount| Some(sum.saturating_add(amount?)));
        sum.filter(|_| currency.is_some())
    };
    let restock = |kind: Option<&str>| match kind {
        Some("cancel") => Restock::Cancel,
        Some("return" | "legacy_restock") => Restock::Return,
        _ => Restock::No,
    };
    let line = |line: &RefundLine| ReturnedLine {
        line_id: line.line_id,
        quantity: line.quantity,
        restock: restock(line.restock_type.as_deref()),
    };
    let returned = |refund: &Refund| {
        let moved: Vec<Transaction> = moved(refund);
        let gateways = moved.iter().filter_map(|it| it.gateway.as_deref());
        Returned {
            id: refund.id,
            amount: amount(&moved),
            past_providers: gateways.into_iter().any(is_past_providers),
            lines: refund.lines.iter().map(line).collect(),
        }
    };
    refunds.iter().map(returned).collect()
}
