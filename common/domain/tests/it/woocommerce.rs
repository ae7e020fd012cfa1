//! Orders of WooCommerce, read from bodies of the shape that it sends.

use domain::order::record::Record;
use domain::order::{FinancialStatus, FulfillmentStatus, Order, Topic};
use domain::privacy::{Mentions, created_at, erased_body};

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/woocommerce");
    std::fs::read(format!("{folder}/{name}.json")).unwrap()
}

fn order(name: &str) -> Order {
    Order::read(&fixture(name)).unwrap()
}

fn record(name: &str) -> Record {
    let body = fixture(name);
    Record::of(Order::read(&body).unwrap(), Some(Topic::Updated), &body, 0)
}

#[test]
fn an_order_of_woocommerce_is_an_order() {
    let order = order("order.created.processing");
    assert_eq!(order.id, 1727);
    assert_eq!(order.name.as_deref(), Some("#1727"));
    assert_eq!(order.order_number, Some(1727));
    assert_eq!(order.total.unwrap().minor, 2935);
    assert_eq!(order.tax.unwrap().minor, 135);
    assert_eq!(order.currency.unwrap().as_str(), "USD");
    assert_eq!(order.email.as_deref(), Some("mara.lindqvist@example.com"));
    assert_eq!(order.customer.unwrap().id, Some(26));
    assert_eq!(order.pact_id.as_deref(), Some("pact-woo-1"));
    let address = order.shipping_address.unwrap();
    assert_eq!(address.address1.as_deref(), Some("12 Harbour Row"));
    assert_eq!(address.zip.as_deref(), Some("03801"));
    // 2026-10-22T16:28:02Z: the times without an offset are UTC.
    assert_eq!(order.created_at, Some(1_792_686_482_000));
    assert_eq!(order.updated_at, Some(1_792_686_488_000));
    let lines: Vec<_> = order
        .lines
        .iter()
        .map(|line| (line.id, line.variant_id, line.quantity, line.sku.as_deref()))
        .collect();
    assert_eq!(
        lines,
        [
            (315, Some(93), Some(2), None),
            (316, Some(23), Some(1), Some("SYI-BLUE"))
        ]
    );
    assert_eq!(order.lines[0].price.as_deref(), Some("3"));
}

#[test]
fn one_status_says_what_is_paid_shipped_and_cancelled() {
    use FinancialStatus::{Paid, PartiallyPaid, PartiallyRefunded, Pending, Refunded, Voided};
    for (name, financial, is_fulfilled, is_cancelled) in [
        ("order.created.pending.guest", Pending, false, false),
        ("order.created.processing", Paid, false, false),
        ("order.updated.completed", Paid, true, false),
        ("order.updated.cancelled", Paid, false, true),
        (
            "order.updated.partially_refunded",
            PartiallyRefunded,
            false,
            false,
        ),
        ("order.updated.refunded", Refunded, true, false),
    ] {
        let order = order(name);
        assert_eq!(order.financial_status, Some(financial), "{name}");
        let fulfilled = order.fulfillment_status == Some(FulfillmentStatus::Fulfilled);
        assert_eq!(fulfilled, is_fulfilled, "{name}");
        assert_eq!(order.cancelled_at.is_some(), is_cancelled, "{name}");
        assert!(!order.present_fields.leaves_a_status(), "{name}");
    }
    let status = |status: &str, paid: &str| {
        let body = format!(
            r#"{{"id":1,"status":"{status}","date_created_gmt":"2026-10-22T16:28:02","date_paid_gmt":{paid}}}"#
        );
        Order::read(body.as_bytes()).unwrap().financial_status
    };
    let once = r#""2026-10-22T16:28:08""#;
    for (name, paid, expected) in [
        ("on-hold", "null", Pending),
        ("on-hold", once, Pending),
        ("failed", "null", Pending),
        ("checkout-draft", "null", Pending),
        ("failed", once, Pending),
        ("cancelled", "null", Voided),
        ("cancelled", once, Paid),
        ("refunded", "null", Refunded),
        ("processing", once, Paid),
        ("processing", "null", Pending),
        ("completed", "null", Paid),
        ("partially-paid", once, PartiallyPaid),
        ("partial-payment", once, PartiallyPaid),
        ("scheduled-payment", "null", Pending),
    ] {
        assert_eq!(status(name, paid), Some(expected), "{name} {paid}");
    }
    for unknown in ["awaiting-shipment", "trash", "PROCESSING", ""] {
        assert_eq!(status(unknown, once), None, "{unknown}");
    }
}

