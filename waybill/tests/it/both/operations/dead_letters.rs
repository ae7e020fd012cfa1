//! `waybill dead` shows dead jobs, runs them again, and discards them.

use std::process::Stdio;
use std::time::Duration;

use domain::job::{JobId, Queue, State};
use serde_json::{Value, json as value};
use store::jobs::ended;
use store::jobs::operate::{self, Action};
use store::privacy_requests::By;
use store::{audit, jobs};
use uuid::Uuid;

use crate::support::backend::is_distributed;
use crate::support::delivery::order;
use crate::support::operator::{dead_orders, items, json, parsed, ran, refused, said, waybill};
use crate::support::order::{body, deliver, order_delivery, post_all, with};
use crate::support::records::with_page;
use crate::support::requests::{entry, give_up, posted, request};
use crate::support::{Service, eventually, service};

async fn trail(service: &Service, action: &str) -> Vec<audit::AuditEntry> {
    let entries = audit::newest(service.db(), 1000).await.unwrap();
    let its = entries.into_iter().filter(|entry| entry.action == action);
    its.collect()
}

fn ids_of(texts: &Value) -> Vec<String> {
    serde_json::from_value(texts.clone()).unwrap()
}

fn ids(list: &Value) -> Vec<String> {
    let jobs = list.as_array().unwrap().iter();
    jobs.map(|job| job["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn one_of_everything(service: &Service, orders: i64) {
    for counted in [
        "select count(*) as n from orders",
        "select count(*) as n from events where kind = 'order.created'",
    ] {
        assert_eq!(service.count(counted).await, orders, "{counted}");
    }
    assert_eq!(with_page(service.db()).await, orders);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_says_what_died_of_what_and_filters_find_them() {
    let service = service().without_workers().start().await;
    assert_eq!(
        said(&service, &["dead", "summary"]).await,
        "No dead jobs.\n"
    );
    assert_eq!(said(&service, &["dead", "list"]).await, "No dead jobs.\n");
    dead_orders(&service, 3).await;
    let paid = order("orders/paid", 9).of_shop("other.example");
    post_all(&service, &[paid]).await;
    service
        .execute(
            "update jobs set state = 'dead', attempts = 12, finished_at = created_at - 7200000,
                    last_error = 'order 5 is 100%_odd at line 1 column 7'
             where kind = 'orders/paid'",
        )
        .await;
    service
        .execute(
            "update jobs set last_error = 'the shelf 7 is away'
             where id in (select id from deliveries where external_id = 'w-1')",
        )
        .await;
    service
        .execute(
            "update jobs set last_error = 'the shelf 12 is away'
             where id in (select id from deliveries where external_id = 'w-2')",
        )
        .await;
    let groups = json(&service, &["dead", "summary"]).await;
    let reported: Vec<(i64, &str)> = groups
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let kind = group["kind"].as_str().unwrap();
            (group["jobs"].as_i64().unwrap(), kind)
        })
        .collect();
    assert_eq!(
        reported,
        [
            (2, "orders/create"),
            (1, "orders/create"),
            (1, "orders/paid")
        ],
        "shelves 7 and 12 are one error: {groups}"
    );
    let text = said(&service, &["dead", "summary"]).await;
    assert!(text.starts_with("JOBS  KIND "), "{text}");
    assert!(text.contains("4 dead in all"), "{text}");
    let found = async |filters: &[&str]| {
        let list = items(&service, &[&["dead", "list"], filters].concat()).await;
        ids(&list).len()
    };
    for (filters, jobs) in [
        (&["--kind", "orders/*"][..], 4),
        (&["--kind", "Orders/Create"], 3),
        (&["--kind", "orders/p"], 0),
        (&["--queue", "payments"], 0),
        (&["--shop", "Other.Example"], 1),
        (&["--error", "SHELF"], 3),
        (&["--error", "100%_odd"], 1),
        (&["--error", "100 odd"], 0),
        (&["--error", "%"], 1),
        (&["--before", "1h"], 1),
        (&["--since", "1h"], 3),
        (&["--since", "2000-01-01"], 4),
        (&["--before", "2000-01-01T00:00:00Z"], 0),
        (&["--kind", "*create", "--limit", "2"], 2),
    ] {
        assert_eq!(found(filters).await, jobs, "{filters:?}");
    }
    let wrong = refused(&service, &["dead", "list", "--before", "long"]).await;
    assert_eq!(wrong.0, 2, "{}", wrong.1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_is_shown_with_its_body_and_nobody_in_it() {
    let service = service().start().await;
    let unreadable = with(
        body(2, 1, "pending"),
        &value!({"order_id": 7, "line_items": 7}),
    );
    deliver(
        &service,
        &order_delivery("orders/create", &unreadable).id("w-2"),
    )
    .await;
    let id = ids(&items(&service, &["dead", "list"]).await).remove(0);
    let text = said(&service, &["dead", "show", &id]).await;
    for part in [
        "orders/create",
        "w-2",
        "line_items",
        "\"line_items\": \"[redacted: a number]\"",
        "\"email\": \"[redacted: a text of",
        "\"total_price\": \"30.00\"",
        &format!("waybill dead requeue {id}"),
        &format!("waybill dead discard {id}"),
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let machine = json(&service, &["dead", "show", &id]).await;
    assert_eq!(machine["body"]["id"], 2);
    for text in [text, machine.to_string()] {
        assert!(!text.to_lowercase().contains("canary"), "{text}");
        assert!(!text.contains("2025550123"), "{text}");
    }
    let unknown = Uuid::now_v7().to_string();
    let (code, error) = refused(&service, &["dead", "show", &unknown]).await;
    assert!(code == 1 && error.contains("there is no job"), "{error}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_how_many_and_which_and_changes_nothing() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 12).await;
    for action in ["requeue", "discard"] {
        let text = said(&service, &["dead", action, "--all", "--dry-run"]).await;
        assert!(text.contains("  12  orders/create"), "{text}");
        assert!(text.contains(".. and 2 more"), "{text}");
        assert!(text.contains(&format!("12 jobs to {action}")), "{text}");
        let report = json(&service, &["dead", action, "--all", "--dry-run"]).await;
        assert_eq!(report["ids"].as_array().unwrap().len(), 12);
        assert_eq!(
            (&report["matched"], &report["done"]),
            (&12.into(), &0.into())
        );
    }
    assert_eq!(service.jobs(State::Dead).await, 12);
    assert!(trail(&service, "jobs.requeued").await.is_empty());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_one_needs_yes_where_nobody_can_be_asked() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 3).await;
    for arguments in [
        &["dead", "requeue", "--all"][..],
        &["dead", "discard", "--kind", "orders/*"],
        &["dead", "requeue"],
        &["dead", "requeue", "--all", &Uuid::now_v7().to_string()],
        &["dead", "requeue", "--all", "--yes", "--rate", "0"],
        &["dead", "requeue", "--all", "--yes", "--by", "a\nb"],
    ] {
        let (code, error) = refused(&service, arguments).await;
        assert_eq!(code, 2, "{arguments:?}: {error}");
    }
    assert_eq!(service.jobs(State::Dead).await, 3);
    let one = ids(&items(&service, &["dead", "list"]).await).remove(0);
    let text = said(&service, &["dead", "requeue", &one]).await;
    assert!(text.contains(&format!("Job {one} is ready")), "{text}");
    assert_eq!(service.jobs(State::Dead).await, 2);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_jobs_that_are_named_those_that_can_be_are_changed_and_the_others_say_why() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 3).await;
    let dead = ids(&items(&service, &["dead", "list"]).await);
    said(&service, &["dead", "requeue", &dead[0]]).await;
    let nobody = Uuid::now_v7().to_string();
    let named = [&dead[0], &dead[1], &nobody, &dead[2], &dead[1]];
    let named = named.map(String::as_str);
    for option in ["--dry-run", "--rate=5", "--expect=2"] {
        let of_named = [&["dead", "requeue", option], &named[..]].concat();
        let (code, error) = refused(&service, &of_named).await;
        assert!(code == 2 && error.contains("are for filters"), "{error}");
    }
    let command = [&["dead", "requeue", "--json"], &named[..]].concat();
    let output = ran(&service, &command).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    for why in [
        format!("job {} is ready", dead[0]),
        format!("there is no job {nobody}"),
    ] {
        assert!(error.contains(&why), "{why}: {error}");
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut done = ids_of(&report["ids"]);
    done.sort();
    let mut wanted = [dead[1].clone(), dead[2].clone()];
    wanted.sort();
    assert_eq!(done, wanted);
    assert_eq!(
        (&report["done"], &report["passed_over"]),
        (&value!(2), &value!(0))
    );
    assert_eq!(report["refused"].as_array().unwrap().len(), 2);
    assert_eq!(service.jobs(State::Dead).await, 0);
    let entries = trail(&service, "jobs.requeued").await;
    assert_eq!(entries.len(), 2, "one of the first job, one of the others");
    assert_eq!(report["operation"], entries[0].object_id.as_str());
    // Named, they are meant: nobody is asked.
    service
        .execute(
            "update jobs set state = 'dead', finished_at = created_at + 9 where state = 'ready'",
        )
        .await;
    let more = ids(&items(&service, &["dead", "list"]).await);
    let discard = ["dead", "discard", &more[0], &more[1], &more[2]];
    let text = said(&service, &discard).await;
    assert!(text.contains("3 jobs are discarded"), "{text}");
    let (code, error) = refused(&service, &discard).await;
    assert!(code == 1 && error.contains("was discarded"), "{error}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_are_requeued_once_each_however_many_operators_say_so() {
    let mut service = service().without_workers().start().await;
    dead_orders(&service, 60).await;
    service.start_workers();
    let requeue = [
        "dead", "requeue", "--all", "--yes", "--rate", "1000", "--json",
    ];
    let operators: Vec<_> = ["ann", "ben", "cleo"]
        .map(|name| {
            let mut command = waybill(&service, &requeue);
            command.args(["--by", name]).stdout(Stdio::piped());
            command.spawn().unwrap()
        })
        .into();
    let mut done = 0;
    for operator in operators {
        let report = parsed(&operator.wait_with_output().unwrap());
        done += report["done"].as_i64().unwrap();
    }
    assert_eq!(done, 60);
    eventually("all are done", async || {
        service.jobs(State::Done).await >= 60
    })
    .await;
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    one_of_everything(&service, 60).await;
    let entries = trail(&service, "jobs.requeued").await;
    let counted: i64 = entries
        .iter()
        .map(|entry| entry.details["jobs"].as_i64().unwrap())
        .sum();
    assert_eq!(counted, 60, "the audit has each of them once");
    let named = |entry: &audit::AuditEntry| {
        ["operator:ann", "operator:ben", "operator:cleo"].contains(&entry.actor.as_str())
    };
    assert!(entries.iter().all(named), "{entries:?}");
    let chain = audit::verify(service.db(), &service.parts.keys).await;
    assert!(chain.unwrap().broken.is_none());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_died_again_meanwhile_is_not_requeued_by_who_saw_it_die_before() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 1).await;
    let seen = ended::dead(service.db(), &ended::Filter::default()).await;
    let seen = seen.unwrap();
    let by = By {
        keys: &service.parts.keys,
        actor: audit::OPERATOR,
        now: service.clock().now(),
    };
    let requeue = async || {
        let (action, operation) = (Action::Requeue, Uuid::now_v7());
        let taken = operate::carry_out(service.db(), by, action, operation, &seen, false);
        taken.await.unwrap().len()
    };
    assert_eq!(requeue().await, 1);
    assert_eq!(requeue().await, 0, "it is ready");
    let mut tx = service.db().begin().await.unwrap();
    let later = by.now.plus(Duration::from_mins(1));
    let again = jobs::dead_letter(&mut tx, seen[0].id, 12, later, "the shelf is away still");
    assert!(again.await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(requeue().await, 0, "it died anew");
    assert_eq!(service.jobs(State::Dead).await, 1);
    assert_eq!(trail(&service, "jobs.requeued").await.len(), 1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeue_that_is_stopped_goes_on_when_it_is_said_again() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 40).await;
    let requeue = ["dead", "requeue", "--all", "--yes", "--rate", "8"];
    let stopped = waybill(&service, &requeue)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it has begun", async || {
        service.jobs(State::Ready).await >= 4
    })
    .await;
    let pid = stopped.id().to_string();
    std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .unwrap();
    let output = stopped.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let ready = service.jobs(State::Ready).await;
    assert!((4..40).contains(&ready), "{ready}");
    let error = String::from_utf8(output.stderr).unwrap();
    let reported = format!("stopped after {ready} of 40");
    assert!(error.contains(&reported), "{reported} in {error}");
    let report = json(
        &service,
        &["dead", "requeue", "--all", "--yes", "--rate", "1000"],
    )
    .await;
    assert_eq!(report["done"], 40 - ready);
    assert_eq!(service.jobs(State::Ready).await, 40);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_is_kept() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 20).await;
    let begun = tokio::time::Instant::now();
    said(
        &service,
        &["dead", "requeue", "--all", "--yes", "--rate", "10"],
    )
    .await;
    assert!(
        begun.elapsed() >= Duration::from_millis(1600),
        "20 at 10 a second"
    );
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_job_is_final_and_its_delivery_stays_remembered() {
    let mut service = service().without_workers().start().await;
    dead_orders(&service, 2).await;
    let listed = items(&service, &["dead", "list"]).await;
    let first = ids(&listed).remove(0);
    let text = said(&service, &["dead", "discard", &first]).await;
    assert!(text.contains("never run again"), "{text}");
    let left = "select count(*) as n from deliveries where body is not null";
    assert_eq!(service.count(left).await, 1, "its body is gone");
    let shown = said(&service, &["jobs", "show", &first]).await;
    for part in ["state        discarded", "the shelf is away"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    for command in [
        ["dead", "requeue"],
        ["jobs", "requeue"],
        ["dead", "discard"],
    ] {
        let (code, error) = refused(&service, &[&command[..], &[&first]].concat()).await;
        assert!(code == 1 && error.contains("was discarded"), "{error}");
    }
    let its = listed[0]["delivery_id"].as_str().unwrap();
    let seed = its.trim_start_matches("w-").parse().unwrap();
    let again = service.answer(&order("orders/create", seed).id(its)).await;
    assert_eq!(again.0, 409, "{}", again.1);
    let entries = trail(&service, "jobs.discarded").await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].object_id, first);
    assert_eq!(entries[0].details["ids"], value!([first]));
    service.start_workers();
    said(&service, &["dead", "requeue", "--all", "--yes"]).await;
    service.settled().await;
    one_of_everything(&service, 1).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_privacy_request_that_is_open_cannot_be_discarded_and_is_run_again() {
    let service = service().without_workers().start().await;
    let duty = posted(&service, &request("customers/redact", 2)).await;
    give_up(&service, duty, "the store of exports is away").await;
    dead_orders(&service, 2).await;
    let shown = said(&service, &["dead", "show", &duty.to_string()]).await;
    assert!(shown.contains("waybill privacy retry"), "{shown}");
    let (code, error) = refused(&service, &["dead", "discard", &duty.to_string()]).await;
    assert!(code == 1 && error.contains("legal duty"), "{error}");
    let (code, error) = refused(&service, &["dead", "discard", "--all", "--yes"]).await;
    assert!(code == 1 && error.contains("legal duty"), "{error}");
    assert_eq!(
        service.jobs(State::Dead).await,
        1,
        "the others are discarded"
    );
    assert_eq!(entry(&service, duty).await.state, "failed");
    said(&service, &["dead", "requeue", &duty.to_string()]).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    assert_eq!(entry(&service, duty).await.state, "received");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn workers_are_notified_at_once_and_the_broker_forgets_its_dead_letters() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 3).await;
    let bus = &service.parts.bus;
    for id in ids(&items(&service, &["dead", "list"]).await) {
        let id: JobId = id.parse().unwrap();
        let dead_lettered = bus.dead_letter(Queue::Orders, "orders/create", id.into());
        dead_lettered.await.unwrap();
    }
    let before = bus.depth(Queue::Orders).await.unwrap();
    said(&service, &["dead", "requeue", "--all", "--yes"]).await;
    let notified =
        "select count(*) as n from jobs where state = 'ready' and notified_at is not null";
    assert_eq!(service.count(notified).await, 3);
    assert!(bus.depth(Queue::Orders).await.unwrap() > before);
    let letters = crate::support::operator::dead_letters(&service).await;
    assert_eq!(letters, 0, "none of them is dead any more");
    service.stop().await;
}

#[tokio::test]
async fn one_job_that_a_filter_finds_is_asked_about_too() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 1).await;
    for filter in ["--all", "--kind=orders/*"] {
        for action in ["requeue", "discard"] {
            let (code, error) = refused(&service, &["dead", action, filter]).await;
            assert_eq!(code, 2, "{error}");
            assert!(
                error.contains("--yes") && error.contains("1 job in"),
                "{error}"
            );
        }
    }
    assert_eq!(service.jobs(State::Dead).await, 1);
    let id = ids(&items(&service, &["dead", "list"]).await).remove(0);
    said(&service, &["dead", "requeue", &id]).await;
    assert_eq!(service.jobs(State::Dead).await, 0, "named, it is meant");
    service.stop().await;
}

