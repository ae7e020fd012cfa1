//! The payment provider's six event types. Whichever events come, in any sequence and however
//! often, a payment ends in its right state, its money is booked once, and the order of its
//! agreement is changed accordingly.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::job::State;
use domain::license::Tier;
use domain::order::settlement::Settlement;
use domain::time::Timestamp;
use sandbox::{Fault, Options, PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox};
use serde_json::{Value, json};
use store::licenses::{self, Grant, Owner};
use store::orders::checkout_key;
use store::users::{self, Named};
use store::{orders, subscriptions};

use crate::support::delivery::{Delivery, SHOP};
use crate::support::order::{
    body, cancelled, deliver, deliver_in_step, kinds as order_kinds, naming_agreement,
    no_person_in_events_and_jobs, order_delivery, post_all, shown, times, with,
};
use crate::support::payment::{
    balances, charge, declined, end_of, event, event_called, events, intent, invoice, kinds,
    session, state,
};
use crate::support::records::change_orders;
use crate::support::{Service, eventually, service, without_pauses};

const SUCCEEDED: &str = "payment_intent.succeeded";
const FAILED: &str = "payment_intent.payment_failed";
const CANCELED: &str = "payment_intent.canceled";
const REFUNDED: &str = "charge.refunded";
const COMPLETED: &str = "checkout.session.completed";
const INVOICE_PAID: &str = "invoice.payment_succeeded";

fn accounts<const N: usize>(of: [(&str, i64); N]) -> BTreeMap<String, i64> {
    of.map(|(account, minor)| (account.to_owned(), minor))
        .into()
}

#[tokio::test]
async fn every_recorded_event_of_both_generations_is_worked_on_and_the_books_balance() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../common/domain/tests/fixtures/payment"
    );
    let service = service().manual_clock().start().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        seen += 1;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let body = std::fs::read(&path).unwrap();
        let delivery = crate::support::delivery::payment(body.clone());
        deliver(&service, &delivery).await;
        assert_eq!(service.jobs(State::Dead).await, 0, "{name}");
        balances(service.db()).await;
        // The same again under another id changes nothing.
        let mut again: Value = serde_json::from_slice(&body).unwrap();
        again["id"] = json!(format!("evt_again_{seen}"));
        let reported = service.count("select count(*) as n from events").await;
        deliver(
            &service,
            &crate::support::delivery::payment(again.to_string()),
        )
        .await;
        let told_again = service.count("select count(*) as n from events").await;
        assert_eq!(told_again, reported, "{name}");
        balances(service.db()).await;
    }
    assert_eq!(seen, 72, "fixtures");
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn a_captured_payment_is_held_until_an_agreement_is_known_and_released_once() {
    let service = service().manual_clock().start().await;
    let db = service.db();
    let bare = intent("pi_1", "succeeded", 1000, None);
    deliver(&service, &event(&service, SUCCEEDED, 1, &bare)).await;
    assert_eq!(
        balances(db).await,
        accounts([("held", 1000), ("provider", -1000)])
    );
    assert_eq!(kinds(db, "pi_1").await, ["payment.succeeded"]);
    let named = intent("pi_1", "succeeded", 1000, Some("p1"));
    for nth in [2, 3, 2] {
        deliver(&service, &event(&service, SUCCEEDED, nth, &named)).await;
    }
    assert_eq!(
        balances(db).await,
        accounts([("provider", -1000), ("released:p1", 1000)])
    );
    assert_eq!(
        kinds(db, "pi_1").await,
        ["payment.succeeded", "payment.funds_released"]
    );
    let reported = events(db, "pi_1").await;
    assert_eq!(
        reported[1].1,
        json!({"payment_id": "pi_1", "pact_id": "p1", "fulfillment_cycle": null,
               "amount": "10.00", "currency": "USD"})
    );
    service.stop().await;
}

