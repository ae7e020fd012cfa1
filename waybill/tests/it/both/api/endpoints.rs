//! Events go to endpoints as webhooks: signed, each at least once, those of an order in their
//! sequence, and no endpoint waits for another.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::api_key::{Rights, Scope, Shops};
use domain::endpoint::State;
use domain::job;
use serde_json::{Value, json};
use store::endpoints;
use tokio::time::Instant;
use uuid::Uuid;

use super::events::write;
use crate::support::backend::is_distributed;
use crate::support::delivery::{SHOP, order, storefront};
use crate::support::endpoint::{
    BUSY, BUSY_SECONDS, EVERY_SECOND_REFUSED, FIRST_EVENT_REFUSED_ONCE, FIRST_ORDER_REFUSED,
    GARBAGE, SLOW, StandIn,
};
use crate::support::operator::{json as machine, refused, said, waybill};
use crate::support::process::{Process, free_port, run, settings};
use crate::support::{
    Options, PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, service, within,
};

pub fn with_endpoints() -> Options {
    service().setting("ENDPOINT_NETWORKS", "127.0.0.0/8")
}

pub async fn call(
    service: &Service,
    key: &str,
    method: &str,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let request = match method {
        "get" => service.get(path),
        "delete" => service.delete(path),
        _ => service.post_to(path),
    };
    let request = request.bearer_auth(key);
    let request = if body.is_null() {
        request
    } else {
        request.body(body.to_string())
    };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// Adds an endpoint over the API; its id and its secret.
pub async fn add(service: &Service, url: &str) -> (Uuid, String) {
    let key = service.api_key().await;
    let body = json!({ "url": url });
    let (status, added) = call(service, &key, "post", "/api/endpoints", body).await;
    assert_eq!(status, 201, "{added}");
    let id = added["endpoint"]["id"].as_str().unwrap().parse().unwrap();
    (id, added["secret"].as_str().unwrap().to_owned())
}

async fn endpoint(service: &Service, id: Uuid) -> endpoints::Endpoint {
    endpoints::find(service.db(), id).await.unwrap().unwrap()
}

/// As if what was tried at all had been tried for nearly three days.
async fn nearly_given_up(service: &Service) {
    let nearly = "update jobs set attempts = 87, deadline_at = created_at
                  where queue = 'endpoints' and attempts > 0";
    service.execute(nearly).await;
}

pub async fn an_order(service: &Service, seed: u64) {
    let order = order("orders/create", seed).id(&format!("w-{seed}"));
    assert_eq!(service.answer(&order).await.0, 200);
}

#[tokio::test]
async fn an_event_comes_to_an_endpoint_as_the_json_of_the_event() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(200).await;
    add(&service, &stand_in.url).await;
    an_order(&service, 1).await;
    eventually("it is delivered", async || stand_in.ids().len() == 1).await;
    let received = stand_in.accepted().remove(0);
    let key = service.api_key().await;
    let (_, page) = call(&service, &key, "get", "/api/events", Value::Null).await;
    assert_eq!(received.event(), page["events"][0]);
    assert_eq!(received.event()["type"], "order.created");
    assert_eq!(received.headers["content-type"], "application/json");
    let jobs = "select count(*) as n from jobs where queue = 'endpoints'";
    assert_eq!(
        service.count(jobs).await,
        0,
        "what is accepted needs no job"
    );
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_gets_the_types_that_it_wants_from_when_it_wants() {
    let service = with_endpoints().start().await;
    let written = write(service.db(), 2, 2).await;
    let all = StandIn::start(200).await;
    let created = StandIn::start(200).await;
    let none = StandIn::start(200).await;
    let key = service.api_key().await;
    for (stand_in, body) in [
        (&all, json!({"since_seconds": 3600})),
        (
            &created,
            json!({"since_seconds": 3600, "types": ["*.created", "payment.#"]}),
        ),
        (&none, json!({"types": ["order.*"]})),
    ] {
        let mut body = body;
        body["url"] = stand_in.url.as_str().into();
        let (status, added) = call(&service, &key, "post", "/api/endpoints", body).await;
        assert_eq!(status, 201, "{added}");
    }
    eventually("both have what they want", async || {
        all.has_all(&written) && created.has_all(&written[..2])
    })
    .await;
    let later = write(service.db(), 1, 1).await;
    eventually("all have what is new", async || {
        [&all, &created, &none].iter().all(|it| it.has_all(&later))
    })
    .await;
    assert_eq!(created.ids().len(), 3);
    assert_eq!(none.ids(), later);
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_was_down_gets_each_event_in_order_and_delays_no_other() {
    for down_as in [500, GARBAGE] {
        let service = with_endpoints().manual_clock().start().await;
        let (up, down) = (StandIn::start(204).await, StandIn::start(down_as).await);
        add(&service, &up.url).await;
        let (id, _) = add(&service, &down.url).await;
        let written = write(service.db(), 100, 4).await;
        within(
            Duration::from_secs(10),
            "the other one has all",
            async || up.has_all(&written),
        )
        .await;
        eventually("its events wait", async || {
            endpoint(&service, id).await.failing_since.is_some()
        })
        .await;
        assert!(down.ids().is_empty());
        let before = down.requests();
        service.clock().advance(Duration::from_hours(26));
        eventually("it is tried again", async || down.requests() > before).await;
        let jobs = "select count(*) as n from jobs where queue = 'endpoints'";
        assert!(service.count(jobs).await < 330, "most events have no job");
        down.is(200);
        eventually("it has all", async || {
            service.pass(Duration::from_mins(20)).await;
            down.has_all(&written)
        })
        .await;
        up.in_order(service.db()).await;
        down.in_order(service.db()).await;
        eventually("nothing waits", async || {
            service.jobs(job::State::Ready).await == 0
        })
        .await;
        let waiting = "select count(*) as n from outgoing_webhooks";
        assert_eq!(service.count(waiting).await, 0);
        let ended = endpoint(&service, id).await;
        assert_eq!((ended.state, ended.failing_since), (State::Active, None));
        service.stop().await;
    }
}

#[tokio::test]
async fn an_event_that_an_endpoint_never_accepts_holds_back_its_own_order_alone() {
    let service = with_endpoints().manual_clock().start().await;
    let stand_in = StandIn::start(FIRST_ORDER_REFUSED).await;
    let (id, _) = add(&service, &stand_in.url).await;
    let written = write(service.db(), 5, 3).await;
    let others: Vec<Uuid> = (0..15).filter(|n| n % 5 != 0).map(|n| written[n]).collect();
    eventually("the others are delivered", async || {
        stand_in.has_all(&others)
    })
    .await;
    // For three days it is tried again, then the event is given up, and then the next one.
    let dead = "select count(*) as n from jobs where queue = 'endpoints' and state = 'dead'";
    eventually("all three are given up", async || {
        nearly_given_up(&service).await;
        service.pass(Duration::from_secs(6)).await;
        service.count(dead).await == 3
    })
    .await;
    assert_eq!(stand_in.ids().len(), others.len());
    assert_eq!(endpoint(&service, id).await.state, State::Active);
    stand_in.is(200);
    // Requeued as any dead job is.
    said(
        &service,
        &["dead", "requeue", "--kind", "endpoints/send", "--yes"],
    )
    .await;
    eventually("the operator has them sent again", async || {
        stand_in.has_all(&written)
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn what_waits_for_an_endpoint_is_sent_as_soon_as_it_works_again() {
    let service = with_endpoints().manual_clock().start().await;
    let stand_in = StandIn::start(500).await;
    let (id, _) = add(&service, &stand_in.url).await;
    let mut written = write(service.db(), 5, 1).await;
    let attempts = "select count(*) as n from jobs where queue = 'endpoints' and attempts > 0";
    eventually("all were tried again", async || {
        service.pass(Duration::from_secs(6)).await;
        service.count(attempts).await == 5
    })
    .await;
    service.clock().advance(Duration::from_mins(5));
    // From here on no time passes, so none of the pauses ends by itself.
    let long = "update jobs set run_at = run_at + 36000000 where queue = 'endpoints'";
    service.execute(long).await;
    stand_in.is(200);
    assert!(stand_in.ids().is_empty());
    written.extend(write(service.db(), 6, 1).await.last());
    eventually("it has all", async || stand_in.has_all(&written)).await;
    let well = endpoint(&service, id).await;
    assert_eq!((well.failing_since, well.last_error), (None, None));
    service.stop().await;
}

#[tokio::test]
async fn an_event_does_not_overtake_an_earlier_one_of_its_order_that_was_refused() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(FIRST_EVENT_REFUSED_ONCE).await;
    add(&service, &stand_in.url).await;
    let written = write(service.db(), 20, 3).await;
    eventually("it has all", async || stand_in.has_all(&written)).await;
    assert_eq!(stand_in.refused.lock().unwrap().len(), 20);
    stand_in.in_order(service.db()).await;
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_refuses_many_orders_gets_all_others_at_once() {
    let service = with_endpoints().manual_clock().start().await;
    let stand_in = StandIn::start(EVERY_SECOND_REFUSED).await;
    let (id, _) = add(&service, &stand_in.url).await;
    let written = write(service.db(), 600, 1).await;
    let others: Vec<Uuid> = written.iter().copied().step_by(2).collect();
    eventually("the others are delivered", async || {
        stand_in.has_all(&others)
    })
    .await;
    assert_eq!(stand_in.ids().len(), others.len());
    assert_eq!(endpoint(&service, id).await.state, State::Active);
    stand_in.is(200);
    eventually("what it refused is sent again", async || {
        service.pass(Duration::from_secs(6)).await;
        stand_in.has_all(&written)
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_accepts_nothing_for_days_is_paused_and_resumed_without_a_loss() {
    let service = with_endpoints().manual_clock().start().await;
    let stand_in = StandIn::start(500).await;
    let (id, _) = add(&service, &stand_in.url).await;
    let written = write(service.db(), 3, 2).await;
    eventually("its events wait", async || {
        endpoint(&service, id).await.failing_since.is_some()
    })
    .await;
    service.clock().advance(Duration::from_hours(24));
    eventually("it is paused", async || {
        nearly_given_up(&service).await;
        service.pass(Duration::from_mins(61)).await;
        endpoint(&service, id).await.state == State::Failing
    })
    .await;
    let shown = machine(&service, &["endpoints", "show", &id.to_string()]).await;
    assert_eq!(
        (&shown["state"], &shown["last_error"]),
        (&json!("failing"), &json!("it answered 500"))
    );
    let mut doctor = waybill(&service, &["doctor", "--json"]);
    doctor.env("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
    doctor.env("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
    let checked = run(doctor).await;
    let found = String::from_utf8_lossy(&checked.stdout);
    let all = if is_distributed() { 2 } else { 1 };
    let paused = format!("1 of {all} endpoints are paused");
    assert!(found.contains(&paused), "{found}");
    let requests = stand_in.requests();
    let later = write(service.db(), 3, 1).await;
    assert_eq!(
        stand_in.requests(),
        requests,
        "a paused endpoint gets nothing"
    );
    let dead = "select count(*) as n from jobs where queue = 'endpoints' and state = 'dead'";
    let given_up = service.count(dead).await;
    said(&service, &["endpoints", "resume", &id.to_string()]).await;
    eventually("it is tried again, and still fails", async || {
        service.pass(Duration::from_mins(11)).await;
        stand_in.requests() >= requests + 6
    })
    .await;
    assert_eq!(service.count(dead).await, given_up);
    stand_in.is(200);
    eventually(
        "it has what is new, and what was not given up",
        async || {
            service.pass(Duration::from_mins(11)).await;
            stand_in.has_all(&later)
        },
    )
    .await;
    let dead = usize::try_from(service.count(dead).await).unwrap();
    let ready = async || service.jobs(job::State::Ready).await == 0;
    eventually("nothing waits", async || {
        service.pass(Duration::from_mins(11)).await;
        ready().await
    })
    .await;
    let ids: BTreeSet<Uuid> = stand_in.ids().into_iter().collect();
    assert_eq!(ids.len() + dead, written.len() + later.len());
    service.stop().await;
}

#[tokio::test]
async fn what_an_endpoint_accepts_does_not_use_up_the_tries_of_what_it_refuses() {
    let service = with_endpoints().manual_clock().start().await;
    let stand_in = StandIn::start(EVERY_SECOND_REFUSED).await;
    let (id, _) = add(&service, &stand_in.url).await;
    write(service.db(), 20, 1).await;
    eventually("ten wait", async || stand_in.ids().len() == 10).await;
    for accepted in 11..=30 {
        service.clock().advance(Duration::from_secs(1));
        let requests = stand_in.requests();
        write(service.db(), 1, 1).await;
        eventually("another one is accepted", async || {
            stand_in.ids().len() == accepted && stand_in.requests() > requests
        })
        .await;
    }
    let most = "select coalesce(max(attempts), 0) as n from jobs where queue = 'endpoints'";
    assert!(service.count(most).await <= 3, "after 5, 10 and 20 seconds");
    assert_eq!(endpoint(&service, id).await.state, State::Active);
    service.stop().await;
}

#[tokio::test]
async fn nothing_waits_for_an_endpoint_that_was_removed() {
    let service = with_endpoints().manual_clock().start().await;
    let stand_in = StandIn::start(500).await;
    let (id, _) = add(&service, &stand_in.url).await;
    write(service.db(), 3, 3).await;
    let waiting = "select count(*) as n from outgoing_webhooks";
    eventually("all wait", async || service.count(waiting).await == 9).await;
    said(&service, &["endpoints", "remove", &id.to_string()]).await;
    eventually("no job waits", async || {
        service.pass(Duration::from_mins(11)).await;
        service.jobs(job::State::Ready).await == 0
    })
    .await;
    assert_eq!(service.count(waiting).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_is_paused_gets_no_more_of_what_is_under_way() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(SLOW).await;
    let (id, _) = add(&service, &stand_in.url).await;
    let written = write(service.db(), 200, 1).await;
    eventually("the first are sent", async || stand_in.requests() > 0).await;
    said(&service, &["endpoints", "pause", &id.to_string()]).await;
    let waiting = "select count(*) as n from outgoing_webhooks";
    eventually("the rest waits", async || service.count(waiting).await > 0).await;
    // What was on its way is accepted, and all others wait, so nothing more is under way.
    let left = usize::try_from(service.count(waiting).await).unwrap();
    assert!(left > 100, "{left}");
    assert_eq!(stand_in.requests() + left, written.len());
    stand_in.is(200);
    said(&service, &["endpoints", "resume", &id.to_string()]).await;
    eventually("it has all", async || stand_in.has_all(&written)).await;
    service.stop().await;
}

#[tokio::test]
async fn the_erasure_of_a_shop_leaves_nothing_that_waits_for_an_endpoint() {
    let service = with_endpoints()
        .setting("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0")
        .start()
        .await;
    let stand_in = StandIn::start(500).await;
    add(&service, &stand_in.url).await;
    for seed in 1..=3 {
        an_order(&service, seed).await;
    }
    let waiting = "select count(*) as n from outgoing_webhooks";
    eventually("events wait", async || service.count(waiting).await >= 3).await;
    let body = json!({"shop_id": 1, "shop_domain": SHOP});
    let redaction = storefront("shop/redact", body.to_string()).id("gone");
    assert_eq!(service.answer(&redaction).await.0, 200);
    let requests = "select count(*) as n from privacy_requests where state = 'done'";
    // It rests four times as long as it works.
    within(Duration::from_mins(1), "the shop is erased", async || {
        service.count(requests).await == 1
    })
    .await;
    // Those about the erasure itself may wait.
    let left = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                where queue = 'endpoints' and object_id in ('1', '2', '3')";
    assert_eq!(service.count(left).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_paused_and_a_redirect_is_not_followed() {
    let service = with_endpoints().start().await;
    let (gone, moved) = (StandIn::start(410).await, StandIn::start(307).await);
    let (gone_id, _) = add(&service, &gone.url).await;
    let (moved_id, _) = add(&service, &moved.url).await;
    an_order(&service, 1).await;
    eventually("it is paused", async || {
        endpoint(&service, gone_id).await.state == State::Gone
    })
    .await;
    eventually("the redirect is a failure", async || {
        let error = endpoint(&service, moved_id).await.last_error;
        error.is_some_and(|error| error == "it answered 307")
    })
    .await;
    assert_eq!(gone.requests(), 1);
    assert_eq!(moved.requests(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_slow_endpoint_delays_no_other_and_gets_many_at_a_time() {
    let service = with_endpoints().start().await;
    let (fast, slow) = (StandIn::start(200).await, StandIn::start(SLOW).await);
    add(&service, &slow.url).await;
    add(&service, &fast.url).await;
    let written = write(service.db(), 64, 1).await;
    eventually("the fast one has all", async || fast.has_all(&written)).await;
    assert!(!slow.has_all(&written));
    // One after the other they would take 45 seconds.
    within(
        Duration::from_secs(20),
        "the slow one has all",
        async || slow.has_all(&written),
    )
    .await;
    service.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_pause_gets_nothing_before_it_ends() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(BUSY).await;
    add(&service, &stand_in.url).await;
    let begun = Instant::now();
    let written = write(service.db(), 64, 1).await;
    let failing = "select count(*) as n from endpoints where failing_since is not null";
    eventually("it has refused some", async || {
        service.count(failing).await == 1
    })
    .await;
    stand_in.is(200);
    eventually("it accepts", async || !stand_in.accepted().is_empty()).await;
    assert!(begun.elapsed() >= Duration::from_secs(BUSY_SECONDS));
    eventually("it has all", async || stand_in.has_all(&written)).await;
    service.stop().await;
}

#[tokio::test]
async fn an_address_of_this_machine_is_refused_unless_its_network_is_allowed() {
    let allowing = with_endpoints().without_workers().start().await;
    let stand_in = StandIn::start(200).await;
    let by_name = stand_in.url.replace("127.0.0.1", "localhost");
    let mut ids = Vec::new();
    for url in [&stand_in.url, &by_name] {
        ids.push(add(&allowing, url).await.0);
    }
    // Another process, which is allowed nothing, sends.
    let mut refusing = service().start_beside(&allowing).await;
    an_order(&refusing, 1).await;
    for id in ids {
        eventually("it is refused", async || {
            let error = endpoint(&refusing, id).await.last_error;
            error.is_some_and(|error| error.contains("ENDPOINT_NETWORKS"))
        })
        .await;
    }
    assert_eq!(stand_in.requests(), 0);
    refusing.halt().await;
    allowing.stop().await;
}

/// The endpoints that a list has beside RabbitMQ.
fn of_webhooks(listed: &Value) -> Vec<&Value> {
    let endpoints = listed["endpoints"].as_array().unwrap().iter();
    endpoints
        .filter(|it| !it["url"].as_str().unwrap().starts_with("amqp:"))
        .collect()
}

#[tokio::test]
async fn programs_add_change_and_remove_endpoints() {
    let service = with_endpoints().without_workers().start().await;
    let key = service.api_key().await;
    let body = json!({"url": "https://shop.example/hooks?a=b", "types": ["order.*"]});
    let (status, added) = call(&service, &key, "post", "/api/endpoints", body).await;
    assert_eq!(status, 201, "{added}");
    let secret = added["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"));
    let path = format!(
        "/api/endpoints/{}",
        added["endpoint"]["id"].as_str().unwrap()
    );
    let (_, all) = call(&service, &key, "get", "/api/endpoints", Value::Null).await;
    assert_eq!(of_webhooks(&all), [&added["endpoint"]]);
    assert!(!all.to_string().contains("whsec_"));
    for (change, state) in [("pause", "paused"), ("resume", "active")] {
        let (status, changed) = call(
            &service,
            &key,
            "post",
            &format!("{path}/{change}"),
            json!({}),
        )
        .await;
        assert_eq!((status, &changed["state"]), (200, &json!(state)));
    }
    let (_, rotated) = call(&service, &key, "post", &format!("{path}/rotate"), json!({})).await;
    assert_ne!(rotated["secret"], secret);
    call(&service, &key, "post", &format!("{path}/rotate"), json!({})).await;
    let id = added["endpoint"]["id"].as_str().unwrap().parse().unwrap();
    let now = service.clock().now();
    for (hours, signing) in [(0, 3), (25, 1)] {
        let then = now.plus(Duration::from_hours(hours));
        let found = endpoints::with_secrets(service.db(), &service.parts.keys, id, then);
        let (_, secrets) = found.await.unwrap().unwrap();
        assert_eq!(secrets.len(), signing, "each former secret signs for a day");
    }
    let (status, _) = call(&service, &key, "delete", &path, Value::Null).await;
    assert_eq!(status, 204);
    for (method, path) in [
        ("get", path.clone()),
        ("delete", path),
        ("get", "/api/endpoints/1".to_owned()),
    ] {
        let (status, error) = call(&service, &key, method, &path, Value::Null).await;
        assert_eq!(
            (status, error),
            (404, json!({"detail": "Endpoint not found"}))
        );
    }
    let audit = said(&service, &["audit", "list", "--json"]).await;
    for action in ["added", "paused", "resumed", "rotated", "removed"] {
        assert!(audit.contains(&format!("endpoint.{action}")), "{audit}");
    }
    if is_distributed() {
        // Nobody publishes here.
        let broker = format!("/api/endpoints/{}", store::broker::BROKER);
        let (status, _) = call(&service, &key, "delete", &broker, Value::Null).await;
        assert_eq!(status, 204);
    }
    let stored = "select count(*) as n from endpoints";
    assert_eq!(service.count(stored).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_worker_sends_a_test_once_whatever_state_the_endpoint_is_in() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(200).await;
    let key = service.api_key().await;
    let (id, _) = add(&service, &stand_in.url).await;
    let at = |what: &str| format!("/api/endpoints/{id}/{what}");
    let post = async |what: &str| call(&service, &key, "post", &at(what), Value::Null).await;
    assert_eq!(post("pause").await.0, 200);
    let (status, tested) = post("test").await;
    assert_eq!(
        (status, &tested["accepted"]),
        (200, &json!(true)),
        "{tested}"
    );
    let sent = stand_in.accepted();
    assert_eq!(sent[0].event()["id"], tested["id"]);
    assert_eq!(sent[0].event()["object_id"], json!(id));
    stand_in.is(410);
    let (_, tested) = post("test").await;
    assert_eq!(tested["accepted"], json!(false));
    assert!(
        tested["error"].as_str().unwrap().contains("410"),
        "{tested}"
    );
    let (_, endpoint) = call(
        &service,
        &key,
        "get",
        at("").trim_end_matches('/'),
        Value::Null,
    )
    .await;
    assert_eq!(
        (&endpoint["state"], &endpoint["failures"]),
        (&json!("paused"), &json!(0))
    );
    let job = tested["id"].as_str().unwrap();
    let shown = machine(&service, &["jobs", "show", job]).await;
    assert_eq!(
        (&shown["state"], &shown["kind"]),
        (&json!("done"), &json!("endpoints/test"))
    );
    assert_eq!(shown["history"][0]["outcome"], "failed", "{shown}");
    assert_eq!(stand_in.requests(), 2, "each was sent once");
    service.stop().await;
}

#[tokio::test]
async fn a_test_that_no_worker_took_in_time_is_not_sent() {
    let service = with_endpoints().without_workers().manual_clock();
    let mut service = service.start().await;
    let stand_in = StandIn::start(200).await;
    let (id, _) = add(&service, &stand_in.url).await;
    let (db, clock) = (service.db(), service.clock());
    let short = Duration::from_millis(300);
    let tested = operators::endpoints::test(db, clock, id, short)
        .await
        .unwrap();
    assert_eq!(tested.outcome, operators::endpoints::Outcome::Unknown);
    service.clock().advance(Duration::from_secs(31));
    service.start_workers();
    eventually("it is done", async || {
        service.jobs(job::State::Done).await == 1
    })
    .await;
    assert_eq!(stand_in.requests(), 0);
    service.stop().await;
}

#[tokio::test]
async fn what_cannot_be_an_endpoint_and_who_may_not_add_one_is_refused() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    for (body, text) in [
        (json!({}), "Line 1, column"),
        (
            json!({"url": "shop.example"}),
            "url must be https:// and a host",
        ),
        (
            json!({"url": "http://shop.example/"}),
            "url must be https://",
        ),
        (
            json!({"url": "https://a:b@shop.example/"}),
            "url must not have a user",
        ),
        (
            json!({"url": "https://127.0.0.1/"}),
            "url must not lead into a private network",
        ),
        (
            json!({"url": "https://[::1]/"}),
            "url must not lead into a private network",
        ),
        (
            json!({"url": "https://169.254.169.254/"}),
            "url must not lead into a private network",
        ),
        (
            json!({"url": "https://shop.example/", "types": ["order/*"]}),
            "types must be patterns",
        ),
        (
            json!({"url": "https://shop.example/", "secret": "x"}),
            "Line 1, column",
        ),
        (
            json!({"url": format!("https://shop.example/{}", "a".repeat(2000))}),
            "url has at most",
        ),
    ] {
        let (status, error) = call(&service, &key, "post", "/api/endpoints", body).await;
        let detail = error["detail"].as_str().unwrap();
        assert_eq!(status, 422, "{detail}");
        assert!(detail.starts_with(text), "{detail}");
    }
    let of_a_shop = Rights {
        scopes: None,
        shops: Shops(Some(vec!["shop.example".to_owned()])),
    };
    let reader = Rights {
        scopes: Some(vec![Scope::EndpointsRead]),
        shops: Shops(None),
    };
    let narrow = service.api_key_for("narrow", &of_a_shop).await;
    let reader = service.api_key_for("reader", &reader).await;
    let body = json!({"url": "https://shop.example/"});
    for key in [&narrow, &reader] {
        let (status, _) = call(&service, key, "post", "/api/endpoints", body.clone()).await;
        assert_eq!(status, 403);
    }
    let listed = call(&service, &reader, "get", "/api/endpoints", Value::Null).await;
    assert_eq!((listed.0, of_webhooks(&listed.1)), (200, Vec::new()));
    assert_eq!(
        call(&service, &narrow, "get", "/api/endpoints", Value::Null)
            .await
            .0,
        403
    );
    for nth in 0..=100 {
        let body = json!({"url": format!("https://shop.example/{nth}")});
        let (status, _) = call(&service, &key, "post", "/api/endpoints", body).await;
        assert_eq!(status, if nth < 100 { 201 } else { 409 });
    }
    service.stop().await;
}

#[tokio::test]
async fn the_operator_adds_tests_pauses_rotates_and_removes_an_endpoint() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(200).await;
    let (code, error) = refused(&service, &["endpoints", "add", "https://10.0.0.9/"]).await;
    assert_eq!(code, 2);
    assert!(error.contains("ENDPOINT_NETWORKS"), "{error}");
    let allowed = ["--endpoint-networks", "127.0.0.1"];
    let with = |arguments: &[&'static str]| [arguments, &allowed].concat();
    let url: &'static str = stand_in.url.clone().leak();
    let added = said(
        &service,
        &with(&["endpoints", "add", url, "--type", "order.*"]),
    )
    .await;
    let mut lines = added.lines();
    let id: &'static str = lines.next().unwrap().to_owned().leak();
    assert!(lines.next().unwrap().starts_with("whsec_"));
    let listed = said(&service, &["endpoints", "list"]).await;
    assert!(listed.contains(id) && listed.contains("active") && listed.contains("order.*"));
    assert!(!listed.contains("whsec_"));
    let tested = said(&service, &["endpoints", "test", id]).await;
    assert!(tested.contains("accepted"), "{tested}");
    assert_eq!(stand_in.accepted()[0].event()["type"], "endpoint.test");
    stand_in.is(503);
    let (code, error) = refused(&service, &["endpoints", "test", id]).await;
    assert_eq!(code, 1);
    assert!(error.contains("it answered 503"), "{error}");
    said(&service, &["endpoints", "pause", id]).await;
    assert_eq!(
        machine(&service, &["endpoints", "show", id]).await["state"],
        "paused"
    );
    said(&service, &["endpoints", "resume", id]).await;
    let rotated = said(&service, &["endpoints", "rotate", id]).await;
    assert!(rotated.starts_with("whsec_"));
    said(&service, &["endpoints", "remove", id]).await;
    let (code, error) = refused(&service, &["endpoints", "show", id]).await;
    assert_eq!(code, 1);
    assert!(error.contains("waybill endpoints list"), "{error}");
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn when_the_process_that_sends_is_killed_another_one_does() {
    let beside = with_endpoints().without_workers().start().await;
    let stand_in = StandIn::start(200).await;
    add(&beside, &stand_in.url).await;
    let mut settings = settings(&beside.backend, free_port());
    settings.push(("ENDPOINT_NETWORKS".to_owned(), "127.0.0.1".to_owned()));
    let mut first = Process::start("waybill-endpoints", &[], &settings);
    let written = write(beside.db(), 200, 5).await;
    eventually("the first one sends", async || !stand_in.ids().is_empty()).await;
    let mut second = Process::start("waybill-endpoints", &[], &settings);
    first.kill();
    let more = write(beside.db(), 200, 5).await;
    eventually("the second one sends the rest", async || {
        stand_in.has_all(&written) && stand_in.has_all(&more)
    })
    .await;
    stand_in.in_order(beside.db()).await;
    assert!(second.terminate().await.success());
    let held = "select count(*) as n from leases where name = 'webhooks'";
    assert_eq!(beside.count(held).await, 0, "it was released");
    beside.stop().await;
}
