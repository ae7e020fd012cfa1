//! Deliveries as they arrive, for whoever watches them (`ingress::deliveries`). Only the primary key is
//! searched, so intake writes no index for it: the ids of deliveries sort by the times at which their
//! requests began.

use super::parsed;
use crate::sql::{Db, Result, Row};
use domain::job::{JobId, Source, State};
use domain::time::Timestamp;

/// What is shown of a delivery: nothing of its body, of its customer, or of its last error.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub id: JobId,
    pub source: Source,
    pub kind: String,
    pub shop: Option<String>,
    /// The provider's id of the delivery.
    pub external_id: Option<String>,
    /// The provider's id of the order, payment, .. that it is about.
    pub object_id: Option<String>,
    pub state: State,
    pub attempts: i64,
    /// It has a note: of a job that is done, why nothing is made of it.
    pub is_noted: bool,
    pub is_discarded: bool,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// The ids of the newest jobs with an id after this one, the newest first.
pub async fn latest(db: &Db, after: JobId, limit: usize) -> Result<Vec<JobId>> {
    let rows = db
        .query("select id from jobs where id > $1 order by id desc limit $2")
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all()
        .await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// Those of these jobs that are deliveries, by id.
pub async fn of(db: &Db, ids: &[JobId]) -> Result<Vec<Arrived>> {
    let mut found = Vec::new();
    for ids in ids.chunks(500) {
        let rows = db
            .query(
                "select id, source, kind, shop, external_id, object_id, state, attempts, last_error,
                        created_at, finished_at, discarded_at
                 from jobs
                 where source <> 'internal' and id in ($1..)
                 order by id",
            )
            .bind(ids.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            found.push(read(row)?);
        }
    }
    found.sort_by_key(|it| it.id);
    Ok(found)
}

fn read(row: &Row) -> Result<Arrived> {
    let source: String = row.get("source")?;
    Ok(Arrived {
        id: row.get("id")?,
        source: if source == Source::Payment.as_str() {
            Source::Payment
        } else {
            Source::Storefront
        },
        kind: row.get("kind")?,
        shop: row.get("shop")?,
        external_id: row.get("external_id")?,
        object_id: row.get("object_id")?,
        state: parsed(row, "state")?,
        attempts: row.get("attempts")?,
        is_noted: row.get::<Option<String>>("last_error")?.is_some(),
        is_discarded: row.get::<Option<i64>>("discarded_at")?.is_some(),
        created_at: Timestamp(row.get("created_at")?),
        finished_at: row.get::<Option<i64>>("finished_at")?.map(Timestamp),
    })
}
