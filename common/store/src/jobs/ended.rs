//! Jobs that have ended, as an operator searches them: dead jobs, and done jobs that still have
//! their bodies. All jobs that match are read at once, with the time when each ended, because
//! other jobs can begin and end while an operator works through the list.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{APART, LOOKED_THROUGH, Page, Summary, summaries};
use crate::events::first_id;
use crate::sql::{Db, FromRow, Query, Result};
use domain::job::{JobId, Queue, State};
use domain::time::Timestamp;

/// A job that has ended, and when.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Ended {
    pub id: JobId,
    #[serde(serialize_with = "crate::as_text")]
    pub queue: Queue,
    pub kind: String,
    pub source: String,
    pub shop: Option<String>,
    #[serde(serialize_with = "crate::as_text")]
    pub state: State,
    /// When the delivery arrived, or when the job was made.
    pub created_at: Timestamp,
    pub finished_at: Timestamp,
}

/// A place among the dead jobs: behind this one. Within a queue those that died first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub queue: Queue,
    pub died_at: Timestamp,
    pub job: JobId,
}

impl Cursor {
    pub fn of(job: &Ended) -> Self {
        Cursor {
            queue: job.queue,
            died_at: job.finished_at,
            job: job.id,
        }
    }
}

/// Which jobs to search. An empty text means any.
#[derive(Clone, Debug)]
pub struct Filter {
    pub queue: Option<Queue>,
    /// `*` stands for any text. Upper and lower case count as the same.
    pub kind: String,
    pub shop: String,
    /// The connection by which it came, or that the work is for. `default` is the one that the settings make.
    pub connection: String,
    /// A part of the last error.
    pub error: String,
    /// Only jobs that ended at this time or later.
    pub from: Timestamp,
    /// Only jobs that ended before this time.
    pub until: Timestamp,
    /// Only jobs that arrived at this time or later.
    pub arrived_from: Timestamp,
    /// Only jobs that arrived before this time.
    pub arrived_until: Timestamp,
}

impl Default for Filter {
    fn default() -> Self {
        let (first, last) = (Timestamp(0), Timestamp(i64::MAX));
        Filter {
            queue: None,
            kind: String::new(),
            shop: String::new(),
            connection: String::new(),
            error: String::new(),
            from: first,
            until: last,
            arrived_from: first,
            arrived_until: last,
        }
    }
}

impl Filter {
    fn queue(&self) -> &'static str {
        self.queue.map_or("", |it| it.into_str())
    }

    /// Whether jobs of this queue are searched.
    fn has(&self, queue: Queue) -> bool {
        self.queue.is_none_or(|wanted| wanted == queue)
    }

    /// The part of a number for each queue that is searched.
    fn each(&self, most: i64) -> i64 {
        let queues = Queue::ALL.iter().filter(|queue| self.has(**queue)).count();
        match i64::try_from(queues) {
            Ok(queues) if most < i64::MAX => (most / queues.max(1)).max(1),
            _ => most,
        }
    }

    fn kind(&self) -> String {
        pattern(&self.kind)
    }

    fn error(&self) -> String {
        match self.error.as_str() {
            "" => String::new(),
            text => format!("%{}%", escaped(text)),
        }
    }
}

/// A pattern in which `*` stands for any text, for `like .. escape '!'`.
pub(super) fn pattern(text: &str) -> String {
    escaped(text).replace('*', "%")
}

/// The text with its special characters escaped for `like .. escape '!'`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.to_lowercase().chars() {
        if matches!(c, '!' | '%' | '_') {
            escaped.push('!');
        }
        escaped.push(c);
    }
    escaped
}

/// The conditions that a [`Filter`] makes of `job`, which has ended, with what [`filtered`] binds.
macro_rules! matching {
    () => {
        "($1 = '' or queue = $1)
         and ($2 = '' or lower(kind) like $2 escape '!')
         and ($3 = '' or shop = $3)
         and ($4 = '' or lower(coalesce(last_error, '')) like $4 escape '!')
         and finished_at >= $5 and finished_at < $6
         and ($7 = '' or exists (select 1 from deliveries
                                 where deliveries.id = job.id and coalesce(connection, 'default') = $7))"
    };
}

