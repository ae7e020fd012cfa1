//! What belongs to a person, and what operators have decided of it.

use std::collections::BTreeSet;

use domain::privacy::{
    Decided, Held, Maker, Mentions, SubjectKey, may_own_payment, owns_order, owns_payment,
};

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
    for key in [SubjectKey::Payment("pi_1"), SubjectKey::Agreement("p1")] {
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
