//! Processes that are killed and started again while deliveries arrive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use domain::job::{Queue, State};
use store::jobs;
use store::sql::Db;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::backend::{Backend, is_distributed};
use crate::support::delivery::{Delivery, order};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::records::with_page;
use crate::support::{eventually, pause};

/// Posts a delivery as a provider does: again until it is answered 200 or 409. Returns the
/// statuses it got.
async fn insist(client: &reqwest::Client, port: u16, delivery: &Delivery) -> Vec<u16> {
    let mut statuses = Vec::new();
    loop {
        let mut request = client
            .post(format!("http://127.0.0.1:{port}{}", delivery.path))
            .timeout(Duration::from_secs(5))
            .body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(*name, value.as_slice());
        }
        if let Ok(answer) = request.send().await {
            statuses.push(answer.status().as_u16());
            if [200, 409].contains(&answer.status().as_u16()) {
                return statuses;
            }
        }
        pause(Duration::from_millis(50)).await;
    }
}

async fn count(db: &Db, sql: &'static str) -> i64 {
    db.query(sql).fetch_one().await.unwrap().get("n").unwrap()
}

/// Every order has exactly one of everything, and no job is left (faults, I2 and I3).
async fn one_effect_each(db: &Db, orders: i64) {
    eventually("no job is left", async || {
        jobs::count(db, Queue::Orders, State::Ready).await.unwrap() == 0
    })
    .await;
    assert_eq!(
        jobs::count(db, Queue::Orders, State::Dead).await.unwrap(),
        0
    );
    assert_eq!(
        jobs::count(db, Queue::Orders, State::Done).await.unwrap(),
        orders
    );
    for counted in [
        "select count(*) as n from orders",
        "select count(*) as n from events",
        "select count(*) as n from webhook_ids",
    ] {
        assert_eq!(count(db, counted).await, orders, "{counted}");
    }
    assert_eq!(with_page(db).await, orders);
}

fn start_all(backend: &Backend, port: u16) -> Vec<Process> {
    let settings = settings(backend, port);
    if is_distributed() {
        vec![
            Process::start("waybill-ingress", &[], &settings),
            Process::start("waybill-orders", &["--concurrency", "2"], &settings),
            Process::start("waybill-orders", &["--concurrency", "2"], &settings),
        ]
    } else {
        vec![Process::start("waybill", &["serve"], &settings)]
    }
}

