//! What providers have documented as changes of their bodies since 2023 ends the same, or is noticed at the first body; and
//! nothing is noticed of bodies that have not changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use domain::order::Order;
use domain::payment::{Event, Object};
use domain::shape::{Change, Noted, Usual};
use domain::time::Timestamp;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// What a body comes to, as far as money, shipping and periods depend on it.
struct Read {
    outcome: String,
    noted: Noted,
}

fn order(body: &Value) -> Read {
    let it = Order::read(body.to_string().as_bytes()).expect("an order");
    let lines: Vec<_> = it.lines.iter().map(|line| (line.id, line.left())).collect();
    let back: Vec<i64> = it
        .refunds
        .iter()
        .flat_map(|refund| &refund.transactions)
        .filter_map(|moved| Some(moved.amount?.minor))
        .collect();
    let outcome = format!(
        "{:?}",
        (
            it.id,
            (it.total, it.outstanding, it.terms, it.cash_rounding),
            (it.financial_status, it.fulfillment_status, it.cancelled_at),
            (lines, back, it.own_credit, it.is_test),
        )
    );
    let noted = Noted {
        shape: it.shape,
        unread: it.unread,
    };
    Read { outcome, noted }
}

fn event(body: &Value) -> Read {
    let it = Event::read(body.to_string().as_bytes()).expect("an event");
    let outcome = match &it.object {
        // Which payment paid it is said elsewhere, by the newer versions in `invoice_payment.paid`.
        Object::Invoice(invoice) => format!(
            "{:?}",
            (
                (
                    &invoice.subscription,
                    invoice.is_of_worth(),
                    &invoice.pact_id
                ),
                (invoice.period_end, &invoice.items, &invoice.credited),
            )
        ),
        Object::Intent(intent) => format!(
            "{:?}",
            (
                &intent.id,
                intent.received,
                &intent.status,
                &intent.charge,
                &intent.metadata
            )
        ),
        Object::Charge(charge) => format!(
            "{:?}",
            (
                charge.payment_id(),
                charge.returned(),
                charge.captured,
                charge.fully_refunded
            )
        ),
        other => format!("{other:?}"),
    };
    let noted = Noted {
        shape: it.shape,
        unread: it.unread,
    };
    Read {
        outcome: format!("{:?} {outcome}", it.account),
        noted,
    }
}

/// What is noticed of a body that comes after another one.
fn noticed(before: &Noted, after: &Noted) -> Vec<(&'static str, Change)> {
    let mut usual = Usual::default();
    if let Some(news) = usual.news(before, NOW) {
        usual.learn(&news, NOW);
    }
    let news = usual.news(after, NOW);
    news.map_or_else(Vec::new, |news| news.changes)
}

fn ends_the_same(what: &str, read: fn(&Value) -> Read, before: &Value, after: &Value) {
    let (before, after) = (read(before), read(after));
    assert_eq!(after.outcome, before.outcome, "{what}");
    let noticed = noticed(&before.noted, &after.noted);
    assert_eq!(noticed, [], "{what}");
}

