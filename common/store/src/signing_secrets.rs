//! The `signing_secrets` table: with which secret of a provider a delivery was verified last. A process writes once a
//! minute what it has verified, so a time may be a minute late.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::sql::{Db, Result, column};
use domain::job::Source;
use domain::time::Timestamp;

/// A secret that is set.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// storefront, payment
    pub source: &'static str,
    /// 0 for the first of the setting, which is the newest.
    pub place: usize,
    pub fingerprint: String,
    /// None when nothing was ever verified with it.
    pub verified_at: Option<Timestamp>,
}

impl Entry {
    /// The place in the setting, in words.
    pub fn place_name(&self) -> String {
        match self.place {
            0 => "newest".to_owned(),
            1 => "former".to_owned(),
            more => format!("former {more}"),
        }
    }
}

/// Writes when a delivery was verified last with each of these secrets, by source and fingerprint. An earlier time
/// than the stored one changes nothing.
pub async fn verified(db: &Db, last: &BTreeMap<(Source, &str), Timestamp>) -> Result<()> {
    if last.is_empty() {
        return Ok(());
    }
    let rows = last.iter().map(|((source, secret), at)| {
        [
            column("source", source.into_str()),
            column("fingerprint", *secret),
            column("verified_at", *at),
        ]
    });
    let rest = "on conflict (source, fingerprint) do update set verified_at = excluded.verified_at
         where excluded.verified_at > signing_secrets.verified_at";
    let mut tx = db.begin().await?;
    tx.insert("signing_secrets", rows.collect(), rest).await?;
    tx.commit().await
}

/// When each secret verified a delivery last, by source and fingerprint.
pub async fn verified_at(db: &Db) -> Result<BTreeMap<(Source, String), Timestamp>> {
    let rows: Vec<(String, String, Timestamp)> = db
        .query("select source, fingerprint, verified_at from signing_secrets")
        .all(|row| {
            Ok((
                row.get("source")?,
                row.get("fingerprint")?,
                row.get("verified_at")?,
            ))
        })
        .await?;
    let known = rows
        .into_iter()
        .filter_map(|(source, fingerprint, at)| Some(((source.parse().ok()?, fingerprint), at)));
    Ok(known.collect())
}

/// The secrets that are set, newest first for each source, with when each verified a delivery last.
pub async fn list(db: &Db, set: &BTreeMap<Source, Vec<String>>) -> Result<Vec<Entry>> {
    let last = verified_at(db).await?;
    let of = |source: Source, place: usize, fingerprint: &String| Entry {
        source: source.into_str(),
        place,
        fingerprint: fingerprint.clone(),
        verified_at: last.get(&(source, fingerprint.clone())).copied(),
    };
    let all = set.iter().flat_map(|(source, fingerprints)| {
        let places = fingerprints.iter().enumerate();
        places.map(|(place, fingerprint)| of(*source, place, fingerprint))
    });
    Ok(all.collect())
}
