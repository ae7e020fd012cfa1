//! A storefront order: the fields that the handlers need, read from the raw body of any of the
//! five order topics, which all carry the same resource. An order of WooCommerce has other fields,
//! and is recognized by them.
//!
//! Only the order's id must be right, because without it nobody knows which order it is. Any other
//! field with a wrong value is taken as absent, and numbers, lists, codes and times that could not
//! be read are listed in `unread`, so that somebody hears of them.

pub mod account;
pub mod outcome;
pub mod own;
mod read;
pub mod record;
pub mod settlement;
mod topic;
pub(crate) mod woocommerce;

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::json::{self, fields};
use crate::money::{Currency, Money};
use crate::record::words;
use crate::shape::Shape;

pub use self::topic::Topic;

/// The shop and the order's id.
pub type OrderKey = (String, i64);

/// True for the body of an order of WooCommerce.
pub fn is_of_woocommerce(body: &[u8]) -> bool {
    fields! { Marked { date_created_gmt, date_created, created_at } }

    json::object::<Marked>(body).is_ok_and(|body| {
        woocommerce::is_marked(body.date_created_gmt, body.date_created, body.created_at)
    })
}

/// All times are Unix milliseconds. Ids are unique within each list. Debug shows ids, amounts and
/// times, and no text that a sender can choose.
#[derive(Clone, PartialEq, Eq)]
pub struct Order {
    pub id: i64,
    /// The name that the shop shows, such as `#1001`.
    pub name: Option<String>,
    pub order_number: Option<i64>,
    pub email: Option<String>,
    pub phone: Option<String>,
    pub customer: Option<Customer>,
    pub currency: Option<Currency>,
    /// All amounts are None when the body has no currency.
    pub total: Option<Money>,
    pub subtotal: Option<Money>,
    pub tax: Option<Money>,
    /// The total without what was removed, and with what was added.
    pub current: Option<Money>,
    /// What is still to be paid of the current total.
    pub outstanding: Option<Money>,
    /// By how much cash payments and cash refunds were rounded, in minor units.
    pub cash_rounding: i64,
    /// The currency of the shop that the total's set of amounts names, if that is another one.
    pub other_currency: Option<Currency>,
    /// The totals in the currency in which the buyer saw the prices, if that is another one.
    pub presentment: Option<Presentment>,
    /// Set when the order is shipped before it is paid.
    pub terms: Option<Terms>,
    /// The storefront's names of what the order is paid through, such as `gift_card`.
    pub gateways: Vec<String>,
    /// True when the shop took nothing but its own credit, such as gift cards.
    pub own_credit: bool,
    /// True when the storefront says that nobody bought anything and that it only was tried.
    pub is_test: bool,
    pub financial_status: Option<FinancialStatus>,
    /// None while nothing is fulfilled.
    pub fulfillment_status: Option<FulfillmentStatus>,
    pub cancelled_at: Option<i64>,
    /// True when the storefront can take a cancellation back.
    pub can_come_back: bool,
    pub cancel_reason: Option<String>,
    pub created_at: Option<i64>,
    pub updated_at: Option<i64>,
    pub lines: Vec<Line>,
    pub shipping_address: Option<Address>,
    pub billing_address: Option<Address>,
    /// The list may be empty although the order is fulfilled.
    pub fulfillments: Vec<Fulfillment>,
    pub refunds: Vec<Refund>,
    /// The id of the agreement that payments of this order name, from the note attribute
    /// `pact_id`.
    pub pact_id: Option<String>,
    /// The fields that have a value which could not be read.
    pub unread: Vec<&'static str>,
    pub shape: Shape,
    pub present_fields: PresentFields,
}

/// Amounts in the currency in which the buyer saw the prices, in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, row::Record)]
pub struct Presentment {
    #[required]
    pub currency: Currency,
    pub total: i64,
    pub current: Option<i64>,
}

crate::record::things!(TermsKind);

/// Why an order is shipped before it is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, row::Record)]
pub struct Terms {
    #[required]
    pub kind: TermsKind,
    /// When the buyer is to pay, in Unix milliseconds.
    pub due_at: Option<i64>,
    /// True when the shop decided to wait for the money all the same.
    pub pays_first: bool,
}

