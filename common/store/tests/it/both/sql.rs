//! One SQL text works on both databases, and a pool never hands out a connection with a forgotten
//! transaction. With `TEST_BACKEND=distributed` everything runs on the PostgreSQL of
//! `TEST_DATABASE_URL`.

use std::task::Poll;
use std::time::Duration;

use store::migrations::{self, Compared, MigrationError};
use store::sql::{Cell, Db, Error, Row, column};
use tempfile::TempDir;
use uuid::Uuid;

/// A database of this test's own, with a table `things`.
pub struct Scratch {
    pub db: Db,
    pub table: &'static str,
    pub folder: TempDir,
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests choose their backend by environment"
)]
pub fn postgres() -> Option<String> {
    let distributed = std::env::var("TEST_BACKEND").is_ok_and(|backend| backend == "distributed");
    distributed.then(|| std::env::var("TEST_DATABASE_URL").expect("TEST_DATABASE_URL is set"))
}

/// How many times larger than usual a test is on request.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are made longer by environment"
)]
pub fn times(setting: &str) -> u32 {
    std::env::var(setting).map_or(1, |times| times.parse().unwrap())
}

pub fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

pub async fn scratch(connections: u32) -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let url = postgres().unwrap_or(format!("sqlite://{}/scratch.db", folder.path().display()));
    let db = Db::open(&url, connections).await.unwrap();
    let table = leak(format!("things_{}", Uuid::now_v7().simple()));
    let mut tx = db.begin().await.unwrap();
    let create =
        format!("create table {table} (id bigint primary key, name text, data bytea, key uuid)");
    tx.query(leak(create)).execute().await.unwrap();
    tx.commit().await.unwrap();
    Scratch { db, table, folder }
}

impl Scratch {
    /// A statement about `things`, with the real name of the table.
    pub fn sql(&self, text: &str) -> &'static str {
        leak(text.replace("things", self.table))
    }

    async fn count(&self) -> i64 {
        let sql = self.sql("select count(*) as n from things");
        self.db
            .query(sql)
            .fetch_one()
            .await
            .unwrap()
            .get("n")
            .unwrap()
    }

    pub async fn end(self) {
        let mut tx = self.db.begin().await.unwrap();
        tx.query(self.sql("drop table things"))
            .execute()
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.db.close().await;
    }
}

#[tokio::test]
async fn a_list_of_pairs_finds_the_rows_that_have_both_and_uses_both_columns_of_an_index() {
    let scratch = scratch(2).await;
    let key = |n: u128| Uuid::from_u128(n);
    let mut tx = scratch.db.begin().await.unwrap();
    let index = scratch.sql("create index things_both on things (name, id)");
    tx.query(index).execute().await.unwrap();
    let rows = [(1_u8, "a"), (2, "a"), (3, "b"), (4, "b")].map(|(n, name)| {
        [
            column("id", i64::from(n)),
            column("name", name),
            column("key", key(u128::from(n))),
        ]
    });
    tx.insert(scratch.table, rows.into(), "").await.unwrap();
    tx.commit().await.unwrap();
    let by_id = scratch.sql("select id from things where (name, id) in ($1..) order by id");
    let by_key = scratch.sql("select id from things where (name, key) in ($1..) order by id");
    let ids = |rows: &[Row]| -> Vec<i64> { rows.iter().map(|it| it.get("id").unwrap()).collect() };
    let pair = |name: &str, id: i64| (name.to_owned(), id);
    let wanted = vec![pair("a", 1), pair("a", 3), pair("b", 4), pair("b", 4)];
    let found = scratch.db.query(by_id).bind(wanted.clone()).fetch_all();
    assert_eq!(ids(&found.await.unwrap()), [1, 4]);
    let keys = vec![("a".to_owned(), key(2)), ("b".to_owned(), key(1))];
    let found = scratch.db.query(by_key).bind(keys).fetch_all();
    assert_eq!(ids(&found.await.unwrap()), [2]);
    let none = scratch.db.query(by_id).bind(Vec::<(String, i64)>::new());
    assert!(none.fetch_all().await.unwrap().is_empty());
    let none = scratch.db.query(by_key).bind(Vec::<(String, Uuid)>::new());
    assert!(none.fetch_all().await.unwrap().is_empty());
    let (explain, column, used) = match postgres() {
        Some(_) => ("explain ", "QUERY PLAN", "unnest.unnest) AND (id = unnest"),
        None => ("explain query plan ", "detail", "(name=? AND id=?)"),
    };
    let text = scratch.sql("select key from things where (name, id) in ($1..)");
    let plan = scratch
        .db
        .query(leak(format!("{explain}{text}")))
        .bind(wanted);
    let plan: Vec<String> = plan
        .fetch_all()
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(column).unwrap())
        .collect();
    let plan = plan.join("\n");
    assert!(plan.contains(used), "{plan}");
    scratch.end().await;
}

