//! Each agreement has one order, whichever comes first of the storefront's order, the payment, the
//! checkout session, refunds and cancellations, with any amounts and in one cycle or several.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::order::record::Record as Order;
use serde_json::{Value, json};
use store::orders::checkout_key;

use crate::support::delivery::{Delivery, SHOP};
use crate::support::operator::{items as listed_by, said};
use crate::support::order::{
    body, cancelled, deliver, deliver_in_step, events as order_events, kinds as order_kinds,
    naming_agreement, order_delivery, shown, times, with,
};
use crate::support::payment::{balances, charge, event, intent, session};
use crate::support::records::change_orders;
use crate::support::{Options, Service, eventually, service};

const SUCCEEDED: &str = "payment_intent.succeeded";
const COMPLETED: &str = "checkout.session.completed";
const REFUNDED: &str = "charge.refunded";

/// A service in which what a session sold waits an hour for the storefront's order.
fn waiting() -> Options {
    let hour = "3600";
    service()
        .manual_clock()
        .setting("CHECKOUT_ORDER_WAIT_SECONDS", hour)
}

fn order_of(id: i64, agreement: &str) -> Delivery {
    order_delivery(
        "orders/create",
        &with(body(id, 0, "pending"), &naming_agreement(agreement)),
    )
}

fn paid(service: &Service, id: &str, cents: i64, agreement: &str) -> Delivery {
    let intent = intent(id, "succeeded", cents, Some(agreement));
    event(service, SUCCEEDED, 1, &intent)
}

fn paid_cycle(service: &Service, id: &str, cents: i64, agreement: &str, cycle: &str) -> Delivery {
    let mut intent = intent(id, "succeeded", cents, Some(agreement));
    intent["metadata"]["fulfillment_cycle"] = json!(cycle);
    intent["metadata"]["type"] = json!("subscription_box");
    intent["transfer_group"] = json!("group_7");
    event(service, SUCCEEDED, 1, &intent)
}

/// A paid session of an agreement, whose page added tax or took off a discount.
fn bought(service: &Service, nth: i64, cents: i64, agreement: &str, details: &Value) -> Delivery {
    let mut fields = json!({
        "payment_intent": format!("pi_{nth}"), "metadata": {"pact_id": agreement},
    });
    let more = details.as_object().unwrap().clone();
    fields.as_object_mut().unwrap().extend(more);
    let bought = session(&format!("cs_{nth}"), "paid", cents, &fields);
    event(service, COMPLETED, 1, &bought)
}

/// Requests of fulfilment by order and cycle.
async fn requests(service: &Service) -> BTreeMap<(String, String), usize> {
    let rows = service
        .db()
        .query(
            "select object_id, body from events where kind = 'order.fulfillment_requested'
             order by position",
        )
        .fetch_all()
        .await
        .unwrap();
    let mut requests = BTreeMap::new();
    for row in rows {
        let body: String = row.get("body").unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        let cycle = body["cycle"].as_str().unwrap().to_owned();
        *requests
            .entry((row.get("object_id").unwrap(), cycle))
            .or_default() += 1;
    }
    requests
}

fn once(of: &[(i64, &str)]) -> BTreeMap<(String, String), usize> {
    of.iter()
        .map(|(id, cycle)| ((id.to_string(), (*cycle).to_owned()), 1))
        .collect()
}

pub fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    match items {
        [] => vec![Vec::new()],
        _ => (0..items.len())
            .flat_map(|first| {
                let mut rest = items.to_vec();
                let item = rest.remove(first);
                permutations(&rest).into_iter().map(move |mut others| {
                    others.insert(0, item.clone());
                    others
                })
            })
            .collect(),
    }
}

