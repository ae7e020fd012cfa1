//! Tests of ingress by itself, with a real port, a real SQLite file and a bus within the process,
//! but without a worker and without the other crates of the product. Tests that need those are in
//! `waybill/tests/it`.

mod api_version;
mod openapi_page;
mod page;
mod storefront;

use std::sync::Arc;

use bus::Bus;
use config::{Config, Mode, Settings};
use domain::signature::sign_storefront;
use domain::time::Timestamp;
use platform::clock::Clock;
use process::journal::Journal;
use process::measures::Measures;
use process::{Parts, open_database};
use reqwest::{Client, RequestBuilder};
use store::privacy_keys;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const SECRET: &str = "storefront-test-secret";
/// 2027-01-15, a whole second.
const START: Timestamp = Timestamp(1_800_000_000_000);

/// A running ingress with a database and a bus of its own.
struct Ingress {
    parts: Parts,
    url: String,
    client: Client,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
    _folder: TempDir,
}

impl Ingress {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut settings = Settings::defaults();
        settings.set("STOREFRONT_WEBHOOK_SECRET", SECRET);
        settings.set("PAYMENT_WEBHOOK_SECRET", "payment-test-secret");
        settings.set("STOREFRONT_RATE_PER_SECOND", "0");
        let database = folder.path().join("waybill.db");
        settings.set("DATABASE_URL", format!("sqlite://{}", database.display()));
        let exports = folder.path().join("exports");
        settings.set(
            "PRIVACY_EXPORT_URL",
            format!("file://{}", exports.display()),
        );
        settings.set("PUBLIC_URL", url.clone());
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
        let shutdown = CancellationToken::new();
        let serving = ingress::serve(listener, parts.clone(), shutdown.clone());
        Ingress {
            parts,
            url,
            client: Client::new(),
            shutdown,
            served: platform::task::spawn("test ingress", async move { serving.await.unwrap() }),
            _folder: folder,
        }
    }

    /// A delivery of the storefront, signed.
    fn delivery(&self, topic: &str, id: &str, body: &str) -> RequestBuilder {
        self.unsigned(topic, id, body).header(
            "X-Storefront-Hmac-Sha256",
            sign_storefront(SECRET, body.as_bytes()),
        )
    }

    fn unsigned(&self, topic: &str, id: &str, body: &str) -> RequestBuilder {
        let url = format!("{}/api/webhooks/storefront", self.url);
        self.client
            .post(url)
            .header("Content-Type", "application/json")
            .header("X-Storefront-Topic", topic)
            .header("X-Storefront-Shop-Domain", "shop.example")
            .header("X-Storefront-Webhook-Id", id)
            .body(body.to_owned())
    }

    /// The one number that a query selects as `n`.
    async fn count(&self, sql: &'static str) -> i64 {
        let row = self.parts.db.query(sql).fetch_one().await.unwrap();
        row.get("n").unwrap()
    }

    /// Stops in order; all that was accepted is committed by then.
    async fn stop(self) {
        self.shutdown.cancel();
        self.served.await.unwrap();
        self.parts.close().await;
    }
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}
