//! `waybill jobs list` and `waybill jobs run-now`.

use std::time::Duration;

use domain::job::{JobId, LEASE, State};
use serde_json::Value;
use store::{audit, job_attempts, jobs};

use crate::support::backend::{is_distributed, statement};
use crate::support::delivery::{SHOP, order};
use crate::support::operator::{items, json, refused, said};
use crate::support::order::{body, order_delivery, post_all};
use crate::support::requests::{posted, request};
use crate::support::{Service, eventually, pause, service};

const OTHER: &str = "other.example";

fn ids(list: &Value) -> Vec<&str> {
    let jobs = list.as_array().unwrap().iter();
    jobs.map(|job| job["id"].as_str().unwrap()).collect()
}

async fn set(service: &Service, id: JobId, fields: &str) {
    let id = if is_distributed() {
        format!("'{id}'")
    } else {
        format!("x'{}'", id.simple())
    };
    service
        .execute(statement(format!(
            "update jobs set {fields} where id = {id}"
        )))
        .await;
}

async fn only(service: &Service) -> JobId {
    let rows = service.db().query("select id from jobs").fetch_all().await;
    let rows = rows.unwrap();
    assert_eq!(rows.len(), 1);
    rows[0].get("id").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_page_by_page_by_what_they_are_about_and_when_they_came() {
    let service = service().without_workers().start().await;
    for (id, shop) in [(1, SHOP), (2, SHOP), (1, OTHER), (1, SHOP), (3, SHOP)] {
        let delivery = order_delivery("orders/create", &body(id, 1, "pending")).of_shop(shop);
        post_all(&service, &[delivery]).await;
        // Deliveries of one millisecond are listed in any sequence.
        pause(Duration::from_millis(2)).await;
    }
    let all = items(&service, &["jobs", "list"]).await;
    let all = ids(&all);
    assert_eq!(all.len(), 5);
    for (arguments, expected) in [
        (&["--object", "1"][..], vec![1, 2, 4]),
        (&["--object", "1", "--shop", SHOP], vec![1, 4]),
        (&["--shop", OTHER], vec![2]),
        (&["--object", "4"], vec![]),
        (&["--object", "1", "--state", "done"], vec![]),
        (&["--kind", "orders/*"], vec![0, 1, 2, 3, 4]),
        (&["--kind", "ORDERS/CREATE", "--object", "1"], vec![1, 2, 4]),
        (&["--kind", "orders/%"], vec![]),
        (&["--since", "1h"], vec![0, 1, 2, 3, 4]),
        (&["--since", "1h", "--object", "3"], vec![0]),
        (&["--before", "1h"], vec![]),
        (&["--since", "2020-01-01", "--before", "2021-01-01"], vec![]),
        (
            &["--since", "2020-01-01", "--before", "2999-01-01"],
            vec![0, 1, 2, 3, 4],
        ),
    ] {
        let found = items(&service, &[&["jobs", "list"], arguments].concat()).await;
        let expected: Vec<&str> = expected.into_iter().map(|nth: usize| all[nth]).collect();
        assert_eq!(ids(&found), expected, "{arguments:?}");
    }
    // Page by page, while others arrive.
    let mut read: Vec<String> = Vec::new();
    loop {
        let mut arguments = vec!["jobs", "list", "--limit", "2"];
        if let Some(last) = read.last() {
            arguments.extend(["--after", last.as_str()]);
        }
        let page = items(&service, &arguments).await;
        let text = said(&service, &arguments).await;
        let page: Vec<String> = ids(&page).into_iter().map(str::to_owned).collect();
        let hint = page.last().filter(|_| page.len() == 2);
        let hint = hint.map(|id| format!("--after={id}"));
        assert!(hint.is_none_or(|hint| text.contains(&hint)), "{text}");
        if page.is_empty() {
            break;
        }
        read.extend(page);
        post_all(&service, &[order("orders/create", 9)]).await;
    }
    assert_eq!(read, all);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_its_next_try_is_run_at_once_when_an_operator_says_so() {
    let mut service = service().without_workers().start().await;
    post_all(&service, &[order("orders/create", 1)]).await;
    let id = only(&service).await;
    // As a failed run leaves it.
    let mut tx = service.db().begin().await.unwrap();
    let later = service.clock().now().plus(Duration::from_hours(2));
    let error = "the shelf is away";
    assert!(
        jobs::retry(&mut tx, id, 1, later, None, error)
            .await
            .unwrap()
    );
    let attempt = job_attempts::NewAttempt {
        started_at: service.clock().now(),
        duration_ms: 5,
        outcome: job_attempts::Outcome::Retried,
        error,
        status: None,
    };
    job_attempts::add(&mut tx, id, &attempt).await.unwrap();
    tx.commit().await.unwrap();
    service.start_workers();
    let listed = said(&service, &["jobs", "list"]).await;
    assert!(listed.contains("NEXT RUN"), "{listed}");
    assert!(listed.contains("in 1h"), "{listed}");
    let id = id.to_string();
    let made = said(&service, &["jobs", "run-now", &id, "--by", "ann"]).await;
    assert!(made.contains("is due now"), "{made}");
    eventually("it is done", async || service.jobs(State::Done).await == 1).await;
    let entries = audit::list(service.db(), Some(&id), 0, 10).await.unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.action == "jobs.run_now")
        .expect("the audit says it");
    assert_eq!(entry.actor, "operator:ann");
    assert_eq!(entry.shop.as_deref(), Some(SHOP));
    assert_eq!(entry.details["kind"], "orders/create");
    assert_eq!(entry.details["attempts"], 1);
    let chain = audit::verify(service.db(), &service.parts.keys).await;
    assert!(chain.unwrap().broken.is_none());
    // What it failed of before stays to be read.
    let job = json(&service, &["jobs", "show", &id]).await;
    assert_eq!(job["history"][0]["outcome"], "retried");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_now_is_refused_with_the_reason_and_stays_as_it_is() {
    let service = service().without_workers().start().await;
    post_all(&service, &[order("orders/create", 1)]).await;
    let id = only(&service).await;
    let now = service.clock().now();
    let at = |later: Duration| now.plus(later).0;
    let hour = Duration::from_hours(1);
    let failed = "attempts = 2, last_error = 'the shelf is away'";
    let cases = [
        (
            format!("state = 'done', finished_at = {}", now.0),
            "jobs requeue",
        ),
        (
            format!("state = 'dead', finished_at = {}", now.0),
            "dead requeue",
        ),
        (
            format!(
                "state = 'done', finished_at = {0}, discarded_at = {0}",
                now.0
            ),
            "discarded",
        ),
        (
            format!("state = 'ready', run_at = {}", at(hour)),
            "on purpose",
        ),
        (
            format!(
                "run_at = {}, {failed}, unfinished_attempts = 1",
                at(LEASE / 2)
            ),
            "may be running",
        ),
    ];
    for (fields, reason) in cases {
        let whole = "state = 'ready', attempts = 0, unfinished_attempts = 0, last_error = null,
                     finished_at = null, discarded_at = null";
        set(&service, id, whole).await;
        set(&service, id, &fields).await;
        let before = json(&service, &["jobs", "show", &id.to_string()]).await;
        let (code, text) = refused(&service, &["jobs", "run-now", &id.to_string()]).await;
        assert_eq!(code, 1, "{fields}");
        assert!(text.contains(reason), "{fields}: {text}");
        let after = json(&service, &["jobs", "show", &id.to_string()]).await;
        assert_eq!(before, after, "{fields}");
    }
    let unknown = "01a3185c-5000-7cc3-98c4-dc0c0c07398f";
    let (code, text) = refused(&service, &["jobs", "run-now", unknown]).await;
    assert_eq!(code, 1);
    assert!(text.contains("there is no job"), "{text}");
    let entries = audit::newest(service.db(), 100).await.unwrap();
    assert!(entries.iter().all(|entry| entry.action != "jobs.run_now"));
    // A claim that has run out is no claim, and one that lies far ahead is a failed job's pause.
    for later in [Duration::ZERO, hour] {
        let fields = format!("run_at = {}, {failed}, unfinished_attempts = 1", at(later));
        set(&service, id, &fields).await;
        said(&service, &["jobs", "run-now", &id.to_string()]).await;
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_erasure_of_a_shop_that_is_held_is_not_hurried() {
    let service = service().start().await;
    let id = posted(&service, &request("shop/redact", 7)).await;
    eventually("it is held", async || {
        let held = "select count(*) as n from privacy_requests where state = 'held'";
        service.count(held).await == 1
    })
    .await;
    let (code, text) = refused(&service, &["jobs", "run-now", &id.to_string()]).await;
    assert_eq!(code, 1);
    assert!(text.contains("waybill privacy show"), "{text}");
    service.stop().await;
}