#[tokio::test]
async fn values_of_every_type_come_back_as_they_went_in() {
    let scratch = scratch(2).await;
    let key = Uuid::now_v7();
    let mut tx = scratch.db.begin().await.unwrap();
    let insert = scratch.sql("insert into things (id, name, data, key) values ($1, $2, $3, $4)");
    let bytes: Vec<u8> = (0..=255).collect();
    tx.query(insert)
        .bind(i64::MAX)
        .bind("Zoë 🙂")
        .bind(bytes.as_slice())
        .bind(key)
        .execute()
        .await
        .unwrap();
    tx.query(insert)
        .bind(i64::MIN)
        .bind(None::<&str>)
        .bind(None::<&[u8]>)
        .bind(None::<Uuid>)
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let rows = scratch
        .db
        .query(scratch.sql("select * from things order by id desc"))
        .fetch_all()
        .await
        .unwrap();
    assert_eq!(rows[0].get::<i64>("id").unwrap(), i64::MAX);
    assert_eq!(rows[0].get::<String>("name").unwrap(), "Zoë 🙂");
    assert_eq!(rows[0].get::<Vec<u8>>("data").unwrap(), bytes);
    assert_eq!(rows[0].get::<Uuid>("key").unwrap(), key);
    assert_eq!(rows[1].get::<i64>("id").unwrap(), i64::MIN);
    assert_eq!(rows[1].get::<Option<String>>("name").unwrap(), None);
    assert_eq!(rows[1].get::<Option<Vec<u8>>>("data").unwrap(), None);
    assert_eq!(rows[1].get::<Option<Uuid>>("key").unwrap(), None);
    scratch.end().await;
}