#[tokio::test]
async fn tax_and_discounts_of_the_payment_page_make_no_second_order() {
    let tax = json!({
        "amount_subtotal": 3000, "total_details":
            {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 248},
    });
    let discount = json!({
        "amount_subtotal": 3000, "total_details":
            {"amount_discount": 500, "amount_shipping": 0, "amount_tax": 0},
    });
    for (cents, details) in [
        (3248, &tax),
        (3248, &json!({})),
        (3000, &json!({})),
        (2500, &discount),
    ] {
        let service = waiting().start().await;
        let key = service.api_key().await;
        let histories: Vec<Vec<Delivery>> = (1..)
            .zip(permutations(&[0, 1, 2]))
            .map(|(nth, order)| {
                let agreement = format!("p{nth}");
                let deliveries = [
                    order_of(nth, &agreement),
                    paid(&service, &format!("pi_{nth}"), cents, &agreement),
                    bought(&service, nth, cents, &agreement, details),
                ];
                order.iter().map(|at| deliveries[*at].clone()).collect()
            })
            .collect();
        deliver_in_step(&service, &histories).await;
        let mut ends = Vec::new();
        for nth in 1..=6 {
            let order = shown(&service, &key, SHOP, nth).await;
            ends.push(json!([
                order["financial_status"],
                order["fulfillment"]["state"],
                order["payment_status"],
            ]));
        }
        assert!(
            ends.iter()
                .all(|end| *end == json!(["paid", "requested", "paid"])),
            "{cents}: {ends:?}"
        );
        let all: Vec<(i64, &str)> = (1..=6).map(|nth| (nth, "1")).collect();
        assert_eq!(requests(&service).await, once(&all), "{cents}");
        // Nothing is requested for those that sessions made, however long nobody looks.
        service.clock().advance(Duration::from_hours(2));
        service.settled().await;
        assert_eq!(requests(&service).await, once(&all), "{cents}");
        let open =
            "select count(*) as n from orders where shop = 'checkout' and cancelled_at is null";
        assert_eq!(service.count(open).await, 0);
        balances(service.db()).await;
        service.stop().await;
    }
}

