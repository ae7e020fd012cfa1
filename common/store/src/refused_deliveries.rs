//! The `refused_deliveries` table: what was refused, by hour and reason, for an operator who asks why
//! nothing arrives. Nobody signed these deliveries, so anybody can cause rows: the key is made of
//! words of our own alone, and more of the same only count. Of the latest one it holds what its
//! headers said; of a body no more than a keyed hash.

use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::sql::{Db, FromRow, Result, Tx, column};
use domain::time::Timestamp;

/// How long they are kept.
pub const KEPT: Duration = Duration::from_hours(30 * 24);
/// Rows that are kept, whatever their age.
const MOST: i64 = 10_000;
const HOUR: i64 = 3_600_000;

/// Deliveries of one hour that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct Refused {
    /// `storefront` or `payment`.
    pub source: String,
    /// The connection at which it came, or whose shop it named; empty for the one that the settings make.
    pub connection: String,
    /// The profile that was chosen.
    pub profile: String,
    pub reason: String,
    /// What is wrong with the signature; empty when that is not why.
    pub signature: String,
    /// The signature's header of another profile; empty when there is none.
    pub header: String,
    /// The setting that would take them, or what else to do; empty when nothing would.
    pub advice: String,
    /// The status of the answer.
    pub status: i64,
    pub deliveries: i64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Names of headers of the latest that look like a signature's, with spaces between.
    pub headers: String,
    pub topic: Option<String>,
    pub shop: Option<String>,
    /// Seconds between the time that was signed and its arrival.
    pub age_seconds: Option<i64>,
    /// What two deliveries of one body have in common.
    pub body_key: Option<Uuid>,
}

/// Adds to what was counted in the same hour.
pub async fn add(tx: &mut Tx, refused: &[Refused]) -> Result<()> {
    let rows = refused.iter().map(|it| {
        [
            column("hour_at", hour(it.last_at)),
            column("source", &it.source),
            column("connection", &it.connection),
            column("profile", &it.profile),
            column("reason", &it.reason),
            column("signature", &it.signature),
            column("header", &it.header),
            column("advice", &it.advice),
            column("status", it.status),
            column("deliveries", it.deliveries),
            column("first_at", it.first_at),
            column("last_at", it.last_at),
            column("headers", &it.headers),
            column("topic", &it.topic),
            column("shop", &it.shop),
            column("age_seconds", it.age_seconds),
            column("body_key", it.body_key),
        ]
    });
    tx.insert(
        "refused_deliveries",
        rows.collect(),
        "on conflict (hour_at, source, connection, profile, reason, signature, header, advice) do update
         set deliveries = refused_deliveries.deliveries + excluded.deliveries,
             status = excluded.status, last_at = excluded.last_at, headers = excluded.headers, topic = excluded.topic,
             shop = excluded.shop, age_seconds = excluded.age_seconds,
             body_key = excluded.body_key",
    )
    .await?;
    Ok(())
}

/// The kinds of refused deliveries of which one came since then, the latest first.
/// Where a connection is given, only what came by that one counts; `default` is the one that the settings make.
pub async fn list(db: &Db, connection: &str, since: Timestamp, limit: i64) -> Result<Vec<Refused>> {
    db.query(
        "select source, connection, profile, reason, signature, header, advice, status, deliveries,
                first_at, last_at, headers, topic, shop, age_seconds, body_key
         from refused_deliveries
         where last_at >= $1 and ($2 = '' or connection = case $2 when 'default' then '' else $2 end)
         order by last_at desc, source, connection, reason, signature, header
         limit $3",
    )
    .bind(since.0)
    .bind(connection)
    .bind(limit)
    .all(Refused::from_row)
    .await
}

/// All of the hour of this time and of later hours, by the primary key. There are never many, because
/// the key has only words of our own.
pub async fn of_hour(db: &Db, at: Timestamp) -> Result<Vec<Refused>> {
    db.query(
        "select source, connection, profile, reason, signature, header, advice, status, deliveries,
                first_at, last_at, headers, topic, shop, age_seconds, body_key
         from refused_deliveries
         where hour_at >= $1
         order by last_at, source, connection, profile, reason, signature, header, advice",
    )
    .bind(hour(at))
    .all(Refused::from_row)
    .await
}

/// When the hour of this time began.
pub fn hour(at: Timestamp) -> i64 {
    at.0 / HOUR * HOUR
}

/// All that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, FromRow)]
pub struct Summary {
    pub source: String,
    /// Empty: the one that the settings make.
    pub connection: String,
    pub reason: String,
    pub signature: String,
    pub header: String,
    pub advice: String,
    pub deliveries: i64,
    pub last_at: Timestamp,
}

/// By reason, those that came most often first. An hour counts whole.
pub async fn summary(db: &Db, since: Timestamp) -> Result<Vec<Summary>> {
    db.query(
        "select source, connection, reason, signature, header, advice,
                cast(sum(deliveries) as bigint) as deliveries, max(last_at) as last_at
         from refused_deliveries
         where last_at >= $1
         group by source, connection, reason, signature, header, advice
         order by 7 desc, source, connection, reason, signature, header, advice",
    )
    .bind(since.0)
    .all(Summary::from_row)
    .await
}

/// Deletes what refused deliveries said of a shop that is erased. Nobody signed them, so a later one
/// that names the shop is a stranger's and is kept like any other.
pub async fn forget_shop(tx: &mut Tx, shop: &str) -> Result<u64> {
    tx.query("delete from refused_deliveries where shop = $1")
        .bind(shop)
        .execute()
        .await
}

/// Deletes those that are older than this, and the oldest when there are too many.
pub async fn forget(db: &Db, before: Timestamp) -> Result<()> {
    db.transact(
        "delete from refused_deliveries
         where hour_at < $1
            or hour_at < (select hour_at from refused_deliveries order by hour_at desc limit 1 offset $2)",
    )
    .bind(before.0)
    .bind(MOST)
    .done()
    .await
}

/// Why they were refused, in a few words: `signature missing`, `rate`.
pub fn why(reason: &str, signature: &str) -> String {
    format!("{reason} {signature}").trim_end().to_owned()
}

/// What to do, as a sentence. An advice that is no setting is one already.
pub fn set(advice: &str) -> String {
    let is_setting = ["STOREFRONT_", "PAYMENT_", "WEBHOOK_"];
    if is_setting.iter().any(|prefix| advice.starts_with(prefix)) {
        format!("set {advice}")
    } else {
        advice.to_owned()
    }
}
