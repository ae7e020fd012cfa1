//! The limit of logins that one client may begin. Replicas whose clocks differ count together.

use std::time::Duration;

use domain::time::Timestamp;
use process::open_database;
use store::device_code_requests::admit;

use crate::support::START;
use crate::support::backend::Backend;

const PERIOD: Duration = Duration::from_mins(15);
const MOST: u32 = 5;

#[tokio::test]
async fn a_replica_whose_clock_is_behind_forgets_no_login_that_others_counted() {
    let backend = Backend::create().await;
    let db = open_database(&backend.database_url, 4).await.unwrap();
    let start = START;
    let begin = async |at: Timestamp| admit(&db, b"client", at, PERIOD, MOST).await.unwrap();
    let second = Duration::from_secs(1);
    for behind in 0..MOST {
        assert_eq!(begin(start.minus(second * behind)).await, Ok(()));
    }
    let oldest = start.minus(second * (MOST - 1));
    let free = oldest.plus(PERIOD);
    for at in [oldest.minus(second), start] {
        assert_eq!(begin(at).await, Err(free.since(at)));
    }
    assert_eq!(begin(free).await, Ok(()));
    assert!(begin(free).await.is_err(), "the others still count");
}

#[tokio::test]
async fn a_clock_that_was_set_back_far_locks_nobody_out() {
    let backend = Backend::create().await;
    let db = open_database(&backend.database_url, 4).await.unwrap();
    let start = START;
    let begin = async |at: Timestamp| admit(&db, b"client", at, PERIOD, MOST).await.unwrap();
    for _ in 0..MOST {
        assert_eq!(begin(start).await, Ok(()));
    }
    assert!(begin(start.minus(PERIOD)).await.is_err());
    let back = start.minus(PERIOD + Duration::from_secs(1));
    assert_eq!(begin(back).await, Ok(()));
}
