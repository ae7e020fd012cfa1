//! Gives each test its own database and bus.

use std::path::Path;
use std::process::Command;

use process::open_database;
use sha2::{Digest as _, Sha256};
use store::sql::Db;
use tempfile::TempDir;
use uuid::Uuid;

/// The key of every test that runs on PostgreSQL, where one must be set.
pub const PRIVACY_KEY: &str = "the-privacy-key-of-every-test-on-postgresql";

/// Held while a template is made.
const TEMPLATE_LOCK: i64 = 7_460_001;

/// Where a test keeps its data. Dropped, it is gone.
pub struct Backend {
    /// Also the prefix of exchanges and queues.
    pub name: String,
    pub database_url: String,
    pub amqp_url: Option<String>,
    server: Option<String>,
    folder: TempDir,
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests choose their backend by environment"
)]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// True on PostgreSQL and RabbitMQ.
pub fn is_distributed() -> bool {
    match environment("TEST_BACKEND").as_deref() {
        None | Some("embedded") => false,
        Some("distributed") => true,
        Some(other) => panic!("TEST_BACKEND={other}: it must be embedded or distributed"),
    }
}

fn required(name: &str) -> String {
    environment(name).unwrap_or_else(|| {
        panic!("{name} is not set; run scripts/test, or eval \"$(scripts/services up)\" first")
    })
}

impl Backend {
    /// An empty database.
    pub async fn create() -> Self {
        let backend = Backend::named();
        if let Some(server) = &backend.server {
            let admin = Db::open(server, 1).await.unwrap();
            run(&admin, format!("create database {}", backend.name)).await;
            admin.close().await;
        }
        backend
    }

    /// A database with the schema of this version, if that is quickly had. On PostgreSQL it is a
    /// copy, which takes half the time of all migrations; a SQLite file is empty.
    pub async fn with_schema() -> Self {
        let backend = Backend::named();
        if let Some(server) = &backend.server {
            let admin = Db::open(server, 1).await.unwrap();
            let template = template(&admin, server, &backend.name).await;
            let copy = format!("create database {} template {template}", backend.name);
            run(&admin, copy).await;
            admin.close().await;
        }
        backend
    }

    fn named() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("waybill_test_{}", Uuid::now_v7().simple());
        if is_distributed() {
            let server = required("TEST_DATABASE_URL");
            return Backend {
                database_url: with_database(&server, &name),
                amqp_url: Some(required("TEST_AMQP_URL")),
                server: Some(server),
                name,
                folder,
            };
        }
        let path = folder.path().join("waybill.db");
        Backend {
            name,
            database_url: format!("sqlite://{}", path.display()),
            amqp_url: None,
            server: None,
            folder,
        }
    }
}

async fn run(db: &Db, sql: String) {
    db.query(statement(sql)).execute().await.unwrap();
}

/// The name of the database that others are copied from. The first test that asks for it makes it,
/// under another name until it is complete; it stays on the server.
async fn template(admin: &Db, server: &str, unfinished: &str) -> String {
    let name = format!("waybill_template_{}", schema());
    run(admin, format!("select pg_advisory_lock({TEMPLATE_LOCK})")).await;
    let known = format!("select count(*) as n from pg_database where datname = '{name}'");
    let known = admin.query(statement(known)).fetch_one().await.unwrap();
    if known.get::<i64>("n").unwrap() == 0 {
        run(admin, format!("create database {unfinished}")).await;
        let url = with_database(server, unfinished);
        open_database(&url, 1).await.unwrap().close().await;
        let finished = format!("alter database {unfinished} rename to {name}");
        run(admin, finished).await;
    }
    run(admin, format!("select pg_advisory_unlock({TEMPLATE_LOCK})")).await;
    name
}

/// Which schema it is: a hash of all migrations.
fn schema() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(std::fs::read(file).unwrap());
    }
    hex::encode(&hash.finalize()[..8])
}

impl Backend {
    /// A folder of the test's own.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A statement that a test makes up.
pub fn statement(sql: String) -> &'static str {
    Box::leak(sql.into_boxed_str())
}

/// The same server, another database.
fn with_database(server: &str, name: &str) -> String {
    let (server, query) = server.split_once('?').unwrap_or((server, ""));
    let (scheme, rest) = server.split_once("://").expect("a URL has a scheme");
    let authority = rest.split('/').next().unwrap_or(rest);
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    format!("{scheme}://{authority}/{name}{query}")
}

impl Drop for Backend {
    /// Drops the test's database. Its queues end by a policy of `scripts/services`, or stay;
    /// names are never used twice.
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            let drop = format!("drop database if exists {} with (force)", self.name);
            let _ = Command::new("psql").args([server, "-qc", &drop]).output();
        }
    }
}
