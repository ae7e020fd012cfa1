//! Starts the product for a test, sends requests to it, and reads what it did.

pub mod backend;
pub mod browser;
pub mod canary;
pub mod cluster;
pub mod collector;
pub mod console;
pub mod delivery;
pub mod endpoint;
pub mod front;
pub mod hostile;
pub mod job;
pub mod login;
pub mod object_store;
pub mod operator;
pub mod order;
pub mod payment;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod records;
pub mod requests;
pub mod samples;
pub mod scrape;
pub mod smtp;
pub mod statements;
pub mod storm;
pub mod tools;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use ::process::journal::Journal;
use ::process::{Parts, open_database};
use bus::Bus;
use config::{Config, Mode, Settings};
use domain::api_key::Rights;
use domain::job::{Queue, State};
use domain::time::Timestamp;
use platform::clock::Clock;
use reqwest::{RequestBuilder, Response};
use store::sql::Db;
use store::{api_keys, jobs, privacy_keys};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use workers::Worker;

use self::backend::{Backend, PRIVACY_KEY, is_distributed};
use self::delivery::Delivery;

pub const STOREFRONT_SECRET: &str = "storefront-test-secret";
pub const PAYMENT_SECRET: &str = "payment-test-secret";

/// 2027-01-15, a whole second.
pub const START: Timestamp = Timestamp(1_800_000_000_000);

thread_local! {
    static SERVES_HERE: Cell<bool> = const { Cell::new(false) };
}

/// True when this test has started a service. To block this thread is then to block the service.
pub fn serves_here() -> bool {
    SERVES_HERE.get()
}

/// What a test may choose about its service.
pub struct Options {
    settings: Vec<(&'static str, String)>,
    workers: bool,
    clock: Clock,
    database_url: Option<String>,
    amqp_url: Option<String>,
    listener: Option<TcpListener>,
    new_files: bool,
}

/// A running product with a database and a bus of its own.
pub struct Service {
    pub parts: Parts,
    pub url: String,
    client: reqwest::Client,
    shutdown: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    pub backend: Arc<Backend>,
}

/// A service without limits, in which sessions wait for no order; its clock the system's, ingress and workers running.
pub fn service() -> Options {
    Options {
        settings: vec![
            ("STOREFRONT_RATE_PER_SECOND", "0".into()),
            ("PAYMENT_RATE_PER_SECOND", "0".into()),
            ("COMMERCE_RATE_PER_SECOND", "0".into()),
            ("CHECKOUT_ORDER_WAIT_SECONDS", "0".into()),
        ],
        workers: true,
        clock: Clock::system(),
        database_url: None,
        amqp_url: None,
        listener: None,
        new_files: false,
    }
}

impl Options {
    pub fn setting(mut self, name: &'static str, value: &str) -> Self {
        self.settings.push((name, value.to_owned()));
        self
    }

    /// As if it had not been set.
    pub fn without(mut self, name: &str) -> Self {
        self.settings.retain(|(set, _)| *set != name);
        self
    }

    /// Ingress alone: jobs stay as they were accepted.
    pub fn without_workers(mut self) -> Self {
        self.workers = false;
        self
    }

    /// A clock that stands at [`START`] until the test moves it.
    pub fn manual_clock(mut self) -> Self {
        self.clock = Clock::manual(START);
        self
    }

    /// A clock that the test shares with others.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// Where it will listen is known before it starts: for a sandbox, whose own address must
    /// be known too.
    pub async fn listening(mut self) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        self.listener = Some(listener);
        (self, url)
    }

    /// Another way to the database, a proxy for example.
    pub fn database_url(mut self, url: String) -> Self {
        self.database_url = Some(url);
        self
    }

    pub fn amqp_url(mut self, url: String) -> Self {
        self.amqp_url = Some(url);
        self
    }

    /// The files of the database have nothing of another test: for tests that search them.
    pub fn new_files(mut self) -> Self {
        self.new_files = true;
        self
    }