#[tokio::test]
async fn what_a_session_sold_is_requested_after_the_wait_and_not_again_by_the_storefronts_order() {
    let service = waiting().start().await;
    let key = service.api_key().await;
    deliver(&service, &bought(&service, 1, 3000, "p1", &json!({}))).await;
    deliver(&service, &paid(&service, "pi_1", 3000, "p1")).await;
    let (shop, id) = checkout_key("p1");
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(order["fulfillment"]["state"], "initiated");
    assert_eq!(
        order["fulfillment"]["waits_until"],
        "2027-01-15T09:00:00.000Z"
    );
    service.clock().advance(Duration::from_secs(3601));
    service.settled().await;
    eventually("it is requested", async || {
        requests(&service).await == once(&[(id, "1")])
    })
    .await;
    // A day later the storefront's order comes: it takes over what was requested.
    service.clock().advance(Duration::from_hours(24));
    deliver(&service, &order_of(7, "p1")).await;
    let own = shown(&service, &key, SHOP, 7).await;
    assert_eq!(own["financial_status"], "paid");
    assert_eq!(own["fulfillment"]["state"], "requested");
    assert_eq!(requests(&service).await, once(&[(id, "1")]));
    // Whoever has the link of the one sees the other.
    let page = service.get(&format!("/orders/{id}/track")).send().await;
    let page = page.unwrap().text().await.unwrap();
    assert!(page.contains("#7") && page.contains("Preparing"), "{page}");
    let closed = order_events(service.db(), &shop, id).await;
    let (kind, body) = closed.last().unwrap();
    assert_eq!(kind, "order.superseded");
    assert_eq!(body["by_shop"], SHOP);
    assert_eq!(body["by_order_id"], "7");
    let kinds = order_kinds(service.db(), &shop, id).await;
    assert_eq!(times(&kinds, "order.cancelled"), 0);
    assert_eq!(times(&kinds, "order.fulfillment_cancelled"), 0);
    // Cancelled at the storefront, what was requested is called off, and given back once.
    deliver(
        &service,
        &order_delivery(
            "orders/cancelled",
            &with(cancelled(7, 9, "pending"), &naming_agreement("p1")),
        ),
    )
    .await;
    let kinds = order_kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.fulfillment_cancelled"), 1);
    assert_eq!(times(&kinds, "order.refund_requested"), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_session_pays_for_the_order_when_the_payments_own_event_never_comes() {
    for session_first in [true, false] {
        let service = waiting().start().await;
        let key = service.api_key().await;
        let mut steps = [
            bought(&service, 1, 3000, "p1", &json!({})),
            order_of(1, "p1"),
        ];
        if !session_first {
            steps.reverse();
        }
        for step in &steps {
            deliver(&service, step).await;
        }
        let order = shown(&service, &key, SHOP, 1).await;
        assert_eq!(
            order["fulfillment"]["state"], "requested",
            "{session_first}"
        );
        assert_eq!(requests(&service).await, once(&[(1, "1")]));
        // It went back in full, as the charge says.
        deliver(
            &service,
            &event(&service, REFUNDED, 2, &charge("pi_1", 3000, 3000)),
        )
        .await;
        let order = shown(&service, &key, SHOP, 1).await;
        assert_eq!(order["payment_status"], "refunded");
        assert_eq!(order["fulfillment"]["state"], "cancelled");
        service.stop().await;
    }
}

#[tokio::test]
async fn each_cycle_of_an_agreement_is_a_fulfilment_of_its_own() {
    let service = waiting().start().await;
    let key = service.api_key().await;
    deliver(&service, &order_of(1, "p1")).await;
    for cycle in ["1", "2", "3"] {
        let pi = format!("pi_{cycle}");
        for _ in 0..2 {
            deliver(&service, &paid_cycle(&service, &pi, 3000, "p1", cycle)).await;
        }
    }
    assert_eq!(
        requests(&service).await,
        once(&[(1, "1"), (1, "2"), (1, "3")])
    );
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["fulfillment"]["state"], "requested");
    let cycles = order["fulfillment"]["cycles"].as_array().unwrap();
    let states: Vec<_> = cycles
        .iter()
        .map(|it| (it["cycle"].as_str().unwrap(), it["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("2", "requested"), ("3", "requested")]);
    let payment = store::payments::find(service.db(), "pi_2")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(payment.fulfillment_cycle.as_deref(), Some("2"));
    assert_eq!(payment.payment_type.as_deref(), Some("subscription_box"));
    assert_eq!(payment.transfer_group.as_deref(), Some("group_7"));
    // One cycle goes back: that one alone is called off.
    deliver(
        &service,
        &event(&service, REFUNDED, 2, &charge("pi_2", 3000, 3000)),
    )
    .await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["fulfillment"]["state"], "requested");
    assert_eq!(order["fulfillment"]["cycles"][0]["state"], "cancelled");
    assert_eq!(order["fulfillment"]["cycles"][1]["state"], "requested");
    let reported_of = order_events(service.db(), SHOP, 1).await;
    let called_off: Vec<_> = reported_of
        .iter()
        .filter(|(kind, _)| kind == "order.fulfillment_cancelled")
        .map(|(_, body)| body["cycle"].clone())
        .collect();
    assert_eq!(called_off, [json!("2")]);
    balances(service.db()).await;
    service.stop().await;
}

#[tokio::test]
async fn a_cancelled_order_gives_back_every_cycle_that_was_paid() {
    let (service, sandbox) = {
        let sandbox = sandbox::Sandbox::start(sandbox::Options::default())
            .await
            .unwrap();
        let service = waiting()
            .setting("PAYMENT_API_URL", &sandbox.payment_url())
            .setting("PAYMENT_API_KEY", sandbox::PAYMENT_KEY)
            .start()
            .await;
        (service, sandbox)
    };
    deliver(&service, &order_of(1, "p1")).await;
    for cycle in ["1", "2"] {
        let pi = format!("pi_{cycle}");
        deliver(&service, &paid_cycle(&service, &pi, 3000, "p1", cycle)).await;
    }
    let end = with(cancelled(1, 9, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/cancelled", &end)).await;
    let asked = order_events(service.db(), SHOP, 1).await;
    let asked: Vec<_> = asked
        .iter()
        .filter(|(kind, _)| kind == "order.refund_requested")
        .map(|(_, body)| (body["payment_id"].clone(), body["automatic"].clone()))
        .collect();
    assert_eq!(
        asked,
        [(json!("pi_1"), json!(true)), (json!("pi_2"), json!(true))]
    );
    let kinds = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&kinds, "order.fulfillment_cancelled"), 2);
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn a_canceled_payment_cancels_no_order_that_has_money_or_is_authorized() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    for (id, status) in [(1, "partially_paid"), (2, "authorized")] {
        for canceled_first in [true, false] {
            let id = id + if canceled_first { 10 } else { 0 };
            let agreement = format!("p{id}");
            let order = with(body(id, 1, status), &naming_agreement(&agreement));
            let intent = intent(&format!("pi_{id}"), "canceled", 1000, Some(&agreement));
            let canceled = event(&service, "payment_intent.canceled", 1, &intent);
            let mut steps = [order_delivery("orders/create", &order), canceled];
            if canceled_first {
                steps.reverse();
            }
            for step in &steps {
                deliver(&service, step).await;
            }
            let shown = shown(&service, &key, SHOP, id).await;
            assert_eq!(
                shown["cancelled_at"],
                Value::Null,
                "{status} {canceled_first}"
            );
            assert_eq!(shown["fulfillment"]["state"], "initiated");
            assert_eq!(shown["financial_status"], status);
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn what_the_storefront_gave_back_itself_is_not_owed_again() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    let refund = |cents: &str| {
        json!({"refunds": [{"id": 9, "transactions": [
            {"id": 1, "kind": "refund", "status": "success", "amount": cents}]}]})
    };
    for (id, back, state, amount) in [
        (1, "30.00", "already_refunded", "30.00"),
        (2, "12.00", "recorded", "18.00"),
    ] {
        let order = with(cancelled(id, 9, "partially_refunded"), &refund(back));
        deliver(&service, &order_delivery("orders/cancelled", &order)).await;
        let order = shown(&service, &key, SHOP, id).await;
        assert_eq!(order["refunds"][0]["state"], state);
        assert_eq!(order["refunds"][0]["amount"], amount);
    }
    let kinds = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&kinds, "order.refund_recorded"), 0);
    // The same when the refund is reported later.
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(3, 9, "paid")),
    )
    .await;
    let order = with(cancelled(3, 10, "refunded"), &refund("30.00"));
    deliver(&service, &order_delivery("orders/updated", &order)).await;
    let order = shown(&service, &key, SHOP, 3).await;
    assert_eq!(order["refunds"][0]["state"], "already_refunded");
    let owed: Vec<_> = order_events(service.db(), SHOP, 3)
        .await
        .into_iter()
        .filter(|(kind, _)| kind == "order.refund_recorded")
        .map(|(_, body)| body["amount"].clone())
        .collect();
    assert_eq!(owed, [json!("30.00"), json!("0.00")]);
    service.stop().await;
}

#[tokio::test]
async fn what_is_left_of_a_payment_is_released_and_nothing_of_one_that_went_back() {
    let service = service().manual_clock().start().await;
    for (nth, back, released) in [
        (1, 3000, None),
        (2, 1000, Some("20.00")),
        (3, 0, Some("30.00")),
    ] {
        let (pi, agreement) = (format!("pi_{nth}"), format!("p{nth}"));
        if back > 0 {
            let charge = charge(&pi, 3000, back);
            deliver(&service, &event(&service, REFUNDED, 2, &charge)).await;
        }
        deliver(&service, &paid(&service, &pi, 3000, &agreement)).await;
        let reported = crate::support::payment::events(service.db(), &pi).await;
        let reported: Vec<_> = reported
            .iter()
            .filter(|(kind, _)| kind == "payment.funds_released")
            .map(|(_, body)| body["amount"].as_str().unwrap())
            .collect();
        assert_eq!(reported, released.into_iter().collect::<Vec<_>>(), "{back}");
    }
    balances(service.db()).await;
    service.stop().await;
}

#[tokio::test]
async fn a_shipment_that_was_called_off_is_requested_again_and_comes_back_into_stock() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    let all = crate::support::order::fulfilment(9, &["T-1"], &[(1, 2), (2, 1)]);
    let mut called_off = all.clone();
    called_off["status"] = json!("cancelled");
    let shipped = with(
        body(1, 2, "paid"),
        &json!({"fulfillment_status": "fulfilled", "fulfillments": [all]}),
    );
    let off = json!({"fulfillments": [called_off]});
    deliver(
        &service,
        &order_delivery("orders/paid", &body(1, 1, "paid")),
    )
    .await;
    deliver(&service, &order_delivery("orders/fulfilled", &shipped)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["fulfillment"]["state"], "fulfilled");
    deliver(
        &service,
        &order_delivery("orders/updated", &with(body(1, 3, "paid"), &off)),
    )
    .await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["fulfillment"]["state"], "requested");
    let asked: Vec<_> = order_events(service.db(), SHOP, 1)
        .await
        .into_iter()
        .filter(|(kind, _)| kind == "order.fulfillment_requested")
        .map(|(_, body)| body["lines"].as_array().unwrap().len())
        .collect();
    assert_eq!(
        asked,
        [2, 2],
        "once when it was paid, once more when it came to nothing"
    );
    let end = with(cancelled(1, 4, "paid"), &off);
    deliver(&service, &order_delivery("orders/cancelled", &end)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(
        order["restocked"],
        json!([{"line_id": 1, "quantity": 2}, {"line_id": 2, "quantity": 1}])
    );
    service.stop().await;
}

