//! What shops and providers report of one purchase, drawn by a seed from deposits, edits, exchanges, gift cards, terms,
//! other currencies, second payments, refunds that fail, disputes, test orders and payments of somebody else, ends the
//! same in whatever sequence and however often it is delivered, and never with more than there is.

use std::collections::BTreeMap;

use domain::job::State;
use serde_json::{Value, json};
use store::ledger;
use store::orders::checkout_key;

use super::topics::{cut_to, snapshot_of};
use crate::support::delivery::{Delivery, payment_at};
use crate::support::order::{at, deliver_in_step, events, order_delivery};
use crate::support::payment::{CREATED, charge, intent, session};
use crate::support::{Service, service};

const PURCHASES: u64 = 150;
/// The first of them has each delivery once.
const SEQUENCES: u64 = 4;

/// One purchase in one sequence of its deliveries.
struct History {
    purchase: u64,
    shop: String,
    id: i64,
    deliveries: Vec<Delivery>,
}

impl History {
    fn of(service: &Service, purchase: u64, sequence: u64) -> Self {
        let id = i64::try_from(700_000 + purchase * SEQUENCES + sequence).unwrap();
        let shop = format!("shop-{id}.example");
        // The same facts for each sequence.
        let mut facts = facts(id);
        sandbox::storm::shuffle(&mut facts, purchase);
        facts.truncate(3 + usize::try_from(purchase % 6).unwrap());
        facts.push(Fact::Order(order(id, 1, "pending", &json!({}))));
        let mut deliveries: Vec<Delivery> = facts
            .iter()
            .flat_map(|fact| {
                let times = if sequence == 0 { 1 } else { 2 };
                (0..times).map(|time| fact.delivery(service, &shop, time))
            })
            .collect();
        sandbox::storm::shuffle(&mut deliveries, sequence * PURCHASES + purchase);
        History {
            purchase,
            shop,
            id,
            deliveries,
        }
    }
}

