//! Jobs that have failed lately and wait to be tried again, by cause. They are found by their attempts, so
//! jobs that wait for another reason cost nothing.

use super::ended::{Group, merged, read_group};
use crate::sql::{Db, Result};
use domain::time::Timestamp;

/// Why the jobs that are tried again failed since then. At most `most` attempts are read, the newest. A
/// job counts once for each of its errors.
pub async fn causes(db: &Db, since: Timestamp, most: i64) -> Result<Vec<Group>> {
    let rows = db
        .query(
            "select jobs.kind as kind, newest.error as error, count(distinct jobs.id) as jobs,
                    min(newest.started_at) as first, max(newest.started_at) as last
             from (select job_id, error, started_at from job_attempts
                   where started_at >= $1
                   order by started_at desc
                   limit $2) as newest
             join jobs on jobs.id = newest.job_id
             where jobs.state = 'ready'
             group by jobs.kind, newest.error
             order by 1, 2",
        )
        .bind(since.0)
        .bind(most)
        .fetch_all()
        .await?;
    let groups = rows.iter().map(read_group).collect::<Result<_>>()?;
    Ok(merged(groups))
}
