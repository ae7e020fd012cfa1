//! The `audit` table: what was done to people's data, and what operators did to jobs, licences,
//! organizations and API keys; when, by whom, and how much of it; no personal data. Entries are only added. The hash of each is made with our key of the entry
//! and the hash before it, so that one that is changed, removed or put in between is found
//! by [`verify`].

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::privacy::Keys;
use crate::sql::{Db, Result, Row, Tx};

/// Who did it.
pub const STOREFRONT: &str = "storefront";
pub const WORKER: &str = "worker";
pub const OPERATOR: &str = "operator";
/// Whoever has a link to an export.
pub const LINK: &str = "link";

/// Who does something, and when.
#[derive(Clone, Copy)]
pub struct By<'a> {
    pub keys: &'a Keys,
    /// As in the audit.
    pub actor: &'a str,
    pub now: Timestamp,
}

impl By<'_> {
    /// Adds an entry of what they do, which is of no shop. As [`append`]: last of all.
    pub async fn note(
        self,
        tx: &mut Tx,
        action: &str,
        object_id: impl ToString,
        details: Value,
    ) -> Result<()> {
        let new = New {
            actor: self.actor,
            action,
            object_id: &object_id.to_string(),
            shop: None,
            details,
        };
        append(tx, self.keys, new, self.now).await?;
        Ok(())
    }
}

/// An entry to be added.
pub struct New<'a> {
    pub actor: &'a str,
    /// `export.written`, `customer.erased`, ..
    pub action: &'a str,
    /// The request, job, licence, .. it was done to.
    pub object_id: &'a str,
    pub shop: Option<&'a str>,
    /// Counts and ids, as a JSON object.
    pub details: Value,
}

/// What was done to people's data, by whom, when.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct Entry {
    pub number: i64,
    pub at: Timestamp,
    /// `storefront`, `worker`, `link`, `key:<name of an API key>`, ..
    #[schema(example = "storefront")]
    pub actor: String,
    #[schema(example = "request.received")]
    pub action: String,
    pub object_id: String,
    #[schema(example = "shop.example")]
    pub shop: Option<String>,
    /// Counts and ids.
    #[schema(value_type = Object)]
    pub details: Value,
    /// Of this entry and the one before it, in hex.
    pub hash: String,
    /// As it was hashed.
    #[serde(skip)]
    text: String,
}

