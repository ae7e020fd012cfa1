//! The processes of a schedule: ingresses and workers as they are, on one SQLite database, which lies in memory where the
//! system has files there. All schedules of a thread use one database, whose rows are deleted in between.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use bus::{Bus, Local};
use config::connection::{Registry, SharedRegistry};
use config::{Config, Mode, Settings};
use domain::job::Queue;
use domain::privacy::Keys;
use domain::time::Timestamp;
use ingress::App;
use ingress::intake::IntakeTasks;
use platform::clock::Clock;
use process::Parts;
use process::journal::Journal;
use store::sql::Db;
use store::{endpoints, privacy_keys};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use workers::Worker;

use crate::checks;
use crate::deliveries::{Delivery, PAYMENT_SECRET, STOREFRONT_SECRET};
use crate::director::{Focus, Process, Schedule, spawn};
use crate::outside::Outside;
use crate::random::Random;

/// 2027-01-15, a whole second.
pub const START: Timestamp = Timestamp(1_800_000_000_000);

/// The database of a thread, for one schedule after the other.
pub struct Database {
    pub db: Db,
    folder: TempDir,
    /// The tables, those that refer to others first, and the statement that says which of them have rows.
    tables: Vec<&'static str>,
    filled: &'static str,
    /// The statement that says in how many rows a text is.
    pub search: &'static str,
    config: Arc<Config>,
    apart: Arc<Config>,
}

fn leak(sql: String) -> &'static str {
    Box::leak(sql.into_boxed_str())
}

