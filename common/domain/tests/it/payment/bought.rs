//! What was bought: checkout sessions and invoices.

use std::collections::BTreeMap;

use domain::money::Currency;
use domain::payment::{EventType, Invoice, Metadata, Mode, Object, PaymentStatus, Session};

use super::{NEW, OLD, ada, metadata, money, read, some, usd};

fn session(variant: &str) -> Session {
    match read(EventType::SessionCompleted, variant).object {
        Object::Session(session) => session,
        other => panic!("{other:?}"),
    }
}

/// Without the ends of its items.
fn invoice(variant: &str) -> Invoice {
    Invoice {
        items: BTreeMap::new(),
        credited: BTreeMap::new(),
        ..with_items(variant)
    }
}

fn with_items(variant: &str) -> Invoice {
    match read(EventType::InvoicePaid, variant).object {
        Object::Invoice(invoice) => invoice,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_item_of_an_invoice_has_its_own_end() {
    let ends = |variant: &str| {
        let items = with_items(variant).items.into_iter();
        items.collect::<Vec<_>>()
    };
    let item = |nth: u32, end: i64| (format!("si_Example0{nth}"), end);
    assert_eq!(ends(OLD), [item(1, 1_735_732_800), item(2, 1_738_411_200)]);
    assert_eq!(ends(NEW), [item(1, 1_796_040_000)]);
    assert_eq!(ends(&format!("trial.{NEW}")), []);
}

#[test]
fn completed_sessions() {
    let paid = Session {
        id: "cs_test_Example01".to_owned(),
        mode: Some(Mode::Payment),
        payment_status: Some(PaymentStatus::Paid),
        payment_intent: some("pi_Example01"),
        subscription: None,
        invoice: None,
        total: Some(usd(4995)),
        currency: Currency::parse("usd"),
        subtotal: Some(4500),
        discount: None,
        added: None,
        customer: some("cus_Example01"),
        client_reference_id: None,
        metadata: metadata(),
        email: ada(),
    };
    assert_eq!(session(NEW), paid);
    let referred = Session {
        client_reference_id: some("basket-1001"),
        ..paid.clone()
    };
    assert_eq!(session(OLD), referred, "its e-mail is the one asked for");
    let unpaid = Session {
        payment_status: Some(PaymentStatus::Unpaid),
        total: Some(money(4995, "EUR")),
        currency: Currency::parse("eur"),
        ..paid.clone()
    };
    assert_eq!(session(&format!("unpaid.{NEW}")), unpaid);
    let trial = Session {
        mode: Some(Mode::Subscription),
        payment_status: Some(PaymentStatus::NoPaymentRequired),
        payment_intent: None,
        subscription: some("sub_Example01"),
        invoice: some("in_Example01"),
        total: Some(usd(0)),
        subtotal: Some(0),
        ..paid.clone()
    };
    assert_eq!(session(&format!("no_payment_required.{NEW}")), trial);
    let setup = Session {
        mode: Some(Mode::Setup),
        payment_status: Some(PaymentStatus::NoPaymentRequired),
        payment_intent: None,
        total: None,
        currency: None,
        subtotal: None,
        customer: None,
        metadata: Metadata::default(),
        ..paid
    };
    assert_eq!(session(&format!("setup.{NEW}")), setup);
}

#[test]
fn sessions_say_what_the_page_made_of_the_price() {
    let read = |variant: &str| {
        let read = session(&format!("{variant}{NEW}"));
        (read.subtotal, read.discount, read.added, read.total)
    };
    let reported = |subtotal, discount, added, total| {
        (
            Some(subtotal),
            Some(discount),
            Some(added),
            Some(usd(total)),
        )
    };
    assert_eq!(read("taxed."), reported(10_000, 0, 825, 10_825));
    assert_eq!(read("discounted."), reported(10_000, 1000, 500, 9500));
    let free = read("subscription_all_discounted.");
    assert_eq!(free, reported(900, 900, 0, 0));
}

#[test]
fn paid_invoices() {
    const DAY: i64 = 24 * 60 * 60;
    let paid = |variant: &str, minor: i64, days: i64| {
        let new = variant == NEW;
        let start = if new { 1_793_448_000 } else { 1_735_732_800 };
        Invoice {
            id: "in_Example01".to_owned(),
            subscription: some("sub_Example01"),
            customer: some("cus_Example01"),
            paid: Some(usd(minor)),
            total: Some(minor),
            billing_reason: some("subscription_cycle"),
            period_end: Some(start + days * DAY),
            items: BTreeMap::new(),
            credited: BTreeMap::new(),
            credits_unused_time: false,
            created: Some(start - 5),
            pact_id: some("pact_Example01"),
            charge: some("ch_Example01").filter(|_| !new),
            payment_intent: some("pi_Example01").filter(|_| !new),
        }
    };
    assert_eq!(invoice(OLD), paid(OLD, 20600, 31), "the later of two lines");
    assert_eq!(invoice(NEW), paid(NEW, 19900, 30));
    for (variant, minor, days, reason, of_worth) in [
        ("plan_changed", 10000, 30, "subscription_update", true),
        ("paid_with_credit", 0, 30, "subscription_cycle", true),
    ] {
        let read = invoice(&format!("{variant}.{NEW}"));
        let expected = Invoice {
            total: Some(if variant == "paid_with_credit" {
                19900
            } else {
                minor
            }),
            billing_reason: some(reason),
            credits_unused_time: variant == "plan_changed",
            ..paid(NEW, minor, days)
        };
        assert_eq!(read, expected, "{variant}");
        assert_eq!(read.is_of_worth(), of_worth, "{variant}");
    }
    for (version, agreement) in [(OLD, None), (NEW, some("pact_Example02"))] {
        let expected = Invoice {
            subscription: None,
            billing_reason: some("manual"),
            period_end: None,
            pact_id: agreement,
            ..paid(version, 5000, 0)
        };
        assert_eq!(invoice(&format!("manual.{version}")), expected);
    }
}

#[test]
fn only_the_subscriptions_own_lines_say_until_when_it_is_paid() {
    const DAY: i64 = 24 * 60 * 60;
    for (version, start) in [(OLD, 1_735_732_800), (NEW, 1_793_448_000)] {
        for (variant, days) in [
            ("several_lines", Some(30)),
            ("credited", Some(30)),
            ("all_discounted", Some(30)),
            ("prorated", None),
            ("trial", None),
        ] {
            let read = invoice(&format!("{variant}.{version}"));
            let end = days.map(|days| start + days * DAY);
            assert_eq!(read.period_end, end, "{variant} {version}");
        }
    }
}
