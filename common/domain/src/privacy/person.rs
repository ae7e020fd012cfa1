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
    let pacts = mentions.pacts.iter().map(|pact| SubjectKey::Pact(pact));
    ids.chain(pacts).any(knows)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_theirs(order: i64, customer: Option<i64>, email: &str, known: &[SubjectKey<'_>]) -> bool {
        let emails = BTreeSet::from([email.to_owned()]);
        let maker = Maker {
            order: Some(order),
            customer,
            emails: &emails,
        };
        owns_order(&maker, |key| known.contains(&key))
    }

    #[test]
    fn an_address_leads_to_guests_and_never_to_another_customer() {
        let known = [
            SubjectKey::Customer(7),
            SubjectKey::Email("ann@x.example"),
            SubjectKey::GuestOrder(5),
        ];
        assert!(is_theirs(1, Some(7), "old@x.example", &known));
        assert!(is_theirs(1, None, "ann@x.example", &known));
        assert!(!is_theirs(1, Some(8), "ann@x.example", &known));
        assert!(!is_theirs(1, None, "bob@x.example", &known));
        assert!(is_theirs(5, None, "bob@x.example", &known));
        assert!(!is_theirs(5, Some(8), "ann@x.example", &known));
        assert!(is_theirs(
            6,
            Some(8),
            "bob@x.example",
            &[SubjectKey::Order(6)]
        ));
    }

    #[test]
    fn a_payment_is_owned_by_its_ids_and_perhaps_by_its_payer() {
        let mentions = Mentions::of(
            br#"{"data":{"object":{"id":"pi_1","customer":"cus_1","metadata":{"pact_id":"p1"},
                "receipt_email":"ann@x.example"}}}"#,
        );
        let owns = |key: SubjectKey<'_>| owns_payment(&mentions, |it| it == key);
        let may_own = |key: SubjectKey<'_>| may_own_payment(&mentions, |it| it == key);
        for key in [SubjectKey::Payment("pi_1"), SubjectKey::Pact("p1")] {
            assert!(owns(key) && !may_own(key), "{key:?}");
        }
        for key in [
            SubjectKey::Payer("cus_1"),
            SubjectKey::Email("ann@x.example"),
        ] {
            assert!(!owns(key) && may_own(key), "{key:?}");
        }
    }

    #[test]
    fn no_more_than_a_hundred_are_listed_of_each() {
        let mut held = Held::default();
        assert!(held.is_nothing());
        for id in 0..100 {
            held.customer(id);
            held.order(id);
        }
        held.customer(99);
        held.order(99);
        assert!(!held.is_cut);
        assert_eq!(held.customers[&99], 2);
        held.customer(100);
        assert!(held.is_cut && held.customers.len() == 100);
        held.is_cut = false;
        held.order(100);
        assert!(held.is_cut && held.orders.len() == 100);
        let (mut customer, mut order) = (Held::default(), Held::default());
        customer.customer(1);
        order.order(1);
        assert!(!customer.is_nothing() && !order.is_nothing());
    }

    #[test]
    fn a_later_decision_replaces_the_earlier_one_about_the_same() {
        let mut decided = Decided {
            customers: [1, 2].into(),
            other_customers: [3].into(),
            orders: [1].into(),
            other_orders: [2, 3].into(),
            is_all: false,
        };
        for (id, is_said) in [(1, true), (3, true), (4, false)] {
            assert_eq!(decided.says_of_customer(id), is_said, "{id}");
            assert_eq!(decided.says_of_order(id), is_said, "{id}");
        }
        decided.merge(&Decided {
            customers: [3].into(),
            other_customers: [1].into(),
            orders: [2].into(),
            ..Decided::default()
        });
        let expected = Decided {
            customers: [2, 3].into(),
            other_customers: [1].into(),
            orders: [1, 2].into(),
            other_orders: [3].into(),
            is_all: false,
        };
        assert_eq!(decided, expected);
        decided.merge(&Decided {
            is_all: true,
            ..Decided::default()
        });
        assert!(decided.is_all && decided.says_of_customer(4) && decided.says_of_order(4));
        decided.merge(&Decided::default());
        assert!(decided.is_all, "what was decided of all others stays");
    }
}