    pub async fn start(self) -> Service {
        let backend = if self.new_files {
            Backend::with_new_files().await
        } else {
            Backend::with_schema().await
        };
        self.start_on(Arc::new(backend)).await
    }

    /// A further replica of a service: the same database and bus, a port of its own.
    pub async fn start_beside(self, other: &Service) -> Service {
        self.start_on(other.backend.clone()).await
    }

    pub async fn start_on(self, backend: Arc<Backend>) -> Service {
        SERVES_HERE.set(true);
        let mut settings = Settings::defaults();
        settings.set("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
        settings.set("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
        let database_url = self.database_url.unwrap_or(backend.database_url.clone());
        settings.set("DATABASE_URL", database_url);
        if let Some(url) = self.amqp_url.or(backend.amqp_url.clone()) {
            settings.set("AMQP_URL", url);
            settings.set("AMQP_PREFIX", backend.name.clone());
        }
        if is_distributed() {
            settings.set("PRIVACY_KEY", PRIVACY_KEY);
        }
        settings.set("PRIVACY_EXPORT_URL", backend.export_url());
        let listener = match self.listener {
            Some(listener) => listener,
            None => TcpListener::bind("127.0.0.1:0").await.unwrap(),
        };
        let url = format!("http://{}", listener.local_addr().unwrap());
        settings.set("PUBLIC_URL", url.clone());
        for (name, value) in self.settings {
            settings.set(name, value);
        }
        let config =
            Config::load(&settings, Mode::Production).unwrap_or_else(|wrong| panic!("{wrong}"));
        let _ = platform::metrics::install();
        let db = open_database(&config.database_url, 12).await.unwrap();
        let keys = privacy_keys::load(&db, config.privacy.key.as_ref(), &self.clock).await;
        let keys = Arc::new(keys.unwrap());
        let config = Arc::new(config);
        let parts = Parts {
            connections: ::process::registry::follow(&config, &db, &self.clock).await,
            journal: Journal::open(&db, &keys, &config.privacy.exports).await,
            db,
            keys,
            measures: ::process::measures::Measures::default(),
            bus: match &config.amqp_url {
                Some(url) => Bus::rabbitmq(url, &config.amqp_prefix).unwrap(),
                None => Bus::local(),
            },
            config,
            clock: self.clock,
        };
        parts.open_outlet().await.unwrap();
        let mut service = Service {
            parts,
            url,
            client: reqwest::Client::new(),
            shutdown: CancellationToken::new(),
            tasks: Vec::new(),
            backend,
        };
        service.wait_for_bus().await;
        let (parts, shutdown) = (service.parts.clone(), service.shutdown.clone());
        service.spawn(async move { ingress::serve(listener, parts, shutdown).await.unwrap() });
        if self.workers {
            service.start_workers();
        }
        service
    }
}

impl Service {
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(platform::task::spawn("test service", task));
    }

    pub fn start_workers(&mut self) {
        let workers: Vec<Worker> = Worker::of_all_queues(&self.parts, 2).collect();
        for worker in workers {
            let shutdown = self.shutdown.clone();
            self.spawn(async move { workers::run(worker, shutdown).await.unwrap() });
        }
    }

    async fn wait_for_bus(&self) {
        eventually("the bus is connected", async || {
            self.parts.bus.is_ready(Queue::Orders)
        })
        .await;
    }

    pub fn db(&self) -> &Db {
        &self.parts.db
    }

    pub fn clock(&self) -> &Clock {
        &self.parts.clock
    }

    /// Posts a delivery.
    pub async fn post(&self, delivery: &Delivery) -> Response {
        self.request(delivery).send().await.unwrap()
    }

    /// Posts a delivery; its status and body. One that a busy machine does not take in time is sent again, as its provider
    /// would, and is accepted too if it was stored although the answer came too late. The pauses grow and differ, so
    /// that many that were sent at once are not sent at once again.
    pub async fn answer(&self, delivery: &Delivery) -> (u16, String) {
        let mut tries = 1;
        let mut longest = Duration::from_millis(200);
        loop {
            let response = self.post(delivery).await;
            let code = response.headers().get("x-error-code");
            let is_late =
                response.status() == 503 && code.is_some_and(|code| code == "COMMERCE_009");
            if is_late && tries < 10 {
                tries += 1;
                longest = Duration::from_secs(8).min(longest * 2);
                let [.., random] = *uuid::Uuid::now_v7().as_bytes();
                pause(longest * u32::from(random) / 256).await;
                continue;
            }
            let is_stored = response.status() == 409 && tries > 1;
            let status = if is_stored {
                200
            } else {
                response.status().as_u16()
            };
            return (status, response.text().await.unwrap());
        }
    }

    /// The same without another try.
    pub async fn answer_once(&self, delivery: &Delivery) -> (u16, String) {
        let response = self.post(delivery).await;
        (response.status().as_u16(), response.text().await.unwrap())
    }

    pub fn request(&self, delivery: &Delivery) -> RequestBuilder {
        let mut request = self
            .client
            .post(format!("{}{}", self.url, delivery.path))
            .body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(*name, value.as_slice());
        }
        request
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    pub fn post_to(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url))
    }

    pub fn patch(&self, path: &str) -> RequestBuilder {
        self.client.patch(format!("{}{path}", self.url))
    }

    pub fn delete(&self, path: &str) -> RequestBuilder {
        self.client.delete(format!("{}{path}", self.url))
    }

    /// A new API key that may do everything.
    pub async fn api_key(&self) -> String {
        self.api_key_for("test", &Rights::default()).await
    }

    pub async fn api_key_for(&self, name: &str, rights: &Rights) -> String {
        let mut tx = self.db().begin().await.unwrap();
        let made = api_keys::create(&mut tx, self.clock(), self.clock().id(), name, None, rights)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        made.key
    }

    /// The one number that a query selects as `n`.
    pub async fn count(&self, sql: &'static str) -> i64 {
        self.db()
            .query(sql)
            .fetch_one()
            .await
            .unwrap()
            .get("n")
            .unwrap()
    }

    /// Lets time pass; little of it while a job is claimed for a call, because its claim would end although
    /// its run goes on.
    pub async fn pass(&self, duration: Duration) {
        let claimed = "select count(*) as n from jobs
            where state = 'ready' and claims is not null and unfinished_attempts > 0";
        let little = Duration::from_millis(100);
        let is_claimed = self.count(claimed).await > 0;
        self.clock()
            .advance(if is_claimed { little } else { duration });
    }

    /// Runs a statement that changes something.
    pub async fn execute(&self, sql: &'static str) {
        let mut tx = self.db().begin().await.unwrap();
        tx.query(sql).execute().await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Every job of every queue, by state.
    pub async fn jobs(&self, state: State) -> i64 {
        let mut jobs = 0;
        for queue in Queue::ALL {
            jobs += jobs::count(self.db(), queue, state).await.unwrap();
        }
        jobs
    }

    /// Waits until no job of any queue is ready, but for those that were deferred.
    pub async fn settled(&self) {
        let rests = async || self.awaited().await == 0;
        let left = if looked(LONGEST, rests).await {
            Vec::new()
        } else {
            self.ready().await
        };
        assert!(left.is_empty(), "jobs are still ready: {left:#?}");
    }

    /// The jobs that are ready: kind, when each is due by the service's clock, and why it is not done.
    async fn ready(&self) -> Vec<(String, String, Option<String>)> {
        let ready = "select kind, run_at, notified_at, attempts, last_error from jobs
                     where state = 'ready' order by id limit 20";
        let rows = self.db().query(ready).fetch_all().await.unwrap();
        let now = self.clock().now().0;
        let read = |row: &store::sql::Row| {
            let due = row.get::<i64>("run_at").unwrap() - now;
            let attempts: i64 = row.get("attempts").unwrap();
            let notified: Option<i64> = row.get("notified_at").unwrap();
            let notified = notified.map(|at| now - at);
            (
                row.get("kind").unwrap(),
                format!("due in {due} ms, tried {attempts} times, notified {notified:?} ms ago"),
                row.get("last_error").unwrap(),
            )
        };
        rows.iter().map(read).collect()
    }

    /// Jobs that were deferred and have not been touched, and requests that wait for
    /// somebody to decide.
    pub async fn scheduled(&self) -> i64 {
        self.jobs(State::Ready).await - self.awaited().await
    }

    /// The other jobs that are ready. It is asked again and again, so it is one statement.
    pub async fn awaited(&self) -> i64 {
        let row = self
            .db()
            .query(
                "select count(*) as n from jobs
                 where state = 'ready' and not (
                     run_at > $1 and unfinished_attempts = 0 and attempts = 0
                     and ((kind in ('payments/link', 'payments/retry', 'payments/end_wait')
                           and last_error is null)
                          or id in (select id from privacy_requests
                                    where state = 'held' and held is not null)))",
            )
            .bind(self.clock().now().0)
            .fetch_one()
            .await
            .unwrap();
        row.get("n").unwrap()
    }

    /// Waits until no order job is ready.
    pub async fn drained(&self) {
        eventually("the orders queue is drained", async || {
            jobs::count(self.db(), Queue::Orders, State::Ready)
                .await
                .unwrap()
                == 0
        })
        .await;
    }

    /// Stops in order and checks what must hold of every service (faults, I3): what was
    /// accepted is done, dead or ready, and nothing is anywhere else.
    pub async fn stop(mut self) {
        self.check().await;
        self.halt().await;
    }

    async fn check(&self) {
        let unknown = self
            .count("select count(*) as n from jobs where state not in ('ready', 'done', 'dead')")
            .await;
        assert_eq!(unknown, 0, "every job is in a known state");
        let orphans = self
            .count(
                "select count(*) as n from webhook_ids
                 where not exists (select 1 from jobs where jobs.id = webhook_ids.job_id)",
            )
            .await;
        assert_eq!(orphans, 0, "an id is remembered together with its job");
        assert_eq!(self.count(job::ALONE).await, 0, "a delivery has its job");
        let orphans = self
            .count(
                "select count(*) as n from job_attempts
                 where not exists (select 1 from jobs where jobs.id = job_attempts.job_id)",
            )
            .await;
        assert_eq!(orphans, 0, "an attempt is kept together with its job");
    }

    /// Stops in order.
    pub async fn halt(&mut self) {
        self.shutdown.cancel();
        for task in self.tasks.drain(..) {
            let ended = tokio::time::timeout(Duration::from_secs(20), task).await;
            ended.expect("the service stops in time").unwrap();
        }
        self.parts.close().await;
    }
}

