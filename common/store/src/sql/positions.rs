//! How each of the two databases gives events their positions, and how far it has given them. What readers may
//! conclude is said in `event_head`.
//!
//! SQLite has one writer, so a counter in the table `event_head` counts in the sequence of the commits. PostgreSQL has
//! a sequence, for which no writer waits. There a writer that is about to take positions from it first takes an
//! advisory lock, its mark, shared with all others and until its transaction ends. The lock's first key is the
//! sequence, and its second one the last position that was given before, modulo 2^31.

use std::time::Duration;

use super::insert::{Cell, arrays, column, insert_postgres, names};
use super::tx::{Connection, in_time, open};
use super::{Db, Result, Row, Tx};

/// The second key of an advisory lock is of 31 bits.
const KEYS: i64 = 1 << 31;

impl Tx {
    /// Inserts events in this sequence and gives them the next positions. It is the last thing that a transaction
    /// does before its commit, because from here on readers of a server wait for its end.
    pub(crate) async fn insert_events<'v>(
        &mut self,
        rows: Vec<impl AsRef<[Cell<'v>]>>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let Connection::Postgres(connection) = &mut self.connection else {
            return self.insert_counted(&rows).await;
        };
        let sql = insert(rows[0].as_ref());
        let connection = open(connection)?;
        let tables = [&*rows];
        let inserted = insert_postgres(connection, self.persistent, sql, &tables);
        let inserted = in_time(inserted).await.map(|_| ());
        self.ran("insert into events", inserted).await
    }

    async fn insert_counted<'v>(&mut self, rows: &[impl AsRef<[Cell<'v>]>]) -> Result<()> {
        let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let counted = self.query(
            "insert into event_head (id, position) values (1, $1)
             on conflict (id) do update set position = event_head.position + excluded.position
             returning position",
        );
        let last: i64 = counted.bind(count).fetch_one().await?.get("position")?;
        let placed = (last - count + 1..).zip(rows);
        let placed = placed.map(|(position, row)| {
            let mut cells = vec![column("position", position)];
            cells.extend(row.as_ref().iter().cloned());
            cells
        });
        self.insert("events", placed.collect(), "").await?;
        Ok(())
    }

    /// Has the next position come after this one, if it does not yet.
    pub(crate) async fn give_after(&mut self, position: i64) -> Result<()> {
        let raise = match self.connection {
            Connection::Postgres(_) => {
                "select setval('event_positions', $1) as given from event_positions
                 where $1 > case when is_called then last_value else last_value - 1 end"
            }
            Connection::Sqlite(_) => {
                "insert into event_head (id, position) values (1, $1)
                 on conflict (id) do update set position = excluded.position
                 where event_head.position < excluded.position"
            }
        };
        self.query(raise).bind(position).done().await
    }
}

/// Each row is joined with the mark before it is given its position, so the mark is there before the first position.
fn insert(row: &[Cell<'_>]) -> String {
    let names = names(row);
    format!(
        "with mark as materialized (
             select pg_advisory_xact_lock_shared(
                 cast(cast('event_positions' as regclass) as int), cast(given % {KEYS} as int))
             from (select case when is_called then last_value else last_value - 1 end as given
                   from event_positions) as now
         )
         insert into events (position, {names})
         select nextval('event_positions'), {names}
         from (select {names} from mark, unnest({}) with ordinality as given ({names}, nth) order by nth) as sorted",
        arrays(row, 1)
    )
}

impl Db {
    /// The last position that was given; 0 when none was.
    pub(crate) async fn last_given(&self) -> Result<i64> {
        let asked = match self {
            Db::Postgres { .. } => self.query(
                "select case when is_called then last_value else last_value - 1 end as position
                 from event_positions",
            ),
            Db::Sqlite { .. } => self.query("select position from event_head where id = 1"),
        };
        let row = asked.fetch_optional().await?;
        row.map_or(Ok(0), |row| row.get("position"))
    }

    /// The first mark of the transactions that have not ended: all positions that they were given come after it. None
    /// without such a transaction. `given` is the last position of a moment ago.
    pub(crate) async fn first_mark(&self, given: i64) -> Result<Option<i64>> {
        let Db::Postgres { .. } = self else {
            return Ok(None);
        };
        let marks = self.query(
            "select cast(objid as bigint) as mark from pg_locks
             where locktype = 'advisory' and objsubid = 2 and classid = cast('event_positions' as regclass)
               and database = (select oid from pg_database where datname = current_database())",
        );
        let marks: Vec<i64> = marks.all(|row| row.get("mark")).await?;
        Ok(marks.into_iter().map(|mark| near(mark, given)).min())
    }

    /// The session that has held readers back the longest: it has written events, and its transaction has not ended.
    pub async fn events_held_back(&self) -> Result<Option<HeldBack>> {
        let Db::Postgres { .. } = self else {
            return Ok(None);
        };
        // What it ran last is its insert of the events, or the commit after it.
        let held = self.query(
            "select cast(pg_locks.pid as bigint) as process,
                    cast(extract(epoch from clock_timestamp() - query_start) * 1000 as bigint) as age
             from pg_locks join pg_stat_activity on pg_stat_activity.pid = pg_locks.pid
             where locktype = 'advisory' and objsubid = 2 and classid = to_regclass('event_positions')
               and database = (select oid from pg_database where datname = current_database())
             order by query_start limit 1",
        );
        let read = |row: &Row| {
            let age: Option<i64> = row.get("age")?;
            let age = age.unwrap_or_default().try_into().unwrap_or_default();
            Ok(HeldBack {
                process: row.get("process")?,
                age: Duration::from_millis(age),
            })
        };
        held.first(read).await
    }
}

/// A session of a server for which readers of events wait, and for how long they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    pub process: i64,
    pub age: Duration,
}

/// The position with this second key that is nearest to `given`. It may come after it, because others go on.
fn near(key: i64, given: i64) -> i64 {
    let half = KEYS / 2;
    given + (key - given + half).rem_euclid(KEYS) - half
}

#[cfg(test)]
#[path = "../../tests/unit/sql/positions.rs"]
mod tests;