impl Database {
    pub async fn open() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() {
            TempDir::new_in(memory)
        } else {
            TempDir::new()
        };
        let folder = folder.unwrap();
        let url = format!("sqlite://{}/waybill.db", folder.path().display());
        let db = process::open_database(&url, 4).await.unwrap();
        let rows = db
            .query("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by rowid desc")
            .fetch_all();
        let mut tables: Vec<String> = Vec::new();
        for row in rows.await.unwrap() {
            tables.push(row.get("name").unwrap());
        }
        let before = filled(&db, filled_statement(&tables)).await;
        // What the migrations have written stays.
        tables.retain(|table| !before.contains(table));
        let mut search = Vec::new();
        for table in &tables {
            let columns = db
                .query("select name from pragma_table_info($1)")
                .bind(table.as_str());
            for row in columns.fetch_all().await.unwrap() {
                let column: String = row.get("name").unwrap();
                search.push(format!("select '{table}.{column}' as place from {table} where instr(cast({column} as text), $1) > 0"));
            }
        }
        let settings = |broker: bool| {
            let mut settings = Settings::defaults();
            for (name, value) in [
                ("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET),
                ("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET),
                ("STOREFRONT_RATE_PER_SECOND", "0"),
                ("PAYMENT_RATE_PER_SECOND", "0"),
                ("STOREFRONT_API_URL", "https://storefront.example"),
                ("STOREFRONT_API_TOKEN", "token-of-the-storefront"),
                ("PAYMENT_API_URL", "https://payment.example"),
                ("PAYMENT_API_KEY", "key-of-the-payment-provider"),
                ("PUBLIC_URL", "https://waybill.example"),
                ("DATABASE_URL", &url),
            ] {
                settings.set(name, value.to_owned());
            }
            settings.set(
                "PRIVACY_EXPORT_URL",
                format!("file://{}/exports", folder.path().display()),
            );
            let config =
                Config::load(&settings, Mode::Production).unwrap_or_else(|it| panic!("{it}"));
            Arc::new(Config {
                amqp_url: broker.then(|| "amqp://127.0.0.1:1".to_owned()),
                ..config
            })
        };
        Database {
            filled: filled_statement(&tables),
            tables: tables.into_iter().map(leak).collect(),
            search: leak(search.join(" union all ")),
            config: settings(false),
            apart: settings(true),
            db,
            folder,
        }
    }

    /// Deletes everything.
    pub async fn clear(&self) {
        let filled = filled(&self.db, self.filled).await;
        let mut tx = self.db.begin().await.unwrap();
        tx.query("pragma defer_foreign_keys = on")
            .execute()
            .await
            .unwrap();
        for table in self
            .tables
            .iter()
            .filter(|it| filled.iter().any(|name| name == **it))
        {
            tx.query(leak_once(table)).execute().await.unwrap();
        }
        tx.commit().await.unwrap();
        let _ = std::fs::remove_dir_all(self.folder.path().join("exports"));
    }
}

/// The statement that empties a table.
fn leak_once(table: &'static str) -> &'static str {
    use std::collections::BTreeMap;
    static STATEMENTS: Mutex<BTreeMap<&str, &str>> = Mutex::new(BTreeMap::new());
    STATEMENTS
        .lock()
        .unwrap()
        .entry(table)
        .or_insert_with(|| leak(format!("delete from {table}")))
}

fn filled_statement(tables: &[String]) -> &'static str {
    let each = tables
        .iter()
        .map(|it| format!("select '{it}' as name where exists (select 1 from {it})"));
    leak(each.collect::<Vec<_>>().join(" union all "))
}

async fn filled(db: &Db, statement: &'static str) -> Vec<String> {
    let rows = db.query(statement).fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("name").unwrap()).collect()
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Role {
    is_ingress: bool,
    queues: Vec<Queue>,
    concurrency: u16,
}

/// The roles of the processes, whether it is one process without a broker, and whether there is an endpoint.
fn roles(random: &mut Random, focus: Focus, has_privacy: bool) -> (Vec<Role>, bool, bool) {
    let mut queues = vec![Queue::Orders, Queue::Payments];
    if has_privacy {
        queues.push(Queue::Privacy);
    }
    let has_endpoint = focus == Focus::Webhooks || random.once_in(2);
    if has_endpoint {
        queues.push(Queue::Endpoints);
    }
    let is_one = !focus.has_two_workers() && random.once_in(4);
    let concurrency = 1 + u16::try_from(random.below(2)).unwrap();
    let role = |is_ingress, queues| Role {
        is_ingress,
        queues,
        concurrency,
    };
    let mut roles = Vec::new();
    if is_one {
        roles.push(role(true, queues));
    } else {
        for _ in 0..random.between(1, 2) {
            roles.push(role(true, Vec::new()));
        }
        let fewest = 1 + i64::from(focus.has_two_workers());
        for _ in 0..random.between(fewest, 2) {
            roles.push(role(false, queues.clone()));
        }
    }
    (roles, is_one, has_endpoint)
}

/// The processes, and what all of them share.
pub struct Installation {
    pub schedule: Schedule,
    pub outside: Outside,
    pub db: Db,
    pub keys: Arc<Keys>,
    config: Arc<Config>,
    /// What stands between the processes. `None`: each has a bus of its own, and there is one process.
    broker: Option<Local>,
    pub clock: Clock,
    roles: Vec<Role>,
    /// Where each ingress takes deliveries.
    routers: Arc<Mutex<Vec<Option<Router>>>>,
    pub has_endpoint: bool,
}

impl Installation {
    /// The installation of a schedule, as chance wants it.
    pub async fn new(
        database: &Database,
        schedule: &Schedule,
        outside: &Outside,
        seed: u64,
        focus: Focus,
        has_privacy: bool,
    ) -> Self {
        let clock = Clock::paused(START, seed);
        let db = database.db.clone();
        let keys = privacy_keys::load(&db, None, &clock).await.unwrap();
        let (roles, is_one, has_endpoint) = roles(&mut schedule.state().random, focus, has_privacy);
        for (nth, role) in roles.iter().enumerate() {
            let kind = match (role.is_ingress, role.queues.is_empty()) {
                (true, true) => "ingress",
                (true, false) => "waybill",
                _ => "worker",
            };
            let name = format!("{kind} {}", nth + 1);
            let process = Process::new(name, clock.elsewhere(0));
            schedule.state().processes.push(process);
        }
        let installation = Installation {
            schedule: schedule.clone(),
            outside: outside.clone(),
            keys: Arc::new(keys),
            config: if is_one {
                &database.config
            } else {
                &database.apart
            }
            .clone(),
            broker: (!is_one).then(|| Local::apart(Arc::new(outside.clone()))),
            routers: Arc::new(Mutex::new(vec![None; roles.len() + 1])),
            clock,
            roles,
            db,
            has_endpoint,
        };
        if has_endpoint {
            installation.add_endpoint().await;
        }
        installation
    }

