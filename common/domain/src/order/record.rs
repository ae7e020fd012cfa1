//! What all deliveries of an order come to. A delivery is read into a [`Record`]; the
//! order is the merge of the records of its deliveries.
//!
//! Merging is commutative, associative and idempotent: that is the whole answer to
//! deliveries that come in any order and any number of times. Each part of the order
//! (totals, lines, ..) is the newest that was reported; a fact such as "it was cancelled" is
//! never taken back, so a cancelled order stays cancelled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::settlement::Settlement;
use super::{Address, FinancialStatus, FulfillmentStatus, Line, Order, Refund, Tracking};
use crate::money::{Currency, Money};

/// The provider's time of a version, and what decides between versions of one second: the
/// one further on (cancelled, paid, fulfilled), then the body's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Unix milliseconds.
    pub at: i64,
    pub tie: i64,
}

impl Version {
    /// Before every other.
    pub const NEVER: Version = Version {
        at: i64::MIN,
        tie: i64::MIN,
    };
}

/// A part of an order as the newest version that had it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    pub version: Version,
    pub value: T,
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

/// Minor units of `currency`; all None without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub currency: Option<Currency>,
    pub total: Option<i64>,
    pub subtotal: Option<i64>,
    pub tax: Option<i64>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contact {
    pub email: Option<String>,
    pub phone: Option<String>,
}

/// Each as JSON.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    pub shipping: Option<String>,
    pub billing: Option<String>,
}

/// When it was cancelled for the first time, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// Unix milliseconds.
    pub at: i64,
    pub reason: Option<String>,
}

/// A refund that the storefront made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    pub id: i64,
    /// What its successful transactions in the order's currency come to, in minor units;
    /// None when the body does not have that currency.
    pub amount: Option<i64>,
    pub lines: Vec<ReturnedLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedLine {
    pub line_id: i64,
    pub quantity: i64,
    pub restock: Restock,
}

/// What a refund did with its units (the provider's `restock_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restock {
    /// They had not been shipped, and stay in stock.
    Cancel,
    /// They came back from the customer.
    Return,
    /// They are gone.
    No,
}

/// One of the storefront's fulfilments of the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shipment {
    pub status: Option<String>,
    pub carrier: Option<String>,
    pub tracking: Vec<Tracking>,
    /// Units by order line.
    pub lines: Vec<(i64, i64)>,
}

impl Shipment {
    /// False for one that came to nothing.
    pub fn is_live(&self) -> bool {
        !matches!(
            self.status.as_deref(),
            Some("cancelled" | "error" | "failure")
        )
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The newest.
    pub version: Version,
    /// As the shop shows it, such as `#1001`.
    pub name: Part<Option<String>>,
    /// The earliest that was reported, Unix milliseconds.
    pub ordered_at: Option<i64>,
    pub totals: Part<Totals>,
    /// What is still to be paid, in minor units of the totals' currency.
    pub outstanding: Part<Option<i64>>,
    pub financial: Part<Option<FinancialStatus>>,
    pub fulfillment: Part<Option<FulfillmentStatus>>,
    pub lines: Part<Vec<Line>>,
    /// The customer's id.
    pub customer: Part<Option<i64>>,
    pub contact: Part<Contact>,
    pub addresses: Part<Addresses>,
    pub refunds: Part<Vec<Returned>>,
    /// The agreement by which payments are found.
    pub pact: Part<Option<String>>,
    pub cancelled: Option<Cancellation>,
    /// Some version was paid, be it refunded since.
    pub was_paid: bool,
    /// Some version was refunded in full.
    pub was_refunded: bool,
    /// Some version was fulfilled in full.
    pub was_fulfilled: bool,
    /// By the storefront's id.
    pub shipments: BTreeMap<i64, Part<Shipment>>,
    /// What the payments of its agreement come to now.
    pub settled: Settlement,
    /// Of an order that a checkout session made: the storefront's own may still come and take
    /// its place, so nothing is requested for it until then, Unix milliseconds.
    pub waits_until: Option<i64>,
}

impl Record {
    /// Forgets whom it is of, but for the customer's id.
    pub fn forget_person(&mut self) {
        self.contact.value = Contact::default();
        self.addresses.value = Addresses::default();
        for shipment in self.shipments.values_mut() {
            for tracking in &mut shipment.value.tracking {
                tracking.url = None;
            }
        }
    }

    /// What one delivery says. `received_at`, Unix milliseconds, stands in for times that
    /// the body does not have.
    ///
    /// The body decides, because it is signed and its topic is not: a captured
    /// `orders/create` that comes again as `orders/paid` pays for nothing. The topic counts
    /// only for a status whose key was cut from the body. Whether it may count is for the
    /// caller to know, who remembers bodies; the empty topic says nothing.
    pub fn of(order: Order, topic: &str, body: &[u8], received_at: i64) -> Self {
        let present = order.present_fields;
        let by_topic = |of: &str| topic == of && present.leaves_to(of);
        let financial = match order.financial_status {
            None if by_topic("orders/paid") => Some(FinancialStatus::Paid),
            status => status,
        };
        let fulfillment = match order.fulfillment_status {
            None if by_topic("orders/fulfilled") => Some(FulfillmentStatus::Fulfilled),
            status => status,
        };
        let stated_at = order.updated_at.or(order.created_at);
        let cancelled_at = order
            .cancelled_at
            .or_else(|| by_topic("orders/cancelled").then(|| stated_at.unwrap_or(received_at)));
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
                    shipping: order.shipping_address.as_ref().map(json),
                    billing: order.billing_address.as_ref().map(json),
                },
            ),
            refunds: Part::if_present(
                present.refunds,
                version,
                returned(order.refunds, order.currency),
            ),
            pact: Part::if_present(present.pact_id, version, order.pact_id),
            cancelled: cancelled_at.map(|at| Cancellation {
                at,
                reason: order.cancel_reason,
            }),
            shipments: shipments.collect(),
            settled: Settlement::default(),
            waits_until: None,
        }
    }

    /// Of an order of which nothing is known.
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
            pact: Part::default(),
            cancelled: None,
            was_paid: false,
            was_refunded: false,
            was_fulfilled: false,
            shipments: BTreeMap::new(),
            settled: Settlement::default(),
            waits_until: None,
        }
    }

    /// Takes in what another delivery said, newer or older. Deliveries say nothing of our
    /// payments: these are settled after it.
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
        self.pact.merge(other.pact);
        self.cancelled = earliest(self.cancelled.take(), other.cancelled);
        self.was_paid |= other.was_paid;
        self.was_refunded |= other.was_refunded;
        self.was_fulfilled |= other.was_fulfilled;
        for (id, shipment) in other.shipments {
            self.shipments.entry(id).or_default().merge(shipment);
        }
    }
}

/// Of one instant, the cancellation that knows its reason.
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
            .filter(|amount| Some(amount.currency) == currency)
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

fn json(address: &Address) -> String {
    serde_json::json!({
        "first_name": address.first_name,
        "last_name": address.last_name,
        "address1": address.address1,
        "address2": address.address2,
        "city": address.city,
        "province": address.province,
        "country": address.country,
        "zip": address.zip,
        "phone": address.phone,
    })
    .to_string()
}