enum Fact {
    Order(Value),
    /// The type of an event, seconds into the payment's life, its object, and members of the event itself.
    Event(&'static str, i64, Value, Value),
}

impl Fact {
    fn delivery(&self, service: &Service, shop: &str, time: u32) -> Delivery {
        match self {
            Fact::Order(body) => {
                let second = body["updated_at"].as_str().unwrap();
                order_delivery("orders/updated", body)
                    .of_shop(shop)
                    .id(&format!("{shop} {second} {time}"))
            }
            Fact::Event(kind, nth, object, fields) => {
                let id = object["id"].as_str().unwrap();
                let mut body = json!({
                    "id": format!("evt_{kind}_{id}_{nth}_{time}"), "object": "event", "type": kind,
                    "created": CREATED + nth, "data": {"object": object},
                });
                body.as_object_mut()
                    .unwrap()
                    .extend(fields.as_object().unwrap().clone());
                payment_at(service.clock().now().unix_seconds(), body.to_string())
            }
        }
    }
}

/// A version of an order of 100.00: one unit for 60.00 and two for 20.00 each.
fn order(id: i64, second: u32, financial: &str, fields: &Value) -> Value {
    let mut body = json!({
        "id": id, "name": format!("#{id}"), "created_at": at(0), "updated_at": at(second), "currency": "USD",
        "total_price": "100.00", "financial_status": financial, "fulfillment_status": null, "cancelled_at": null,
        "line_items": [{"id": 1, "quantity": 1}, {"id": 2, "quantity": 2}],
        "note_attributes": [{"name": "pact_id", "value": format!("p-{id}")}], "fulfillments": [], "refunds": [],
    });
    body.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    body
}

/// Everything that may be reported of a purchase.
fn facts(id: i64) -> Vec<Fact> {
    let amounts = |current: &str, outstanding: &str| json!({"current_total_price": current, "total_outstanding": outstanding});
    let with = |mut fields: Value, more: Value| {
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        fields
    };
    let refund = |id: i64, amount: &str, gateway: &str, lines: Value| {
        json!({"refunds": [{"id": id, "refund_line_items": lines, "transactions": [
            {"id": id, "kind": "refund", "status": "success", "amount": amount, "gateway": gateway}]}]})
    };
    let one_back = json!([{"id": 5, "line_item_id": 2, "quantity": 1, "restock_type": "return"}]);
    let eur = json!({"total_price_set": {
        "shop_money": {"amount": "100.00", "currency_code": "USD"},
        "presentment_money": {"amount": "92.00", "currency_code": "EUR"}}});
    let shipped = |status: &str| {
        json!({"fulfillments": [{"id": 70, "status": status, "line_items": [{"id": 2, "quantity": 1}],
                                 "tracking_numbers": [format!("T-{id}")]}]})
    };
    let left = |units: i64| {
        json!({"line_items": [{"id": 1, "quantity": 1, "current_quantity": 1},
                                                  {"id": 2, "quantity": 2, "current_quantity": units}]})
    };
    let cancelled = json!({"cancelled_at": at(50), "cancel_reason": "customer"});
    let versions = [
        ("partially_paid", amounts("100.00", "60.00")),
        ("paid", amounts("100.00", "0.00")),
        (
            "partially_paid",
            with(
                amounts("100.00", "70.00"),
                json!({"payment_gateway_names": ["gift_card"]}),
            ),
        ),
        ("pending", eur),
        (
            "pending",
            with(
                amounts("100.00", "100.00"),
                json!({"payment_terms": {"payment_terms_type": "net"}}),
            ),
        ),
        (
            "pending",
            json!({"payment_gateway_names": ["Cash on Delivery (COD)"]}),
        ),
        ("paid", json!({"test": true})),
        (
            "partially_paid",
            with(
                amounts("110.00", "10.00"),
                json!({"line_items": [
            {"id": 1, "quantity": 1}, {"id": 2, "quantity": 2}, {"id": 3, "quantity": 1}]}),
            ),
        ),
        ("paid", with(amounts("60.00", "-40.00"), left(0))),
        (
            "partially_refunded",
            with(
                with(amounts("80.00", "0.00"), left(1)),
                refund(9, "20.00", "stripe", one_back),
            ),
        ),
        (
            "partially_refunded",
            with(
                amounts("90.00", "60.00"),
                refund(9, "10.00", "stripe", json!([])),
            ),
        ),
        ("paid", with(amounts("100.00", "0.00"), shipped("success"))),
        (
            "paid",
            with(amounts("100.00", "0.00"), shipped("cancelled")),
        ),
        (
            "refunded",
            with(
                amounts("0.00", "0.00"),
                refund(9, "100.00", "shopify_store_credit", json!([])),
            ),
        ),
        ("voided", amounts("100.00", "100.00")),
        ("paid", with(amounts("100.00", "0.00"), cancelled.clone())),
        (
            "partially_paid",
            with(amounts("0.00", "-40.00"), cancelled.clone()),
        ),
        ("refunded", with(amounts("0.00", "0.00"), cancelled)),
    ];
    let mut facts: Vec<Fact> = (2..)
        .zip(versions)
        .map(|(second, (financial, fields))| Fact::Order(order(id, second, financial, &fields)))
        .collect();
    let agreement = format!("p-{id}");
    let pi = |nth: i64| format!("pi_{id}_{nth}");
    let paid = |nth: i64, cents: i64| intent(&pi(nth), "succeeded", cents, Some(&agreement));
    let none = || json!({});
    let mut event = |kind: &'static str, nth: i64, object: Value, fields: Value| {
        facts.push(Fact::Event(kind, nth, object, fields));
    };
    event("payment_intent.succeeded", 1, paid(1, 10_000), none());
    event("payment_intent.succeeded", 2, paid(2, 7000), none());
    event(
        "payment_intent.succeeded",
        3,
        paid(3, 4000),
        json!({"account": "acct_of_somebody_else"}),
    );
    let mut euros = paid(4, 9200);
    euros["currency"] = json!("eur");
    event("payment_intent.succeeded", 4, euros, none());
    let mut tipped = paid(5, 10_300);
    tipped["amount_details"] = json!({"tip": {"amount": 300}});
    event("payment_intent.succeeded", 5, tipped, none());
    event(
        "payment_intent.canceled",
        6,
        intent(&pi(6), "canceled", 10_000, Some(&agreement)),
        none(),
    );
    event("charge.refunded", 7, charge(&pi(1), 10_000, 3000), none());
    event("charge.refunded", 8, charge(&pi(1), 10_000, 10_000), none());
    event("charge.refunded", 9, charge(&pi(2), 7000, 7000), none());
    let back = |status: &str| {
        json!({"id": format!("re_{id}"), "object": "refund", "payment_intent": pi(1), "charge": format!("ch_{}", pi(1)),
               "amount": 3000, "currency": "usd", "status": status})
    };
    event("refund.failed", 10, back("failed"), none());
    let dispute = |status: &str| {
        json!({"id": format!("dp_{id}"), "object": "dispute", "payment_intent": pi(1),
               "charge": format!("ch_{}", pi(1)), "amount": 10_000, "currency": "usd", "status": status,
               "reason": "fraudulent"})
    };
    event(
        "charge.dispute.created",
        11,
        dispute("needs_response"),
        none(),
    );
    event("charge.dispute.closed", 12, dispute("lost"), none());
    event("charge.dispute.closed", 13, dispute("won"), none());
    let bought = session(
        &format!("cs_{id}"),
        "paid",
        10_000,
        &json!({"payment_intent": pi(1)}),
    );
    event("checkout.session.completed", 14, bought, none());
    let page = json!({"payment_intent": pi(7), "metadata": {"pact_id": agreement}, "amount_subtotal": 10_000,
                      "total_details": {"amount_discount": 500, "amount_tax": 0, "amount_shipping": 0}});
    let bought = session(&format!("cs_{id}_2"), "paid", 9500, &page);
    event("checkout.session.completed", 15, bought, none());
    facts
}

