//! PgBouncer between the processes and PostgreSQL.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use domain::event::{Event, OrderEvent};
use domain::job::{Queue, State};
use domain::time::Timestamp;
use futures_util::{StreamExt as _, stream};
use store::sql::Db;
use store::{event_head, events, jobs};
use tempfile::TempDir;

use crate::both::api::events::{count_unpublished, write};
use crate::support::backend::{Backend, environment};
use crate::support::delivery::{Delivery, order};
use crate::support::process::{self, Process, free_port, is_ready, settings};
use crate::support::requests::request;
use crate::support::service;
use crate::support::{eventually, pause, tools};

/// The server's connections that the pooler has for each database, in transaction mode fewer than one of
/// the processes wants.
const FEW: u32 = 4;
const MANY: u32 = 80;

struct PgBouncer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl PgBouncer {
    /// None: it is not installed.
    async fn start(mode: &str, connections: u32) -> Option<Self> {
        let program = tools::find("/usr/sbin/pgbouncer", "--version")?;
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let server = environment("TEST_DATABASE_URL").expect("scripts/test sets it");
        let (host, server_port) = place(&server);
        let ini = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = {connections}\n\
             max_client_conn = 500\n"
        );
        std::fs::write(&ini, text).unwrap();
        let mut command = Command::new(program);
        // It refuses to run as root.
        if is_root() {
            command.args(["-u", "nobody"]);
        }
        let child = command.arg(&ini).stderr(Stdio::null()).spawn().unwrap();
        let pooler = PgBouncer {
            child,
            port,
            _folder: folder,
        };
        eventually("the pooler listens", async || {
            let connected = tokio::net::TcpStream::connect(("127.0.0.1", port));
            connected.await.is_ok()
        })
        .await;
        Some(pooler)
    }

    fn url(&self, backend: &Backend, parameters: &str) -> String {
        let (port, name) = (self.port, &backend.database);
        format!("postgres://postgres@127.0.0.1:{port}/{name}{parameters}")
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(Path::new("/proc/self")).unwrap()) == 0
}

/// The host and the port of a URL like `postgres://user@host:port/name`.
fn place(url: &str) -> (String, String) {
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let authority = rest.split(['/', '?']).next().unwrap();
    let (host, port) = authority.split_once(':').expect("a URL with a port");
    (host.to_owned(), port.to_owned())
}

/// Sends a delivery as its provider does: again when it was answered with 503.
async fn post(port: u16, delivery: &Delivery) -> u16 {
    loop {
        let status = post_once(port, delivery).await;
        if status != 503 {
            return status;
        }
        pause(Duration::from_millis(50)).await;
    }
}

async fn post_once(port: u16, delivery: &Delivery) -> u16 {
    let mut request = reqwest::Client::new()
        .post(format!("http://127.0.0.1:{port}{}", delivery.path))
        .body(delivery.body.clone());
    for (name, value) in &delivery.headers {
        request = request.header(*name, value.as_slice());
    }
    request.send().await.unwrap().status().as_u16()
}

/// What holds of every connection, whichever of the server's it is.
async fn has_its_settings(url: &str) {
    let settings = "select concat_ws(' ', current_setting('statement_timeout'),
        current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),
        current_setting('enable_seqscan'), current_setting('jit'),
        current_setting('transaction_isolation'), current_setting('synchronous_commit')) as text";
    let db = Db::open(url, 8).await.unwrap();
    let ask = |_| async {
        let row = db.query(settings).fetch_one().await.unwrap();
        let outside: String = row.get("text").unwrap();
        let mut tx = db.begin().await.unwrap();
        let row = tx.query(settings).fetch_one().await.unwrap();
        tx.commit().await.unwrap();
        [outside, row.get("text").unwrap()]
    };
    let found: Vec<[String; 2]> = stream::iter(0..40)
        .map(ask)
        .buffer_unordered(8)
        .collect()
        .await;
    for text in found.into_iter().flatten() {
        assert_eq!(text, "1min 30s 2min off off read committed on");
    }
    db.close().await;
}

/// Two hundred orders, each sent twice, and a privacy request, done by five processes behind the pooler.
async fn everything_works(backend: &Backend, url: &str) {
    const ORDERS: u64 = 200;
    let port = free_port();
    let mut settings = settings(backend, port);
    settings.push(("DATABASE_URL".into(), url.to_owned()));
    let mut processes = vec![Process::start("waybill-ingress", &[], &settings)];
    is_ready(port).await;
    for worker in ["waybill-orders", "waybill-orders", "waybill-privacy"] {
        processes.push(Process::start(worker, &[], &settings));
    }
    let answers: Vec<[u16; 2]> = stream::iter(0..ORDERS)
        .map(|seed| async move {
            let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
            [post(port, &delivery).await, post(port, &delivery).await]
        })
        .buffer_unordered(16)
        .collect()
        .await;
    assert!(
        answers
            .iter()
            .all(|[first, again]| [200, 409].contains(first) && *again == 409),
        "{answers:?}"
    );
    assert_eq!(post(port, &request("customers/redact", 1)).await, 200);
    let direct = Db::open(&backend.database_url, 2).await.unwrap();
    eventually("everything is done", async || {
        let done = async |queue| jobs::count(&direct, queue, State::Done).await.unwrap();
        done(Queue::Orders).await == ORDERS.cast_signed() && done(Queue::Privacy).await == 1
    })
    .await;
    for table in ["orders", "webhook_ids"] {
        let count =
            crate::support::backend::statement(format!("select count(*) as n from {table}"));
        let count = direct.query(count).fetch_one().await.unwrap();
        let expected = ORDERS.cast_signed();
        assert_eq!(count.get::<i64>("n").unwrap(), expected, "{table}");
    }
    eventually("all events are out", async || {
        count_unpublished(&direct).await == 0
    })
    .await;
    let held = "select count(*) as n from pg_stat_activity
                where datname = current_database() and state like 'idle in transaction%'
                  and state_change < now() - interval '1 second'";
    let held = direct.query(held).fetch_one().await.unwrap();
    assert_eq!(held.get::<i64>("n").unwrap(), 0, "no transaction is left");
    direct.close().await;
    let of_cli: Vec<(&str, &str)> = settings.iter().map(|(a, b)| (&**a, &**b)).collect();
    let mut list = process::command("waybill", &of_cli);
    list.args(["orders", "list", "--json"]);
    let listed = process::run(list).await;
    assert!(listed.status.success(), "{listed:?}");
    for process in &mut processes {
        assert!(process.terminate().await.success());
    }
    events_wait_for_those_before_them(url).await;
}