#[tokio::test]
async fn a_refund_is_credited_by_its_difference_and_the_order_says_so() {
    let service = service().manual_clock().start().await;
    let db = service.db();
    let key = service.api_key().await;
    let order = with(body(1, 0, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let paid = intent("pi_1", "succeeded", 3000, Some("p1"));
    deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(order["payment_status"], "paid");
    assert_eq!(order["fulfillment"]["state"], "requested");
    // In two parts; the second has the sum, and is sent twice.
    for (nth, refunded) in [(2, 1200), (3, 3000), (4, 3000)] {
        deliver(
            &service,
            &event(&service, REFUNDED, nth, &charge("pi_1", 3000, refunded)),
        )
        .await;
        let order = shown(&service, &key, SHOP, 1).await;
        let status = if refunded == 3000 {
            "refunded"
        } else {
            "partially_refunded"
        };
        assert_eq!(order["financial_status"], status);
        assert_eq!(state(db, "pi_1").await, status);
        let mut expected = accounts([
            ("credited:cus_7", refunded),
            ("provider", -3000),
            ("released:p1", 3000 - refunded),
        ]);
        expected.retain(|_, minor| *minor != 0);
        assert_eq!(balances(db).await, expected);
    }
    let refunds: Vec<Value> = events(db, "pi_1")
        .await
        .into_iter()
        .filter(|(kind, _)| kind == "payment.refunded")
        .map(|(_, body)| json!([body["amount"], body["refunded"], body["in_full"]]))
        .collect();
    assert_eq!(
        refunds,
        [
            json!(["12.00", "12.00", false]),
            json!(["18.00", "30.00", true])
        ]
    );
    // It had not been shipped, and is not shipped any more.
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    service.stop().await;
}

/// Every order of these.
fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(at);
        for mut tail in permutations(&rest) {
            tail.insert(0, first.clone());
            all.push(tail);
        }
    }
    all
}

/// What is known in the end, but for when.
async fn outcome(service: &Service, key: &str, shop: &str, id: i64, payment: &str) -> Value {
    let mut order = shown(service, key, shop, id).await;
    let fulfillment = order["fulfillment"]["state"].clone();
    for field in [
        "updated_at",
        "tracking",
        "fulfillment",
        "shop",
        "order_id",
        "id",
    ] {
        order.as_object_mut().unwrap().remove(field);
    }
    json!([order, fulfillment, state(service.db(), payment).await])
}

