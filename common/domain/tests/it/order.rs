//! Only the needed fields of orders are read. Reading copes with everything that a real
//! storefront leaves out and that a hostile sender puts in.

use domain::json::{Problem, Unreadable};
use domain::order::{FinancialStatus, FulfillmentStatus, Order};
use proptest::prelude::*;
use serde_json::{Value, json};

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("../fixtures/storefront/", $name, ".json"))
    };
}

/// The provider's documentation sample.
const FULL: &[u8] = sample!("orders_any_topic.2026-07");
const CANCELLED: &[u8] = sample!("orders_cancelled.refunded_with_refund.2023-01");
const DRAFT: &[u8] = sample!("orders_create_and_paid.draft_order_no_customer_no_address.2023-01");

fn parsed(sample: &[u8]) -> Value {
    serde_json::from_slice(sample).expect("a sample is JSON")
}

/// The body with the value at the pointer replaced.
fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match body.pointer_mut(parent).expect("the sample has it") {
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
        parent => parent[key] = value,
    }
    body
}

fn changed(sample: &[u8], changes: &[(&str, Value)]) -> Vec<u8> {
    let changes = changes.iter().cloned();
    changes
        .fold(parsed(sample), |body, (pointer, value)| {
            with(body, pointer, value)
        })
        .to_string()
        .into_bytes()
}

fn without(sample: &[u8], keys: &[&str]) -> Vec<u8> {
    let mut body = parsed(sample);
    let fields = body.as_object_mut().expect("an order");
    for key in keys {
        fields.remove(*key).expect("the sample has it");
    }
    body.to_string().into_bytes()
}

/// The path to every value in the body.
fn pointers(body: &Value) -> Vec<String> {
    let mut pointers = Vec::new();
    let mut open = vec![(String::new(), body)];
    while let Some((prefix, value)) = open.pop() {
        let within = open.len();
        match value {
            Value::Object(fields) => open.extend(
                fields
                    .iter()
                    .map(|(key, value)| (format!("{prefix}/{key}"), value)),
            ),
            Value::Array(items) => open.extend(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, value)| (format!("{prefix}/{at}"), value)),
            ),
            _ => (),
        }
        pointers.extend(open[within..].iter().map(|(pointer, _)| pointer.clone()));
    }
    pointers
}

fn read(body: impl AsRef<[u8]>) -> Order {
    Order::read(body.as_ref()).expect("an order")
}

fn refused(body: impl AsRef<[u8]>) -> Unreadable {
    Order::read(body.as_ref()).expect_err("no order")
}

fn refused_field(body: impl AsRef<[u8]>) -> (&'static str, Problem) {
    match refused(body) {
        Unreadable::Field { field, problem } => (field, problem),
        other => panic!("not about one field: {other}"),
    }
}

fn total(order: &Order) -> String {
    let total = order.total.expect("a total");
    format!("{total} {}", total.currency)
}

#[test]
fn every_order_sample_reads() {
    const SHARED_ID: i64 = 820_982_911_946_154_508;
    const EARLY: &[u8] = sample!("orders_any_topic.2023-07");
    const MIDDLE: &[u8] = sample!("orders_any_topic.2024-04");
    const LATE: &[u8] = sample!("orders_any_topic.2025-10");

    for (sample, id, expected, lines, refunds) in [
        (EARLY, SHARED_ID, "388.00 USD", 2, 0),
        (MIDDLE, SHARED_ID, "388.00 USD", 2, 0),
        (LATE, SHARED_ID, "359.97 USD", 3, 0),
        (FULL, SHARED_ID, "404.95 USD", 5, 0),
        (CANCELLED, 5_324_790_137_142, "1806.38 USD", 2, 1),
        (DRAFT, 5_324_830_114_101, "2629.95 USD", 1, 0),
    ] {
        let order = read(sample);
        assert_eq!(order.id, id);
        assert_eq!(total(&order), expected);
        assert_eq!(order.lines.len(), lines);
        assert_eq!(order.refunds.len(), refunds);
        assert!(order.updated_at.is_some() && order.created_at.is_some());
        assert_eq!(
            read(without(sample, &["buyer_accepts_marketing"])),
            order,
            "compact and reordered"
        );
    }
}

