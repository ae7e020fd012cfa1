//! What was refused, counted in memory and written every other second, so that no request waits
//! for it. The keys are words of our own (`store::refused_deliveries`): however many strangers post
//! whatever they like, memory and table stay small. What cannot be written is counted further.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::job::Source;
use domain::privacy::Keys;
use domain::time::Timestamp;
use platform::lock::lock;
use platform::task;
use store::refused_deliveries::{self, Refused as Row};
use store::sql::{self, Db};
use tokio_util::sync::CancellationToken;

use crate::App;
use crate::delivery::Refused;

const PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: &'static str,
    connection: String,
    profile: &'static str,
    reason: &'static str,
    signature: &'static str,
    header: &'static str,
    advice: &'static str,
}

/// Clones share what they count.
#[derive(Clone, Default)]
pub struct RefusedLog(Arc<Mutex<BTreeMap<Key, Row>>>);

impl RefusedLog {
    /// Counts a delivery.
    pub fn add(
        &self,
        source: Source,
        profile: &'static str,
        refused: &Refused,
        keys: &Keys,
        now: Timestamp,
    ) {
        let key = Key {
            source: source.into_str(),
            connection: refused.by.connection.clone(),
            profile,
            reason: refused.error.reason(),
            signature: refused.signature.map_or("", |it| it.into_str()),
            header: refused.clue.map_or("", |clue| clue.header),
            advice: refused.advice(source),
        };
        if let Some(row) = lock(&self.0).get_mut(&key) {
            row.deliveries += 1;
            row.last_at = now;
            return;
        }
        // Only of the first since they were written last: bodies are long.
        let row = row(&key, refused, keys, now);
        let mut rows = lock(&self.0);
        let counted = rows.entry(key).or_insert(row);
        counted.deliveries += 1;
    }

    /// Writes what was counted since the last time.
    pub async fn write(&self, db: &Db) -> sql::Result<()> {
        let rows = std::mem::take(&mut *lock(&self.0));
        if rows.is_empty() {
            return Ok(());
        }
        let of_all: Vec<Row> = rows.values().cloned().collect();
        let written = write(db, &of_all).await;
        if written.is_err() {
            self.put_back(rows);
        }
        written
    }

    fn put_back(&self, rows: BTreeMap<Key, Row>) {
        let mut counted = lock(&self.0);
        for (key, row) in rows {
            match counted.get_mut(&key) {
                Some(newer) => {
                    newer.deliveries += row.deliveries;
                    newer.first_at = row.first_at;
                }
                None => {
                    counted.insert(key, row);
                }
            }
        }
    }
}

async fn write(db: &Db, rows: &[Row]) -> sql::Result<()> {
    let mut tx = db.begin().await?;
    refused_deliveries::add(&mut tx, rows).await?;
    tx.commit().await
}

fn row(key: &Key, refused: &Refused, keys: &Keys, now: Timestamp) -> Row {
    let about = &refused.about;
    let signed_at = refused.signed_at.and_then(|at| i64::try_from(at).ok());
    Row {
        source: key.source.to_owned(),
        connection: key.connection.clone(),
        profile: key.profile.to_owned(),
        reason: key.reason.to_owned(),
        signature: key.signature.to_owned(),
        header: key.header.to_owned(),
        advice: key.advice.to_owned(),
        status: i64::from(refused.error.status().as_u16()),
        deliveries: 0,
        first_at: now,
        last_at: now,
        headers: about.headers.clone(),
        topic: about.topic.clone(),
        shop: about.shop.clone(),
        age_seconds: signed_at.map(|at| now.unix_seconds().saturating_sub(at)),
        body_key: refused.body.as_ref().map(|body| keys.body(body)),
    }
}

/// Writes what is counted, until `shutdown`. What is counted after it is the caller's to write.
pub fn write_regularly(app: &Arc<App>, shutdown: &CancellationToken) {
    let (log, db) = (app.refused.clone(), app.db.clone());
    let shutdown = shutdown.clone();
    task::spawn("refused deliveries", async move {
        while shutdown
            .run_until_cancelled(tokio::time::sleep(PAUSE))
            .await
            .is_some()
        {
            if let Err(error) = log.write(&db).await {
                tracing::debug!(%error, "refused deliveries are written later");
            }
        }
    });
}
