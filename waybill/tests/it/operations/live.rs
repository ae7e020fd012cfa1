//! Deliveries are shown as they arrive: to clients as a stream, by `waybill listen`, and in the terminal
//! of `waybill`; each with what became of it, refused ones too, and nothing of bodies and customers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::api_key::{Rights, Scope, Shops};
use domain::job::{JobId, Queue, Source, State};
use domain::signature::{sign_standard, sign_storefront};
use platform::clock::Clock;
use reqwest::Response;
use serde_json::{Value, json};
use server::deliveries::{Follower, Line, Live, Message, Outcome, PATIENCE};
use store::jobs::{self, NewJob};
use store::sql::Db;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::backend::Backend;
use crate::support::delivery::{SHOP, order, storefront};
use crate::support::endpoint::StandIn;
use crate::support::process::{Lines, command, free_port, is_ready, settings};
use crate::support::{STOREFRONT_SECRET, Service, eventually, pause, service, within};

const SOON: Duration = Duration::from_secs(20);
const CANARY: &str = "canary-person@example.com";

/// A stream of deliveries that a client reads.
struct Heard {
    response: Response,
    text: String,
    /// All that has come.
    all: String,
}

impl Heard {
    async fn open(service: &Service, key: &str) -> Self {
        let stream = service.get("/api/deliveries/stream").bearer_auth(key);
        let response = stream.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Heard {
            response,
            text: String::new(),
            all: String::new(),
        }
    }

    /// The next message: its event and its data.
    async fn next(&mut self) -> (String, Value) {
        let read = async {
            loop {
                while let Some((frame, rest)) = self.text.split_once("\n\n") {
                    let (frame, rest) = (frame.to_owned(), rest.to_owned());
                    self.text = rest;
                    let field = |name: &str| frame.lines().find_map(|it| it.strip_prefix(name));
                    if let (Some(event), Some(data)) = (field("event: "), field("data: ")) {
                        return (event.to_owned(), serde_json::from_str(data).unwrap());
                    }
                }
                let chunk = self.response.chunk().await.unwrap();
                let chunk = chunk.expect("the stream goes on");
                let chunk = std::str::from_utf8(&chunk).unwrap();
                self.text.push_str(chunk);
                self.all.push_str(chunk);
            }
        };
        let read = tokio::time::timeout(SOON, read).await;
        read.expect("a message in time")
    }

    /// How the next delivery has ended, which may take longer than a line waits.
    async fn ended(&mut self) -> Value {
        loop {
            let (event, line) = self.next().await;
            assert_eq!(event, "delivery", "{line}");
            if line["outcome"] != "waiting" {
                return line;
            }
        }
    }
}

fn scoped(shops: Shops) -> Rights {
    Rights {
        scopes: Some(vec![Scope::DeliveriesRead]),
        shops,
    }
}

async fn key(service: &Service) -> String {
    service.api_key_for("listen", &scoped(Shops(None))).await
}

