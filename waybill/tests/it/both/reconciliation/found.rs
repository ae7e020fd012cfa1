//! What is found, and what is not.

use std::time::Duration;

use domain::api_key::Role;
use domain::attention::Condition;
use domain::job::State;
use domain::reconciliation::Cause;
use domain::time::Timestamp;
use operators::attention::look;
use platform::clock::Clock;
use sandbox::{Fault, FaultInjector, WOOCOMMERCE_TOKEN};
use serde_json::{Value, json};
use store::deliveries::{self, Sender};
use store::refused_deliveries;
use workers::reconcile::Reconciler;

use super::{MINUTE, RUN, World, delivery, known, order_at, rounds, sandbox_at};
use crate::both::connections::{self, add, storefront, with_connections};
use crate::support::backend::is_distributed;
use crate::support::console::role;
use crate::support::delivery::{Delivery, SHOP, payment_at};
use crate::support::operator;
use crate::support::order::{body, deliver, order_delivery, post_all, shown, with};
use crate::support::payment::intent;
use crate::support::{START, eventually, records};

/// An event of a payment for an order, that happened now.
fn paid(world: &World, nth: i64) -> Delivery {
    let at = world.now().unix_seconds();
    let body = json!({
        "id": format!("evt_{nth}"), "object": "event", "api_version": "2026-10-28.endive", "created": at,
        "type": "payment_intent.succeeded",
        "data": {"object": intent(&format!("pi_{nth}"), "succeeded", 3000, Some(&nth.to_string()))},
    });
    payment_at(at, body.to_string())
}