/// How long something may take that takes a moment.
const LONGEST: Duration = Duration::from_secs(90);

/// Looks until `condition` holds; fails with its name after a minute and a half.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    within(LONGEST, what, condition).await;
}

/// As [`eventually`], for what takes its time.
pub async fn within(limit: Duration, what: &str, condition: impl AsyncFn() -> bool) {
    assert!(looked(limit, condition).await, "within {limit:?}: {what}");
}

/// Whether `condition` holds within this time.
pub async fn looked(limit: Duration, condition: impl AsyncFn() -> bool) -> bool {
    let began = Instant::now();
    let looked = tokio::time::timeout(limit, async {
        while !condition().await {
            // The longer it takes, the less it matters when it is seen; each look takes time from others.
            let tenth = began.elapsed() / 10;
            pause(tenth.clamp(Duration::from_millis(5), Duration::from_millis(100))).await;
        }
    });
    looked.await.is_ok()
}

/// Lets real time pass: for looking again, and where real time is what is tested.
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Does something without waiting for the pauses in it: whenever somebody sleeps by this manual
/// clock, it is moved to the end of that sleep, and no further.
pub async fn without_pauses<T>(clock: &Clock, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = pause(Duration::from_millis(5)) => {
                if let Some(left) = clock.until_next_wake() {
                    clock.advance(left);
                }
            }
        }
    }
}