#[test]
fn money_that_woocommerce_gave_back_is_counted_once() {
    let refunds = record("order.updated.refunded").refunds.value;
    let amounts: Vec<_> = refunds.iter().map(|it| (it.id, it.amount)).collect();
    assert_eq!(amounts, [(1731, Some(1935)), (1730, Some(1000))]);
}

#[test]
fn orders_of_woocommerce_merge_in_any_sequence() {
    let names = [
        "order.created.processing",
        "order.updated.partially_refunded",
        "order.updated.completed",
        "order.updated.refunded",
    ];
    let merged = |names: &mut dyn Iterator<Item = &&str>| {
        let mut record = Record::unknown(domain::order::record::Version::NEVER);
        for name in names {
            record.merge(self::record(name));
        }
        record
    };
    let forwards = merged(&mut names.iter());
    let backwards = merged(&mut names.iter().rev());
    assert!(forwards == backwards);
    assert_eq!(forwards.financial.value, Some(FinancialStatus::Refunded));
    assert!(forwards.was_paid && forwards.was_fulfilled && forwards.is_fulfilled());
}

#[test]
fn a_guest_of_woocommerce_has_no_customer_id() {
    let order = order("order.created.pending.guest");
    assert_eq!(order.customer.unwrap().id, None);
    assert_eq!(order.phone, None);
    assert_eq!(order.pact_id, None);
}

