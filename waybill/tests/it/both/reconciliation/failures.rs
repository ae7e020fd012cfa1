//! Providers that do not answer, that answer something else, or that want to be asked less.

use std::time::Duration;

use domain::attention::Condition;
use operators::attention::look;
use sandbox::{Answer, Fault};

use super::{RUN, World, known, rounds};

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_cannot_be_asked_is_asked_later_from_where_it_was() {
    for (fault, says) in [
        (Fault::Status(401), "401; check STOREFRONT_API_TOKEN"),
        (Fault::Status(403), "403; check STOREFRONT_API_TOKEN"),
        (Fault::Html, "answered 502"),
        (Fault::Status(500), "answered 500"),
        (Fault::Status(404), "answered 404"),
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
        rounds(&mut world.reconciler).await;
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
    rounds(&mut world.reconciler).await;
    assert!(world.found().await.is_empty());
    world.pass(Duration::from_secs(2));
    rounds(&mut world.reconciler).await;
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
        rounds(&mut world.reconciler).await;
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
    rounds(&mut world.reconciler).await;
    let row = world.row("storefront").await;
    assert!(row.confirmed_until < theirs, "{row:?}");
    world.has(&super::order_at(
        theirs.plus(Duration::from_secs(5)),
        1,
        "paid",
    ));
    world.run_later().await;
    assert!(known(&world.service, 1).await);
    world.stop().await;
}