#[tokio::test]
async fn a_stream_says_of_each_delivery_what_became_of_it_and_nothing_of_whom_it_is_about() {
    let service = service().start().await;
    let mut heard = Heard::open(&service, &key(&service).await).await;

    let delivery = order("orders/create", 1).id("w-1");
    assert_eq!(service.answer(&delivery).await.0, 200);
    let line = heard.ended().await;
    assert_eq!(line["topic"], "orders/create");
    assert_eq!(line["outcome"], "done");
    assert_eq!(line["status"], 200);
    assert_eq!(
        (&line["shop"], &line["delivery_id"]),
        (&json!(SHOP), &json!("w-1"))
    );
    assert_eq!(line["source"], "storefront");
    assert!(line["milliseconds"].as_i64().unwrap() >= 0, "{line}");
    assert!(
        line["object_id"].is_string() && line["received_at"].is_string(),
        "{line}"
    );
    let job: JobId = line["job"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        jobs::show(service.db(), job).await.unwrap().unwrap().state,
        "done"
    );

    // A duplicate makes no line; the next one does.
    assert_eq!(service.answer(&delivery).await.0, 409);
    let person = json!({"id": 2, "email": CANARY, "customer": {"id": 77, "email": CANARY}});
    let unhandled = storefront("app/uninstalled", person.to_string());
    assert_eq!(service.answer(&unhandled).await.0, 200);
    let line = heard.ended().await;
    assert_eq!(
        (&line["topic"], &line["outcome"]),
        (&json!("app/uninstalled"), &json!("kept"))
    );

    let unreadable = json!({"id": CANARY, "email": CANARY}).to_string();
    assert_eq!(
        service
            .answer(&storefront("orders/paid", unreadable))
            .await
            .0,
        200
    );
    let line = heard.ended().await;
    assert_eq!(
        (&line["topic"], &line["outcome"]),
        (&json!("orders/paid"), &json!("dead"))
    );

    let forged = order("orders/updated", 3).header(
        "X-Storefront-Hmac-Sha256",
        sign_storefront("another secret", &order("orders/updated", 3).body),
    );
    for _ in 0..2 {
        assert_eq!(service.answer(&forged).await.0, 401);
    }
    let mut refused = 0;
    while refused < 2 {
        let (event, line) = heard.next().await;
        assert_eq!(event, "refused", "{line}");
        assert_eq!(
            (&line["status"], &line["outcome"]),
            (&json!(401), &json!("refused"))
        );
        assert_eq!(
            (&line["reason"], &line["signature"]),
            (&json!("signature"), &json!("mismatch"))
        );
        assert_eq!(
            line["advice"],
            "STOREFRONT_WEBHOOK_SECRET to the provider's"
        );
        assert_eq!(line["topic"], "orders/updated");
        refused += line["deliveries"].as_i64().unwrap();
    }
    assert_eq!(refused, 2);
    assert!(!heard.all.contains("canary"), "{}", heard.all);
    service.stop().await;
}

#[tokio::test]
async fn a_delivery_that_no_worker_runs_is_shown_as_waiting_and_once_more_at_its_end() {
    let mut service = service().without_workers().start().await;
    let mut heard = Heard::open(&service, &key(&service).await).await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    let (_, line) = heard.next().await;
    assert_eq!(
        (&line["outcome"], &line["milliseconds"]),
        (&json!("waiting"), &Value::Null)
    );
    service.start_workers();
    let (_, line) = heard.next().await;
    assert_eq!(line["outcome"], "done");
    assert!(line["milliseconds"].as_i64().unwrap() >= 1000, "{line}");
    service.stop().await;
}

#[tokio::test]
async fn a_key_of_a_shop_hears_of_its_deliveries_and_of_nothing_that_nobody_signed() {
    let service = service().without_workers().start().await;
    let all = key(&service).await;
    let rights = scoped(Shops(Some(vec!["a.example".to_owned()])));
    let of_a = service.api_key_for("a", &rights).await;
    let mut all = Heard::open(&service, &all).await;
    let mut of_a = Heard::open(&service, &of_a).await;
    let unsigned = order("orders/create", 1)
        .without("X-Storefront-Hmac-Sha256")
        .of_shop("a.example");
    assert_eq!(service.answer(&unsigned).await.0, 401);
    // It is written every other second; all that is posted after it comes later.
    let (event, line) = all.next().await;
    assert_eq!(
        (event.as_str(), &line["shop"]),
        ("refused", &json!("a.example"))
    );
    for shop in ["b.example", "a.example"] {
        let delivery = order("orders/create", 2).of_shop(shop);
        assert_eq!(service.answer(&delivery).await.0, 200);
        assert_eq!(all.next().await.1["shop"], shop);
    }
    assert_eq!(of_a.next().await.1["shop"], "a.example");
    assert!(
        !of_a.all.contains("b.example") && !of_a.all.contains("refused"),
        "{}",
        of_a.all
    );
    service.stop().await;
}

#[tokio::test]
async fn a_stream_of_deliveries_ends_with_the_service() {
    let mut service = service().without_workers().start().await;
    let heard = Heard::open(&service, &key(&service).await).await;
    let (rest, ()) = tokio::join!(heard.response.text(), service.halt());
    assert!(rest.is_ok(), "the stream ends as a whole answer: {rest:?}");
}

/// A delivery as it is stored, whose request began at this time.
fn arrived(clock: &Clock, ago: Duration) -> NewJob {
    let created_at = clock.now();
    NewJob {
        shop: Some(SHOP.to_owned()),
        state: State::Done,
        ..NewJob::new(
            clock.id_at(created_at.minus(ago)),
            Queue::Orders,
            Source::Storefront,
            "orders/create".to_owned(),
            Vec::new().into(),
            created_at,
        )
    }
}

