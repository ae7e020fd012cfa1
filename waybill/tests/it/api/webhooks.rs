//! `POST /api/webhooks/storefront` and `/payment`: signatures, headers, bodies and limits.

use config::DEVELOPMENT_PAYMENT_SECRET;
use domain::job::State;
use domain::signature::sign_payment;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::delivery::{Delivery, order, payment, payment_at, storefront};
use crate::support::hostile::head;
use crate::support::{START, Service, service};

const OK: &str = r#"{"status":"ok"}"#;

fn event(id: &str) -> Delivery {
    payment(format!(
        r#"{{"id":"{id}","object":"event","type":"charge.refunded","data":{{"object":{{"id":"ch_1","customer":"cus_1"}}}}}}"#
    ))
}

async fn is(service: &Service, delivery: &Delivery, status: u16, body: &str) {
    assert_eq!(service.answer(delivery).await, (status, body.to_owned()));
}

const BAD_HMAC: &str = r#"{"detail":"Invalid HMAC signature"}"#;
const BAD_PAYMENT: &str = r#"{"detail":"Invalid payment signature"}"#;

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

/// Somebody who runs it on their machine, behind a tunnel, with a secret of their own for the storefront alone.
#[tokio::test]
async fn the_public_secret_of_a_development_start_is_good_for_this_machine_alone() {
    let service = service()
        .setting("PAYMENT_WEBHOOK_SECRET", DEVELOPMENT_PAYMENT_SECRET)
        .without_workers()
        .start()
        .await;
    let at = service.parts.clock.now().unix_seconds();
    let signed = |id| {
        let event = event(id);
        let signature = sign_payment(DEVELOPMENT_PAYMENT_SECRET, at, &event.body);
        event.header("Payment-Signature", signature)
    };
    is(&service, &signed("evt_1"), 200, OK).await;
    let ways = [
        ("Host", "waybill.tunnel.example"),
        ("X-Forwarded-For", "203.0.113.7"),
        ("X-Forwarded-Host", "waybill.tunnel.example"),
        ("Forwarded", "for=203.0.113.7"),
    ];
    for (name, value) in ways {
        let (status, body) = service.answer(&signed("evt_2").also(name, value)).await;
        assert_eq!(status, 421, "{name}");
        assert!(body.contains("set a signing secret of your own"), "{body}");
        let own = order("orders/create", 1).also(name, value);
        is(&service, &own, 200, OK).await;
    }
    assert_eq!(service.jobs(State::Ready).await, 1 + 4);
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
async fn no_cache_keeps_an_answer_that_does_not_allow_it() {
    let service = service().start().await;
    let delivery = order("orders/create", 1).id("w-1");
    for (path, is_kept) in [
        ("/api/commerce/orders", false),
        ("/api/commerce/no-such-route", false),
        ("/api/events", false),
        ("/readyz", false),
        ("/openapi.json", true),
    ] {
        let answer = service.get(path).send().await.unwrap();
        let cached = answer.headers()["cache-control"].to_str().unwrap();
        assert_eq!(cached != "no-store", is_kept, "{path}: {cached}");
    }
    let answer = service.post(&delivery).await;
    assert_eq!(answer.headers()["cache-control"], "no-store");
    service.stop().await;
}