/// Adds an entry. Who adds one locks the chain until its commit: let it be the last statement.
pub async fn append(tx: &mut Tx, keys: &Keys, new: New<'_>, now: Timestamp) -> Result<i64> {
    tx.query(
        "insert into audit_head (id, number, hash) values (1, 0, $1) on conflict (id) do nothing",
    )
    .bind([0u8; 32].as_slice())
    .execute()
    .await?;
    let head = tx
        .query("select number, hash from audit_head where id = 1 for update")
        .fetch_one()
        .await?;
    let number = head.get::<i64>("number")? + 1;
    let before: Vec<u8> = head.get("hash")?;
    let text = new.details.to_string();
    let hash = hash(
        keys,
        &before,
        number,
        now,
        [new.actor, new.action, new.object_id],
        new.shop,
        &text,
    );
    tx.query(
        "insert into audit (number, at, actor, action, object_id, shop, details, hash)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(number)
    .bind(now.0)
    .bind(new.actor)
    .bind(new.action)
    .bind(new.object_id)
    .bind(new.shop)
    .bind(text.as_str())
    .bind(hash.as_slice())
    .execute()
    .await?;
    tx.query("update audit_head set number = $1, hash = $2 where id = 1")
        .bind(number)
        .bind(hash.as_slice())
        .execute()
        .await?;
    Ok(number)
}

/// Entries after `after`, oldest first; of one object, if it is given.
pub async fn list(db: &Db, object_id: Option<&str>, after: i64, limit: i64) -> Result<Vec<Entry>> {
    let query = match object_id {
        Some(object_id) => db
            .query(
                "select number, at, actor, action, object_id, shop, details, hash from audit
                 where number > $1 and object_id = $3 order by number limit $2",
            )
            .bind(after)
            .bind(limit)
            .bind(object_id),
        None => db
            .query(
                "select number, at, actor, action, object_id, shop, details, hash from audit
                 where number > $1 order by number limit $2",
            )
            .bind(after)
            .bind(limit),
    };
    query.fetch_all().await?.iter().map(read).collect()
}

/// The newest entries, newest first.
pub async fn newest(db: &Db, limit: i64) -> Result<Vec<Entry>> {
    let rows = db
        .query(
            "select number, at, actor, action, object_id, shop, details, hash from audit
             order by number desc limit $1",
        )
        .bind(limit)
        .fetch_all()
        .await?;
    rows.iter().map(read).collect()
}

/// What a check of the whole chain found.
#[derive(Debug, Serialize)]
pub struct Chain {
    pub entries: i64,
    /// The last entry's hash, in hex: kept elsewhere, it shows later that none before it changed.
    pub head: String,
    /// The first entry that is not as it was written, and what is wrong.
    pub broken: Option<Broken>,
}

#[derive(Debug, Serialize)]
pub struct Broken {
    pub number: i64,
    pub problem: &'static str,
}

/// Checks every entry against the one before it.
pub async fn verify(db: &Db, keys: &Keys) -> Result<Chain> {
    const AT_ONCE: i64 = 1000;
    // Read first: entries that are added meanwhile come after it.
    let head = db
        .query("select number, hash from audit_head where id = 1")
        .fetch_optional()
        .await?;
    let (last, head) = match head {
        Some(row) => (row.get::<i64>("number")?, row.get::<Vec<u8>>("hash")?),
        None => (0, vec![0; 32]),
    };
    let mut before = vec![0; 32];
    let mut number = 0;
    let broken = 'chain: loop {
        let entries = list(db, None, number, AT_ONCE).await?;
        if entries.is_empty() {
            break 'chain (number < last).then_some(Broken {
                number: number + 1,
                problem: "is missing, and all after it",
            });
        }
        for entry in entries {
            number += 1;
            if entry.number != number {
                break 'chain Some(Broken {
                    number,
                    problem: "is missing",
                });
            }
            let names = [
                entry.actor.as_str(),
                entry.action.as_str(),
                entry.object_id.as_str(),
            ];
            let shop = entry.shop.as_deref();
            let hash = hash(keys, &before, number, entry.at, names, shop, &entry.text);
            if hex::encode(hash) != entry.hash {
                break 'chain Some(Broken {
                    number,
                    problem: "is not as it was written, or PRIVACY_KEY is another one",
                });
            }
            before = hash.to_vec();
            if number == last && before != head {
                break 'chain Some(Broken {
                    number,
                    problem: "is not the last one that was written",
                });
            }
        }
    };
    // Of the entry that `entries` names, be it added meanwhile.
    let head = if broken.is_none() { before } else { head };
    Ok(Chain {
        entries: number.max(last),
        head: hex::encode(head),
        broken,
    })
}

fn hash(
    keys: &Keys,
    before: &[u8],
    number: i64,
    at: Timestamp,
    names: [&str; 3],
    shop: Option<&str>,
    details: &str,
) -> [u8; 32] {
    let [actor, action, object_id] = names.map(str::as_bytes);
    let (number, at) = (number.to_be_bytes(), at.0.to_be_bytes());
    let is_of_shop = [u8::from(shop.is_some())];
    let parts: [&[u8]; 9] = [
        before,
        &number,
        &at,
        actor,
        action,
        object_id,
        &is_of_shop,
        shop.unwrap_or_default().as_bytes(),
        details.as_bytes(),
    ];
    keys.code("audit", &parts)
}

fn read(row: &Row) -> Result<Entry> {
    let text: String = row.get("details")?;
    Ok(Entry {
        number: row.get("number")?,
        at: Timestamp(row.get("at")?),
        actor: row.get("actor")?,
        action: row.get("action")?,
        object_id: row.get("object_id")?,
        shop: row.get("shop")?,
        // One that was meddled with need not be JSON.
        details: serde_json::from_str(&text).unwrap_or_default(),
        hash: hex::encode(row.get::<Vec<u8>>("hash")?),
        text,
    })
}
