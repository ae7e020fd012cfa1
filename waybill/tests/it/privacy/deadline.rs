//! Requests whose export cannot be written for most of their 30 days. They are reported in time,
//! tried as often as documented, and done before their deadline if the store comes back. If it
//! never does, the request is given up with all notices, and is done after an operator retries it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::MAX_JOBS_PER_MESSAGE;
use domain::job::{JobId, Next, Queue, next};
use domain::privacy::State;
use domain::redact::Hide;
use domain::time::Timestamp;
use platform::logs::{Lines, LogFormat};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::privacy_requests::{self, Filter, RequestEntry};
use store::{audit, jobs};
use tempfile::TempDir;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use uuid::Uuid;
use workers::Worker;

use crate::support::backend::environment;
use crate::support::canary::files;
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::order::{body, deliver, order_delivery, post_all, with};
use crate::support::{Options, Service, service, within};

/// Requests whose store is down. `DEADLINE_REQUESTS=1000` takes some minutes.
fn requested() -> i64 {
    let given = environment("DEADLINE_REQUESTS");
    let given = given.map(|text| text.parse().expect("DEADLINE_REQUESTS is a number"));
    given.unwrap_or(250)
}

/// Those who have an order; of the others nothing is held.
const KNOWN: i64 = 20;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const MINUTE: Duration = Duration::from_mins(1);
/// Until then their store is down.
const DOWN: Duration = Duration::from_mins(24 * 1440 + 1296);
/// A request is pressing during its last five days.
const PRESSING: Duration = Duration::from_hours(5 * 24);
/// A run takes no time on a clock that stands still, but a claim or a lack of room sets a job
/// back by less than this.
const SLACK: Duration = Duration::from_mins(1);

/// A folder for exports below a path at which a file stands in the way.
struct Store {
    folder: TempDir,
}

impl Store {
    fn down() -> Self {
        let store = Store {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(store.path(), b"in the way").unwrap();
        store
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn url(&self) -> String {
        format!("file://{}/exports", self.path().display())
    }

    fn comes_back(&self) {
        assert_eq!(std::fs::read(self.path()).unwrap(), b"in the way");
        assert_eq!(files(self.folder.path()), [self.path()], "nothing else");
        std::fs::remove_file(self.path()).unwrap();
    }

    /// The sums and lengths of all files, of which each is whole.
    fn documents(&self) -> BTreeMap<String, i64> {
        let documents = files(&self.path()).into_iter();
        let documents = documents.filter(|file| !file.ends_with("waybill-store"));
        let documents = documents.map(|file| {
            let bytes = std::fs::read(&file).unwrap();
            let json = serde_json::from_slice::<Value>(&bytes);
            assert!(json.is_ok(), "{} is whole", file.display());
            let sum = hex::encode(Sha256::digest(&bytes));
            (sum, i64::try_from(bytes.len()).unwrap())
        });
        documents.collect()
    }
}

fn options(store: &Store) -> Options {
    service()
        .manual_clock()
        .setting("PRIVACY_EXPORT_URL", &store.url())
}

fn request(customer: i64) -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "orders_requested": [],
        "customer": {"id": customer, "email": format!("c{customer}@example.com"), "phone": null},
        "data_request": {"id": customer},
    });
    storefront("customers/data_request", body.to_string()).id(&format!("request-{customer}"))
}

async fn requests(service: &Service) -> Vec<RequestEntry> {
    let all = Filter::default();
    let requests = privacy_requests::list(service.db(), &all, 10_000);
    requests.await.unwrap()
}

