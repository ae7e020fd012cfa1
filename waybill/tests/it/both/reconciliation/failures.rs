//! Providers that do not answer, that answer something else, or that want to be asked less.

use std::time::Duration;

use domain::attention::Condition;
use domain::pause::{Provider, Target};
use operators::attention::look;
use operators::connections::remove;
use platform::clock::Clock;
use sandbox::{Answer, Fault, STOREFRONT_TOKEN};
use serde_json::json;
use store::reconciliations;
use workers::reconcile::Reconciler;

use super::{MINUTE, RUN, World, comparing, delivery, known, order_at, rounds, sandbox_at};
use crate::both::connections::{SECRET_A, add, api, by, knows, storefront, with_connections};
use crate::support::order::{deliver, with};
use crate::support::{START, eventually, records, service};

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_cannot_be_asked_is_asked_later_from_where_it_was() {
    for (fault, says) in [
        (Fault::Status(401), "401; check STOREFRONT_API_TOKEN"),
        (Fault::Status(403), "403; check STOREFRONT_API_TOKEN"),
        (Fault::Html, "answered 502"),
        (Fault::Status(500), "answered 500"),
    ] {
        let mut world = World::start().await;
        let before = world.row("storefront").await.confirmed_until;
        world.has(&world.order(1, "paid"));
        let injector = world.sandbox.storefront().fault_injector.clone();
        injector.fail(fault);
        world.run_later().await;
        let row = world.row("storefront").await;
        assert!(
            row.last_error.as_deref().unwrap_or_default().contains(says),
            "{fault}: {row:?}"
        );
        assert_eq!((row.confirmed_until, row.found), (before, 0), "{fault}");
        // An hour later somebody hears of it, and of nothing before.
        let (db, config) = (world.service.db(), &world.service.parts.config);
        let fails = async |world: &World| {
            let found = look(db, config, &[], world.now()).await.unwrap();
            found
                .into_iter()
                .any(|it| it.condition == Condition::ReconciliationFails)
        };
        assert!(!fails(&world).await);
        world.service.clock().advance(Duration::from_mins(61));
        assert!(fails(&world).await);
        injector.clear_faults();
        world.pass(RUN);
        rounds(&world.service, &mut world.reconciler).await;
        world.service.settled().await;
        assert!(known(&world.service, 1).await, "{fault}");
        let row = world.row("storefront").await;
        assert!(
            row.failing_since.is_none() && row.last_error.is_none(),
            "{row:?}"
        );
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_kept_as_the_provider_says_it() {
    let mut world = World::start().await;
    world.has(&world.order(1, "paid"));
    let injector = world.sandbox.storefront().fault_injector.clone();
    let limited = Answer {
        status: 429,
        headers: vec![("Retry-After".to_owned(), "77.0".to_owned())],
        body: String::new(),
    };
    injector.answer_next(1, limited);
    world.pass(RUN);
    world.reconciler.round().await.unwrap();
    let row = world.row("storefront").await;
    assert_eq!(
        row.next_at,
        world.now().plus(Duration::from_secs(77)),
        "{row:?}"
    );
    world.pass(Duration::from_secs(76));
    rounds(&world.service, &mut world.reconciler).await;
    assert!(world.found().await.is_empty());
    world.pass(Duration::from_secs(2));
    rounds(&world.service, &mut world.reconciler).await;
    assert_eq!(world.found().await.len(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_the_provider_forgot_is_asked_for_from_the_beginning() {
    let mut world = World::start().await;
    for id in 1..=150 {
        world.has(&world.order(id, "paid"));
    }
    world.pass(RUN);
    world.reconciler.round().await.unwrap();
    assert!(world.row("storefront").await.page.is_some());
    let injector = world.sandbox.storefront().fault_injector.clone();
    let gone = Answer {
        status: 400,
        headers: Vec::new(),
        body: r#"{"errors":{"page_info":"Invalid value."}}"#.to_owned(),
    };
    injector.answer_next(1, gone);
    for _ in 0..3 {
        rounds(&world.service, &mut world.reconciler).await;
        world.pass(Duration::from_mins(2));
    }
    world.reconciled().await;
    assert_eq!(world.found().await.len(), 150);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_whose_clock_is_behind_loses_nothing() {
    let mut world = World::start().await;
    world.pass(RUN);
    // It dates this by a clock that is ten minutes behind, and so it dates its answers.
    let injector = world.sandbox.storefront().fault_injector.clone();
    let theirs = world.now().minus(Duration::from_mins(10));
    let answer = |orders: String| Answer {
        status: 200,
        headers: vec![
            ("Date".to_owned(), theirs.to_http_date()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ],
        body: format!(r#"{{"orders":[{orders}]}}"#),
    };
    injector.answer_next(1, answer(String::new()));
    rounds(&world.service, &mut world.reconciler).await;
    let row = world.row("storefront").await;
    assert!(row.confirmed_until < theirs, "{row:?}");
    world.has(&order_at(theirs.plus(Duration::from_secs(5)), 1, "paid"));
    world.run_later().await;
    assert!(known(&world.service, 1).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_whose_clock_is_ahead_alarms_nobody() {
    let mut world = World::start().await;
    world.pass(RUN);
    // Its newest order was made a minute ago by its clock, which is five minutes ahead; its webhook is on its way.
    let theirs = world.now().plus(Duration::from_mins(5));
    let order = order_at(theirs.minus(Duration::from_mins(1)), 1, "paid");
    let answer = Answer {
        status: 200,
        headers: vec![
            ("Date".to_owned(), theirs.to_http_date()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ],
        body: format!(r#"{{"orders":[{order}]}}"#),
    };
    let injector = world.sandbox.storefront().fault_injector.clone();
    injector.answer_next(1, answer);
    rounds(&world.service, &mut world.reconciler).await;
    assert!(world.found().await.is_empty());
    world.has(&order);
    world.run_later().await;
    assert_eq!(world.found().await.len(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_without_a_list_is_left_alone_and_alarms_nobody() {
    let mut world = World::start().await;
    let injector = world.sandbox.storefront().fault_injector.clone();
    injector.fail(Fault::Status(404));
    world.run_later().await;
    let row = world.row("storefront").await;
    assert!(
        row.last_error.as_deref().unwrap().contains("no list"),
        "{row:?}"
    );
    assert!(
        row.failing_since.is_none() && row.next_at > world.now().plus(RUN),
        "{row:?}"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_next_page_that_cannot_be_asked_for_is_no_end() {
    let mut world = World::start().await;
    let before = world.row("storefront").await.confirmed_until;
    let answer = Answer {
        status: 200,
        headers: vec![
            (
                "Link".to_owned(),
                r#"<https://shop.example/orders.json?page=2>; rel="next""#.to_owned(),
            ),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ],
        body: r#"{"orders":[]}"#.to_owned(),
    };
    world
        .sandbox
        .storefront()
        .fault_injector
        .answer_next(1, answer);
    world.run_later().await;
    let row = world.row("storefront").await;
    assert_eq!(row.confirmed_until, before);
    assert!(row.last_error.unwrap().contains("next page"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_paused_is_not_asked_and_keeps_nobody_waiting() {
    let mut world = World::start().await;
    let by = by(&world.service);
    let (id, target) = (
        world.service.clock().id(),
        Target::Provider(Provider::Storefront),
    );
    let until = world.now().plus(Duration::from_hours(1));
    let begun = operators::pauses::begin(world.service.db(), by, id, target, until);
    assert!(begun.await.unwrap());
    let before = world.sandbox.storefront().fault_injector.requests();
    world.has(&world.order(1, "pending"));
    world.run_later().await;
    assert_eq!(world.sandbox.storefront().fault_injector.requests(), before);
    let row = world.row("storefront").await;
    assert!(row.last_error.unwrap().contains("paused") && row.next_at > world.now());
    world.pass(Duration::from_hours(1));
    world.reconciled().await;
    assert!(known(&world.service, 1).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_removed_and_added_again_is_compared_again() {
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let service = with_connections()
        .clock(&clock)
        .setting("RECONCILE_MINUTES", "15");
    let service = service.start().await;
    let of = |provider: &str, shops: &[&str]| {
        let mut wanted = storefront("shop-a", "a.example", SECRET_A);
        wanted.provider = provider.to_owned();
        wanted.shops = shops.iter().map(|it| (*it).to_owned()).collect();
        wanted.api = Some(api(sandbox.storefront_url(), STOREFRONT_TOKEN));
        wanted
    };
    add(&service, [of("generic", &["a.example", "b.example"])]).await;
    let mut world = World::of(service, sandbox_at(&clock).await).await;
    let rows = async |world: &World| {
        let all = reconciliations::all(world.service.db()).await.unwrap();
        all.into_iter().map(|it| it.shop).collect::<Vec<_>>()
    };
    assert_eq!(rows(&world).await, ["a.example", "b.example"]);
    let removed = remove(world.service.db(), by(&world.service), "shop-a");
    removed.await.unwrap();
    assert!(rows(&world).await.is_empty());
    eventually("it is known", async || !knows(&world.service, "shop-a")).await;
    world.reconciled().await;
    // Where the address is the shop, the orders of one shop would be taken for those of the other.
    add(&world.service, [of("shopify", &["a.example", "b.example"])]).await;
    world.reconciled().await;
    assert!(rows(&world).await.is_empty());
    let removed = remove(world.service.db(), by(&world.service), "shop-a");
    removed.await.unwrap();
    eventually("it is known", async || !knows(&world.service, "shop-a")).await;
    add(&world.service, [of("shopify", &["a.example"])]).await;
    world.reconciled().await;
    assert_eq!(rows(&world).await, ["a.example"]);
    world.stop().await;
    sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_taken_once_and_hinders_no_other() {
    let mut world = World::start().await;
    // The record of this order is damaged. Nobody writes over it.
    let damaged = world.order(1, "pending");
    deliver(&world.service, &delivery(&damaged)).await;
    records::edit(world.service.db(), "orders", |_| "damaged".to_owned()).await;
    world.pass(RUN);
    // This one says neither when it changed nor when it was made, and the next one is larger than any delivery may be.
    let timeless = with(
        world.order(2, "pending"),
        &json!({"created_at": null, "updated_at": null}),
    );
    let large = with(
        world.order(3, "pending"),
        &json!({"note": "x".repeat(world.service.parts.config.max_body_bytes)}),
    );
    let at = world.now().minus(Duration::from_mins(5));
    let newer = order_at(at, 1, "paid");
    let other = order_at(at, 4, "pending");
    let answer = Answer {
        status: 200,
        headers: vec![
            ("Date".to_owned(), world.now().to_http_date()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ],
        body: format!(r#"{{"orders":[{newer},{timeless},{large},{other}]}}"#),
    };
    let injector = world.sandbox.storefront().fault_injector.clone();
    injector.answer_next(2, answer);
    world.reconciled().await;
    assert!(known(&world.service, 2).await && known(&world.service, 4).await);
    assert!(!known(&world.service, 3).await);
    let row = world.row("storefront").await;
    assert!(row.last_error.unwrap().contains("too large") && row.failing_since.is_none());
    world.run_later().await;
    assert_eq!(world.found().await.len(), 2);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_run_is_scheduled_an_operator_asks_for_each() {
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let options = comparing(service().clock(&clock), &sandbox);
    let mut world = World::of(
        options.setting("RECONCILE_MINUTES", "0").start().await,
        sandbox,
    )
    .await;
    world.has(&world.order(1, "pending"));
    world.pass(Duration::from_hours(24 * 30));
    world.reconciled().await;
    assert!(!known(&world.service, 1).await);
    let asked = operators::reconciliation::ask(world.service.db(), by(&world.service), None, None);
    assert_eq!(asked.await.unwrap(), 2);
    world.reconciled().await;
    assert!(known(&world.service, 1).await);
    // A start with a schedule finds what another one without it has left.
    world.has(&world.order(2, "pending"));
    world.pass(RUN);
    let beside = comparing(service().clock(&clock), &world.sandbox);
    let beside = beside.start_beside(&world.service).await;
    world.reconciler.hand_over().await;
    let mut scheduled = Reconciler::new(beside.parts.clone());
    rounds(&beside, &mut scheduled).await;
    world.service.settled().await;
    assert!(known(&world.service, 2).await);
    beside.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_takes_longer_than_a_call_is_waited_for() {
    let mut world = World::start().await;
    world.has(&world.order(1, "paid"));
    let faults = &world.sandbox.storefront().fault_injector;
    faults.fail_next(1, Fault::Slow(Duration::from_secs(6)));
    world.run_later().await;
    assert_eq!(world.row("storefront").await.failing_since, None);
    assert!(known(&world.service, 1).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_waits_while_the_workers_have_more_to_do_than_they_can() {
    const MANY: i64 = 2_600;
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let options = comparing(service().clock(&clock), &sandbox).without_workers();
    let mut world = World::of(options.start().await, sandbox).await;
    world.pass(MINUTE);
    for id in 1..=MANY {
        world.has(&world.order(id, "paid"));
    }
    world.pass(RUN);
    rounds(&world.service, &mut world.reconciler).await;
    let all = "select count(*) as n from reconciled_deliveries";
    let found = world.service.count(all).await;
    assert!((2_000..2_200).contains(&found), "{found}");
    let row = world.row("storefront").await;
    assert!(row.run_until.is_some(), "{row:?}");
    // The workers have done it.
    let mut tx = world.service.db().begin().await.unwrap();
    let done = "update jobs set state = 'done', notified_at = null where state = 'ready'";
    tx.query(done).execute().await.unwrap();
    tx.commit().await.unwrap();
    world.pass(MINUTE);
    rounds(&world.service, &mut world.reconciler).await;
    assert_eq!(world.service.count(all).await, MANY);
    assert_eq!(world.row("storefront").await.run_until, None);
    // No effect of these jobs is there, so the service is not checked.
    world.service.halt().await;
    world.sandbox.stop().await;
}
