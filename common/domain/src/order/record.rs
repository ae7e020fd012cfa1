//! What all deliveries of an order come to. A delivery is read into a [`Record`], and the order
//! is the merge of the records of its deliveries.
//!
//! Merging is commutative, associative and idempotent, so deliveries can come in any sequence and
//! any number of times. Of each part of the order (totals, lines, ..) the newest reported value
//! stays. A fact such as "it was cancelled" is never taken back, so a cancelled order stays
//! cancelled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::own::Own;
use super::settlement::Settlement;
use super::{Address, FinancialStatus, FulfillmentStatus, Line, Order, Refund, Topic, Tracking};
use crate::money::{Currency, Money};
use crate::record::{Class, Forget, Rest, member, things};

/// Which of two versions of an order is newer: the one with the later time of the provider, which
/// counts in seconds. Of two versions of one second the one that is further on (cancelled, paid,
/// fulfilled) is newer, then the one with the greater hash of its body.
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
}

/// A part of an order, as the newest version that has this part reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl<T: Default> Default for Part<T> {
    fn default() -> Self {
        Part {
            version: Version::NEVER,
            value: T::default(),
        }
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
    /// the body does not name the order's currency.
    pub amount: Option<i64>,
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
    #[thing]
    pub carrier: Option<String>,
    pub tracking: Vec<Tracking>,
    /// Pairs of an order line's id and the number of its units in this shipment.
    pub lines: Vec<(i64, i64)>,
}

impl Shipment {
    /// False for a shipment that was cancelled or that failed.
    pub fn is_live(&self) -> bool {
        !matches!(
            self.status.as_deref(),
            Some("cancelled" | "error" | "failure")
        )
    }
}

#[derive(Clone, PartialEq, Eq, row::Record)]
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
    /// What is still to be paid, in minor units of the totals' currency.
    #[part]
    pub outstanding: Part<Option<i64>>,
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
    pub cancelled: Option<Cancellation>,
    /// True when some version was paid, even if it was refunded later.
    pub was_paid: bool,
    /// True when some version was refunded in full.
    pub was_refunded: bool,
    /// True when some version was fulfilled in full.
    pub was_fulfilled: bool,
    /// The shipments by the storefront's id.
    pub shipments: BTreeMap<i64, Part<Shipment>>,
    /// What the payments of the order's agreement come to now.
    pub settled: Settlement,
    /// Only for a placeholder: until when it waits for the storefront's own order, in Unix
    /// milliseconds. Until then nothing is requested for it.
    pub waits_until: Option<i64>,
    pub own: Own,
    pub rest: Rest,
}