/// Reads jobs with what an [`Ended`] has.
macro_rules! ended {
    () => {
        "select id, queue, kind, shop, state, created_at, finished_at,
                (select source from deliveries where deliveries.id = job.id) as source
         from jobs as job"
    };
}

/// The newest dead jobs of the queue $1, until the job that died at $8 with the id $9, at most $10.
macro_rules! newest {
    ($columns:literal) => {
        concat!(
            "select ",
            $columns,
            " from jobs
             where state = 'dead' and queue = $1 and finished_at >= $5 and finished_at < $6
               and finished_at <= $8 and (finished_at < $8 or id < $9)
             order by finished_at desc, id desc limit $10"
        )
    };
}

/// Binds the values $1 to $7 of a statement.
fn filtered<'t, 'v>(query: Query<'t, 'v>, queue: &'v str, filter: &'v Filter) -> Query<'t, 'v> {
    query
        .bind(queue)
        .bind(filter.kind())
        .bind(filter.shop.as_str())
        .bind(filter.error())
        .bind(filter.from.0)
        .bind(filter.until.0)
        .bind(filter.connection.as_str())
}

/// Every dead job that matches, sorted by id.
pub async fn dead(db: &Db, filter: &Filter) -> Result<Vec<Ended>> {
    let query = db.query(concat!(ended!(), " where state = 'dead' and ", matching!()));
    // If the statement sorted them, SQLite would go through all jobs in the sequence of their ids.
    let query = filtered(query, filter.queue(), filter);
    let mut jobs: Vec<Ended> = query.all(Ended::from_row).await?;
    jobs.sort_by_key(|job| job.id);
    Ok(jobs)
}

/// The dead jobs that match and come after the cursor, at most `limit`: queue by queue, and within each
/// those that died first come first.
pub async fn after(
    db: &Db,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: i64,
) -> Result<Vec<Ended>> {
    let mut jobs: Vec<Ended> = Vec::new();
    let begins = cursor.map_or(0, |cursor| {
        let mut queues = Queue::ALL.iter();
        queues.position(|it| *it == cursor.queue).unwrap_or(0)
    });
    for queue in Queue::ALL.into_iter().skip(begins) {
        let rest = limit - i64::try_from(jobs.len()).unwrap_or(limit);
        if rest <= 0 || !filter.has(queue) {
            continue;
        }
        let (died, id) = match cursor {
            Some(cursor) if cursor.queue == queue => (cursor.died_at, cursor.job),
            _ => (Timestamp(i64::MIN), JobId::nil()),
        };
        let query = db.query(concat!(
            ended!(),
            " where state = 'dead' and queue = $1 and ",
            matching!(),
            " and finished_at >= $8 and (finished_at > $8 or id > $9)
             order by finished_at, id
             limit $10"
        ));
        let found: Vec<Ended> = filtered(query, queue.into_str(), filter)
            .bind(died.0)
            .bind(id)
            .bind(rest)
            .all(Ended::from_row)
            .await?;
        jobs.extend(found);
    }
    Ok(jobs)
}

/// Dead jobs of one kind.
#[derive(Clone, Debug, FromRow)]
pub struct OfKind {
    pub kind: String,
    pub jobs: i64,
    /// When the first and when the last of them died.
    pub first: Timestamp,
    pub last: Timestamp,
}

/// How many dead jobs match, by kind.
#[derive(Clone, Debug)]
pub struct Kinds {
    pub kinds: Vec<OfKind>,
    /// There are more dead jobs than were looked through.
    pub is_cut: bool,
}

