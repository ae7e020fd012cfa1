//! Cases that would cost somebody money: a payment that is taken twice, goods that are shipped for
//! too little, and money that is refunded twice or not at all. The tests also check what must not
//! be in events.

use std::time::Duration;

use sandbox::{Options, PAYMENT_KEY, Sandbox};
use serde_json::{Value, json};
use store::orders::checkout_key;

use crate::support::delivery::{Delivery, SHOP};
use crate::support::order::{
    body, cancelled, deliver, kinds as order_kinds, naming_agreement, order_delivery, shown, times,
    with,
};
use crate::support::payment::{charge, declined, event, intent, session};
use crate::support::{Service, eventually, service};

const SUCCEEDED: &str = "payment_intent.succeeded";
const FAILED: &str = "payment_intent.payment_failed";
const CANCELED: &str = "payment_intent.canceled";
const REFUNDED: &str = "charge.refunded";
const COMPLETED: &str = "checkout.session.completed";

/// An order of 30 dollars that waits for its payment.
async fn open_order(service: &Service, id: i64, agreement: &str) {
    let order = with(body(id, 0, "pending"), &naming_agreement(agreement));
    deliver(service, &order_delivery("orders/create", &order)).await;
}

fn paid(service: &Service, id: &str, cents: i64, agreement: Option<&str>) -> Delivery {
    event(
        service,
        SUCCEEDED,
        1,
        &intent(id, "succeeded", cents, agreement),
    )
}

fn failed(service: &Service, id: &str, nth: i64, agreement: &str, why: &str) -> Delivery {
    let attempt = u32::try_from(nth).unwrap_or(1);
    let mut intent = declined(id, 3000, attempt, why);
    intent["metadata"] = json!({"pact_id": agreement});
    event(service, FAILED, nth, &intent)
}

/// Its financial status and the state of its fulfilment.
async fn standing(service: &Service, key: &str, shop: &str, id: i64) -> (Value, Value) {
    let order = shown(service, key, shop, id).await;
    let fulfillment = order["fulfillment"]["state"].clone();
    (order["financial_status"].clone(), fulfillment)
}

fn is(financial: &str, fulfillment: &str) -> (Value, Value) {
    (json!(financial), json!(fulfillment))
}

/// A service whose payment provider is there, and asked for nothing yet.
async fn with_provider() -> (Service, Sandbox) {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = service()
        .manual_clock()
        .setting("PAYMENT_API_URL", &sandbox.payment_url())
        .setting("PAYMENT_API_KEY", PAYMENT_KEY)
        .start()
        .await;
    (service, sandbox)
}

