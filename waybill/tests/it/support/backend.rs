//! A database and a bus of its own for each test.

use std::path::Path;
use std::process::Command;

use store::sql::Db;
use tempfile::TempDir;
use uuid::Uuid;

/// The key of every test that runs on PostgreSQL, where one must be set.
pub const PRIVACY_KEY: &str = "the-privacy-key-of-every-test-on-postgresql";

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
    pub async fn create() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("waybill_test_{}", Uuid::now_v7().simple());
        if !is_distributed() {
            let path = folder.path().join("waybill.db");
            return Backend {
                name,
                database_url: format!("sqlite://{}", path.display()),
                amqp_url: None,
                server: None,
                folder,
            };
        }
        let server = required("TEST_DATABASE_URL");
        let admin = Db::open(&server, 1).await.unwrap();
        admin
            .query(statement(format!("create database {name}")))
            .execute()
            .await
            .unwrap();
        admin.close().await;
        Backend {
            database_url: with_database(&server, &name),
            amqp_url: Some(required("TEST_AMQP_URL")),
            server: Some(server),
            name,
            folder,
        }
    }
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
