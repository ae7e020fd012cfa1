//! An operator pauses a queue, the calls to a provider, or a shop. Deliveries are accepted all the same, what
//! the pause concerns waits, and it goes on by itself or when the operator ends the pause.

use std::time::Duration;

use domain::job::{Queue, Source, State};
use domain::pause::{LONGEST, Scope, Target};
use domain::time::Timestamp;
use operators::endpoints::{self, WantedEndpoint};
use operators::pauses::{self as flow, Refused};
use sandbox::{Options as SandboxOptions, STOREFRONT_TOKEN, Sandbox};
use serde_json::Value;
use store::audit::{self, By};
use store::jobs::{self, NewJob};
use store::pauses;

use crate::support::delivery::{Delivery, SHOP};
use crate::support::endpoint::StandIn;
use crate::support::job;
use crate::support::operator::{items, refused, said};
use crate::support::order::{body, order_delivery, post_all};
use crate::support::requests::{entry, posted, request};
use crate::support::{Service, eventually, pause, service};

const OTHER: &str = "other.example";
const HOUR: Duration = Duration::from_hours(1);
/// The jobs of orders that were deferred because of a pause.
const DOWN: &str = "select count(*) as n from jobs
    where state = 'ready' and notified_at is null and last_error like '%is paused until%'";

fn order(id: i64, shop: &str) -> Delivery {
    let delivery = order_delivery("orders/create", &body(id, 1, "paid")).of_shop(shop);
    delivery.id(&format!("{shop} {id}"))
}

/// Pauses this by the service's own clock, and waits until its workers know.
async fn paused(service: &Service, scope: Scope, name: &str, length: Duration) {
    let target = Target::new(scope, name).unwrap();
    let begun = begin(service, target, length).await;
    assert!(begun.unwrap());
    heard().await;
}

async fn begin(service: &Service, target: Target, length: Duration) -> Result<bool, Refused> {
    let (db, clock) = (service.db(), service.clock());
    let until = clock.now().plus(length);
    flow::begin(db, by(service), clock.id(), target, until).await
}

fn by(service: &Service) -> By<'_> {
    By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    }
}

/// By then what workers know of pauses is newer than the pause.
async fn heard() {
    pause(Duration::from_millis(1100)).await;
}

async fn down(service: &Service, jobs: i64) {
    eventually("they wait", async || service.count(DOWN).await == jobs).await;
}

async fn done(service: &Service, queue: Queue) -> i64 {
    jobs::count(service.db(), queue, State::Done).await.unwrap()
}

#[tokio::test]
async fn a_paused_queue_takes_deliveries_and_runs_none_until_an_operator_ends_the_pause() {
    let service = service().start().await;
    let begun = said(
        &service,
        &[
            "pauses", "begin", "queue", "orders", "--for", "2h", "--by", "ann",
        ],
    )
    .await;
    assert!(
        begun.starts_with("queue orders is paused until "),
        "{begun}"
    );
    heard().await;
    post_all(&service, &[order(1, SHOP), order(2, OTHER)]).await;
    down(&service, 2).await;
    assert_eq!(done(&service, Queue::Orders).await, 0);
    // Other queues go on.
    let id = posted(&service, &request("customers/data_request", 7)).await;
    eventually("the request is done", async || {
        entry(&service, id).await.state == "done"
    })
    .await;
    let listed = items(&service, &["jobs", "list", "--state", "ready"]).await;
    let why = listed[0]["last_error"].as_str().unwrap().to_owned();
    assert!(
        why.starts_with("queue orders is paused until ") && why.ends_with(" by operator:ann"),
        "{why}"
    );
    let listed = items(&service, &["pauses", "list"]).await;
    assert_eq!(listed[0]["scope"], "queue");
    assert_eq!(listed[0]["name"], "orders");
    assert_eq!(listed[0]["actor"], "operator:ann");
    assert!(
        said(&service, &["pauses", "list"])
            .await
            .contains("operator:ann")
    );

    let ended = said(
        &service,
        &["pauses", "end", "queue", "orders", "--by", "bo"],
    )
    .await;
    assert!(ended.contains("goes on"), "{ended}");
    service.drained().await;
    assert_eq!(done(&service, Queue::Orders).await, 2);
    let errors = "select count(*) as n from jobs where queue = 'orders' and last_error is not null";
    assert_eq!(
        service.count(errors).await,
        0,
        "nothing is said of a pause that is over"
    );
    assert_eq!(
        items(&service, &["pauses", "list"]).await,
        Value::Array(Vec::new())
    );
    let entries = audit::newest(service.db(), 100).await.unwrap();
    let trail: Vec<_> = entries
        .iter()
        .filter(|entry| entry.action.starts_with("pause."))
        .map(|entry| (entry.action.as_str(), entry.actor.as_str()))
        .collect();
    assert_eq!(
        trail,
        [
            ("pause.ended", "operator:bo"),
            ("pause.began", "operator:ann")
        ]
    );
    service.stop().await;
}

