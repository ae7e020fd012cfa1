//! Events are read over HTTP: in pages from a cursor on, waited for, and as a stream; every one of
//! them, in the sequence of its object, whatever the sequence of the commits.

use std::time::Duration;

use domain::api_key::{Rights, Scope, Shops};
use domain::event::{Event, OrderEvent, PaymentEvent};
use domain::time::Timestamp;
use reqwest::Response;
use serde_json::{Value, json};
use store::sql::{Db, Tx};
use store::{api_keys, events};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::events::{newest_ids, write};
use crate::support::backend::is_distributed;
use crate::support::delivery::{SHOP, order};
use crate::support::{Service, service, within};

const SOON: Duration = Duration::from_secs(20);

async fn get(service: &Service, key: &str, path: &str) -> Response {
    service.get(path).bearer_auth(key).send().await.unwrap()
}

async fn page(service: &Service, key: &str, query: &str) -> Value {
    let response = get(service, key, &format!("/api/events?{query}")).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    assert_eq!(status, 200, "{query}: {body}");
    body
}

fn ids(page: &Value) -> Vec<Uuid> {
    let events = page["events"].as_array().unwrap();
    let id = |event: &Value| event["id"].as_str().unwrap().parse().unwrap();
    events.iter().map(id).collect()
}

/// Reads to the end as a client does; all events in the sequence in which they came.
async fn read_all(service: &Service, key: &str, limit: usize, filter: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut query = format!("limit={limit}{filter}");
    loop {
        let page = page(service, key, &query).await;
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= limit);
        all.extend(events.iter().cloned());
        if page["more"] == false {
            return all;
        }
        query = format!(
            "limit={limit}{filter}&after={}",
            page["next"].as_str().unwrap()
        );
    }
}

/// Events of a time that are written, one after the other.
async fn insert(tx: &mut Tx, at: i64, events: Vec<Event>) {
    let new: Vec<events::NewEvent> = (at..)
        .zip(events)
        .map(|(at, event)| events::NewEvent {
            at: Timestamp(at),
            event,
            traceparent: None,
        })
        .collect();
    events::insert(tx, &new).await.unwrap();
}

fn fulfilled(shop: &str, order: i64) -> Event {
    Event::of_order(shop, order, OrderEvent::Fulfilled)
}

async fn written(db: &Db, at: i64, events: Vec<Event>) -> Vec<Uuid> {
    let mut tx = db.begin().await.unwrap();
    let count = events.len();
    insert(&mut tx, at, events).await;
    tx.commit().await.unwrap();
    newest_ids(db, count).await
}

#[tokio::test]
async fn an_event_that_is_committed_after_a_later_one_is_not_lost() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    let now = service.clock().now().0;
    let (earlier, later) = (now, now + 5);
    let one = vec![fulfilled(SHOP, 1)];
    let two = vec![fulfilled(SHOP, 2)];
    // SQLite has one writer: there the earlier event is of a transaction that begins later.
    if !is_distributed() {
        let second = written(service.db(), later, two).await;
        let read = page(&service, &key, "").await;
        assert_eq!(ids(&read), second);
        let first = written(service.db(), earlier, one).await;
        assert!(first[0] < second[0]);
        let next = read["next"].as_str().unwrap();
        let after = page(&service, &key, &format!("after={next}")).await;
        assert_eq!(
            ids(&after),
            first,
            "a cursor by time would have passed it over"
        );
        service.stop().await;
        return;
    }
    let zero = written(service.db(), earlier, vec![fulfilled(SHOP, 0)]).await;
    let mut open = service.db().begin().await.unwrap();
    insert(&mut open, earlier, one).await;
    let second = written(service.db(), later, two).await;
    let read = page(&service, &key, "").await;
    assert_eq!(
        ids(&read),
        zero,
        "the open transaction holds the later one back"
    );
    let latest = page(&service, &key, "after=latest").await;
    assert_eq!(latest["next"], zero[0].to_string());
    let of_object = page(&service, &key, "object=2").await;
    assert!(ids(&of_object).is_empty());
    open.commit().await.unwrap();
    let first = newest_ids(service.db(), 2).await[..1].to_vec();
    for cursor in [&read, &latest] {
        let next = cursor["next"].as_str().unwrap();
        let after = page(&service, &key, &format!("after={next}")).await;
        assert_eq!(ids(&after), [first.clone(), second.clone()].concat());
    }
    service.stop().await;
}

