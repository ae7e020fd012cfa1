//! `POST /api/webhooks/storefront` and `/payment`: every check, in its order.

use std::time::Duration;

use domain::job::State;
use futures_util::future::join_all;
use serde_json::json;
use store::jobs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::backend::is_distributed;
use crate::support::delivery::{Delivery, SHOP, order, payment, payment_at, storefront};
use crate::support::hostile::head;
use crate::support::operator::{json as machine, said};
use crate::support::{START, Service, eventually, service};

const OK: &str = r#"{"status":"ok"}"#;
const DUPLICATE: &str = r#"{"detail":"Duplicate webhook"}"#;
const BAD_HMAC: &str = r#"{"detail":"Invalid HMAC signature"}"#;
const BAD_PAYMENT: &str = r#"{"detail":"Invalid payment signature"}"#;

fn event(id: &str) -> Delivery {
    payment(format!(
        r#"{{"id":"{id}","object":"event","type":"charge.refunded","data":{{"object":{{"id":"ch_1","customer":"cus_1"}}}}}}"#
    ))
}

async fn is(service: &Service, delivery: &Delivery, status: u16, body: &str) {
    assert_eq!(service.answer(delivery).await, (status, body.to_owned()));
}

#[tokio::test]
async fn an_accepted_delivery_is_a_committed_job() {
    let service = service().without_workers().start().await;
    is(&service, &order("orders/create", 1).id("w-1"), 200, OK).await;
    let job = service
        .db()
        .query("select queue, kind, source, shop, external_id, object_id, subject, state, body from jobs")
        .fetch_one()
        .await
        .unwrap();
    let text = |name: &str| job.get::<Option<String>>(name).unwrap().unwrap_or_default();
    assert_eq!(text("queue"), "orders");
    assert_eq!(text("kind"), "orders/create");
    assert_eq!(text("source"), "storefront");
    assert_eq!(text("shop"), SHOP);
    assert_eq!(text("external_id"), "w-1");
    assert_eq!(text("state"), "ready");
    let sent = order("orders/create", 1).body;
    let value: serde_json::Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(text("object_id"), value["id"].to_string());
    assert_eq!(text("subject"), value["customer"]["id"].to_string());
    assert_eq!(job.get::<Vec<u8>>("body").unwrap(), sent, "byte for byte");
    service.stop().await;
}

