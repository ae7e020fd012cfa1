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
    /// When the first of them, and the last, was worked on.
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

#[derive(FromRow)]
struct Row {
    shop: String,
    member: String,
    state: String,
    first_at: Timestamp,
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
            "select shop, member, state, first_at from shapes
             where source = $1 and kind = $2 and shop in ($3..)",
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
                let change = known.map(|change| ((row.member, *change), row.first_at));
                usual.changed.extend(change);
            }
        }
    }
    Ok(all)
}

/// Adds to the rows, which are in the sequence of their keys. Those that are not there are made.
pub async fn add(tx: &mut Tx, additions: &[Addition<'_>]) -> Result<()> {
    let rows = additions.iter().map(|it| {
        [
            column("source", it.key.source.into_str()),
            column("shop", &it.key.shop),
            column("kind", it.key.kind),
            column("member", it.member),
            column("state", it.state.into_str()),
            column("api_version", &it.api_version),
            column("deliveries", it.deliveries),
            column("first_at", it.first_at),
            column("last_at", it.last_at),
        ]
    });
    tx.insert(
        "shapes",
        rows.collect(),
        "on conflict (source, shop, kind, member, state) do update
         set deliveries = shapes.deliveries + excluded.deliveries,
             api_version = coalesce(excluded.api_version, shapes.api_version),
             last_at = case when excluded.last_at > shapes.last_at
                            then excluded.last_at else shapes.last_at end",
    )
    .await?;
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

/// A member that has changed, for all shops and accounts.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Changed {
    pub kind: String,
    pub member: String,
    pub state: Change,
    /// The greatest that a changed delivery names.
    pub api_version: Option<String>,
    pub deliveries: i64,
    /// How many shops and accounts sent them.
    pub senders: i64,
}

/// The changes that are new at this time and that a delivery had since then.
pub async fn changed(db: &Db, since: Timestamp, now: Timestamp) -> Result<Vec<Changed>> {
    db.query(
        "select kind, member, state, max(api_version) as api_version,
                cast(sum(deliveries) as bigint) as deliveries, count(*) as senders
         from shapes
         where deliveries > 0 and last_at >= $1 and first_at >= $2
         group by kind, member, state
         order by kind, member, state",
    )
    .bind(since.0)
    .bind(now.minus(NEW).0)
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
