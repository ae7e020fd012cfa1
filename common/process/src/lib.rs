//! What each long-running binary does before its own work: settings, logs, metrics, database,
//! migrations, bus.

pub mod clients;
pub mod journal;
pub mod measures;
pub mod registry;
pub mod supervisor;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use bus::Bus;
use config::connection::SharedRegistry;
use config::database;
use config::{Config, Mistakes, Mode, Settings};
use domain::privacy::Keys;
use domain::time::Timestamp;
use platform::clock::Clock;
use store::migrations::{self, copy};
use store::sql::{self, Db};
use store::{api_keys, broker, identity_provider, privacy_keys};

use config::{private_files, protections};
use journal::Journal;
use measures::Measures;
use platform::{logs, metrics, terminal};

/// The exit code for wrong settings or arguments, when nothing was started.
pub const EXIT_USAGE: u8 = 2;

/// How long the last spans and metrics may take at the end.
const LAST_FLUSH: Duration = Duration::from_secs(2);

/// A mistake in how a command was called.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(pub String);

/// An end that is no failure of the command itself and that scripts can distinguish by its exit code.
/// The text is printed as it is.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Ended {
    pub code: u8,
    pub text: String,
}

/// The parts of which every process is made.
#[derive(Clone)]
pub struct Parts {
    pub config: Arc<Config>,
    /// The connections with providers, of which the default ones are the settings'.
    pub connections: SharedRegistry,
    pub db: Db,
    pub bus: Bus,
    pub clock: Clock,
    /// The keys of tombstones, audit and receipts.
    pub keys: Arc<Keys>,
    /// Whether the database knows every erasure.
    pub journal: Journal,
    /// What is measured for the charts of the console.
    pub measures: Measures,
}

/// How many connections a process has to PostgreSQL, unless `DATABASE_CONNECTIONS` says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseConnections {
    pub usual: u32,
    /// With fewer than these its tasks would wait for each other.
    pub least: u32,
    /// How many of them it opens itself, apart from the others.
    pub apart: u32,
}

impl DatabaseConnections {
    /// The same numbers, with more connections that the process opens itself.
    #[must_use]
    pub fn and(self, more: u32) -> Self {
        DatabaseConnections {
            usual: self.usual + more,
            least: self.least + more,
            apart: self.apart + more,
        }
    }

    /// How many all parts of the process share.
    fn shared(self, config: &Config) -> Result<u32> {
        if database::sqlite_file(&config.database_url).is_some() {
            return Ok(self.usual);
        }
        let all = config.database_connections.unwrap_or(self.usual);
        if all < self.least {
            bail!(
                "DATABASE_CONNECTIONS is {all}, and this process needs at least {}",
                self.least
            );
        }
        Ok(all - self.apart)
    }
}

impl Parts {
    /// Checks the settings, starts logging, makes files private, opens and migrates the database,
    /// and starts the bus.
    pub async fn start(
        settings: &Settings,
        mode: Mode,
        connections: DatabaseConnections,
    ) -> Result<Self> {
        let config = Config::load(settings, mode)?;
        let connections = connections.shared(&config)?;
        logs::init(config.log_format, &config.log_filter, config.redact_logs);
        private_files::narrow(&config)?;
        protections::report(&config);
        metrics::install()?;
        if let Some(options) = &config.telemetry {
            telemetry::install(options);
        }
        let db = open_database(&config.database_url, connections).await?;
        let clock = Clock::system();
        let keeps_keys = mode == Mode::Development && settings.is_a_try();
        delete_development_keys(&db, keeps_keys.then(|| clock.now())).await?;
        let bus = match &config.amqp_url {
            Some(url) => Bus::rabbitmq(url, &config.amqp_prefix)?,
            None => Bus::local(),
        };
        let keys = privacy_keys::load(&db, config.privacy.key.as_ref(), &clock).await?;
        if let Some(identity) = &config.identity {
            identity_provider::claim(&db, &clock, &identity.url).await?;
        }
        let keys = Arc::new(keys);
        let config = Arc::new(config);
        let parts = Parts {
            journal: Journal::open(&db, &keys, &config.privacy.exports).await,
            connections: registry::follow(&config, &db, &clock).await,
            config,
            db,
            bus,
            clock,
            keys,
            measures: Measures::default(),
        };
        metrics::record_build(
            parts.db.name(),
            if parts.bus.is_local() {
                "local"
            } else {
                "rabbitmq"
            },
        );
        parts.open_outlet().await?;
        watch::watch(&parts);
        parts.measures.write_regularly(&parts.db, &parts.clock);
        Ok(parts)
    }

    /// Has the broker get every event from now on, if there is one and it does not already.
    pub async fn open_outlet(&self) -> sql::Result<()> {
        match self.bus.events_address() {
            Some(url) => broker::begin(&self.db, &url, None, self.clock.now()).await,
            None => Ok(()),
        }
    }

    /// Logs a warning when separate processes run without a broker, because then they find work
    /// only by the sweep.
    pub fn warn_without_broker(&self) {
        if self.bus.is_local() {
            tracing::warn!(
                "AMQP_URL is not set: other processes learn of new work seconds late; set it, \
                 or run everything in one process with `waybill serve`"
            );
        }
    }

    /// Sends the last spans and metrics, and closes the bus and the database, after all work has ended.
    pub async fn close(&self) {
        telemetry::flush(LAST_FLUSH).await;
        self.bus.close().await;
        self.db.close().await;
    }
}

/// The setting that names the database.
const DATABASE_URL: &str = "DATABASE_URL";

