//! Decides to whom something belongs. Exports, erasures, the handling of data that comes late,
//! and the search through the bodies of jobs all use this one rule.
//!
//! Ids decide: the id of the customer, and the ids of the orders that a request names. An e-mail
//! address, which anybody can type, leads only to orders without a customer id and never to
//! another customer. A telephone number leads to nothing, because anybody can type one. What only
//! shares an address or a number with the person is held for an operator ([`Held`]), who decides
//! whether it belongs to the same person ([`Decided`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Mentions, SubjectKey};

/// Who made an order, according to a row or a body.
pub struct Maker<'a> {
    pub order: Option<i64>,
    pub customer: Option<i64>,
    /// The e-mail addresses in the form in which they are compared.
    pub emails: &'a BTreeSet<String>,
}

impl<'a> From<&'a Mentions> for Maker<'a> {
    fn from(mentions: &'a Mentions) -> Self {
        Maker {
            order: mentions.order,
            customer: mentions.customer,
            emails: &mentions.own_emails,
        }
    }
}

/// True for an order that belongs to a person. `knows` says which keys are known as the person's.
pub fn owns_order(maker: &Maker<'_>, knows: impl Fn(SubjectKey<'_>) -> bool) -> bool {
    let is_named =
        |key: fn(i64) -> SubjectKey<'static>| maker.order.is_some_and(|id| knows(key(id)));
    if is_named(SubjectKey::Order) {
        return true;
    }
    match maker.customer {
        Some(id) => knows(SubjectKey::Customer(id)),
        None => {
            is_named(SubjectKey::GuestOrder)
                || maker
                    .emails
                    .iter()
                    .any(|email| knows(SubjectKey::Email(email)))
        }
    }
}

/// True for a body of the payment provider that names, by its id, a payment, session,
/// subscription or agreement of a person.
pub fn owns_payment(mentions: &Mentions, knows: impl Fn(SubjectKey<'_>) -> bool) -> bool {
    let ids = mentions.ids.iter().map(|id| SubjectKey::Payment(id));
    let agreements = mentions
        .agreements
        .iter()
        .map(|agreement| SubjectKey::Agreement(agreement));
    ids.chain(agreements).any(knows)
}

/// True for a body of the payment provider that names a person as the payer. The payment belongs
/// to the person, unless its order belongs to somebody else or to another shop.
pub fn may_own_payment(mentions: &Mentions, knows: impl Fn(SubjectKey<'_>) -> bool) -> bool {
    let payers = mentions.payers.iter().map(|id| SubjectKey::Payer(id));
    let emails = mentions.emails.iter().map(|email| SubjectKey::Email(email));
    payers.chain(emails).any(knows)
}

/// What a request may mean, and nobody but an operator can say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PrivacyHeld)]
pub struct Held {
    /// Other customers who have an address or a telephone number in common with it, or whose
    /// order it names, each with how often.
    #[schema(value_type = BTreeMap<String, u64>, example = json!({"207119551": 2}))]
    pub customers: BTreeMap<i64, u64>,
    /// Orders without a customer that have the telephone number, or whose payment has the
    /// address.
    pub orders: BTreeSet<i64>,
    /// There are more than are listed.
    pub is_cut: bool,
    /// What was done for the part that is certain.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub counts: Value,
    /// What was decided by then, and is done too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Box<Decided>>,
}

impl Held {
    /// The most customers and the most orders that are listed. A telephone number that more
    /// people have says nothing about who is meant.
    const MOST: usize = 100;

    pub fn customer(&mut self, id: i64) {
        if self.customers.len() < Self::MOST || self.customers.contains_key(&id) {
            *self.customers.entry(id).or_default() += 1;
        } else {
            self.is_cut = true;
        }
    }

    pub fn order(&mut self, id: i64) {
        if self.orders.len() < Self::MOST || self.orders.contains(&id) {
            self.orders.insert(id);
        } else {
            self.is_cut = true;
        }
    }

    pub fn is_nothing(&self) -> bool {
        self.customers.is_empty() && self.orders.is_empty()
    }
}

/// What operators have said of what is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PrivacyDecided)]
#[serde(default)]
pub struct Decided {
    /// They are the same person, and theirs belongs to the request.
    pub customers: BTreeSet<i64>,
    pub orders: BTreeSet<i64>,
    /// They are somebody else.
    pub other_customers: BTreeSet<i64>,
    pub other_orders: BTreeSet<i64>,
    /// Whatever else there is, is somebody else's.
    pub is_all: bool,
}

impl Decided {
    pub fn says_of_customer(&self, id: i64) -> bool {
        self.is_all || self.customers.contains(&id) || self.other_customers.contains(&id)
    }

    pub fn says_of_order(&self, id: i64) -> bool {
        self.is_all || self.orders.contains(&id) || self.other_orders.contains(&id)
    }

    /// Adds a later decision. It replaces what was decided before about the same customers and
    /// orders.
    pub fn merge(&mut self, later: &Decided) {
        let sets = [
            (
                &mut self.customers,
                &mut self.other_customers,
                &later.customers,
                &later.other_customers,
            ),
            (
                &mut self.orders,
                &mut self.other_orders,
                &later.orders,
                &later.other_orders,
            ),
        ];
        for (same, other, now_same, now_other) in sets {
            same.retain(|id| !now_other.contains(id));
            other.retain(|id| !now_same.contains(id));
            same.extend(now_same);
            other.extend(now_other);
        }
        self.is_all |= later.is_all;
    }
}