#[tokio::test]
async fn a_look_before_names_the_database_and_the_ages() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 2).await;
    service
        .execute(
            "update jobs set created_at = created_at - 20 * 86400000
             where id in (select id from deliveries where external_id = 'w-1')",
        )
        .await;
    let text = said(&service, &["dead", "requeue", "--all", "--dry-run"]).await;
    assert!(text.starts_with("JOBS  KIND           ARRIVED"), "{text}");
    assert!(text.contains("20d to "), "{text}");
    let name = if is_distributed() {
        service.backend.database.clone()
    } else {
        service
            .backend
            .folder()
            .join("waybill.db")
            .display()
            .to_string()
    };
    assert!(text.contains(&name), "{name} in {text}");
    assert!(
        !text.contains("://"),
        "no URL, which may have a password: {text}"
    );
    let report = json(&service, &["dead", "requeue", "--all", "--dry-run"]).await;
    assert!(
        report["database"].as_str().unwrap().contains(&name),
        "{report}"
    );
    assert_eq!(report["kinds"][0]["jobs"], 2);
    assert!(
        report["kinds"][0]["first_arrived"].as_str() < report["kinds"][0]["last_arrived"].as_str()
    );
    service.stop().await;
}

#[tokio::test]
async fn nothing_is_done_when_it_is_not_as_many_jobs_as_expected() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 3).await;
    let discard = ["dead", "discard", "--all", "--yes", "--expect"];
    let (code, error) = refused(&service, &[&discard[..], &["2"]].concat()).await;
    assert_eq!(code, 1, "{error}");
    assert!(
        error.contains("2 were expected and 3 jobs match"),
        "{error}"
    );
    assert_eq!(service.jobs(State::Dead).await, 3);
    said(&service, &[&discard[..], &["3"]].concat()).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn dead_letters_of_another_database_stay_on_the_broker() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 1).await;
    let bus = &service.parts.bus;
    let ours: JobId = ids(&items(&service, &["dead", "list"]).await)[0]
        .parse()
        .unwrap();
    for id in [ours, Uuid::now_v7(), Uuid::now_v7()] {
        let dead_lettered = bus.dead_letter(Queue::Orders, "orders/create", id.into());
        dead_lettered.await.unwrap();
    }
    said(&service, &["dead", "discard", "--all", "--yes"]).await;
    eventually("ours is gone, and theirs are back", async || {
        crate::support::operator::dead_letters(&service).await == 2
    })
    .await;
    service.stop().await;
}
