//! The `shapes` table: which members the bodies of a shop or an account have, by topic or type, and what has changed of
//! them (`domain::shape`). It has names of members and no value.

use std::collections::BTreeMap;

use domain::job::{JobId, Source};
use domain::shape::{Change, Member, NEW, Usual};
use domain::time::Timestamp;
use strum::VariantArray as _;

use crate::sql::{Db, FromRow, Result, Tx, column};

/// The deliveries of a topic or type of a shop or an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub source: Source,
    /// Empty when the deliveries name none.
    pub shop: String,
    pub kind: &'static str,
}

/// What a row says of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Always,
    Sometimes,
    Changed(Change),
}

impl State {
    fn into_str(self) -> &'static str {
        match self {
            State::Always => "always",
            State::Sometimes => "sometimes",
            State::Changed(change) => change.into_str(),
        }
    }
}

/// What is added to a row.
#[derive(Clone, Debug)]
pub struct Addition<'a> {
    pub key: &'a Key,
    pub member: &'static str,
    pub state: State,
    pub api_version: Option<String>,
    pub deliveries: i64,
}

#[derive(FromRow)]
struct Row {
    shop: String,
    member: String,
    state: String,
}

/// What is usual for deliveries of these shops or accounts.
pub async fn usual(
    db: &Db,
    source: Source,
    kind: &str,
    shops: Vec<String>,
) -> Result<Vec<(String, Usual)>> {
    let new = |shop: &String| (shop.clone(), Usual::default());
    let mut all: Vec<(String, Usual)> = shops.iter().map(new).collect();
    let rows: Vec<Row> = db
        .query(
            "select shop, member, state from shapes where source = $1 and kind = $2 and shop in ($3..)",
        )
        .bind(source.into_str())
        .bind(kind)
        .bind(shops)
        .all(Row::from_row)
        .await?;
    for row in rows {
        let Some((_, usual)) = all.iter_mut().find(|(shop, _)| *shop == row.shop) else {
            continue;
        };
        // A newer version may have written a member that this one does not know.
        let member = row.member.parse::<Member>();
        match (row.state.as_str(), member) {
            ("always", Ok(member)) => usual.always.add(member),
            ("sometimes", Ok(member)) => usual.sometimes.add(member),
            (state, _) => {
                let known = Change::VARIANTS.iter().find(|it| it.into_str() == state);
                let change = known.map(|change| (row.member, *change));
                usual.changed.extend(change);
            }
        }
    }
    Ok(all)
}

/// Adds to the rows, which are in the sequence of their keys. Those that are not there are made.
pub async fn add(tx: &mut Tx, additions: &[Addition<'_>], now: Timestamp) -> Result<()> {
    let rows = additions.iter().map(|it| {
        [
            column("source", it.key.source.into_str()),
            column("shop", &it.key.shop),
            column("kind", it.key.kind),
            column("member", it.member),
            column("state", it.state.into_str()),
            column("api_version", &it.api_version),
            column("deliveries", it.deliveries),
            column("first_at", now),
            column("last_at", now),
        ]
    });
    let new = i64::try_from(NEW.as_millis()).unwrap_or(i64::MAX);
    // A change that comes back after so long is a new one.
    let rest = format!(
        "on conflict (source, shop, kind, member, state) do update
         set deliveries = case when shapes.last_at < excluded.last_at - {new}
                               then excluded.deliveries else shapes.deliveries + excluded.deliveries end,
             first_at = case when shapes.last_at < excluded.last_at - {new}
                             then excluded.first_at else shapes.first_at end,
             last_at = excluded.last_at,
             api_version = excluded.api_version"
    );
    tx.insert("shapes", rows.collect(), &rest).await?;
    Ok(())
}

/// The versions of the provider's API that deliveries name, by their ids.
pub async fn api_versions(db: &Db, ids: Vec<JobId>) -> Result<BTreeMap<JobId, String>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(JobId, String)> = db
        .query(
            "select id, api_version from deliveries where id in ($1..) and api_version is not null",
        )
        .bind(ids)
        .all(|row| Ok((row.get("id")?, row.get("api_version")?)))
        .await?;
    Ok(rows.into_iter().collect())
}

/// A member that has changed.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Changed {
    pub shop: String,
    pub kind: String,
    pub member: String,
    pub state: Change,
    pub api_version: Option<String>,
    pub deliveries: i64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

/// The latest changes that are new at this time and that a delivery had since then.
pub async fn changed(
    db: &Db,
    since: Timestamp,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Changed>> {
    db.query(
        "select shop, kind, member, state, api_version, deliveries, first_at, last_at from shapes
         where deliveries > 0 and last_at >= $1 and first_at >= $2
         order by last_at desc, kind, member limit $3",
    )
    .bind(since.0)
    .bind(now.minus(NEW).0)
    .bind(limit)
    .all(Changed::from_row)
    .await
}

/// Forgets what the deliveries of a shop were like.
pub async fn forget_shop(tx: &mut Tx, shop: &str) -> Result<u64> {
    tx.query("delete from shapes where source = 'storefront' and shop = $1")
        .bind(shop)
        .execute()
        .await
}
