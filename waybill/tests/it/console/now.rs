//! What needs somebody now: which jobs fail, and what the doctor says; and how little is looked through for one
//! page, however many jobs are dead.

use std::time::Duration;

use domain::api_key::Role;
use domain::job::{JobId, Queue, Source};
use domain::time::Timestamp;
use operators::endpoints::WantedEndpoint;
use serde_json::Value;
use store::audit::By;
use store::jobs::NewJob;
use store::leases;
use uuid::Uuid;

use crate::support::console::{Console, Session, role};
use crate::support::job;
use crate::support::operator;
use crate::support::order::{body, order_delivery, post_all};
use crate::support::{START, Service, service};

async fn signed_in(service: &mut Service) -> (Console, Session) {
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    (console, session)
}

async fn list(console: &Console, session: &Session, path: &str) -> Value {
    serde_json::from_str(&console.shown(session, path).await).unwrap()
}

/// A call to a provider.
async fn call(service: &Service, number: u128, kind: &str, state: &str, run_at: i64) -> JobId {
    let id = Uuid::from_u128(number);
    let new = job::ready(id, Queue::Orders, Source::Internal, kind, Timestamp(run_at));
    let new = NewJob {
        object_id: Some("7".to_owned()),
        ..new
    };
    job::insert(service.db(), &[new]).await;
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "update jobs set state = $1, attempts = 3, last_error = 'left alone for a moment'
         where id = $2",
    )
    .bind(state)
    .bind(id)
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
    id
}

async fn attempt(service: &Service, job: JobId, number: i64, at: i64, error: &str) {
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "insert into job_attempts (job_id, number, started_at, duration_ms, outcome, error, status)
         values ($1, $2, $3, 7, 'retried', $4, 503)",
    )
    .bind(job)
    .bind(number)
    .bind(at)
    .bind(error)
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn calls_that_fail_are_listed_with_their_last_error_where_the_first_page_leads() {
    let mut service = service().without_workers().manual_clock().start().await;
    let (now, minute) = (START.0, 60_000);
    let fails = call(&service, 1, "refunds/issue", "ready", now + minute).await;
    attempt(
        &service,
        fails,
        1,
        now - 2 * minute,
        "the first answer was 500",
    )
    .await;
    attempt(&service, fails, 2, now - minute, "the last answer was 503").await;
    let other = call(&service, 2, "fulfillments/request", "ready", now + minute).await;
    attempt(&service, other, 1, now - minute, "the answer was 404").await;
    let done = call(&service, 3, "refunds/issue", "done", now).await;
    attempt(&service, done, 1, now - minute, "it was done after this").await;
    let long_ago = call(&service, 4, "refunds/issue", "ready", now + minute).await;
    attempt(
        &service,
        long_ago,
        1,
        now - 61 * minute,
        "this was long ago",
    )
    .await;
    let (console, session) = signed_in(&mut service).await;
    let page = console.shown(&session, "/").await;
    let link = "/failing?kind=refunds%2Fissue";
    assert!(page.contains(&format!("href=\"{link}\"")), "{page}");
    let found = list(&console, &session, &format!("{link}&format=json")).await;
    let items = found["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{found}");
    assert_eq!(items[0]["job"], fails.to_string());
    assert_eq!(items[0]["error"], "the last answer was 503");
    assert_eq!(items[0]["status"], 503);
    let all = list(&console, &session, "/failing?format=json").await;
    let jobs: Vec<_> = all["items"].as_array().unwrap().iter().collect();
    assert_eq!(jobs.len(), 2, "{all}");
    assert_eq!(jobs[0]["job"], other.to_string(), "{all}");
    let before = format!("/failing?format=json&after={}.{other}", now - minute);
    let rest = list(&console, &session, &before).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1, "{rest}");
    let (status, _) = console.page(&session, "/failing?after=nothing").await;
    assert_eq!(status, 400);
    service.stop().await;
}

