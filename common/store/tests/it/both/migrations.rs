//! Migrations of a table of some size, while a service of the version before goes on with its work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::migrations::{self, Source};
use store::sql::{Db, Error, Tx, column};
use tokio::time::Instant;
use uuid::Uuid;

use super::sql::{leak, postgres, times};

const TABLE: Source = (
    1,
    "table",
    "create table notes (id bigint primary key, written_at bigint not null, note text)",
);
const COLUMN: Source = (2, "column", "alter table notes add column length bigint");
const INDEX: Source = (
    3,
    "index",
    "create index concurrently notes_written on notes (written_at)",
);

/// Rows of the table. With `MIGRATED_TIMES=25` there are five million.
const ROWS: i64 = 200_000;
/// How many rows one statement inserts.
const CHUNK: i64 = 5_000;
/// A migration waits for a lock for half a second, and whoever comes meanwhile waits behind it, on a busy
/// machine a little longer.
const LONGEST: Duration = Duration::from_millis(1500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A database of this test's own, and how to remove it.
pub struct Own {
    pub db: Db,
    server: Option<(Db, &'static str)>,
    _folder: tempfile::TempDir,
}

impl Own {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let Some(url) = postgres() else {
            let url = format!("sqlite://{}/own.db", folder.path().display());
            let db = Db::open(&url, 8).await.unwrap();
            return Own {
                db,
                server: None,
                _folder: folder,
            };
        };
        let name = leak(format!("waybill_own_{}", Uuid::now_v7().simple()));
        let server = connected(&url, 1).await;
        let create = leak(format!("create database {name}"));
        server.on_server(&[create]).await.unwrap();
        let (server_url, _) = url.rsplit_once('/').unwrap();
        let db = connected(&format!("{server_url}/{name}"), 8).await;
        Own {
            db,
            server: Some((server, name)),
            _folder: folder,
        }
    }

    pub async fn end(self) {
        self.db.close().await;
        if let Some((server, name)) = self.server {
            let drop = leak(format!("drop database {name} with (force)"));
            server.on_server(&[drop]).await.unwrap();
            server.close().await;
        }
    }
}

/// An open database with all of its connections. A busy server may need longer for one than a statement waits for it.
async fn connected(url: &str, connections: u32) -> Db {
    let db = Db::open(url, connections).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..30 * connections {
        match db.begin().await {
            Err(Error::PoolTimedOut) => {}
            begun => open.push(begun.unwrap()),
        }
        if open.len() == connections as usize {
            return db;
        }
    }
    panic!("the server does not answer");
}

async fn insert(db: &Db, ids: std::ops::Range<i64>) {
    let mut tx = db.begin().await.unwrap();
    let rows = ids.map(|id| {
        [
            column("id", id),
            column("written_at", id),
            column("note", "a note"),
        ]
    });
    tx.insert("notes", rows.collect(), "").await.unwrap();
    tx.commit().await.unwrap();
}

/// Writes a row after the other until the end, and returns how long one took at most.
async fn write(db: &Db, first: i64, is_over: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    let mut id = first;
    while !is_over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        insert(db, id..id + 1).await;
        longest = longest.max(begun.elapsed());
        id += 1;
    }
    longest
}

/// A transaction that has read. Until it ends the table cannot be changed.
async fn reader(db: &Db) -> Tx {
    let mut tx = db.begin().await.unwrap();
    let any = tx.query("select id from notes limit 1");
    any.fetch_one().await.unwrap();
    tx
}

async fn names(db: &Db) -> Vec<i64> {
    let rows = db.query("select version from _sqlx_migrations order by version");
    let rows = rows.fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("version").unwrap()).collect()
}

