//! The `deliveries` table: what came from a provider, and the work that Waybill gives itself, one row for each job.
//! A row is written once. Only its body is changed: an erasure replaces it (`erasure::replace_body`), and the
//! functions of this file delete it. Whoever deletes the body of a job that has ended locks the row of the job
//! first, so that nobody requeues the job meanwhile.

use bytes::Bytes;

use crate::events::{first_id, time_of};
use crate::jobs::NewJob;
use crate::sql::{Cell, Db, Result, Tx, column};
use domain::job::{JobId, Source};
use domain::time::Timestamp;
use domain::trace;

/// The row of each of these jobs.
pub(super) fn rows<'v>(jobs: &[&'v NewJob]) -> Vec<[Cell<'v>; 13]> {
    let row = |&job: &&'v NewJob| {
        [
            column("id", job.id),
            column("source", job.source.into_str()),
            column("kind", &job.kind),
            column("shop", &job.shop),
            column("external_id", &job.external_id),
            column("object_id", &job.object_id),
            column("subject", &job.subject),
            column("api_version", &job.api_version),
            column("connection", &job.connection),
            column("trace", &job.trace),
            column("traceparent", trace::column(job.traceparent)),
            column("body", job.body.as_ref()),
            column("created_at", job.created_at),
        ]
    };
    jobs.iter().map(row).collect()
}

/// When the latest delivery of each source came, by the name of the source. Only the newest ones are
/// looked at, so a source is missing that has sent nothing for long.
pub async fn latest(db: &Db) -> Result<Vec<(String, Timestamp)>> {
    const LOOKED_AT: i64 = 10_000;
    db.query(
        "select source, max(created_at) as latest
         from (select source, created_at from deliveries
               where (select job_id from reconciled_deliveries where job_id = deliveries.id) is null
               order by id desc limit $1) as newest
         where source <> 'internal'
         group by source
         order by source",
    )
    .bind(LOOKED_AT)
    .all(|row| Ok((row.get("source")?, row.get("latest")?)))
    .await
}

/// How many of the newest deliveries are looked at for one of a source.
const NEWEST: i64 = 10_000;

/// Who sends deliveries: one side of one connection. What reconciliation found was not sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    pub source: Source,
    /// None: the connection that the settings make.
    pub connection: Option<String>,
}

