//! Tests of the worker loop by itself. They put jobs into a real SQLite file and notify the worker
//! over a bus within the process, without an HTTP service and without the other crates of the
//! product. Tests that need those are in `waybill/tests/it`.

mod orders;

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, JobRef};
use bytes::Bytes;
use config::{Config, Mode, Settings};
use domain::job::{JobId, Queue, Source};
use domain::time::Timestamp;
use platform::clock::Clock;
use process::journal::Journal;
use process::measures::Measures;
use process::{Parts, open_database};
use store::jobs::{self, NewJob};
use store::privacy_keys;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use workers::Worker;

/// 2027-01-15, a whole second.
const START: Timestamp = Timestamp(1_800_000_000_000);
const SHOP: &str = "shop.example";

/// A database and a bus, and the workers that run on them.
struct House {
    parts: Parts,
    shutdown: CancellationToken,
    working: Vec<JoinHandle<()>>,
    _folder: TempDir,
}

impl House {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::defaults();
        settings.set("STOREFRONT_WEBHOOK_SECRET", "storefront-test-secret");
        settings.set("PAYMENT_WEBHOOK_SECRET", "payment-test-secret");
        settings.set("PUBLIC_URL", "http://127.0.0.1:1");
        let database = folder.path().join("waybill.db");
        settings.set("DATABASE_URL", format!("sqlite://{}", database.display()));
        let exports = folder.path().join("exports");
        settings.set(
            "PRIVACY_EXPORT_URL",
            format!("file://{}", exports.display()),
        );
        let config =
            Config::load(&settings, Mode::Production).unwrap_or_else(|wrong| panic!("{wrong}"));
        let clock = Clock::manual(START);
        let db = open_database(&config.database_url, 4).await.unwrap();
        let keys = privacy_keys::load(&db, config.privacy.key.as_ref(), &clock).await;
        let keys = Arc::new(keys.unwrap());
        let config = Arc::new(config);
        let parts = Parts {
            connections: process::registry::follow(&config, &db, &clock).await,
            journal: Journal::open(&db, &keys, &config.privacy.exports).await,
            db,
            keys,
            measures: Measures::default(),
            bus: Bus::local(),
            config,
            clock,
        };
        House {
            parts,
            shutdown: CancellationToken::new(),
            working: Vec::new(),
            _folder: folder,
        }
    }

    fn start_worker(&mut self, queue: Queue) {
        let worker = Worker::new(self.parts.clone(), queue, 2);
        let work = workers::run(worker, self.shutdown.clone());
        let work = platform::task::spawn("test worker", async move { work.await.unwrap() });
        self.working.push(work);
    }

    /// Stores deliveries of a topic as intake does, all in one transaction.
    async fn store(&self, kind: &str, bodies: &[String]) -> Vec<JobId> {
        let now = self.parts.clock.now();
        let job = |body: &String| NewJob {
            shop: Some(SHOP.to_owned()),
            notified_at: Some(now),
            ..NewJob::new(
                self.parts.clock.id(),
                Queue::Orders,
                Source::Storefront,
                kind.to_owned(),
                Bytes::from(body.clone()),
                now,
            )
        };
        let stored: Vec<NewJob> = bodies.iter().map(job).collect();
        let mut tx = self.parts.db.begin().await.unwrap();
        let all: Vec<&NewJob> = stored.iter().collect();
        jobs::insert(&mut tx, &all).await.unwrap();
        tx.commit().await.unwrap();
        stored.iter().map(|job| job.id).collect()
    }

    /// Announces jobs in one message.
    async fn announce(&self, kind: &str, ids: &[JobId]) {
        let job_ref = |job: &JobId| JobRef {
            job: *job,
            traceparent: None,
        };
        let job_refs: Vec<JobRef> = ids.iter().map(job_ref).collect();
        let announced = self.parts.bus.notify(Queue::Orders, kind, &job_refs).await;
        announced.unwrap();
    }

    /// The one number that a query selects as `n`.
    async fn count(&self, sql: &'static str) -> i64 {
        let row = self.parts.db.query(sql).fetch_one().await.unwrap();
        row.get("n").unwrap()
    }

    async fn eventually(&self, what: &str, sql: &'static str, expected: i64) {
        let looked = tokio::time::timeout(Duration::from_secs(30), async {
            while self.count(sql).await != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(looked.await.is_ok(), "{what}");
    }

    /// The workers end what they do.
    async fn close(self) {
        self.shutdown.cancel();
        for work in self.working {
            work.await.unwrap();
        }
        self.parts.close().await;
    }
}