/// Runs every job of the privacy queue that is due, without waiting for the sweep. The clock
/// moves on by seconds when a process has no room for more calls.
async fn run_due(service: &Service) {
    const AT_ONCE: i64 = 64;
    const NO_ROOM: Duration = Duration::from_secs(2);
    loop {
        let now = service.clock().now();
        let due = due(service, now, AT_ONCE).await;
        if due.is_empty() {
            if waiting(service, now.plus(NO_ROOM)).await == 0 {
                return;
            }
            service.clock().advance(NO_ROOM);
            continue;
        }
        for message in due.chunks(MAX_JOBS_PER_MESSAGE) {
            let bus = &service.parts.bus;
            let notified = bus.notify(Queue::Privacy, "customers/data_request", message);
            notified.await.unwrap();
        }
        within(Duration::from_mins(1), "what is due is run", async || {
            waiting_of(service, now, &due).await == 0
        })
        .await;
    }
}

/// Some of the jobs that are due and not under way.
async fn due(service: &Service, now: Timestamp, limit: i64) -> Vec<JobId> {
    const SQL: &str = "select id from jobs
         where queue = 'privacy' and state = 'ready' and (run_at <= $1 or unfinished_attempts > 0)
         order by id limit $2";
    let due = service.db().query(SQL).bind(now.0).bind(limit);
    let rows = due.fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("id").unwrap()).collect()
}

/// How many jobs are due or under way: a claim counts as a run until it has ended.
async fn waiting(service: &Service, now: Timestamp) -> i64 {
    const SQL: &str = "select count(*) as waiting from jobs
         where queue = 'privacy' and state = 'ready' and (run_at <= $1 or unfinished_attempts > 0)";
    let waiting = service.db().query(SQL).bind(now.0);
    waiting.fetch_one().await.unwrap().get("waiting").unwrap()
}

/// How many of these are.
async fn waiting_of(service: &Service, now: Timestamp, jobs: &[JobId]) -> i64 {
    const SQL: &str = "select count(*) as waiting from jobs
         where queue = 'privacy' and state = 'ready' and (run_at <= $1 or unfinished_attempts > 0)
           and id in ($2..)";
    let waiting = service.db().query(SQL).bind(now.0).bind(jobs.to_vec());
    waiting.fetch_one().await.unwrap().get("waiting").unwrap()
}

/// One round of housekeeping.
async fn tidy(service: &Service) {
    let worker = Worker::new(service.parts.clone(), Queue::Privacy, 1);
    worker.keep_house().await.unwrap();
}