impl std::fmt::Display for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.source.into_str())?;
        match &self.connection {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

/// The connections from which nothing came since then, although each of them had more than `usual` in the first of these
/// periods, and in one of the two others. At most `most`.
pub async fn silent_connections(
    db: &Db,
    since: Timestamp,
    periods: [(Timestamp, Timestamp); 3],
    (usual, most): (i64, i64),
) -> Result<Vec<Sender>> {
    macro_rules! came {
        ($period:literal) => {
            concat!(
                "exists (select 1 from deliveries where connection = name and source <> 'internal'
                 and not exists (select 1 from reconciled_deliveries where job_id = deliveries.id) and ",
                $period,
                ")"
            )
        };
    }
    let mut query = db
        .query(concat!(
            "select name, source from connections
             where removed_at is null and not ",
            came!("id >= $1"),
            " and ",
            came!("id >= $2 and id < $3 limit 1 offset $8"),
            " and (",
            came!("id >= $4 and id < $5 limit 1 offset $8"),
            " or ",
            came!("id >= $6 and id < $7 limit 1 offset $8"),
            ") order by name limit $9"
        ))
        .bind(first_id(since));
    for (from, until) in periods {
        query = query.bind(first_id(from)).bind(first_id(until));
    }
    let silent = query.bind(usual).bind(most).all(|row| {
        Ok(Sender {
            source: row.get("source")?,
            connection: Some(row.get("name")?),
        })
    });
    silent.await
}

/// Whether no delivery of this sender came since then. `None`: so many others came that it is not known.
pub async fn is_silent(db: &Db, sender: &Sender, since: Timestamp) -> Result<Option<bool>> {
    if let Some(name) = &sender.connection {
        let came = db
            .query(
                "select 1 as one from deliveries
                 where connection = $1 and id >= $2 and source <> 'internal'
                   and not exists (select 1 from reconciled_deliveries where job_id = deliveries.id)
                 limit 1",
            )
            .bind(name.as_str())
            .bind(first_id(since));
        return Ok(Some(!came.is_any().await?));
    }
    let came = db
        .query(
            "select 1 as one
             from (select source, connection from deliveries
                   where id >= $1 and (select job_id from reconciled_deliveries where job_id = deliveries.id) is null
                   order by id desc limit $2) as newest
             where source = $3 and connection is null limit 1",
        )
        .bind(first_id(since))
        .bind(NEWEST)
        .bind(sender.source.into_str());
    if came.is_any().await? {
        return Ok(Some(false));
    }
    let more = "select id from deliveries
                where id >= $1 and (select job_id from reconciled_deliveries where job_id = deliveries.id) is null
                order by id desc limit 1 offset $2";
    let more = db.query(more).bind(first_id(since)).bind(NEWEST - 1);
    Ok((!more.is_any().await?).then_some(true))
}

/// When the first delivery came after this time.
pub async fn first_after(db: &Db, at: Timestamp) -> Result<Option<Timestamp>> {
    db.query("select id from deliveries where id >= $1 order by id limit 1")
        .bind(first_id(at))
        .first(|row| row.get("id").map(time_of))
        .await
}

/// How many deliveries of this source came by the connection that the settings make, from one time until another one,
/// counted up to `most`. Of more than ten thousand of all only these are looked at.
pub async fn came(
    db: &Db,
    source: Source,
    (from, until): (Timestamp, Timestamp),
    most: i64,
) -> Result<i64> {
    db.query(
        "select count(*) as came from (
             select 1 as one
             from (select source, connection from deliveries
                   where id >= $1 and id < $2
                     and (select job_id from reconciled_deliveries where job_id = deliveries.id) is null
                   order by id limit $3) as period
             where source = $4 and connection is null limit $5) as counted",
    )
    .bind(first_id(from))
    .bind(first_id(until))
    .bind(NEWEST)
    .bind(source.into_str())
    .bind(most)
    .fetch_one()
    .await?
    .get("came")
}

/// The body of a job, if it still has one.
pub async fn body(db: &Db, id: JobId) -> Result<Option<Bytes>> {
    let body = db
        .query("select body from deliveries where body is not null and id = $1")
        .bind(id)
        .first(|row| row.get::<Vec<u8>>("body"));
    Ok(body.await?.map(Bytes::from))
}

/// Deletes the body of one job, whatever its state.
pub async fn forget_body(tx: &mut Tx, id: JobId) -> Result<()> {
    tx.query("update deliveries set body = null where id = $1")
        .bind(id)
        .done()
        .await
}

/// Looks at the next bodies after the job `after`, at most `limit` and none that is younger than `before`, and
/// deletes those of jobs that were done before then. Returns the last job that it looked at, or None when there are
/// no more. What somebody else has locked is left for a later round.
pub async fn cut_bodies(
    db: &Db,
    before: Timestamp,
    after: JobId,
    limit: i64,
) -> Result<Option<JobId>> {
    let ids: Vec<JobId> = db
        .query(
            "select id from deliveries where body is not null and id > $1 and id < $2
             order by id limit $3",
        )
        .bind(after)
        .bind(first_id(before))
        .bind(limit)
        .all(|row| row.get("id"))
        .await?;
    let Some(last) = ids.last().copied() else {
        return Ok(None);
    };
    let mut tx = db.begin().await?;
    let done: Vec<JobId> = tx
        .query(
            "select id from jobs where state = 'done' and finished_at < $1 and id in ($2..)
             order by id for update skip locked",
        )
        .bind(before.0)
        .bind(ids)
        .all(|row| row.get("id"))
        .await?;
    tx.query(
        "update deliveries set body = null
         where id in (
             select id from deliveries where body is not null and id in ($1..)
             order by id for update skip locked
         )",
    )
    .bind(done)
    .done()
    .await?;
    tx.commit().await?;
    Ok(Some(last))
}
