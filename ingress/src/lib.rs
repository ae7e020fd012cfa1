//! The HTTP service. It accepts webhooks, logs devices in, and answers the commerce API and health
//! checks.
//!
//! The answer to a delivery depends only on the database (`intake`). No handler waits for the bus,
//! and no handler of a webhook holds a database connection.

pub mod api_key;
pub mod api_version;
pub mod author;
pub mod body;
pub mod checkout;
pub mod database;
pub mod delivery;
pub mod error;
pub mod events;
pub mod intake;
pub mod limit;
pub mod login;
pub mod measure;
pub mod openapi;
pub mod page;
pub mod refused_log;
pub mod request_id;
pub mod routes;
pub mod validation;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Result;
use bus::Bus;
use config::Config;
use config::connection::SharedRegistry;
use domain::connection::{PAYMENT_PATH, STOREFRONT_PATH};
use domain::privacy::Keys;
use flows::Context;
use platform::clock::Clock;
use platform::metrics::By;
use process::Parts;
use process::clients::Clients;
use process::journal::Journal;
use process::measures::Measures;
use providers::identity::Identity;
use server::client_address::Unnamed;
use server::deliveries::{LOOK_AGAIN, Live};
use store::sql::Db;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api_key::ApiKeys;
use crate::events::Waiting;
use crate::intake::{Intake, IntakeTasks};
use crate::limit::Limits;
use crate::openapi::Description;
use crate::refused_log::RefusedLog;
use crate::routes::{NotUnderstood, Refusals};
use crate::validation::Validations;

pub use server::listen;

/// The state that every handler gets.
pub struct App {
    pub config: Arc<Config>,
    /// The connections with providers.
    pub connections: SharedRegistry,
    pub db: Db,
    pub bus: Bus,
    pub clock: Clock,
    pub measures: Measures,
    /// Whether the database may be served.
    pub journal: Journal,
    /// The keys of links to exports and of the audit.
    pub keys: Arc<Keys>,
    pub intake: Intake,
    pub limits: Limits,
    pub api_keys: ApiKeys,
    /// `None`: nobody can log in.
    pub identity: Option<Identity>,
    pub login_outage: login::Outage,
    pub validations: Validations,
    /// The clients of the providers' APIs.
    pub clients: Clients,
    /// The description of the API, made when somebody asks for it for the first time.
    description: OnceLock<Description>,
    pub unnamed_proxy: Unnamed,
    pub refusals: Refusals,
    pub not_understood: NotUnderstood,
    /// What was refused and is not written yet.
    pub refused: RefusedLog,
    /// The requests that wait for events.
    pub waiting: Waiting,
    /// Where deliveries are shown as they arrive.
    pub live: Live,
    /// The clients that listen to them.
    pub listening: Waiting,
    /// Cancelled when the shutdown has begun. `/readyz` then tells load balancers to send requests
    /// elsewhere, and requests that wait for events are answered.
    pub stopping: CancellationToken,
}

impl App {
    pub fn new(parts: Parts, intake: Intake) -> Self {
        let limits = Limits::new(&parts.config, &parts.clock);
        let identity = parts.config.identity.as_ref();
        let clients = Clients::new(&parts.connections, &parts.clock);
        App {
            identity: identity.map(|settings| Identity::new(settings, &parts.clock)),
            login_outage: login::Outage::default(),
            validations: Validations::default(),
            clients,
            description: OnceLock::new(),
            unnamed_proxy: Unnamed::default(),
            refusals: Refusals::default(),
            not_understood: NotUnderstood::default(),
            refused: RefusedLog::default(),
            config: parts.config,
            connections: parts.connections,
            db: parts.db,
            bus: parts.bus,
            clock: parts.clock,
            measures: parts.measures,
            journal: parts.journal,
            keys: parts.keys,
            intake,
            limits,
            api_keys: ApiKeys::default(),
            waiting: Waiting::default(),
            live: Live::default(),
            listening: Waiting::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// The description of the API. Making it takes some milliseconds, so it is made once.
    pub fn description(&self) -> &Description {
        let new = || Description::new(&self.config.public_url, &self.config.amqp_prefix);
        self.description.get_or_init(new)
    }

    /// What flows need beside a transaction.
    pub fn context(&self) -> Context<'_> {
        Context {
            config: &self.config,
            connections: &self.connections,
            clock: &self.clock,
            keys: &self.keys,
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }
}

/// Says in the log where deliveries are taken, with the addresses to paste at the providers.
pub fn announce(config: &Config) {
    let url = &config.public_url;
    tracing::info!(
        address = %config.listen_addr,
        storefront = format!("{url}{STOREFRONT_PATH}"),
        payment = format!("{url}{PAYMENT_PATH}"),
        "taking webhooks"
    );
}

/// How long connections, and after them batches, may take to end after the first signal. The two
/// together are less than the ten seconds of `platform::shutdown`.
const DRAIN: Duration = Duration::from_secs(4);

/// Serves until `shutdown`. Then it answers the requests that are under way, commits the accepted
/// deliveries, and notifies workers of them.
pub async fn serve(listener: TcpListener, parts: Parts, shutdown: CancellationToken) -> Result<()> {
    serve_heard(listener, parts, shutdown, Live::default()).await
}

/// The same, where the process itself listens to its deliveries too.
pub async fn serve_heard(
    listener: TcpListener,
    parts: Parts,
    shutdown: CancellationToken,
    live: Live,
) -> Result<()> {
    platform::metrics::begin(By::Ingress);
    let (intake, intake_tasks) = IntakeTasks::start(&parts);
    let app = Arc::new(App {
        live,
        ..App::new(parts, intake)
    });
    validation::recall(&app).await;
    routes::count_from_zero(&app.config);
    limit::forget_idle(&app, &shutdown);
    routes::report_counted(&app, &shutdown);
    events::look_for_new(&app, &shutdown);
    app.live
        .look_for_new(&app.db, &app.clock, LOOK_AGAIN, None, &shutdown);
    refused_log::write_regularly(&app, &shutdown);
    let router = routes::router(app.clone());
    let limits = connections(&app.config);
    let stopping = app.clone();
    let on_shutdown = shutdown.clone();
    platform::task::spawn("ingress shutdown", async move {
        on_shutdown.cancelled().await;
        stopping.stopping.cancel();
    });
    server::serve(listener, router, limits, shutdown, DRAIN).await?;
    let (refused, db) = (app.refused.clone(), app.db.clone());
    // The last handler has ended, and the app and its `Intake` are dropped.
    drop(app);
    if let Err(error) = refused.write(&db).await {
        tracing::debug!(%error, "the last refused deliveries are not written");
    }
    if tokio::time::timeout(DRAIN, intake_tasks.drained())
        .await
        .is_err()
    {
        tracing::warn!(
            "workers were not notified of all jobs before the end; the sweep will do it"
        );
    }
    Ok(())
}

/// Serves with an intake that stores nothing. Benchmarks measure with it what signature checks and
/// HTTP cost.
pub async fn serve_verify_only(
    listener: TcpListener,
    parts: Parts,
    shutdown: CancellationToken,
) -> Result<()> {
    let app = Arc::new(App::new(parts, Intake::verify_only()));
    let limits = connections(&app.config);
    server::serve(listener, routes::router(app), limits, shutdown, DRAIN).await
}

fn connections(config: &Config) -> server::Limits {
    server::Limits {
        connections: config.max_connections,
        trusted_proxies: config.trusted_proxies.clone(),
        keep_alive: config.keep_alive,
        is_kept_for: routes::is_always_served,
    }
}