#[tokio::test]
async fn each_event_is_read_once_and_those_of_an_order_in_their_sequence() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    let writing = async {
        let mut all = Vec::new();
        for _ in 0..12 {
            all.extend(write(service.db(), 20, 5).await);
        }
        all
    };
    // Somebody reads meanwhile, and has the same in the end.
    let reading = async {
        let mut read = Vec::new();
        let mut query = "limit=7".to_owned();
        while read.len() < 1200 {
            let page = page(&service, &key, &query).await;
            read.extend(ids(&page));
            if let Some(next) = page["next"].as_str() {
                query = format!("limit=7&after={next}");
            }
        }
        read
    };
    let (all, read) = tokio::join!(writing, reading);
    assert_eq!(read, all);
    let id = |event: &Value| event["id"].as_str().unwrap().parse().unwrap();
    let again = read_all(&service, &key, 37, "").await;
    assert_eq!(again.iter().map(id).collect::<Vec<Uuid>>(), all);
    let of_one = read_all(&service, &key, 3, "&object=1007").await;
    let expected = all.iter().skip(7).step_by(20);
    assert!(of_one.iter().map(id).eq(expected.copied()));
    service.stop().await;
}

/// The stream of somebody who has seen all, while a transaction holds events back.
#[tokio::test]
async fn a_stream_goes_on_when_what_held_events_back_has_ended() {
    let service = service().start().await;
    let key = service.api_key().await;
    let mut live = get(&service, &key, "/api/events/stream").await;
    heard(&mut live, "retry: 2000\n\n").await;
    let now = service.clock().now().0;
    if !is_distributed() {
        written(service.db(), now, vec![fulfilled(SHOP, 1)]).await;
        heard(&mut live, "\"object_id\":\"1\"").await;
        service.stop().await;
        return;
    }
    for is_committed in [true, false] {
        let mut open = service.db().begin().await.unwrap();
        insert(&mut open, now, vec![fulfilled(SHOP, 1)]).await;
        let second = written(service.db(), now, vec![fulfilled(SHOP, 2)]).await;
        let early = timeout(Duration::from_secs(1), heard(&mut live, "event: "));
        assert!(early.await.is_err(), "nothing comes while it is open");
        if is_committed {
            open.commit().await.unwrap();
            let both = heard(&mut live, &second[0].to_string()).await;
            assert!(both.contains("\"object_id\":\"1\""), "{both}");
        } else {
            open.rollback().await.unwrap();
            let one = heard(&mut live, &second[0].to_string()).await;
            assert!(!one.contains("\"object_id\":\"1\""), "{one}");
        }
        heard(&mut live, "\n\n").await;
    }
    service.stop().await;
}

