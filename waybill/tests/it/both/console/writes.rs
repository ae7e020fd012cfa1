//! What operators change from the console: who may, that it is done once, and that the audit has it.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::api_key::Role;
use domain::attention::{Condition, State as Attention};
use domain::job::{JobId, Queue, Source, State};
use domain::license::Tier;
use domain::pause::Target;
use operators::endpoints::WantedEndpoint;
use operators::licenses::{To, Wanted, When};
use operators::operations::{self, LEASE, Runner, Step};
use store::audit::{self, By};
use store::bulk_operations::{self, Change, Operation};
use store::jobs::ended::Filter;
use store::jobs::operate::Action;
use store::jobs::{self, Summary};
use store::{api_keys, attention, endpoints, licenses, pauses, privacy_requests, reconciliations};
use uuid::Uuid;

use crate::both::connections;
use crate::support::console::{Console, Session, role};
use crate::support::operator::{dead_orders, refused, said};
use crate::support::requests;
use crate::support::{Service, eventually, service};

/// A session of somebody with this role, and the token of its forms.
async fn signed_in(service: &Service, console: &Console, of: Role) -> (Session, String) {
    let key = service.api_key_for("ann", &role(of)).await;
    let session = console.sign_in(&key).await;
    let token = console.token(&session).await;
    (session, token)
}

/// The job of the delivery with this id.
async fn job(service: &Service, delivery: &str) -> Summary {
    let row = service
        .db()
        .query("select id from deliveries where external_id = $1")
        .bind(delivery);
    let id: JobId = row.fetch_one().await.unwrap().get("id").unwrap();
    jobs::show(service.db(), id).await.unwrap().unwrap()
}

async fn trail(service: &Service, action: &str) -> Vec<audit::AuditEntry> {
    let entries = audit::newest(service.db(), 1000).await.unwrap();
    let its = entries.into_iter().filter(|entry| entry.action == action);
    its.collect()
}