/// The session of a subscription, and the event of an invoice of it.
fn subscribed(service: &Service, nth: i64, status: &str, fields: &Value) -> Delivery {
    let mut link = json!({
        "mode": "subscription", "subscription": format!("sub_{nth}"),
        "invoice": format!("in_{nth}"),
    });
    let more = fields.as_object().unwrap().clone();
    link.as_object_mut().unwrap().extend(more);
    let bought = session(&format!("cs_{nth}"), status, 0, &link);
    event(service, COMPLETED, 1, &bought)
}

#[tokio::test]
async fn the_order_of_a_subscription_is_paid_by_its_invoice_and_refunded_with_it() {
    let service = waiting().start().await;
    let key = service.api_key().await;
    let state = async |nth: i64| {
        let (shop, id) = checkout_key(&format!("cs_{nth}"));
        shown(&service, &key, &shop, id).await["financial_status"].clone()
    };
    let invoice_paid = |nth: i64, cents: i64| {
        let invoice = crate::support::payment::invoice(
            &format!("in_{nth}_later"),
            &format!("sub_{nth}"),
            cents,
            30,
        );
        event(&service, "invoice.payment_succeeded", 2, &invoice)
    };
    // A trial is not paid for until the first invoice after it is.
    let trial = json!({"amount_subtotal": 0});
    deliver(
        &service,
        &subscribed(&service, 1, "no_payment_required", &trial),
    )
    .await;
    assert_eq!(state(1).await, "pending");
    deliver(&service, &invoice_paid(1, 900)).await;
    assert_eq!(state(1).await, "paid");
    // The same when the invoice is reported first.
    deliver(&service, &invoice_paid(2, 900)).await;
    deliver(
        &service,
        &subscribed(&service, 2, "no_payment_required", &trial),
    )
    .await;
    assert_eq!(state(2).await, "paid");
    // A discount of all of it leaves nothing to be paid.
    let coupon = json!({"amount_subtotal": 900, "total_details":
        {"amount_discount": 900, "amount_shipping": 0, "amount_tax": 0}});
    deliver(
        &service,
        &subscribed(&service, 3, "no_payment_required", &coupon),
    )
    .await;
    assert_eq!(state(3).await, "paid");
    // The first invoice's payment goes back, in whichever order things are reported.
    for (nth, refund_first) in [(4, false), (5, true)] {
        let link = json!({"amount_total": 900});
        let mut charge = charge(&format!("pi_{nth}"), 900, 900);
        charge["invoice"] = json!(format!("in_{nth}"));
        let mut steps = [
            subscribed(&service, nth, "paid", &link),
            event(&service, REFUNDED, 3, &charge),
        ];
        if refund_first {
            steps.reverse();
        }
        for step in &steps {
            deliver(&service, step).await;
        }
        assert_eq!(state(nth).await, "refunded", "{refund_first}");
    }
    // In bodies of the later generation, only the invoice can name its payment.
    let link = json!({"amount_total": 900, "invoice": null});
    deliver(&service, &subscribed(&service, 6, "paid", &link)).await;
    let mut invoice = crate::support::payment::invoice("in_6", "sub_6", 900, 30);
    invoice["billing_reason"] = json!("subscription_create");
    invoice["payment_intent"] = json!("pi_6");
    deliver(
        &service,
        &event(&service, "invoice.payment_succeeded", 2, &invoice),
    )
    .await;
    let back = charge("pi_6", 900, 900);
    deliver(&service, &event(&service, REFUNDED, 3, &back)).await;
    assert_eq!(state(6).await, "refunded");
    service.stop().await;
}