/// Lets all retries fall due; the provider is asked for none.
async fn no_retry_is_made(service: Service, sandbox: Sandbox) {
    for _ in 0..3 {
        service.clock().advance(Duration::from_hours(25));
        eventually("what is due is done", async || {
            service.jobs(domain::job::State::Ready).await == service.scheduled().await
        })
        .await;
    }
    service.clock().advance(Duration::from_hours(25));
    service.settled().await;
    assert_eq!(service.scheduled().await, 0);
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    let stopped = "select count(*) as n from payment_retries where state <> 'stopped'";
    assert_eq!(service.count(stopped).await, 0);
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn a_payment_is_not_tried_again_when_another_one_has_paid() {
    let (service, sandbox) = with_provider().await;
    open_order(&service, 1, "p1").await;
    deliver(
        &service,
        &failed(&service, "pi_1", 1, "p1", "insufficient_funds"),
    )
    .await;
    deliver(&service, &paid(&service, "pi_2", 3000, Some("p1"))).await;
    // The same where the agreement has no order.
    deliver(
        &service,
        &failed(&service, "pi_3", 1, "p3", "insufficient_funds"),
    )
    .await;
    deliver(&service, &paid(&service, "pi_4", 3000, Some("p3"))).await;
    assert_eq!(service.scheduled().await, 6);
    no_retry_is_made(service, sandbox).await;
}

#[tokio::test]
async fn a_cycle_that_failed_is_tried_again_though_the_others_are_paid() {
    let (service, sandbox) = with_provider().await;
    open_order(&service, 1, "p1").await;
    let of_cycle = |mut intent: Value, cycle: &str| {
        intent["metadata"]["fulfillment_cycle"] = json!(cycle);
        intent
    };
    for cycle in ["1", "2"] {
        let intent = intent(&format!("pi_{cycle}"), "succeeded", 3000, Some("p1"));
        let intent = of_cycle(intent, cycle);
        deliver(&service, &event(&service, SUCCEEDED, 1, &intent)).await;
    }
    let mut failed = declined("pi_3", 3000, 1, "insufficient_funds");
    failed["metadata"]["pact_id"] = json!("p1");
    let failed = of_cycle(failed, "3");
    deliver(&service, &event(&service, FAILED, 1, &failed)).await;
    assert_eq!(service.scheduled().await, 3);
    service.clock().advance(Duration::from_mins(61));
    eventually("the provider is asked", async || {
        sandbox.payment().fault_injector.requests() > 0
    })
    .await;
    service.settled().await;
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn the_payment_of_a_cancelled_order_is_not_tried_again() {
    let (service, sandbox) = with_provider().await;
    open_order(&service, 1, "p1").await;
    deliver(
        &service,
        &failed(&service, "pi_1", 1, "p1", "insufficient_funds"),
    )
    .await;
    let gone = with(cancelled(1, 2, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    no_retry_is_made(service, sandbox).await;
}

#[tokio::test]
async fn a_card_that_is_found_stolen_later_is_not_tried_again() {
    let (service, sandbox) = with_provider().await;
    deliver(
        &service,
        &failed(&service, "pi_1", 1, "p1", "generic_decline"),
    )
    .await;
    deliver(&service, &failed(&service, "pi_1", 2, "p1", "stolen_card")).await;
    no_retry_is_made(service, sandbox).await;
}

#[tokio::test]
async fn a_failure_of_long_ago_is_neither_reported_nor_tried_again() {
    let (service, sandbox) = with_provider().await;
    let old = failed(&service, "pi_1", -60 * 86_400, "p1", "insufficient_funds");
    deliver(&service, &old).await;
    assert_eq!(service.scheduled().await, 0);
    let reported = "select count(*) as n from notifications";
    assert_eq!(service.count(reported).await, 0);
    no_retry_is_made(service, sandbox).await;
}

#[tokio::test]
async fn a_retry_that_the_provider_refuses_ends_them_and_leaves_no_dead_job() {
    let (service, sandbox) = with_provider().await;
    // The provider does not know it.
    deliver(
        &service,
        &failed(&service, "pi_1", 1, "p1", "generic_decline"),
    )
    .await;
    service.clock().advance(Duration::from_mins(61));
    let refused = "select count(*) as n from payment_retries where state = 'failed'";
    eventually("it is refused", async || service.count(refused).await == 1).await;
    service.settled().await;
    assert_eq!(service.scheduled().await, 0);
    assert_eq!(service.jobs(domain::job::State::Dead).await, 0);
    service.stop().await;
    sandbox.stop().await;
}

/// A paid session of so many cents and an order of 30 dollars, both of the agreement `p<nth>`.
async fn buy_and_order(service: &Service, nth: i64, cents: i64, session_first: bool) {
    let agreement = format!("p{nth}");
    let link = json!({"payment_intent": format!("pi_{nth}"), "metadata": {"pact_id": agreement}});
    let bought = session(&format!("cs_{nth}"), "paid", cents, &link);
    let bought = event(service, COMPLETED, 1, &bought);
    if session_first {
        deliver(service, &bought).await;
        open_order(service, nth, &agreement).await;
    } else {
        open_order(service, nth, &agreement).await;
        deliver(service, &bought).await;
    }
}

#[tokio::test]
async fn another_amount_makes_no_second_order_and_less_than_the_total_ships_nothing() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    for (nth, cents, session_first) in [
        (1, 30_000, true),
        (2, 30_000, false),
        (3, 2500, true),
        (4, 2500, false),
    ] {
        let (agreement, pi) = (format!("p{nth}"), format!("pi_{nth}"));
        buy_and_order(&service, nth, cents, session_first).await;
        deliver(&service, &paid(&service, &pi, cents, Some(&agreement))).await;
        let order = standing(&service, &key, SHOP, nth).await;
        let expected = match cents {
            30_000 => is("paid", "requested"),
            _ => is("partially_paid", "initiated"),
        };
        assert_eq!(order, expected, "{cents} {session_first}");
    }
    let open = "select count(*) as n from orders where shop = 'checkout' and cancelled_at is null";
    assert_eq!(service.count(open).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_session_hands_its_payment_over_to_the_storefronts_order() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    // The payment names no agreement, so the session alone leads to it.
    for (nth, session_first) in [(1, true), (2, false)] {
        let pi = format!("pi_{nth}");
        buy_and_order(&service, nth, 3000, session_first).await;
        deliver(&service, &paid(&service, &pi, 3000, None)).await;
        let order = standing(&service, &key, SHOP, nth).await;
        assert_eq!(order, is("paid", "requested"), "{session_first}");
        let back = charge(&pi, 3000, 1000);
        deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
        let order = standing(&service, &key, SHOP, nth).await;
        assert_eq!(
            order,
            is("partially_refunded", "requested"),
            "{session_first}"
        );
    }
    // What was called off asks for nothing back.
    let (shop, id) = checkout_key("p1");
    let placeholder = shown(&service, &key, &shop, id).await;
    assert_eq!(placeholder["cancel_reason"], "superseded");
    assert_eq!(placeholder["refunds"], json!([]));
    let reported = order_kinds(service.db(), &shop, id).await;
    assert_eq!(times(&reported, "order.refund_recorded"), 0);
    service.stop().await;
}

#[tokio::test]
async fn what_the_storefront_has_subtracted_already_does_not_pay_twice() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    // 20 of 30 dollars were paid, and the storefront says so: 10 are outstanding.
    let order = with(body(1, 0, "partially_paid"), &naming_agreement("p1"));
    let order = with(order, &json!({"total_outstanding": "10.00"}));
    deliver(&service, &paid(&service, "pi_1", 2000, Some("p1"))).await;
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let standing = standing(&service, &key, SHOP, 1).await;
    assert_eq!(standing, is("partially_paid", "initiated"));
    service.stop().await;
}

#[tokio::test]
async fn an_order_whose_payments_go_back_one_after_the_other_is_called_off_once() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    open_order(&service, 1, "p1").await;
    for pi in ["pi_a", "pi_b"] {
        deliver(&service, &paid(&service, pi, 1500, Some("p1"))).await;
    }
    let order = standing(&service, &key, SHOP, 1).await;
    assert_eq!(order, is("paid", "requested"));
    for (nth, pi) in [(2, "pi_a"), (3, "pi_b")] {
        let back = charge(pi, 1500, 1500);
        deliver(&service, &event(&service, REFUNDED, nth, &back)).await;
    }
    let order = standing(&service, &key, SHOP, 1).await;
    assert_eq!(order, is("refunded", "cancelled"));
    let reported = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&reported, "order.fulfillment_cancelled"), 1);
    // Paid anew, it is to be shipped after all.
    deliver(&service, &paid(&service, "pi_c", 3000, Some("p1"))).await;
    let reported = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&reported, "order.fulfillment_requested"), 2);
    service.stop().await;
}

