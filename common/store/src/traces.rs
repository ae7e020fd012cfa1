//! Finds everything that belongs together by any id that somebody may have: of a request, a
//! trace, a job or a delivery.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::jobs::{Summary, summaries};
use crate::sql::{Db, FromRow, Result, Row};
use crate::webhook_ids;
use domain::job::{JobId, Source};
use domain::trace::{TraceContext, TraceId, stored};

/// How many jobs one id may lead to at most. Clients may use a request id again.
const MOST: i64 = 100;

/// The traces to which an id belongs. When no delivery with this id is remembered any more, all
/// deliveries are searched.
pub async fn of(db: &Db, id: &str) -> Result<BTreeSet<TraceId>> {
    let mut jobs = remembered(db, id).await?;
    if jobs.is_empty() && Uuid::try_parse(id).is_err() {
        jobs = forgotten(db, id).await?;
    }
    belonging(db, id, jobs).await
}

/// The same by indexes alone: a delivery is found by its id as long as that is remembered.
pub async fn of_indexed(db: &Db, id: &str) -> Result<BTreeSet<TraceId>> {
    let jobs = remembered(db, id).await?;
    belonging(db, id, jobs).await
}

/// The traces of these jobs, and of what else has this id.
async fn belonging(db: &Db, id: &str, mut jobs: Vec<JobId>) -> Result<BTreeSet<TraceId>> {
    let mut traces = BTreeSet::new();
    traces.extend(TraceContext::parse(id).map(TraceContext::trace_id));
    if let Ok(id) = Uuid::try_parse(id) {
        traces.insert(TraceId::of(id));
        jobs.push(id);
    }
    let asked = db
        .query("select id, traceparent from deliveries where trace = $1 order by id desc limit $2")
        .bind(id)
        .bind(MOST);
    traces.extend(asked.all::<_, Vec<_>>(trace).await?);
    let found = db
        .query("select id, traceparent from deliveries where id in ($1..)")
        .bind(jobs);
    traces.extend(found.all::<_, Vec<_>>(trace).await?);
    Ok(traces)
}

/// The jobs of deliveries whose id is remembered.
async fn remembered(db: &Db, id: &str) -> Result<Vec<JobId>> {
    let mut jobs = Vec::new();
    for source in [Source::Storefront, Source::Payment] {
        jobs.extend(webhook_ids::jobs(db, source, id).await?);
    }
    Ok(jobs)
}

/// The jobs of deliveries with this id, found among all of them.
async fn forgotten(db: &Db, id: &str) -> Result<Vec<JobId>> {
    db.query("select id from deliveries where external_id = $1 order by id desc limit $2")
        .bind(id)
        .bind(MOST)
        .all(|row| row.get("id"))
        .await
}

/// The trace that a job came with, or its own.
pub(super) fn trace(row: &Row) -> Result<TraceId> {
    let parent = stored(row.get("traceparent")?);
    Ok(parent.map_or(TraceId::of(row.get("id")?), TraceContext::trace_id))
}

/// The jobs of traces, the oldest first. The query sorts by the trace first, because PostgreSQL
/// would scan the table by its primary key (1.2 s for 200,000 jobs), instead of using the index,
/// if it were sorted by id alone.
pub async fn jobs(db: &Db, traces: &BTreeSet<TraceId>, limit: i64) -> Result<Vec<Summary>> {
    let carried: Vec<Summary> = db
        .query(summaries!(of deliveries
            "where traceparent is not null and substr(traceparent, 1, 16) in ($2..)
             order by substr(traceparent, 1, 16), deliveries.id
             limit $1"
        ))
        .bind(limit)
        .bind(
            traces
                .iter()
                .map(|trace| trace.bytes().to_vec())
                .collect::<Vec<_>>(),
        )
        .all(Summary::from_row)
        .await?;
    let mut jobs: Vec<Summary> = db
        .query(summaries!(of deliveries "where traceparent is null and deliveries.id in ($1..)"))
        .bind(traces.iter().map(|trace| trace.uuid()).collect::<Vec<_>>())
        .all(Summary::from_row)
        .await?;
    jobs.extend(carried);
    jobs.sort_by_key(|job| job.id);
    jobs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(jobs)
}
