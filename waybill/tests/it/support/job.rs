//! Jobs that a test inserts itself, with their deliveries.

use domain::job::{JobId, Queue, Source};
use domain::time::Timestamp;
use store::jobs::{self, NewJob};
use store::sql::Db;

/// Jobs without their deliveries, and deliveries without their jobs: there is none.
pub const ALONE: &str = "select count(*) as n
    from (select id from jobs union all select id from deliveries) as ids
    where not exists (select 1 from jobs join deliveries on deliveries.id = jobs.id
                      where jobs.id = ids.id)";

/// A job that is due at once.
pub fn ready(id: JobId, queue: Queue, source: Source, kind: &str, at: Timestamp) -> NewJob {
    NewJob::new(id, queue, source, kind.to_owned(), "{}".into(), at)
}

pub async fn insert(db: &Db, new: &[NewJob]) {
    let mut tx = db.begin().await.unwrap();
    let all: Vec<&NewJob> = new.iter().collect();
    jobs::insert(&mut tx, &all).await.unwrap();
    tx.commit().await.unwrap();
}