#[tokio::test]
async fn order_payment_session_and_refund_come_in_any_order_and_end_alike() {
    let service = service()
        .manual_clock()
        .setting("CHECKOUT_ORDER_WAIT_SECONDS", "3600")
        .start()
        .await;
    let key = service.api_key().await;
    let steps: Vec<usize> = (0..5).collect();
    let all_orders = permutations(&steps);
    let histories: Vec<Vec<Delivery>> = (0..)
        .zip(&all_orders)
        .map(|(nth, steps)| {
            let pact_id = format!("p-{nth}");
            let pi = format!("pi_{nth}");
            let order = with(body(1, 0, "pending"), &naming_agreement(&pact_id));
            let paid = intent(&pi, "succeeded", 3000, Some(&pact_id));
            let link = json!({"metadata": {"pact_id": pact_id}, "payment_intent": pi});
            let session = session(&format!("cs_{nth}"), "paid", 3000, &link);
            let all: [Delivery; 5] = [
                order_delivery("orders/create", &order).of_shop(&format!("shop-{nth}.example")),
                event(&service, FAILED, 1, &declined_of(&pi, &pact_id)),
                event(&service, SUCCEEDED, 2, &paid),
                event(&service, COMPLETED, 2, &session),
                event(&service, REFUNDED, 3, &charge(&pi, 3000, 500)),
            ];
            steps.iter().map(|step| all[*step].clone()).collect()
        })
        .collect();
    deliver_in_step(&service, &histories).await;
    let mut ends: Vec<Value> = Vec::new();
    let mut expected = BTreeMap::new();
    for (nth, steps) in all_orders.iter().enumerate() {
        let (shop, pi) = (format!("shop-{nth}.example"), format!("pi_{nth}"));
        let end = outcome(&service, &key, &shop, 1, &pi).await;
        if let Some(first) = ends.first() {
            assert_eq!(&end, first, "{steps:?}");
        }
        ends.push(end);
        expected.insert(format!("released:p-{nth}"), 2500);
        assert_eq!(
            times(&kinds(service.db(), &pi).await, "payment.funds_released"),
            1,
            "{steps:?}"
        );
        let reported = order_kinds(service.db(), &shop, 1).await;
        assert_eq!(times(&reported, "order.paid"), 1, "{steps:?}");
        assert_eq!(
            times(&reported, "order.fulfillment_requested"),
            1,
            "{steps:?}"
        );
    }
    assert_eq!(ends.len(), 120);
    assert_eq!(ends[0][0]["financial_status"], "partially_refunded");
    assert_eq!(ends[0][1], "requested");
    expected.insert("provider".into(), -3000 * 120);
    expected.insert("credited:cus_7".into(), 500 * 120);
    assert_eq!(balances(service.db()).await, expected);
    assert_eq!(service.jobs(State::Dead).await, 0);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

fn declined_of(id: &str, pact_id: &str) -> Value {
    let mut intent = declined(id, 3000, 1, "generic_decline");
    intent["metadata"] = json!({"pact_id": pact_id});
    intent
}

#[tokio::test]
async fn an_order_is_found_by_its_id_even_when_it_was_being_written_as_its_payment_came() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    // Nothing names an agreement but the payment.
    let paid = intent("pi_1", "succeeded", 3000, Some("41"));
    deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
    assert_eq!(service.scheduled().await, 1, "a second look is scheduled");
    deliver(
        &service,
        &order_delivery("orders/create", &body(41, 0, "pending")),
    )
    .await;
    let order = shown(&service, &key, SHOP, 41).await;
    assert_eq!(order["financial_status"], "paid");
    // As when both were written at the same time, and neither saw the other.
    change_orders(service.db(), "orders where id = 41", |order| {
        order.settled = Settlement::default();
    })
    .await;
    service.clock().advance(Duration::from_secs(61));
    eventually("the second look is taken", async || {
        service.jobs(State::Ready).await == 0
    })
    .await;
    let order = shown(&service, &key, SHOP, 41).await;
    assert_eq!(order["financial_status"], "paid");
    service.stop().await;
}

#[tokio::test]
async fn a_payment_that_is_too_small_or_in_another_currency_ships_nothing() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    for (id, cents, currency, status) in [
        (1, 2999, "usd", "partially_paid"),
        (2, 3000, "eur", "partially_paid"),
        (3, 3000, "usd", "paid"),
        (4, 3001, "usd", "paid"),
    ] {
        let name = format!("p{id}");
        let order = with(body(id, 0, "pending"), &naming_agreement(&name));
        deliver(&service, &order_delivery("orders/create", &order)).await;
        let mut paid = intent(&format!("pi_{id}"), "succeeded", cents, Some(&name));
        paid["currency"] = json!(currency);
        deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
        let order = shown(&service, &key, SHOP, id).await;
        assert_eq!(order["financial_status"], status, "order {id}");
        let fulfillment = if status == "paid" {
            "requested"
        } else {
            "initiated"
        };
        assert_eq!(order["fulfillment"]["state"], fulfillment, "order {id}");
    }
    // The rest comes with a second payment of the agreement.
    let rest = intent("pi_5", "succeeded", 1, Some("p1"));
    deliver(&service, &event(&service, SUCCEEDED, 2, &rest)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(order["fulfillment"]["state"], "requested");
    service.stop().await;
}