/// How often each request was reported in an event, by kind.
async fn reported_of(service: &Service, kind: &str) -> BTreeMap<Uuid, i64> {
    let rows = service
        .db()
        .query("select object_id, count(*) as times from events where kind = $1 group by object_id")
        .bind(kind)
        .fetch_all()
        .await
        .unwrap();
    let reported = rows.iter().map(|row| {
        let id: String = row.get("object_id").unwrap();
        (id.parse().unwrap(), row.get("times").unwrap())
    });
    reported.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_hundreds_of_exports_are_done_in_time_although_their_store_was_down_for_24_9_days() {
    let store = Store::down();
    let service = options(&store).start().await;
    for customer in 1..=KNOWN {
        let who =
            json!({"customer": {"id": customer, "email": format!("c{customer}@example.com")}});
        let order = with(body(1000 + customer, 1, "pending"), &who);
        deliver(&service, &order_delivery("orders/create", &order)).await;
    }
    let started_at = service.clock().now();
    let deliveries: Vec<Delivery> = (1..=requested()).map(request).collect();
    for some in deliveries.chunks(20) {
        post_all(&service, some).await;
    }

    // Each is tried with every step, which is longer than any pause by then.
    let mut runs = 1;
    run_due(&service).await;
    let back_at = started_at.plus(DOWN);
    for step in [2 * HOUR, 8 * DAY, 8 * DAY] {
        let left = back_at.since(service.clock().now());
        service.clock().advance(step.min(left));
        run_due(&service).await;
        tidy(&service).await;
        runs += 1;
    }
    let left = back_at.since(service.clock().now());
    service.clock().advance(left);
    run_due(&service).await;
    tidy(&service).await;
    runs += i64::from(left > Duration::ZERO);

    let before = requests(&service).await;
    assert_eq!(i64::try_from(before.len()).unwrap(), requested());
    for entry in &before {
        let id = entry.id;
        assert_eq!(entry.state, "received", "{id}");
        assert!(entry.export.is_none(), "{id}: {entry:?}");
        assert!(entry.due_at.since(started_at) >= 30 * DAY, "{id}");
        // Never more often than they were due, each time it was down.
        assert!(
            entry.attempts > 3 && entry.attempts <= runs,
            "{id}: {entry:?}"
        );
        let pause = entry.next_run_at.unwrap().since(service.clock().now());
        assert!(pause <= 6 * HOUR, "{id}: {pause:?}");
        assert!(entry.last_error.is_some(), "{id}");
        assert!(
            entry.warned_at.is_some() && entry.alarmed_at.is_none(),
            "{id}"
        );
    }

    store.comes_back();
    for _ in 0..7 {
        service.clock().advance(HOUR);
        run_due(&service).await;
        tidy(&service).await;
    }
    let done = requests(&service).await;
    let documents = store.documents();
    for entry in &done {
        let id = entry.id;
        assert_eq!(entry.state, "done", "{id}: {entry:?}");
        assert!(entry.finished_at.unwrap() < entry.due_at, "{id}");
        let export = entry.export.as_ref().unwrap();
        assert_eq!(documents.get(&export.sha256), Some(&export.bytes), "{id}");
        assert!(entry.receipt.is_some(), "{id}");
    }
    let once: BTreeMap<Uuid, i64> = done.iter().map(|entry| (entry.id, 1)).collect();
    assert_eq!(reported_of(&service, "privacy.deadline_near").await, once);
    assert_eq!(
        reported_of(&service, "privacy.request_completed").await,
        once
    );
    for never in [
        "privacy.deadline_alarm",
        "privacy.deadline_passed",
        "privacy.request_failed",
    ] {
        assert_eq!(
            reported_of(&service, never).await,
            BTreeMap::new(),
            "{never}"
        );
    }
    let chain = audit::verify(service.db(), &service.parts.keys);
    assert!(chain.await.unwrap().broken.is_none());
    service.stop().await;
}

/// Log lines of warnings and errors, of this thread from here on.
fn listen() -> (Arc<Mutex<String>>, DefaultGuard) {
    let log = Arc::new(Mutex::new(String::new()));
    let to = log.clone();
    let lines = Lines::new(
        LogFormat::Json,
        Hide::PersonalDataAndSecrets,
        move |line: &str| to.lock().unwrap().push_str(line),
    );
    let subscriber = tracing_subscriber::registry()
        .with(LevelFilter::WARN)
        .with(lines);
    (log, tracing::subscriber::set_default(subscriber))
}

async fn entry(service: &Service) -> RequestEntry {
    let mut all = requests(service).await;
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// All runs of the request's job until it is given up, hearing of deadlines on the way; when
/// each of them was.
async fn run_to_its_end(service: &Service) -> Vec<Timestamp> {
    let mut runs = Vec::new();
    loop {
        let before = entry(service).await;
        runs.push(service.clock().now());
        run_due(service).await;
        tidy(service).await;
        let after = entry(service).await;
        let job = service.count("select attempts as n from jobs where queue = 'privacy'");
        assert_eq!(job.await, i64::try_from(runs.len()).unwrap(), "{before:?}");
        let now = service.clock().now();
        match next(Queue::Privacy, after.attempts, now, Some(after.due_at), 0.5) {
            Next::RetryAt(run_at) => assert_eq!(after.next_run_at, Some(run_at)),
            Next::Dead => {
                assert_eq!((after.next_run_at, after.state.as_str()), (None, "failed"));
                return runs;
            }
        }
        let pause = after.next_run_at.unwrap().since(now);
        service.clock().advance(pause);
    }
}

#[tokio::test]
async fn a_request_whose_store_never_comes_back_is_given_up_aloud_and_done_when_asked_for_again() {
    let (log, _guard) = listen();
    let store = Store::down();
    let service = options(&store).start().await;
    post_all(&service, &[request(7)]).await;
    let due_at = entry(&service).await.due_at;

    let runs = run_to_its_end(&service).await;
    let pauses: Vec<Duration> = runs.windows(2).map(|two| two[1].since(two[0])).collect();
    let first: Vec<u64> = pauses[..9].iter().map(|it| it.as_secs() / 60).collect();
    assert_eq!(first, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    let pressing = due_at.minus(PRESSING);
    for (at, pause) in runs.iter().zip(&pauses) {
        assert!(*pause <= 6 * HOUR + SLACK, "at {at}: {pause:?}");
        if *at >= pressing {
            assert!(*pause <= HOUR + SLACK, "at {at}: {pause:?}");
        }
    }
    let hourly = runs.iter().filter(|at| **at >= pressing).count();
    assert!(
        (119..=122).contains(&hourly),
        "{hourly} runs in the last five days"
    );
    let last = due_at.since(*runs.last().unwrap());
    assert!(last > Duration::ZERO && last <= 10 * MINUTE, "{last:?}");

    let id = entry(&service).await.id;
    let once = BTreeMap::from([(id, 1)]);
    let never = BTreeMap::new();
    assert_eq!(reported_of(&service, "privacy.deadline_near").await, once);
    assert_eq!(reported_of(&service, "privacy.deadline_alarm").await, once);
    assert_eq!(
        reported_of(&service, "privacy.deadline_passed").await,
        never
    );
    assert_eq!(reported_of(&service, "privacy.request_failed").await, once);
    service.clock().advance(HOUR);
    for _ in 0..2 {
        tidy(&service).await;
    }
    assert_eq!(reported_of(&service, "privacy.deadline_passed").await, once);
    let near = entry(&service).await;
    assert!(near.warned_at.unwrap() >= due_at.minus(7 * DAY));
    assert!(near.alarmed_at.unwrap() >= due_at.minus(2 * DAY));
    assert!(near.alarmed_at.unwrap() < due_at && near.overdue_at.unwrap() >= due_at);
    let failed = service
        .db()
        .query("select body from events where kind = 'privacy.request_failed'")
        .fetch_one();
    let failed: String = failed.await.unwrap().get("body").unwrap();
    let failed: Value = serde_json::from_str(&failed).unwrap();
    assert_eq!(failed["code"], "COMMERCE_007");
    assert_eq!(failed["request_id"], id.to_string());
    let log = log.lock().unwrap().clone();
    let lines = log.lines().filter(|line| line.contains(&id.to_string()));
    for what in [
        "was given up",
        "within seven days",
        "within 48 hours",
        "is overdue",
    ] {
        let reported = lines.clone().filter(|line| line.contains(what));
        assert_eq!(reported.count(), 1, "{what}");
    }
    assert!(!log.contains("example.com"), "{log}");

    // As `waybill privacy retry` does.
    store.comes_back();
    let now = service.clock().now();
    let mut tx = service.db().begin().await.unwrap();
    assert!(jobs::requeue(&mut tx, id, now).await.unwrap());
    let received = privacy_requests::set_state(&mut tx, id, &[State::Failed], State::Received, now);
    assert!(received.await.unwrap());
    tx.commit().await.unwrap();
    run_due(&service).await;
    let done = entry(&service).await;
    assert_eq!(done.state, "done", "{done:?}");
    let export = done.export.unwrap();
    let documents = store.documents();
    assert_eq!(documents.get(&export.sha256), Some(&export.bytes));
    assert_eq!(
        reported_of(&service, "privacy.request_completed").await,
        once
    );
    assert_eq!(reported_of(&service, "privacy.deadline_passed").await, once);
    assert!(Path::new(&store.path()).is_dir());
    service.stop().await;
}
