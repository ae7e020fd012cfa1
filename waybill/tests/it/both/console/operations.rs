//! Operations on all jobs of a filter: confirmed in the console, carried out by whoever has the lease, stopped and undone.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::api_key::Role;
use domain::job::State;
use operators::operations::{self, LEASE, Runner, Step};
use store::bulk_operations::{self, Change, Operation};
use uuid::Uuid;

use super::writes::{by, confirmed, job, operation, signed_in, trail};
use crate::support::operator::{dead_orders, said};
use crate::support::{Service, eventually, service};

#[tokio::test]
async fn all_jobs_of_a_list_run_again_ten_seconds_after_somebody_confirmed_it() {
    let mut service = service().without_workers().manual_clock().start().await;
    dead_orders(&service, 5).await;
    service.clock().advance(Duration::from_mins(1));
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let list = console.shown(&session, "/dead?kind=orders%2F*").await;
    assert!(list.contains("Requeue all of these"), "{list}");
    let page = console
        .shown(&session, "/dead/all/requeue?kind=orders%2F*")
        .await;
    assert!(page.contains("Requeue 5 jobs?"), "{page}");
    assert!(page.contains("--before "), "{page}");
    let field = |name: &str| {
        let (_, rest) = page
            .split_once(&format!("name=\"{name}\" value=\""))
            .unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let (until, id) = (field("until"), field("id"));
    let fields = [
        ("token", token.as_str()),
        ("kind", "orders/*"),
        ("until", &until),
        ("id", &id),
        ("rate", "50"),
    ];
    for _ in 0..2 {
        let answer = session
            .send(console.post("/dead/all/requeue", &fields))
            .await;
        assert_eq!(answer.status(), 303);
    }
    assert_eq!(
        bulk_operations::list(service.db(), 9).await.unwrap().len(),
        1
    );
    let path = format!("/operations/{id}");
    let page = console.shown(&session, &path).await;
    assert!(
        page.contains("waiting") && page.contains("Undo</button>"),
        "{page}"
    );
    assert_eq!(service.jobs(State::Dead).await, 5);
    service.clock().advance(Duration::from_secs(11));
    let id: Uuid = id.parse().unwrap();
    eventually("the operation is done", async || {
        operation(&service, id).await.state == bulk_operations::State::Done
    })
    .await;
    let done = operation(&service, id).await;
    assert_eq!((done.found, done.done, done.passed_over), (Some(5), 5, 0));
    assert_eq!(service.jobs(State::Ready).await, 5);
    let page = console.shown(&session, &path).await;
    assert!(
        !page.contains("Undo</button>") && page.contains("done"),
        "{page}"
    );
    let requeued = trail(&service, "jobs.requeued").await;
    assert!(requeued.iter().all(|entry| entry.actor == "operator:ann"));
    let list = said(&service, &["operations", "list"]).await;
    assert!(list.contains(&id.to_string()), "{list}");
    service.stop().await;
}

fn runner(service: &Service) -> Runner<'_> {
    Runner {
        db: service.db(),
        bus: &service.parts.bus,
        clock: service.clock(),
        keys: &service.parts.keys,
        holder: service.clock().id(),
    }
}

/// Six dead jobs, and an operation about them that begins now and takes two at a time.
pub(super) async fn begun(service: &Service) -> Operation {
    dead_orders(service, 6).await;
    service.clock().advance(Duration::from_mins(1));
    let operation = confirmed(service, "orders/create", 8).await;
    assert_eq!(runner(service).step().await.unwrap(), Step::Idle, "not yet");
    service.clock().advance(operations::GRACE);
    operation
}

#[tokio::test]
async fn an_operation_whose_process_dies_is_gone_on_with_and_changes_each_job_once() {
    let service = service().without_workers().manual_clock().start().await;
    let id = begun(&service).await.id;
    let (first, second) = (runner(&service), runner(&service));
    assert_eq!(
        first.step().await.unwrap(),
        Step::Worked(Duration::from_millis(250)),
        "two jobs, at eight a second"
    );
    assert_eq!(second.step().await.unwrap(), Step::Idle, "one at a time");
    assert_eq!(operation(&service, id).await.done, 2);
    // Both die again meanwhile. They are not taken a second time.
    let now = service.clock().now();
    let mut tx = service.db().begin().await.unwrap();
    let dead = tx
        .query("update jobs set state = 'dead', finished_at = $1 where state = 'ready'")
        .bind(now.0);
    assert_eq!(dead.execute().await.unwrap(), 2);
    tx.commit().await.unwrap();
    // The first process is gone, and its lease ends.
    service.clock().advance(LEASE);
    let mut steps = 0;
    while operation(&service, id).await.state != bulk_operations::State::Done {
        assert_ne!(second.step().await.unwrap(), Step::Idle);
        steps += 1;
        assert!(steps < 10);
    }
    // And it comes back late.
    assert_eq!(first.step().await.unwrap(), Step::Idle);
    let done = operation(&service, id).await;
    assert_eq!((done.done, done.passed_over, done.refused), (6, 0, 0));
    assert_eq!(service.jobs(State::Dead).await, 2, "those that died again");
    let mut ids = Vec::new();
    for entry in trail(&service, "jobs.requeued").await {
        let jobs = entry.details["ids"].as_array().unwrap().clone();
        ids.extend(jobs.into_iter().map(|id| id.as_str().unwrap().to_owned()));
    }
    let each: BTreeSet<_> = ids.iter().cloned().collect();
    assert_eq!((ids.len(), each.len()), (6, 6), "each once");
    service.stop().await;
}

