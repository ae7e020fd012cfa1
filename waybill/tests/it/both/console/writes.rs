//! What operators change from the console: who may, that it is done once, and that the audit has it.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::api_key::Role;
use domain::attention::{Condition, State as Attention};
use domain::job::{JobId, State};
use operators::operations;
use store::audit::{self, By};
use store::bulk_operations::{self, Operation};
use store::jobs::ended::Filter;
use store::jobs::operate::Action;
use store::jobs::{self, Summary};
use store::{api_keys, attention, endpoints, licenses, pauses, privacy_requests, reconciliations};
use uuid::Uuid;

use super::cases::{cases, endpoint};
use crate::both::connections;
use crate::support::console::{Console, Session, role};
use crate::support::operator::{dead_orders, refused, said};
use crate::support::{Service, service};

/// A session of somebody with this role, and the token of its forms.
pub(super) async fn signed_in(service: &Service, console: &Console, of: Role) -> (Session, String) {
    let key = service.api_key_for("ann", &role(of)).await;
    let session = console.sign_in(&key).await;
    let token = console.token(&session).await;
    (session, token)
}

/// The job of the delivery with this id.
pub(super) async fn job(service: &Service, delivery: &str) -> Summary {
    let row = service
        .db()
        .query("select id from deliveries where external_id = $1")
        .bind(delivery);
    let id: JobId = row.fetch_one().await.unwrap().get("id").unwrap();
    jobs::show(service.db(), id).await.unwrap().unwrap()
}

pub(super) async fn trail(service: &Service, action: &str) -> Vec<audit::AuditEntry> {
    let entries = audit::newest(service.db(), 1000).await.unwrap();
    let its = entries.into_iter().filter(|entry| entry.action == action);
    its.collect()
}

/// Everything that a write could change, but for who has signed in.
pub(super) async fn state(service: &Service) -> Vec<String> {
    let db = service.db();
    let rows = db.query(
        "select id, state, attempts, run_at, finished_at, discarded_at from jobs order by id",
    );
    let mut all = Vec::new();
    for row in rows.fetch_all().await.unwrap() {
        let id: Uuid = row.get("id").unwrap();
        let state: String = row.get("state").unwrap();
        let number = |name| row.get::<Option<i64>>(name).unwrap();
        let numbers = ["attempts", "run_at", "finished_at", "discarded_at"].map(number);
        all.push(format!("{id} {state} {numbers:?}"));
    }
    for operation in bulk_operations::list(db, 100).await.unwrap() {
        all.push(format!("{} {}", operation.id, operation.state));
    }
    let any = privacy_requests::Filter::default();
    for request in privacy_requests::list(db, &any, 100).await.unwrap() {
        let until = request.held_until;
        all.push(format!("{} {} {until:?}", request.id, request.state));
    }
    for endpoint in endpoints::list(db).await.unwrap() {
        let until = endpoint.former_secret_until;
        all.push(format!("{} {} {until:?}", endpoint.id, endpoint.state));
    }
    for connection in store::connections::all(db).await.unwrap() {
        let secrets = connection.fingerprints.join(" ");
        all.push(format!("{} {secrets}", connection.name));
    }
    for pause in pauses::known(db, service.clock().now()).await.unwrap() {
        all.push(format!(
            "{} {:?} {:?}",
            pause.id, pause.until, pause.ended_at
        ));
    }
    for it in attention::all(db).await.unwrap() {
        all.push(format!("{} {:?}", it.about, it.acknowledged_by));
    }
    for it in reconciliations::all(db).await.unwrap() {
        all.push(format!("{} {}", it.source, it.next_at));
    }
    for licence in licenses::list(db).await.unwrap() {
        all.push(format!("{licence:?}"));
    }
    for key in api_keys::list(db, service.clock().now()).await.unwrap() {
        all.push(format!("{} {:?}", key.id, key.state));
    }
    let entries = audit::newest(db, 1000).await.unwrap();
    let writes = entries
        .iter()
        .filter(|entry| !entry.action.starts_with("console."));
    all.push(format!("{} entries", writes.count()));
    all
}

/// The field that chooses a job as it is.
pub(super) fn choice(job: &Summary) -> (&'static str, String) {
    let name = format!("job-{}", job.id).leak();
    (name, job.finished_at.unwrap().0.to_string())
}

pub(super) fn by(service: &Service) -> By<'_> {
    By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    }
}