#[tokio::test]
async fn an_order_whose_attributes_were_rewritten_is_still_of_its_agreement() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    open_order(&service, 1, "p1").await;
    deliver(&service, &paid(&service, "pi_a", 3000, Some("p1"))).await;
    let back = charge("pi_a", 3000, 3000);
    deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
    let gift = json!({"note_attributes": [{"name": "gift", "value": "yes"}]});
    for (second, attributes) in [(3, gift), (4, json!({"note_attributes": []}))] {
        let rewritten = with(body(1, second, "paid"), &attributes);
        deliver(&service, &order_delivery("orders/updated", &rewritten)).await;
        let order = standing(&service, &key, SHOP, 1).await;
        assert_eq!(order, is("refunded", "cancelled"), "{attributes}");
    }
    let reported = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&reported, "order.fulfillment_requested"), 1);
    service.stop().await;
}

#[tokio::test]
async fn what_a_charge_copied_does_not_move_its_payment_back() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    open_order(&service, 1, "p1").await;
    open_order(&service, 2, "p2").await;
    // The charge was made while the intent named the first order's agreement.
    let mut part = charge("pi_a", 3000, 500);
    part["metadata"] = json!({"pact_id": "p1"});
    let part = event(&service, REFUNDED, 5, &part);
    deliver(&service, &paid(&service, "pi_a", 3000, Some("p2"))).await;
    deliver(&service, &part).await;
    let order = standing(&service, &key, SHOP, 1).await;
    assert_eq!(order, is("pending", "initiated"));
    let order = standing(&service, &key, SHOP, 2).await;
    assert_eq!(order, is("partially_refunded", "requested"));
    service.stop().await;
}

