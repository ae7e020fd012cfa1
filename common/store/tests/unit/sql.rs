//! Tests of what is private in `src/sql.rs`.

use super::*;

#[tokio::test]
async fn who_waits_for_the_lock_in_vain_learns_what_to_look_for() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/locked.db", folder.path().display());
    let holder = open_sqlite(&url, LOCK_TIMEOUT).await.unwrap();
    let held = holder.begin().await.unwrap();
    let waits = open_sqlite(&url, Duration::from_millis(50)).await.unwrap();
    let error = waits.begin().await.unwrap_err();
    assert!(is_outage(&error), "it is tried again later");
    let reported = error.to_string();
    assert!(reported.contains("another process"), "{reported}");
    assert!(!reported.contains("database is locked"), "{reported}");
    held.rollback().await.unwrap();
    waits.begin().await.unwrap().rollback().await.unwrap();
}