/// As when a process stands still between reading an operation and its batch.
#[tokio::test]
async fn a_batch_of_an_operation_that_has_changed_since_it_was_read_is_not_done() {
    let service = service().without_workers().manual_clock().start().await;
    let id = begun(&service).await.id;
    let may_go_on = async |seen: &Operation| {
        let mut tx = service.db().begin().await.unwrap();
        let may = bulk_operations::lock(&mut tx, seen).await.unwrap();
        tx.rollback().await.unwrap();
        may
    };
    let unbegun = operation(&service, id).await;
    assert!(may_go_on(&unbegun).await);
    let runner = runner(&service);
    runner.step().await.unwrap();
    assert!(!may_go_on(&unbegun).await, "another one has begun it");
    let begun = operation(&service, id).await;
    runner.step().await.unwrap();
    assert!(!may_go_on(&begun).await, "another one has done this batch");
    let seen = operation(&service, id).await;
    assert!(may_go_on(&seen).await);
    said(&service, &["operations", "stop", &id.to_string()]).await;
    assert!(!may_go_on(&seen).await, "somebody has stopped it");
    service.stop().await;
}

#[tokio::test]
async fn a_job_that_somebody_else_ran_again_meanwhile_is_passed_over() {
    let service = service().without_workers().manual_clock().start().await;
    let id = begun(&service).await.id;
    let one = job(&service, "w-4").await.id;
    said(&service, &["dead", "requeue", &one.to_string()]).await;
    let runner = runner(&service);
    while operation(&service, id).await.state != bulk_operations::State::Done {
        runner.step().await.unwrap();
    }
    let done = operation(&service, id).await;
    assert_eq!((done.found, done.done, done.passed_over), (Some(6), 5, 1));
    service.stop().await;
}

#[tokio::test]
async fn an_operation_is_stopped_goes_on_and_is_undone_only_before_it_did_anything() {
    let service = service().without_workers().manual_clock().start().await;
    let id = begun(&service).await.id;
    let runner = runner(&service);
    let text = id.to_string();
    runner.step().await.unwrap();
    said(&service, &["operations", "stop", &text, "--by", "bob"]).await;
    assert_eq!(runner.step().await.unwrap(), Step::Idle);
    assert_eq!(operation(&service, id).await.done, 2);
    let by = by(&service);
    let change = async |id, change| {
        bulk_operations::change(service.db(), by, id, change)
            .await
            .unwrap()
    };
    assert!(!change(id, Change::Undo).await, "it has done something");
    assert!(change(id, Change::Resume).await);
    while operation(&service, id).await.state != bulk_operations::State::Done {
        runner.step().await.unwrap();
    }
    assert_eq!(operation(&service, id).await.done, 6);
    assert!(!change(id, Change::Stop).await && !change(id, Change::Resume).await);
    service
        .execute("update jobs set state = 'dead', finished_at = created_at + 7")
        .await;
    let other = confirmed(&service, "orders/create", 8).await.id;
    assert!(change(other, Change::Undo).await);
    service.clock().advance(Duration::from_mins(1));
    assert_eq!(runner.step().await.unwrap(), Step::Idle);
    assert_eq!(service.jobs(State::Dead).await, 6);
    let actions = [
        "operation.confirmed",
        "operation.stopped",
        "operation.undone",
    ];
    for (action, entries) in actions.into_iter().zip([2, 1, 1]) {
        assert_eq!(trail(&service, action).await.len(), entries, "{action}");
    }
    let stopped = trail(&service, "operation.stopped").await;
    assert_eq!(stopped[0].actor, "operator:bob");
    service.stop().await;
}
