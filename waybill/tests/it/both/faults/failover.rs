//! A PostgreSQL server that dies or becomes read-only, and its standby in its place. The two are the test's
//! own, and commits wait for the standby.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use domain::job::{Queue, State};
use futures_util::{StreamExt as _, stream};
use store::jobs;
use store::sql::{Access, Db};
use tokio::time::Instant;

use crate::support::backend::{Backend, statement};
use crate::support::delivery::{Delivery, order};
use crate::support::postgres::Replicated;
use crate::support::process::{self, Process, free_port, is_ready, settings};
use crate::support::{eventually, pause, within};

/// Ingress and workers that use servers of a test's own.
pub struct Product {
    _backend: Backend,
    ingress: Process,
    port: u16,
    /// With the ports of their health checks.
    workers: Vec<(Process, u16)>,
    settings: Vec<(String, String)>,
    client: reqwest::Client,
}

impl Product {
    async fn start(servers: &Replicated) -> Self {
        let url = servers.address.url.as_str();
        Product::on(Backend::create().await, &[("DATABASE_URL", url)]).await
    }

    /// With these settings more.
    pub async fn on(backend: Backend, more: &[(&str, &str)]) -> Self {
        let port = free_port();
        let mut settings = settings(&backend, port);
        let more = more.iter().copied();
        settings.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let ingress = Process::start("waybill-ingress", &[], &settings);
        is_ready(port).await;
        let worker = |port: u16| {
            let address = format!("127.0.0.1:{port}");
            let arguments = ["--concurrency", "2", "--worker-listen-addr", &address];
            (
                Process::start("waybill-orders", &arguments, &settings),
                port,
            )
        };
        let workers = vec![worker(free_port()), worker(free_port())];
        for (_, port) in &workers {
            is_ready(*port).await;
        }
        Product {
            _backend: backend,
            ingress,
            port,
            workers,
            settings,
            client: reqwest::Client::new(),
        }
    }

    pub async fn accepts(&self, seeds: Range<u64>) {
        for seed in seeds {
            assert_eq!(self.try_once(&delivery(seed)).await, 200, "{seed}");
        }
    }

    /// Ingress and all workers say that the database takes no writes.
    async fn say_read_only(&self) {
        let workers = self.workers.iter().map(|(_, port)| *port);
        for port in workers.chain([self.port]) {
            eventually("readyz says read_only", async || {
                let answer = reqwest::get(format!("http://127.0.0.1:{port}/readyz")).await;
                let answer = answer.unwrap();
                answer.status() == 503 && answer.text().await.unwrap().contains("read_only")
            })
            .await;
        }
    }