#[tokio::test]
async fn what_cannot_be_decided_is_held_and_listed() {
    let service = service().manual_clock().start().await;
    let held = async || {
        let held = listed_by(&service, &["orders", "held"]).await;
        let list = held.as_array().unwrap().clone();
        list.into_iter()
            .map(|it| {
                (
                    it["order_id"].clone(),
                    it["reason"].clone(),
                    it["amount"].clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(held().await, []);
    // Two orders claim one agreement that was paid for.
    deliver(&service, &order_of(1, "p1")).await;
    deliver(&service, &order_of(2, "p1")).await;
    assert_eq!(held().await, [], "nobody has paid");
    deliver(&service, &paid(&service, "pi_1", 3000, "p1")).await;
    // One was paid in part, and one is to be given back by people.
    deliver(&service, &order_of(3, "p3")).await;
    deliver(&service, &paid(&service, "pi_3", 1000, "p3")).await;
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(4, 9, "paid")),
    )
    .await;
    let mut listed = held().await;
    listed.sort_by_key(|(id, ..)| id.to_string());
    let twice = json!("agreement_claimed_twice");
    assert_eq!(
        listed,
        [
            (json!("1"), twice.clone(), json!("30.00")),
            (json!("2"), twice, json!("30.00")),
            (json!("3"), json!("paid_in_part"), json!("30.00")),
            (json!("4"), json!("refund_is_yours"), json!("30.00")),
        ]
    );
    assert_eq!(
        requests(&service).await,
        BTreeMap::new(),
        "nothing is guessed"
    );
    // The other order turns out to be of another agreement: the payment is the first's.
    let other = with(body(2, 5, "pending"), &naming_agreement("p2"));
    deliver(&service, &order_delivery("orders/updated", &other)).await;
    service.settled().await;
    assert_eq!(requests(&service).await, once(&[(1, "1")]));
    let said = said(&service, &["orders", "held"]).await;
    assert!(
        !said.contains("claimed_twice") && said.contains("paid_in_part"),
        "{said}"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_wait_that_ends_in_doubt_begins_anew_and_ends_with_the_doubt() {
    let service = waiting().start().await;
    for id in [1, 2] {
        deliver(&service, &order_of(id, &format!("other-{id}"))).await;
    }
    deliver(&service, &bought(&service, 1, 3000, "p1", &json!({}))).await;
    // As when both come at once, so that neither can take the place of the session's.
    let all = "orders where shop <> 'checkout'";
    let claim = |agreement: Option<&'static str>| {
        move |order: &mut Order| order.agreement.value = agreement.map(ToOwned::to_owned)
    };
    change_orders(service.db(), all, claim(Some("p1"))).await;
    service.clock().advance(Duration::from_secs(3601));
    let ended = "select count(*) as n from jobs
                 where kind = 'payments/end_wait' and state = 'done'";
    eventually("the wait is over", async || service.count(ended).await == 1).await;
    service.settled().await;
    assert_eq!(requests(&service).await, BTreeMap::new());
    assert_eq!(service.scheduled().await, 1, "it has begun anew");
    change_orders(service.db(), all, claim(None)).await;
    service.clock().advance(Duration::from_secs(3601));
    let (_, id) = checkout_key("p1");
    eventually("it is requested", async || {
        requests(&service).await == once(&[(id, "1")])
    })
    .await;
    service.stop().await;
}