#[tokio::test]
async fn events_are_filtered_by_type_shop_and_object_and_a_key_of_shops_sees_theirs_alone() {
    let service = service().without_workers().start().await;
    let now = service.clock().now().0;
    let payment = Event::of_payment(
        "pi_1",
        PaymentEvent::Canceled {
            pact_id: None,
            canceled_at: Timestamp(now),
        },
    );
    let all = vec![
        fulfilled("a.example", 1),
        fulfilled("b.example", 2),
        payment,
    ];
    let all = written(service.db(), now, all).await;
    let key = service.api_key().await;
    let read = async |key: &str, query: &str| ids(&page(&service, key, query).await);
    assert_eq!(read(&key, "").await, all);
    assert_eq!(read(&key, "type=order.*").await, all[..2]);
    assert_eq!(read(&key, "type=payment.%23,order.created").await, all[2..]);
    assert_eq!(read(&key, "shop=B.example").await, all[1..2]);
    assert_eq!(read(&key, "object=pi_1").await, all[2..]);
    assert!(read(&key, "object=1&shop=b.example").await.is_empty());
    assert!(read(&key, "after=latest").await.is_empty());
    let rights = Rights {
        scopes: Some(vec![Scope::EventsRead]),
        shops: Shops(Some(vec!["a.example".to_owned()])),
    };
    let of_a = service.api_key_for("a", &rights).await;
    assert_eq!(read(&of_a, "").await, all[..1]);
    assert!(read(&of_a, "shop=b.example").await.is_empty());
    assert!(read(&of_a, "object=pi_1").await.is_empty());
    let empty = page(&service, &of_a, "shop=b.example").await;
    assert_eq!(
        empty["next"],
        all[2].to_string(),
        "it need not look at these again"
    );
    for wrong in [
        "after=yesterday",
        "type=Order",
        "limit=0",
        "limit=1001",
        "wait=31",
        "wait=-1",
        "shop=%00",
        "type=a,",
    ] {
        let refused = get(&service, &key, &format!("/api/events?{wrong}")).await;
        assert_eq!(refused.status(), 422, "{wrong}");
        let refused = get(&service, &key, &format!("/api/events/stream?{wrong}")).await;
        assert_eq!(refused.status(), 422, "{wrong}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_cursor_whose_event_is_no_longer_kept_passes_nothing_over() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    let now = service.clock().now().0;
    let hour = 3_600_000;
    let mut all = Vec::new();
    for hours in [3, 2, 1] {
        all.extend(
            written(
                service.db(),
                now - hours * hour,
                vec![fulfilled(SHOP, hours)],
            )
            .await,
        );
    }
    let mut tx = service.db().begin().await.unwrap();
    let delete = tx
        .query("delete from events where position = $1")
        .bind(events::position_in(all[1]));
    delete.execute().await.unwrap();
    tx.commit().await.unwrap();
    let after = page(&service, &key, &format!("after={}", all[1])).await;
    assert_eq!(ids(&after), all[2..]);
    let after = page(&service, &key, &format!("after={}", Uuid::nil())).await;
    assert_eq!(ids(&after), [all[0], all[2]]);
    service.stop().await;
}

#[tokio::test]
async fn an_answer_can_wait_for_the_first_event_and_comes_without_one_in_the_end() {
    let service = service().start().await;
    let key = service.api_key().await;
    let begun = Instant::now();
    let none = page(&service, &key, "wait=1").await;
    assert_eq!(none, json!({"events": [], "next": null, "more": false}));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let waiting = timeout(SOON, page(&service, &key, "wait=30&type=order.created"));
    let posting = async {
        within(SOON, "the request waits", async || {
            let metrics = service.get("/metrics").send().await.unwrap();
            let metrics = metrics.text().await.unwrap();
            metrics
                .lines()
                .any(|line| line == "waybill_event_readers 1")
        })
        .await;
        let delivery = order("orders/create", 1).id("w-1");
        assert_eq!(service.answer(&delivery).await.0, 200);
    };
    let (page, ()) = tokio::join!(waiting, posting);
    let page = page.expect("it does not wait for all of its 30 seconds");
    assert_eq!(page["events"][0]["type"], "order.created");
    assert_eq!(page["events"][0]["shop"], SHOP);
    assert_eq!(page["events"][0]["id"], page["next"]);
    service.stop().await;
}

/// Reads a stream until a text has come.
async fn heard(response: &mut Response, text: &str) -> String {
    let mut heard = String::new();
    let read = async {
        while !heard.contains(text) {
            let chunk = response.chunk().await.unwrap().expect("the stream goes on");
            heard.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    let read = timeout(SOON, read).await;
    assert!(read.is_ok(), "{text:?} did not come: {heard}");
    heard
}

#[tokio::test]
async fn a_stream_shows_events_as_they_happen_and_goes_on_where_it_was_cut() {
    let mut service = service().start().await;
    let key = service.api_key().await;
    let path = "/api/events/stream?type=order.*";
    let mut live = get(&service, &key, path).await;
    assert_eq!(live.headers()["content-type"], "text/event-stream");
    heard(&mut live, "retry: 2000\n\n").await;
    for seed in 1..=2 {
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        assert_eq!(service.answer(&delivery).await.0, 200);
        let frame = heard(&mut live, "\n\n").await;
        assert!(
            frame.contains("event: order.created\ndata: {\"id\":"),
            "{frame}"
        );
    }
    drop(live);
    let all = read_all(&service, &key, 10, "&type=order.*").await;
    let first = all[0]["id"].as_str().unwrap();
    let again = service
        .get(path)
        .bearer_auth(&key)
        .header("Last-Event-ID", first);
    let mut again = again.send().await.unwrap();
    let missed = heard(&mut again, "event: ").await;
    assert!(
        missed.contains(&format!("id: {}\n", all[1]["id"].as_str().unwrap())),
        "{missed}"
    );
    assert!(!missed.contains(&format!("id: {first}\n")));
    let begun = Instant::now();
    let (rest, ()) = tokio::join!(again.text(), service.halt());
    assert!(rest.is_ok(), "the stream ends as a whole answer: {rest:?}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_key_has_so_many_streams_and_gets_a_place_back() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    let other = service.api_key_for("other", &Rights::default()).await;
    let mut open = Vec::new();
    for _ in 0..16 {
        let stream = get(&service, &key, "/api/events/stream").await;
        assert_eq!(stream.status(), 200);
        open.push(stream);
    }
    for path in ["/api/events/stream", "/api/events?wait=1"] {
        let refused = get(&service, &key, path).await;
        assert_eq!(refused.status(), 429, "{path}");
        assert_eq!(refused.headers()["retry-after"], "5");
    }
    assert_eq!(get(&service, &key, "/api/events").await.status(), 200);
    assert_eq!(
        get(&service, &other, "/api/events/stream").await.status(),
        200
    );
    open.pop();
    // The service finds out when a comment does not reach it.
    within(Duration::from_mins(1), "a free place", async || {
        get(&service, &key, "/api/events/stream").await.status() == 200
    })
    .await;
    drop(open);
    service.stop().await;
}

#[tokio::test]
async fn a_stream_ends_soon_after_its_key_was_revoked() {
    let service = service().start().await;
    let key = service.api_key().await;
    let mut live = get(&service, &key, "/api/events/stream").await;
    heard(&mut live, "retry: ").await;
    let id = api_keys::list(service.db(), service.clock().now())
        .await
        .unwrap()[0]
        .id;
    let mut tx = service.db().begin().await.unwrap();
    assert!(
        api_keys::revoke(&mut tx, id, service.clock().now())
            .await
            .unwrap()
    );
    tx.commit().await.unwrap();
    let ended = timeout(Duration::from_secs(25), live.text()).await;
    assert!(ended.expect("it ends").is_ok());
    service.stop().await;
}
