//! The service reads the sample bodies like real ones.

use std::collections::HashSet;

use domain::order::{FinancialStatus, FulfillmentStatus, Order};
use sandbox::sample::{payment, payment_types, shop, storefront, storefront_topics};
use serde_json::{Value, json};

const NOW: i64 = 1_795_168_800_000;
const SEEDS: [u64; 8] = [0, 1, 2, 3, 7, 99, 1_000_003, u64::MAX];

fn order(topic: &str, seed: u64) -> Order {
    let body = storefront(topic, seed, NOW).expect("a topic");
    Order::read(body.as_bytes()).expect("an order")
}

fn privacy(topic: &str, seed: u64) -> Value {
    let body = storefront(topic, seed, NOW).expect("a topic");
    serde_json::from_str(&body).expect("JSON")
}

fn event(event_type: &str, seed: u64) -> Value {
    let body = payment(event_type, seed, NOW).expect("a type");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn every_topic_and_type_has_a_body_and_no_other_has() {
    for seed in SEEDS {
        assert!(
            storefront_topics()
                .iter()
                .all(|topic| storefront(topic, seed, NOW).is_some())
        );
        assert!(
            payment_types()
                .iter()
                .all(|event_type| payment(event_type, seed, NOW).is_some())
        );
    }
    assert_eq!(storefront("orders/edited", 7, NOW), None);
    assert_eq!(payment("charge.failed", 7, NOW), None);
}

#[test]
fn the_seed_and_the_time_decide_every_byte() {
    for topic in storefront_topics() {
        assert_eq!(storefront(topic, 7, NOW), storefront(topic, 7, NOW));
    }
    for event_type in payment_types() {
        assert_eq!(payment(event_type, 7, NOW), payment(event_type, 7, NOW));
        assert_ne!(payment(event_type, 7, NOW), payment(event_type, 8, NOW));
    }
}

#[test]
fn an_order_is_the_same_in_every_topic_and_moves_forward_in_time() {
    for seed in SEEDS {
        let topics = storefront_topics();
        let orders = topics[..5].iter().map(|topic| order(topic, seed));
        let orders: Vec<Order> = orders.collect();
        let first = &orders[0];
        assert!(first.id > 1 << 31);
        assert_eq!(first.created_at, first.updated_at);
        for later in &orders[1..] {
            assert_eq!(later.id, first.id);
            assert_eq!(later.name, first.name);
            assert_eq!(later.customer, first.customer);
            assert_eq!(later.shipping_address, first.shipping_address);
            assert_eq!(later.total, first.total);
            assert_eq!(later.created_at, first.created_at);
            let ids = |order: &Order| order.lines.iter().map(|line| line.id).collect::<Vec<_>>();
            assert_eq!(ids(later), ids(first));
        }
        assert!(orders.is_sorted_by(|one, next| one.updated_at < next.updated_at));
        assert!(orders.iter().all(|order| order.updated_at <= Some(NOW)));
    }
}

#[test]
fn each_order_topic_shows_its_state() {
    for seed in SEEDS {
        let created = order("orders/create", seed);
        assert_eq!(created.financial_status, Some(FinancialStatus::Pending));
        assert_eq!(created.fulfillment_status, None);
        assert_eq!(created.cancelled_at, None);
        assert!(created.fulfillments.is_empty() && created.refunds.is_empty());

        let paid = order("orders/paid", seed);
        assert_eq!(paid.financial_status, Some(FinancialStatus::Paid));

        let fulfilled = order("orders/fulfilled", seed);
        assert_eq!(
            fulfilled.fulfillment_status,
            Some(FulfillmentStatus::Fulfilled)
        );
        let tracking = &fulfilled.fulfillments[0].tracking;
        assert_eq!(tracking.len(), 1);
        assert!(
            tracking[0]
                .url
                .as_ref()
                .expect("a link")
                .ends_with(&tracking[0].number)
        );

        let cancelled = order("orders/cancelled", seed);
        assert_eq!(cancelled.financial_status, Some(FinancialStatus::Refunded));
        assert_eq!(cancelled.cancelled_at, cancelled.updated_at);
        let refund = &cancelled.refunds[0];
        assert_eq!(refund.transactions[0].amount, cancelled.total);
        let refunded: Vec<_> = refund
            .lines
            .iter()
            .map(|line| (line.line_id, line.quantity))
            .collect();
        let bought: Vec<_> = cancelled
            .lines
            .iter()
            .map(|line| (line.id, line.units()))
            .collect();
        assert_eq!(refunded, bought);
        assert!(refund.lines.iter().all(|line| line.subtotal.is_some()));
    }
}

#[test]
fn an_order_adds_up() {
    for seed in 0..200 {
        let order = order("orders/create", seed);
        let minor = |price: &str| price.replace('.', "").parse::<i64>().expect("two decimals");
        let lines = order.lines.iter();
        let lines = lines.map(|line| minor(line.price.as_deref().expect("a price")) * line.units());
        let subtotal = order.subtotal.expect("a subtotal").minor;
        assert_eq!(lines.sum::<i64>(), subtotal);
        let shipping =
            order.total.expect("a total").minor - subtotal - order.tax.expect("a tax").minor;
        assert!((0..1000).contains(&shipping), "{shipping}");
    }
}

#[test]
fn privacy_bodies_are_about_the_customer_of_the_order() {
    for seed in SEEDS {
        let order = order("orders/create", seed);
        let customer = order.customer.expect("a customer");
        let known = json!({"id": customer.id, "email": customer.email, "phone": customer.phone});
        let request = privacy("customers/data_request", seed);
        assert_eq!(request["customer"], known);
        assert_eq!(request["orders_requested"], json!([order.id]));
        let redaction = privacy("customers/redact", seed);
        assert_eq!(redaction["customer"], known);
        assert_eq!(redaction["orders_to_redact"], json!([order.id]));
        let gone = privacy("shop/redact", seed);
        assert_eq!(gone["shop_domain"], shop());
        assert_eq!(gone["shop_id"], redaction["shop_id"]);
        assert_eq!(gone.get("customer"), None);
    }
}

#[test]
fn the_payment_of_a_seed_is_the_payment_of_its_order() {
    for seed in SEEDS {
        let order = order("orders/create", seed);
        let total = order.total.expect("a total");
        let paid = &event("payment_intent.succeeded", seed)["data"]["object"];
        assert_eq!(paid["amount"], total.minor);
        assert_eq!(paid["amount_received"], total.minor);
        assert_eq!(paid["currency"], total.currency.as_str().to_lowercase());
        assert_eq!(paid["receipt_email"].as_str(), order.email.as_deref());
        let agreement = paid["metadata"]["pact_id"].as_str().expect("an agreement");
        assert!(agreement.starts_with("pact_"));

        for other in ["payment_intent.payment_failed", "payment_intent.canceled"] {
            let other = &event(other, seed)["data"]["object"];
            assert_eq!(other["id"], paid["id"]);
            assert_eq!(other["amount_received"], 0);
        }
        for other in ["charge.refunded", "checkout.session.completed"] {
            let other = &event(other, seed)["data"]["object"];
            assert_eq!(other["payment_intent"], paid["id"]);
            assert_eq!(other["metadata"], paid["metadata"]);
        }
        let invoice = &event("invoice.payment_succeeded", seed)["data"]["object"];
        assert_eq!(invoice["customer"], paid["customer"]);
        let end = invoice["lines"]["data"][0]["period"]["end"]
            .as_i64()
            .expect("an end");
        assert!(end > NOW / 1000);
    }
}

#[test]
fn every_event_has_its_own_id_and_pretty_body() {
    let mut ids = HashSet::new();
    for seed in 0..500 {
        for event_type in payment_types() {
            let body = payment(event_type, seed, NOW).expect("a type");
            assert!(body.starts_with("{\n  \""));
            let event: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(event["type"], event_type);
            assert_eq!(event["object"], "event");
            assert_eq!(event["created"], NOW / 1000);
            assert!(ids.insert(event["id"].as_str().expect("an id").to_owned()));
        }
    }
    assert!(
        ids.iter()
            .all(|id| id.starts_with("evt_") && id.len() == 28)
    );
}

#[test]
fn orders_of_different_seeds_share_no_id() {
    let mut ids = HashSet::new();
    for seed in 0..500 {
        let order = order("orders/cancelled", seed);
        assert!(ids.insert(order.id));
        assert!(
            ids.insert(
                order
                    .customer
                    .and_then(|customer| customer.id)
                    .expect("an id")
            )
        );
        assert!(order.lines.iter().all(|line| ids.insert(line.id)));
        assert!(order.refunds.iter().all(|refund| ids.insert(refund.id)));
        assert!(
            order
                .refunds
                .iter()
                .flat_map(|refund| &refund.lines)
                .all(|line| ids.insert(line.id))
        );
    }
}

#[test]
fn a_body_is_as_large_as_a_small_real_one() {
    for topic in &storefront_topics()[..5] {
        for seed in SEEDS {
            let length = storefront(topic, seed, NOW).expect("a topic").len();
            assert!((1300..3600).contains(&length), "{topic}: {length}");
        }
    }
}

#[test]
fn nobody_in_a_body_exists() {
    for seed in 0..50 {
        let customer = order("orders/create", seed).customer.expect("a customer");
        let email = customer.email.expect("an e-mail");
        assert!(email.ends_with("@example.com") || email.ends_with("@example.org"));
        assert!(customer.phone.expect("a phone").starts_with("+120255501"));
    }
}
