//! A PostgreSQL server that dies, and its standby in its place. The two are the test's own, and commits
//! wait for the standby.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use domain::job::{Queue, State};
use futures_util::{StreamExt as _, stream};
use store::jobs;
use store::sql::Db;
use tokio::time::Instant;

use crate::support::backend::{Backend, statement};
use crate::support::delivery::{Delivery, order};
use crate::support::postgres::Replicated;
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::{eventually, pause};

/// Ingress and workers that use the servers' address.
struct Product {
    _backend: Backend,
    processes: Vec<Process>,
    port: u16,
    client: reqwest::Client,
}

impl Product {
    async fn start(servers: &Replicated) -> Self {
        let backend = Backend::create().await;
        let port = free_port();
        let mut settings = settings(&backend, port);
        settings.push(("DATABASE_URL".into(), servers.address.url.clone()));
        let mut processes = vec![Process::start("waybill-ingress", &[], &settings)];
        is_ready(port).await;
        for _ in 0..2 {
            let arguments = ["--concurrency", "2"];
            processes.push(Process::start("waybill-orders", &arguments, &settings));
        }
        Product {
            _backend: backend,
            processes,
            port,
            client: reqwest::Client::new(),
        }
    }

    /// The status of one try. It is answered in time, and a 503 says when to come again.
    async fn try_once(&self, delivery: &Delivery) -> u16 {
        let url = format!("http://127.0.0.1:{}{}", self.port, delivery.path);
        let mut request = self.client.post(url).body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(*name, value.as_slice());
        }
        let answer = tokio::time::timeout(Duration::from_secs(5), request.send()).await;
        let answer = answer.expect("an answer in time").expect("an answer");
        let status = answer.status().as_u16();
        assert!([200, 409, 503].contains(&status), "{status}");
        if status == 503 {
            assert!(answer.headers().contains_key("retry-after"));
        }
        status
    }

    async fn stop(mut self) {
        for process in &mut self.processes {
            assert!(process.terminate().await.success());
        }
    }
}

fn delivery(seed: u64) -> Delivery {
    order("orders/create", seed).id(&format!("w-{seed}"))
}

/// Of each of these deliveries there is one effect of each kind.
async fn one_effect_each(url: &str, accepted: &BTreeSet<u64>) {
    let db = Db::open(url, 2).await.unwrap();
    eventually("no job is left", async || {
        let ready = jobs::count(&db, Queue::Orders, State::Ready).await;
        ready.is_ok_and(|ready| ready == 0)
    })
    .await;
    let ids = "select external_id from jobs where state = 'done'";
    let ids = db.query(ids).fetch_all().await.unwrap();
    let ids: Vec<String> = ids
        .iter()
        .map(|it| it.get("external_id").unwrap())
        .collect();
    let done: BTreeSet<u64> = ids.iter().map(|id| id[2..].parse().unwrap()).collect();
    assert_eq!(done.len(), ids.len(), "one job each");
    let lost: Vec<_> = accepted.difference(&done).collect();
    assert!(lost.is_empty(), "answered as accepted, and lost: {lost:?}");
    for table in [
        "jobs",
        "orders",
        "fulfillments",
        "qr_codes",
        "events",
        "webhook_ids",
    ] {
        let count = statement(format!("select count(*) as n from {table}"));
        let count: i64 = db.query(count).fetch_one().await.unwrap().get("n").unwrap();
        assert_eq!(count, i64::try_from(ids.len()).unwrap(), "{table}");
    }
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_a_failover_under_load_loses_no_delivery_and_does_nothing_twice() {
    const ENOUGH: usize = 100;
    let Some(mut servers) = Replicated::start().await else {
        return;
    };
    // Waybill does not rely on what is set for its role.
    let role = "alter role postgres set synchronous_commit = off";
    servers.primary.run(role).await;
    let product = Product::start(&servers).await;
    // The moment of each answer, and its status.
    let answers = Mutex::new(Vec::<(Instant, u16)>::new());
    let switched = Mutex::new(None);
    // How long after a moment deliveries were accepted.
    let accepted_since = |moment: Instant| {
        let answers = answers.lock().unwrap();
        let since = answers.iter().filter(|(_, status)| *status == 200);
        let since = since.filter_map(|(at, _)| at.checked_duration_since(moment));
        since.collect::<Vec<Duration>>()
    };
    let begun = Instant::now();
    let is_enough = || {
        let switched = *switched.lock().unwrap();
        switched.is_some_and(|switched| accepted_since(switched).len() >= ENOUGH)
    };
    let insist = async |seed: u64| {
        let delivery = delivery(seed);
        loop {
            let status = product.try_once(&delivery).await;
            answers.lock().unwrap().push((Instant::now(), status));
            if status != 503 {
                return seed;
            }
            pause(Duration::from_millis(50)).await;
        }
    };
    let posting = stream::iter((0..).take_while(|_| !is_enough()))
        .map(insist)
        .buffer_unordered(16)
        .collect::<BTreeSet<u64>>();
    let failing = async {
        eventually("there is some load", async || {
            accepted_since(begun).len() >= ENOUGH
        })
        .await;
        servers.primary.kill();
        pause(Duration::from_secs(1)).await;
        servers.fail_over().await;
        *switched.lock().unwrap() = Some(Instant::now());
    };
    let (accepted, ()) = tokio::join!(posting, failing);
    let switched = switched.into_inner().unwrap().unwrap();
    let first = accepted_since(switched).into_iter().min().unwrap();
    assert!(
        first < Duration::from_secs(10),
        "it accepts after {first:?}"
    );
    let answers = answers.into_inner().unwrap();
    let of = |wanted| answers.iter().filter(|(_, it)| *it == wanted).count();
    let (took, refused, again) = (of(200), of(503), of(409));
    eprintln!("{took} accepted, {refused} refused, {again} known; accepts again after {first:?}");
    assert!(refused > 0, "it was away");
    one_effect_each(&servers.standby.url, &accepted).await;
    is_ready(product.port).await;
    product.stop().await;
}

/// The standby is cut off before the primary dies, so what is committed meanwhile is not there.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn what_the_standby_does_not_have_is_never_answered_as_accepted() {
    for setting in ["off", "local"] {
        let Some(mut servers) = Replicated::start().await else {
            return;
        };
        let role = format!("alter role postgres set synchronous_commit = {setting}");
        servers.primary.run(statement(role)).await;
        let product = Product::start(&servers).await;
        let mut accepted = BTreeSet::new();
        for seed in 0..20 {
            assert_eq!(product.try_once(&delivery(seed)).await, 200);
            accepted.insert(seed);
        }
        servers.replication.kill();
        for seed in 20..23 {
            if product.try_once(&delivery(seed)).await == 200 {
                accepted.insert(seed);
            }
        }
        servers.primary.kill();
        servers.fail_over().await;
        for seed in 23..40 {
            eventually("it is accepted", async || {
                product.try_once(&delivery(seed)).await == 200
            })
            .await;
            accepted.insert(seed);
        }
        one_effect_each(&servers.standby.url, &accepted).await;
        product.stop().await;
    }
}