async fn store(db: &Db, jobs: &[NewJob]) {
    let mut tx = db.begin().await.unwrap();
    let jobs: Vec<&NewJob> = jobs.iter().collect();
    for jobs in jobs.chunks(100) {
        jobs::insert(&mut tx, jobs).await.unwrap();
    }
    tx.commit().await.unwrap();
}

fn lines(messages: Vec<Message>) -> Vec<Line> {
    let line = |message| match message {
        Message::Line(line) => *line,
        Message::PassedOver(passed_over) => panic!("{passed_over} are not shown"),
    };
    messages.into_iter().map(line).collect()
}

#[tokio::test]
async fn a_delivery_that_is_committed_after_a_later_one_was_shown_is_shown_too_and_each_once() {
    let service = service().without_workers().start().await;
    let (db, clock) = (service.db(), service.clock());
    store(
        db,
        &[
            arrived(clock, Duration::from_hours(1)),
            arrived(clock, Duration::ZERO),
        ],
    )
    .await;
    let mut follower = Follower::begin(db, clock, PATIENCE).await.unwrap();
    assert_eq!(lines(follower.look().await.unwrap()), []);
    for ago in [0, 12, 5, 0] {
        let new = arrived(clock, Duration::from_secs(ago));
        let id = new.id;
        store(db, &[new]).await;
        let shown = lines(follower.look().await.unwrap());
        assert_eq!(shown.len(), 1, "{ago}: {shown:?}");
        assert_eq!(shown[0].job, Some(id));
        assert_eq!(shown[0].outcome, Outcome::Done);
        assert_eq!(lines(follower.look().await.unwrap()), []);
    }
    // Work of our own is no delivery.
    let own = NewJob {
        source: Source::Internal,
        ..arrived(clock, Duration::ZERO)
    };
    store(db, &[own]).await;
    assert_eq!(lines(follower.look().await.unwrap()), []);
    service.stop().await;
}

#[tokio::test]
async fn a_flood_is_not_read_whole_and_what_comes_after_it_is_shown() {
    let service = service().without_workers().start().await;
    let (db, clock) = (service.db(), service.clock());
    let mut follower = Follower::begin(db, clock, PATIENCE).await.unwrap();
    for (deliveries, not_shown, most) in [(500, 0, 500), (501, 401, 100), (2500, 1900, 100)] {
        let flood: Vec<NewJob> = (0..deliveries)
            .map(|_| arrived(clock, Duration::ZERO))
            .collect();
        store(db, &flood).await;
        let mut messages = follower.look().await.unwrap();
        if not_shown > 0 {
            assert_eq!(messages.remove(0), Message::PassedOver(not_shown));
        }
        let shown = lines(messages);
        assert_eq!(shown.len(), most);
        assert!(shown.is_sorted_by_key(|line| line.job));
        assert_eq!(
            lines(follower.look().await.unwrap()),
            [],
            "none comes again"
        );
    }
    let last = arrived(clock, Duration::ZERO);
    let id = last.id;
    store(db, &[last]).await;
    let shown = lines(follower.look().await.unwrap());
    assert_eq!(
        shown.iter().map(|line| line.job).collect::<Vec<_>>(),
        [Some(id)]
    );
    service.stop().await;
}

