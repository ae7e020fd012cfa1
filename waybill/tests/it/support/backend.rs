//! Gives each test its own database and bus.

use std::path::Path;

use process::open_database;
use sha2::{Digest as _, Sha256};
use store::sql::Db;
use tempfile::TempDir;
use tokio::runtime::Builder;
use uuid::Uuid;

use super::process::{command, free_port};

/// The key of every test that runs on PostgreSQL, where one must be set.
pub const PRIVACY_KEY: &str = "the-privacy-key-of-every-test-on-postgresql";

/// Held while a template is made.
const TEMPLATE_LOCK: i64 = 7_460_001;

/// The databases of tests that have ended, which others may use after all rows were deleted. That
/// takes a fifth of the time of a new database.
const FREE: &str = "create table if not exists free_databases (
    name text primary key, template text not null, schema text not null
)";

/// Changes whenever a test has changed the schema of its database.
const FINGERPRINT: &str = "select md5(string_agg(part, ',' order by part)) as schema from (
    select concat_ws(' ', relname, attname, atttypid, attstorage, attnotnull) as part
    from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = current_schema()::regnamespace
    union all
    select concat_ws(' ', tgname, tgrelid::regclass) from pg_trigger where not tgisinternal
    union all
    select concat_ws(' ', version, checksum, success) from _sqlx_migrations
    union all
    select concat_ws(' ', proname, md5(prosrc)) from pg_proc
    where pronamespace = current_schema()::regnamespace
) as parts";

const DELETE_ALL: &str = "do $$
    declare name text;
    begin
        perform set_config('session_replication_role', 'replica', true);
        for name in
            select quote_ident(relname) from pg_class
            where relkind = 'r' and relnamespace = current_schema()::regnamespace
              and relname <> '_sqlx_migrations' and pg_relation_size(oid) > 0
        loop
            execute 'delete from ' || name;
        end loop;
    end $$";

/// Where a test keeps its data. Dropped, it is gone.
pub struct Backend {
    /// Also the prefix of exchanges and queues.
    pub name: String,
    /// The name of the database on a server.
    pub database: String,
    /// What [`FINGERPRINT`] was of the schema, when the database may be used by another test after
    /// this one.
    schema: Option<String>,
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
            let admin = open(server).await;
            run(&admin, format!("create database {}", backend.database)).await;
            admin.close().await;
        }
        backend
    }

    /// A database with the schema of this version, if that is quickly had, and without rows. On
    /// PostgreSQL it may be that of a test that has ended; a SQLite file is empty.
    pub async fn with_schema() -> Self {
        let mut backend = Backend::named();
        if let Some(server) = backend.server.clone() {
            let admin = open(&server).await;
            run(&admin, format!("select pg_advisory_lock({TEMPLATE_LOCK})")).await;
            run(&admin, FREE.to_owned()).await;
            run(
                &admin,
                format!("select pg_advisory_unlock({TEMPLATE_LOCK})"),
            )
            .await;
            if let Some((database, schema)) = free(&admin, &server).await {
                backend.database_url = with_database(&server, &database);
                backend.database = database;
                backend.schema = Some(schema);
            } else {
                backend.copy_template(&admin, &server).await;
                backend.schema = Some(fingerprint(&backend.database_url).await);
            }
            admin.close().await;
        }
        backend
    }

    /// The same, but on PostgreSQL the database is a new one, whose files have nothing of another
    /// test.
    pub async fn with_new_files() -> Self {
        let backend = Backend::named();
        if let Some(server) = &backend.server {
            let admin = open(server).await;
            backend.copy_template(&admin, server).await;
            admin.close().await;
        }
        backend
    }

    /// A copy takes half the time of all migrations.
    async fn copy_template(&self, admin: &Db, server: &str) {
        let template = template(admin, server, &self.database).await;
        run(
            admin,
            format!("create database {} template {template}", self.database),
        )
        .await;
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
                database: name.clone(),
                schema: None,
                name,
                folder,
            };
        }
        let path = folder.path().join("waybill.db");
        Backend {
            database: name.clone(),
            schema: None,
            name,
            database_url: format!("sqlite://{}", path.display()),
            amqp_url: None,
            server: None,
            folder,
        }
    }
}