#[tokio::test]
async fn the_first_page_says_what_the_doctor_finds_and_shows_the_last_hour() {
    let mut service = service().without_workers().manual_clock().start().await;
    let by = By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    };
    let new = WantedEndpoint {
        id: service.clock().id(),
        url: "https://shop.example/hooks",
        types: Vec::new(),
        since: None,
    };
    let allowed = &service.parts.config.endpoints;
    let added = operators::endpoints::add(service.db(), by, service.clock(), allowed, new).await;
    added.unwrap();
    let (console, session) = signed_in(&mut service).await;
    let nobody = "there are endpoints, and no process sends to them";
    let page = console.shown(&session, "/").await;
    assert!(
        page.contains(nobody) && !page.contains("All is well"),
        "{page}"
    );
    assert!(page.contains("svg class=\"chart\""), "{page}");
    assert!(
        page.contains("Settings that <code>waybill doctor</code> warns of"),
        "{page}"
    );
    let holder = service.clock().id();
    let (now, half) = (service.clock().now(), Duration::from_secs(30));
    let held = leases::take(service.db(), leases::WEBHOOKS, holder, now, now.plus(half));
    assert!(held.await.unwrap());
    let page = console.shown(&session, "/").await;
    assert!(
        page.contains(nobody),
        "it is looked up every ten seconds: {page}"
    );
    service.clock().advance(Duration::from_secs(10));
    let page = console.shown(&session, "/").await;
    assert!(!page.contains(nobody), "{page}");
    service.stop().await;
}

/// More dead jobs of one queue than are looked through for one page, and few of another.
async fn many_are_dead(service: &Service) {
    let few: Vec<_> = (1..=5)
        .map(|id| order_delivery("orders/create", &body(id, 0, "pending")).id(&format!("w-{id}")))
        .collect();
    post_all(service, &few).await;
    service
        .execute(
            "update jobs set state = 'dead', last_error = 'rare', finished_at = 1000, queue = 'orders'
             where id in (select id from deliveries where external_id in ('w-1', 'w-2', 'w-3'))",
        )
        .await;
    service
        .execute(
            "update jobs set state = 'dead', last_error = 'rare', finished_at = 900, queue = 'payments'
             where id in (select id from deliveries where external_id = 'w-4')",
        )
        .await;
    service
        .execute(
            "update jobs set state = 'dead', last_error = 'rare', finished_at = 900000, queue = 'payments'
             where id in (select id from deliveries where external_id = 'w-5')",
        )
        .await;
    let usual = |number: u32| {
        let (id, at) = (
            Uuid::from_u128(1 + u128::from(number)),
            Timestamp(10_000 + i64::from(number)),
        );
        let kind = "orders/updated";
        job::ready(id, Queue::Orders, Source::Storefront, kind, at)
    };
    job::insert(service.db(), &(0..2600).map(usual).collect::<Vec<_>>()).await;
    service
        .execute(
            "update jobs set state = 'dead', attempts = 12, last_error = 'usual', finished_at = run_at
             where kind = 'orders/updated'",
        )
        .await;
}

#[tokio::test]
async fn a_page_of_dead_jobs_looks_through_so_many_and_the_next_goes_on_where_it_ended() {
    let mut service = service().without_workers().start().await;
    many_are_dead(&service).await;
    let (console, session) = signed_in(&mut service).await;
    let first = list(&console, &session, "/dead?error=rare&format=json").await;
    let items = first["items"].as_array().unwrap();
    // What died in another queue before the last that was looked through is not before its turn.
    assert_eq!(items.len(), 1, "{first}");
    let next = first["next"].as_str().unwrap();
    let page = console.shown(&session, "/dead?error=rare").await;
    let note = "At most 10,000 dead jobs are looked through for one page";
    assert!(page.contains(note) && page.contains("Next page"), "{page}");
    let second = format!("/dead?error=rare&format=json&after={next}");
    let second = list(&console, &session, &second).await;
    let items = second["items"].as_array().unwrap();
    assert_eq!(items.len(), 4, "{second}");
    assert_eq!(second["next"], Value::Null);
    let of_queue = list(
        &console,
        &session,
        "/dead?error=rare&queue=orders&format=json",
    )
    .await;
    assert_eq!(of_queue["items"].as_array().unwrap().len(), 3, "{of_queue}");
    // The command goes on until it has as many as it is asked for.
    let all = operator::items(&service, &["dead", "list", "--error", "rare"]).await;
    let all = all.as_array().unwrap();
    let died: Vec<_> = all.iter().map(|job| job["finished_at"].as_str()).collect();
    let expected = [900_000, 1000, 1000, 1000, 900].map(|at| Timestamp(at).to_string());
    assert_eq!(died, expected.each_ref().map(|at| Some(at.as_str())));
    service.stop().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_the_rest_is_shown() {
    let mut service = service().without_workers().start().await;
    many_are_dead(&service).await;
    service.execute("alter table pauses rename to away").await;
    let (console, session) = signed_in(&mut service).await;
    let page = console.shown(&session, "/").await;
    assert!(page.contains("Not known: what is paused"), "{page}");
    assert!(page.contains("Dead: orders/updated"), "{page}");
    // The menu of any other page counts what can be counted.
    let page = console.shown(&session, "/orders").await;
    assert!(page.contains("Dead jobs <span class=\"count\">"), "{page}");
    service.stop().await;
}