#[test]
fn the_full_sample_is_read_field_by_field() {
    let order = read(FULL);
    assert_eq!(order.name.as_deref(), Some("#9999"));
    assert_eq!(order.order_number, Some(1234));
    assert_eq!(order.email.as_deref(), Some("jon@example.com"));
    assert_eq!(order.phone, None);
    assert_eq!(order.currency.expect("a currency").as_str(), "USD");
    assert_eq!(order.subtotal.expect("a subtotal").minor, 40_495);
    assert_eq!(order.tax.expect("a tax").minor, 0);
    assert_eq!(order.financial_status, Some(FinancialStatus::Voided));
    assert_eq!(order.fulfillment_status, None);
    assert_eq!(order.cancel_reason.as_deref(), Some("customer"));
    for time in [order.created_at, order.updated_at, order.cancelled_at] {
        assert_eq!(time, Some(1_640_995_200_000), "2021-12-31T19:00:00-05:00");
    }

    let customer = order.customer.expect("a customer");
    assert_eq!(customer.id, Some(115_310_627_314_723_954));
    assert_eq!(customer.email.as_deref(), Some("john@example.com"));
    assert_eq!(customer.phone, None);
    assert_eq!(customer.first_name.as_deref(), Some("John"));
    assert_eq!(customer.last_name.as_deref(), Some("Smith"));

    let line = &order.lines[0];
    assert_eq!(line.id, 487_817_672_276_298_554);
    assert_eq!(line.variant_id, None);
    assert_eq!(line.title.as_deref(), Some("Aviator sunglasses"));
    assert_eq!(line.quantity, Some(1));
    assert_eq!(line.price.as_deref(), Some("89.99"));
    assert_eq!(line.sku.as_deref(), Some("SKU2006-001"));
    assert_eq!(line.fulfillment_status, None);

    let address = order.shipping_address.expect("an address");
    assert_eq!(Some(&address), order.billing_address.as_ref());
    assert_eq!(address.first_name.as_deref(), Some("Steve"));
    assert_eq!(address.last_name.as_deref(), Some("Shipper"));
    assert_eq!(address.address1.as_deref(), Some("123 Shipping Street"));
    assert_eq!(address.address2, None);
    assert_eq!(address.city.as_deref(), Some("Shippington"));
    assert_eq!(address.province.as_deref(), Some("Kentucky"));
    assert_eq!(address.country.as_deref(), Some("United States"));
    assert_eq!(address.zip.as_deref(), Some("40003"));
    assert_eq!(address.phone.as_deref(), Some("555-555-SHIP"));
}

#[test]
fn a_draft_order_without_customer_addresses_and_email_reads() {
    let order = read(DRAFT);
    assert_eq!(order.email, None, "it was the empty string");
    assert_eq!(order.phone, None);
    assert_eq!(order.customer, None);
    assert_eq!(order.shipping_address, None);
    assert_eq!(order.billing_address, None);
    assert_eq!(order.financial_status, Some(FinancialStatus::Paid));
    assert_eq!(order.lines[0].variant_id, Some(44_872_881_439_030));
}

#[test]
fn an_address_is_read_by_the_names_of_either_storefront_and_its_own_come_first() {
    let given = json!({"address_1": "1 Elm St", "state": "KY", "postcode": "40202", "zip": null});
    let address = read(changed(FULL, &[("/shipping_address", given)])).shipping_address;
    let address = address.expect("an address");
    assert_eq!(address.address1.as_deref(), Some("1 Elm St"));
    assert_eq!(address.province.as_deref(), Some("KY"));
    assert_eq!(address.zip.as_deref(), Some("40202"));
    let given = json!({"address1": "2 Oak St", "address_1": "1 Elm St"});
    let address = read(changed(FULL, &[("/shipping_address", given)])).shipping_address;
    assert_eq!(address.unwrap().address1.as_deref(), Some("2 Oak St"));
}

#[test]
fn the_refund_of_a_cancelled_order_is_exact() {
    let order = read(CANCELLED);
    assert_eq!(
        order.cancelled_at,
        Some(1_679_695_698_000),
        "2023-03-24T18:08:18-04:00"
    );
    assert_eq!(order.financial_status, Some(FinancialStatus::Refunded));
    assert!(
        order.lines.iter().all(|line| line.sku.is_none()),
        "they were empty strings"
    );

    let refund = &order.refunds[0];
    assert_eq!(refund.id, 945_108_681_014);
    assert_eq!(refund.created_at, order.cancelled_at);
    let transaction = &refund.transactions[0];
    assert_eq!(transaction.id, 6_492_880_732_470);
    assert_eq!(transaction.parent_id, Some(6_492_602_990_902));
    assert_eq!(transaction.kind.as_deref(), Some("refund"));
    assert_eq!(transaction.status.as_deref(), Some("success"));
    assert_eq!(transaction.amount, order.total);
    let lines: Vec<_> = refund
        .lines
        .iter()
        .map(|line| (line.line_id, line.quantity, line.subtotal.as_deref()))
        .collect();
    assert_eq!(
        lines,
        [
            (13_924_936_679_734, 1, Some("586.45")),
            (13_924_936_712_502, 2, Some("1189.93")),
        ]
    );
    assert_eq!(refund.lines[0].restock_type.as_deref(), Some("no_restock"));
}

#[test]
fn bodies_of_other_topics_are_not_orders() {
    for other in [
        &sample!("fulfillments_create.2026-07")[..],
        sample!("refunds_create.2026-07"),
    ] {
        assert_eq!(refused_field(other), ("order_id", Problem::Foreign));
    }
    for other in [
        &sample!("customers_data_request.2026-07")[..],
        sample!("customers_redact.2026-07"),
        sample!("orders_edited.2026-07"),
        sample!("shop_redact.2026-07"),
    ] {
        assert_eq!(refused_field(other), ("id", Problem::Missing));
    }
}