#[tokio::test]
async fn each_failed_try_has_a_line_and_so_has_the_end() {
    let service = service().without_workers().start().await;
    let (db, clock) = (service.db(), service.clock());
    let mut follower = Follower::begin(db, clock, PATIENCE).await.unwrap();
    let waiting = NewJob {
        state: State::Ready,
        ..arrived(clock, Duration::ZERO)
    };
    let id = waiting.id;
    store(db, &[waiting]).await;
    assert_eq!(
        lines(follower.look().await.unwrap()),
        [],
        "it is given some time"
    );
    let mut outcomes = Vec::new();
    for attempts in 1..=3 {
        let mut tx = db.begin().await.unwrap();
        let error = "the shelf is away, said canary-person";
        if attempts < 3 {
            jobs::retry(&mut tx, id, attempts, clock.now(), None, error)
                .await
                .unwrap();
        } else {
            jobs::dead_letter(&mut tx, id, attempts, clock.now(), error)
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        // What was shown already is not looked at each time.
        let mut shown = Vec::new();
        while shown.is_empty() {
            shown = lines(follower.look().await.unwrap());
        }
        assert_eq!((shown.len(), shown[0].attempts), (1, attempts));
        assert!(!serde_json::to_string(&shown).unwrap().contains("canary"));
        outcomes.push(shown[0].outcome);
    }
    assert_eq!(
        outcomes,
        [Outcome::Retrying, Outcome::Retrying, Outcome::Dead]
    );
    service.stop().await;
}

/// The line about the end of a delivery, which may take longer than a line waits.
async fn ended(listening: &mut Lines, topic: &str) -> String {
    loop {
        let line = listening.until(topic).await;
        if !line.ends_with("waits") {
            return line;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_shows_the_deliveries_of_the_database_and_those_of_a_service_from_afar() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend.clone()).await;
    let own = settings(&backend, free_port());
    let file = backend.folder().join("key");
    std::fs::write(&file, format!("{}\n", key(&service).await)).unwrap();
    let file = file.to_str().unwrap();
    let afar = ["listen", "--url", service.url.as_str(), "--key-file", file];
    let mut here = Lines::start(&["listen"], &own);
    let mut topics = Lines::start(
        &["listen", "--topic", "*/PAID", "--json", "--limit", "1"],
        &own,
    );
    let mut there = Lines::start(&afar, &[]);
    let mut refused = Lines::start(
        &[
            &afar[..],
            &["--json", "--limit", "1", "--shop", "x.example"],
        ]
        .concat(),
        &[],
    );
    for listening in [&mut here, &mut topics, &mut there, &mut refused] {
        listening.says("Listening to").await;
    }
    for (topic, seed) in [("orders/create", 1), ("orders/paid", 1)] {
        assert_eq!(service.answer(&order(topic, seed)).await.0, 200);
        for listening in [&mut here, &mut there] {
            let line = ended(listening, topic).await;
            let columns: Vec<&str> = line.split_whitespace().collect();
            assert_eq!((columns[1], columns[2]), ("200", topic), "{line}");
            assert_eq!(columns.last(), Some(&"done"), "{line}");
            assert_eq!(columns[0].len(), "08:00:00".len());
            assert!(columns[4].parse::<u64>().is_ok(), "milliseconds: {line}");
        }
    }
    let (code, paid, _) = topics.end().await;
    assert_eq!(code, Some(0), "--limit");
    let paid: Value = serde_json::from_str(&paid[0]).unwrap();
    assert_eq!(
        (&paid["topic"], &paid["shop"]),
        (&json!("orders/paid"), &json!(SHOP))
    );

    let unsigned = order("orders/create", 2)
        .without("X-Storefront-Hmac-Sha256")
        .also("X-Shopify-Hmac-Sha256", "x")
        .of_shop("x.example");
    assert_eq!(service.answer(&unsigned).await.0, 401);
    for listening in [&mut here, &mut there] {
        let line = listening.until("refused").await;
        assert_eq!(line.split_whitespace().nth(1), Some("401"), "{line}");
        let why = listening.line().await;
        assert!(why.contains("signature missing"), "{why}");
        let advice = listening.line().await;
        assert_eq!(advice.trim(), "-> set STOREFRONT_PROVIDER=shopify");
    }
    let (_, refused, _) = refused.end().await;
    let refused: Value = serde_json::from_str(&refused[0]).unwrap();
    assert_eq!(refused["advice"], "STOREFRONT_PROVIDER=shopify");

    for listening in [here, there] {
        listening.interrupt();
        let (code, out, err) = listening.end().await;
        assert_eq!(
            (code, out.len(), err.len()),
            (Some(0), 0, 0),
            "Ctrl-C: {out:?} {err:?}"
        );
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_from_afar_needs_a_key_with_the_scope_and_sends_it_to_nobody_in_clear() {
    let backend = Arc::new(Backend::create().await);
    let service = service().without_workers().start_on(backend.clone()).await;
    let rights = Rights {
        scopes: Some(vec![Scope::EventsRead]),
        shops: Shops(None),
    };
    let of_events = service.api_key_for("events", &rights).await;
    let file = backend.folder().join("key");
    std::fs::write(&file, of_events).unwrap();
    let file = file.to_str().unwrap();
    let listen = |url: &str| Lines::start(&["listen", "--url", url, "--key-file", file], &[]);
    let (code, _, err) = listen(&service.url).end().await;
    assert_eq!(code, Some(1));
    assert!(
        err[0].contains("403: This API key lacks the scope deliveries:read"),
        "{err:?}"
    );
    let (code, _, err) = listen("http://waybill.example").end().await;
    assert_eq!(code, Some(2));
    assert!(err[0].contains("without encryption"), "{err:?}");
    let (code, _, _) = Lines::start(&["listen", "--url", &service.url], &[])
        .end()
        .await;
    assert_eq!(code, Some(2), "no key");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_from_afar_waits_for_a_service_that_is_away() {
    let backend = Arc::new(Backend::create().await);
    let (options, url) = service().listening().await;
    let mut first = options.start_on(backend.clone()).await;
    let file = backend.folder().join("key");
    std::fs::write(&file, key(&first).await).unwrap();
    let arguments = [
        "listen",
        "--url",
        &url,
        "--key-file",
        file.to_str().unwrap(),
    ];
    let mut listening = Lines::start(&arguments, &[]);
    listening.says("Listening to").await;
    first.halt().await;
    listening.says("trying again").await;
    let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut second =
        crate::support::process::Process::start("waybill", &["serve"], &settings(&backend, port));
    is_ready(port).await;
    listening.says("back again").await;
    let posted = reqwest::Client::new()
        .post(format!("{url}/api/webhooks/storefront"))
        .header("X-Storefront-Topic", "app/uninstalled")
        .header(
            "X-Storefront-Hmac-Sha256",
            sign_storefront(STOREFRONT_SECRET, b"{}"),
        )
        .body("{}");
    assert_eq!(posted.send().await.unwrap().status(), 200);
    assert!(listening.until("app/uninstalled").await.ends_with("kept"));
    second.terminate().await;
}

/// The event ids and types that a stand-in accepted, whose signatures are right.
fn forwarded(stand_in: &StandIn, secret: &str) -> Vec<(Uuid, String)> {
    let accepted = stand_in.accepted();
    let checked = accepted.iter().map(|it| {
        let at = it.headers["webhook-timestamp"].parse().unwrap();
        let id = it.headers["webhook-id"].as_str();
        let right = sign_standard(secret, id, at, it.body.as_bytes()).unwrap();
        assert_eq!(it.headers["webhook-signature"], right);
        (it.id(), it.event()["type"].as_str().unwrap().to_owned())
    });
    checked.collect()
}

/// Whoever reads that events are forwarded may make one happen, and it is forwarded.
#[tokio::test(flavor = "multi_thread")]
async fn forwarding_is_said_to_have_begun_when_it_is_known_after_which_event() {
    let backend = Backend::create().await;
    let key = backend.folder().join("key");
    std::fs::write(&key, "a key").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answered = Arc::new(AtomicBool::new(false));
    let newest = answered.clone();
    platform::task::spawn("a slow service", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut request).await.unwrap();
        }
        let request = String::from_utf8(request).unwrap();
        assert!(
            request.starts_with("GET /api/events?after=latest"),
            "{request}"
        );
        pause(Duration::from_secs(1)).await;
        newest.store(true, Ordering::Relaxed);
        let body = r#"{"events":[],"next":null}"#;
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
        let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        // The next request waits for an event.
        std::future::pending::<()>().await;
    });
    let target = "http://127.0.0.1:1/";
    let options = ["listen", "--forward-to", target, "--url", &url];
    let options = [&options[..], &["--key-file", key.to_str().unwrap()]].concat();
    let mut forwards = Lines::start(&options, &[]);
    forwards.says("Forwarding events").await;
    assert!(
        answered.load(Ordering::Relaxed),
        "it was said before the service had answered"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_forwarded_to_this_machine_in_order_until_they_are_accepted() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend.clone()).await;
    let own = settings(&backend, free_port());
    let rights = Rights {
        scopes: Some(vec![Scope::EventsRead]),
        shops: Shops(None),
    };
    let file = backend.folder().join("key");
    std::fs::write(&file, service.api_key_for("events", &rights).await).unwrap();
    let secret_file = backend.folder().join("secret");
    let secret = domain::endpoint::Secret::new([7; 32]).reveal();
    std::fs::write(&secret_file, format!("{secret}\n")).unwrap();
    let (here, there) = (StandIn::start(503).await, StandIn::start(200).await);
    let local = ["listen", "--forward-to", &here.url];
    let mut near = Lines::start(&local, &own);
    let made = near.says("signed by Standard Webhooks with ").await;
    let (key, named) = (file.to_str().unwrap(), secret_file.to_str().unwrap());
    let afar = [
        "listen",
        "--forward-to",
        &there.url,
        "--url",
        &service.url,
        "--key-file",
        key,
    ];
    let afar = [
        &afar[..],
        &["--secret-file", named, "--type", "order.*", "--json"],
    ]
    .concat();
    let mut far = Lines::start(&afar, &[]);
    far.says("Forwarding events").await;
    for (topic, seed) in [("orders/create", 1), ("orders/paid", 1)] {
        assert_eq!(service.answer(&order(topic, seed)).await.0, 200);
    }
    // One that is down makes only its own command wait.
    near.says("503; again in 1 s, and what follows waits").await;
    far.until("order.created").await;
    far.until("order.fulfillment_requested").await;
    let kinds = |it: &[(Uuid, String)]| it.iter().map(|it| it.1.clone()).collect::<Vec<_>>();
    let of_far = forwarded(&there, &secret);
    assert!(
        kinds(&of_far).iter().all(|it| it.starts_with("order.")),
        "{of_far:?}"
    );
    assert_eq!(here.accepted().len(), 0);
    here.is(200);
    near.until("order.fulfillment_requested").await;
    let of_near = forwarded(&here, &made);
    let only = of_near.iter().filter(|it| it.1.starts_with("order."));
    let only: Vec<_> = only.take(of_far.len()).cloned().collect();
    assert_eq!(only, of_far, "the same events in the same sequence");
    near.interrupt();
    let (code, _, err) = near.end().await;
    assert_eq!(code, Some(0));
    let last = of_near.last().unwrap().0.to_string();
    assert!(err.iter().any(|line| line.contains("--after")), "{err:?}");
    far.interrupt();
    let (_, _, err) = far.end().await;
    let options = format!("--url {} --key-file {key}", service.url);
    let said = |part: &str| err.iter().any(|line| line.contains(part));
    assert!(said(&options) && said("--type 'order.*'"), "{err:?}");
    // What came while nobody listened is forwarded after the last one.
    assert_eq!(service.answer(&order("orders/create", 2)).await.0, 200);
    service.settled().await;
    let after = [&local[..], &["--after", &last, "--limit", "1"]].concat();
    let (code, out, _) = Lines::start(&after, &own).end().await;
    assert_eq!((code, out.len()), (Some(0), 1), "{out:?}");
    for (url, why) in [
        ("https://10.0.0.7/hook", "ENDPOINT_NETWORKS"),
        ("ftp://127.0.0.1/", "must be https:// or http://"),
    ] {
        let (code, _, err) = Lines::start(&["listen", "--forward-to", url], &own)
            .end()
            .await;
        assert_eq!(code, Some(2));
        assert!(err.iter().any(|line| line.contains(why)), "{err:?}");
    }
    service.stop().await;
}

/// The terminal of `waybill` without a command.
async fn started(folder: &std::path::Path, port: u16, more: &[(&str, &str)]) -> Lines {
    let address = format!("127.0.0.1:{port}");
    let mut starting = command(
        "waybill",
        &[("LISTEN_ADDR", &address), ("RUST_LOG", "warn")],
    );
    starting.current_dir(folder).envs(more.iter().copied());
    let mut terminal = Lines::of(starting);
    terminal.until("Ctrl-C stops it").await;
    is_ready(port).await;
    terminal
}

async fn post(port: u16, topic: &str) {
    let secret = config::DEVELOPMENT_STOREFRONT_SECRET;
    let posted = reqwest::Client::new()
        .post(format!("http://127.0.0.1:{port}/api/webhooks/storefront"))
        .header("X-Storefront-Topic", topic)
        .header("X-Storefront-Hmac-Sha256", sign_storefront(secret, b"{}"))
        .body("{}");
    assert_eq!(posted.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn development_shows_its_deliveries_where_somebody_looks() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut shown = started(folder.path(), port, &[("SHOW_DELIVERIES", "true")]).await;
    // It may begin to listen a moment after it is ready.
    let line = async { shown.until("app/uninstalled").await };
    let posting = async {
        loop {
            post(port, "app/uninstalled").await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let line = tokio::select! {
        line = line => line,
        () = posting => unreachable!("it has no end"),
    };
    assert!(line.ends_with("kept"), "{line}");
    shown.interrupt();
    assert_eq!(shown.end().await.0, Some(0));

    // Nobody looks at a pipe.
    let silent = started(folder.path(), port, &[]).await;
    post(port, "app/installed").await;
    silent.interrupt();
    let (code, out, _) = silent.end().await;
    assert_eq!(code, Some(0));
    assert!(
        !out.iter().any(|line| line.contains("app/installed")),
        "{out:?}"
    );
}

#[tokio::test]
async fn a_listener_has_a_place_and_gives_it_back() {
    let service = service().without_workers().start().await;
    let key = key(&service).await;
    let heard = Heard::open(&service, &key).await;
    assert_eq!(readers(&service).await, 1);
    drop(heard);
    eventually("the place is given back", async || {
        readers(&service).await == 0
    })
    .await;
    service.stop().await;
}

/// The value of a metric without labels.
async fn metric(service: &Service, name: &str) -> i64 {
    let metrics = service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let of = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned());
    metrics.lines().find_map(of).unwrap().parse().unwrap()
}

/// How many listen.
async fn readers(service: &Service) -> i64 {
    metric(service, "waybill_event_readers").await
}

/// How long it takes until the service has sent so many statements to its database.
async fn time_of_statements(service: &Service, statements: i64) -> Duration {
    const SENT: &str = "waybill_database_acquire_seconds_count";
    let (before, begun) = (metric(service, SENT).await, Instant::now());
    within(Duration::from_mins(2), "statements were sent", async || {
        metric(service, SENT).await >= before + statements
    })
    .await;
    begun.elapsed()
}

#[tokio::test]
async fn all_listeners_of_a_process_share_one_look() {
    let service = service().without_workers().start().await;
    let key = key(&service).await;
    let _first = Heard::open(&service, &key).await;
    let of_one = time_of_statements(&service, 40).await;
    let mut others = Vec::new();
    for _ in 0..11 {
        others.push(Heard::open(&service, &key).await);
    }
    let of_twelve = time_of_statements(&service, 40).await;
    // If each looked by itself, there would be twelve times as many statements.
    assert!(of_twelve * 4 > of_one, "{of_one:?} {of_twelve:?}");
    service.stop().await;
}

/// A pause may be long, because a busy machine looks seldom.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_begins_to_listen_does_not_wait_for_the_pause_between_looks() {
    const PAUSE: Duration = Duration::from_hours(1);
    let service = service().without_workers().start().await;
    let (live, shutdown) = (Live::default(), CancellationToken::new());
    live.look_for_new(service.db(), service.clock(), PAUSE, None, &shutdown);
    let mut listeners = Vec::new();
    for _ in 0..3 {
        let mut listener = live.listen();
        let ready = tokio::time::timeout(Duration::from_secs(10), listener.ready());
        ready.await.expect("it is looked at once");
        listeners.push(listener);
    }
    shutdown.cancel();
    service.stop().await;
}

/// The process's own terminal does not wait until it is heard for, as clients do.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_ask_for_a_look_hears_deliveries_though_nobody_listened() {
    let service = service().without_workers().start().await;
    let (live, shutdown) = (Live::default(), CancellationToken::new());
    let between = Duration::from_millis(50);
    live.look_for_new(service.db(), service.clock(), between, None, &shutdown);
    // Once this one is gone, nothing is looked at.
    let mut first = live.listen();
    first.ready().await;
    drop(first);
    pause(between * 10).await;
    let mut listener = live.listen();
    let heard = async {
        loop {
            service.post(&order("orders/create", 1)).await;
            let next = tokio::time::timeout(between * 10, listener.next());
            if next.await.is_ok() {
                return;
            }
        }
    };
    let heard = tokio::time::timeout(SOON, heard).await;
    heard.expect("a delivery is heard");
    shutdown.cancel();
    service.stop().await;
}
