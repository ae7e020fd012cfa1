//! The live view of the console: deliveries as they come, for those who are signed in and as long as they
//! are.

use std::time::Duration;

use domain::api_key::Role;
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::support::console::{Console, Session, role};
use crate::support::delivery::storefront;
use crate::support::order::{body, deliver, order_delivery, post_all};
use crate::support::{Service, eventually, service};

const SOON: Duration = Duration::from_secs(20);
const CANARY: &str = "canary-person@example.com";

/// A stream that somebody reads.
struct Watch {
    answer: Response,
    text: String,
    /// All that has come.
    all: String,
}

struct Sent {
    event: String,
    id: Option<String>,
    data: Value,
}

impl Watch {
    async fn open(console: &Console, session: &Session, query: &str) -> Self {
        let request = console.get(&format!("/live/events{query}"));
        Watch::of(session.send(request).await)
    }

    fn of(answer: Response) -> Self {
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        Watch {
            answer,
            text: String::new(),
            all: String::new(),
        }
    }

    /// The next event; `None` when the stream has ended.
    async fn next(&mut self) -> Option<Sent> {
        let read = async {
            loop {
                while let Some((frame, rest)) = self.text.split_once("\n\n") {
                    let (frame, rest) = (frame.to_owned(), rest.to_owned());
                    self.text = rest;
                    let field = |name: &str| frame.lines().find_map(|it| it.strip_prefix(name));
                    if let (Some(event), Some(data)) = (field("event: "), field("data: ")) {
                        return Some(Sent {
                            event: event.to_owned(),
                            id: field("id: ").map(str::to_owned),
                            data: serde_json::from_str(data).unwrap(),
                        });
                    }
                }
                let chunk = self.answer.chunk().await.unwrap()?;
                let chunk = std::str::from_utf8(&chunk).unwrap();
                self.text.push_str(chunk);
                self.all.push_str(chunk);
            }
        };
        let read = tokio::time::timeout(SOON, read).await;
        read.expect("a message in time")
    }

    /// The next row about this delivery with this outcome.
    async fn row(&mut self, delivery: &str, outcome: &str) -> Sent {
        loop {
            let sent = self.next().await.expect("the stream goes on");
            let has = |at: usize, text: &str| sent.data["cells"][at]["text"] == text;
            if sent.event == "row" && has(6, delivery) && has(2, outcome) {
                return sent;
            }
        }
    }
}

async fn reader(service: &mut Service) -> (Console, Session) {
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    (console, session)
}

#[tokio::test]
async fn who_watches_sees_each_delivery_and_what_becomes_of_it() {
    let mut service = service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 0, "pending")).id("w-1"),
    )
    .await;
    let (console, session) = reader(&mut service).await;
    let page = console.shown(&session, "/live?topic=orders%2F*").await;
    assert!(
        page.contains("w-1") && page.contains("/live/events?topic=orders%2F*"),
        "{page}"
    );
    let mut all = Watch::open(&console, &session, "").await;
    let mut paid = Watch::open(&console, &session, "?topic=orders%2FPAID&shop=Shop.example").await;
    all.row("w-1", "done").await;
    deliver(
        &service,
        &order_delivery("orders/updated", &body(1, 0, "pending")).id("w-2"),
    )
    .await;
    deliver(
        &service,
        &order_delivery("orders/paid", &body(1, 0, "paid")).id("w-3"),
    )
    .await;
    let row = all.row("w-2", "done").await;
    assert_eq!(row.data["cells"][1]["text"], "orders/updated");
    assert_eq!(row.data["cells"][4]["href"], "/orders/1?shop=shop.example");
    let job = row.data["job"].as_str().unwrap();
    assert_eq!(row.data["cells"][7]["href"], format!("/jobs/{job}"));
    all.row("w-3", "done").await;
    paid.row("w-3", "done").await;
    assert!(
        !paid.all.contains("w-2") && !paid.all.contains("w-1"),
        "{}",
        paid.all
    );
    // What dies and what is refused does not say whom it is about.
    let person = serde_json::json!({"id": CANARY, "email": CANARY}).to_string();
    deliver(&service, &storefront("orders/paid", person)).await;
    let forged = storefront("orders/create", format!("{{\"email\": \"{CANARY}\"}}")).header(
        "X-Storefront-Hmac-Sha256",
        "bm90IHRoZSBzaWduYXR1cmUgb2YgdGhpcyBib2R5IGE=",
    );
    assert_eq!(service.answer(&forged).await.0, 401);
    let mut outcomes = Vec::new();
    while !(outcomes.contains(&"refused".to_owned()) && outcomes.contains(&"dead".to_owned())) {
        let sent = all.next().await.unwrap();
        outcomes.push(sent.data["cells"][2]["text"].as_str().unwrap().to_owned());
    }
    assert!(!all.all.contains(CANARY), "{}", all.all);
    // Dead ones alone: the row comes when the job dies.
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "update jobs set state = 'dead', finished_at = created_at
         where id in (select id from deliveries where external_id = 'w-3')",
    )
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let mut dead = Watch::open(&console, &session, "?state=dead").await;
    dead.row("w-3", "dead").await;
    service.stop().await;
}