/// Waits until a migration has been seen to wait for a lock, and to wait anew, this many times.
async fn waited(db: &Db, waits: usize) {
    let waiting = "select 1 as n from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'
                     and (query like 'alter table%' or query like '%index concurrently%')
                     and query not like 'select%'";
    let mut seen = 0;
    let mut was_waiting = false;
    while seen < waits {
        let waits_now = db.query(waiting).fetch_optional().await.unwrap().is_some();
        seen += usize::from(waits_now && !was_waiting);
        was_waiting = waits_now;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Two processes migrate at once, while somebody reads until the migration has waited for that this many
/// times, and others write rows from `first` on.
async fn migrate(own: &Own, first: i64, migrations: &[Source], waits: usize) {
    let db = &own.db;
    let reader = match &own.server {
        Some(_) => Some(reader(db).await),
        None => None,
    };
    let is_over = AtomicBool::new(false);
    let migrate = async {
        let begun = Instant::now();
        let both = tokio::join!(
            migrations::apply_these(db, migrations),
            migrations::apply_these(db, migrations)
        );
        both.0.unwrap();
        both.1.unwrap();
        is_over.store(true, Ordering::SeqCst);
        begun.elapsed()
    };
    let read = async {
        if let Some(reader) = reader {
            waited(db, waits).await;
            reader.rollback().await.unwrap();
        }
    };
    let (took, longest, ()) = tokio::join!(migrate, write(db, first, &is_over), read);
    platform::terminal::err(&format!(
        "{first} rows: migrated in {took:?}; a writer waited {longest:?}\n"
    ));
    // SQLite has one writer at a time.
    if own.server.is_some() {
        assert!(longest < LONGEST, "a writer waited {longest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_large_table_is_migrated_while_others_write_into_it() {
    let own = Own::new().await;
    let db = &own.db;
    migrations::apply_these(db, &[TABLE]).await.unwrap();
    let rows = ROWS * i64::from(times("MIGRATED_TIMES"));
    for first in (0..rows).step_by(usize::try_from(CHUNK).unwrap()) {
        insert(db, first..first + CHUNK).await;
    }
    let is_postgres = own.server.is_some();
    if is_postgres {
        // What a process leaves behind that is killed while it makes an index.
        let unfinished = "create unique index concurrently notes_written on notes (note)";
        assert!(
            db.on_server(&[unfinished]).await.is_err(),
            "notes are equal"
        );
    }
    Box::pin(migrate(&own, rows, &[TABLE, COLUMN], 2)).await;
    // It goes on waiting, because nobody waits behind it.
    Box::pin(migrate(&own, 2 * rows, &[TABLE, COLUMN, INDEX], 1)).await;
    if is_postgres {
        let sound = "select 1 as n from pg_index
                     where indexrelid = to_regclass('notes_written') and indisvalid
                       and not indisunique";
        let sound = db.query(sound).fetch_optional().await.unwrap();
        assert!(sound.is_some(), "the index is made anew");
    }
    assert_eq!(names(db).await, [1, 2, 3]);
    // Nothing is left to do.
    migrations::apply_these(db, &[TABLE, COLUMN, INDEX])
        .await
        .unwrap();
    own.end().await;
}

/// The settings of these tables' own, by PostgreSQL's text of them.
async fn storage(db: &Db, table: &str) -> String {
    let row = db
        .query(
            "select coalesce(array_to_string(reloptions, ','), '') as options
             from pg_class where oid = to_regclass($1)",
        )
        .bind(table)
        .fetch_one()
        .await
        .unwrap();
    row.get("options").unwrap()
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn busy_tables_are_vacuumed_often_unless_an_operator_has_said_when() {
    let own = Own::new().await;
    let db = &own.db;
    migrations::apply(db).await.unwrap();
    let often = storage(db, "jobs").await;
    assert!(
        often.contains("autovacuum_vacuum_scale_factor=0.01"),
        "{often}"
    );
    let said = [
        "alter table jobs reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor,
                                 autovacuum_vacuum_insert_scale_factor)",
        "alter table events set (autovacuum_vacuum_scale_factor = 0.5)",
    ];
    db.on_server(&said).await.unwrap();
    migrations::apply(db).await.unwrap();
    assert_eq!(storage(db, "webhook_ids").await, often);
    assert!(
        storage(db, "jobs")
            .await
            .contains("vacuum_scale_factor=0.01")
    );
    let events = storage(db, "events").await;
    assert!(events.contains("vacuum_scale_factor=0.5"), "{events}");
    own.end().await;
}

/// The columns of which the planner takes samples, and which may hold what identifies a person.
const SAMPLED: &str = "select count(*) as n from pg_attribute
    where (cast(cast(attrelid as regclass) as text), cast(attname as text)) in
        (('orders', 'email_key'), ('orders', 'record'), ('customers', 'record'), ('deliveries', 'body'))
    and coalesce(attstattarget, -1) <> 0";

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn the_planner_takes_no_samples_of_personal_columns_even_if_somebody_let_it() {
    let own = Own::new().await;
    let db = &own.db;
    let sampled = async || {
        let row = db.query(SAMPLED).fetch_one().await.unwrap();
        row.get::<i64>("n").unwrap()
    };
    migrations::apply(db).await.unwrap();
    assert_eq!(sampled().await, 0);
    let said = [
        "alter table orders alter column email_key set statistics 100, alter column record set statistics -1",
        "alter table deliveries alter column body set statistics 10",
    ];
    db.on_server(&said).await.unwrap();
    assert_eq!(sampled().await, 3);
    migrations::apply(db).await.unwrap();
    assert_eq!(sampled().await, 0);
    own.end().await;
}