    pub fn has_broker(&self) -> bool {
        self.broker.is_some()
    }

    pub fn bus(&self) -> Option<Bus> {
        self.broker.as_ref().map(|it| Bus::Local(it.beside()))
    }

    async fn add_endpoint(&self) {
        let mut tx = self.db.begin().await.unwrap();
        let new = endpoints::NewEndpoint {
            id: self.clock.id(),
            url: "https://endpoint.example/",
            types: &["#".parse().unwrap()],
            secret: &domain::endpoint::Secret::new([7; 32]),
            position: 0,
        };
        endpoints::insert(&mut tx, &self.keys, new, START)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    pub fn processes(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.roles.len()
    }

    /// Starts a process, for the first time or again.
    pub fn start(&self, process: usize) {
        let role = self.roles[process - 1].clone();
        let clock = {
            let mut state = self.schedule.state();
            state.processes[process].is_up = true;
            state.processes[process].clock.clone()
        };
        let bus = self.bus().unwrap_or_else(Bus::local);
        let (db, keys, config) = (self.db.clone(), self.keys.clone(), self.config.clone());
        let routers = self.routers.clone();
        routers.lock().unwrap()[process] = None;
        spawn(process, async move {
            let journal = Journal::open(&db, &keys, &config.privacy.exports).await;
            let measures = process::measures::Measures::default();
            let parts = Parts {
                connections: SharedRegistry::new(Registry::new(&config)),
                config,
                db,
                bus,
                clock,
                keys,
                journal,
                measures,
            };
            parts.open_outlet().await.unwrap();
            if role.is_ingress {
                let (intake, _tasks) = IntakeTasks::start(&parts);
                let app = Arc::new(App::new(parts.clone(), intake));
                routers.lock().unwrap()[process] = Some(ingress::routes::router(app));
            }
            for worker in Worker::of_all_queues(&parts, role.concurrency) {
                if role.queues.contains(&worker.queue) {
                    let shutdown = CancellationToken::new();
                    platform::task::spawn("worker of a queue", async move {
                        workers::run(worker, shutdown).await.unwrap();
                    });
                }
            }
        });
    }

    /// Posts a delivery to one of the ingresses. `None`: there is no answer. An answer that says that it was accepted must be
    /// true at this moment.
    pub async fn post(&self, delivery: &Delivery) -> Option<StatusCode> {
        let request = delivery.request(self.clock.now());
        let ingresses: Vec<usize> = self
            .processes()
            .filter(|it| self.roles[it - 1].is_ingress)
            .collect();
        let process = ingresses[self.schedule.state().random.below(ingresses.len())];
        let router = self.routers.lock().unwrap()[process].clone()?;
        if !self.schedule.state().processes[process].is_up {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let (db, id, schedule) = (self.db.clone(), delivery.id.clone(), self.schedule.clone());
        spawn(process, async move {
            let status = router.oneshot(request).await.unwrap().status();
            if matches!(status, StatusCode::OK | StatusCode::CONFLICT)
                && !checks::has_job(&db, &id).await
            {
                schedule.wrong(format!(
                    "{id} was answered with {status}, and its job is not committed (I1)"
                ));
            }
            let _ = answer.send(status);
        });
        let answered = tokio::time::timeout(Duration::from_secs(2), answered).await;
        answered.ok()?.ok()
    }
}
