//! The `measures` table: what each process counted in each minute, for the charts of the console. A process
//! writes once a minute with one statement, and nothing when it counted nothing, so a row that is missing
//! means 0. Rows are added up over processes; of what is the same for all processes ([`SHARED`]) the largest
//! counts. What is older than two hours is kept by ten minutes, for eight days, so the number of rows is
//! bounded however much comes.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::time::Timestamp;

pub const MINUTE: Duration = Duration::from_mins(1);
/// The length of the intervals in which older rows are summed up.
pub const TEN_MINUTES: Duration = Duration::from_mins(10);
/// How long the rows of single minutes are kept.
pub const MINUTES_KEPT: Duration = Duration::from_hours(2);
/// How long any row is kept.
pub const KEPT: Duration = Duration::from_hours(8 * 24);
/// Names of what is the same for all processes begin so.
pub const SHARED: &str = "queue_";

/// What was measured in the minute or the ten minutes from this time on.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Measure {
    #[column("begun_at")]
    pub at: Timestamp,
    pub name: String,
    pub value: i64,
}

/// The beginning of the minute, or of another period, in which a time is.
pub fn begin(at: Timestamp, period: Duration) -> Timestamp {
    let period = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    Timestamp(at.0 - at.0.rem_euclid(period))
}

/// Writes what a process counted in a minute.
pub async fn add(
    db: &Db,
    process: Uuid,
    minute: Timestamp,
    measured: &BTreeMap<String, i64>,
) -> Result<()> {
    if measured.is_empty() {
        return Ok(());
    }
    let rows: Vec<Measure> = measured
        .iter()
        .map(|(name, value)| Measure {
            at: begin(minute, MINUTE),
            name: name.clone(),
            value: *value,
        })
        .collect();
    let mut tx = db.begin().await?;
    insert(&mut tx, MINUTE, process, &rows).await?;
    tx.commit().await
}

async fn insert(tx: &mut Tx, period: Duration, process: Uuid, rows: &[Measure]) -> Result<()> {
    let seconds = i64::try_from(period.as_secs()).unwrap_or(i64::MAX);
    let rows = rows.iter().map(|it| {
        [
            column("seconds", seconds),
            column("begun_at", it.at),
            column("name", &it.name),
            column("process_id", process),
            column("value", it.value),
        ]
    });
    let rest = "on conflict (seconds, begun_at, name, process_id) do update
         set value = case when measures.name like 'queue!_%' escape '!'
                          then case when excluded.value > measures.value then excluded.value
                                    else measures.value end
                          else measures.value + excluded.value end";
    tx.insert("measures", rows.collect(), rest).await?;
    Ok(())
}

/// What all processes measured since then, by minutes, with the ten minutes that were summed up.
pub async fn since(db: &Db, from: Timestamp) -> Result<Vec<Measure>> {
    db.query(
        "select begun_at, name,
                    cast(case when name like 'queue!_%' escape '!' then max(value)
                              else sum(value) end as bigint) as value
             from measures
             where seconds in (60, 600) and begun_at >= $1
             group by begun_at, name
             order by begun_at, name",
    )
    .bind(from.0)
    .all(Measure::from_row)
    .await
}

/// Sums minutes up that are older than two hours, and deletes what is older than eight days. Who does it at
/// the same time as another one finds the rows taken, so none counts twice.
pub async fn roll_up(db: &Db, now: Timestamp) -> Result<()> {
    let until = begin(now.minus(MINUTES_KEPT), TEN_MINUTES);
    let mut tx = db.begin().await?;
    let deleted: Vec<(i64, String, i64)> = tx
        .query(
            "delete from measures where seconds = 60 and begun_at < $1
             returning begun_at, name, value",
        )
        .bind(until.0)
        .all(|row| Ok((row.get("begun_at")?, row.get("name")?, row.get("value")?)))
        .await?;
    let mut minutes: BTreeMap<(i64, String), i64> = BTreeMap::new();
    for (at, name, value) in deleted {
        let is_shared = name.starts_with(SHARED);
        let sum = minutes.entry((begin(Timestamp(at), TEN_MINUTES).0, name));
        let sum = sum.or_default();
        if is_shared {
            *sum = value.max(*sum);
        } else {
            *sum += value;
        }
    }
    let tens: Vec<Measure> = minutes
        .into_iter()
        .map(|((at, name), value)| Measure {
            at: Timestamp(at),
            name,
            value,
        })
        .collect();
    if !tens.is_empty() {
        insert(&mut tx, TEN_MINUTES, Uuid::nil(), &tens).await?;
    }
    tx.query("delete from measures where seconds = 600 and begun_at < $1")
        .bind(now.minus(KEPT).0)
        .execute()
        .await?;
    tx.commit().await
}