#[tokio::test]
async fn a_canceled_payment_cancels_its_order_until_it_is_paid_otherwise() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    let order = with(body(1, 0, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let canceled = intent("pi_1", "canceled", 3000, Some("p1"));
    for nth in [1, 2] {
        deliver(&service, &event(&service, CANCELED, nth, &canceled)).await;
    }
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["cancel_reason"], "payment_canceled");
    assert!(order["cancelled_at"].is_string());
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    assert_eq!(order["restocked"], json!([]), "the storefront still has it");
    assert_eq!(kinds(service.db(), "pi_1").await, ["payment.canceled"]);
    // The customer pays with another intent after all.
    let paid = intent("pi_2", "succeeded", 3000, Some("p1"));
    deliver(&service, &event(&service, SUCCEEDED, 3, &paid)).await;
    let order = shown(&service, &key, SHOP, 1).await;
    assert_eq!(order["cancelled_at"], Value::Null);
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(order["fulfillment"]["state"], "requested");
    assert_eq!(order["refunds"], json!([]));
    let reported_of = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&reported_of, "order.cancelled"), 1);
    assert_eq!(times(&reported_of, "order.fulfillment_requested"), 1);
    // What was paid is paid: neither a canceled sibling nor a late cancel undoes it.
    let late = intent("pi_2", "canceled", 3000, Some("p1"));
    deliver(&service, &event(&service, CANCELED, 4, &late)).await;
    assert_eq!(state(service.db(), "pi_2").await, "succeeded");
    // An order that the storefront cancelled stays cancelled, whatever is paid: it is given back.
    let gone = with(cancelled(2, 1, "pending"), &naming_agreement("p2"));
    deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    let paid = intent("pi_3", "succeeded", 3000, Some("p2"));
    deliver(&service, &event(&service, SUCCEEDED, 5, &paid)).await;
    let order = shown(&service, &key, SHOP, 2).await;
    assert_eq!(order["fulfillment"]["state"], "cancelled");
    assert_eq!(order["refunds"][0]["payment_id"], "pi_3");
    service.stop().await;
}

#[tokio::test]
async fn what_was_given_back_before_its_order_is_cancelled_is_not_asked_for_again() {
    let service = service().manual_clock().start().await;
    let key = service.api_key().await;
    for (id, refunded) in [(1, 3000), (2, 1000)] {
        let name = format!("p{id}");
        let pi = format!("pi_{id}");
        let order = with(body(id, 0, "paid"), &naming_agreement(&name));
        deliver(&service, &order_delivery("orders/create", &order)).await;
        let paid = intent(&pi, "succeeded", 3000, Some(&name));
        deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
        let back = charge(&pi, 3000, refunded);
        deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
        let gone = with(cancelled(id, 1, "paid"), &naming_agreement(&name));
        deliver(&service, &order_delivery("orders/cancelled", &gone)).await;
    }
    let all_back = shown(&service, &key, SHOP, 1).await;
    assert_eq!(all_back["refunds"][0]["state"], "already_refunded");
    assert_eq!(all_back["refunds"][0]["amount"], "30.00");
    let some_back = shown(&service, &key, SHOP, 2).await;
    assert_eq!(some_back["refunds"][0]["state"], "recorded");
    assert_eq!(some_back["refunds"][0]["amount"], "20.00", "what is left");
    service.stop().await;
}