/// An operation that runs dead jobs of this kind again.
pub(super) async fn confirmed(service: &Service, kind: &str, rate: i64) -> Operation {
    let by = by(service);
    let filter = Filter {
        kind: kind.to_owned(),
        ..Filter::default()
    };
    let (db, id) = (service.db(), service.clock().id());
    let new = operations::confirm(db, by, id, Action::Requeue, &filter, by.now, rate);
    assert!(new.await.unwrap());
    operation(service, id).await
}

pub(super) async fn operation(service: &Service, id: Uuid) -> Operation {
    let found = bulk_operations::find(service.db(), id).await;
    found.unwrap().unwrap()
}

#[tokio::test]
async fn every_write_needs_its_role_its_token_and_its_own_page_and_is_done_once() {
    let service = connections::with_connections().without_workers();
    let mut service = service.manual_clock().start().await;
    let console = service.console().await;
    let all = cases(&service).await;
    let table = console::writes().roles;
    let tried: BTreeSet<_> = all.iter().map(|case| case.path).collect();
    let there: BTreeSet<_> = table.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(tried, there, "each write has a case here");
    let mut sessions = Vec::new();
    for of in Role::ALL {
        let (session, token) = signed_in(&service, &console, of).await;
        sessions.push((of, session, token));
    }
    for case in &all {
        let at = case.at();
        let needed = table.iter().find(|(path, _)| *path == case.path).unwrap().1;
        let before = state(&service).await;
        let id = service.clock().id().to_string();
        let send = async |session: Option<&Session>, token: &str, origin: Option<&str>| {
            let mut fields: Vec<(&str, &str)> = case
                .fields
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            fields.push(("token", token));
            if !fields.iter().any(|(name, _)| *name == "id") {
                fields.push(("id", &id));
            }
            let mut request = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .unwrap()
                .post(format!("{}{at}", console.url))
                .form(&fields);
            if let Some(origin) = origin {
                request = request.header("Origin", origin);
            }
            if let Some(session) = session {
                request = request.header("Cookie", &session.cookie);
            }
            request.send().await.unwrap().status().as_u16()
        };
        let own = Some(console.url.as_str());
        let (_, owner, token) = &sessions[3];
        assert_eq!(send(None, token, own).await, 401, "{at} without a session");
        assert_eq!(
            send(Some(owner), "", own).await,
            403,
            "{at} without a token"
        );
        for (of, session, others) in &sessions {
            if *of != needed && *of != Role::Owner {
                assert_eq!(
                    send(Some(session), others, own).await,
                    403,
                    "{at} as {of:?}"
                );
            }
            if *of != Role::Owner {
                let with_others = send(Some(owner), others, own).await;
                assert_eq!(with_others, 403, "{at} with the token of another session");
            }
        }
        for origin in [None, Some("null"), Some("http://evil.example")] {
            assert_eq!(
                send(Some(owner), token, origin).await,
                403,
                "{at} {origin:?}"
            );
        }
        // A page that asks may be there; it changes nothing.
        let got = owner.send(console.get(&at)).await.status().as_u16();
        assert!([200, 405].contains(&got), "GET {at}: {got}");
        assert_eq!(state(&service).await, before, "{at} was refused");
        let (_, session, token) = sessions.iter().find(|(of, ..)| *of == needed).unwrap();
        // A secret is shown by the answer itself.
        let hands_out = ["/jobs/{id}/field", "/privacy/{id}/export"].contains(&case.path);
        let shows = ["/endpoints/add", "/endpoints/{id}/rotate", "/keys/create"];
        let shows = shows.contains(&case.path) || hands_out;
        let expected = if shows { 200 } else { 303 };
        assert_eq!(send(Some(session), token, own).await, expected, "{at}");
        let after = state(&service).await;
        assert_ne!(after, before, "{at} was done");
        // A test is sent each time, and where no worker is, the answer waits for it.
        if ["/operations/{id}/resume", "/endpoints/{id}/test"].contains(&case.path) {
            continue;
        }
        let again = send(Some(session), token, own).await;
        if hands_out {
            assert_eq!(again, 200, "{at} once more");
            assert_ne!(state(&service).await, after, "{at} is noted each time");
            continue;
        }
        assert_eq!(again, 303, "{at} once more");
        assert_eq!(state(&service).await, after, "{at} is done once");
    }
    service.stop().await;
}