#[tokio::test]
async fn a_pause_ends_by_itself_and_a_second_one_moves_its_end() {
    let service = service().manual_clock().start().await;
    paused(&service, Scope::Queue, "orders", HOUR).await;
    post_all(&service, &[order(1, SHOP)]).await;
    down(&service, 1).await;
    // It is longer now: what waited for the former end waits for this one.
    paused(&service, Scope::Queue, "orders", 3 * HOUR).await;
    assert_eq!(
        pauses::in_force(service.db(), service.clock().now())
            .await
            .unwrap()
            .len(),
        1
    );
    service.clock().advance(HOUR + Duration::from_secs(1));
    post_all(&service, &[order(2, SHOP)]).await;
    down(&service, 2).await;
    assert_eq!(done(&service, Queue::Orders).await, 0);
    service.clock().advance(2 * HOUR);
    service.drained().await;
    assert_eq!(done(&service, Queue::Orders).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_paused_shop_delays_no_other_and_none_of_its_privacy_requests() {
    let service = service().manual_clock().start().await;
    paused(&service, Scope::Shop, SHOP, HOUR).await;
    post_all(&service, &[order(1, SHOP), order(1, OTHER)]).await;
    let id = posted(&service, &request("customers/data_request", 7)).await;
    down(&service, 1).await;
    eventually(
        "the other shop's order and the request are done",
        async || {
            done(&service, Queue::Orders).await == 1 && entry(&service, id).await.state == "done"
        },
    )
    .await;
    let theirs = "select count(*) as n from orders where shop = 'other.example'";
    assert_eq!(service.count(theirs).await, 1);
    service.clock().advance(HOUR);
    service.drained().await;
    service.stop().await;
}

#[tokio::test]
async fn while_a_provider_is_paused_nothing_is_asked_of_it_and_everything_else_goes_on() {
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let service = service()
        .manual_clock()
        .setting("STOREFRONT_API_URL", &sandbox.storefront_url())
        .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN)
        .start()
        .await;
    paused(&service, Scope::Provider, "storefront", HOUR).await;
    let paid = order_delivery("orders/paid", &body(1, 1, "paid"));
    post_all(&service, &[paid]).await;
    down(&service, 1).await;
    assert_eq!(
        done(&service, Queue::Orders).await,
        1,
        "the delivery itself"
    );
    assert_eq!(sandbox.storefront().created().len(), 0);
    let target = Target::new(Scope::Provider, "storefront").unwrap();
    assert!(
        flow::end(service.db(), by(&service), &target)
            .await
            .unwrap()
    );
    eventually("the fulfilment was requested", async || {
        sandbox.storefront().created().len() == 1
    })
    .await;
    service.drained().await;
    service.stop().await;
}

#[tokio::test]
async fn while_the_queue_of_endpoints_is_paused_they_get_nothing_and_then_everything_in_order() {
    let options = service().manual_clock();
    let service = options
        .setting("ENDPOINT_NETWORKS", "127.0.0.0/8")
        .start()
        .await;
    let stand_in = StandIn::start(200).await;
    let new = WantedEndpoint {
        id: service.clock().id(),
        url: &stand_in.url,
        types: Vec::new(),
        since: None,
    };
    let allowed = &service.parts.config.endpoints;
    let added = endpoints::add(service.db(), by(&service), service.clock(), allowed, new).await;
    assert!(added.is_ok());
    paused(&service, Scope::Queue, "endpoints", HOUR).await;
    post_all(&service, &[order(1, SHOP), order(2, SHOP)]).await;
    service.drained().await;
    heard().await;
    assert_eq!(stand_in.requests(), 0);
    let target = Target::new(Scope::Queue, "endpoints").unwrap();
    assert!(
        flow::end(service.db(), by(&service), &target)
            .await
            .unwrap()
    );
    let events = service.count("select count(*) as n from events").await;
    let events = usize::try_from(events).unwrap();
    eventually("all are delivered", async || stand_in.ids().len() == events).await;
    stand_in.in_order(service.db()).await;
    service.stop().await;
}

#[tokio::test]
async fn a_process_that_starts_within_a_pause_runs_nothing_that_it_concerns() {
    let mut service = service().manual_clock().without_workers().start().await;
    post_all(&service, &[order(1, SHOP), order(2, SHOP)]).await;
    let target = Target::new(Scope::Queue, "orders").unwrap();
    assert!(begin(&service, target, HOUR).await.unwrap());
    service.start_workers();
    // Those that were never notified are found by the sweep, which is also put off by nothing else.
    service.clock().advance(Duration::from_secs(10));
    down(&service, 2).await;
    assert_eq!(done(&service, Queue::Orders).await, 0);
    service.clock().advance(HOUR);
    service.drained().await;
    service.stop().await;
}

#[tokio::test]
async fn however_many_jobs_wait_all_are_due_when_the_pause_is_ended() {
    const JOBS: i64 = 2500;
    let mut service = service().manual_clock().without_workers().start().await;
    let target = Target::new(Scope::Queue, "orders").unwrap();
    assert!(begin(&service, target.clone(), HOUR).await.unwrap());
    post_all(&service, &[order(1, SHOP)]).await;
    let until = service.clock().now().plus(HOUR);
    let paused = |_| NewJob {
        created_at: Timestamp(1),
        ..job::ready(
            service.clock().id(),
            Queue::Orders,
            Source::Storefront,
            "orders/create",
            until,
        )
    };
    job::insert(service.db(), &(0..JOBS).map(paused).collect::<Vec<_>>()).await;
    service
        .execute(
            "update jobs set last_error = 'queue orders is paused until then' where created_at = 1",
        )
        .await;
    assert!(
        flow::end(service.db(), by(&service), &target)
            .await
            .unwrap()
    );
    service.start_workers();
    eventually("all are due", async || service.count(DOWN).await == 0).await;
    service.halt().await;
}

#[tokio::test]
async fn what_cannot_be_paused_is_refused_with_what_can() {
    let service = service().without_workers().start().await;
    for (arguments, expected) in [
        (
            vec!["queue", "mail"],
            "they are orders, payments, privacy and endpoints",
        ),
        (
            vec!["provider", "orders"],
            "they are storefront, payment and mail",
        ),
        (vec!["shop", "two words"], "it is no shop domain"),
        (vec!["queue", "orders", "--for", "8d"], "within seven days"),
        (vec!["queue", "orders", "--for", "0s"], "within seven days"),
    ] {
        let all = [&["pauses", "begin"], arguments.as_slice()].concat();
        let (code, error) = refused(&service, &all).await;
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let (code, error) = refused(&service, &["pauses", "end", "shop", SHOP]).await;
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("`waybill pauses list`"), "{error}");
    assert!(
        said(&service, &["pauses", "list"])
            .await
            .contains("Nothing is paused.")
    );
    let longest = begin(&service, Target::Queue(Queue::Orders), LONGEST).await;
    assert!(longest.unwrap());
    service.stop().await;
}