/// A connection to a server that may be busy with other tests.
async fn open(url: &str) -> Db {
    let db = Db::open(url, 1).await.unwrap();
    db.reached().await.unwrap();
    db
}

async fn run(db: &Db, sql: String) {
    db.query(statement(sql)).execute().await.unwrap();
}

async fn fingerprint(url: &str) -> String {
    let db = open(url).await;
    let row = db.query(FINGERPRINT).fetch_one().await.unwrap();
    db.close().await;
    row.get("schema").unwrap()
}

/// A database of a test that has ended, emptied; and its schema. One to which somebody is still
/// connected, or whose schema was changed, is dropped instead.
async fn free(admin: &Db, server: &str) -> Option<(String, String)> {
    loop {
        let taken = admin
            .query(
                "delete from free_databases where name = (
                     select name from free_databases where template = $1
                     limit 1 for update skip locked
                 ) returning name, schema",
            )
            .bind(template_name());
        let taken = taken.fetch_optional().await.unwrap()?;
        let (name, schema): (String, String) =
            (taken.get("name").unwrap(), taken.get("schema").unwrap());
        let used = format!("select count(*) as n from pg_stat_activity where datname = '{name}'");
        let used = admin.query(statement(used)).fetch_one().await.unwrap();
        if used.get::<i64>("n").unwrap() == 0 {
            let db = open(&with_database(server, &name)).await;
            let row = db.query(FINGERPRINT).fetch_one().await.unwrap();
            let is_same = row.get::<String>("schema").unwrap() == schema;
            if is_same {
                db.query(DELETE_ALL).execute().await.unwrap();
            }
            db.close().await;
            if is_same {
                return Some((name, schema));
            }
        }
        run(
            admin,
            format!("drop database if exists {name} with (force)"),
        )
        .await;
    }
}

/// The name of the database that others are copied from. The first test that asks for it makes it,
/// under another name until it is complete; it stays on the server.
async fn template(admin: &Db, server: &str, unfinished: &str) -> String {
    let name = template_name();
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

/// It has a hash of all migrations.
fn template_name() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(std::fs::read(file).unwrap());
    }
    format!("waybill_template_{}", hex::encode(&hash.finalize()[..8]))
}

impl Backend {
    /// Where the test keeps its exports, unless it says otherwise.
    pub fn export_url(&self) -> String {
        format!("file://{}", self.folder().join("exports").display())
    }

    /// A folder of the test's own.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A copy of a database, as an operator makes one. Dropped, it is gone.
pub struct Backup {
    folder: TempDir,
}

impl Backup {
    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("backup")
    }
}

impl Backend {
    /// Copies the database, which may be in use, as an operator does.
    pub async fn back_up(&self) -> Backup {
        let folder = tempfile::tempdir().unwrap();
        let backup = Backup { folder };
        self.operate("backup", &backup).await;
        backup
    }

    /// A new database with what was copied.
    pub async fn restored(backup: &Backup) -> Self {
        let backend = Backend::create().await;
        backend.operate("restore", backup).await;
        backend
    }

    async fn operate(&self, what: &str, backup: &Backup) {
        let mut command = command("waybill", &[("PATH", "/usr/bin:/bin")]);
        command.env("DATABASE_URL", &self.database_url);
        // Where no service answers, as before a restore.
        command.env("LISTEN_ADDR", format!("127.0.0.1:{}", free_port()));
        command.arg(what).arg(backup.file());
        let output = super::process::run(command).await;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {complaint}");
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
    /// Drops the test's database, or leaves it to another test. Its queues end by a policy of
    /// `scripts/services`, or stay; names are never used twice.
    fn drop(&mut self) {
        let Some(server) = &self.server else { return };
        let database = &self.database;
        let end = match &self.schema {
            Some(schema) if !std::thread::panicking() => {
                let template = template_name();
                format!(
                    "insert into free_databases values ('{database}', '{template}', '{schema}')"
                )
            }
            _ => format!("drop database if exists {database} with (force)"),
        };
        // The runtime of the test may have one thread, which is in here.
        let server = server.clone();
        let ended = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let admin = open(&server).await;
                run(&admin, end).await;
                admin.close().await;
            });
        });
        let _ = ended.join();
    }
}