/// Everything that a write could change, but for who has signed in.
async fn state(service: &Service) -> Vec<String> {
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
fn choice(job: &Summary) -> (&'static str, String) {
    let name = format!("job-{}", job.id).leak();
    (name, job.finished_at.unwrap().0.to_string())
}

/// A write as a page sends it.
struct Case {
    /// Its path in the table of writes.
    path: &'static str,
    id: Option<Uuid>,
    fields: Vec<(&'static str, String)>,
}

impl Case {
    fn at(&self) -> String {
        let id = self.id.map_or_else(String::new, |id| id.to_string());
        let name = match self.path {
            "/attention/{name}/acknowledge" => "nothing_came",
            _ => "shop-b",
        };
        self.path.replace("{id}", &id).replace("{name}", name)
    }
}

/// One case of each write that there is, of things that are there.
async fn cases(service: &Service) -> Vec<Case> {
    dead_orders(service, 4).await;
    let waits = crate::support::delivery::order("orders/create", 9).id("waits");
    crate::support::order::post_all(service, &[waits]).await;
    let (one, other, waits) = (
        job(service, "w-1").await,
        job(service, "w-2").await,
        job(service, "waits").await,
    );
    service
        .execute(
            "update jobs set state = 'done'
             where id in (select id from deliveries where external_id = 'w-3')",
        )
        .await;
    let known = job(service, "w-3").await;
    let of_job = |path, job: &Summary| Case {
        path,
        id: Some(job.id),
        fields: vec![("seen", job.finished_at.unwrap_or(job.run_at).0.to_string())],
    };
    let of_chosen = |path, job: &Summary| Case {
        path,
        id: None,
        fields: vec![
            choice(job),
            ("id", service.clock().id().to_string()),
            ("sure", "yes".to_owned()),
        ],
    };
    service.clock().advance(Duration::from_mins(1));
    let now = service.clock().now();
    let of_dead = |path| Case {
        path,
        id: None,
        fields: vec![
            ("kind", "orders/none".to_owned()),
            ("until", now.0.to_string()),
            ("rate", "50".to_owned()),
            ("id", service.clock().id().to_string()),
        ],
    };
    let mut all = vec![
        of_job("/jobs/{id}/run-now", &waits),
        of_chosen("/dead/requeue", &one),
        of_chosen("/dead/discard", &other),
        of_chosen("/jobs/requeue", &known),
        Case {
            path: "/jobs/{id}/field",
            id: Some(waits.id),
            fields: vec![("path", "/id".to_owned()), ("reason", "fault".to_owned())],
        },
        of_dead("/dead/all/requeue"),
        of_dead("/dead/all/discard"),
    ];
    all.push(Case {
        path: "/keys/create",
        id: None,
        fields: vec![
            ("id", service.clock().id().to_string()),
            ("name", "bo".to_owned()),
            ("scope-console:reader", "yes".to_owned()),
        ],
    });
    let mut tx = service.db().begin().await.unwrap();
    let (id, clock) = (service.clock().id(), service.clock());
    let rights = role(Role::Reader);
    let key = api_keys::create(&mut tx, clock, id, "cy", None, &rights).await;
    tx.commit().await.unwrap();
    all.push(Case {
        path: "/keys/{id}/revoke",
        id: Some(key.unwrap().id),
        fields: Vec::new(),
    });
    all.push(Case {
        path: "/licenses/grant",
        id: None,
        fields: vec![
            ("now", now.0.to_string()),
            ("user", "id:77".to_owned()),
            ("tier", "pro".to_owned()),
            ("days", "30".to_owned()),
        ],
    });
    for path in [
        "/licenses/{id}/suspend",
        "/licenses/{id}/resume",
        "/licenses/{id}/revoke",
    ] {
        let id = licence(service, all.len()).await;
        if path == "/licenses/{id}/resume" {
            let when = When {
                now,
                grace: Duration::ZERO,
            };
            let suspend = operators::licenses::Change::Suspend;
            let by = by(service);
            let done = operators::licenses::change(service.db(), by, id, suspend, when).await;
            assert!(done.is_ok());
        }
        all.push(Case {
            path,
            id: Some(id),
            fields: Vec::new(),
        });
    }
    let mut added = service.clock().id();
    all.push(Case {
        path: "/endpoints/add",
        id: None,
        fields: vec![
            ("id", added.to_string()),
            ("url", "https://shop.example/hooks".to_owned()),
            ("type", "order.*".to_owned()),
        ],
    });
    all.push(Case {
        path: "/connections/add",
        id: None,
        fields: vec![
            ("name", "shop-c".to_owned()),
            ("provider", "generic".to_owned()),
            ("shop", "c.example".to_owned()),
            ("secret", "the signing secret of shop c".to_owned()),
        ],
    });
    let new = connections::storefront("shop-b", connections::B, connections::SECRET_B);
    connections::add(service, [new]).await;
    for path in [
        "/connections/{name}/pause",
        "/connections/{name}/resume",
        "/connections/{name}/change",
        "/connections/{name}/rotate",
        "/connections/{name}/remove",
    ] {
        all.push(Case {
            path,
            id: None,
            fields: vec![
                ("id", service.clock().id().to_string()),
                ("secret", "another signing secret of shop b".to_owned()),
                ("display-name", "Shop B".to_owned()),
            ],
        });
    }
    for path in [
        "/endpoints/{id}/test",
        "/endpoints/{id}/pause",
        "/endpoints/{id}/resume",
        "/endpoints/{id}/rotate",
        "/endpoints/{id}/remove",
    ] {
        if path != "/endpoints/{id}/resume" {
            added = endpoint(service).await;
        }
        all.push(Case {
            path,
            id: Some(added),
            fields: vec![("seen", "0".to_owned())],
        });
    }
    all.push(Case {
        path: "/privacy/request",
        id: None,
        fields: vec![
            ("id", service.clock().id().to_string()),
            ("shop", "shop.example".to_owned()),
            ("customer", "77".to_owned()),
            ("yes", "yes".to_owned()),
        ],
    });
    for (path, topic, state, seed) in [
        (
            "/privacy/{id}/retry",
            "customers/data_request",
            "failed",
            31,
        ),
        ("/privacy/{id}/cancel", "shop/redact", "held", 32),
        ("/privacy/{id}/confirm", "shop/redact", "held", 33),
    ] {
        let id = requests::posted(service, &requests::request(topic, seed)).await;
        let mut tx = service.db().begin().await.unwrap();
        tx.query("update privacy_requests set state = $1, held_until = null where id = $2")
            .bind(state)
            .bind(id)
            .execute()
            .await
            .unwrap();
        if path == "/privacy/{id}/confirm" {
            tx.query("update privacy_requests set repeats = id where id = $1")
                .bind(id)
                .execute()
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        all.push(Case {
            path,
            id: Some(id),
            fields: Vec::new(),
        });
    }
    let mut tx = service.db().begin().await.unwrap();
    let (condition, state) = (Condition::NothingCame, Attention::Begun);
    let begun = attention::insert(&mut tx, condition, "storefront a", state, now);
    assert!(begun.await.unwrap());
    tx.commit().await.unwrap();
    all.push(Case {
        path: "/attention/{name}/acknowledge",
        id: None,
        fields: Vec::new(),
    });
    all.push(Case {
        path: "/pauses/begin",
        id: None,
        fields: vec![
            ("id", service.clock().id().to_string()),
            ("scope", "provider".to_owned()),
            ("name", "mail".to_owned()),
            ("for", "1h".to_owned()),
        ],
    });
    all.push(Case {
        path: "/pauses/{id}/end",
        id: Some(paused(service).await),
        fields: Vec::new(),
    });
    let payments = reconciliations::Target {
        source: Source::Payment,
        connection: "default".to_owned(),
        shop: String::new(),
    };
    let now = service.clock().now();
    let next = now.plus(Duration::from_hours(1));
    let targets = [payments];
    let begun = reconciliations::begin(service.db(), &targets, now, next);
    begun.await.unwrap();
    all.push(Case {
        path: "/reconcile/ask",
        id: None,
        fields: Vec::new(),
    });
    let topic = "customers/data_request";
    let held = requests::posted(service, &requests::request(topic, 34)).await;
    let mut tx = service.db().begin().await.unwrap();
    tx.query("update privacy_requests set state = 'held', held = $1 where id = $2")
        .bind(r#"{"customers":{"77":1},"orders":[],"is_cut":false}"#)
        .bind(held)
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
    all.push(Case {
        path: "/privacy/{id}/decide",
        id: Some(held),
        fields: vec![("customer-77", "include".to_owned())],
    });
    let done = requests::posted(service, &requests::request(topic, 35)).await;
    let folder = service.backend.folder().join("exports");
    let ends = now.plus(Duration::from_hours(24));
    requests::export(service, &folder, done, "{}", ends).await;
    all.push(Case {
        path: "/privacy/{id}/export",
        id: Some(done),
        fields: Vec::new(),
    });
    // The clock stands, so no runner begins these.
    for (path, state) in [
        ("/operations/{id}/stop", "running"),
        ("/operations/{id}/undo", "waiting"),
        // The last, because what is resumed goes on by itself.
        ("/operations/{id}/resume", "stopped"),
    ] {
        let id = confirmed(service, "orders/none", 50).await.id;
        let begins_at = if state == "stopped" {
            now
        } else {
            now.plus(Duration::from_hours(1))
        };
        let mut tx = service.db().begin().await.unwrap();
        tx.query("update bulk_operations set state = $1, begins_at = $2 where id = $3")
            .bind(state)
            .bind(begins_at.0)
            .bind(id)
            .execute()
            .await
            .unwrap();
        tx.commit().await.unwrap();
        all.push(Case {
            path,
            id: Some(id),
            fields: Vec::new(),
        });
    }
    all
}

/// An endpoint that nobody answers at.
async fn endpoint(service: &Service) -> Uuid {
    let by = by(service);
    let new = WantedEndpoint {
        id: service.clock().id(),
        url: "https://nobody.invalid/hooks",
        types: Vec::new(),
        since: None,
    };
    let allowed = &service.parts.config.endpoints;
    let added = operators::endpoints::add(service.db(), by, service.clock(), allowed, new).await;
    added.unwrap().0.id
}

fn by(service: &Service) -> By<'_> {
    By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    }
}

/// The licence of an account of its own; its id.
async fn licence(service: &Service, account: usize) -> Uuid {
    let user = format!("id:{}", 1000 + account).parse().unwrap();
    let wanted = Wanted {
        provider: None,
        to: To::User(&user),
        tier: Tier::Pro,
        expires_at: None,
        subscription: None,
        item: None,
    };
    let when = When {
        now: service.clock().now(),
        grace: Duration::ZERO,
    };
    let (db, clock) = (service.db(), service.clock());
    let granted = operators::licenses::grant(db, by(service), clock, &wanted, when).await;
    granted.unwrap_or_else(|why| panic!("{why}")).id
}

/// A pause of the queue of payments; its id.
async fn paused(service: &Service) -> Uuid {
    let by = by(service);
    let (id, target) = (service.clock().id(), Target::Queue(Queue::Payments));
    let until = by.now.plus(Duration::from_hours(1));
    let begun = operators::pauses::begin(service.db(), by, id, target, until);
    assert!(begun.await.unwrap());
    id
}

/// An operation that runs dead jobs of this kind again.
async fn confirmed(service: &Service, kind: &str, rate: i64) -> Operation {
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

async fn operation(service: &Service, id: Uuid) -> Operation {
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
async fn begun(service: &Service) -> Operation {
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