/// A transaction that is open holds events back, also with a connection of the server that others use afterwards.
async fn events_wait_for_those_before_them(url: &str) {
    let db = Db::open(url, 3).await.unwrap();
    let head = async || event_head::newest(&db).await.unwrap();
    let before = head().await;
    for is_committed in [true, false] {
        let mut open = db.begin().await.unwrap();
        let what = Event::of_order("shop.example", 1, OrderEvent::Fulfilled);
        let new = events::NewEvent {
            at: Timestamp(1),
            event: what,
            traceparent: None,
        };
        events::insert(&mut open, &[new]).await.unwrap();
        write(&db, 1, 3).await;
        let held = head().await;
        if is_committed {
            assert_eq!(held, before);
            open.commit().await.unwrap();
            assert_eq!(head().await, before + 4);
        } else {
            assert_eq!(held, before + 4);
            open.rollback().await.unwrap();
            assert_eq!(head().await, before + 8);
        }
    }
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_pooler_of_sessions_needs_no_setting() {
    let Some(pooler) = PgBouncer::start("session", MANY).await else {
        return;
    };
    let backend = Backend::create().await;
    let url = pooler.url(&backend, "");
    everything_works(&backend, &url).await;
    has_its_settings(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_pooler_of_transactions_may_have_few_connections() {
    let Some(pooler) = PgBouncer::start("transaction", FEW).await else {
        return;
    };
    let backend = Backend::with_new_files().await;
    let url = pooler.url(&backend, "?pgbouncer=true");
    has_its_settings(&url).await;
    everything_works(&backend, &url).await;
}

/// Its settings would hold on any connection of the server, or on none.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_pooler_of_transactions_that_the_url_does_not_declare_is_refused() {
    let Some(pooler) = PgBouncer::start("transaction", FEW).await else {
        return;
    };
    let backend = Backend::with_schema().await;
    let mut settings = settings(&backend, free_port());
    settings.push(("DATABASE_URL".into(), pooler.url(&backend, "")));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(a, b)| (&**a, &**b)).collect();
    for program in ["waybill-ingress", "waybill-orders"] {
        let refused = process::run(process::command(program, &settings));
        let refused = tokio::time::timeout(Duration::from_secs(20), refused).await;
        let refused = refused.expect("it ends at once");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{text}");
        assert!(text.contains("add pgbouncer=true"), "{text}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn migrations_are_not_applied_through_a_pooler_of_transactions() {
    let Some(pooler) = PgBouncer::start("transaction", FEW).await else {
        return;
    };
    let backend = Backend::create().await;
    let url = pooler.url(&backend, "?pgbouncer=true");
    let mut settings = settings(&backend, free_port());
    settings.push(("DATABASE_URL".into(), url));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(a, b)| (&**a, &**b)).collect();
    let refused = process::run(process::command("waybill-ingress", &settings));
    let refused = tokio::time::timeout(Duration::from_secs(20), refused).await;
    let refused = refused.expect("it ends at once");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{text}");
    for said in ["waybill migrate", "without pgbouncer=true"] {
        assert!(text.contains(said), "{text}");
    }
}

/// However many connections readers hold, webhooks are taken: the intake has its own.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn no_delivery_waits_for_those_who_read() {
    let service = service().without_workers().start().await;
    let mut readers = Vec::new();
    while let Ok(reader) = service.db().begin().await {
        readers.push(reader);
    }
    assert!(readers.len() >= 4, "{} connections", readers.len());
    for seed in 0..5 {
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        assert_eq!(service.post(&delivery).await.status(), 200);
    }
    for reader in readers {
        reader.rollback().await.unwrap();
    }
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_process_says_how_many_connections_it_needs() {
    let backend = Backend::with_schema().await;
    let mut settings = settings(&backend, free_port());
    settings.push(("DATABASE_CONNECTIONS".into(), "5".into()));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(a, b)| (&**a, &**b)).collect();
    for (program, arguments, least) in [
        ("waybill-ingress", [].as_slice(), "6"),
        ("waybill-orders", &["--concurrency", "8"], "10"),
        ("waybill", &["serve"], "14"),
    ] {
        let mut command = process::command(program, &settings);
        command.args(arguments);
        let refused = process::run(command).await;
        let text = String::from_utf8_lossy(&refused.stderr);
        let expected =
            format!("DATABASE_CONNECTIONS is 5, and this process needs at least {least}");
        assert!(
            !refused.status.success() && text.contains(&expected),
            "{text}"
        );
    }
}