#[tokio::test]
async fn money_that_went_back_pays_for_nothing() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    deliver(&service, &paid(&service, "pi_a", 3000, Some("p1"))).await;
    let back = charge("pi_a", 3000, 3000);
    deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
    deliver(&service, &paid(&service, "pi_b", 1, Some("p1"))).await;
    open_order(&service, 1, "p1").await;
    let first = standing(&service, &key, SHOP, 1).await;
    assert_eq!(first, is("partially_refunded", "initiated"));
    // Paid, given back and paid again, or paid twice and given back once: it is paid.
    for (nth, back_first) in [(2, true), (3, false)] {
        let agreement = format!("p{nth}");
        let (a, b) = (format!("pi_a{nth}"), format!("pi_b{nth}"));
        open_order(&service, nth, &agreement).await;
        deliver(&service, &paid(&service, &a, 3000, Some(&agreement))).await;
        let back = event(&service, REFUNDED, 2, &charge(&a, 3000, 3000));
        let again = paid(&service, &b, 3000, Some(&agreement));
        let steps = if back_first {
            [back, again]
        } else {
            [again, back]
        };
        for step in steps {
            deliver(&service, &step).await;
        }
        let order = standing(&service, &key, SHOP, nth).await;
        assert_eq!(order, is("partially_refunded", "requested"), "{back_first}");
    }
    service.stop().await;
}

#[tokio::test]
async fn one_payment_pays_for_one_order() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    open_order(&service, 1, "p1").await;
    open_order(&service, 2, "p2").await;
    let link = json!({"payment_intent": "pi_1", "metadata": {"pact_id": "p1"}});
    let bought = session("cs_1", "paid", 3000, &link);
    deliver(&service, &event(&service, COMPLETED, 1, &bought)).await;
    deliver(&service, &paid(&service, "pi_1", 3000, Some("p2"))).await;
    let orders = [
        standing(&service, &key, SHOP, 1).await,
        standing(&service, &key, SHOP, 2).await,
    ];
    assert_eq!(
        orders,
        [is("pending", "initiated"), is("paid", "requested")]
    );
    // It turns out to be of a third: the second no longer counts it.
    open_order(&service, 3, "p3").await;
    let moved = intent("pi_1", "succeeded", 3000, Some("p3"));
    deliver(&service, &event(&service, SUCCEEDED, 9, &moved)).await;
    let second = shown(&service, &key, SHOP, 2).await;
    assert_eq!(second["payment_status"], Value::Null);
    assert_eq!(
        standing(&service, &key, SHOP, 3).await,
        is("paid", "requested")
    );
    service.stop().await;
}

