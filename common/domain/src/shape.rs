//! The shape of bodies: which members decide an outcome, and how it is noticed that a provider has changed one.
//!
//! The readers of bodies declare a [`Member`] where they read it, as one that must have a value or one that may be null.
//! What a provider calls optional is not declared, so it never counts. What a shop's deliveries of a topic had
//! every time is learned from them ([`Usual`]): a member that was always there and is missing is a change, and so is, from the
//! first delivery on, a value of another type and a status that nobody here knows. Names are kept, never values. After a
//! week ([`NEW`]) the new shape is the usual one.

use std::collections::BTreeMap;
use std::time::Duration;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::names::{Unknown, unlisted};
use crate::time::Timestamp;

/// How long a change is new. After that operators are not notified of it again.
pub const NEW: Duration = Duration::from_hours(7 * 24);

/// Declares the members, each with the path by which it is reported.
macro_rules! members {
    ($($name:ident = $path:literal,)*) => {
        /// A member of a body on which an outcome depends.
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            PartialOrd,
            Ord,
            Display,
            EnumString,
            IntoStaticStr,
            VariantArray,
        )]
        #[strum(const_into_str, parse_err_ty = Unknown, parse_err_fn = unlisted::<Member>)]
        pub enum Member {
            $(#[strum(serialize = $path)] $name,)*
        }
    };
}

members! {
    Currency = "currency",
    Total = "total_price",
    CurrentTotal = "current_total_price",
    Outstanding = "total_outstanding",
    TotalSet = "total_price_set",
    CreatedAt = "created_at",
    UpdatedAt = "updated_at",
    CancelledAt = "cancelled_at",
    FinancialStatus = "financial_status",
    FulfillmentStatus = "fulfillment_status",
    Gateways = "payment_gateway_names",
    TermsType = "payment_terms.payment_terms_type",
    Lines = "line_items",
    LineQuantity = "line_items[].quantity",
    LineCurrentQuantity = "line_items[].current_quantity",
    LineRequiresShipping = "line_items[].requires_shipping",
    LineService = "line_items[].fulfillment_service",
    Shipments = "fulfillments",
    ShipmentStatus = "fulfillments[].status",
    ShipmentLines = "fulfillments[].line_items",
    Refunds = "refunds",
    RefundTransactions = "refunds[].transactions",
    RefundLines = "refunds[].refund_line_items",
    RefundLine = "refunds[].refund_line_items[].line_item_id",
    TransactionKind = "refunds[].transactions[].kind",
    TransactionStatus = "refunds[].transactions[].status",
    TransactionAmount = "refunds[].transactions[].amount",
    TotalOfWooCommerce = "total",
    Status = "status",
    ModifiedAt = "date_modified_gmt",
    PaidAt = "date_paid_gmt",
    RefundTotal = "refunds[].total",
    ObjectStatus = "data.object.status",
    AmountReceived = "data.object.amount_received",
    Captured = "data.object.captured",
    Refunded = "data.object.refunded",
    PaymentIntent = "data.object.payment_intent",
    Mode = "data.object.mode",
    PaymentStatus = "data.object.payment_status",
    AmountTotal = "data.object.amount_total",
    ObjectCurrency = "data.object.currency",
    Subscription = "data.object.subscription",
    AmountPaid = "data.object.amount_paid",
    InvoiceTotal = "data.object.total",
    InvoiceLines = "data.object.lines",
    LineAmount = "data.object.lines.data[].amount",
    LinePeriod = "data.object.lines.data[].period",
    LineBills = "data.object.lines.data[].parent",
    InvoicePayment = "data.object.payment",
    InvoicePaymentType = "data.object.payment.type",
    EndedAt = "data.object.ended_at",
    Metadata = "data.object.metadata",
}

const _: () = assert!(Member::VARIANTS.len() <= 64, "a bit for each");

/// A set of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members(u64);

impl Members {
    pub fn add(&mut self, member: Member) {
        self.0 |= 1 << member as u32;
    }