#[tokio::test]
async fn a_list_is_bound_as_one_value() {
    let scratch = scratch(2).await;
    let keys: Vec<Uuid> = (0..50).map(|_| Uuid::now_v7()).collect();
    let names: Vec<String> = (0..50).map(|n| format!("n{n}")).collect();
    let mut tx = scratch.db.begin().await.unwrap();
    let rows = (0_i64..).zip(&keys).zip(&names);
    let rows =
        rows.map(|((id, key), name)| [column("id", id), column("key", *key), column("name", name)]);
    tx.insert(scratch.table, rows.collect(), "").await.unwrap();
    tx.commit().await.unwrap();
    let some = keys[10..20].to_vec();
    let by_key = scratch.sql("select id from things where id > $1 and key in ($2..) order by id");
    let rows = scratch
        .db
        .query(by_key)
        .bind(12)
        .bind(some)
        .fetch_all()
        .await
        .unwrap();
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id").unwrap()).collect();
    assert_eq!(ids, (13..20).collect::<Vec<_>>());
    let by_name = scratch.sql("select id from things where name in ($1..) order by id");
    let two = vec!["n3".to_owned(), "n4".to_owned(), "nobody".to_owned()];
    assert_eq!(
        scratch
            .db
            .query(by_name)
            .bind(two)
            .fetch_all()
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(
        scratch
            .db
            .query(by_name)
            .bind(Vec::<String>::new())
            .fetch_all()
            .await
            .unwrap()
            .is_empty()
    );
    scratch.end().await;
}

#[tokio::test]
async fn many_rows_are_inserted_at_once_and_conflicts_are_reported() {
    let scratch = scratch(2).await;
    for rows in [1, 2, 63, 64, 65, 1000] {
        let mut tx = scratch.db.begin().await.unwrap();
        let new = || {
            let row = |id| [column("id", id), column("name", None::<&str>)];
            (0..rows).map(row).collect()
        };
        let returned = tx
            .insert(
                scratch.table,
                new(),
                "on conflict (id) do nothing returning id",
            )
            .await
            .unwrap();
        assert_eq!(
            returned.len(),
            usize::try_from(rows).unwrap(),
            "all are new"
        );
        let again = tx
            .insert(
                scratch.table,
                new(),
                "on conflict (id) do nothing returning id",
            )
            .await
            .unwrap();
        assert!(again.is_empty(), "none is new");
        tx.rollback().await.unwrap();
    }
    let mut tx = scratch.db.begin().await.unwrap();
    let none: Vec<[Cell<'_>; 1]> = Vec::new();
    assert!(tx.insert(scratch.table, none, "").await.unwrap().is_empty());
    tx.rollback().await.unwrap();
    scratch.end().await;
}

#[tokio::test]
async fn readers_wait_for_nobody_and_write_nothing() {
    let scratch = scratch(1).await;
    let readers = scratch.db.for_readers(1, Duration::from_millis(100));
    // It has the only connection of the others.
    let held = scratch.db.begin().await.unwrap();
    readers.ping().await.unwrap();
    held.rollback().await.unwrap();
    let insert = scratch.sql("insert into things (id) values (1)");
    assert!(readers.query(insert).execute().await.is_err());
    assert_eq!(scratch.count().await, 0);
    if postgres().is_some() {
        let error = readers.query("select pg_sleep(5)").fetch_all().await;
        let Err(Error::Database(error)) = error else {
            panic!("a statement ends in time");
        };
        assert_eq!(error.code().as_deref(), Some("57014"), "{error}");
        readers.ping().await.unwrap();
    }
    readers.close_readers().await;
    assert!(readers.ping().await.is_err());
    scratch.end().await;
}

#[tokio::test]
async fn a_transaction_that_is_dropped_leaves_nothing() {
    let scratch = scratch(2).await;
    let insert = scratch.sql("insert into things (id) values ($1)");
    let mut tx = scratch.db.begin().await.unwrap();
    tx.query(insert).bind(1).execute().await.unwrap();
    drop(tx);
    assert_eq!(scratch.count().await, 0);
    let mut tx = scratch.db.begin().await.unwrap();
    tx.query(insert).bind(2).execute().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(scratch.count().await, 1);
    scratch.end().await;
}

/// A future that is dropped in the middle of `begin` could leave the pooled connection in a
/// transaction that nobody knows about. What is written on it later would vanish although it
/// returned `Ok`.
#[tokio::test(flavor = "multi_thread")]
async fn a_begin_that_is_cancelled_never_swallows_a_later_write() {
    let scratch = scratch(1).await;
    let insert = scratch.sql("insert into things (id) values ($1)");
    let mut cancelled = 0;
    for attempt in 0..300_u64 {
        let begun = polled(attempt % 10, scratch.db.begin()).await;
        cancelled += u32::from(begun.is_none());
        drop(begun);
        let mut tx = scratch.db.begin().await.unwrap();
        tx.query(insert)
            .bind(attempt.cast_signed())
            .execute()
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    assert!(
        (1..300).contains(&cancelled),
        "some were cancelled half way: {cancelled}"
    );
    assert_eq!(scratch.count().await, 300, "every committed write is there");
    scratch.end().await;
}

/// Cancels a future that has not ended when it was polled once and then so many times more. Each time something that
/// it waited for has happened.
async fn polled<F: Future>(more: u64, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut left = more;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[tokio::test]
async fn a_statement_cancelled_half_way_harms_no_later_transaction() {
    let scratch = scratch(1).await;
    let insert = scratch.sql("insert into things (id) values ($1)");
    for attempt in 0..100_u64 {
        let id = attempt.cast_signed();
        let half = async {
            let mut tx = scratch.db.begin().await?;
            tx.query(insert).bind(1000 + id).execute().await?;
            std::future::pending::<()>().await;
            Ok::<(), Error>(())
        };
        let _ = tokio::time::timeout(Duration::from_micros(attempt * 30), half).await;
        let mut tx = scratch.db.begin().await.unwrap();
        tx.query(insert).bind(id).execute().await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(scratch.count().await, 100);
    scratch.end().await;
}

#[tokio::test]
async fn a_transaction_with_a_failed_statement_cannot_be_committed() {
    let scratch = scratch(2).await;
    let insert = scratch.sql("insert into things (id) values ($1)");
    let mut tx = scratch.db.begin().await.unwrap();
    tx.query(insert).bind(1).execute().await.unwrap();
    assert!(tx.query(insert).bind(1).execute().await.is_err());
    assert!(
        tx.commit().await.is_err(),
        "PostgreSQL itself would say ok and roll back"
    );
    assert_eq!(scratch.count().await, 0);
    scratch.end().await;
}

#[tokio::test]
async fn a_savepoint_undoes_a_failed_statement_and_keeps_what_was_before() {
    let scratch = scratch(2).await;
    let insert = scratch.sql("insert into things (id) values ($1)");
    let mut tx = scratch.db.begin().await.unwrap();
    tx.query(insert).bind(1).execute().await.unwrap();
    tx.savepoint().await.unwrap();
    tx.query(insert).bind(2).execute().await.unwrap();
    assert!(tx.query(insert).bind(1).execute().await.is_err());
    tx.undo_to_savepoint().await.unwrap();
    tx.savepoint().await.unwrap();
    tx.query(insert).bind(3).execute().await.unwrap();
    tx.release_savepoint().await.unwrap();
    tx.commit().await.unwrap();
    let rows = scratch
        .db
        .query(scratch.sql("select id from things order by id"))
        .fetch_all()
        .await
        .unwrap();
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id").unwrap()).collect();
    assert_eq!(ids, [1, 3]);
    scratch.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_take_turns_and_readers_do_not_wait_for_them() {
    let scratch = scratch(8).await;
    let insert = scratch.sql("insert into things (id) values ($1)");
    let writers = (0..20).map(|id| {
        let db = scratch.db.clone();
        async move {
            let mut tx = db.begin().await.unwrap();
            tx.query(insert).bind(id).execute().await.unwrap();
            tx.commit().await.unwrap();
        }
    });
    futures_util::future::join_all(writers).await;
    assert_eq!(scratch.count().await, 20);
    let mut tx = scratch.db.begin().await.unwrap();
    tx.query(insert).bind(99).execute().await.unwrap();
    assert_eq!(
        scratch.count().await,
        20,
        "what is not committed is not seen"
    );
    tx.rollback().await.unwrap();
    scratch.end().await;
}

/// Each handle stands for a process, because it waits for SQLite's own lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_writes_without_a_pause_lets_others_write_in_between() {
    if postgres().is_some() {
        return;
    }
    let scratch = scratch(2).await;
    let url = format!("sqlite://{}/scratch.db", scratch.folder.path().display());
    let insert = scratch.sql("insert into things (id) values ($1)");
    let busy = scratch.db.clone();
    let service = platform::task::spawn("a busy service", async move {
        for id in 0.. {
            let Ok(mut tx) = busy.begin().await else {
                return;
            };
            tx.query(insert).bind(id).execute().await.unwrap();
            // Each transaction lasts this long, which is what the commands have to live with.
            tokio::time::sleep(Duration::from_millis(50)).await;
            tx.commit().await.unwrap();
        }
    });
    let commands = (0..4).map(|operator: i64| {
        let url = url.clone();
        async move {
            let db = Db::open(&url, 2).await.unwrap();
            for nth in 0..5 {
                let begun = tokio::time::Instant::now();
                let mut tx = db.begin().await.unwrap();
                let id = 1_000_000 * (operator + 1) + nth;
                tx.query(insert).bind(id).execute().await.unwrap();
                tx.commit().await.unwrap();
                let waited = begun.elapsed();
                assert!(waited < Duration::from_secs(2), "it waited {waited:?}");
            }
            db.close().await;
        }
    });
    futures_util::future::join_all(commands).await;
    service.abort();
    let _ = service.await;
    let written = scratch.sql("select count(*) as n from things where id >= 1000000");
    let row = scratch.db.query(written).fetch_one().await.unwrap();
    assert_eq!(row.get::<i64>("n").unwrap(), 20);
    scratch.end().await;
}

/// An empty database of a test's own.
struct Empty {
    url: String,
    pub folder: TempDir,
    /// The server, and the name of the database there.
    on_server: Option<(Db, String)>,
}

async fn empty() -> Empty {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = postgres() else {
        let url = format!("sqlite://{}/new.db", folder.path().display());
        return Empty {
            url,
            folder,
            on_server: None,
        };
    };
    let name = format!("waybill_test_{}", Uuid::now_v7().simple());
    let admin = Db::open(&server, 1).await.unwrap();
    admin
        .query(leak(format!("create database {name}")))
        .execute()
        .await
        .unwrap();
    let end = server.find('?').unwrap_or(server.len());
    let base = server[..end].rfind('/').unwrap();
    Empty {
        url: format!("{}/{name}{}", &server[..base], &server[end..]),
        folder,
        on_server: Some((admin, name)),
    }
}

impl Empty {
    pub async fn end(self) {
        if let Some((admin, name)) = self.on_server {
            admin
                .query(leak(format!("drop database {name}")))
                .execute()
                .await
                .unwrap();
            admin.close().await;
        }
        self.folder.close().unwrap();
    }
}

#[tokio::test]
async fn migrations_can_be_applied_by_several_processes_at_once() {
    let empty = empty().await;
    let first = Db::open(&empty.url, 2).await.unwrap();
    let second = Db::open(&empty.url, 2).await.unwrap();
    let (one, two) = tokio::join!(migrations::apply(&first), migrations::apply(&second));
    one.unwrap();
    two.unwrap();
    let applied = migrations::list(&first).await.unwrap();
    assert!(!applied.is_empty() && applied.iter().all(|migration| migration.applied));
    first.close().await;
    second.close().await;
    empty.end().await;
}

#[tokio::test]
async fn a_database_from_before_the_first_release_is_refused_and_stays_as_it_is() {
    let empty = empty().await;
    let db = Db::open(&empty.url, 2).await.unwrap();
    migrations::apply(&db).await.unwrap();
    // A database of such a version has its own first migration, and more migrations after it.
    let mut tx = db.begin().await.unwrap();
    let second = "insert into _sqlx_migrations
                      (version, description, success, checksum, execution_time)
                  select 2, 'orders', success, checksum, 0 from _sqlx_migrations";
    tx.query(second).execute().await.unwrap();
    let first = "update _sqlx_migrations set description = 'pipeline', checksum = $1
                 where version = 1";
    let checksum = vec![7_u8; 48];
    tx.query(first).bind(checksum).execute().await.unwrap();
    tx.commit().await.unwrap();
    let refusal = migrations::apply(&db).await.unwrap_err();
    assert!(matches!(refusal, MigrationError::Unreleased), "{refusal}");
    let message = refusal.to_string();
    assert!(
        message.contains("before its first release")
            && message.contains("set DATABASE_URL to a new"),
        "{message}"
    );
    let compared = migrations::compare(&db).await.unwrap();
    assert!(compared.is_unreleased());
    assert_eq!(compared.lacks(), Some(message));
    let names = "select description from _sqlx_migrations order by version";
    let rows = db.query(names).fetch_all().await.unwrap();
    let names: Vec<String> = rows
        .iter()
        .map(|row| row.get("description").unwrap())
        .collect();
    assert_eq!(names, ["pipeline", "orders"]);
    db.close().await;
    empty.end().await;
}

#[test]
fn what_a_database_lacks_is_said_with_what_to_do() {
    let lacks = |applied, missing: &[i64], changed: &[i64]| {
        let compared = Compared {
            applied,
            missing: missing.to_vec(),
            changed: changed.to_vec(),
            newer: vec![9],
        };
        compared.lacks().unwrap_or_default()
    };
    assert_eq!(lacks(1, &[], &[]), "", "a newer version's are no hindrance");
    assert!(lacks(0, &[1, 2], &[]).contains("the database is empty"));
    assert!(lacks(1, &[2, 3], &[]).contains("lacks migrations 2, 3 of this version"));
    assert!(lacks(2, &[], &[3]).contains("migrations 3 otherwise than this version"));
    assert!(lacks(0, &[2], &[1]).contains("before its first release"));
}