#[tokio::test]
async fn a_cancelled_order_and_a_failed_sibling_come_in_any_order() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    for (nth, canceled_first) in [(1, true), (2, false)] {
        let agreement = format!("p{nth}");
        open_order(&service, nth, &agreement).await;
        let canceled = intent(&format!("pi_c{nth}"), "canceled", 3000, Some(&agreement));
        let canceled = event(&service, CANCELED, 1, &canceled);
        let failed = failed(
            &service,
            &format!("pi_f{nth}"),
            2,
            &agreement,
            "generic_decline",
        );
        let steps = if canceled_first {
            [canceled, failed]
        } else {
            [failed, canceled]
        };
        for step in steps {
            deliver(&service, &step).await;
        }
        let changed = with(body(nth, 5, "pending"), &naming_agreement(&agreement));
        let changed = with(changed, &json!({"name": "#new"}));
        deliver(&service, &order_delivery("orders/updated", &changed)).await;
        let order = shown(&service, &key, SHOP, nth).await;
        assert_eq!(
            order["cancel_reason"], "payment_canceled",
            "{canceled_first}"
        );
        assert_eq!(
            order["fulfillment"]["state"], "cancelled",
            "{canceled_first}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn what_people_give_back_themselves_is_recorded_in_any_order() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    for (id, refunded) in [(1, 3000), (2, 3000), (3, 1000), (4, 1000)] {
        let (agreement, pi) = (format!("p{id}"), format!("pi_{id}"));
        open_order(&service, id, &agreement).await;
        deliver(&service, &paid(&service, &pi, 3000, Some(&agreement))).await;
        let gone = with(cancelled(id, 1, "paid"), &naming_agreement(&agreement));
        let gone = order_delivery("orders/cancelled", &gone);
        let back = event(&service, REFUNDED, 2, &charge(&pi, 3000, refunded));
        let steps = if id % 2 == 0 {
            [gone, back]
        } else {
            [back, gone]
        };
        for step in steps {
            deliver(&service, &step).await;
        }
        let order = shown(&service, &key, SHOP, id).await;
        let refund = &order["refunds"][0];
        let expected = if refunded == 3000 {
            json!(["already_refunded", "30.00"])
        } else {
            json!(["recorded", "20.00"])
        };
        assert_eq!(
            json!([refund["state"], refund["amount"]]),
            expected,
            "order {id}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn nothing_that_a_person_could_have_written_is_in_an_event() {
    let service = service().manual_clock().start().await;
    let link = json!({"client_reference_id": "canary@example.com"});
    let bought = session("cs_1", "paid", 3000, &link);
    deliver(&service, &event(&service, COMPLETED, 1, &bought)).await;
    let mut declined = declined("pi_1", 3000, 1, "Canary's card");
    declined["last_payment_error"]["code"] = json!("canary@example.com says no");
    deliver(&service, &event(&service, FAILED, 1, &declined)).await;
    let reported =
        "select count(*) as n from events where kind in ('checkout.completed', 'payment.failed')";
    assert_eq!(service.count(reported).await, 2);
    let found = "select count(*) as n from events where lower(body) like '%canary%'";
    assert_eq!(service.count(found).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn no_delivery_can_be_of_the_shop_that_sessions_make_orders_in() {
    let service = service().manual_clock().start().await;
    let order = order_delivery("orders/create", &body(1, 0, "paid")).of_shop("checkout");
    assert_eq!(service.answer(&order).await.0, 422);
    service.stop().await;
}

#[tokio::test]
async fn who_claims_an_agreement_later_or_by_its_name_alone_takes_nothing_from_its_order() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    // Paid and linked first; then somebody writes its agreement into an order of theirs.
    open_order(&service, 1, "p1").await;
    deliver(&service, &paid(&service, "pi_1", 3000, Some("p1"))).await;
    open_order(&service, 2, "p1").await;
    let back = charge("pi_1", 3000, 3000);
    deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
    let first = standing(&service, &key, SHOP, 1).await;
    assert_eq!(first, is("refunded", "cancelled"));
    let second = standing(&service, &key, SHOP, 2).await;
    assert_eq!(second, is("pending", "initiated"));
    // An order's id is no secret; an order whose attribute names it claims nothing beside it.
    deliver(
        &service,
        &order_delivery("orders/create", &body(42, 0, "pending")),
    )
    .await;
    open_order(&service, 43, "42").await;
    deliver(&service, &paid(&service, "pi_42", 3000, Some("42"))).await;
    let own = standing(&service, &key, SHOP, 42).await;
    assert_eq!(own, is("paid", "requested"));
    let other = standing(&service, &key, SHOP, 43).await;
    assert_eq!(other, is("pending", "initiated"));
    service.stop().await;
}

#[tokio::test]
async fn more_than_the_order_costs_is_not_given_back_without_people() {
    let (service, sandbox) = with_provider().await;
    let key = service.api_key().await;
    open_order(&service, 1, "p1").await;
    for nth in 1..=2 {
        let pi = format!("pi_{nth}");
        deliver(&service, &paid(&service, &pi, 3000, Some("p1"))).await;
    }
    let gone = with(cancelled(1, 2, "paid"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    let states: Vec<&Value> = order["refunds"].as_array().unwrap().iter().collect();
    assert_eq!(states.len(), 2);
    assert!(states.iter().all(|refund| refund["state"] == "recorded"));
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    service.stop().await;
    sandbox.stop().await;
}