/// The payment provider has made this event.
fn happened(world: &World, event: &Delivery) {
    let body = String::from_utf8(event.body.clone()).unwrap();
    let read: Value = serde_json::from_str(&body).unwrap();
    let id = read["id"].as_str().unwrap();
    let event = sandbox::Delivery::payment("payment_intent.succeeded", id, body.clone());
    world.sandbox.payment().remember(event);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_never_came_is_taken_once_and_one_that_came_is_not() {
    let mut world = World::start().await;
    let old = order_at(world.now().minus(MINUTE), 9, "paid");
    world.has(&old);
    world.pass(MINUTE);
    let (lost, came, waits) = (
        world.order(1, "paid"),
        world.order(2, "paid"),
        world.order(3, "paid"),
    );
    for order in [&lost, &came, &waits] {
        world.has(order);
    }
    deliver(&world.service, &delivery(&came)).await;
    // Its delivery is here, but dead.
    deliver(&world.service, &delivery(&waits)).await;
    let dead = "update jobs set state = 'dead' where kind = 'orders/updated' and id in (select id from deliveries where object_id = '3')";
    world.service.db().transact(dead).done().await.unwrap();
    let gone = "delete from orders where id = 3";
    world.service.db().transact(gone).done().await.unwrap();
    world.run_later().await;
    let found = world.found().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].kind.as_str(), found[0].shop.as_str()),
        ("orders/updated", SHOP)
    );
    assert_eq!(found[0].cause, Cause::NotSent);
    assert!(known(&world.service, 1).await && !known(&world.service, 3).await);
    assert!(
        !known(&world.service, 9).await,
        "what was before the first run is left"
    );
    let row = world.row("storefront").await;
    assert_eq!((row.compared, row.found), (3, 1));
    // It is compared again, because runs overlap, and found no more.
    for _ in 0..2 {
        world.run_later().await;
    }
    assert_eq!(world.found().await.len(), 1);
    // The webhook comes after all, and changes nothing.
    deliver(&world.service, &delivery(&lost)).await;
    let key = world.service.api_key().await;
    let order = shown(&world.service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(world.service.jobs(State::Dead).await, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_newer_than_what_came_is_taken() {
    let mut world = World::start().await;
    let pending = world.order(1, "pending");
    deliver(&world.service, &delivery(&pending)).await;
    world.pass(MINUTE);
    let paid = world.order(1, "paid");
    world.has(&paid);
    world.run_later().await;
    let key = world.service.api_key().await;
    let order = shown(&world.service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "paid");
    assert_eq!(world.found().await.len(), 1);
    // The API writes what came in another way, and half of these texts have a greater hash.
    let came: Vec<Value> = (2..12).map(|id| world.order(id, "pending")).collect();
    for order in &came {
        deliver(&world.service, &delivery(order)).await;
        world.has(&with(order.clone(), &json!({"added_by_the_api": 1})));
    }
    world.run_later().await;
    assert_eq!(world.row("storefront").await.compared, 10);
    assert_eq!(world.found().await.len(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pages_are_read_to_their_end_by_whoever_goes_on() {
    let mut world = World::start().await;
    world.pass(MINUTE);
    for id in 1..=230_i64 {
        world.has(&order_at(
            world
                .now()
                .minus(Duration::from_millis(id.unsigned_abs() % 7 * 1000)),
            id,
            "pending",
        ));
    }
    world.pass(RUN);
    // The first process stores a page, and goes away.
    world.reconciler.round().await.unwrap();
    let row = world.row("storefront").await;
    assert!(
        row.page.is_some() && row.run_until.is_some() && row.compared == 100,
        "{row:?}"
    );
    world.reconciler.hand_over().await;
    // What changes meanwhile leaves the period, and is compared by the next run.
    let changed = world.order(224, "refunded");
    world.has(&changed);
    let mut other = Reconciler::new(world.service.parts.clone());
    world.pass(Duration::from_secs(1));
    rounds(&world.service, &mut other).await;
    world.service.settled().await;
    let all = world
        .service
        .count("select count(*) as n from orders")
        .await;
    assert_eq!(all, 229);
    other.hand_over().await;
    world.run_later().await;
    assert_eq!(
        world
            .service
            .count("select count(*) as n from orders")
            .await,
        230
    );
    assert_eq!(world.found().await.len(), 230);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_ask_for_one_page_store_it_once() {
    let mut world = World::start().await;
    for id in 1..=20 {
        world.has(&world.order(id, "pending"));
    }
    world.pass(RUN);
    let injector = world.sandbox.storefront().fault_injector.clone();
    let before = injector.requests();
    injector.fail_next(1, SLOW);
    let mut other = Reconciler::new(world.service.parts.clone());
    let db = world.service.db().clone();
    // The lease of the first one ends while it waits for the answer.
    let beside = async {
        asked(&injector, before).await;
        let free = "delete from leases where name like 'reconcile%'";
        db.transact(free).done().await.unwrap();
        other.round().await.unwrap();
    };
    let (first, ()) = tokio::join!(world.reconciler.round(), beside);
    first.unwrap();
    assert_eq!(injector.requests(), before + 2);
    other.hand_over().await;
    world.reconciled().await;
    assert_eq!(world.found().await.len(), 20);
    assert_eq!(
        world
            .service
            .count("select count(*) as n from orders")
            .await,
        20
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_asks_while_a_page_is_read_is_not_lost() {
    let mut world = World::start().await;
    world.has(&order_at(
        world.now().minus(Duration::from_hours(30)),
        1,
        "pending",
    ));
    world.pass(RUN);
    let injector = world.sandbox.storefront().fault_injector.clone();
    let before = injector.requests();
    injector.fail_next(1, SLOW);
    let (parts, by) = (world.service.parts.clone(), connections::by(&world.service));
    let since = Some(world.now().minus(Duration::from_hours(48)));
    let ask = async {
        asked(&injector, before).await;
        operators::reconciliation::ask(&parts.db, by, None, since)
            .await
            .unwrap();
    };
    let (round, ()) = tokio::join!(world.reconciler.round(), ask);
    round.unwrap();
    world.reconciled().await;
    assert!(known(&world.service, 1).await);
    world.stop().await;
}

/// An answer that takes as long as something else needs meanwhile.
const SLOW: Fault = Fault::Slow(Duration::from_secs(4));

/// Waits until the provider has got one more request.
async fn asked(injector: &FaultInjector, before: u64) {
    eventually("the provider is asked", async || {
        injector.requests() > before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_never_came_is_taken_and_its_webhook_is_a_duplicate_then() {
    let mut world = World::start().await;
    deliver(&world.service, &delivery(&world.order(1, "pending"))).await;
    let (lost, came) = (paid(&world, 1), paid(&world, 2));
    // Nothing would follow from this one.
    let other = json!({
        "id": "evt_other", "object": "event", "created": world.now().unix_seconds(), "type": "customer.created",
        "data": {"object": {"id": "cus_7", "object": "customer"}},
    });
    happened(
        &world,
        &payment_at(world.now().unix_seconds(), other.to_string()),
    );
    happened(&world, &lost);
    happened(&world, &came);
    deliver(&world.service, &came).await;
    // Ids are remembered for three days, and what came is known for longer.
    world.pass(Duration::from_hours(4 * 24));
    let expired = "delete from webhook_ids";
    world.service.db().transact(expired).done().await.unwrap();
    world.reconciled().await;
    let found = world.found().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, "payment_intent.succeeded");
    let key = world.service.api_key().await;
    let order = shown(&world.service, &key, SHOP, 1).await;
    assert_eq!(order["financial_status"], "paid");
    let late = payment_at(world.now().unix_seconds(), lost.body.clone());
    let (status, _) = world.service.answer(&late).await;
    assert_eq!(status, 200);
    world.service.settled().await;
    let jobs = "select count(*) as n from deliveries where external_id = 'evt_1'";
    assert_eq!(world.service.count(jobs).await, 1);
    world.run_later().await;
    assert_eq!(world.found().await.len(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_new_costs_a_call_a_provider() {
    let mut world = World::start().await;
    for id in 1..=50 {
        let order = world.order(id, "paid");
        world.has(&order);
        post_all(&world.service, &[delivery(&order)]).await;
    }
    world.run_later().await;
    let calls = || {
        let (storefront, payment) = (world.sandbox.storefront(), world.sandbox.payment());
        (
            storefront.fault_injector.requests(),
            payment.fault_injector.requests(),
        )
    };
    let before = calls();
    world.service.clock().advance(RUN);
    rounds(&world.service, &mut world.reconciler).await;
    let calls = || {
        let (storefront, payment) = (world.sandbox.storefront(), world.sandbox.payment());
        (
            storefront.fault_injector.requests(),
            payment.fault_injector.requests(),
        )
    };
    assert_eq!(calls(), (before.0 + 1, before.1 + 1));
    assert!(world.found().await.is_empty());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_job_is_done_while_its_page_is_compared_is_not_taken_for_lost() {
    let mut world = World::start().await;
    let order = world.order(1, "paid");
    world.has(&order);
    deliver(&world.service, &delivery(&order)).await;
    world.service.settled().await;
    // As before its job was done.
    let before = [
        "update orders set id = id + 1000",
        "update jobs set state = 'ready', run_at = 9000000000000000
         where id in (select id from deliveries where source = 'storefront')",
    ];
    let after = [
        "update orders set id = id - 1000",
        "update jobs set state = 'done' where run_at = 9000000000000000",
    ];
    let db = world.service.db().clone();
    let mut tx = db.begin().await.unwrap();
    for sql in before {
        tx.query(sql).execute().await.unwrap();
    }
    tx.commit().await.unwrap();
    world.pass(RUN);
    let mut tx = db.begin().await.unwrap();
    if is_distributed() {
        // It has looked for the order, and waits to look for deliveries of it.
        let lock = "lock table deliveries in access exclusive mode";
        tx.query(lock).execute().await.unwrap();
    }
    let done = async {
        if is_distributed() {
            let waiting = "select count(*) as n from pg_locks
                           where not granted and relation = 'deliveries'::regclass";
            eventually("it waits for the deliveries", async || {
                world.service.count(waiting).await > 0
            })
            .await;
        }
        for sql in after {
            tx.query(sql).execute().await.unwrap();
        }
        tx.commit().await.unwrap();
    };
    tokio::join!(done, rounds(&world.service, &mut world.reconciler));
    assert!(world.found().await.is_empty());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_is_said_and_is_no_sign_of_life_of_the_provider() {
    let mut world = World::start().await;
    let bad = delivery(&world.order(1, "paid")).signed_with("another secret than ours");
    assert_eq!(world.service.answer(&bad).await.0, 401);
    eventually("the refusal is counted", async || {
        let since = Timestamp(0);
        let refused = refused_deliveries::list(world.service.db(), "", since, 10).await;
        !refused.unwrap().is_empty()
    })
    .await;
    world.has(&world.order(1, "paid"));
    world.run_later().await;
    assert_eq!(world.found().await.len(), 1);
    let (db, config) = (world.service.db(), &world.service.parts.config);
    let found = look(db, config, &[], world.now()).await.unwrap();
    let missed = found
        .iter()
        .find(|it| it.condition == Condition::DeliveriesMissed)
        .unwrap();
    assert_eq!(
        (missed.about.as_str(), missed.details.as_str()),
        ("storefront", "1 in the last day: it was refused here")
    );
    let sender = Sender {
        source: domain::job::Source::Storefront,
        connection: None,
    };
    let silent = deliveries::is_silent(db, &sender, world.now().minus(Duration::from_hours(1)));
    assert_eq!(silent.await.unwrap(), Some(true));
    let story = operator::said(&world.service, &["orders", "show", "1"]).await;
    assert!(
        story.contains("found by reconciliation, 18m late"),
        "{story}"
    );
    let status = operator::said(&world.service, &["reconcile", "--status"]).await;
    assert!(
        status.contains("it was refused here") && status.contains(SHOP),
        "{status}"
    );
    // Nobody has signed it, and it had no id of a provider.
    let job = world.found().await[0].job_id;
    let console = world.service.console().await;
    let key = world.service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    let page = console.shown(&session, &format!("/jobs/{job}")).await;
    assert!(
        page.contains("none: it was found at the provider"),
        "{page}"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_was_erased_does_not_come_back_and_a_shop_that_ended_is_not_asked() {
    let mut world = World::start().await;
    deliver(&world.service, &delivery(&world.order(1, "paid"))).await;
    let erase = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": {"id": 77, "email": "canary@example.com"},
        "orders_to_redact": [1],
    });
    deliver(&world.service, &order_delivery("customers/redact", &erase)).await;
    world.pass(MINUTE);
    world.has(&world.order(1, "refunded"));
    // It is from before, and never came.
    let older = json!({"created_at": START.to_string()});
    world.has(&with(world.order(2, "paid"), &older));
    world.run_later().await;
    assert_eq!(world.found().await.len(), 2);
    let key = world.service.api_key().await;
    assert_eq!(
        shown(&world.service, &key, SHOP, 1).await["financial_status"],
        "refunded"
    );
    for table in ["orders", "customers"] {
        let rows = records::texts(world.service.db(), table).await.join("");
        assert!(!rows.contains("anary"), "{table}: {rows}");
    }
    let end = json!({"shop_id": 1, "shop_domain": SHOP});
    let (status, _) = world
        .service
        .answer(&order_delivery("shop/redact", &end))
        .await;
    assert_eq!(status, 200);
    let before = world.sandbox.storefront().fault_injector.requests();
    world.pass(RUN);
    rounds(&world.service, &mut world.reconciler).await;
    assert_eq!(world.sandbox.storefront().fault_injector.requests(), before);
    let row = world.row("storefront").await;
    assert!(row.last_error.unwrap().contains("has asked to be erased"));
    // An order of it shows that it lives.
    let (status, _) = world
        .service
        .answer(&delivery(&world.order(3, "paid")))
        .await;
    assert_eq!(status, 200);
    world.pass(Duration::from_hours(25));
    rounds(&world.service, &mut world.reconciler).await;
    assert!(world.sandbox.storefront().fault_injector.requests() > before);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_asks_for_an_earlier_time_and_the_audit_says_so() {
    let mut world = World::start().await;
    let old = order_at(world.now().minus(Duration::from_hours(30)), 1, "paid");
    world.has(&old);
    world.run_later().await;
    assert!(!known(&world.service, 1).await);
    let asked = operators::reconciliation::ask(
        world.service.db(),
        connections::by(&world.service),
        None,
        Some(world.now().minus(Duration::from_hours(40 * 24))),
    );
    assert_eq!(asked.await.unwrap(), 2);
    world.reconciled().await;
    assert!(known(&world.service, 1).await);
    // Nobody expected it, so nothing was missed.
    assert_eq!(world.found().await[0].cause, Cause::NotConnected);
    let (db, config) = (world.service.db(), &world.service.parts.config);
    let wrong = look(db, config, &[], world.now()).await.unwrap();
    assert!(
        wrong
            .iter()
            .all(|it| it.condition != Condition::DeliveriesMissed)
    );
    let why = world.row("payment").await.last_error.unwrap();
    assert_eq!(why, "what is older than 30 days, generic does not list");
    let audit = operator::items(&world.service, &["audit", "list"]).await;
    assert!(
        audit.to_string().contains("reconciliation.asked"),
        "{audit}"
    );
    let row = world.row("storefront").await;
    assert!(row.confirmed_until >= world.now().minus(RUN), "{row:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_read_is_taken_once() {
    let mut world = World::start().await;
    let unread = with(
        body(1, 1, "paid"),
        &json!({"updated_at": world.now().to_string(), "line_items": "Canary"}),
    );
    world.has(&unread);
    world.run_later().await;
    let found = world.found().await;
    assert_eq!(found.len(), 1);
    for _ in 0..2 {
        world.run_later().await;
    }
    assert_eq!(world.found().await.len(), 1, "it is taken once");
    world.stop().await;
}

/// An order of `WooCommerce` that changed at a time.
fn woo(id: i64, at: Timestamp, status: &str) -> Value {
    let at = at.to_string();
    let at = at.split('.').next().unwrap();
    json!({
        "id": id, "number": id.to_string(), "date_created_gmt": at, "date_modified_gmt": at, "currency": "USD",
        "total": "30.00", "status": status, "date_paid_gmt": at, "date_completed_gmt": null, "refunds": [],
        "customer_id": 7, "billing": {"email": "canary@example.com"},
        "line_items": [{"id": 1, "quantity": 3, "name": "Mug", "price": 10}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_of_woocommerce_are_found_also_where_many_changed_in_one_second() {
    const FOLDER: &str = "shop.example/en";
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let service = with_connections()
        .clock(&clock)
        .setting("RECONCILE_MINUTES", "15");
    let service = service.start().await;
    let mut wanted = storefront("woo", FOLDER, "the secret of its webhooks");
    wanted.provider = "woocommerce".to_owned();
    wanted.api = Some(connections::api(
        sandbox.storefront_url(),
        "without a colon",
    ));
    let (by, means) = (connections::by(&service), connections::means(&service));
    let refused = operators::connections::add(service.db(), by, &means, wanted.clone());
    assert!(refused.await.is_err());
    wanted.api = Some(connections::api(
        sandbox.storefront_url(),
        WOOCOMMERCE_TOKEN,
    ));
    add(&service, [wanted]).await;
    let mut world = World::of(service, sandbox).await;
    world.pass(MINUTE);
    // A sale was imported: 250 in one second, and some around it.
    let second = world.now();
    for id in 1..=250 {
        world
            .sandbox
            .storefront()
            .remember(&of_woo(FOLDER, &woo(id, second, "processing")));
    }
    for id in 251..=260_i64 {
        let at = second.plus(Duration::from_secs(id.unsigned_abs() - 250));
        world
            .sandbox
            .storefront()
            .remember(&of_woo(FOLDER, &woo(id, at, "processing")));
    }
    world.run_later().await;
    assert_eq!(
        world
            .service
            .count("select count(*) as n from orders")
            .await,
        260
    );
    assert_eq!(world.found().await.len(), 260);
    let paid = "select count(*) as n from orders where financial_status = 'paid' and shop = 'shop.example/en'";
    assert_eq!(world.service.count(paid).await, 260);
    // Nothing is asked of this API but what changed.
    let calls = "select count(*) as n from jobs where kind = 'fulfillments/request'";
    assert_eq!(world.service.count(calls).await, 0);
    world.run_later().await;
    assert_eq!(world.found().await.len(), 260);
    world.stop().await;
}

fn of_woo(shop: &str, order: &Value) -> sandbox::Delivery {
    sandbox::Delivery::storefront("orders/updated", "a-webhook", shop, order.to_string())
}