/// Opens the database and applies missing migrations.
pub async fn open_database(url: &str, connections: u32) -> Result<Db> {
    let db = migrate_any(DATABASE_URL, url, connections).await?;
    refuse_moved(db, DATABASE_URL, url).await
}

/// The same for a database that this setting or argument names, also one whose place another has taken.
pub async fn migrate_any(name: &str, url: &str, connections: u32) -> Result<Db> {
    let db = opened(name, url, connections).await?;
    let checked = db.check_settings().await;
    checked.map_err(|error| unusable(name, url, error, "cannot be used"))?;
    let applied = migrations::apply(&db).await;
    let what = "cannot be brought to this version's schema";
    applied.map_err(|error| unusable(name, url, error, what))?;
    Ok(db)
}

/// A database that answers.
async fn opened(name: &str, url: &str, connections: u32) -> Result<Db> {
    let unopened = |error| unusable(name, url, error, "cannot be opened");
    let db = Db::open(url, connections).await.map_err(unopened)?;
    db.reached().await.map_err(unopened)?;
    Ok(db)
}

/// Refuses a database whose place another one has taken.
async fn refuse_moved(db: Db, name: &str, url: &str) -> Result<Db> {
    let prevents = copy::prevents(&db).await;
    match prevents.map_err(|error| unusable(name, url, error, "cannot be read"))? {
        None => Ok(db),
        Some(prevents) => {
            db.close().await;
            bail!("{name}: {}: {prevents}", database::place(url));
        }
    }
}

/// Says which database cannot be used, and which setting or argument names it. Of one that does not
/// answer it says what to look at, because the library says only how long it has waited.
fn unusable(name: &str, url: &str, error: impl Into<anyhow::Error>, what: &str) -> anyhow::Error {
    let (error, place) = (error.into(), database::place(url));
    let is_silent = |cause: &sql::Error| match cause {
        sql::Error::PoolTimedOut => true,
        sql::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        _ => false,
    };
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(is_silent)
    {
        return anyhow!(
            "{name}: {place} does not answer; is it running, and may this machine reach it? \
             `waybill doctor` looks closer"
        );
    }
    error.context(format!("{name}: {place} {what}"))
}

/// Opens a database that already has this version's schema. It applies no migrations, because an
/// operator who only reads something must not migrate the database while services of an older
/// version run.
pub async fn open_migrated(url: &str, connections: u32) -> Result<Db> {
    open_named(DATABASE_URL, url, connections).await
}

/// The same for a database that this setting or argument names.
pub async fn open_named(name: &str, url: &str, connections: u32) -> Result<Db> {
    let db = open_any(name, url, connections).await?;
    refuse_moved(db, name, url).await
}

/// The same, also for one whose place another has taken.
pub async fn open_any(name: &str, url: &str, connections: u32) -> Result<Db> {
    has_schema(opened(name, url, connections).await?, name, url).await
}

/// The same for a SQLite file that nobody else may use meanwhile.
pub async fn open_alone(name: &str, url: &str) -> Result<Db> {
    let db = Db::open_alone(url).await;
    if db.as_ref().is_err_and(sql::is_in_use) {
        bail!(
            "{name}: {} is in use; stop the service and all commands that use it, and run this again",
            database::place(url)
        );
    }
    let db = db.map_err(|error| unusable(name, url, error, "cannot be opened"))?;
    has_schema(db, name, url).await
}

async fn has_schema(db: Db, name: &str, url: &str) -> Result<Db> {
    let compared = migrations::compare(&db).await;
    let compared = compared.map_err(|error| unusable(name, url, error, "cannot be read"))?;
    match compared.lacks() {
        None => Ok(db),
        Some(lacks) => {
            db.close().await;
            bail!("{lacks}");
        }
    }
}

/// Deletes the API keys that development starts made. With a time only those that have ended by
/// then, so that a key which somebody has copied goes on working after a restart.
async fn delete_development_keys(db: &Db, ended_by: Option<Timestamp>) -> Result<()> {
    let mut tx = db.begin().await?;
    match ended_by {
        Some(now) => api_keys::delete_ended(&mut tx, api_keys::DEVELOPMENT, now).await?,
        None => api_keys::delete(&mut tx, api_keys::DEVELOPMENT).await?,
    };
    Ok(tx.commit().await?)
}

/// Runs the `main` of a process and turns its end into an exit code.
pub fn run(main: impl Future<Output = Result<()>>) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return exit(Err(error).context("cannot start the async runtime")),
    };
    let code = exit(runtime.block_on(main));
    // A name look-up that hangs must not keep the process alive.
    runtime.shutdown_background();
    code
}

/// The exit code for the result of `main`: 2 for wrong settings or arguments, and 1 for any other
/// failure. The error is printed for the person who started the program.
pub fn exit(result: Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    if let Some(Ended { code, text }) = error.downcast_ref() {
        if !text.is_empty() {
            terminal::err(&format!("{}\n", domain::redact::redact(text)));
        }
        return ExitCode::from(*code);
    }
    // Printed line by line: a line break within a value is escaped, but those between mistakes
    // are ours.
    for line in format!("error: {}", chain(&error)).lines() {
        terminal::err(&format!("{}\n", domain::redact::redact(line)));
    }
    if error.is::<Mistakes>() || error.is::<Misuse>() {
        return ExitCode::from(EXIT_USAGE);
    }
    ExitCode::FAILURE
}

/// The error with its causes. Libraries often repeat a cause in the text of the error above it, so a
/// cause that is already there is not said again.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