#[tokio::test]
async fn a_checkout_session_makes_an_order_that_its_payment_pays() {
    let service = service().manual_clock().start().await;
    let db = service.db();
    let key = service.api_key().await;
    // Paid at once; the agreement is known to the session alone.
    let link = json!({"payment_intent": "pi_1", "metadata": {"pact_id": "p1"}});
    let paid = session("cs_1", "paid", 3000, &link);
    deliver(&service, &event(&service, COMPLETED, 1, &paid)).await;
    let (shop, id) = checkout_key("p1");
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["shop"], "checkout");
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(order["total_price"], "30.00");
    assert_eq!(order["fulfillment"]["state"], "requested");
    assert!(order["tracking"]["url"].is_string());
    // A refund of its payment, which names no agreement, finds it through the session.
    let bare = intent("pi_1", "succeeded", 3000, None);
    deliver(&service, &event(&service, SUCCEEDED, 1, &bare)).await;
    let back = charge("pi_1", 3000, 3000);
    deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
    let order = shown(&service, &key, &shop, id).await;
    assert_eq!(order["financial_status"], "refunded");
    // Unpaid: pending, until the money comes; in both orders of the two.
    for (nth, session_first) in [(2, true), (3, false)] {
        let (cs, pi) = (format!("cs_{nth}"), format!("pi_{nth}"));
        let unpaid = session(&cs, "unpaid", 3000, &json!({"payment_intent": pi}));
        let unpaid = event(&service, COMPLETED, 1, &unpaid);
        let paid = event(
            &service,
            SUCCEEDED,
            9,
            &intent(&pi, "succeeded", 3000, None),
        );
        let (shop, id) = checkout_key(&cs);
        if session_first {
            deliver(&service, &unpaid).await;
            let order = shown(&service, &key, &shop, id).await;
            assert_eq!(order["financial_status"], "pending");
            assert_eq!(order["fulfillment"]["state"], "initiated");
            deliver(&service, &paid).await;
        } else {
            deliver(&service, &paid).await;
            deliver(&service, &unpaid).await;
        }
        let order = shown(&service, &key, &shop, id).await;
        assert_eq!(order["financial_status"], "paid", "{nth}");
        assert_eq!(order["fulfillment"]["state"], "requested", "{nth}");
    }
    // Free of charge is paid for; a trial is not, and nothing is sold in setup.
    let free = session("cs_4", "no_payment_required", 0, &json!({}));
    deliver(&service, &event(&service, COMPLETED, 1, &free)).await;
    let trial = json!({"mode": "subscription", "subscription": "sub_1"});
    let trial = session("cs_5", "no_payment_required", 0, &trial);
    deliver(&service, &event(&service, COMPLETED, 1, &trial)).await;
    let setup = json!({"mode": "setup", "amount_total": null, "currency": null});
    let setup = session("cs_6", "no_payment_required", 0, &setup);
    deliver(&service, &event(&service, COMPLETED, 1, &setup)).await;
    for (name, status) in [
        ("cs_4", Some("paid")),
        ("cs_5", Some("pending")),
        ("cs_6", None),
    ] {
        let (shop, id) = checkout_key(name);
        match orders::find(db, id, Some(vec![shop.clone()]))
            .await
            .unwrap()
        {
            orders::OrderLookup::One(order) => {
                assert_eq!(order.financial_status.as_deref(), status, "{name}");
            }
            _ => assert_eq!(status, None, "{name}"),
        }
    }
    let sessions = "select count(*) as n from checkout_sessions";
    assert_eq!(service.count(sessions).await, 6);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn the_storefronts_own_order_takes_the_place_of_one_that_a_session_made() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = service()
        .manual_clock()
        .setting("STOREFRONT_API_URL", &sandbox.storefront_url())
        .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN)
        .start()
        .await;
    let key = service.api_key().await;
    let link = json!({"payment_intent": "pi_1", "metadata": {"pact_id": "p1"}});
    let paid = session("cs_1", "paid", 3000, &link);
    deliver(&service, &event(&service, COMPLETED, 1, &paid)).await;
    let named = intent("pi_1", "succeeded", 3000, Some("p1"));
    deliver(&service, &event(&service, SUCCEEDED, 1, &named)).await;
    let (shop, id) = checkout_key("p1");
    assert_eq!(
        shown(&service, &key, &shop, id).await["fulfillment"]["state"],
        "requested"
    );
    // The storefront does not know that order, and is not asked for it.
    assert_eq!(sandbox.storefront().fault_injector.requests(), 0);
    let order = with(body(1, 0, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let real = shown(&service, &key, SHOP, 1).await;
    assert_eq!(real["financial_status"], "paid");
    assert_eq!(real["fulfillment"]["state"], "requested");
    let placeholder = shown(&service, &key, &shop, id).await;
    assert_eq!(placeholder["cancel_reason"], "superseded");
    assert_eq!(placeholder["fulfillment"]["state"], "cancelled");
    assert_eq!(
        placeholder["refunds"],
        json!([]),
        "its money is the other's"
    );
    assert_eq!(
        placeholder["superseded_by"],
        json!({"shop": SHOP, "order_id": "1"})
    );
    let reported_of = order_kinds(service.db(), &shop, id).await;
    assert_eq!(times(&reported_of, "order.superseded"), 1);
    assert_eq!(times(&reported_of, "order.cancelled"), 0);
    assert_eq!(times(&reported_of, "order.fulfillment_cancelled"), 0);
    // It was requested under the other's id, and is not shipped twice.
    let reported_of = order_kinds(service.db(), SHOP, 1).await;
    assert_eq!(times(&reported_of, "order.fulfillment_requested"), 0);
    assert_eq!(sandbox.storefront().fault_injector.requests(), 0);
    // A refund is the real one's from now on.
    let back = charge("pi_1", 3000, 1000);
    deliver(&service, &event(&service, REFUNDED, 2, &back)).await;
    let real = shown(&service, &key, SHOP, 1).await;
    assert_eq!(real["financial_status"], "partially_refunded");
    service.stop().await;
    sandbox.stop().await;
}

/// An invoice as the provider writes it.
fn written(name: &str) -> Value {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../common/domain/tests/fixtures/payment"
    );
    let path = format!("{folder}/invoice.payment_succeeded.{name}.json");
    let body = std::fs::read_to_string(path).expect("a fixture");
    let mut event: Value = serde_json::from_str(&body).expect("JSON");
    event["data"]["object"].take()
}