/// How many dead jobs of each kind match, among the newest `most` of all queues that are searched, divided
/// among these.
pub async fn of_kinds(db: &Db, filter: &Filter, most: i64) -> Result<Kinds> {
    let each = filter.each(most);
    let (mut kinds, mut is_cut) = (Vec::new(), false);
    for queue in Queue::ALL {
        if !filter.has(queue) {
            continue;
        }
        let query = db.query(concat!(
            "select kind, count(*) as jobs, min(finished_at) as first, max(finished_at) as last
             from (",
            newest!("id, queue, kind, shop, last_error, finished_at"),
            ") as job where ",
            matching!(),
            " group by kind order by kind"
        ));
        let found: Vec<OfKind> = filtered(query, queue.into_str(), filter)
            .bind(i64::MAX)
            .bind(JobId::max())
            .bind(each)
            .all(OfKind::from_row)
            .await?;
        kinds.extend(found);
        if !is_cut && each < i64::MAX {
            let last = (Timestamp(i64::MAX), JobId::max());
            is_cut = end(db, queue, filter, last, each).await?.is_some();
        }
    }
    Ok(Kinds { kinds, is_cut })
}

/// The dead jobs that match among the [`LOOKED_THROUGH`] newest, at most `limit`, those that died last first.
/// That number is divided among the queues that are searched. `after` is where the page before ended: when its
/// last job died, and its id.
pub async fn page(
    db: &Db,
    filter: &Filter,
    after: Option<(Timestamp, JobId)>,
    limit: usize,
) -> Result<Page<Summary, (Timestamp, JobId)>> {
    let begin = after.unwrap_or((Timestamp(i64::MAX), JobId::max()));
    let each = filter.each(LOOKED_THROUGH);
    let mut found: Vec<(Timestamp, JobId)> = Vec::new();
    // Up to here every queue was looked through.
    let mut cut: Option<(Timestamp, JobId)> = None;
    // Each queue has the jobs in this sequence in its part of the index, so few rows are read.
    for queue in Queue::ALL {
        if !filter.has(queue) {
            continue;
        }
        let query = db.query(concat!(
            "select id, finished_at from (",
            newest!("id, queue, kind, shop, last_error, finished_at"),
            ") as job where ",
            matching!(),
            " order by finished_at desc, id desc limit $11"
        ));
        let dead: Vec<_> = filtered(query, queue.into_str(), filter)
            .bind(begin.0.0)
            .bind(begin.1)
            .bind(each)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .all(|row| Ok((row.get("finished_at")?, row.get("id")?)))
            .await?;
        found.extend(&dead);
        if dead.len() < limit {
            cut = cut.max(end(db, queue, filter, begin, each).await?);
        }
    }
    // A queue of which less was looked through may have jobs that died before those of another one.
    found.retain(|it| cut.is_none_or(|cut| *it >= cut));
    found.sort_by_key(|it| Reverse(*it));
    let is_full = found.len() >= limit;
    found.truncate(limit);
    Ok(Page {
        rows: summaries(db, &found).await?,
        next: if is_full { found.last().copied() } else { cut },
        is_cut: !is_full && cut.is_some(),
    })
}

/// The last of so many dead jobs of a queue, if it has so many.
async fn end(
    db: &Db,
    queue: Queue,
    filter: &Filter,
    begin: (Timestamp, JobId),
    most: i64,
) -> Result<Option<(Timestamp, JobId)>> {
    db.query(
        "select id, finished_at from jobs
         where state = 'dead' and queue = $1 and finished_at >= $2 and finished_at < $3
           and finished_at <= $4 and (finished_at < $4 or id < $5)
         order by finished_at desc, id desc limit 1 offset $6",
    )
    .bind(queue.into_str())
    .bind(filter.from.0)
    .bind(filter.until.0)
    .bind(begin.0.0)
    .bind(begin.1)
    .bind(most - 1)
    .first(|row| Ok((row.get("finished_at")?, row.get("id")?)))
    .await
}

/// These jobs, in this sequence.
async fn summaries(db: &Db, found: &[(Timestamp, JobId)]) -> Result<Vec<Summary>> {
    let mut jobs = Vec::new();
    for ids in found.chunks(500) {
        let ids: Vec<JobId> = ids.iter().map(|(_, id)| *id).collect();
        let query = db
            .query(summaries!(of jobs "where jobs.id in ($1..)"))
            .bind(ids);
        jobs.extend(query.all::<_, Vec<_>>(Summary::from_row).await?);
    }
    // One that was run again meanwhile is in its place, too.
    let place: BTreeMap<JobId, usize> = found.iter().map(|(_, id)| *id).zip(0..).collect();
    jobs.sort_by_key(|job| place.get(&job.id).copied());
    Ok(jobs)
}

/// Dead jobs of one kind that died of the same error.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Group {
    pub kind: String,
    pub jobs: i64,
    /// When the first and when the last of the jobs died.
    pub first: Timestamp,
    pub last: Timestamp,
    /// The last error of one of the jobs. The errors of the others may differ in their numbers.
    pub error: String,
}