#[tokio::test]
async fn where_the_console_is_read_only_nobody_writes() {
    let service = connections::with_connections()
        .without_workers()
        .manual_clock();
    let mut service = service.setting("CONSOLE_READ_ONLY", "true").start().await;
    let console = service.console().await;
    let all = cases(&service).await;
    let (session, token) = signed_in(&service, &console, Role::Owner).await;
    let before = state(&service).await;
    for case in &all {
        let mut fields: Vec<(&str, &str)> = case
            .fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        fields.push(("token", &token));
        let answer = session.send(console.post(&case.at(), &fields)).await;
        assert_eq!(answer.status(), 403, "{}", case.path);
        let page = answer.text().await.unwrap();
        assert!(page.contains("The console is read-only"), "{page}");
    }
    assert_eq!(state(&service).await, before);
    let id = job(&service, "w-1").await.id;
    for path in ["/dead".to_owned(), format!("/jobs/{id}")] {
        let page = console.shown(&session, &path).await;
        assert!(page.contains("waybill dead requeue"), "{page}");
        for part in [
            "Requeue</button>",
            "Requeue all of these</a>",
            "action=\"/dead/",
            "href=\"/dead/",
        ] {
            assert!(!page.contains(part), "{part}: {page}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_dead_job_is_run_again_once_by_who_may_and_others_see_the_command() {
    let mut service = service().without_workers().start().await;
    dead_orders(&service, 2).await;
    let console = service.console().await;
    let (reader, _) = signed_in(&service, &console, Role::Reader).await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let dead = job(&service, "w-1").await;
    let path = format!("/jobs/{}", dead.id);
    let page = console.shown(&reader, &path).await;
    assert!(page.contains(&format!("waybill dead requeue {}", dead.id)));
    assert!(!page.contains("Requeue</button>"), "{page}");
    let page = console.shown(&session, &path).await;
    assert!(page.contains("Requeue</button>"), "{page}");
    assert!(page.contains(&format!("waybill dead requeue {}", dead.id)));
    let (name, seen) = choice(&dead);
    assert!(
        page.contains(&format!("name=\"{name}\" value=\"{seen}\"")),
        "{page}"
    );
    let fields = [
        ("token", token.as_str()),
        (name, seen.as_str()),
        ("from", "job"),
    ];
    let answer = session.send(console.post("/dead/requeue", &fields)).await;
    assert_eq!(answer.status(), 303);
    let led = answer.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(led, format!("{path}?done=dead-requeue"));
    let page = console.shown(&session, &led).await;
    assert!(page.contains("the full number of tries"), "{page}");
    let ready = job(&service, "w-1").await;
    assert_eq!((ready.state.as_str(), ready.attempts), ("ready", 0));
    let entry = trail(&service, "jobs.requeued").await;
    assert_eq!(entry.len(), 1);
    assert_eq!(entry[0].actor, "operator:ann");
    assert_eq!(entry[0].object_id, dead.id.to_string());
    // It died again since, so the page that was seen before is out of date.
    service
        .execute(
            "update jobs set state = 'dead', finished_at = created_at + 9
             where id in (select id from deliveries where external_id = 'w-1')",
        )
        .await;
    let late = session.send(console.post("/dead/requeue", &fields)).await;
    assert_eq!(
        late.headers()["location"].to_str().unwrap(),
        format!("{path}?done=changed")
    );
    assert_eq!(job(&service, "w-1").await.state, "dead");
    // What a page says of what was done is none of the address's words.
    let page = console
        .shown(&session, &format!("{path}?done=%3Cb%3Ehacked"))
        .await;
    assert!(!page.contains("hacked") && !page.contains("role=\"status\""));
    service.stop().await;
}

#[tokio::test]
async fn a_dead_job_is_discarded_for_good_after_a_page_has_asked() {
    let mut service = service().without_workers().start().await;
    dead_orders(&service, 1).await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let dead = job(&service, "w-1").await;
    let (name, seen) = choice(&dead);
    let fields = [("token", token.as_str()), (name, seen.as_str())];
    let asked = session.send(console.post("/dead/discard", &fields)).await;
    assert_eq!(asked.status(), 200);
    let page = asked.text().await.unwrap();
    for part in [
        "Discard these jobs for good?",
        "It cannot be taken back.",
        "the shelf is away",
        &format!("name=\"{name}\" value=\"{seen}\""),
        &format!("waybill dead discard {}", dead.id),
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(job(&service, "w-1").await.state, "dead", "it only asks");
    let id = service.clock().id().to_string();
    let sure = [fields[0], fields[1], ("sure", "yes"), ("id", id.as_str())];
    let answer = session.send(console.post("/dead/discard", &sure)).await;
    assert_eq!(answer.status(), 303);
    let gone = job(&service, "w-1").await;
    assert_eq!((gone.state.as_str(), gone.body_bytes), ("done", None));
    assert!(gone.discarded_at.is_some());
    assert_eq!(trail(&service, "jobs.discarded").await.len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn what_is_done_to_chosen_jobs_leads_back_to_their_list_and_says_what_was_done() {
    let mut service = service().without_workers().start().await;
    dead_orders(&service, 4).await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let id = service.clock().id().to_string();
    let mut all = Vec::new();
    for name in ["w-1", "w-2", "w-3", "w-4"] {
        all.push(choice(&job(&service, name).await));
    }
    let send = async |path: &str, chosen: &[usize]| {
        let mut fields = vec![("token", token.as_str()), ("sure", "yes"), ("id", &id)];
        fields.extend(chosen.iter().map(|at| (all[*at].0, all[*at].1.as_str())));
        let answer = session.send(console.post(path, &fields)).await;
        let led = answer.headers().get("location");
        let led = led.map(|led| led.to_str().unwrap().to_owned());
        (answer.status().as_u16(), led, answer.text().await.unwrap())
    };
    for path in ["/dead/requeue", "/dead/discard"] {
        let (status, _, page) = send(path, &[]).await;
        assert!(
            status == 409 && page.contains("choose at least one job"),
            "{path}: {status} {page}"
        );
    }
    let (_, led, _) = send("/dead/discard?kind=orders%2F*", &[0, 1]).await;
    assert_eq!(
        led.as_deref(),
        Some("/dead?kind=orders%2F*&done=dead-discard")
    );
    let page = console.shown(&session, &led.unwrap()).await;
    assert!(page.contains("what was discarded is never run again"));
    // The first has changed since.
    let (_, led, _) = send("/dead/requeue", &[1, 2]).await;
    assert_eq!(led.as_deref(), Some("/dead?done=dead-requeue-1"));
    for _ in 0..2 {
        let (_, led, _) = send("/dead/requeue?kind=orders%2F*", &[1]).await;
        assert_eq!(led.as_deref(), Some("/dead?kind=orders%2F*&done=changed"));
    }
    // Nobody is asked about what has changed since.
    let mut fields = vec![("token", token.as_str())];
    fields.push((all[2].0, &all[2].1));
    let answer = session.send(console.post("/dead/discard", &fields)).await;
    assert_eq!(answer.headers()["location"], "/dead?done=changed");
    fields.push((all[3].0, &all[3].1));
    let answer = session.send(console.post("/dead/discard", &fields)).await;
    let page = answer.text().await.unwrap();
    assert!(
        page.contains(all[3].0) && !page.contains(all[2].0),
        "{page}"
    );
    let (_, led, _) = send("/dead/requeue", &[3]).await;
    assert_eq!(led.as_deref(), Some("/dead?done=dead-requeue"));
    assert_eq!(service.jobs(State::Ready).await, 2);
    assert_eq!(trail(&service, "jobs.discarded").await.len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_finished_delivery_is_processed_again_and_a_job_that_waits_runs_now() {
    let mut service = service().start().await;
    let made = crate::support::delivery::order("orders/create", 7).id("w-1");
    crate::support::order::deliver(&service, &made).await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let done = job(&service, "w-1").await;
    let path = format!("/jobs/{}", done.id);
    let page = console.shown(&session, &path).await;
    assert!(page.contains("Requeue</button>"), "{page}");
    let (name, seen) = choice(&done);
    let fields = [("token", token.as_str()), (name, seen.as_str())];
    let answer = session.send(console.post("/jobs/requeue", &fields)).await;
    assert_eq!(answer.status(), 303);
    service.settled().await;
    let again = job(&service, "w-1").await;
    assert_eq!(again.state, "done");
    assert_eq!(trail(&service, "jobs.requeued").await.len(), 1);
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    service
        .execute(
            "update jobs set state = 'ready', attempts = 2, last_error = 'the shelf is away',
                    run_at = run_at + 86400000, finished_at = null
             where id in (select id from deliveries where external_id = 'w-1')",
        )
        .await;
    let waits = job(&service, "w-1").await;
    let seen = waits.run_at.0.to_string();
    let fields = [("token", token.as_str()), ("seen", seen.as_str())];
    let answer = session
        .send(console.post(&format!("{path}/run-now"), &fields))
        .await;
    assert_eq!(answer.status(), 303);
    service.settled().await;
    assert_eq!(job(&service, "w-1").await.state, "done");
    assert_eq!(trail(&service, "jobs.run_now").await.len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_is_added_and_its_secret_is_shown_once_and_in_no_address() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let page = console.shown(&session, "/endpoints/add").await;
    let (_, rest) = page.split_once("name=\"id\" value=\"").unwrap();
    let id = rest.split('"').next().unwrap().to_owned();
    let fields = [
        ("token", token.as_str()),
        ("id", &id),
        ("url", "https://shop.example/hooks"),
        ("type", "order.*"),
    ];
    let answer = session.send(console.post("/endpoints/add", &fields)).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let shown = answer.text().await.unwrap();
    assert!(shown.contains("<code class=\"command\">whsec_"), "{shown}");
    let again = session.send(console.post("/endpoints/add", &fields)).await;
    let led = again.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(led, format!("/endpoints/{id}?done=shown"));
    let page = console.shown(&session, &led).await;
    assert!(
        page.contains("shown once") && !page.contains("whsec_"),
        "{page}"
    );
    assert!(
        page.contains(&format!("waybill endpoints rotate {id}")),
        "{page}"
    );
    assert_eq!(endpoints::of_webhooks(service.db()).await.unwrap().len(), 1);
    let path = format!("/endpoints/{id}/rotate");
    let rotate = [("token", token.as_str()), ("seen", "0")];
    let first = session.send(console.post(&path, &rotate)).await;
    assert!(first.text().await.unwrap().contains("whsec_"));
    let second = session.send(console.post(&path, &rotate)).await;
    assert_eq!(second.status(), 303, "the form is out of date");
    assert_eq!(trail(&service, "endpoint.rotated").await.len(), 1);
    let hostile = [
        ("token", token.as_str()),
        ("id", "00000000-0000-0000-0000-000000000001"),
        ("url", "file:///etc/passwd"),
    ];
    let answer = session.send(console.post("/endpoints/add", &hostile)).await;
    assert_eq!(answer.status(), 409);
    assert!(!answer.text().await.unwrap().contains("passwd"));
    service.stop().await;
}

#[tokio::test]
async fn what_began_after_the_page_was_shown_is_not_acknowledged_from_it() {
    let service = service().without_workers().manual_clock();
    let mut service = service.start().await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let shown = service.clock().now();
    let late = shown.plus(Duration::from_mins(1));
    let mut tx = service.db().begin().await.unwrap();
    for (about, since) in [("seen", shown), ("unseen", late)] {
        let (condition, state) = (Condition::NothingCame, Attention::Begun);
        let begun = attention::insert(&mut tx, condition, about, state, since).await;
        assert!(begun.unwrap());
    }
    tx.commit().await.unwrap();
    service.clock().advance(Duration::from_mins(2));
    let now = shown.0.to_string();
    let fields = [("token", token.as_str()), ("now", now.as_str())];
    let path = "/attention/nothing_came/acknowledge";
    let answer = session.send(console.post(path, &fields)).await;
    assert_eq!(
        answer.headers()["location"],
        "/attention?done=attention-acknowledge"
    );
    let known = attention::all(service.db()).await.unwrap();
    let known: Vec<_> = known
        .iter()
        .map(|it| it.acknowledged_by.as_deref())
        .collect();
    assert_eq!(known, [Some("operator:ann"), None]);
    let again = session.send(console.post(path, &fields)).await;
    assert_eq!(again.headers()["location"], "/attention?done=changed");
    service.stop().await;
}

/// What a page sends along is why a form that is sent twice acts once.
#[tokio::test]
async fn a_form_without_what_its_page_sends_along_changes_nothing() {
    let service = service().without_workers().manual_clock();
    let mut service = service.start().await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Owner).await;
    let id = endpoint(&service).await;
    let before = state(&service).await;
    let rotate = format!("/endpoints/{id}/rotate");
    for (path, fields) in [
        (rotate.as_str(), vec![]),
        (
            "/endpoints/add",
            vec![("url", "https://shop.example/hooks")],
        ),
        (
            "/pauses/begin",
            vec![("scope", "queue"), ("name", "orders"), ("for", "1h")],
        ),
        (
            "/keys/create",
            vec![("name", "bo"), ("scope-orders:read", "yes")],
        ),
    ] {
        let fields = [&[("token", token.as_str())], &fields[..]].concat();
        let answer = session.send(console.post(path, &fields)).await;
        assert_eq!(answer.status(), 400, "{path}");
    }
    assert_eq!(state(&service).await, before);
    service.stop().await;
}

#[tokio::test]
async fn a_customer_who_writes_an_e_mail_has_a_request_that_is_entered_once_and_shown_nowhere() {
    let mut service = service().start().await;
    let order = crate::support::order::body(7, 0, "pending");
    let made = crate::support::order::order_delivery("orders/create", &order);
    crate::support::order::deliver(&service, &made).await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Privacy).await;
    let key = service.clock().id().to_string();
    let fields = [
        ("token", token.as_str()),
        ("id", &key),
        ("shop", "Shop.Example"),
        ("email", "canary@example.com"),
    ];
    let mut led = Vec::new();
    for _ in 0..2 {
        let answer = session
            .send(console.post("/privacy/request", &fields))
            .await;
        assert_eq!(answer.status(), 303);
        led.push(answer.headers()["location"].to_str().unwrap().to_owned());
    }
    let first = led[0].strip_suffix("?done=privacy-request").unwrap();
    assert_eq!(led[1], format!("{first}?done=changed"));
    service.settled().await;
    let any = privacy_requests::Filter::default();
    let requests = privacy_requests::list(service.db(), &any, 9).await.unwrap();
    assert_eq!(requests.len(), 1);
    // Another customer may have the address, so somebody decides.
    assert_eq!(requests[0].state, "held");
    assert_eq!(
        requests[0].due_at,
        requests[0].received_at.plus(Duration::from_hours(30 * 24))
    );
    let page = console.shown(&session, first).await;
    assert!(
        page.contains("request.received") && page.contains("operator:ann"),
        "{page}"
    );
    assert!(!page.to_lowercase().contains("canary"), "{page}");
    let nobody = [
        ("token", token.as_str()),
        ("id", "00000000-0000-0000-0000-000000000001"),
        ("shop", "shop.example"),
        ("erase", "yes"),
    ];
    let answer = session
        .send(console.post("/privacy/request", &nobody))
        .await;
    assert_eq!(answer.status(), 409);
    let entered = [
        "privacy",
        "request",
        "--shop",
        "shop.example",
        "--customer",
        "77",
    ];
    // Typed wrong, nothing would be found, and the receipt would say so.
    let mut wrong = entered;
    wrong[3] = "shop.exampel";
    let (code, why) = refused(&service, &wrong).await;
    assert_eq!(code, 1);
    assert!(
        why.contains("nothing is known") && why.contains("--yes"),
        "{why}"
    );
    let mut unknown = [&fields[..2], &nobody[2..]].concat();
    unknown[1].1 = "00000000-0000-0000-0000-000000000002";
    unknown.push(("customer", "78"));
    let answer = session
        .send(console.post("/privacy/request", &unknown))
        .await;
    assert_eq!(answer.status(), 409);
    assert_eq!(trail(&service, "request.received").await.len(), 1);
    let sure = [&wrong[..], &["--yes"]].concat();
    for entered in [&entered[..], &sure] {
        assert!(said(&service, entered).await.contains("is received"));
    }
    assert_eq!(trail(&service, "request.received").await.len(), 3);
    service.settled().await;
    service.stop().await;
}

#[tokio::test]
async fn who_signs_in_and_out_is_in_the_audit_and_the_console_shows_it() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let wrong = console.post("/sign-in", &[("key", "wb_guessed")]);
    assert_eq!(wrong.send().await.unwrap().status(), 401);
    let (session, token) = signed_in(&service, &console, Role::Reader).await;
    let page = console.shown(&session, "/audit").await;
    assert!(
        page.contains("console.signed_in") && page.contains("operator:ann"),
        "{page}"
    );
    session
        .send(console.post("/sign-out", &[("token", &token)]))
        .await;
    for action in ["console.signed_in", "console.signed_out"] {
        let entries = trail(&service, action).await;
        assert_eq!(entries.len(), 1, "{action}");
        assert_eq!(entries[0].actor, "operator:ann");
    }
    said(&service, &["audit", "verify"]).await;
    service.stop().await;
}