#[tokio::test]
async fn a_period_that_cost_nothing_extends_a_licence_and_a_trial_does_not() {
    for (version, start) in [
        ("2020-08-27", 1_735_732_800_i64),
        ("2026-10-28.endive", 1_793_448_000),
    ] {
        let at = |days: i64| Timestamp::from_unix_seconds(start + days * 86_400);
        for (variant, days) in [
            ("all_discounted", 30),
            ("credited", 30),
            ("several_lines", 30),
            ("trial", 1),
            ("prorated", 1),
        ] {
            let service = service().manual_clock().start().await;
            grant(&service, "ada", "sub_Example01", at(1)).await;
            let invoice = written(&format!("{variant}.{version}"));
            deliver(&service, &event(&service, INVOICE_PAID, 1, &invoice)).await;
            let license = licenses::list(service.db()).await.unwrap().remove(0);
            assert_eq!(license.expires_at, Some(at(days)), "{variant} {version}");
            let reported = events(service.db(), "sub_Example01").await;
            let reported: Vec<_> = reported
                .iter()
                .map(|(kind, body)| (kind.as_str(), &body["period_end"], &body["grace_until"]))
                .collect();
            let (end, grace) = (json!(at(30)), json!(at(33)));
            let extended = [("subscription.extended", &end, &grace)];
            assert_eq!(reported, &extended[usize::from(days == 1)..], "{variant}");
            service.stop().await;
        }
    }
}

