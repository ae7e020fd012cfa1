//! Deliveries as they arrive, for whoever watches them (`server::deliveries`) or lists them. Only the primary key is
//! searched, so intake writes no index for it: the ids of deliveries sort by the times at which their
//! requests began.

use super::{LOOKED_THROUGH, Page};
use crate::events::first_id;
use crate::sql::{Db, FromRow, Result};
use domain::job::{JobId, Source, State};
use domain::time::Timestamp;

/// What is shown of a delivery: nothing of its body, of its customer, or of its last error.
#[derive(Clone, Debug, FromRow)]
pub struct Arrived {
    pub id: JobId,
    pub source: Source,
    pub kind: String,
    pub shop: Option<String>,
    /// The connection by which it came; null for the one that the settings make.
    pub connection: Option<String>,
    /// The provider's id of the delivery.
    pub external_id: Option<String>,
    /// The provider's id of the order, payment, .. that it is about.
    pub object_id: Option<String>,
    pub state: State,
    pub attempts: i64,
    /// It has a note: of a job that is done, why nothing is made of it.
    #[present("last_error")]
    pub is_noted: bool,
    #[present("discarded_at")]
    pub is_discarded: bool,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// The ids of the newest jobs with an id after this one, the newest first.
pub async fn latest(db: &Db, after: JobId, limit: usize) -> Result<Vec<JobId>> {
    db.query("select id from deliveries where id > $1 order by id desc limit $2")
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .all(|row| row.get("id"))
        .await
}

/// Reads the jobs that are deliveries among these, by id.
pub async fn of(db: &Db, ids: &[JobId]) -> Result<Vec<Arrived>> {
    let mut found = Vec::new();
    for ids in ids.chunks(500) {
        let part: Vec<Arrived> = db
            .query(
                "select deliveries.id, source, deliveries.kind, deliveries.shop, connection, external_id, object_id,
                        state, attempts, last_error, deliveries.created_at, finished_at, discarded_at
                 from deliveries join jobs on jobs.id = deliveries.id
                 where source <> 'internal' and deliveries.id in ($1..)",
            )
            .bind(ids.to_vec())
            .all(Arrived::from_row)
            .await?;
        found.extend(part);
    }
    found.sort_by_key(|it| it.id);
    Ok(found)
}

/// Which deliveries to list. An empty text means any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `storefront` or `payment`.
    pub source: String,
    /// A topic or event type; `*` stands for any text. Upper and lower case count as the same.
    pub kind: String,
    pub shop: String,
    /// `default` is the one that the settings make.
    pub connection: String,
    pub state: String,
    /// When it arrived, by its id: not before the first of these times, and before the second.
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// The newest deliveries that match among the [`LOOKED_THROUGH`] newest jobs before this one.
pub async fn page(
    db: &Db,
    filter: &Filter,
    before: JobId,
    limit: usize,
) -> Result<Page<Arrived, JobId>> {
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let before = filter.until.map_or(before, |it| before.min(first_id(it)));
    let first = filter.from.map_or(JobId::nil(), first_id);
    let deliveries: Vec<Arrived> = db
        .query(
            "select newest.id, source, newest.kind, newest.shop, connection, external_id, object_id, state,
                    attempts, last_error, newest.created_at, finished_at, discarded_at
             from (select id, source, kind, shop, connection, external_id, object_id, created_at
                   from deliveries where id < $1 and id >= $9 order by id desc limit $2) as newest
             left join jobs on jobs.id = newest.id
             where source <> 'internal'
               and ($3 = '' or source = $3) and ($4 = '' or lower(newest.kind) like $4 escape '!')
               and ($5 = '' or newest.shop = $5) and ($6 = '' or state = $6)
               and ($7 = '' or coalesce(connection, 'default') = $7)
             order by newest.id desc
             limit $8",
        )
        .bind(before)
        .bind(LOOKED_THROUGH)
        .bind(filter.source.as_str())
        .bind(super::ended::pattern(&filter.kind))
        .bind(filter.shop.as_str())
        .bind(filter.state.as_str())
        .bind(filter.connection.as_str())
        .bind(most)
        .bind(first)
        .all(Arrived::from_row).await?;
    if deliveries.len() == limit {
        return Ok(Page::full(deliveries, |it| it.id));
    }
    let last = db
        .query("select id from deliveries where id < $1 and id >= $3 order by id desc limit 1 offset $2")
        .bind(before)
        .bind(LOOKED_THROUGH - 1)
        .bind(first)
        .fetch_optional()
        .await?;
    let next = last.map(|row| row.get("id")).transpose()?;
    Ok(Page::cut(deliveries, next))
}