#[tokio::test]
async fn the_same_id_again_is_a_duplicate_and_makes_no_second_job() {
    let service = service().without_workers().start().await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service, &delivery, 200, OK).await;
    is(&service, &delivery, 409, DUPLICATE).await;
    is(&service, &order("orders/paid", 2).id("w-1"), 409, DUPLICATE).await;
    assert_eq!(service.jobs(State::Ready).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_duplicate_may_be_answered_200_instead() {
    let service = service()
        .setting("WEBHOOK_DUPLICATE_STATUS", "200")
        .without_workers()
        .start()
        .await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service, &delivery, 200, OK).await;
    is(&service, &delivery, 200, OK).await;
    assert_eq!(service.jobs(State::Ready).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn an_expired_id_is_taken_over_by_the_next_delivery() {
    let service = service()
        .setting("WEBHOOK_DEDUPE_TTL_SECONDS", "3600")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service, &delivery, 200, OK).await;
    service.clock().advance(Duration::from_secs(3599));
    is(&service, &delivery, 409, DUPLICATE).await;
    service.clock().advance(Duration::from_secs(1));
    is(&service, &delivery, 200, OK).await;
    is(&service, &delivery, 409, DUPLICATE).await;
    assert_eq!(service.jobs(State::Ready).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_duplicate_changes_nothing_in_the_database() {
    let service = service().without_workers().start().await;
    for nth in 0..32 {
        let first = order("orders/create", nth).id(&format!("w-{nth}"));
        is(&service, &first, 200, OK).await;
    }
    // Of each row: where it lies, and the transaction that wrote or locked it last.
    let rows = async || -> Vec<String> {
        let sql = if is_distributed() {
            "select concat_ws(' ', id, ctid, xmin, xmax, job_id, expires_at) as row
             from webhook_ids order by id"
        } else {
            "select hex(id) || ' ' || hex(job_id) || ' ' || expires_at as row
             from webhook_ids order by id"
        };
        let rows = service.db().query(sql).fetch_all().await.unwrap();
        rows.iter().map(|row| row.get("row").unwrap()).collect()
    };
    let before = rows().await;
    assert_eq!(before.len(), 32);
    for nth in 0..32 {
        let again = order("orders/create", nth).id(&format!("w-{nth}"));
        is(&service, &again, 409, DUPLICATE).await;
    }
    assert_eq!(rows().await, before);
    service.stop().await;
}

#[tokio::test]
async fn large_bodies_beside_small_ones_are_all_accepted() {
    let service = service()
        .setting("STOREFRONT_RATE_PER_SECOND", "0")
        .without_workers()
        .start()
        .await;
    let large = "x".repeat(1_900_000);
    let posts = (0..100).map(|nth| {
        let size = if nth % 25 == 0 { large.len() } else { 10 };
        let body = json!({"id": nth + 1, "note": large[..size]}).to_string();
        storefront("orders/create", body).id(&format!("w-{nth}"))
    });
    let answers = join_all(posts.map(|post| {
        let service = &service;
        async move { service.answer(&post).await.0 }
    }));
    assert_eq!(answers.await, [200; 100]);
    service.stop().await;
}

#[tokio::test]
async fn without_an_id_or_with_deduplication_off_every_delivery_is_accepted() {
    let service_on = service().without_workers().start().await;
    let nameless = order("orders/create", 1);
    is(&service_on, &nameless, 200, OK).await;
    is(&service_on, &nameless, 200, OK).await;
    assert_eq!(service_on.jobs(State::Ready).await, 2);
    service_on.stop().await;

    let service_off = service()
        .setting("COMMERCE_IDEMPOTENCY_ENABLED", "false")
        .without_workers()
        .start()
        .await;
    let delivery = order("orders/create", 1).id("w-1");
    is(&service_off, &delivery, 200, OK).await;
    is(&service_off, &delivery, 200, OK).await;
    assert_eq!(service_off.jobs(State::Ready).await, 2);
    service_off.stop().await;
}

#[tokio::test]
async fn a_signature_that_is_missing_malformed_or_wrong_gets_the_same_401() {
    let service = service().without_workers().start().await;
    let good = order("orders/create", 1).id("w-1");
    let hmac = "X-Storefront-Hmac-Sha256";
    let signature = good.value(hmac).to_vec();
    let mut flipped = signature.clone();
    flipped[5] = if flipped[5] == b'A' { b'B' } else { b'A' };
    let mut changed_body = good.clone();
    changed_body.body[10] ^= 1;
    let mut longer_body = good.clone();
    longer_body.body.push(b' ');
    let spoilt = [
        good.clone().without(hmac),
        good.clone().header(hmac, ""),
        good.clone().header(hmac, "not base64!"),
        good.clone().header(hmac, flipped.clone()),
        good.clone().header(hmac, &signature[..40]),
        good.clone().header(hmac, vec![b'A'; 10_000]),
        good.clone().header(hmac, b"\xff\xfe".to_vec()),
        good.clone().also(hmac, flipped),
        changed_body,
        longer_body,
        // Signed for another secret.
        good.clone().header(
            hmac,
            domain::signature::sign_storefront("another secret", &good.body),
        ),
        // All checks below the signature would fail too: the signature is first.
        Delivery {
            body: b"not json".to_vec(),
            ..good.clone().without("X-Storefront-Topic")
        },
    ];
    for delivery in &spoilt {
        let response = service.post(delivery).await;
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()["x-error-code"], "COMMERCE_004");
        assert_eq!(response.text().await.unwrap(), BAD_HMAC);
    }
    is(&service, &good.clone().also(hmac, signature), 200, OK).await;
    // It is over the bytes as they are: spaces, escapes and the last line break count.
    let spaced = storefront(
        "orders/create",
        " {\"id\" :  2, \"note\":\"Ex\\u0061mple\"} \n",
    );
    is(&service, &spaced, 200, OK).await;
    assert_eq!(
        service.jobs(State::Ready).await,
        2,
        "nothing refused was stored or remembered"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_payment_signature_is_checked_by_scheme_time_and_every_secret() {
    let service = service()
        .setting(
            "PAYMENT_WEBHOOK_SECRET",
            "newest-secret,payment-test-secret",
        )
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let body = event("evt_1").body;
    let now = START.unix_seconds();
    for (age, status) in [(-301, 401), (-300, 200), (0, 200), (300, 200), (301, 401)] {
        let answer = service.answer(&payment_at(now - age, body.clone())).await;
        assert_eq!(answer.0, status, "a signature made {age} s ago");
    }
    let name = "Payment-Signature";
    let good = String::from_utf8(event("evt_1").value(name).to_vec()).unwrap();
    let (time, v1) = good.split_once(",v1=").unwrap();
    let many = (0..1000)
        .map(|n| format!("v1={n:064x}"))
        .collect::<Vec<_>>()
        .join(",");
    let refused = [
        format!("{time},v0={v1}"),
        format!("{time},t=1,v1={v1}"),
        format!("v1={v1}"),
        time.to_owned(),
        format!("{time},{many}"),
        String::new(),
    ];
    for header in refused {
        is(
            &service,
            &event("evt_1").header(name, header),
            401,
            BAD_PAYMENT,
        )
        .await;
    }
    is(&service, &event("evt_1").without(name), 401, BAD_PAYMENT).await;
    is(
        &service,
        &event("evt_1").also(name, "t=1,v1=00"),
        401,
        BAD_PAYMENT,
    )
    .await;
    is(
        &service,
        &event("evt_1").header(name, format!("{good},v1={v1}")),
        200,
        OK,
    )
    .await;
    assert_eq!(service.jobs(State::Ready).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_payment_event_sent_twice_is_one_job_and_two_successes() {
    let service = service().manual_clock().without_workers().start().await;
    is(&service, &event("evt_1"), 200, OK).await;
    is(&service, &event("evt_1"), 200, OK).await;
    is(&service, &event("evt_2"), 200, OK).await;
    assert_eq!(service.jobs(State::Ready).await, 2);
    // The two providers' ids do not meet.
    is(&service, &order("orders/create", 1).id("evt_1"), 200, OK).await;
    service.stop().await;
}

#[tokio::test]
async fn every_topic_and_event_type_becomes_a_job_of_its_queue() {
    let service = service().manual_clock().without_workers().start().await;
    for topic in sandbox::sample::STOREFRONT_TOPICS {
        let from = order(topic, 1).of_shop(sandbox::sample::shop());
        is(&service, &from.id(topic), 200, OK).await;
    }
    for kind in sandbox::sample::PAYMENT_TYPES {
        let body = sandbox::sample::payment(kind, 1, START.0).unwrap();
        is(&service, &payment(body), 200, OK).await;
    }
    let queued = async |sql| service.count(sql).await;
    assert_eq!(
        queued("select count(*) as n from jobs where queue = 'orders' and state = 'ready'").await,
        5
    );
    assert_eq!(
        queued("select count(*) as n from jobs where queue = 'payments' and state = 'ready'").await,
        6
    );
    let privacy = "select count(*) as n from jobs where queue = 'privacy' and state = 'ready' and deadline_at = 1802592000000";
    assert_eq!(queued(privacy).await, 3, "due in thirty days");
    service.stop().await;
}

#[tokio::test]
async fn an_unknown_topic_or_type_is_kept_as_done_so_that_nobody_retries_it() {
    let service = service().manual_clock().without_workers().start().await;
    is(
        &service,
        &storefront("products/update", "{}").id("w-1"),
        200,
        OK,
    )
    .await;
    is(
        &service,
        &payment(r#"{"id":"evt_1","type":"plan.created"}"#),
        200,
        OK,
    )
    .await;
    assert_eq!(service.jobs(State::Done).await, 2);
    assert_eq!(service.jobs(State::Ready).await, 0);
    service.stop().await;
}

/// The API version that is kept with the delivery of this id.
async fn kept_version(service: &Service, id: &str) -> Option<String> {
    let query = "select api_version from jobs where external_id = $1";
    let row = service.db().query(query).bind(id).fetch_one().await;
    row.unwrap().get("api_version").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_of_the_providers_api_is_kept_with_a_delivery_and_never_refuses_it() {
    let service = service().manual_clock().without_workers().start().await;
    let long = "2".repeat(65);
    for (id, header, kept) in [
        ("w-1", Some("2026-07"), Some("2026-07")),
        ("w-2", Some("unstable"), Some("unstable")),
        ("w-3", Some(" 2026-10 "), Some("2026-10")),
        ("w-4", Some("of tomorrow"), None),
        ("w-5", Some(long.as_str()), None),
        ("w-6", Some("\u{e9}"), None),
        ("w-7", Some(""), None),
        ("w-8", None, None),
    ] {
        let delivery = order("orders/create", 1).id(id);
        let delivery = match header {
            Some(header) => delivery.header("X-Storefront-API-Version", header),
            None => delivery.without("X-Storefront-API-Version"),
        };
        is(&service, &delivery, 200, OK).await;
        assert_eq!(kept_version(&service, id).await.as_deref(), kept, "{id}");
    }
    for (id, version, kept) in [
        ("evt_1", r#""2026-10-28.endive""#, Some("2026-10-28.endive")),
        ("evt_2", r#""2020-08-27""#, Some("2020-08-27")),
        ("evt_3", "null", None),
        ("evt_4", "7", None),
        ("evt_5", r#""a b""#, None),
    ] {
        let body = format!(
            r#"{{"id": "{id}", "type": "charge.refunded", "api_version": {version}, "data": {{}}}}"#
        );
        is(&service, &payment(body), 200, OK).await;
        assert_eq!(kept_version(&service, id).await.as_deref(), kept, "{id}");
    }
    let all = jobs::list(service.db(), &jobs::Filter::default(), 20).await;
    let of_tomorrow = all
        .unwrap()
        .into_iter()
        .find(|it| it.external_id.as_deref() == Some("evt_1"));
    let id = of_tomorrow.unwrap().id.to_string();
    let shown = said(&service, &["jobs", "show", &id]).await;
    assert!(shown.contains("2026-10-28.endive"), "{shown}");
    let shown = machine(&service, &["jobs", "show", &id]).await;
    assert_eq!(shown["api_version"], "2026-10-28.endive");
    service.stop().await;
}

#[tokio::test]
async fn kinds_of_a_later_version_wait_untouched() {
    let mut service = service().without_workers().start().await;
    is(&service, &order("orders/create", 1), 200, OK).await;
    service
        .execute("update jobs set kind = 'orders/of_tomorrow', notified_at = null")
        .await;
    service.start_workers();
    // A worker has had its chance once it has done something that came later.
    is(&service, &order("orders/create", 2), 200, OK).await;
    eventually("the other is done", async || {
        service.jobs(State::Done).await == 1
    })
    .await;
    let untouched = "select count(*) as n from jobs where state = 'ready' and attempts = 0 and unfinished_attempts = 0";
    assert_eq!(service.count(untouched).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn headers_that_cannot_be_used_are_named_in_a_422() {
    let service = service().without_workers().start().await;
    let good = order("orders/create", 1).id("w-1");
    let topic = "X-Storefront-Topic";
    for value in ["", "orders create", "orders/create\tx", &"x".repeat(101)] {
        let (status, body) = service.answer(&good.clone().header(topic, value)).await;
        assert_eq!(status, 422, "topic {value:?}");
        assert!(body.contains("X-Storefront-Topic"), "{body}");
    }
    assert_eq!(service.answer(&good.clone().without(topic)).await.0, 422);
    let shop = "X-Storefront-Shop-Domain";
    assert_eq!(
        service
            .answer(&good.clone().header(shop, "a shop?"))
            .await
            .0,
        422
    );
    assert_eq!(
        service.answer(&good.clone().id(&"x".repeat(256))).await.0,
        422
    );
    is(&service, &good.clone().id(&"x".repeat(255)), 200, OK).await;
    is(
        &service,
        &good
            .clone()
            .without(shop)
            .without("X-Storefront-Webhook-Id"),
        200,
        OK,
    )
    .await;
    service.stop().await;
}

#[tokio::test]
async fn a_signed_body_that_is_not_a_json_object_is_a_422() {
    let service = service().manual_clock().without_workers().start().await;
    let not_json: [&[u8]; 8] = [
        b"",
        b"not json",
        b"{\"id\":1",
        b"\xef\xbb\xbf{\"id\":1}",
        b"{\"id\":1,\"note\":\"\xff\"}",
        b"{\"id\":1}{\"id\":2}",
        b"[1]",
        b"\"text\"",
    ];
    for body in not_json {
        assert_eq!(
            service.answer(&storefront("orders/create", body)).await.0,
            422
        );
        assert_eq!(service.answer(&payment(body)).await.0, 422);
    }
    for body in [
        r"{}",
        r#"{"id":"evt_1"}"#,
        r#"{"type":"x"}"#,
        r#"{"id":1,"type":"x"}"#,
        r#"{"id":"e\n1","type":"x"}"#,
    ] {
        assert_eq!(service.answer(&payment(body)).await.0, 422, "{body}");
    }
    assert_eq!(service.jobs(State::Ready).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn hostile_json_is_accepted_or_refused_but_harms_nobody() {
    let service = service().start().await;
    let deep = format!(
        "{{\"id\":1,\"note\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let bare = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    let bodies = [
        deep.as_str(),
        &bare,
        r#"{"id":2,"id":3}"#,
        r#"{"id":4,"name":"\ud800","note":"\u0000\r\n\u001b[31m<script>alert(1)</script>"}"#,
        r#"{"id":6,"big":99999999999999999999999999,"huge":1e999}"#,
        r#"{"id":9007199254740993,"updated_at":"2027-01-01T00:00:00Z"}"#,
        r#"{"id":9223372036854775808}"#,
        r#"{"id":-1}"#,
        r#"{"id":"5"}"#,
        r#"{"id":{"a":1},"customer":7}"#,
        r"{}",
    ];
    for body in bodies {
        let (status, _) = service.answer(&storefront("orders/create", body)).await;
        assert!(
            status == 200 || status == 422,
            "{status} for {}",
            &body[..body.len().min(60)]
        );
    }
    let event = r#"{"id":"evt_1","id":"evt_2","big":99999999999999999999999999,"huge":1e999,
        "type":"charge.refunded","data":{"object":{"id":"\r\n\u001b[31m\u0000\ud800","note":NOTE}}}"#;
    let now = service.clock().now().unix_seconds();
    for note in ["1e999", &bare] {
        let (status, _) = service
            .answer(&payment_at(now, event.replace("NOTE", note)))
            .await;
        assert!(status == 200 || status == 422, "{status}");
    }
    service.drained().await;
    let exact = "select count(*) as n from orders where id = 9007199254740993";
    assert_eq!(service.count(exact).await, 1, "not rounded");
    service.stop().await;
}

#[tokio::test]
async fn a_shop_has_two_deliveries_a_second_and_learns_when_to_come_back() {
    let service = service()
        .without("STOREFRONT_RATE_PER_SECOND")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let mut seed = 0;
    let mut from = |shop: &str| {
        seed += 1;
        order("orders/create", seed).of_shop(shop)
    };
    // What one order's topics need comes at once, and several orders.
    for _ in 0..20 {
        is(&service, &from("a.example"), 200, OK).await;
        is(&service, &from("A.EXAMPLE"), 200, OK).await;
    }
    let limited = service.post(&from("a.example")).await;
    assert_eq!(limited.status(), 429);
    assert_eq!(limited.headers()["retry-after"], "1");
    assert_eq!(limited.headers()["x-error-code"], "AUTH_006");
    assert_eq!(
        limited.text().await.unwrap(),
        r#"{"detail":"Rate limit exceeded"}"#
    );
    is(&service, &from("b.example"), 200, OK).await;
    // A delivery that is not verified does not use up the shop's share.
    let wrong = domain::signature::sign_storefront("another secret", b"{}");
    for _ in 0..50 {
        let forged = from("c.example").header("X-Storefront-Hmac-Sha256", wrong.clone());
        assert_eq!(service.answer(&forged).await.0, 401);
    }
    for _ in 0..40 {
        is(&service, &from("c.example"), 200, OK).await;
    }
    service.clock().advance(Duration::from_secs(1));
    is(&service, &from("a.example"), 200, OK).await;
    is(&service, &from("a.example"), 200, OK).await;
    assert_eq!(service.answer(&from("a.example")).await.0, 429);
    service.stop().await;
}

#[tokio::test]
async fn payment_events_are_limited_together() {
    let service = service()
        .setting("PAYMENT_RATE_PER_SECOND", "3")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    // Two seconds' worth.
    for n in 0..6 {
        is(&service, &event(&format!("evt_{n}")), 200, OK).await;
    }
    assert_eq!(service.answer(&event("evt_7")).await.0, 429);
    service.stop().await;
}

#[tokio::test]
async fn a_body_of_the_limit_is_taken_and_one_byte_more_is_not() {
    let service = service()
        .setting("WEBHOOK_MAX_BODY_BYTES", "2048")
        .without_workers()
        .start()
        .await;
    let sized = |size: usize| {
        let padding = " ".repeat(size - r#"{"id":1}"#.len());
        storefront("orders/create", format!(r#"{{"id":1}}{padding}"#))
    };
    is(&service, &sized(2048), 200, OK).await;
    is(
        &service,
        &sized(2049),
        413,
        r#"{"detail":"Request body too large"}"#,
    )
    .await;
    for (size, status) in [(2048, "200"), (2049, "413")] {
        let delivery = sized(size);
        let chunked = format!(
            "{size:x}\r\n{}\r\n0\r\n\r\n",
            String::from_utf8(delivery.body.clone()).unwrap()
        );
        let answer = raw(
            &service,
            &head(&delivery, "Transfer-Encoding: chunked"),
            &chunked,
        )
        .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    // The length is a lie: the sender stops early.
    let delivery = sized(1000);
    let body = String::from_utf8(delivery.body.clone()).unwrap();
    let answer = raw(&service, &head(&delivery, "Content-Length: 1500"), &body).await;
    assert!(
        answer.starts_with("HTTP/1.1 400") || answer.is_empty(),
        "{answer}"
    );
    assert_eq!(service.jobs(State::Ready).await, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_request_whose_length_is_said_twice_or_whose_head_is_huge_is_refused() {
    let service = service().without_workers().start().await;
    let delivery = order("orders/create", 1);
    let (body, length) = (
        String::from_utf8(delivery.body.clone()).unwrap(),
        delivery.body.len(),
    );
    let two = format!("Content-Length: {length}\r\nContent-Length: {}", length / 2);
    // RFC 9112, section 6.3, lets a receiver take the chunks, and has it close the connection then.
    let both = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked");
    let chunks = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let long = format!(
        "Content-Length: {length}\r\nX-Long: {}",
        "a".repeat(256 * 1024)
    );
    for (lines, body, is_taken) in [
        (two, &body, false),
        (both, &chunks, true),
        (long, &body, false),
    ] {
        let mut stream = connect(&service).await;
        // It may answer and close before it has read everything.
        let _ = stream.write_all(head(&delivery, &lines).as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
        let mut answer = Vec::new();
        // The other side of the connection stays open, so it is the service that ends it.
        let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer))
            .await
            .unwrap();
        let is_refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 4");
        let is_right = is_refused || (is_taken && answer.starts_with(b"HTTP/1.1 200"));
        assert!(
            is_right,
            "{}: {}",
            &lines[..60],
            String::from_utf8_lossy(&answer)
        );
    }
    is(&service, &delivery.id("w-1"), 200, OK).await;
    service.stop().await;
}

/// Sends bytes, ends its side, and reads what comes until the service closes.
async fn raw(service: &Service, head: &str, body: &str) -> String {
    let mut stream = connect(service).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn connect(service: &Service) -> TcpStream {
    let address = service.url.strip_prefix("http://").unwrap();
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn an_encoded_body_is_never_inflated() {
    let service = service().without_workers().start().await;
    let good = order("orders/create", 1);
    for encoding in ["gzip", "br", "deflate, identity", ""] {
        let answer = service
            .answer(&good.clone().header("Content-Encoding", encoding))
            .await;
        assert_eq!(answer.0, 415, "{encoding:?}");
    }
    is(
        &service,
        &good.clone().header("Content-Encoding", "identity"),
        200,
        OK,
    )
    .await;
    service.stop().await;
}

#[tokio::test]
async fn slow_headers_slow_bodies_and_idle_sockets_are_closed_after_ten_seconds() {
    let service = service().without_workers().start().await;
    let delivery = order("orders/create", 1);
    let whole = head(
        &delivery,
        &format!("Content-Length: {}", delivery.body.len()),
    );
    let started = tokio::time::Instant::from_std(std_now());
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(connect(&service).await);
    }
    let mut slow_head = connect(&service).await;
    slow_head.write_all(&whole.as_bytes()[..40]).await.unwrap();
    let mut slow_body = connect(&service).await;
    slow_body.write_all(whole.as_bytes()).await.unwrap();
    slow_body.write_all(&delivery.body[..10]).await.unwrap();
    // Others are served meanwhile.
    is(&service, &delivery, 200, OK).await;
    let mut answer = String::new();
    slow_body.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let mut rest = Vec::new();
    slow_head.read_to_end(&mut rest).await.unwrap();
    for mut socket in idle {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
    }
    let taken = started.elapsed();
    assert!(
        taken > Duration::from_secs(9) && taken < Duration::from_secs(14),
        "{taken:?}"
    );
    service.stop().await;
}

#[expect(clippy::disallowed_methods, reason = "real time is what is tested")]
fn std_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[tokio::test]
async fn a_request_id_is_taken_kept_with_the_job_and_given_out() {
    let service = service().without_workers().start().await;
    let good = order("orders/create", 1);
    let answered = service
        .post(&good.clone().header("X-Request-Id", "trace-7"))
        .await;
    assert_eq!(answered.headers()["x-request-id"], "trace-7");
    assert_eq!(
        service
            .count("select count(*) as n from jobs where trace = 'trace-7'")
            .await,
        1
    );
    // One that could forge a log line is replaced.
    let answered = service
        .post(&good.clone().header("X-Request-Id", "a b\tc"))
        .await;
    let own = answered.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let job = service
        .db()
        .query("select id, trace from jobs order by id desc limit 1")
        .fetch_one()
        .await
        .unwrap();
    assert_eq!(
        job.get::<uuid::Uuid>("id").unwrap().to_string(),
        own,
        "it is the job's id"
    );
    assert_eq!(job.get::<Option<String>>("trace").unwrap(), None);
    service.stop().await;
}

#[tokio::test]
async fn one_id_at_two_replicas_from_sixty_four_clients_at_once_is_accepted_once() {
    let service = service().without_workers().start().await;
    let replica = crate::support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    for round in 0..5 {
        let delivery = order("orders/create", 1).id(&format!("round-{round}"));
        let answers = (0..64).map(|client| {
            let service = if client % 2 == 0 { &service } else { &replica };
            service.answer(&delivery)
        });
        let answers = join_all(answers).await;
        let count = |status| answers.iter().filter(|answer| answer.0 == status).count();
        assert_eq!((count(200), count(409)), (1, 63));
    }
    assert_eq!(service.jobs(State::Ready).await, 5);
    replica.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn batches_with_the_same_ids_in_other_orders_do_not_block_each_other() {
    let service = service().without_workers().start().await;
    let replica = crate::support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    let ids: Vec<String> = (0..200)
        .map(|n| format!("w-{:03}", (n * 37) % 200))
        .collect();
    let forth = ids.iter().map(|id| (&service, id));
    let back = ids.iter().rev().map(|id| (&replica, id));
    let answers = forth.chain(back).map(|(service, id)| async move {
        service.answer(&order("orders/create", 1).id(id)).await.0
    });
    let answers = join_all(answers).await;
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(200), count(409)), (200, 200));
    replica.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn other_methods_and_paths_are_answered_in_json() {
    let service = service().without_workers().start().await;
    let wrong_method = service
        .get("/api/webhooks/storefront")
        .send()
        .await
        .unwrap();
    assert_eq!(wrong_method.status(), 405);
    assert_eq!(
        wrong_method.text().await.unwrap(),
        r#"{"detail":"Method not allowed"}"#
    );
    let nowhere = service.get("/api/nowhere").send().await.unwrap();
    assert_eq!(nowhere.status(), 404);
    assert_eq!(nowhere.text().await.unwrap(), r#"{"detail":"Not found"}"#);
    service.stop().await;
}

#[tokio::test]
async fn a_shop_in_capitals_is_the_same_shop() {
    let service = service().without_workers().start().await;
    let delivery = order("orders/create", 1).header("X-Storefront-Shop-Domain", "SHOP.Example");
    is(&service, &delivery, 200, OK).await;
    assert_eq!(
        service
            .count("select count(*) as n from jobs where shop = 'shop.example'")
            .await,
        1
    );
    service.stop().await;
}
