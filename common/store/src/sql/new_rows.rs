//! Rows of several tables that are inserted together if their id is new.

use platform::crash_point::{self, Moment};

use super::insert::{Cell, arrays, insert_postgres, names};
use super::tx::{Undetermined, in_time, open};
use super::{Db, Error, Result, Row, acquire, is_connection_error};
use config::database::Pooling;

/// Rows of one table, all with the same columns.
pub(crate) struct Rows<'r, 'v> {
    pub table: &'static str,
    pub rows: Vec<&'r [Cell<'v>]>,
}

impl<'r, 'v> Rows<'r, 'v> {
    pub fn new(table: &'static str, rows: &'r [impl AsRef<[Cell<'v>]>]) -> Self {
        let rows = rows.iter().map(AsRef::as_ref).collect();
        Rows { table, rows }
    }
}

impl Db {
    /// Whether [`Db::insert_new`] is possible. SQLite has no such statement, and nothing between it and us for which a
    /// transaction would wait. A pooler may give the statement a connection that has not got our settings.
    pub(crate) fn inserts_new(&self) -> bool {
        let session = Pooling::Session;
        matches!(self, Db::Postgres { pooling, .. } if *pooling == session)
    }

    /// Inserts those of the rows `ids` whose `id` is not there yet, and the rows of the two other tables whose `id` is the
    /// `job_id` of one that was inserted. Returns the `job_id` of these. It is one statement and a transaction of its own, so
    /// the server is waited for once. After an error it is unknown whether the rows were inserted if
    /// [`is_connection_error`] says so.
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn insert_new(
        &self,
        ids: Rows<'_, '_>,
        others: [Rows<'_, '_>; 2],
    ) -> impl Future<Output = Result<Vec<Row>>> + Send {
        let crash_points = crash_point::Transaction::begun_here();
        async move {
            let Db::Postgres {
                pool,
                pooling: Pooling::Session,
                outdated,
            } = self
            else {
                let why = "this database cannot insert into several tables at once";
                return Err(Error::Configuration(why.into()));
            };
            crash_points.begins().await?;
            let sql = statement(&ids, &others);
            let [first, second] = &others;
            let tables = [&*ids.rows, &*first.rows, &*second.rows];
            // If the future is dropped half way, the connection is closed.
            let mut connection = Undetermined(Some(acquire(pool).await?));
            crash_points.reach(Moment::Commit).await?;
            let inserted = insert_postgres(open(&mut connection.0)?, true, sql, &tables);
            let inserted = in_time(inserted).await;
            if let Err(error) = &inserted {
                outdated.mark_if_read_only(error);
            }
            if !inserted.as_ref().is_err_and(is_connection_error) {
                drop(connection.0.take());
            }
            let inserted = inserted?;
            crash_points.reach(Moment::Committed).await?;
            Ok(inserted)
        }
    }
}

/// The condition says `is true` so that the server looks each row up in a hash of the new ids as it comes. It might plan a
/// join otherwise, and insert the rows in the sequence of the random ids.
fn statement(ids: &Rows<'_, '_>, others: &[Rows<'_, '_>; 2]) -> String {
    let columns = names(ids.rows[0]);
    let arrays_of_ids = arrays(ids.rows[0], 1);
    let mut first = 1 + ids.rows[0].len();
    let [insert, last] = others.each_ref().map(|Rows { table, rows }| {
        let (columns, given) = (names(rows[0]), arrays(rows[0], first));
        first += rows[0].len();
        format!(
            "insert into {table} ({columns})
             select {columns} from unnest({given}) as given ({columns})
             where (given.id in (select job_id from new)) is true"
        )
    });
    format!(
        "with new as (
             insert into {} ({columns}) select * from unnest({arrays_of_ids})
             on conflict (id) do nothing returning job_id
         ), inserted as ({insert})
         {last}
         returning id as job_id",
        ids.table
    )
}