fn is_noticed(
    what: &str,
    read: fn(&Value) -> Read,
    before: &Value,
    after: &Value,
    expected: (&'static str, Change),
) {
    let (before, after) = (read(before), read(after));
    let noticed = noticed(&before.noted, &after.noted);
    assert!(noticed.contains(&expected), "{what}: {noticed:?}");
}

/// The body with the members of these paths replaced.
fn with(body: &Value, changes: &[(&str, Value)]) -> Value {
    let mut body = body.clone();
    for (path, value) in changes {
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"));
        parent
            .as_object_mut()
            .unwrap()
            .insert((*key).to_owned(), value.clone());
    }
    body
}

fn without(body: &Value, paths: &[&str]) -> Value {
    let mut body = body.clone();
    for path in paths {
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"));
        parent.as_object_mut().unwrap().remove(key);
    }
    body
}

fn fixture(path: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = fs::read_to_string(folder.join(format!("{path}.json"))).expect(path);
    serde_json::from_str(&text).unwrap()
}

fn of_type(kind: &str, object: &Value) -> Value {
    json!({"id": "evt_1", "object": "event", "created": 1_767_225_600, "livemode": true, "type": kind, "data": {"object": object}})
}

/// 2026-01-01, and a month and a year later.
const START: i64 = 1_767_225_600;
const MONTH: i64 = 1_769_904_000;
const YEAR: i64 = 1_798_761_600;

/// An invoice in the form since 2025-03-31, with these lines.
fn invoice(lines: &[Value]) -> Value {
    let parent = json!({"type": "subscription_details", "quote_details": null,
                        "subscription_details": {"subscription": "sub_1", "metadata": {"pact_id": "p1"}}});
    let object = json!({"id": "in_1", "object": "invoice", "created": START, "currency": "usd", "amount_paid": 1000,
                        "total": 1000, "customer": "cus_1", "metadata": {}, "parent": parent,
                        "billing_reason": "subscription_cycle", "lines": {"data": lines}});
    of_type("invoice.paid", &object)
}

/// A line that bills a price of this name until then.
fn line(amount: i64, (start, end): (i64, i64), price: &str, is_proration: bool) -> Value {
    json!({"amount": amount, "period": {"start": start, "end": end}, "discount_amounts": [],
           "pricing": {"type": "price_details", "price_details": {"price": price, "product": format!("prod_{price}")}},
           "parent": {"type": "subscription_item_details", "invoice_item_details": null, "subscription_item_details":
               {"subscription": "sub_1", "subscription_item": format!("si_{price}"), "proration": is_proration}}})
}

#[test]
fn documented_changes_of_invoices_end_the_same() {
    let month = (START, MONTH);
    // docs.stripe.com/changelog/basil/2025-03-31: adds-new-parent-field-to-invoicing-objects, invoice-pricing-configurations.
    let new = invoice(&[line(1000, month, "price_1", false)]);
    let earlier_line = json!({"amount": 1000, "period": {"start": START, "end": MONTH}, "discount_amounts": [],
        "type": "subscription", "proration": false, "subscription": "sub_1", "subscription_item": "si_price_1",
        "price": {"id": "price_1", "product": "prod_price_1"}, "plan": {"id": "price_1", "product": "prod_price_1"}});
    let old = with(
        &without(&new, &["/data/object/parent"]),
        &[
            ("/data/object/subscription", json!("sub_1")),
            (
                "/data/object/subscription_details",
                json!({"metadata": {"pact_id": "p1"}}),
            ),
            ("/data/object/charge", json!("ch_1")),
            ("/data/object/payment_intent", json!("pi_1")),
            ("/data/object/lines", json!({"data": [earlier_line]})),
        ],
    );
    ends_the_same("parent and pricing", event, &old, &new);
    // clover/2025-12-15/expandable-price-details-price: the price may be the object itself.
    let path = "/data/object/lines/data/0/pricing/price_details";
    let mut expanded = new.clone();
    expanded.pointer_mut(path).unwrap()["price"] = json!({"id": "price_1", "object": "price"});
    ends_the_same("an expanded price", event, &new, &expanded);
    // stripe-python 12.1.0 (2025-04-30): the subscription of a line's parent may be null.
    let path = "/data/object/lines/data/0/parent/subscription_item_details";
    let mut unnamed = new.clone();
    unnamed.pointer_mut(path).unwrap()["subscription"] = Value::Null;
    ends_the_same("a line without its subscription", event, &new, &unnamed);
    // basil/2025-03-31: amount_paid has what was paid outside of the provider.
    let outside = |amount: i64| with(&new, &[("/data/object/amount_paid", json!(amount))]);
    ends_the_same("paid outside", event, &outside(0), &outside(1000));
    // basil/2025-07-30/support-mixed-intervals: each item has its own end. The whole is paid until the longest, because a
    // shorter item may be taken off; one that is not paid ends with the subscription.
    let mixed = invoice(&[
        line(9000, (START, YEAR), "price_2", false),
        line(1000, month, "price_1", false),
    ]);
    let until = |body: &Value| match Event::read(body.to_string().as_bytes()).unwrap().object {
        Object::Invoice(invoice) => (invoice.period_end, invoice.items, invoice.credited),
        _ => panic!("no invoice"),
    };
    let (end, items, _) = until(&mixed);
    assert_eq!(
        (end, items["price_2"], items["price_1"]),
        (Some(YEAR), YEAR, MONTH)
    );
    // What was used in the last month is billed with the next one, and its period is over.
    let arrears = line(700, (START - 2_678_400, START), "price_used", false);
    let (end, ..) = until(&invoice(&[arrears, line(1000, month, "price_1", false)]));
    assert_eq!(end, Some(MONTH));
    // dahlia/2026-05-27/subscriptions-billing-schedules: several months are billed ahead, in a line or in one for each.
    let third = MONTH + 2 * 2_678_400;
    let ahead = invoice(&[line(3000, (START, third), "price_1", false)]);
    let each = invoice(&[
        line(1000, month, "price_1", false),
        line(2000, (MONTH, third), "price_1", false),
    ]);
    ends_the_same("billed ahead", event, &ahead, &each);
    // billing-mode/compare (the default since 2025-09-30): a credit for each of the periods that were paid.
    let credit = |amount, start| line(amount, (start, YEAR), "price_1", true);
    let classic = invoice(&[credit(-700, START), line(1000, month, "price_2", false)]);
    for split in [[START, MONTH], [MONTH, START]] {
        let [first, second] = split.map(|start| credit(-350, start));
        let flexible = invoice(&[first, second, line(1000, month, "price_2", false)]);
        ends_the_same("several credits", event, &classic, &flexible);
    }
    // adds-new-parent-field: a proration that is billed later is an invoice item, and names its subscription there.
    let mut later = credit(-700, START);
    later["parent"] = json!({"type": "invoice_item_details", "subscription_item_details": null,
                             "invoice_item_details": {"proration": true, "subscription": "sub_1"}});
    let (_, _, credited) = until(&invoice(&[later, line(1000, month, "price_2", false)]));
    assert_eq!(credited["price_1"], START);
}

#[test]
fn documented_changes_of_other_payment_objects_end_the_same_or_are_noticed() {
    let intent = json!({"id": "pi_1", "object": "payment_intent", "amount": 900, "amount_received": 900, "currency": "usd",
                        "status": "succeeded", "metadata": {"pact_id": "p1"}, "latest_charge": "ch_2"});
    let new = of_type("payment_intent.succeeded", &intent);
    // docs.stripe.com/changelog/2022-11-15: removes-charges-attribute-paymentintent, deprecates-charges-auto-expand.
    let charges = json!({"data": [{"id": "ch_2"}, {"id": "ch_1"}]});
    let old = with(
        &without(&new, &["/data/object/latest_charge"]),
        &[("/data/object/charges", charges)],
    );
    ends_the_same("the latest charge", event, &old, &new);
    // basil/2025-03-31 removes the invoice; clover/2025-10-29 adds members to amount_details.
    let old = with(&new, &[("/data/object/invoice", json!("in_1"))]);
    ends_the_same("no invoice", event, &old, &new);
    let more = json!({"tip": {}, "shipping": {"amount": 5}, "tax": {"total_tax_amount": 3}});
    ends_the_same(
        "details",
        event,
        &new,
        &with(&new, &[("/data/object/amount_details", more)]),
    );
    // basil/2025-04-30/additional-context-organization-events.
    let connect = with(&new, &[("/account", json!("acct_1"))]);
    let organisation = with(&new, &[("/context", json!("acct_1"))]);
    ends_the_same(
        "the context of an organisation",
        event,
        &connect,
        &organisation,
    );

    let charge = json!({"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount": 900, "amount_captured": 900,
                        "amount_refunded": 400, "captured": true, "refunded": false, "currency": "usd", "metadata": {},
                        "invoice": "in_1", "refunds": {"data": [{"id": "re_1", "amount": 400}]}});
    let old = of_type("charge.refunded", &charge);
    let new = without(&old, &["/data/object/refunds", "/data/object/invoice"]);
    ends_the_same("no list of refunds", event, &old, &new);

    // basil/2025-08-27/add-preventions-to-dispute is known; a word of tomorrow is not.
    let dispute = json!({"id": "dp_1", "object": "dispute", "amount": 900, "currency": "usd", "payment_intent": "pi_1",
                         "charge": "ch_1", "status": "needs_response"});
    let known = of_type("charge.dispute.updated", &dispute);
    let status = |word: &str| with(&known, &[("/data/object/status", json!(word))]);
    for (word, expected) in [
        ("prevented", false),
        ("warning_closed", false),
        ("arbitrated", true),
    ] {
        let (before, after) = (event(&known), event(&status(word)));
        assert_eq!(
            !noticed(&before.noted, &after.noted).is_empty(),
            expected,
            "{word}"
        );
    }
    let changed = ("data.object.status", Change::Unknown);
    is_noticed(
        "a new status",
        event,
        &known,
        &status("arbitrated"),
        changed,
    );
    let refund = json!({"id": "re_1", "object": "refund", "amount": 900, "currency": "usd", "payment_intent": "pi_1",
                        "charge": "ch_1", "status": "pending", "created": START});
    let known = of_type("refund.updated", &refund);
    // basil/2025-04-30 adds pending_reason.
    let reason = [("/data/object/pending_reason", json!("processing"))];
    ends_the_same("why it is pending", event, &known, &with(&known, &reason));
    let gone = without(&known, &["/data/object/status"]);
    let changed = ("data.object.status", Change::Missing);
    is_noticed("no status", event, &known, &gone, changed);

    // stripe-python 13.1.0 (2025-10-29): payment records pay invoices. What pays them tomorrow is noticed.
    let paid = |kind: &str| {
        let payment = json!({"type": kind, kind: "x_1"});
        let object = json!({"id": "inpay_1", "object": "invoice_payment", "invoice": "in_1", "payment": payment});
        of_type("invoice_payment.paid", &object)
    };
    let (before, record) = (
        event(&paid("payment_intent")),
        event(&paid("payment_record")),
    );
    assert_eq!(noticed(&before.noted, &record.noted), []);
    let changed = ("data.object.payment.type", Change::Unknown);
    is_noticed(
        "another payment",
        event,
        &paid("payment_intent"),
        &paid("voucher"),
        changed,
    );

    // basil/2025-03-31/deprecate-subscription-current-period-start-and-end.
    let subscription = json!({"id": "sub_1", "object": "subscription", "customer": "cus_1", "metadata": {},
                              "ended_at": null, "current_period_end": MONTH});
    let old = of_type("customer.subscription.updated", &subscription);
    let items = json!({"data": [{"current_period_end": MONTH}]});
    let new = with(
        &without(&old, &["/data/object/current_period_end"]),
        &[("/data/object/items", items)],
    );
    ends_the_same("periods of items", event, &old, &new);
    let changed = ("data.object.ended_at", Change::Missing);
    is_noticed(
        "no end",
        event,
        &old,
        &without(&old, &["/data/object/ended_at"]),
        changed,
    );

    // clover/2025-09-30/remove-checkout-session-currency-conversion-field.
    let session = json!({"id": "cs_1", "object": "checkout.session", "mode": "payment", "payment_status": "paid",
                         "amount_total": 1000, "currency": "usd", "payment_intent": "pi_1", "subscription": null,
                         "metadata": {"pact_id": "p1"}, "currency_conversion": null});
    let old = of_type("checkout.session.completed", &session);
    let new = without(&old, &["/data/object/currency_conversion"]);
    ends_the_same("no conversion", event, &old, &new);
    for (member, name) in [
        ("mode", "data.object.mode"),
        ("payment_status", "data.object.payment_status"),
    ] {
        let path = format!("/data/object/{member}");
        let missing = (name, Change::Missing);
        is_noticed(member, event, &old, &without(&old, &[&path]), missing);
        let word = with(&old, &[(path.as_str(), json!("of_tomorrow"))]);
        is_noticed(member, event, &old, &word, (name, Change::Unknown));
    }
}

#[test]
fn documented_changes_of_orders_end_the_same_or_are_noticed() {
    let new = fixture("storefront/orders_any_topic.2026-07");
    // shopify.dev/changelog: payment-properties-deprecation (2023-04), removal-of-pretaxprice (2026-03),
    // removed-checkout-id (2026-04), new customer's webhooks (2025-01); members of the samples of 2023-07 to 2026-07.
    let old = with(
        &new,
        &[
            ("/gateway", json!("bogus")),
            ("/processing_method", json!("direct")),
            ("/checkout_id", json!(901_414_060)),
            ("/total_price_usd", json!("1.00")),
            ("/line_items/0/pre_tax_price", json!("1.00")),
        ],
    );
    ends_the_same("members that went", order, &old, &new);
    let newer = with(
        &new,
        &[
            ("/merchant_business_entity_id", json!("NTc")),
            ("/returns", json!([])),
            ("/line_item_groups", json!([])),
            ("/duties_included", json!(false)),
        ],
    );
    ends_the_same("members that came", order, &new, &newer);
    // addition-of-lineitem-current_quantity (2024-01): one that comes is no change, one that goes is.
    let mut earlier = new.clone();
    for line in earlier["line_items"].as_array_mut().unwrap() {
        let fields = line.as_object_mut().unwrap();
        fields.remove("current_quantity").unwrap();
    }
    let (before, after) = (order(&earlier), order(&new));
    assert_eq!(noticed(&before.noted, &after.noted), []);
    let changed = ("line_items[].current_quantity", Change::Missing);
    is_noticed("no units that are left", order, &new, &earlier, changed);
    // property-deprecations-in-the-admin-api-order-and-lineitem-resource: announced for 2023-04, and still there.
    let mut unsaid = new.clone();
    for line in unsaid["line_items"].as_array_mut().unwrap() {
        line.as_object_mut()
            .unwrap()
            .remove("fulfillment_service")
            .unwrap();
    }
    let changed = ("line_items[].fulfillment_service", Change::Missing);
    is_noticed("who ships", order, &new, &unsaid, changed);
    // protected customer data (2022-10): nothing but the person goes.
    let cut = without(
        &new,
        &[
            "/email",
            "/phone",
            "/customer",
            "/shipping_address",
            "/billing_address",
        ],
    );
    ends_the_same("no access to people", order, &new, &cut);
    // orderdisplayfulfillmentstatus-now-returns-fulfillmentnotrequired (2026-10, of the other API so far).
    let word = with(
        &new,
        &[("/fulfillment_status", json!("fulfillment_not_required"))],
    );
    let changed = ("fulfillment_status", Change::Unknown);
    is_noticed("a status of the other API", order, &new, &word, changed);
    for member in [
        "total_price",
        "currency",
        "financial_status",
        "line_items",
        "refunds",
        "updated_at",
    ] {
        let gone = without(&new, &[&format!("/{member}")]);
        is_noticed(member, order, &new, &gone, (member, Change::Missing));
    }

    let woo = fixture("woocommerce/order.updated.completed");
    // woocommerce#68776: a move to the new tables takes the dates of old orders.
    let dates = [
        "date_paid",
        "date_paid_gmt",
        "date_completed",
        "date_completed_gmt",
    ];
    let moved: Vec<(String, Value)> = dates
        .iter()
        .map(|it| (format!("/{it}"), Value::Null))
        .collect();
    let moved: Vec<(&str, Value)> = moved
        .iter()
        .map(|(path, it)| (path.as_str(), it.clone()))
        .collect();
    ends_the_same("no date of payment", order, &woo, &with(&woo, &moved));
    // woocommerce#31593 and #31935: a price is a text, and again a number; #63692: refunds have their tax; #32888, #32710.
    let price = |price: Value| with(&woo, &[("/line_items/0/price", price)]);
    ends_the_same(
        "a price in words",
        order,
        &price(json!("17.17")),
        &price(json!(17.169_999_999_999_998)),
    );
    let more = [
        ("/needs_payment", json!(false)),
        ("/needs_processing", json!(true)),
        ("/is_editable", json!(false)),
    ];
    ends_the_same("members that came", order, &woo, &with(&woo, &more));
    let back = |fields: Value| with(&woo, &[("/refunds", json!([fields]))]);
    ends_the_same(
        "the tax of refunds",
        order,
        &back(json!({"id": 3, "reason": "", "total": "-10.00"})),
        &back(json!({"id": 3, "reason": "", "total": "-10.00", "total_tax": "-1.60"})),
    );
    let plugin = with(&woo, &[("/status", json!("awaiting-shipment"))]);
    is_noticed(
        "a plugin's status",
        order,
        &woo,
        &plugin,
        ("status", Change::Unknown),
    );
    let gone = without(&woo, &["/total"]);
    is_noticed("no total", order, &woo, &gone, ("total", Change::Missing));
}

/// A generator of numbers, the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Whether it happens: once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// Members that the references of the two storefronts call optional.
const OPTIONAL: [&str; 12] = [
    "customer",
    "shipping_address",
    "billing_address",
    "phone",
    "note",
    "email",
    "client_details",
    "payment_terms",
    "discount_codes",
    "shipping_lines",
    "po_number",
    "user_id",
];

fn another_order(base: &Value, draw: &mut Draw) -> Value {
    let mut body = base.clone();
    let fields = body.as_object_mut().unwrap();
    fields.insert("id".to_owned(), json!(1 + draw.below(1_000_000)));
    for name in OPTIONAL {
        if draw.once_in(3) {
            fields.remove(name);
        } else if draw.once_in(5) {
            fields.insert(name.to_owned(), Value::Null);
        }
    }
    if fields.contains_key("financial_status") {
        let paid = draw.one(&[
            "pending",
            "authorized",
            "partially_paid",
            "paid",
            "partially_refunded",
            "refunded",
            "voided",
        ]);
        fields.insert("financial_status".to_owned(), json!(paid));
        let shipped = draw.one(&["", "partial", "fulfilled"]);
        let shipped = if shipped.is_empty() {
            Value::Null
        } else {
            json!(shipped)
        };
        fields.insert("fulfillment_status".to_owned(), shipped);
    } else {
        let status = draw.one(&[
            "pending",
            "processing",
            "on-hold",
            "completed",
            "cancelled",
            "refunded",
            "failed",
        ]);
        fields.insert("status".to_owned(), json!(status));
    }
    for list in ["refunds", "fulfillments"] {
        if draw.once_in(2) && fields.contains_key(list) {
            fields.insert(list.to_owned(), json!([]));
        }
    }
    body
}

fn another_event(base: &Value, draw: &mut Draw) -> Value {
    let mut body = base.clone();
    body["id"] = json!(format!("evt_{}", draw.below(1_000_000)));
    body["created"] = json!(START + i64::try_from(draw.below(1_000_000)).unwrap());
    let object = body["data"]["object"].as_object_mut().unwrap();
    for name in [
        "customer",
        "receipt_email",
        "transfer_group",
        "customer_email",
        "client_reference_id",
    ] {
        if draw.once_in(3) && object.contains_key(name) {
            object.insert(name.to_owned(), Value::Null);
        }
    }
    if draw.once_in(4) {
        object.insert("metadata".to_owned(), json!({}));
    }
    body
}

#[test]
fn of_ten_thousand_bodies_that_have_not_changed_nothing_is_noticed() {
    // Each sender has one version of the API.
    let orders = ["2023-07", "2024-04", "2025-10", "2026-07"].map(|version| {
        let base = fixture(&format!("storefront/orders_any_topic.{version}"));
        (format!("orders {version}"), vec![base])
    });
    let woo = [
        "created.processing",
        "updated.completed",
        "updated.cancelled",
        "updated.refunded",
        "created.pending.guest",
    ];
    let woo = woo.map(|name| fixture(&format!("woocommerce/order.{name}")));
    let mut senders: BTreeMap<String, Vec<Value>> = orders.into_iter().collect();
    senders.insert("orders of WooCommerce".to_owned(), woo.to_vec());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/payment");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".json") else {
            continue;
        };
        let body = fixture(&format!("payment/{name}"));
        let is_read = Event::read(body.to_string().as_bytes()).is_ok();
        if let (Some(kind), Some(version), true) =
            (body["type"].as_str(), body["api_version"].as_str(), is_read)
        {
            senders
                .entry(format!("{kind} {version}"))
                .or_default()
                .push(body.clone());
        }
    }
    assert!(senders.len() > 30, "{}", senders.len());
    let mut draw = Draw(7);
    let names: Vec<&String> = senders.keys().collect();
    let mut usual: BTreeMap<&String, Usual> = BTreeMap::new();
    for nth in 0..10_000 {
        let name = names[nth % names.len()];
        let bases = &senders[name];
        let base = &bases[draw.below(bases.len())];
        let read = if name.starts_with("orders ") {
            order(&another_order(base, &mut draw))
        } else {
            event(&another_event(base, &mut draw))
        };
        let usual = usual.entry(name).or_default();
        if let Some(news) = usual.news(&read.noted, NOW) {
            assert_eq!(news.changes, [], "{name}");
            usual.learn(&news, NOW);
        }
    }
    assert!(usual.values().all(|it| !it.always.is_empty()));
}
