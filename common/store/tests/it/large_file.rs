//! A large SQLite file is rewritten without erased text.

use std::path::PathBuf;
use std::time::Duration;

use store::sql::column;

use crate::both::sql::{scratch, times};

/// Rows of a large file, whose odd ones are erased, make at least 48 MiB. With
/// `LARGE_FILE_TIMES=10` there are ten times as many.
const ROWS: i64 = 60_000;
const MIB: u64 = 48;
/// How many rows one transaction inserts.
const CHUNK: usize = 2_000;
/// Within this time the log is emptied, on a busy machine too.
const LONGEST: Duration = Duration::from_secs(10);

fn word(id: i64) -> String {
    format!("cnry{:07}{}", id, if id % 2 == 1 { "odd" } else { "even" })
}

/// Some of the words are as long as several pages.
fn data(id: i64) -> Vec<u8> {
    let times = if id % 50 == 0 { 700 } else { id % 80 + 1 };
    let times = usize::try_from(times).unwrap();
    format!("{}.", word(id)).repeat(times).into_bytes()
}

fn found(files: &[PathBuf], ending: &[u8]) -> usize {
    let mut found = 0;
    for file in files {
        let bytes = std::fs::read(file).unwrap_or_default();
        let heads = bytes.windows(14).filter(|it| it.starts_with(b"cnry"));
        found += heads.filter(|it| it[11..].starts_with(ending)).count();
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_large_file_is_rewritten_without_what_was_erased() {
    let times = times("LARGE_FILE_TIMES");
    let rows = ROWS * i64::from(times);
    let scratch = scratch(2).await;
    let db = &scratch.db;
    let mut tx = db.begin().await.unwrap();
    let index = scratch.sql("create index things_name on things (name)");
    tx.query(index).execute().await.unwrap();
    tx.commit().await.unwrap();
    // In no order, so that rows are moved from page to page.
    let ids: Vec<i64> = (0..rows).map(|nth| nth * 37_199 % rows).collect();
    for ids in ids.chunks(CHUNK) {
        let mut tx = db.begin().await.unwrap();
        let rows = ids.iter().map(|id| {
            [
                column("id", *id),
                column("name", word(*id)),
                column("data", data(*id)),
            ]
        });
        tx.insert(scratch.table, rows.collect(), "").await.unwrap();
        tx.commit().await.unwrap();
    }
    for ids in ids.chunks(CHUNK) {
        let mut tx = db.begin().await.unwrap();
        let erase = scratch
            .sql("update things set name = null, data = null where id % 2 = 1 and id in ($1..)");
        tx.query(erase).bind(ids.to_vec()).execute().await.unwrap();
        tx.commit().await.unwrap();
    }
    let path = scratch.folder.path().join("scratch.db");
    let files = [path.clone(), path.with_extension("db-wal")];
    assert!(
        found(&files, b"odd") > 0,
        "rows that were moved are left behind"
    );
    let bytes = std::fs::metadata(&path).unwrap().len();
    let begun = tokio::time::Instant::now();
    db.rewrite_file().await.unwrap();
    let took = begun.elapsed();
    // The log, which has the pages as they were, is emptied soon.
    while found(&files, b"odd") > 0 {
        assert!(begun.elapsed() < took + LONGEST, "erased text is left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let size = bytes / 1024 / 1024;
    let report = format!("{size} MiB rewritten in {took:?}");
    platform::terminal::err(&format!("{report}\n"));
    assert!(size > MIB * u64::from(times), "{report}");
    assert!(found(&files, b"eve") > 100_000, "all others are there");
    let sound = db
        .query("pragma integrity_check")
        .fetch_one()
        .await
        .unwrap();
    assert_eq!(sound.get::<String>("integrity_check").unwrap(), "ok");
    let whole = scratch.sql("select id, name, data from things where id % 2 = 0");
    for row in db.query(whole).fetch_all().await.unwrap() {
        let id: i64 = row.get("id").unwrap();
        assert_eq!(row.get::<String>("name").unwrap(), word(id));
        assert_eq!(row.get::<Vec<u8>>("data").unwrap(), data(id));
    }
    scratch.end().await;
}