/// What a warehouse that follows the events is to ship, by line. None where the session came before anything named its
/// agreement, so that the whole of it was asked for under another id.
async fn asked_for(service: &Service, history: &History) -> Option<BTreeMap<String, i64>> {
    let (shop, id) = checkout_key(&format!("cs_{}", history.id));
    let of_session = events(service.db(), &shop, id).await;
    if of_session
        .iter()
        .any(|(kind, _)| kind == "order.fulfillment_requested")
    {
        return None;
    }
    let mut units = BTreeMap::new();
    for (kind, body) in events(service.db(), &history.shop, history.id).await {
        let sign = match kind.as_str() {
            "order.fulfillment_requested" => 1,
            "order.fulfillment_reduced" | "order.fulfillment_cancelled" => -1,
            _ => continue,
        };
        for line in body["lines"].as_array().into_iter().flatten() {
            let id = line["line_id"].as_str().unwrap().to_owned();
            *units.entry(id).or_default() += sign * line["quantity"].as_i64().unwrap();
        }
    }
    Some(units)
}

#[tokio::test]
async fn what_is_reported_of_a_purchase_ends_the_same_in_whatever_sequence() {
    // What a session sold waits for the storefront's order.
    let service = service()
        .manual_clock()
        .setting("CHECKOUT_ORDER_WAIT_SECONDS", "3600")
        .start()
        .await;
    let key = service.api_key().await;
    let histories: Vec<History> = (0..PURCHASES)
        .flat_map(|purchase| (0..SEQUENCES).map(move |sequence| (purchase, sequence)))
        .map(|(purchase, sequence)| History::of(&service, purchase, sequence))
        .collect();
    let deliveries: Vec<Vec<Delivery>> = histories.iter().map(|it| it.deliveries.clone()).collect();
    deliver_in_step(&service, &deliveries).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let books = ledger::verify(service.db()).await.unwrap();
    assert!(
        books.is_balanced(),
        "{:?} {:?}",
        books.wrong,
        books.unbalanced
    );

    let (mut wrong, mut lines_compared) = (Vec::new(), 0);
    let mut first: Option<(u64, String)> = None;
    for history in &histories {
        let mut order = snapshot_of(&service, &key, &history.shop, history.id).await;
        // Which states it went through depends on the sequence.
        cut_to(
            &mut order["fulfillment"],
            &["state", "provider_state", "cycles"],
        );
        let asked_for = asked_for(&service, history).await;
        for line in order["line_items"].as_array().unwrap() {
            let id = line["id"].to_string().trim_matches('"').to_owned();
            let Some(asked_for) = &asked_for else { break };
            lines_compared += 1;
            let asked = asked_for.get(&id).copied().unwrap_or(0);
            let to_ship = line["to_ship"].as_i64().unwrap();
            let has_shipped = !order["shipments"].as_array().unwrap().is_empty();
            // Units whose shipment was cancelled are asked for again.
            if !has_shipped && asked != to_ship {
                let heard = events(service.db(), &history.shop, history.id).await;
                wrong.push(format!(
                    "{}: {asked} of line {id} are asked for: {order}\n{heard:?}",
                    history.id
                ));
            }
        }
        let name = history.id.to_string();
        let end = order.to_string().replace(&name, "N");
        match &first {
            Some((purchase, expected)) if *purchase == history.purchase => {
                if end != *expected {
                    wrong.push(format!("{name}:\n{expected}\n{end}"));
                }
            }
            _ => first = Some((history.purchase, end)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong[..wrong.len().min(6)].join("\n")
    );
    assert!(
        lines_compared > 1000,
        "{lines_compared} lines were compared"
    );
    service.stop().await;
}