#[tokio::test]
async fn a_subscription_and_its_licence_are_extended_and_never_shortened() {
    let service = service().manual_clock().start().await;
    let db = service.db();
    grant(&service, "ada", "sub_1", end_of(10)).await;
    grant(&service, "grace", "sub_2", end_of(1000)).await;
    // Several at once, out of order, a trial and a manual one among them.
    let manual = {
        let mut manual = invoice("in_5", "sub_1", 500, 900);
        manual["parent"] = Value::Null;
        manual
    };
    let deliveries: Vec<Delivery> = [
        (invoice("in_2", "sub_1", 500, 60), 2),
        (invoice("in_1", "sub_1", 500, 30), 1),
        (invoice("in_3", "sub_2", 500, 365), 3),
        (invoice("in_4", "sub_1", 0, 400), 4),
        (manual, 5),
    ]
    .iter()
    .map(|(invoice, nth)| event(&service, INVOICE_PAID, *nth, invoice))
    .collect();
    post_all(&service, &deliveries).await;
    service.settled().await;
    // An older one that comes last.
    let late = invoice("in_6", "sub_1", 500, 20);
    deliver(&service, &event(&service, INVOICE_PAID, 6, &late)).await;
    let ends: BTreeMap<String, _> = subscriptions::list(db, 10)
        .await
        .unwrap()
        .into_iter()
        .map(|it| (it.id, it.period_end_at))
        .collect();
    let expected = [("sub_1", Some(end_of(60))), ("sub_2", Some(end_of(365)))];
    assert_eq!(ends, expected.map(|(id, end)| (id.to_owned(), end)).into());
    let licences: BTreeMap<_, _> = licenses::list(db)
        .await
        .unwrap()
        .into_iter()
        .map(|it| (it.subscription_id.unwrap(), it.expires_at))
        .collect();
    let expected = [("sub_1", Some(end_of(60))), ("sub_2", Some(end_of(1000)))];
    assert_eq!(
        licences,
        expected.map(|(id, end)| (id.to_owned(), end)).into()
    );
    let ends: Vec<Value> = events(db, "sub_1")
        .await
        .iter()
        .map(|(_, body)| body["period_end"].clone())
        .collect();
    assert_eq!(ends.last().unwrap(), &json!(end_of(60)));
    assert!(
        ends.is_sorted_by(|a, b| a.as_str() < b.as_str()),
        "{ends:?}"
    );
    assert_eq!(
        balances(db).await,
        BTreeMap::new(),
        "its money is an intent's"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_failed_payment_is_tried_again_after_1_24_and_72_hours() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    let db = service.db();
    let pi = declined_intent(&sandbox).await;
    let with_card = |attempt: u32, card: &str| {
        let mut failed = declined(&pi, 1000, attempt, "insufficient_funds");
        failed["last_payment_error"]["payment_method"]["id"] = json!(card);
        failed
    };
    let bad = with_card(1, "pm_card_chargeDeclined");
    for nth in [1, 1, 2] {
        let delivery = event_called(&service, &format!("evt_{nth}"), FAILED, nth, &bad);
        deliver(&service, &delivery).await;
    }
    assert_eq!(kinds(db, &pi).await, ["payment.failed"], "one attempt");
    assert_eq!(service.scheduled().await, 3);
    service.clock().advance(Duration::from_mins(59));
    service.settled().await;
    assert_eq!(confirms(&sandbox).len(), 0);
    service.clock().advance(Duration::from_mins(2));
    retry_ends(&service, "declined").await;
    assert_eq!(confirms(&sandbox).len(), 1);
    // The provider reports it, and our schedule stays as it is.
    let second = with_card(2, "pm_card_visa");
    deliver(&service, &event(&service, FAILED, 3661, &second)).await;
    assert_eq!(kinds(db, &pi).await, ["payment.failed", "payment.failed"]);
    assert_eq!(service.scheduled().await, 2);
    // The next is answered with an error first; its key stays.
    sandbox
        .payment()
        .fault_injector
        .fail_next(1, Fault::Status(500));
    service.clock().advance(Duration::from_hours(23));
    without_pauses(service.clock(), retry_ends(&service, "succeeded")).await;
    let keys = confirms(&sandbox);
    assert_eq!(keys.len(), 2);
    assert!(keys.values().all(|times| *times == 1), "{keys:?}");
    assert_eq!(sandbox.payment().captures()[&pi], 1);
    // The provider's event stops the last.
    let paid = intent(&pi, "succeeded", 1000, Some("p1"));
    deliver(&service, &event(&service, SUCCEEDED, 90_000, &paid)).await;
    assert_eq!(service.scheduled().await, 0);
    retry_ends(&service, "stopped").await;
    service.clock().advance(Duration::from_hours(100));
    service.settled().await;
    assert_eq!(confirms(&sandbox).len(), 2);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn retries_stop_at_a_cancel_and_are_not_made_where_networks_forbid_them() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    let failed = declined("pi_1", 1000, 1, "generic_decline");
    deliver(&service, &event(&service, FAILED, 1, &failed)).await;
    assert_eq!(service.scheduled().await, 3);
    let canceled = intent("pi_1", "canceled", 1000, Some("x"));
    deliver(&service, &event(&service, CANCELED, 2, &canceled)).await;
    assert_eq!(service.scheduled().await, 0);
    // After the cancel it fails no more.
    let late = declined("pi_1", 1000, 2, "generic_decline");
    deliver(&service, &event(&service, FAILED, 3, &late)).await;
    assert_eq!(service.scheduled().await, 0);
    let stolen = declined("pi_2", 1000, 1, "stolen_card");
    deliver(&service, &event(&service, FAILED, 1, &stolen)).await;
    assert_eq!(service.scheduled().await, 0);
    // The success that came first leaves nothing to try.
    let paid = intent("pi_3", "succeeded", 1000, Some("x"));
    deliver(&service, &event(&service, SUCCEEDED, 2, &paid)).await;
    let failed = declined("pi_3", 1000, 1, "generic_decline");
    deliver(&service, &event(&service, FAILED, 1, &failed)).await;
    assert_eq!(service.scheduled().await, 0);
    assert_eq!(state(service.db(), "pi_3").await, "succeeded");
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    service.stop().await;
    sandbox.stop().await;
}

pub fn with_api(options: crate::support::Options, sandbox: &Sandbox) -> crate::support::Options {
    options
        .setting("PAYMENT_API_URL", &sandbox.payment_url())
        .setting("PAYMENT_API_KEY", PAYMENT_KEY)
}

/// An intent at the provider whose first attempt was declined.
pub async fn declined_intent(sandbox: &Sandbox) -> String {
    let url = format!("{}/v1/payment_intents", sandbox.payment_url());
    let fields = [
        ("amount", "1000"),
        ("currency", "usd"),
        ("payment_method", "pm_card_chargeDeclined"),
        ("confirm", "true"),
    ];
    let request = reqwest::Client::new().post(url).bearer_auth(PAYMENT_KEY);
    let answer = request.form(&fields).send().await.unwrap();
    assert_eq!(answer.status(), 402);
    let body: Value = answer.json().await.unwrap();
    body["error"]["payment_intent"]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Waits until one of our retries has ended so.
pub async fn retry_ends(service: &Service, state: &'static str) {
    eventually(state, async || {
        let row = service
            .db()
            .query("select count(*) as n from payment_retries where state = $1")
            .bind(state)
            .fetch_one()
            .await
            .unwrap();
        row.get::<i64>("n").unwrap() == 1
    })
    .await;
}

/// How often each of our keys was seen.
fn confirms(sandbox: &Sandbox) -> BTreeMap<String, u32> {
    let mut keys = sandbox.payment().confirms_by_key();
    keys.retain(|key, _| !key.is_empty());
    keys
}

/// A licence that a subscription extends.
async fn grant(service: &Service, user: &str, subscription: &str, until: Timestamp) {
    let mut tx = service.db().begin().await.unwrap();
    let named = Named::Login(user.to_owned());
    let user = users::find_or_invite(&mut tx, service.clock(), &named)
        .await
        .unwrap();
    let grant = Grant {
        tier: Tier::Pro,
        owner: Owner::User(user.id),
        expires_at: Some(until),
        subscription_id: Some(subscription),
        subscription_item: None,
    };
    licenses::grant(&mut tx, service.clock(), &grant)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}