impl Record {
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
        let financial = match order.financial_status {
            None if by_topic(Topic::Paid) => Some(FinancialStatus::Paid),
            status => status,
        };
        let fulfillment = match order.fulfillment_status {
            None if by_topic(Topic::Fulfilled) => Some(FulfillmentStatus::Fulfilled),
            status => status,
        };
        let stated_at = order.updated_at.or(order.created_at);
        let cancelled_at = order
            .cancelled_at
            .or_else(|| by_topic(Topic::Cancelled).then(|| stated_at.unwrap_or(received_at)));
        let version = Version {
            at: stated_at.unwrap_or(0),
            tie: tie(
                cancelled_at.is_some(),
                financial.as_ref(),
                fulfillment.as_ref(),
                body,
            ),
        };
        let minor = |money: Option<Money>| money.map(|money| money.minor);
        let shipments = order.fulfillments.into_iter().map(|fulfillment| {
            let shipment = Shipment {
                status: fulfillment.status,
                carrier: fulfillment.tracking_company,
                tracking: fulfillment.tracking,
                lines: fulfillment.lines,
            };
            (fulfillment.id, Part::if_present(true, version, shipment))
        });
        Record {
            version,
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
                },
            ),
            outstanding: Part::if_present(present.outstanding, version, minor(order.outstanding)),
            was_paid: matches!(
                financial,
                Some(
                    FinancialStatus::Paid
                        | FinancialStatus::PartiallyRefunded
                        | FinancialStatus::Refunded
                )
            ),
            was_refunded: financial == Some(FinancialStatus::Refunded),
            was_fulfilled: fulfillment == Some(FulfillmentStatus::Fulfilled),
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
                returned(order.refunds, order.currency),
            ),
            // A body without an agreement takes none away: an app that rewrites the attributes may have dropped it.
            agreement: Part::if_present(order.pact_id.is_some(), version, order.pact_id),
            cancelled: cancelled_at.map(|at| Cancellation {
                at,
                reason: order.cancel_reason,
            }),
            shipments: shipments.collect(),
            settled: Settlement::default(),
            waits_until: None,
            own: Own::default(),
            rest: Rest::default(),
        }
    }

    /// The record of an order of which nothing is known.
    pub fn unknown(version: Version) -> Self {
        Record {
            version,
            name: Part::default(),
            ordered_at: None,
            totals: Part::default(),
            outstanding: Part::default(),
            financial: Part::default(),
            fulfillment: Part::default(),
            lines: Part::default(),
            customer: Part::default(),
            contact: Part::default(),
            addresses: Part::default(),
            refunds: Part::default(),
            agreement: Part::default(),
            cancelled: None,
            was_paid: false,
            was_refunded: false,
            was_fulfilled: false,
            shipments: BTreeMap::new(),
            settled: Settlement::default(),
            waits_until: None,
            own: Own::default(),
            rest: Rest::default(),
        }
    }

    /// Merges the record of another delivery, newer or older, into this one. Deliveries say
    /// nothing of the provider's payments, so the caller settles these afterwards.
    pub fn merge(&mut self, other: Record) {
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
        self.cancelled = earliest(self.cancelled.take(), other.cancelled);
        self.was_paid |= other.was_paid;
        self.was_refunded |= other.was_refunded;
        self.was_fulfilled |= other.was_fulfilled;
        for (id, shipment) in other.shipments {
            self.shipments.entry(id).or_default().merge(shipment);
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

fn tie(
    cancelled: bool,
    financial: Option<&FinancialStatus>,
    fulfillment: Option<&FulfillmentStatus>,
    body: &[u8],
) -> i64 {
    let financial = match financial {
        None | Some(FinancialStatus::Pending | FinancialStatus::Other(_)) => 0,
        Some(FinancialStatus::Authorized) => 1,
        Some(FinancialStatus::Expired) => 2,
        Some(FinancialStatus::PartiallyPaid) => 3,
        Some(FinancialStatus::Paid) => 4,
        Some(FinancialStatus::PartiallyRefunded) => 5,
        Some(FinancialStatus::Refunded) => 6,
        Some(FinancialStatus::Voided) => 7,
    };
    let fulfillment = match fulfillment {
        None | Some(FulfillmentStatus::Pending | FulfillmentStatus::Other(_)) => 0,
        Some(FulfillmentStatus::Partial) => 1,
        Some(FulfillmentStatus::Fulfilled) => 2,
        Some(FulfillmentStatus::Restocked) => 3,
    };
    let rank = (i64::from(cancelled) << 6) | (financial << 3) | fulfillment;
    let mut hash = [0; 8];
    hash[2..].copy_from_slice(&Sha256::digest(body)[..6]);
    (rank << 48) | i64::from_be_bytes(hash)
}

fn returned(refunds: Vec<Refund>, currency: Option<Currency>) -> Vec<Returned> {
    let amount = |refund: &Refund| {
        let transactions = refund.transactions.iter();
        let moved = transactions.filter(|transaction| {
            transaction.kind.as_deref() == Some("refund")
                && transaction.status.as_deref() == Some("success")
        });
        moved
            .filter_map(|transaction| transaction.amount)
            // An amount below zero gives nothing back, and must not add to what was paid.
            .filter(|amount| Some(amount.currency) == currency && amount.minor > 0)
            .fold(0_i64, |sum, amount| sum.saturating_add(amount.minor))
    };
    let restock = |kind: Option<&str>| match kind {
        Some("cancel") => Restock::Cancel,
        Some("return" | "legacy_restock") => Restock::Return,
        _ => Restock::No,
    };
    refunds
        .into_iter()
        .map(|refund| Returned {
            id: refund.id,
            amount: currency.map(|_| amount(&refund)),
            lines: refund
                .lines
                .iter()
                .map(|line| ReturnedLine {
                    line_id: line.line_id,
                    quantity: line.quantity,
                    restock: restock(line.restock_type.as_deref()),
                })
                .collect(),
        })
        .collect()
}