#[test]
fn a_wrong_value_of_woocommerce_costs_its_own_field_and_is_said() {
    let unread = |field: &str| {
        let body = format!(r#"{{"date_created_gmt":"2026-10-22T16:28:02","id":1,{field}}}"#);
        Order::read(body.as_bytes()).expect("an order").unread
    };
    for (field, said) in [
        (r#""currency":"USD","total":"1.00""#, None),
        (r#""line_items":[{"id":1,"quantity":2.0}]"#, None),
        (r#""currency":"dollars""#, Some("currency")),
        (r#""currency":"USD","total":"1.005""#, Some("total")),
        (r#""date_modified_gmt":"soon""#, Some("date_modified_gmt")),
        (r#""line_items":[{"id":1}]"#, Some("line_items[].quantity")),
        (
            r#""line_items":[{"id":1,"quantity":1.5}]"#,
            Some("line_items[].quantity"),
        ),
        (
            r#""line_items":[{"id":1,"quantity":1},{"id":1,"quantity":1}]"#,
            Some("line_items[].id"),
        ),
        (r#""line_items":{"0":{"id":1}}"#, Some("line_items")),
        (r#""refunds":[{"total":"-1.00"}]"#, Some("refunds[].id")),
        (
            r#""currency":"USD","refunds":[{"id":2,"total":"x"}]"#,
            Some("refunds[].total"),
        ),
    ] {
        assert_eq!(unread(field), Vec::from_iter(said), "{field}");
    }
}

#[test]
fn whoever_bought_at_woocommerce_is_found_and_erased() {
    let body = fixture("order.created.processing");
    let mentions = Mentions::of(&body);
    assert_eq!((mentions.order, mentions.customer), (Some(1727), Some(26)));
    assert!(mentions.own_emails.contains("mara.lindqvist@example.com"));
    assert!(mentions.own_phones.contains("5550100199"), "{mentions:?}");
    assert_eq!(created_at(&body), Some(1_792_686_482_000));

    let kept = erased_body("orders/create", &body).unwrap();
    let text = String::from_utf8(kept.clone()).unwrap();
    for personal in [
        "Mara",
        "Lindqvist",
        "mara",
        "Harbour",
        "Portsmouth",
        "03801",
        "010-0199",
        "192.0.2.44",
        "mozilla",
        "ring twice",
        "wc_order_",
        "pi_3Woo",
    ] {
        assert!(!text.contains(personal), "{personal} in {text}");
    }
    let (before, after) = (Order::read(&body).unwrap(), Order::read(&kept).unwrap());
    assert_eq!(after.total, before.total);
    assert_eq!(after.lines, before.lines);
    assert_eq!(after.financial_status, before.financial_status);
    assert_eq!(after.pact_id, before.pact_id);
    assert_eq!(after.updated_at, before.updated_at);
    assert_eq!(after.email, None);
    let refund = fixture("order.updated.partially_refunded");
    let kept = String::from_utf8(erased_body("orders/updated", &refund).unwrap()).unwrap();
    assert!(
        !kept.contains("scratched") && kept.contains("-10.00"),
        "{kept}"
    );
}

/// Version 1 of the API names only the times of the site's own zone.
#[test]
fn an_order_of_the_first_version_is_read_as_the_others_are() {
    let body = |status: &str, paid: &str| {
        format!(
            r#"{{"id":154,"number":"154","status":"{status}","currency":"USD","total":"37.95",
                "date_created":"2016-05-30T22:35:16","date_modified":"2016-05-30T22:46:16",
                "date_paid":"{paid}","customer_id":26,"billing":{{"email":"a@example.com"}},
                "line_items":[{{"id":18,"quantity":2,"price":"3.00"}}],"refunds":[]}}"#
        )
    };
    let paid = body("processing", "2016-05-30 19:35:25");
    let order = Order::read(paid.as_bytes()).unwrap();
    assert_eq!(order.total.unwrap().minor, 3795);
    assert_eq!(order.financial_status, Some(FinancialStatus::Paid));
    // 2016-05-30T22:35:16Z and eleven minutes later.
    assert_eq!(order.created_at, Some(1_464_647_716_000));
    assert_eq!(order.updated_at, Some(1_464_648_376_000));
    assert_eq!(order.unread, [""; 0]);
    let open = Order::read(body("pending", "").as_bytes()).unwrap();
    assert_eq!(open.financial_status, Some(FinancialStatus::Pending));
    let on_delivery = Order::read(body("processing", "").as_bytes()).unwrap();
    assert_eq!(on_delivery.financial_status, Some(FinancialStatus::Pending));
    assert_eq!(created_at(paid.as_bytes()), Some(1_464_647_716_000));
    let mentions = Mentions::of(paid.as_bytes());
    assert_eq!((mentions.order, mentions.customer), (Some(154), Some(26)));
    let others = br#"{"id":1,"created_at":"2027-01-15T07:00:00Z","date_created":"2027-01-15T07:00:00","total_price":"1.00","currency":"USD"}"#;
    assert_eq!(Order::read(others).unwrap().total.unwrap().minor, 100);
}

#[test]
fn money_that_went_back_of_a_completed_order_had_come() {
    let body = |status: &str, refunds: &str| {
        let body = format!(
            r#"{{"id":723,"status":"{status}","currency":"USD","total":"39.00","refunds":[{refunds}],
                "date_created_gmt":"2017-03-21T19:16:00","date_paid_gmt":null}}"#
        );
        Order::read(body.as_bytes()).unwrap().financial_status
    };
    let one = r#"{"id":726,"total":"-10.00"}"#;
    assert_eq!(
        body("completed", one),
        Some(FinancialStatus::PartiallyRefunded)
    );
    let all = r#"{"id":726,"total":"-39.00"}"#;
    assert_eq!(body("completed", all), Some(FinancialStatus::Refunded));
    // What is paid on delivery can become cheaper before.
    assert_eq!(body("processing", one), Some(FinancialStatus::Pending));
}
