//! The `pauses` table: the queues, providers, shops, connections and conditions that operators have paused, by whom and until when.
//!
//! A worker defers the jobs that a pause concerns to its end, so what waits is looked at once and not again
//! and again, and goes on by itself. When an operator ends the pause earlier, the row is kept until then, and
//! workers make these jobs due: they are those that are deferred to exactly that time.

use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::jobs;
use crate::sql::{Db, Error, FromRow, Result, Row, Tx};
use domain::job::{JobId, Queue};
use domain::pause::{Scope, Target};
use domain::time::Timestamp;

#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Pause {
    pub id: Uuid,
    #[serde(flatten, serialize_with = "as_scope_and_name")]
    #[with(target)]
    pub target: Target,
    #[column("until_at")]
    pub until: Timestamp,
    /// Who began it, as the audit has it.
    pub actor: String,
    pub begun_at: Timestamp,
    /// When an operator ended it.
    #[serde(skip)]
    pub ended_at: Option<Timestamp>,
}

fn as_scope_and_name<S: Serializer>(
    target: &Target,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("scope", target.scope().into_str())?;
    map.serialize_entry("name", target.name())?;
    map.end()
}

impl Pause {
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && self.until > now
    }
}

/// The columns in which a target stands. One of them is set.
fn columns(target: &Target) -> [Option<&str>; 5] {
    Scope::ALL.map(|scope| (target.scope() == scope).then_some(target.name()))
}

/// All pauses whose time is not over, the newest first. Those that an operator has ended are among them.
pub async fn known(db: &Db, now: Timestamp) -> Result<Vec<Pause>> {
    db.query(
        "select id, queue, provider, shop, connection, condition, until_at, actor, begun_at, ended_at from pauses
         where until_at > $1
         order by begun_at desc, id desc",
    )
    .bind(now.0)
    .all(Pause::from_row)
    .await
}

/// The pauses that are in force, the newest first.
pub async fn in_force(db: &Db, now: Timestamp) -> Result<Vec<Pause>> {
    let mut all = known(db, now).await?;
    all.retain(|pause| pause.is_in_force(now));
    Ok(all)
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<Pause>> {
    db.query(
        "select id, queue, provider, shop, connection, condition, until_at, actor, begun_at, ended_at from pauses
         where id = $1",
    )
    .bind(id)
    .first(Pause::from_row)
    .await
}

/// One of the columns of a target is set.
fn target(row: &Row) -> Result<Target> {
    for scope in Scope::ALL {
        if let Some(name) = row.get::<Option<String>>(scope.into_str())? {
            let read = Target::new(scope, &name);
            return read.map_err(|error| Error::Decode(Box::new(error)));
        }
    }
    Err(Error::Decode("a pause of nothing".into()))
}

/// Begins a pause. False when there is one with this id. Rows of pauses that are over are deleted.
pub async fn insert(tx: &mut Tx, pause: &Pause) -> Result<bool> {
    tx.query("delete from pauses where until_at <= $1")
        .bind(pause.begun_at.0)
        .execute()
        .await?;
    let [queue, provider, shop, connection, condition] = columns(&pause.target);
    tx.query(
        "insert into pauses (id, queue, provider, shop, connection, condition, until_at, actor, begun_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (id) do nothing",
    )
    .bind(pause.id)
    .bind(queue)
    .bind(provider)
    .bind(shop)
    .bind(connection)
    .bind(condition)
    .bind(pause.until.0)
    .bind(pause.actor.as_str())
    .bind(pause.begun_at.0)
    .changed_one()
    .await
}

/// Ends the pauses of this target that are in force, and returns their ids.
pub async fn end(tx: &mut Tx, target: &Target, now: Timestamp) -> Result<Vec<Uuid>> {
    let [queue, provider, shop, connection, condition] = columns(target);
    tx.query(
        "update pauses set ended_at = $1
         where ended_at is null and until_at > $1
           and coalesce(queue, '') = $2 and coalesce(provider, '') = $3
           and coalesce(shop, '') = $4 and coalesce(connection, '') = $5
           and coalesce(condition, '') = $6
         returning id",
    )
    .bind(now.0)
    .bind(queue.unwrap_or_default())
    .bind(provider.unwrap_or_default())
    .bind(shop.unwrap_or_default())
    .bind(connection.unwrap_or_default())
    .bind(condition.unwrap_or_default())
    .all(|row| row.get("id"))
    .await
}

/// Deletes what names a shop and was begun by then.
pub async fn forget_shop(tx: &mut Tx, shop: &str, until: Timestamp) -> Result<u64> {
    tx.query("delete from pauses where shop = $1 and begun_at <= $2")
        .bind(shop)
        .bind(until.0)
        .execute()
        .await
}

/// Defers due jobs to the end of a pause. Webhooks are tried for as much longer; the deadline of privacy
/// requests stays, because the law sets it.
pub async fn defer(
    tx: &mut Tx,
    ids: &[JobId],
    until: Timestamp,
    now: Timestamp,
    why: &str,
) -> Result<()> {
    jobs::defer(tx, ids, now, until, why).await?;
    tx.query(
        "update jobs set deadline_at = deadline_at + $1
         where state not in ('done', 'dead') and queue = $2 and deadline_at is not null
           and run_at = $3 and id in ($4..)",
    )
    .bind(until.0 - now.0)
    .bind(Queue::Endpoints.into_str())
    .bind(until.0)
    .bind(ids.to_vec())
    .done()
    .await
}

/// Makes jobs due that were deferred to the end of a pause, at most `limit` of one kind. Returns how many.
pub async fn wake(
    db: &Db,
    queue: Queue,
    kind: &str,
    until: Timestamp,
    now: Timestamp,
    limit: i64,
) -> Result<u64> {
    db.transact(
        "update jobs
         set run_at = $1,
             last_error = case
                 when exists (select 1 from job_attempts where job_id = jobs.id)
                 then last_error end
         where id in (
             select id from jobs
             where state = 'ready' and notified_at is null and run_at >= 0
               and queue = $2 and kind = $3 and run_at = $4
             limit $5
             for update skip locked
         )",
    )
    .bind(now.0)
    .bind(queue.into_str())
    .bind(kind)
    .bind(until.0)
    .bind(limit)
    .execute()
    .await
}