fn start_again(backend: &Backend, port: u16, index: usize) -> Process {
    let settings = settings(backend, port);
    match index {
        _ if !is_distributed() => Process::start("waybill", &["serve"], &settings),
        0 => Process::start("waybill-ingress", &[], &settings),
        _ => Process::start("waybill-orders", &["--concurrency", "2"], &settings),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_processes_killed_under_load_lose_nothing_and_do_nothing_twice() {
    const KILLS: usize = 6;
    let backend = Backend::create().await;
    let port = free_port();
    let mut processes = start_all(&backend, port);
    is_ready(port).await;
    let enough = Arc::new(AtomicBool::new(false));
    let posting = post_until(port, enough.clone());
    let killing = async {
        for turn in 0..KILLS {
            pause(Duration::from_millis(700)).await;
            let index = turn % processes.len();
            processes[index].kill();
            processes[index] = start_again(&backend, port, index);
        }
        enough.store(true, Ordering::SeqCst);
    };
    let (statuses, ()) = tokio::join!(posting, killing);
    let accepted: BTreeSet<u64> = statuses.iter().map(|(seed, _)| *seed).collect();
    assert_eq!(accepted.len(), statuses.len());
    assert!(statuses.len() >= 100, "only {} orders", statuses.len());
    let db = Db::open(&backend.database_url, 2).await.unwrap();
    one_effect_each(&db, i64::try_from(statuses.len()).unwrap()).await;
    db.close().await;
}

/// Posts orders until it is enough, sixteen at a time, and a tenth of them a second time.
async fn post_until(port: u16, enough: Arc<AtomicBool>) -> Vec<(u64, Vec<u16>)> {
    use futures_util::StreamExt;
    let client = reqwest::Client::new();
    let seeds = (0..).take_while(|_| !enough.load(Ordering::SeqCst));
    let deliveries = seeds.map(|seed| {
        let client = client.clone();
        async move {
            let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
            let statuses = insist(&client, port, &delivery).await;
            if seed % 10 == 0 {
                assert_eq!(insist(&client, port, &delivery).await.last(), Some(&409));
            }
            (seed, statuses)
        }
    });
    futures_util::stream::iter(deliveries)
        .buffer_unordered(16)
        .collect()
        .await
}

/// The kernel's rows of all connections from and to this port.
fn connections(port: u16) -> String {
    let port = format!(":{port:04X} ");
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = all.lines().filter(|row| row.contains(&port));
    rows.collect::<Vec<_>>().join("\n")
}

/// Posts one delivery after the other; how many were answered 200 before one was not.
async fn send_until_refused(port: u16, first: u64, accepted: Arc<AtomicI64>) {
    let client = reqwest::Client::new();
    for seed in first.. {
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        let mut request = client
            .post(format!("http://127.0.0.1:{port}{}", delivery.path))
            .timeout(Duration::from_secs(30))
            .body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(*name, value.as_slice());
        }
        match request.send().await {
            Ok(answer) if answer.status() == 200 => {
                accepted.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) if error.is_timeout() => {
                let connections = connections(port);
                panic!("delivery {seed} was not answered: {error:?}\n{connections}");
            }
            Ok(_) | Err(_) => break,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_sigterm_under_load_answers_what_is_under_way_and_exits_0() {
    let backend = Backend::create().await;
    let port = free_port();
    let mut processes = start_all(&backend, port);
    is_ready(port).await;
    // Senders that stop at their first failure: what they count was answered 200.
    let accepted = Arc::new(AtomicI64::new(0));
    let mut senders = JoinSet::new();
    for sender in 0..16 {
        let accepted = Arc::clone(&accepted);
        senders.spawn(send_until_refused(port, sender * 10_000, accepted));
    }
    eventually("deliveries are accepted", async || {
        accepted.load(Ordering::SeqCst) >= 100
    })
    .await;
    for process in &mut processes {
        let stopped = tokio::time::timeout(Duration::from_secs(10), process.terminate());
        let status = stopped.await.expect("within ten seconds");
        assert_eq!(status.code(), Some(0), "in order");
    }
    senders.join_all().await;
    let accepted = accepted.load(Ordering::SeqCst);
    let db = Db::open(&backend.database_url, 2).await.unwrap();
    let stored = count(&db, "select count(*) as n from jobs").await;
    assert!(
        stored >= accepted,
        "{accepted} were answered 200, {stored} are stored"
    );
    assert_eq!(
        count(
            &db,
            "select count(*) as n from jobs where unfinished_attempts > 0"
        )
        .await,
        0
    );
    let _processes = start_all(&backend, port);
    one_effect_each(&db, stored).await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_a_job_that_ends_its_worker_each_time_is_dead_lettered_and_its_neighbours_succeed() {
    let backend = Backend::create().await;
    let port = free_port();
    let settings = settings(&backend, port);
    let _ingress = Process::start("waybill-ingress", &[], &settings);
    is_ready(port).await;
    let client = reqwest::Client::new();
    for seed in 1..=9 {
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        assert_eq!(insist(&client, port, &delivery).await, [200]);
    }
    // Whoever works on order 5 stops there: its row is held. Then the worker is killed, as if
    // the job had ended it.
    let db = Db::open(&backend.database_url, 3).await.unwrap();
    let poison = "select cast(object_id as bigint) as n from deliveries where external_id = 'w-5'";
    let poison = count(&db, poison).await;
    let mut held = db.begin().await.unwrap();
    held.query(
        "insert into orders (shop, id, listed_at, state, is_paid, record, created_at, updated_at)
         values ('shop.example', $1, 0, 'initiated', 0, '{}', 0, 0)",
    )
    .bind(poison)
    .execute()
    .await
    .unwrap();
    let unfinished_attempts = "select unfinished_attempts as n from jobs
        where id in (select id from deliveries where external_id = 'w-5')";
    let begun = Instant::now();
    for run in 0..=5 {
        let mut worker = Process::start("waybill-orders", &["--concurrency", "1"], &settings);
        if run == 0 {
            let waiting = "select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
            eventually("the worker is stuck", async || {
                count(&db, waiting).await > 0
            })
            .await;
        } else {
            eventually("the run is counted", async || {
                count(&db, unfinished_attempts).await == run
            })
            .await;
            pause(Duration::from_millis(200)).await;
        }
        worker.kill();
    }
    let _worker = Process::start("waybill-orders", &["--concurrency", "1"], &settings);
    eventually(
        "the job is dead-lettered and the others are done",
        async || {
            jobs::count(&db, Queue::Orders, State::Dead).await.unwrap() == 1
                && jobs::count(&db, Queue::Orders, State::Done).await.unwrap() == 8
        },
    )
    .await;
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(28),
        "{took:?}: 2 + 4 + 8 + 16 s"
    );
    held.rollback().await.unwrap();
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_runs_that_the_database_ends_are_not_counted_as_the_end_of_a_process() {
    let backend = Backend::create().await;
    let port = free_port();
    let settings = settings(&backend, port);
    let _ingress = Process::start("waybill-ingress", &[], &settings);
    is_ready(port).await;
    let delivery = order("orders/create", 5).id("w-5");
    let client = reqwest::Client::new();
    assert_eq!(insist(&client, port, &delivery).await, [200]);
    let db = Db::open(&backend.database_url, 3).await.unwrap();
    let id = count(&db, "select cast(object_id as bigint) as n from deliveries").await;
    let mut held = db.begin().await.unwrap();
    held.query(
        "insert into orders (shop, id, listed_at, state, is_paid, record, created_at, updated_at)
         values ('shop.example', $1, 0, 'initiated', 0, '{}', 0, 0)",
    )
    .bind(id)
    .execute()
    .await
    .unwrap();
    let mut tx = db.begin().await.unwrap();
    let once = "update jobs set unfinished_attempts = 1";
    tx.query(once).execute().await.unwrap();
    tx.commit().await.unwrap();
    let _worker = Process::start("waybill-orders", &["--concurrency", "1"], &settings);
    let waiting = "select count(*) as n from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()";
    let end = "select count(pg_terminate_backend(pid)) as n from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()";
    // Oftener than a job may end its process.
    for _ in 0..7 {
        eventually("the worker is stuck", async || {
            count(&db, waiting).await > 0
        })
        .await;
        let counted = count(&db, "select unfinished_attempts as n from jobs").await;
        assert_eq!(counted, 2);
        assert_eq!(count(&db, end).await, 1);
        eventually("the run has ended", async || count(&db, waiting).await == 0).await;
    }
    held.rollback().await.unwrap();
    let done = "select count(*) as n from jobs where state = 'done' and unfinished_attempts = 0";
    eventually("it is done", async || count(&db, done).await == 1).await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_ready_within_a_second() {
    let backend = Backend::create().await;
    let port = free_port();
    // The first start migrates.
    let mut first = start_all(&backend, port);
    is_ready(port).await;
    for process in &mut first {
        process.terminate().await;
    }
    let _again = start_all(&backend, port);
    let ready = tokio::time::timeout(Duration::from_secs(2), is_ready(port)).await;
    assert!(ready.is_ok(), "a debug build under test load may take two");
}