/// How many dead jobs match, grouped by kind and error, the largest group first.
pub async fn groups(db: &Db, filter: &Filter) -> Result<Vec<Group>> {
    let query = db.query(concat!(
        "select kind, coalesce(last_error, '') as error, count(*) as jobs,
                min(finished_at) as first, max(finished_at) as last
         from jobs as job
         where state = 'dead' and ",
        matching!(),
        " group by kind, coalesce(last_error, '')
         order by 1, 2"
    ));
    let groups = filtered(query, filter.queue(), filter)
        .all(Group::from_row)
        .await?;
    Ok(merged(groups))
}

/// Why the newest dead jobs of each queue died, at most `most` of a queue, the largest group first.
pub async fn causes(db: &Db, most: i64) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for queue in Queue::ALL {
        let found: Vec<Group> = db
            .query(
                "select kind, error, count(*) as jobs, min(finished_at) as first,
                        max(finished_at) as last
                 from (select kind, coalesce(last_error, '') as error, finished_at from jobs
                       where state = 'dead' and queue = $1
                       order by finished_at desc
                       limit $2) as newest
                 group by kind, error
                 order by 1, 2",
            )
            .bind(queue.into_str())
            .bind(most)
            .all(Group::from_row)
            .await?;
        groups.extend(found);
    }
    Ok(merged(groups))
}

/// Groups whose errors differ in numbers alone become one; the largest group comes first.
pub(super) fn merged(all: Vec<Group>) -> Vec<Group> {
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for group in all {
        groups
            .entry((group.kind.clone(), without_numbers(&group.error)))
            .and_modify(|known| {
                known.jobs += group.jobs;
                known.first = known.first.min(group.first);
                known.last = known.last.max(group.last);
            })
            .or_insert(group);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| -group.jobs);
    groups
}

/// The error with `#` for each number, because ids, positions and amounts do not make it a
/// different error.
fn without_numbers(error: &str) -> String {
    let mut text = String::with_capacity(error.len());
    for c in error.chars() {
        match (c.is_ascii_digit(), text.ends_with('#')) {
            (true, true) => {}
            (true, false) => text.push('#'),
            (false, _) => text.push(c),
        }
    }
    text
}

/// Every done job that matches and still has its body, sorted by id.
pub async fn done(db: &Db, filter: &Filter) -> Result<Vec<Ended>> {
    db.query(
        "select deliveries.id, queue, deliveries.kind, source, deliveries.shop, state,
                deliveries.created_at, finished_at
         from deliveries join jobs on jobs.id = deliveries.id
         where state = 'done' and body is not null
           and ($1 = '' or queue = $1)
           and ($2 = '' or lower(deliveries.kind) like $2 escape '!')
           and ($3 = '' or deliveries.shop = $3)
           and deliveries.created_at >= $4 and deliveries.created_at < $5 and deliveries.id >= $6
           and ($7 = '' or coalesce(connection, 'default') = $7)
         order by deliveries.id",
    )
    .bind(filter.queue())
    .bind(filter.kind())
    .bind(filter.shop.as_str())
    .bind(filter.arrived_from.0)
    .bind(filter.arrived_until.0)
    .bind(first_id(filter.arrived_from.minus(APART)))
    .bind(filter.connection.as_str())
    .all(Ended::from_row)
    .await
}

#[cfg(test)]
#[path = "../../tests/unit/jobs/ended.rs"]
mod tests;