impl Terms {
    const ON_DELIVERY: Terms = Terms {
        kind: TermsKind::CashOnDelivery,
        due_at: None,
        pays_first: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case", ascii_case_insensitive)]
pub enum TermsKind {
    /// The buyer pays when the goods are on their way.
    Fulfillment,
    /// The buyer pays some days after the invoice.
    Net,
    /// The buyer pays on a day that was agreed.
    Fixed,
    /// The buyer pays whoever brings the goods.
    CashOnDelivery,
}

/// What the shop decided about its orders (`SHIP_ON_TERMS` and the settings beside it). It is part
/// of what a delivery says, so a change of it counts from the next delivery of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// False when nothing is shipped before it is paid, cash on delivery aside.
    pub ships_on_terms: bool,
    /// Names of gateways of payment on delivery, besides "cash on delivery".
    pub paid_on_delivery: Vec<String>,
    /// Fulfilment services that hear of their lines from the storefront, so nobody else ships them.
    pub services_that_ship: Vec<String>,
    /// True where test orders are treated like all others.
    pub ships_tests: bool,
}

impl Order {
    /// The order as the shop's policy has it.
    #[must_use]
    pub fn under(mut self, policy: &Policy) -> Self {
        let is_one = |names: &[String], name: &str| {
            let mut names = names.iter().map(|name| name.to_lowercase());
            names.any(|one| one == name.to_lowercase())
        };
        let mut gateways = self.gateways.iter();
        if self.terms.is_none() && gateways.any(|name| is_one(&policy.paid_on_delivery, name)) {
            self.terms = Some(Terms::ON_DELIVERY);
        }
        if let Some(terms) = &mut self.terms {
            terms.pays_first = !policy.ships_on_terms && terms.kind != TermsKind::CashOnDelivery;
        }
        for line in &mut self.lines {
            let service = line.fulfillment_service.as_deref();
            let ships = |name| is_one(&policy.services_that_ship, name);
            line.service_ships = service.is_some_and(ships);
        }
        self.is_test &= !policy.ships_tests;
        self
    }
}

/// Which keys the body has, even if their value is null. A webhook subscription can leave out any
/// key (`include_fields`). A missing key changes nothing: what an earlier delivery said of it
/// still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the body")]
pub struct PresentFields {
    pub name: bool,
    /// The total and its currency.
    pub total: bool,
    pub financial_status: bool,
    pub fulfillment_status: bool,
    pub cancelled_at: bool,
    pub lines: bool,
    /// What is still to be paid, and the currency.
    pub outstanding: bool,
    pub customer: bool,
    /// True when the body has the e-mail address or the phone number.
    pub contact: bool,
    /// True when the body has the shipping or the billing address.
    pub addresses: bool,
    pub refunds: bool,
    /// True when the body says by which terms or through what the order is paid.
    pub terms: bool,
}

impl PresentFields {
    /// True when the key of some status is missing, so that the topic can say what the status is.
    pub fn leaves_a_status(&self) -> bool {
        Topic::VARIANTS.iter().any(|topic| self.leaves_to(*topic))
    }