#[test]
fn an_id_alone_is_an_order() {
    let order = read(r#"{"id": 1}"#);
    assert_eq!(order.id, 1);
    assert_eq!(order.currency, None);
    assert_eq!(order.total, None);
    assert_eq!(order.updated_at, None);
    assert!(order.lines.is_empty() && order.fulfillments.is_empty() && order.refunds.is_empty());
}

#[test]
fn missing_null_and_empty_are_the_same() {
    let body = parsed(FULL);
    for key in body
        .as_object()
        .expect("an order")
        .keys()
        .filter(|key| *key != "id")
    {
        let missing = read(without(FULL, &[key]));
        let pointer = format!("/{key}");
        for nothing in [Value::Null, json!("")] {
            let mut order = read(changed(FULL, &[(&pointer, nothing)]));
            // The two differ only in whether the key was there.
            order.present_fields = missing.present_fields;
            order.shape = missing.shape;
            assert_eq!(order, missing, "{key}");
        }
    }
}

#[test]
fn an_app_without_access_to_customer_data_gets_a_part_of_the_address() {
    let cut = json!({"country": "Canada", "province": null});
    let body = changed(
        &without(FULL, &["email", "phone", "customer"]),
        &[("/shipping_address", cut)],
    );
    let order = read(body);
    assert_eq!(order.email, None);
    assert_eq!(order.customer, None);
    let address = order.shipping_address.expect("an address");
    assert_eq!(address.country.as_deref(), Some("Canada"));
    assert_eq!(address.first_name, None);
}

#[test]
fn a_person_with_nothing_known_is_no_person() {
    for empty in [
        json!({}),
        json!([]),
        json!({"first_name": "", "email": null, "city": ""}),
    ] {
        let body = changed(
            FULL,
            &[("/customer", empty.clone()), ("/billing_address", empty)],
        );
        let order = read(body);
        assert_eq!(order.customer, None);
        assert_eq!(order.billing_address, None);
    }
}

#[test]
fn a_customer_may_be_an_email_alone() {
    let order = read(changed(
        FULL,
        &[("/customer", json!({"email": "a@example.com"}))],
    ));
    let customer = order.customer.expect("a customer");
    assert_eq!(
        (customer.id, customer.email.as_deref()),
        (None, Some("a@example.com"))
    );
}

#[test]
fn statuses_are_known_by_name_and_unknown_ones_are_kept() {
    for (text, status) in [
        ("pending", FinancialStatus::Pending),
        ("authorized", FinancialStatus::Authorized),
        ("partially_paid", FinancialStatus::PartiallyPaid),
        ("paid", FinancialStatus::Paid),
        ("partially_refunded", FinancialStatus::PartiallyRefunded),
        ("refunded", FinancialStatus::Refunded),
        ("voided", FinancialStatus::Voided),
        ("expired", FinancialStatus::Expired),
        ("on_the_moon", FinancialStatus::Other("on_the_moon".into())),
        ("PAID", FinancialStatus::Other("PAID".into())),
    ] {
        assert_eq!(status.as_str(), text);
        let order = read(changed(FULL, &[("/financial_status", json!(text))]));
        assert_eq!(order.financial_status, Some(status));
    }
    for (text, status) in [
        ("pending", FulfillmentStatus::Pending),
        ("partial", FulfillmentStatus::Partial),
        ("fulfilled", FulfillmentStatus::Fulfilled),
        ("restocked", FulfillmentStatus::Restocked),
        ("beamed", FulfillmentStatus::Other("beamed".into())),
    ] {
        assert_eq!(status.as_str(), text);
        let order = read(changed(FULL, &[("/fulfillment_status", json!(text))]));
        assert_eq!(order.fulfillment_status, Some(status));
    }
}

/// Whoever shows an order makes a link of it.
#[test]
fn a_tracking_link_that_is_no_address_of_a_page_is_not_kept() {
    for (link, is_kept) in [
        ("https://t.example/A1?n=1", true),
        ("HTTP://t.example/A1", true),
        ("javascript:alert(1)", false),
        ("java\nscript:alert(1)", false),
        (" javascript:alert(1)", false),
        ("data:text/html,<script>1</script>", false),
        ("vbscript:1", false),
        ("//t.example/A1", false),
        ("t.example/A1", false),
    ] {
        let fulfillments = json!([{"id": 1, "tracking_number": "A1", "tracking_url": link}]);
        let order = read(changed(FULL, &[("/fulfillments", fulfillments)]));
        let kept = order.fulfillments[0].tracking[0].url.as_deref();
        assert_eq!(kept, is_kept.then_some(link), "{link:?}");
    }
}

#[test]
fn tracking_numbers_and_links_belong_together_by_position() {
    let body = changed(
        FULL,
        &[(
            "/fulfillments",
            json!([
                {
                    "id": 11,
                    "status": "success",
                    "tracking_company": "Sample Post",
                    "tracking_number": "A1",
                    "tracking_numbers": ["A1", "", "A3", "A4", "A1"],
                    "tracking_urls": ["https://t.example/A1", "https://t.example/2", null],
                    "updated_at": "2026-11-20T10:00:00.5Z",
                },
                {"id": 12, "tracking_number": "B1", "tracking_url": "https://t.example/B1"},
                {"id": 13, "tracking_number": null, "tracking_numbers": [], "tracking_url": null},
            ]),
        )],
    );
    let order = read(body);
    let tracking: Vec<Vec<_>> = order
        .fulfillments
        .iter()
        .map(|fulfillment| &fulfillment.tracking)
        .map(|all| {
            all.iter()
                .map(|it| (it.number.as_str(), it.url.as_deref()))
                .collect()
        })
        .collect();
    assert_eq!(
        tracking,
        [
            vec![
                ("A1", Some("https://t.example/A1")),
                ("A3", None),
                ("A4", None)
            ],
            vec![("B1", Some("https://t.example/B1"))],
            vec![],
        ]
    );
    let first = &order.fulfillments[0];
    assert_eq!(first.id, 11);
    assert_eq!(first.status.as_deref(), Some("success"));
    assert_eq!(first.tracking_company.as_deref(), Some("Sample Post"));
    assert_eq!(first.updated_at, Some(1_795_168_800_500));
}

#[test]
fn times_are_compared_as_instants() {
    for (text, millis) in [
        ("2026-11-20T10:00:00Z", 1_795_168_800_000),
        ("2026-11-20T05:00:00-05:00", 1_795_168_800_000),
        ("2026-11-20T15:30:00+05:30", 1_795_168_800_000),
        ("2026-11-20T10:00:00.123Z", 1_795_168_800_123),
        ("2026-11-20T10:00:00.123999999Z", 1_795_168_800_123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2016-12-31T23:59:60Z", 1_483_228_799_999),
    ] {
        let order = read(changed(FULL, &[("/updated_at", json!(text))]));
        assert_eq!(order.updated_at, Some(millis), "{text}");
    }
}

#[test]
fn ids_beyond_2_to_53_are_exact_and_beyond_2_to_63_refused() {
    for id in [1, (1 << 53) + 1, 820_982_911_946_154_508, i64::MAX] {
        assert_eq!(read(format!(r#"{{"id": {id}}}"#)).id, id);
        assert_eq!(read(format!(r#"{{"id": "{id}"}}"#)).id, id);
    }
    for beyond in [
        "9223372036854775808",
        "18446744073709551616",
        "0",
        "-1",
        "-0",
    ] {
        let refused = |body: String| assert_eq!(refused_field(body), ("id", Problem::OutOfRange));
        refused(format!(r#"{{"id": {beyond}}}"#));
        refused(format!(r#"{{"id": "{beyond}"}}"#));
    }
}

#[test]
fn an_id_that_is_no_integer_is_refused() {
    for wrong in [
        "5.0",
        "5e0",
        "1e400",
        r#""5.0""#,
        r#"" 5""#,
        r#""+5""#,
        r#""-""#,
        r#""gid://5""#,
    ] {
        let body = format!(r#"{{"id": {wrong}}}"#);
        assert_eq!(
            refused_field(body),
            ("id", Problem::NotAnInteger),
            "{wrong}"
        );
    }
    for wrong in ["true", "[5]", r#"{"id": 5}"#] {
        let body = format!(r#"{{"id": {wrong}}}"#);
        assert_eq!(refused_field(body), ("id", Problem::WrongShape), "{wrong}");
    }
    for missing in ["{}", r#"{"id": null}"#, r#"{"id": ""}"#] {
        assert_eq!(
            refused_field(missing),
            ("id", Problem::Missing),
            "{missing}"
        );
    }
}

#[test]
fn an_amount_may_be_a_string_or_a_number() {
    for amount in [json!("404.95"), json!(404.95), json!("404.9500")] {
        assert_eq!(
            total(&read(changed(FULL, &[("/total_price", amount)]))),
            "404.95 USD"
        );
    }
    let body = |amount| format!(r#"{{"id": 1, "currency": "usd", "total_price": {amount}}}"#);
    // A double cannot represent this number; it would end in .52.
    assert_eq!(
        total(&read(body("92233720368547.51"))),
        "92233720368547.51 USD"
    );
    let price = "0.1000000000000000055511151231257827";
    let body =
        format!(r#"{{"id": 1, "line_items": [{{"id": 2, "quantity": 1, "price": {price}}}]}}"#);
    assert_eq!(read(body).lines[0].price.as_deref(), Some(price));
}

#[test]
fn an_amount_has_the_decimals_of_its_currency() {
    let read = |currency, amount| {
        let changes = [
            ("/currency", json!(currency)),
            ("/total_price", json!(amount)),
        ];
        Order::read(&changed(FULL, &changes))
    };
    let minor = |currency, amount| {
        read(currency, amount)
            .expect("an order")
            .total
            .expect("a total")
            .minor
    };
    assert_eq!(minor("JPY", "1000.00"), 1000);
    assert_eq!(minor("KWD", "1.5"), 1500);
    let order = read("JPY", "1000.50").expect("an order");
    assert_eq!(
        (order.total, order.unread),
        (
            None,
            vec![
                "total_price",
                "subtotal_price",
                "current_total_price",
                "total_outstanding"
            ]
        ),
        "the other amounts of the sample have decimals as well"
    );
}

#[test]
fn a_refund_may_be_in_a_currency_of_its_own() {
    let refunded = |currency| {
        let changes = [
            ("/refunds/0/transactions/0/amount", json!("1806.00")),
            ("/refunds/0/transactions/0/currency", currency),
        ];
        let order = read(changed(CANCELLED, &changes));
        let amount = order.refunds[0].transactions[0].amount;
        amount.expect("an amount")
    };
    assert_eq!(refunded(json!("JPY")).minor, 1806);
    assert_eq!(refunded(json!(null)).minor, 180_600);
}

#[test]
fn a_price_of_endless_digits_is_no_price() {
    let price = |digits| {
        let price = json!("9".repeat(digits));
        let order = read(changed(FULL, &[("/line_items/0/price", price)]));
        order.lines[0].price.clone()
    };
    assert_eq!(price(64), Some("9".repeat(64)));
    assert_eq!(price(65), None);
}

#[test]
fn amounts_without_a_currency_are_not_money() {
    let order = read(without(FULL, &["currency"]));
    assert_eq!((order.total, order.subtotal, order.tax), (None, None, None));
}

/// An order is always kept. Of what cannot be read the field is known, and nothing is guessed.
#[test]
fn a_wrong_value_costs_its_own_field_and_is_said() {
    let cases = r#"
        /total_price = "4,95"               -> total_price
        /total_price = "1e3"                -> total_price
        /total_price = "1.005"              -> total_price
        /total_price = true                 -> total_price
        /total_price = {"amount": "4.95"}   -> total_price
        /current_total_price = "1e3"        -> current_total_price
        /total_outstanding = "soon"         -> total_outstanding
        /currency = "US"                    -> currency
        /currency = 840                     -> currency
        /updated_at = "yesterday"           -> updated_at
        /updated_at = "2023-03-24 18"       -> updated_at
        /updated_at = 1679695698            -> updated_at
        /cancelled_at = "2023-13-01T00:00Z" -> cancelled_at
        /customer/id = "x"                  -> customer.id
        /customer/id = 9223372036854775808  -> customer.id
        /line_items = {}                    -> line_items
        /line_items = [1]                   -> line_items
        /line_items = [null]                -> line_items
        /line_items = [[1, 2]]              -> line_items
        /line_items/0/id = null             -> line_items[].id
        /line_items/1/id = 13924936679734   -> line_items[].id
        /line_items/0/quantity = null       -> line_items[].quantity
        /line_items/0/quantity = 1.5        -> line_items[].quantity
        /line_items/0/quantity = "1.5"      -> line_items[].quantity
        /line_items/0/quantity = -1         -> line_items[].quantity
        /line_items/0/current_quantity = "x" -> line_items[].current_quantity
        /fulfillments = "x"                 -> fulfillments
        /fulfillments = [{}]                -> fulfillments[].id
        /fulfillments = [{"id":1},{"id":"1"}] -> fulfillments[].id
        /refunds = {}                       -> refunds
        /refunds = [{"id": 0}]              -> refunds[].id
        /refunds/0/transactions/0/amount = "x" -> refunds[].transactions[].amount
        /refunds/0/refund_line_items/0/quantity = 0.5 -> refunds[].refund_line_items[].quantity
    "#;
    let nines = format!(r#"/total_price = "{}" -> total_price"#, "9".repeat(60));
    for case in cases.trim().lines().chain([nines.as_str()]) {
        let (change, field) = case.split_once(" -> ").expect("a change and a field");
        let (pointer, value) = change
            .trim()
            .split_once(" = ")
            .expect("a pointer and a value");
        let value = serde_json::from_str(value).expect("a value");
        let order = read(changed(CANCELLED, &[(pointer, value)]));
        assert_eq!(order.unread, [field], "{change}");
        assert_eq!(
            order.cancelled_at.is_none(),
            field == "cancelled_at",
            "{change}"
        );
    }
    assert_eq!(read(CANCELLED).unread, Vec::<&str>::new());
    let order = read(changed(
        CANCELLED,
        &[("/line_items/1/quantity", json!(1.5))],
    ));
    let quantities: Vec<_> = order.lines.iter().map(|line| line.quantity).collect();
    assert_eq!(quantities, [Some(1), None]);
    let order = read(changed(
        CANCELLED,
        &[("/line_items/1/quantity", json!("2.0"))],
    ));
    assert_eq!(order.lines[1].quantity, Some(2), "it is a whole number");
    let unknown = changed(
        CANCELLED,
        &[("/line_items", json!("x")), ("/refunds", json!(7))],
    );
    let order = read(unknown);
    assert!(!order.present_fields.lines && !order.present_fields.refunds);
    let open = changed(CANCELLED, &[("/cancelled_at", json!(false))]);
    assert_eq!(read(open).cancelled_at, None);
}

#[test]
fn every_form_of_iso_8601_in_which_providers_write_times_is_read() {
    let updated_at = |text: &str| read(changed(FULL, &[("/updated_at", json!(text))])).updated_at;
    let noon = 1_679_659_200_000;
    let cases = "
        2023-03-24T12:00:00Z                  0
        2023-03-24T12:00:00z                  0
        2023-03-24t12:00:00Z                  0
        2023-03-24 12:00:00Z                  0
        2023-03-24 12:00:00 +0000             0
        2023-03-24T12:00:00                   0
        2023-03-24 12:00:00                   0
        2023-03-24T12:00                      0
        2023-03-24T12:00Z                     0
        2023-03-24T12:00:00+00:00             0
        2023-03-24T12:00:00-00:00             0
        2023-03-24T12:00:00+0000              0
        2023-03-24T12:00:00+00                0
        2023-03-24T08:00:00-04:00             0
        2023-03-24T08:00:00-0400              0
        2023-03-24T08:00:00-04                0
        2023-03-24T17:30:00+0530              0
        20230324T120000Z                      0
        20230324T1200                         0
        2023-03-24T12:00:00.1                 100
        2023-03-24T12:00:00,25Z               250
        2023-03-24T12:00:00.123456Z           123
        2023-03-24T12:00:00.9999999999999999  999
        2023-03-24                            -43200000
        20230324                              -43200000
        2023-03-24T24:00:00Z                  43200000
        2023-03-24T12:00:60Z                  59999
        2023-03-23T23:59:59.5-12:00           -500";
    for case in cases.trim().lines() {
        let (text, millis) = case.trim().rsplit_once(' ').expect("a time and its place");
        let millis: i64 = millis.parse().expect("milliseconds");
        assert_eq!(updated_at(text.trim()), Some(noon + millis), "{text}");
    }
    for none in [
        "24.03.2023",
        "03/24/2023",
        "2023-02-29",
        "2023-3-24",
        "2023-03-24T",
        "2023-03-24T12",
        "2023-03-24T25:00:00Z",
        "2023-03-24T24:00:01Z",
        "2023-03-24T12:60:00Z",
        "2023-03-24T12:00:61Z",
        "2023-03-24T12:00:00.",
        "2023-03-24T12:00:00.Z",
        "2023-03-24T12:00:00+",
        "2023-03-24T12:00:00+5",
        "2023-03-24T12:00:00+05:",
        "2023-03-24T12:00:00+99:00",
        "2023-03-24T12:00:00 CET",
        "2023-03-24T12:00:00ZZ",
        "2023-0324",
        "2023-03-24\u{a0}12:00:00",
        "２０２３-03-24",
        "1679659200",
        " ",
    ] {
        assert_eq!(updated_at(none), None, "{none}");
    }
}

#[test]
fn a_wrong_type_where_it_does_not_matter_costs_that_field_alone() {
    let pointers = "
        /name /order_number /email /phone /subtotal_price /total_tax /created_at /cancel_reason
        /financial_status /fulfillment_status /shipping_address /billing_address
        /shipping_address/first_name /shipping_address/country /shipping_address/zip
        /customer /customer/email /customer/phone /customer/first_name /customer/last_name
        /line_items/0/variant_id /line_items/0/title /line_items/0/price /line_items/0/sku
        /line_items/0/fulfillment_status /refunds/0/created_at
        /refunds/0/transactions /refunds/0/transactions/0/id /refunds/0/transactions/0/amount
        /refunds/0/transactions/0/kind /refunds/0/transactions/0/parent_id
        /refunds/0/refund_line_items/0/subtotal /refunds/0/refund_line_items/0/restock_type";
    for pointer in pointers.split_whitespace() {
        let without = read(changed(CANCELLED, &[(pointer, Value::Null)]));
        for wrong in [json!(true), json!([]), json!([1]), json!([[[]]])] {
            let mut order = read(changed(CANCELLED, &[(pointer, wrong.clone())]));
            order.unread.clear();
            order.shape = without.shape;
            assert!(order == without, "{pointer}: {wrong}");
        }
    }
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let at = |body: &[u8]| match refused(body) {
        Unreadable::NotJson {
            problem,
            line,
            column,
        } => (problem, line, column),
        other => panic!("not about JSON: {other}"),
    };
    assert_eq!(at(b""), ("ends too early", 1, 0));
    assert_eq!(at(b"  \n "), ("ends too early", 2, 1));
    assert_eq!(at(b"\xEF\xBB\xBF{\"id\": 1}"), ("is not JSON", 1, 1));
    assert_eq!(at(b"{\"id\": 1}x"), ("is not JSON", 1, 10));
    assert_eq!(
        at(b"{\"id\": 1,\n \"name\": \"a"),
        ("ends too early", 2, 11)
    );
    assert_eq!(at(b"{\"id\": 01}"), ("is not JSON", 1, 9));
    assert_eq!(at(b"id=1").0, "is not JSON");
    assert_eq!(at(b"{\"name\": \"a\nb\", \"id\": 1}").0, "is not JSON");
    for not_an_object in ["[]", "[1, 2]", "null", "1", "\"{}\"", "true"] {
        assert_eq!(
            at(not_an_object.as_bytes()).0,
            "is not an object or has a key twice"
        );
    }
    assert_eq!(
        refused(b"{\"id\": 1, \"name\": \"\xFF\"}"),
        Unreadable::NotUtf8
    );
}

#[test]
fn a_key_twice_is_refused() {
    let error = refused(r#"{"id": 1, "id": 2}"#);
    assert_eq!(
        error.to_string(),
        "the body is not an object or has a key twice at line 1, column 14"
    );
    refused(r#"{"id": 1, "total_price": "1.00", "id": 2, "total_price": "2.00"}"#);
    refused(r#"{"id": 1, "\u0069d": 2}"#);
    let order = read(r#"{"id": 1, "customer": {"id": 1, "id": 2}}"#);
    assert_eq!((order.customer, order.unread), (None, vec!["customer"]));
    let order = read(r#"{"id": 1, "line_items": [{"id": 1, "quantity": 1, "quantity": 2}]}"#);
    assert_eq!((order.lines, order.unread), (vec![], vec!["line_items"]));
}

#[test]
fn depth_is_harmless() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for value in [deep("[", "]"), deep(r#"{"a":"#, "}")] {
        refused(&value);
        assert_eq!(read(format!(r#"{{"id": 1, "unknown": {value}}}"#)).id, 1);
        for lenient in ["name", "shipping_address", "created_at", "subtotal_price"] {
            assert_eq!(read(format!(r#"{{"id": 1, "{lenient}": {value}}}"#)).id, 1);
        }
        for strict in ["id", "order_id"] {
            refused(format!(r#"{{"{strict}": {value}}}"#));
        }
        for said in ["total_price", "updated_at", "line_items", "refunds"] {
            let order = read(format!(r#"{{"id": 1, "{said}": {value}}}"#));
            assert_eq!(order.unread, [said]);
        }
        let inside = format!(r#"{{"id": 1, "customer": {{"email": {value}, "x": {value}}}}}"#);
        assert_eq!(read(inside).customer, None);
        let body =
            format!(r#"{{"id": 1, "line_items": [{{"id": 2, "quantity": 1, "sku": {value}}}]}}"#);
        assert_eq!(read(body).lines[0].sku, None);
    }
    refused("[".repeat(100_000));
    refused(r#"{"a":"#.repeat(100_000));
}

#[test]
fn text_is_made_fit_for_a_database() {
    let name = |escaped: &str| {
        let body = format!(r#"{{"id": 1, "name": "{escaped}"}}"#);
        read(body).name.expect("a name")
    };
    assert_eq!(name(r"\ud800"), "\u{FFFD}");
    assert_eq!(name(r"a\udc00b"), "a\u{FFFD}b");
    assert_eq!(
        name(r"\ud83d\ude00"),
        "\u{1F600}",
        "a pair is one character"
    );
    assert_eq!(
        name(r"\ude00\ud83d"),
        "\u{FFFD}\u{FFFD}",
        "in this order it is none"
    );
    assert_eq!(name(r"\ud800\ud800\udc00"), "\u{FFFD}\u{10000}");
    assert_eq!(name(r"\ud800\n"), "\u{FFFD}\n");
    assert_eq!(name(r"\ud800\u0041é"), "\u{FFFD}Aé");
    assert_eq!(name(r"a\u0000b"), "a\u{FFFD}b");
    assert_eq!(name(r#"\"\\\/\b\f\n\r\t"#), "\"\\/\u{8}\u{c}\n\r\t");
    assert_eq!(name("Zoë 東京 😀"), "Zoë 東京 😀");
    refused(r#"{"id": 1, "name": "\ud8"}"#);
    refused(r#"{"id": 1, "name": "\x41"}"#);
}

#[test]
fn surrogates_and_nul_pass_wherever_text_is() {
    let hostile = json!({
        "id": 1,
        "email": "\0CANARY",
        "financial_status": "\0",
        "customer": {"first_name": "\0"},
        "line_items": [{"id": 2, "quantity": 1, "title": "\0", "sku": "\0"}],
        "note_attributes": [{"name": "\0", "value": "\0"}],
    })
    .to_string();
    for body in [hostile.clone(), hostile.replace(r"\u0000", r"\ud800")] {
        let order = read(body);
        assert_eq!(order.email.as_deref(), Some("\u{FFFD}CANARY"));
        assert_eq!(
            order.financial_status,
            Some(FinancialStatus::Other("\u{FFFD}".into()))
        );
        assert_eq!(order.lines[0].sku.as_deref(), Some("\u{FFFD}"));
    }
    refused(r#"{"id": "1\u0000"}"#);
    assert_eq!(
        read(r#"{"id": 1, "updated_at": "\ud800"}"#).updated_at,
        None
    );
}

#[test]
fn errors_show_nothing_of_the_input() {
    let sample = parsed(CANCELLED);
    let mut refusals = 0;
    for pointer in pointers(&sample) {
        for canary in [
            json!("canary"),
            json!(7_070_707.5),
            json!({"canary": "canary"}),
            json!([{"id": "canary"}]),
            json!("7070707.07070707"),
        ] {
            let body = with(sample.clone(), &pointer, canary).to_string();
            if let Err(error) = Order::read(body.as_bytes()) {
                refusals += 1;
                let reported = format!("{error} {error:?}");
                assert!(!reported.contains("canary"), "{pointer}: {reported}");
                assert!(!reported.contains("70707"), "{pointer}: {reported}");
            }
        }
    }
    assert!(refusals > 4, "{refusals}");
    for body in [
        "canary",
        r#""canary""#,
        r#"["canary"]"#,
        r#"{"canary"}"#,
        r#"{"canary": canary}"#,
        r#"{"id": 1, "id": "canary"}"#,
        r#"{"id": 1, "\ud800canary": 1}"#,
    ] {
        let error = refused(body);
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[test]
fn a_truncated_body_is_refused_without_quoting_it() {
    let sample = parsed(FULL);
    let secrets: Vec<String> = pointers(&sample)
        .iter()
        .filter_map(|pointer| match sample.pointer(pointer)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
        // Shorter texts may occur by chance, as a line number or as a word of our own.
        .filter(|secret| secret.len() >= 4)
        .collect();
    assert!(secrets.len() > 100, "{}", secrets.len());
    for length in (0..FULL.trim_ascii_end().len()).step_by(7) {
        let error = refused(&FULL[..length]);
        let reported = format!("{error} {error:?}");
        assert!(
            secrets.iter().all(|secret| !reported.contains(secret)),
            "{reported}"
        );
    }
}

#[test]
fn debug_output_holds_no_personal_data() {
    let order = read(FULL);
    let reported = format!(
        "{order:?} {:?} {:?}",
        order.customer, order.shipping_address
    );
    assert!(reported.contains("820982911946154508"));
    for secret in [
        "@", "John", "Smith", "Steve", "Shipp", "555", "40003", "Kentucky", "#9999",
    ] {
        assert!(!reported.contains(secret), "{secret} in {reported}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Order::read(&body);
    }

    #[test]
    fn no_damage_to_a_sample_panics(
        at in 0..CANCELLED.len(),
        cut in 0_usize..40,
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..8),
            r#"[\[\]{}",:0-9eE.\\u\-]{0,8}"#.prop_map(String::into_bytes),
        ],
    ) {
        let end = (at + cut).min(CANCELLED.len());
        let body = [&CANCELLED[..at], &bytes, &CANCELLED[end..]].concat();
        let _ = Order::read(&body);
    }

    #[test]
    fn any_value_anywhere_is_read_or_refused(
        pick: prop::sample::Index,
        raw in prop_oneof![
            r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?",
            r#""([a-zA-Z0-9@. :+-]|\\u[0-9a-f]{4}|\\n){0,12}""#,
            r#"\[(null|\{\}|\[\]|1|"x")\]|\{"id":(1|"x"|null)\}"#,
        ],
    ) {
        let sample = parsed(CANCELLED);
        let pointers = pointers(&sample);
        let pointer = pick.get(&pointers);
        let body = with(sample, pointer, json!("HERE")).to_string();
        let body = body.replace("\"HERE\"", &raw);
        match Order::read(body.as_bytes()) {
            Ok(order) => prop_assert!(order.id > 0),
            Err(Unreadable::Field { .. }) => (),
            Err(other) => prop_assert!(false, "valid JSON is an order or names a field: {}", other),
        }
    }

    #[test]
    fn any_id_and_any_number_of_minor_units_is_exact(id in 1..=i64::MAX, minor: i64) {
        let sign = if minor < 0 { "-" } else { "" };
        let (units, cents) = (minor.unsigned_abs() / 100, minor.unsigned_abs() % 100);
        let body = format!(
            r#"{{"id":{id},"currency":"EUR","total_price":{sign}{units}.{cents:02}}}"#
        );
        let order = read(body);
        prop_assert_eq!(order.id, id);
        prop_assert_eq!(order.total.map(|total| total.minor), Some(minor));
    }
}