#[tokio::test]
async fn what_waited_when_somebody_came_is_shown_when_it_ends() {
    let mut service = service().without_workers().start().await;
    let delivery = order_delivery("orders/create", &body(1, 0, "pending")).id("w-1");
    assert_eq!(service.answer(&delivery).await.0, 200);
    let (console, session) = reader(&mut service).await;
    let mut watch = Watch::open(&console, &session, "").await;
    let mut ready = Watch::open(&console, &session, "?state=ready").await;
    watch.row("w-1", "waits").await;
    let row = ready.row("w-1", "waits").await;
    service
        .execute("update jobs set state = 'dead', finished_at = created_at")
        .await;
    watch.row("w-1", "dead").await;
    let gone = ready.next().await.unwrap();
    assert_eq!(
        (gone.event.as_str(), &gone.data["job"]),
        ("gone", &row.data["job"])
    );
    service.stop().await;
}

#[tokio::test]
async fn who_connects_again_gets_what_came_meanwhile_and_hears_when_that_is_too_much() {
    let mut service = service().start().await;
    let (console, session) = reader(&mut service).await;
    let mut watch = Watch::open(&console, &session, "").await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 0, "pending")).id("w-1"),
    )
    .await;
    let last = watch.row("w-1", "done").await.id.unwrap();
    drop(watch);
    deliver(
        &service,
        &order_delivery("orders/create", &body(2, 0, "pending")).id("w-2"),
    )
    .await;
    let request = console.get("/live/events").header("Last-Event-ID", &last);
    let mut again = Watch::of(session.send(request).await);
    again.row("w-2", "done").await;
    assert!(!again.all.contains("left_out"), "{}", again.all);
    let mut all = Vec::new();
    for id in 10..=220 {
        all.push(order_delivery("orders/updated", &body(id, 0, "pending")).id(&format!("m-{id}")));
    }
    post_all(&service, &all).await;
    service.settled().await;
    let mut late = Watch::open(&console, &session, &format!("?after={last}")).await;
    assert_eq!(late.next().await.unwrap().event, "left_out");
    late.row("m-220", "done").await;
    service.stop().await;
}

#[tokio::test]
async fn watching_ends_with_the_session_with_the_key_and_with_the_process() {
    let mut service = service().without_workers().manual_clock().start().await;
    let (console, session) = reader(&mut service).await;
    for cookie in ["", "waybill-console=00ff"] {
        let request = console.get("/live/events").header("Cookie", cookie);
        assert_eq!(
            request.send().await.unwrap().status(),
            StatusCode::UNAUTHORIZED
        );
    }
    // It is no use of the session.
    let mut watch = Watch::open(&console, &session, "").await;
    service.clock().advance(Duration::from_mins(31));
    assert_eq!(watch.next().await.unwrap().event, "ended");
    assert!(watch.next().await.is_none());

    let key = service.api_key_for("eve", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    let mut watch = Watch::open(&console, &session, "").await;
    let sql = "update api_keys set revoked_at = created_at where name = 'eve'";
    service.execute(sql).await;
    assert_eq!(watch.next().await.unwrap().event, "ended");

    let key = service.api_key_for("bob", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    let mut watch = Watch::open(&console, &session, "").await;
    let token = console.token(&session).await;
    let out = console.post("/sign-out", &[("token", &token)]);
    assert_eq!(session.send(out).await.status(), 303);
    assert_eq!(watch.next().await.unwrap().event, "ended");

    let session = console.sign_in(&key).await;
    let mut watch = Watch::open(&console, &session, "").await;
    let stopped = service.stop();
    let (ended, ()) = tokio::join!(watch.next(), stopped);
    assert!(ended.is_none());
}

#[tokio::test]
async fn at_most_twenty_watch_and_the_pages_are_there_all_the_same() {
    let mut service = service().without_workers().start().await;
    let (console, session) = reader(&mut service).await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(Watch::open(&console, &session, "").await);
    }
    let (status, page) = console.page(&session, "/live/events").await;
    assert_eq!(status, 503);
    assert!(page.contains("Too many watch"), "{page}");
    for path in ["/", "/deliveries", "/live"] {
        console.shown(&session, path).await;
    }
    watches.pop();
    eventually("there is a place again", async || {
        let answer = session.send(console.get("/live/events")).await;
        answer.status() == StatusCode::OK
    })
    .await;
    drop(watches);
    service.stop().await;
}
