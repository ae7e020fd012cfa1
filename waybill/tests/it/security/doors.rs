//! Attacks of strangers on the port: they hold connections and memory, use up limits, and fill the
//! log. The tests check that legitimate clients are served meanwhile.

use std::path::Path;
use std::time::Duration;

use domain::job::State;
use domain::signature::sign_storefront;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::backend::Backend;
use crate::support::delivery::{Delivery, order, storefront};
use crate::support::hostile::{connect_from, forged, head};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::{STOREFRONT_SECRET, Service, eventually, pause, service};

const MIB: usize = 1024 * 1024;

/// A connection to the service from another address of this machine.
async fn from(service: &Service, last: u8) -> TcpStream {
    let address = service.url.strip_prefix("http://").unwrap();
    let connected = connect_from([127, 0, 0, last], address.parse().unwrap());
    connected.await.unwrap()
}

/// Sends all of it, then reads until the service ends the connection.
async fn exchange(mut stream: TcpStream, sent: &[u8]) -> std::io::Result<String> {
    stream.write_all(sent).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The status of a request whose body is not sent.
async fn status_of_head(stream: &mut TcpStream, head: &str) -> String {
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut line = [0; 12];
    let read = timeout(Duration::from_secs(5), stream.read_exact(&mut line));
    match read.await {
        Ok(read) => {
            read.unwrap();
            String::from_utf8(line.to_vec()).unwrap()
        }
        Err(_) => "no answer".to_owned(),
    }
}

#[tokio::test]
async fn an_answer_that_does_not_wait_for_the_body_arrives_whatever_is_still_sent() {
    let service = service().without_workers().start().await;
    let size = 16 * MIB;
    let announced = format!("Content-Length: {size}");
    let good = order("orders/create", 1);
    let hmac = "X-Storefront-Hmac-Sha256";
    let unsigned = head(&good.clone().without(hmac), &announced);
    let encoded = head(&good.clone().header("Content-Encoding", "gzip"), &announced);
    let cases = [
        (head(&good, &announced), "413"),
        (head(&good, "Transfer-Encoding: chunked"), "413"),
        (
            unsigned.replace(&announced, "Content-Length: 2000000"),
            "401",
        ),
        (
            encoded.replace(&announced, "Content-Length: 2000000"),
            "415",
        ),
        (
            format!("POST /nowhere HTTP/1.1\r\nHost: waybill\r\n{announced}\r\n\r\n"),
            "404",
        ),
        (
            format!("PUT /livez HTTP/1.1\r\nHost: waybill\r\n{announced}\r\n\r\n"),
            "405",
        ),
    ];
    for (head, status) in cases {
        let mut sent = head.clone().into_bytes();
        let body = if head.contains("chunked") {
            sent.extend(format!("{size:x}\r\n").into_bytes());
            size
        } else if head.contains("2000000") {
            2_000_000
        } else {
            size
        };
        sent.resize(sent.len() + body, b' ');
        if head.contains("chunked") {
            sent.extend(b"\r\n0\r\n\r\n");
        }
        let answer = exchange(from(&service, 1).await, &sent).await;
        let answer = answer.unwrap_or_else(|error| panic!("{status} was lost: {error}"));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        let says = answer.to_ascii_lowercase();
        assert!(says.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    // Where the body was read, the connection goes on.
    let whole = head(&good, &format!("Content-Length: {}", good.body.len()));
    let mut stream = from(&service, 1).await;
    for _ in 0..2 {
        stream.write_all(whole.as_bytes()).await.unwrap();
        stream.write_all(&good.body).await.unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        assert_eq!(&line, b"HTTP/1.1 200");
        let mut rest = vec![0; 4096];
        let read = stream.read(&mut rest).await.unwrap();
        let rest = String::from_utf8_lossy(&rest[..read]).to_ascii_lowercase();
        assert!(!rest.contains("connection: close"), "{rest}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_request_names_exactly_one_host() {
    let service = service().without_workers().start().await;
    let cases = [
        ("GET /livez HTTP/1.1\r\n\r\n", "400"),
        ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"),
        ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", "400"),
        ("GET /livez HTTP/1.1\r\nHost: user@a\r\n\r\n", "400"),
        ("GET /livez HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
        ("GET /livez HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("GET http://a/livez HTTP/1.1\r\n\r\n", "400"),
        ("GET /livez HTTP/1.0\r\n\r\n", "200"),
        (
            "GET /livez HTTP/1.1\r\nConnection: close\r\nHost: shop.example:8000\r\n\r\n",
            "200",
        ),
        (
            "GET /livez HTTP/1.1\r\nConnection: close\r\nHost: [2001:db8::1]:80\r\n\r\n",
            "200",
        ),
        (
            "GET /livez HTTP/1.1\r\nConnection: close\r\nHost:\r\n\r\n",
            "200",
        ),
    ];
    for (request, status) in cases {
        let answer = exchange(from(&service, 1).await, request.as_bytes())
            .await
            .unwrap();
        let line = answer.lines().next().unwrap_or_default();
        assert!(
            line.split(' ').nth(1) == Some(status),
            "{request:?}: {answer}"
        );
        if status == "400" {
            assert!(answer.contains(r#"{"detail":"#), "{answer}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_signature_that_can_verify_nothing_is_refused_before_the_body_is_read() {
    let service = service().without_workers().start().await;
    let length = "Content-Length: 1000000";
    let hmac = "X-Storefront-Hmac-Sha256";
    let good = order("orders/create", 1);
    let conflicting = good.clone().also(hmac, sign_storefront("another", b""));
    for refused in [
        good.clone().without(hmac),
        good.clone().header(hmac, "not base64!"),
        conflicting,
    ] {
        let mut stream = from(&service, 1).await;
        let status = status_of_head(&mut stream, &head(&refused, length)).await;
        assert_eq!(status, "HTTP/1.1 401");
    }
    let event = crate::support::delivery::payment("{}");
    let signature = "Payment-Signature";
    for refused in [
        event.clone().without(signature),
        event.clone().header(signature, "t=1,v0=00"),
    ] {
        let mut stream = from(&service, 1).await;
        let status = status_of_head(&mut stream, &head(&refused, length)).await;
        assert_eq!(status, "HTTP/1.1 401");
    }
    // Whoever asks first is answered before it sends.
    let asking = head(&good.clone().without(hmac), length);
    let asking = asking.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let mut stream = from(&service, 1).await;
    assert_eq!(status_of_head(&mut stream, &asking).await, "HTTP/1.1 401");
    service.stop().await;
}

/// Sends all but the last byte of a large body with a signature that could be right.
async fn withheld(service: &Service, last: u8, size: usize) -> TcpStream {
    let mut stream = from(service, last).await;
    let head = head(&forged(), &format!("Content-Length: {size}"));
    let mut sent = head.into_bytes();
    sent.resize(sent.len() + size - 1, b' ');
    // It may be refused meanwhile.
    let _ = timeout(Duration::from_secs(5), stream.write_all(&sent)).await;
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_held_back_keep_no_delivery_of_others_out() {
    let service = service().without_workers().start().await;
    let held = (0..40).map(|_| withheld(&service, 2, 2 * MIB));
    let held = join_all(held).await;
    // Small, and large enough to come in many pieces.
    for size in [10, 300 * 1024, 2 * MIB] {
        let padding = " ".repeat(size);
        let delivery = storefront(
            "orders/create",
            format!(r#"{{"id":1}}{padding}"#).into_bytes(),
        );
        let delivery = Delivery {
            body: delivery.body[..size.max(8)].to_vec(),
            ..delivery
        };
        let delivery = storefront("orders/create", delivery.body);
        assert_eq!(service.answer(&delivery).await.0, 200, "{size} bytes");
    }
    drop(held);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_deliveries_are_taken_while_large_bodies_from_many_networks_hold_all_the_rest() {
    let service = service().without_workers().start().await;
    let held = (0..60).map(|n| withheld(&service, 2 + n, 2 * MIB));
    let held = join_all(held).await;
    for size in [10, 60 * 1024] {
        let delivery = storefront(
            "orders/create",
            format!(r#"{{"id":1}}{}"#, " ".repeat(size)),
        );
        assert_eq!(service.answer(&delivery).await.0, 200, "{size} bytes");
    }
    drop(held);
    service.stop().await;
}

/// When a socket turns out to be closed by the other side, without reading from it.
async fn is_cut(stream: &mut TcpStream) {
    loop {
        pause(Duration::from_millis(100)).await;
        if stream
            .try_write(b"x")
            .is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
        {
            return;
        }
        let ended = stream.ready(tokio::io::Interest::ERROR);
        if timeout(Duration::from_millis(1), ended).await.is_ok() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_never_reads_its_answers_is_cut_off_after_fifteen_seconds() {
    let service = service().without_workers().start().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = from(&service, 2).await;
        let pipelined = "GET /docs HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200);
        let _ = timeout(
            Duration::from_millis(200),
            stream.write_all(pipelined.as_bytes()),
        )
        .await;
        streams.push(stream);
    }
    pause(Duration::from_secs(10)).await;
    for stream in &mut streams {
        let cut = timeout(Duration::from_secs(15), is_cut(stream)).await;
        assert!(cut.is_ok(), "still open after 25 s");
    }
    let metrics = service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("waybill_connections_cut_total{reason=\"unread\"}"))
        .unwrap_or_else(|| panic!("not counted:\n{metrics}"));
    let counted: f64 = counted.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(counted >= 20.0, "{counted}");
    service.stop().await;
}

/// The headers of the next answer, in lower case. Its body is read too.
async fn headers(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let end = loop {
        let at = answer.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(at) = at {
            break at + 4;
        }
        answer.push(stream.read_u8().await.unwrap());
    };
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head
}

/// How long the service lets a connection wait until it ends it.
async fn kept(stream: &mut TcpStream) -> Duration {
    let begun = tokio::time::Instant::now();
    let ended = timeout(Duration::from_secs(30), stream.read(&mut [0; 1])).await;
    let ended = ended.expect("the connection ends");
    assert!(matches!(ended, Ok(0) | Err(_)), "nothing is sent");
    begun.elapsed()
}

const ALIVE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn an_idle_connection_is_kept_for_as_long_as_the_answer_announces() {
    let service = service()
        .setting("KEEP_ALIVE_SECONDS", "3")
        .without_workers()
        .start()
        .await;
    let mut idle = from(&service, 1).await;
    for _ in 0..2 {
        idle.write_all(ALIVE).await.unwrap();
        let headers = headers(&mut idle).await;
        assert!(
            headers.contains("\r\nkeep-alive: timeout=3\r\n"),
            "{headers}"
        );
    }
    // The time for headers begins with their first byte, and is another one.
    let mut slow = from(&service, 1).await;
    slow.write_all(ALIVE).await.unwrap();
    headers(&mut slow).await;
    slow.write_all(&ALIVE[..9]).await.unwrap();
    let (idle, slow) = tokio::join!(kept(&mut idle), kept(&mut slow));
    assert!(idle > Duration::from_secs(2), "{idle:?}");
    assert!(idle < Duration::from_secs(8), "{idle:?}");
    assert!(slow > Duration::from_secs(8), "{slow:?}");
    let closing = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(from(&service, 1).await, closing).await.unwrap();
    let answer = answer.to_ascii_lowercase();
    assert!(!answer.contains("keep-alive"), "{answer}");
    service.stop().await;
}

#[tokio::test]
async fn proxies_are_announced_75_seconds_and_strangers_ten_in_a_crowd() {
    let service = service()
        .setting("MAX_CONNECTIONS", "80")
        .setting("TRUSTED_PROXIES", "127.0.0.1")
        .without_workers()
        .start()
        .await;
    let mut strangers = Vec::new();
    for last in 2..7 {
        strangers.extend(open(&service, last, 9).await);
    }
    for (own, seconds) in [(1, 75), (7, 10)] {
        let mut stream = from(&service, own).await;
        stream.write_all(ALIVE).await.unwrap();
        let headers = headers(&mut stream).await;
        let announced = format!("\r\nkeep-alive: timeout={seconds}\r\n");
        assert!(headers.contains(&announced), "{headers}");
    }
    drop(strangers);
    eventually("there is room again", async || {
        let mut stream = from(&service, 7).await;
        stream.write_all(ALIVE).await.unwrap();
        headers(&mut stream).await.contains("timeout=75")
    })
    .await;
    service.stop().await;
}

/// How many of the connections are served.
async fn served(streams: &mut [TcpStream]) -> usize {
    let mut served = 0;
    for stream in streams {
        let request = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut line = [0; 12];
        if stream.write_all(request).await.is_ok()
            && stream.read_exact(&mut line).await.is_ok()
            && &line == b"HTTP/1.1 200"
        {
            served += 1;
        }
    }
    served
}

async fn open(service: &Service, last: u8, connections: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        streams.push(from(service, last).await);
    }
    streams
}

#[tokio::test]
async fn a_network_has_its_share_of_the_connections_and_others_have_theirs() {
    let service = service()
        .setting("MAX_CONNECTIONS", "80")
        .without_workers()
        .start()
        .await;
    let mut first = open(&service, 2, 30).await;
    assert_eq!(served(&mut first).await, 10, "an eighth of all");
    let mut second = open(&service, 3, 5).await;
    assert_eq!(served(&mut second).await, 5, "others are served");
    drop(first);
    eventually("what has ended counts no more", async || {
        served(&mut open(&service, 2, 1).await).await == 1
    })
    .await;
    drop(second);
    service.stop().await;
}

#[tokio::test]
async fn all_networks_together_leave_room_for_a_trusted_proxy() {
    let service = service()
        .setting("MAX_CONNECTIONS", "80")
        .setting("TRUSTED_PROXIES", "127.0.0.9")
        .without_workers()
        .start()
        .await;
    let mut strangers = Vec::new();
    for last in 20..40 {
        strangers.extend(open(&service, last, 10).await);
    }
    assert_eq!(served(&mut strangers).await, 70, "an eighth is kept");
    let mut proxied = open(&service, 9, 10).await;
    assert_eq!(served(&mut proxied).await, 10);
    drop(strangers);
    let mut alone = Vec::new();
    eventually(
        "a proxy is not one client: it may have them all",
        async || open(&service, 9, 1).await.len() == 1,
    )
    .await;
    pause(Duration::from_millis(500)).await;
    alone.extend(open(&service, 9, 60).await);
    assert_eq!(served(&mut alone).await, 60);
    service.stop().await;
}

/// A request for whose body the service waits.
async fn hold(service: &Service, last: u8, client: &str) -> TcpStream {
    let mut stream = from(service, last).await;
    let head = format!(
        "POST /auth/device/token HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nd"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// How many of the requests were refused. They are held no more.
async fn refused(held: &mut Vec<TcpStream>) -> usize {
    let all = held.len();
    let looks = held.drain(..).map(async |mut stream| {
        let mut line = [0; 12];
        let read = timeout(Duration::from_secs(2), stream.read_exact(&mut line));
        let is_refused = read.await.is_ok_and(|read| read.is_ok()) && &line == b"HTTP/1.1 429";
        (!is_refused).then_some(stream)
    });
    let left = join_all(looks).await;
    held.extend(left.into_iter().flatten());
    all - held.len()
}

#[tokio::test]
async fn a_client_behind_a_proxy_has_its_share_of_the_requests_under_way_and_deliveries_have_theirs()
 {
    let service = service()
        .setting("MAX_CONNECTIONS", "80")
        .setting("TRUSTED_PROXIES", "127.0.0.9")
        .without_workers()
        .start()
        .await;
    let mut held = Vec::new();
    for _ in 0..15 {
        held.push(hold(&service, 9, "192.0.2.1").await);
    }
    assert_eq!(refused(&mut held).await, 5, "an eighth is the share of one");
    let others: [u8; 6] = [2, 3, 4, 5, 6, 7];
    for client in others {
        for _ in 0..10 {
            held.push(hold(&service, 9, &format!("192.0.2.{client}")).await);
        }
    }
    assert_eq!(
        refused(&mut held).await,
        10,
        "a quarter is kept for deliveries"
    );
    let mut accepted = 0;
    for nth in 0..20 {
        let delivery = order("orders/create", nth).id(&format!("beside-{nth}"));
        let mut stream = from(&service, 9).await;
        let head = head(
            &delivery,
            &format!("Content-Length: {}", delivery.body.len()),
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&delivery.body).await.unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        accepted += usize::from(&line == b"HTTP/1.1 200");
    }
    assert_eq!(accepted, 20);
    drop(held);
    service.stop().await;
}

#[tokio::test]
async fn who_holds_all_connections_with_unfinished_requests_loses_the_oldest_to_others() {
    let service = service()
        .setting("MAX_CONNECTIONS", "80")
        .without_workers()
        .start()
        .await;
    let mut held = Vec::new();
    for last in 20..28 {
        for mut stream in open(&service, last, 10).await {
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nHost")
                .await
                .unwrap();
            held.push(stream);
        }
    }
    let mut honest = open(&service, 40, 5).await;
    assert_eq!(served(&mut honest).await, 5);
    for stream in &mut held[..5] {
        let mut rest = [0; 1];
        let ended = timeout(Duration::from_secs(5), stream.read(&mut rest))
            .await
            .unwrap();
        assert!(!matches!(ended, Ok(1..)), "the oldest ends");
    }
    drop(held);
    service.stop().await;
}

#[tokio::test]
async fn a_captured_body_under_invented_shops_and_ids_is_soon_refused() {
    let service = service()
        .without("STOREFRONT_RATE_PER_SECOND")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let captured = order("orders/create", 1);
    let mut accepted = 0;
    for n in 0..60 {
        let again = captured.clone().of_shop(&format!("shop-{n}.example"));
        match service.answer(&again.id(&format!("w-{n}"))).await.0 {
            200 => accepted += 1,
            429 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(accepted, 20, "twenty at once");
    // Nobody else has less for it.
    let other = order("orders/create", 2).of_shop("shop-1.example");
    assert_eq!(service.answer(&other).await.0, 200);
    let limited = service.post(&captured).await;
    assert_eq!(limited.status(), 429);
    assert!(limited.headers().contains_key("retry-after"));
    service.clock().advance(Duration::from_mins(1));
    assert_eq!(service.answer(&captured).await.0, 200, "one more a minute");
    assert_eq!(service.answer(&captured).await.0, 429);
    assert_eq!(service.jobs(State::Ready).await, 22);
    service.stop().await;
}

/// How many of so many different deliveries, each of a shop of its own, the limit lets in at once. One that the database does not
/// take in time was let in too.
async fn taken_at_once(service: &Service, deliveries: u64) -> usize {
    let mut accepted = 0;
    for seed in 0..deliveries {
        let delivery = order("orders/create", seed).of_shop(&format!("shop-{seed}.example"));
        accepted += usize::from(service.answer(&delivery).await.0 != 429);
    }
    accepted
}

#[tokio::test]
async fn all_shops_together_have_a_limit_as_long_as_they_are_not_listed() {
    let limited = || {
        service()
            .setting("STOREFRONT_RATE_PER_SECOND", "1")
            .manual_clock()
            .without_workers()
    };
    let open = limited().start().await;
    // 50 times the limit of a shop, and two seconds' worth at once.
    assert_eq!(taken_at_once(&open, 130).await, 100);
    open.clock().advance(Duration::from_secs(1));
    assert_eq!(taken_at_once(&open, 60).await, 50);
    open.stop().await;

    let listed = (0..130).map(|n| format!("shop-{n}.example"));
    let listed = listed.collect::<Vec<_>>().join(",");
    let listed = limited().setting("STOREFRONT_SHOPS", &listed).start().await;
    assert_eq!(taken_at_once(&listed, 130).await, 130);
    listed.stop().await;
}

/// The lines of a log that have this message.
fn lines(log: &Path, message: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| {
            line["message"]
                .as_str()
                .is_some_and(|it| it.contains(message))
        })
        .collect()
}

/// A process of its own that logs into a file.
struct Logged {
    port: u16,
    _process: Process,
    log: std::path::PathBuf,
    _folder: tempfile::TempDir,
    _backend: Backend,
}

async fn logged() -> Logged {
    let backend = Backend::create().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let port = free_port();
    let mut settings = settings(&backend, port);
    settings.retain(|(name, _)| name != "RUST_LOG");
    settings.push(("LOG_FORMAT".into(), "json".into()));
    let process = Process::start_logged("waybill", &["serve"], &settings, &log);
    is_ready(port).await;
    Logged {
        port,
        _process: process,
        log,
        _folder: folder,
        _backend: backend,
    }
}

#[tokio::test]
async fn a_forwarding_header_without_trusted_proxies_is_reported_once() {
    for (name, value) in [
        ("X-Forwarded-For", "203.0.113.7"),
        ("Forwarded", "for=\"[2001:db8::1]:80\""),
    ] {
        let service = logged().await;
        let url = format!("http://127.0.0.1:{}/livez", service.port);
        let client = reqwest::Client::new();
        assert!(lines(&service.log, "TRUSTED_PROXIES").is_empty());
        for _ in 0..3 {
            let answer = client.get(&url).header(name, value).send().await.unwrap();
            assert_eq!(answer.status(), 200);
        }
        eventually("it is reported", async || {
            !lines(&service.log, "TRUSTED_PROXIES").is_empty()
        })
        .await;
        let reported = lines(&service.log, "TRUSTED_PROXIES");
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert_eq!(reported[0]["level"], "WARN");
        let line = reported[0].to_string();
        assert!(
            !line.contains("203.0.113.7") && !line.contains("2001"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn refused_deliveries_are_reported_at_once_and_then_counted() {
    let service = logged().await;
    let client = reqwest::Client::new();
    let url = format!("http://127.0.0.1:{}/api/webhooks/storefront", service.port);
    let forged = sign_storefront("another secret", b"{}");
    for n in 0..50 {
        let request = client.post(&url).body(format!("{{\"id\":{n}}}"));
        let request = request.header("X-Storefront-Hmac-Sha256", &forged);
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    // Another reason is another line.
    let signed = sign_storefront(STOREFRONT_SECRET, b"{}");
    let request = client.post(&url).body("{}");
    let request = request.header("X-Storefront-Hmac-Sha256", signed);
    assert_eq!(request.send().await.unwrap().status(), 422);
    eventually("both reasons are reported", async || {
        lines(&service.log, "a delivery was refused").len() == 2
    })
    .await;
    eventually("the others are counted", async || {
        !lines(&service.log, "more deliveries were refused").is_empty()
    })
    .await;
    let at_once = lines(&service.log, "a delivery was refused");
    assert_eq!(at_once.len(), 2, "{at_once:?}");
    let counted = lines(&service.log, "more deliveries were refused");
    assert_eq!(counted.len(), 1, "{counted:?}");
    let text = counted[0].to_string();
    assert!(text.contains("49") && text.contains("signature"), "{text}");
}

#[tokio::test]
async fn development_has_no_limits_unless_they_are_set() {
    for (set, expected) in [(None, 60), (Some("2"), 40)] {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut settings = vec![
            ("LISTEN_ADDR".into(), format!("127.0.0.1:{port}")),
            ("PUBLIC_URL".into(), format!("http://127.0.0.1:{port}")),
            ("RUST_LOG".into(), "warn".into()),
            (
                "DATABASE_URL".into(),
                format!("sqlite://{}", folder.path().join("dev.db").display()),
            ),
        ];
        if let Some(rate) = set {
            settings.push(("STOREFRONT_RATE_PER_SECOND".into(), rate.to_owned()));
        }
        let _process = Process::start("waybill", &[], &settings);
        is_ready(port).await;
        let url = format!("http://127.0.0.1:{port}/api/webhooks/storefront");
        let client = reqwest::Client::new();
        let posts = (0..60).map(|n| {
            let body = format!("{{\"id\":{n}}}");
            let signature = sign_storefront(config::DEVELOPMENT_STOREFRONT_SECRET, body.as_bytes());
            client
                .post(&url)
                .header("X-Storefront-Topic", "products/update")
                .header("X-Storefront-Hmac-Sha256", signature)
                .body(body)
                .send()
        });
        let answers = join_all(posts).await;
        let accepted = answers
            .into_iter()
            .filter(|it| it.as_ref().unwrap().status() == 200);
        let accepted = accepted.count();
        // A second or two may pass meanwhile.
        assert!(
            (expected..=expected + 8).contains(&accepted),
            "{accepted} of {expected}"
        );
    }
}