    /// True when this topic says a status whose key the body does not have.
    pub fn leaves_to(&self, topic: Topic) -> bool {
        match topic {
            Topic::Paid => !self.financial_status,
            Topic::Fulfilled => !self.fulfillment_status,
            Topic::Cancelled => !self.cancelled_at,
            Topic::Deleted => *self == PresentFields::default(),
            Topic::Create | Topic::Updated => false,
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Customer {
    pub id: Option<i64>,
    pub email: Option<String>,
    pub phone: Option<String>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
}

#[derive(Clone, Default, PartialEq, Eq, row::Record)]
pub struct Address {
    #[person]
    pub first_name: Option<String>,
    #[person]
    pub last_name: Option<String>,
    #[person]
    pub address1: Option<String>,
    #[person]
    pub address2: Option<String>,
    #[person]
    pub city: Option<String>,
    #[person]
    pub province: Option<String>,
    #[person]
    pub country: Option<String>,
    #[person]
    pub zip: Option<String>,
    #[person]
    pub phone: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Line {
    #[required]
    pub id: i64,
    /// None for custom items and deleted products.
    pub variant_id: Option<i64>,
    #[thing]
    pub title: Option<String>,
    /// None when it is no whole number: such a line is shipped as one.
    pub quantity: Option<i64>,
    /// The units without those that were removed or refunded.
    pub current_quantity: Option<i64>,
    /// The decimal text of the body, unchanged.
    #[thing]
    pub price: Option<String>,
    #[thing]
    pub sku: Option<String>,
    #[thing]
    pub fulfillment_status: Option<String>,
    /// False for what nobody ships, such as a download, a tip or a gift card.
    pub requires_shipping: Option<bool>,
    /// Who ships it, by the storefront's name, such as `manual`.
    #[thing]
    pub fulfillment_service: Option<String>,
    /// True when this service ships it by itself, so that it is not requested.
    pub service_ships: bool,
}

impl Line {
    /// How many units are shipped when all of it is.
    pub fn units(&self) -> i64 {
        self.quantity.unwrap_or(1)
    }

    /// How many of them were not removed or refunded, as far as the line itself says so.
    pub fn left(&self) -> i64 {
        self.current_quantity
            .unwrap_or(self.units())
            .min(self.units())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fulfillment {
    pub id: i64,
    pub status: Option<String>,
    /// What the carrier says, in the storefront's word.
    pub shipment_status: Option<String>,
    pub tracking_company: Option<String>,
    /// One entry for each parcel. No number occurs twice.
    pub tracking: Vec<Tracking>,
    /// Pairs of an order line's id and the number of its units in this fulfilment. May be empty.
    pub lines: Vec<(i64, i64)>,
    pub updated_at: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Tracking {
    #[required]
    #[thing]
    pub number: String,
    #[person]
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub id: i64,
    pub created_at: Option<i64>,
    pub transactions: Vec<Transaction>,
    pub lines: Vec<RefundLine>,
}

/// Only a transaction of kind `refund` with the status `success` moved money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub id: i64,
    /// The sale or capture that this transaction refunds.
    pub parent_id: Option<i64>,
    pub kind: Option<String>,
    pub status: Option<String>,
    /// The amount in the transaction's own currency, or in the order's currency when the transaction names
    /// none.
    pub amount: Option<Money>,
    /// The amount in the shop's currency, if the transaction says so.
    pub in_shop: Option<Money>,
    /// The storefront's name of what moved the money, such as `gift_card` or `manual`.
    pub gateway: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundLine {
    pub id: i64,
    /// The id of the order line.
    pub line_id: i64,
    pub quantity: i64,
    /// A word such as `no_restock`, `cancel` and `return`.
    pub restock_type: Option<String>,
    /// The decimal text of the body, unchanged. The provider writes a JSON number here.
    pub subtotal: Option<String>,
}

// A status is further on than those above it.
words! {
    FinancialStatus {
        Pending = "pending",
        Authorized = "authorized",
        Expired = "expired",
        PartiallyPaid = "partially_paid",
        Paid = "paid",
        PartiallyRefunded = "partially_refunded",
        Refunded = "refunded",
        Voided = "voided",
    }

    FulfillmentStatus {
        /// Occurs only in the provider's documentation samples up to 2024-01.
        Pending = "pending",
        Partial = "partial",
        Fulfilled = "fulfilled",
        Restocked = "restocked",
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("id", &self.id)
            .field("total", &self.total)
            .field("cancelled_at", &self.cancelled_at)
            .field("updated_at", &self.updated_at)
            .field("lines", &self.lines.len())
            .field("fulfillments", &self.fulfillments.len())
            .field("refunds", &self.refunds.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Customer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Customer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

/// The longest agreement id, tracking number, SKU or carrier name that is taken; a longer one
/// counts as absent. Databases index these texts, and labels and links hold them.
pub(crate) const ID_CHARS: usize = 255;