    pub fn has(self, member: Member) -> bool {
        self.0 & (1 << member as u32) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn and(self, others: Members) -> Members {
        Members(self.0 & others.0)
    }

    #[must_use]
    pub fn or(self, others: Members) -> Members {
        Members(self.0 | others.0)
    }

    #[must_use]
    pub fn without(self, others: Members) -> Members {
        Members(self.0 & !others.0)
    }

    pub fn iter(self) -> impl Iterator<Item = Member> {
        let all = Member::VARIANTS.iter().copied();
        all.filter(move |member| self.has(*member))
    }
}

/// Which declared members a body has. One of a list's items counts as missing when any item lacks it, and as neither when
/// the list is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    has: Members,
    lacks: Members,
    /// Those with a word that nobody here knows.
    unknown: Members,
}

impl Shape {
    pub(crate) fn note(&mut self, member: Member, is_there: bool) {
        if is_there {
            self.has.add(member);
        } else {
            self.lacks.add(member);
        }
    }

    /// Notes a status that nobody here knows.
    pub(crate) fn unknown(&mut self, member: Member) {
        self.unknown.add(member);
    }

    fn has(&self) -> Members {
        self.has.without(self.lacks)
    }
}

/// What is wrong with a member.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<Change>)]
pub enum Change {
    /// It was always there.
    Missing,
    /// Its value has another type or form.
    Unread,
    /// It has a status that is not known.
    Unknown,
}

impl Change {
    /// In the middle of a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Change::Missing => "is missing",
            Change::Unread => "cannot be read",
            Change::Unknown => "has a value that is not known",
        }
    }
}

/// The members that deliveries of one topic or type of one shop or account have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usual {
    /// Those that all deliveries had, until the first change.
    pub always: Members,
    /// Those that a delivery lacked which came before any that had them.
    pub sometimes: Members,
    /// The names of those that have changed, and since when.
    pub changed: BTreeMap<(String, Change), Timestamp>,
}

/// What was noted of a body while it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    pub shape: Shape,
    /// The names of the members that have a value which cannot be read.
    pub unread: Vec<&'static str>,
}

/// What a delivery says that was not usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    pub always: Members,
    pub sometimes: Members,
    pub changes: Vec<(&'static str, Change)>,
}

impl Usual {
    /// What is new in a body.
    pub fn news(&self, Noted { shape, unread }: &Noted, now: Timestamp) -> Option<News> {
        let known = self.always.or(self.sometimes);
        let always = shape.has().without(known);
        let sometimes = shape.lacks.without(known);
        let missing = shape.lacks.and(self.always).without(self.sometimes);
        let is_usual = always.is_empty() && sometimes.is_empty() && missing.is_empty();
        if is_usual && shape.unknown.is_empty() && unread.is_empty() {
            return None;
        }
        let missing = missing.iter().map(|it| (it.into_str(), Change::Missing));
        let unknown = shape.unknown.iter();
        let unknown = unknown.map(|it| (it.into_str(), Change::Unknown));
        // One that must be there and is not cannot be read either.
        let lacks = |name: &str| shape.lacks.iter().any(|it| it.into_str() == name);
        let unread = unread.iter().filter(|name| !lacks(name));
        let unread = unread.map(|name| (*name, Change::Unread));
        let is_new = |(name, change): &(&'static str, Change)| {
            let since = self.changed.get(&((*name).to_owned(), *change));
            since.is_none_or(|since| now <= since.plus(NEW))
        };
        let changes = missing.chain(unknown).chain(unread).filter(is_new);
        let news = News {
            always,
            sometimes,
            changes: changes.collect(),
        };
        (news != News::default()).then_some(news)
    }

    /// Whether something is new that was not before.
    pub fn is_first(&self, news: &News) -> bool {
        let is_known = |(name, change): &(&'static str, Change)| {
            let key = ((*name).to_owned(), *change);
            self.changed.contains_key(&key)
        };
        let learns = !news.always.is_empty() || !news.sometimes.is_empty();
        learns || !news.changes.iter().all(is_known)
    }

    /// Takes what is new as known.
    pub fn learn(&mut self, news: &News, now: Timestamp) {
        self.always = self.always.or(news.always);
        self.sometimes = self.sometimes.or(news.sometimes);
        for (name, change) in &news.changes {
            let key = ((*name).to_owned(), *change);
            self.changed.entry(key).or_insert(now);
        }
    }

    /// Takes what others know as known.
    pub fn merge(&mut self, other: Usual) {
        self.always = self.always.or(other.always);
        self.sometimes = self.sometimes.or(other.sometimes);
        for (key, since) in other.changed {
            let known = self.changed.entry(key).or_insert(since);
            *known = since.min(*known);
        }
    }
}