    pub async fn doctor_says(&self, part: &str) {
        let settings: Vec<(&str, &str)> = self.settings.iter().map(|(a, b)| (&**a, &**b)).collect();
        let mut doctor = process::command("waybill", &settings);
        let found = process::run({
            doctor.arg("doctor");
            doctor
        });
        let found = String::from_utf8(found.await.stdout).unwrap();
        assert!(found.contains(part), "{part} in {found}");
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

    pub async fn stop(mut self) {
        assert!(self.ingress.terminate().await.success());
        for (worker, _) in &mut self.workers {
            assert!(worker.terminate().await.success());
        }
    }
}

fn delivery(seed: u64) -> Delivery {
    order("orders/create", seed).id(&format!("w-{seed}"))
}

/// Checks that each of these deliveries has one effect of each kind.
pub async fn one_effect_each(url: &str, accepted: &BTreeSet<u64>) {
    let db = Db::open(url, 2).await.unwrap();
    within(Duration::from_mins(1), "no job is left", async || {
        let ready = jobs::count(&db, Queue::Orders, State::Ready).await;
        ready.is_ok_and(|ready| ready == 0)
    })
    .await;
    let ids = "select external_id from jobs join deliveries on deliveries.id = jobs.id
               where state = 'done'";
    let ids = db.query(ids).fetch_all().await.unwrap();
    let ids: Vec<String> = ids
        .iter()
        .map(|it| it.get("external_id").unwrap())
        .collect();
    let done: BTreeSet<u64> = ids.iter().map(|id| id[2..].parse().unwrap()).collect();
    assert_eq!(done.len(), ids.len(), "one job each");
    let lost: Vec<_> = accepted.difference(&done).collect();
    assert!(lost.is_empty(), "answered as accepted, and lost: {lost:?}");
    for table in ["jobs", "orders", "events", "webhook_ids"] {
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

/// The server ends no session that waits for a standby, even when nobody waits for its answer any more.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_while_the_standby_is_away_few_sessions_are_left_on_the_server() {
    /// Those for which intake stops, and those that it opens before it knows of them.
    const FEW: i64 = 8 + 6;
    let Some(servers) = Replicated::start().await else {
        return;
    };
    let product = Product::start(&servers).await;
    product.accepts(0..10).await;
    one_effect_each(&servers.primary.url, &(0..10).collect()).await;
    // Their sessions wait too, and are as many as a worker has.
    for (worker, _) in &product.workers {
        worker.stand_still();
    }
    servers.replication.kill();
    let begun = Instant::now();
    let mut seed = 10;
    while begun.elapsed() < Duration::from_secs(25) {
        assert_eq!(product.try_once(&delivery(seed)).await, 503);
        seed += 1;
        pause(Duration::from_millis(200)).await;
    }
    let db = Db::open(&servers.primary.url, 1).await.unwrap();
    let left = "select count(*) as n from pg_stat_activity where wait_event = 'SyncRep'";
    let left = db.query(left).fetch_one().await.unwrap();
    let left: i64 = left.get("n").unwrap();
    db.close().await;
    eprintln!(
        "{left} sessions wait; {} deliveries were refused",
        seed - 10
    );
    assert!((4..=FEW).contains(&left), "{left}");
    product.doctor_says("commits wait for a standby").await;
    servers.replication.restore();
    for (worker, _) in &product.workers {
        worker.go_on();
    }
    for seed in 10..seed {
        within(Duration::from_mins(1), "it is accepted", async || {
            // What was given up may have been committed.
            [200, 409].contains(&product.try_once(&delivery(seed)).await)
        })
        .await;
    }
    one_effect_each(&servers.primary.url, &(0..seed).collect()).await;
    product.stop().await;
}

/// Jobs wait while the server at the address takes no writes, and nothing is counted against them. The
/// server takes writes again, and all that there is goes on.
async fn waits_and_goes_on(
    servers: &mut Replicated,
    lose: impl AsyncFnOnce(&mut Replicated),
    regain: impl AsyncFnOnce(&mut Replicated),
    doctor: &str,
    at_last: impl FnOnce(&Replicated) -> String,
) {
    let product = Product::start(servers).await;
    product.accepts(0..10).await;
    one_effect_each(&servers.primary.url, &(0..10).collect()).await;
    for (worker, _) in &product.workers {
        worker.stand_still();
    }
    product.accepts(10..20).await;
    lose(servers).await;
    for (worker, _) in &product.workers {
        worker.go_on();
    }
    product.say_read_only().await;
    for seed in 20..25 {
        assert_eq!(product.try_once(&delivery(seed)).await, 503);
    }
    product.doctor_says(doctor).await;
    // Time for workers to try what has come.
    pause(Duration::from_secs(2)).await;
    let db = Db::open(&servers.address.url, 1).await.unwrap();
    let untouched = "select count(*) as n from jobs
        where state = 'ready' and attempts = 0 and unfinished_attempts = 0 and last_error is null";
    let count = async |sql: &'static str| {
        let row = db.query(sql).fetch_one().await.unwrap();
        row.get::<i64>("n").unwrap()
    };
    assert_eq!(count(untouched).await, 10);
    assert_eq!(count("select count(*) as n from job_attempts").await, 0);
    db.close().await;
    regain(servers).await;
    for seed in 20..25 {
        eventually("it is accepted", async || {
            product.try_once(&delivery(seed)).await == 200
        })
        .await;
    }
    one_effect_each(&at_last(servers), &(0..25).collect()).await;
    for port in product
        .workers
        .iter()
        .map(|(_, port)| *port)
        .chain([product.port])
    {
        is_ready(port).await;
    }
    product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_while_the_disk_of_the_database_is_full_webhooks_are_answered_503_and_none_is_lost() {
    let Some(mut servers) = Replicated::start().await else {
        return;
    };
    let product = Product::start(&servers).await;
    product.accepts(0..10).await;
    if !servers.primary.fill_disk().await {
        return product.stop().await;
    }
    // The files of the database still have some room.
    let mut accepted: BTreeSet<u64> = (0..10).collect();
    let mut refused = 10;
    while product.try_once(&delivery(refused)).await != 503 {
        accepted.insert(refused);
        refused += 1;
        assert!(refused < 10_000, "the disk never got full");
    }
    // Workers try too, and nothing is counted against the jobs.
    pause(Duration::from_secs(5)).await;
    servers.primary.make_room().await;
    for seed in refused..refused + 20 {
        within(Duration::from_mins(1), "it is accepted", async || {
            // What was refused may have been committed.
            [200, 409].contains(&product.try_once(&delivery(seed)).await)
        })
        .await;
        accepted.insert(seed);
    }
    eprintln!("{} accepted", accepted.len());
    one_effect_each(&servers.primary.url, &accepted).await;
    let db = Db::open(&servers.primary.url, 1).await.unwrap();
    let failed = "select count(*) as n from job_attempts";
    let failed = db.query(failed).fetch_one().await.unwrap();
    assert_eq!(failed.get::<i64>("n").unwrap(), 0);
    db.close().await;
    product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn while_the_database_is_read_only_webhooks_are_answered_503_and_jobs_wait() {
    let Some(mut servers) = Replicated::start().await else {
        return;
    };
    waits_and_goes_on(
        &mut servers,
        async |servers| servers.primary.set_read_only(true).await,
        async |servers| servers.primary.set_read_only(false).await,
        "it is read-only",
        |servers| servers.primary.url.clone(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_standby_that_is_not_promoted_yet_is_waited_for() {
    let Some(mut servers) = Replicated::start().await else {
        return;
    };
    waits_and_goes_on(
        &mut servers,
        async |servers| {
            servers.primary.kill();
            servers.address.lead_to(&servers.standby.url);
        },
        async |servers| servers.fail_over().await,
        "it is a standby",
        |servers| servers.standby.url.clone(),
    )
    .await;
}

/// The old primary lives on as a server that takes no writes, and connections to it stay open.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn connections_to_a_server_that_was_demoted_are_not_used_again() {
    const CONNECTIONS: u32 = 8;
    let Some(mut servers) = Replicated::start().await else {
        return;
    };
    let product = Product::start(&servers).await;
    product.accepts(0..10).await;
    let db = Db::open(&servers.address.url, CONNECTIONS).await.unwrap();
    // Those who only read, over all connections that there are.
    let server = async || {
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(db.begin().await.unwrap());
        }
        let mut ports = BTreeSet::new();
        for mut tx in open {
            let port = tx
                .query("select current_setting('port') as port")
                .fetch_one();
            ports.insert(port.await.unwrap().get::<String>("port").unwrap());
            tx.commit().await.unwrap();
        }
        ports
    };
    let port = |url: &str| {
        let (before, _) = url.rsplit_once('/').unwrap();
        BTreeSet::from([before.rsplit_once(':').unwrap().1.to_owned()])
    };
    assert_eq!(server().await, port(&servers.primary.url));
    servers.primary.set_read_only(true).await;
    servers.fail_over().await;
    // The batch is stored on the new primary, and nobody learns of it.
    product.accepts(10..20).await;
    assert_eq!(
        server().await,
        port(&servers.primary.url),
        "they are still open"
    );
    assert_eq!(db.access().await.unwrap(), Access::ReadOnly);
    assert_eq!(db.access().await.unwrap(), Access::Writes);
    assert_eq!(server().await, port(&servers.standby.url));
    db.close().await;
    one_effect_each(&servers.standby.url, &(0..20).collect()).await;
    // A commit that was under way there waits for a standby that is none any more, and would hold up a worker that ends.
    servers.primary.kill();
    product.stop().await;
}
