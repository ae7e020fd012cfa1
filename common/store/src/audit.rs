//! The `audit` table: who did what to people's data, and what operators did to jobs, licences,
//! organizations and API keys, with the time and how many rows it concerned. It has no personal
//! data.
//!
//! Entries are only added, and are the leaves of a Merkle tree (`domain::privacy::transparency`). The
//! table `audit_head` has the tree's size and its subtrees' roots with a code that is made with our
//! key, so [`verify`] finds an entry that was changed, removed, inserted or cut off at the end:
//! nobody without the key can make the code for another tree. Somebody who empties both tables leaves
//! privacy requests without any entry about them. Somebody who also removes the requests, or who has
//! kept an older head to put it back, is found only by comparing with a head or a checkpoint that was
//! kept elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::sql::{Db, FromRow, Result, Row, Tx, column};
use domain::privacy::Keys;
use domain::privacy::transparency::{Hash, Tree, record_hash};
use domain::time::Timestamp;

/// The actors of entries, which say who did something. [`LINK`] is somebody who has a link to an
/// export.
pub const STOREFRONT: &str = "storefront";
pub const WORKER: &str = "worker";
pub const OPERATOR: &str = "operator";
pub const LINK: &str = "link";

/// Who does something, and when.
#[derive(Clone, Copy)]
pub struct By<'a> {
    pub keys: &'a Keys,
    /// The actor as the audit names it.
    pub actor: &'a str,
    pub now: Timestamp,
}

impl By<'_> {
    /// Adds an entry that belongs to no shop. Like [`append`], it should be the last statement of
    /// the transaction.
    pub async fn note(
        self,
        tx: &mut Tx,
        action: &str,
        object_id: impl ToString,
        details: Value,
    ) -> Result<()> {
        self.note_of_shop(tx, None, action, object_id, details)
            .await
    }

    /// The same for an entry that belongs to a shop.
    pub async fn note_of_shop(
        self,
        tx: &mut Tx,
        shop: Option<&str>,
        action: &str,
        object_id: impl ToString,
        details: Value,
    ) -> Result<()> {
        let new = NewEntry {
            actor: self.actor,
            action,
            object_id: &object_id.to_string(),
            shop,
            details,
        };
        append(tx, self.keys, new, self.now).await
    }
}

/// An entry to be added.
pub struct NewEntry<'a> {
    pub actor: &'a str,
    /// What was done: `export.written`, `customer.erased`, ..
    pub action: &'a str,
    /// The id of the request, job, licence, .. to which it was done.
    pub object_id: &'a str,
    pub shop: Option<&'a str>,
    /// Counts and ids, as a JSON object.
    pub details: Value,
}

/// What was done to people's data, by whom, when.
#[derive(Clone, Debug, Serialize, ToSchema, FromRow)]
#[schema(as = AuditEntry)]
pub struct AuditEntry {
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
    #[with(details)]
    pub details: Value,
    /// The hash of this entry as a leaf of the log, in hex.
    #[with(hash)]
    pub hash: String,
    /// The details as they were written.
    #[serde(skip)]
    #[column("details")]
    text: String,
}

/// Adds an entry, as [`append_all`] does.
pub async fn append(tx: &mut Tx, keys: &Keys, new: NewEntry<'_>, now: Timestamp) -> Result<()> {
    append_all(tx, keys, vec![(new, now)]).await
}

/// Adds entries, each with the time at which it was done; the first is for now. The number of statements
/// is the same for any number of entries. This locks the log until the transaction commits, so it
/// should be the last statement.
///
/// A log that somebody changed is continued, because intake must not stop for it. An entry of its own
/// says so, and [`verify`] finds it from then on.
pub async fn append_all(
    tx: &mut Tx,
    keys: &Keys,
    entries: Vec<(NewEntry<'_>, Timestamp)>,
) -> Result<()> {
    let Some((_, now)) = entries.first() else {
        return Ok(());
    };
    let mut tree = resume(tx, keys, *now).await?;
    insert(tx, &mut tree, entries).await?;
    tx.query("update audit_head set number = $1, roots = $2, code = $3 where id = 1")
        .bind(tree.size().cast_signed())
        .bind(tree.bytes())
        .bind(code(keys, &tree).as_slice())
        .execute()
        .await?;
    Ok(())
}

/// The action of an entry that says that the log before it was changed.
const BROKEN: &str = "audit.broken";

/// Locks the log and returns its tree. If its head is not as it was written, or there are entries that
/// it does not know, an entry that says so is added first, to a tree that can be the tree of no entries.
/// Entries that are missing at the end leave a gap in the numbers.
async fn resume(tx: &mut Tx, keys: &Keys, now: Timestamp) -> Result<Tree> {
    let (head, newest) = locked(tx, keys).await?;
    let known = head.as_ref().map_or(0, Tree::size);
    let found = match head {
        Some(tree) if newest <= tree.size() => return Ok(tree),
        Some(_) => "entries after the head",
        None => "a head that is not ours",
    };
    let mut tree = Tree::unknown(newest.max(known));
    let entry = NewEntry {
        actor: WORKER,
        action: BROKEN,
        object_id: "audit",
        shop: None,
        details: json!({"found": found, "after": tree.size()}),
    };
    insert(tx, &mut tree, vec![(entry, now)]).await?;
    Ok(tree)
}

/// Locks the log until the transaction commits.
pub(crate) async fn lock(tx: &mut Tx, keys: &Keys) -> Result<()> {
    locked(tx, keys).await.map(drop)
}

/// Locks the head, and returns its tree, which is None if the head is not ours, and the number of the
/// newest entry. While somebody else held the lock, that number may be older than the head.
async fn locked(tx: &mut Tx, keys: &Keys) -> Result<(Option<Tree>, u64)> {
    const HEAD: &str =
        "select number, roots, code, (select coalesce(max(number), 0) from audit) as newest
         from audit_head where id = 1 for update";
    const FIRST: &str = "insert into audit_head (id, number, roots, code) values (1, 0, $1, $2)
         on conflict (id) do nothing";
    let row = if let Some(row) = tx.query(HEAD).fetch_optional().await? {
        row
    } else {
        let empty = Tree::default();
        let first = tx.query(FIRST).bind(empty.bytes());
        first.bind(code(keys, &empty).as_slice()).execute().await?;
        tx.query(HEAD).fetch_one().await?
    };
    let newest: i64 = row.get("newest")?;
    Ok((read_head(keys, &row)?, newest.unsigned_abs()))
}

/// The tree of a row of the head. None if it was not made with our key.
fn read_head(keys: &Keys, row: &Row) -> Result<Option<Tree>> {
    let (size, given): (i64, Vec<u8>) = (row.get("number")?, row.get("code")?);
    let tree = Tree::read(size.cast_unsigned(), &row.get::<Vec<u8>>("roots")?);
    Ok(tree.filter(|tree| code(keys, tree).as_slice().ct_eq(&given).into()))
}

fn code(keys: &Keys, tree: &Tree) -> [u8; 32] {
    keys.code("audit head", &[&tree.size().to_be_bytes(), &tree.bytes()])
}

/// An entry as it is a leaf of the log: JSON, in which the details are the text that was written.
#[derive(Serialize)]
struct Leaf<'a> {
    action: &'a str,
    actor: &'a str,
    at: i64,
    details: &'a str,
    number: i64,
    object_id: &'a str,
    shop: Option<&'a str>,
}

impl Leaf<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }
}

/// Inserts entries after those of the tree, and adds them to the tree.
async fn insert(
    tx: &mut Tx,
    tree: &mut Tree,
    entries: Vec<(NewEntry<'_>, Timestamp)>,
) -> Result<()> {
    let rows: Vec<_> = (tree.size().cast_signed() + 1..)
        .zip(&entries)
        .map(|(number, (new, at))| {
            let details = new.details.to_string();
            let leaf = Leaf {
                action: new.action,
                actor: new.actor,
                at: at.0,
                details: &details,
                number,
                object_id: new.object_id,
                shop: new.shop,
            };
            let hash = record_hash(leaf.text().as_bytes());
            tree.push(hash);
            [
                column("number", number),
                column("at", *at),
                column("actor", new.actor),
                column("action", new.action),
                column("object_id", new.object_id),
                column("shop", new.shop),
                column("details", details),
                column("hash", hash.0.to_vec()),
            ]
        })
        .collect();
    tx.insert("audit", rows, "").await?;
    Ok(())
}

/// The entries after the number `after`, the oldest first. Only those of one object if
/// `object_id` is given.
pub async fn list(
    db: &Db,
    object_id: Option<&str>,
    after: i64,
    limit: i64,
) -> Result<Vec<AuditEntry>> {
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
    query.all(AuditEntry::from_row).await
}

/// The newest entries, newest first.
pub async fn newest(db: &Db, limit: i64) -> Result<Vec<AuditEntry>> {
    before(db, i64::MAX, limit).await
}

/// The newest entries before this number, newest first.
pub async fn before(db: &Db, number: i64, limit: i64) -> Result<Vec<AuditEntry>> {
    db.query(
        "select number, at, actor, action, object_id, shop, details, hash from audit
             where number < $1
             order by number desc limit $2",
    )
    .bind(number)
    .bind(limit)
    .all(AuditEntry::from_row)
    .await
}

/// The result of a check of the whole log.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// How many entries there are, or are before the first mistake.
    pub entries: u64,
    /// The root of the tree of these entries, in base64. If it is kept elsewhere, it shows later that none
    /// of them has changed.
    pub head: String,
    /// The first mistake that was found.
    pub broken: Option<Broken>,
    #[serde(skip)]
    pub tree: Tree,
}

#[derive(Debug, Serialize)]
pub struct Broken {
    /// The number of the entry, or the number of entries.
    pub number: i64,
    /// The privacy request that does not agree with the entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
    pub problem: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.request {
            Some(request) => write!(f, "privacy request {request} {}", self.problem),
            None => write!(f, "entry {} {}", self.number, self.problem),
        }
    }
}

/// The number of entries and the root of their tree as somebody kept them elsewhere: the second and third
/// line of a checkpoint, `42:4Ua3..=`.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub number: u64,
    root: Hash,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "it must be a number of entries and their hash in base64, as in a checkpoint, like 42:4Ua3qVH7..="
)]
pub struct NotAHead;

impl FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> std::result::Result<Self, NotAHead> {
        let (number, root) = text.trim().split_once(':').ok_or(NotAHead)?;
        let number = number.parse().ok().filter(|it| *it > 0).ok_or(NotAHead)?;
        let root = Hash::parse_hash(root).map_err(|_| NotAHead)?;
        Ok(Head { number, root })
    }
}

/// Checks the entries against the head, and the privacy requests against the entries about them.
pub async fn verify(db: &Db, keys: &Keys) -> Result<Checked> {
    verify_with(db, keys, None, |_| ()).await
}

/// Does the same as [`verify`], also compares the tree with the head that somebody kept elsewhere, and
/// calls `each` with each entry that is as it was written.
pub async fn verify_with(
    db: &Db,
    keys: &Keys,
    kept: Option<&Head>,
    mut each: impl FnMut(&AuditEntry),
) -> Result<Checked> {
    const PAGE: &str = "select number, at, actor, action, object_id, shop, details, hash from audit
                        where number > $1 order by number limit 1000";
    let mut tx = db.snapshot().await?;
    let head = tx
        .query("select number, roots, code from audit_head where id = 1")
        .fetch_optional()
        .await?;
    let mut check = Check {
        kept,
        tree: Tree::default(),
        requests: Requests::read(&mut tx).await?,
    };
    let broken = 'log: loop {
        let after = check.tree.size().cast_signed();
        let rows = tx.query(PAGE).bind(after).fetch_all().await?;
        if rows.is_empty() {
            let tree = match &head {
                Some(row) => read_head(keys, row)?,
                None => None,
            };
            break check.end(head.is_some(), tree.as_ref());
        }
        for row in &rows {
            let entry = AuditEntry::from_row(row)?;
            if let Err(broken) = check.entry(&entry) {
                break 'log Some(broken);
            }
            each(&entry);
        }
    };
    tx.rollback().await?;
    Ok(Checked {
        entries: check.tree.size(),
        head: check.tree.root().to_string(),
        broken,
        tree: check.tree,
    })
}

/// The state of a running check.
struct Check<'a> {
    kept: Option<&'a Head>,
    tree: Tree,
    requests: Requests,
}

impl Check<'_> {
    fn entry(&mut self, entry: &AuditEntry) -> std::result::Result<(), Broken> {
        let number = self.tree.size().cast_signed() + 1;
        let is = |problem| Err(broken(number, problem));
        if entry.number != number {
            return is("is missing");
        }
        let leaf = record_hash(entry.leaf().as_bytes());
        if hex::encode(leaf.0) != entry.hash {
            return is("is not as it was written");
        }
        if entry.action == BROKEN {
            return is("says that the log before it was changed");
        }
        self.tree.push(leaf);
        if let Some(kept) = self.kept
            && kept.number == self.tree.size()
            && kept.root != self.tree.root()
        {
            return is("or one before it has changed since the head was kept elsewhere");
        }
        self.requests.compare(entry)
    }

    /// Compares the tree of all entries with that of the head, which is None if there is no head that is
    /// ours.
    fn end(&self, has_head: bool, head: Option<&Tree>) -> Option<Broken> {
        let size = self.tree.size();
        let is = |index: u64, problem| Some(broken(index.cast_signed() + 1, problem));
        let kept = self.kept.map_or(0, |kept| kept.number);
        if size < kept.max(head.map_or(0, Tree::size)) {
            return is(size, "is missing, and all after it");
        }
        match head {
            None if size == 0 && !has_head => {}
            None => {
                let problem = if has_head {
                    "is the last one, and the head is not ours, or PRIVACY_KEY is another one"
                } else {
                    "is the last one, and the head is missing"
                };
                return is(size.saturating_sub(1), problem);
            }
            Some(tree) if tree.size() < size => {
                return is(tree.size(), "is after the last one that was written");
            }
            Some(tree) => {
                if let Some(first) = tree.first_difference(&self.tree) {
                    let problem = "or one after it is not as it was written, and nor is its hash";
                    return is(first, problem);
                }
            }
        }
        self.requests.unrecorded(size.cast_signed())
    }
}

fn broken(number: i64, problem: &'static str) -> Broken {
    Broken {
        number,
        request: None,
        problem,
    }
}

/// The privacy requests of their table, to be compared with what the audit says about them.
struct Requests {
    by_id: HashMap<Uuid, Request>,
}

struct Request {
    /// `done` or `cancelled`. None for a request that is open.
    ended: Option<String>,
    is_received: bool,
    is_ended: bool,
}

impl Requests {
    async fn read(tx: &mut Tx) -> Result<Self> {
        const AT_ONCE: i64 = 5000;
        let mut by_id = HashMap::new();
        let mut after = Uuid::nil();
        loop {
            let rows = tx
                .query("select id, state from privacy_requests where id > $1 order by id limit $2")
                .bind(after)
                .bind(AT_ONCE)
                .fetch_all()
                .await?;
            if rows.is_empty() {
                return Ok(Requests { by_id });
            }
            for row in &rows {
                after = row.get("id")?;
                let state: String = row.get("state")?;
                let request = Request {
                    ended: Some(state).filter(|it| it == "done" || it == "cancelled"),
                    is_received: false,
                    is_ended: false,
                };
                by_id.insert(after, request);
            }
        }
    }

    /// Compares an entry with its request.
    fn compare(&mut self, entry: &AuditEntry) -> std::result::Result<(), Broken> {
        let end = match entry.action.as_str() {
            "request.received" => None,
            "export.written" | "customer.erased" | "shop.erased" => Some("done"),
            "request.cancelled" => Some("cancelled"),
            _ => return Ok(()),
        };
        let Ok(id) = entry.object_id.parse() else {
            return Ok(());
        };
        let wrong = |problem| {
            Err(Broken {
                number: entry.number,
                request: Some(id),
                problem,
            })
        };
        let Some(request) = self.by_id.get_mut(&id) else {
            return wrong("is in the audit, and not in the table of requests");
        };
        match end {
            None => request.is_received = true,
            Some(end) if request.ended.as_deref() == Some(end) => request.is_ended = true,
            Some(_) => return wrong("ended otherwise by the audit than by the table of requests"),
        }
        Ok(())
    }

    /// Finds a request that the audit does not know, or whose end it does not know.
    fn unrecorded(&self, number: i64) -> Option<Broken> {
        let mut requests: Vec<_> = self.by_id.iter().collect();
        requests.sort_unstable_by_key(|(id, _)| **id);
        let wrong = requests.into_iter().find_map(|(id, request)| {
            let problem = if !request.is_received {
                "is not in the audit: nothing says that it was received"
            } else if request.ended.is_some() && !request.is_ended {
                "has ended, and the audit does not say so"
            } else {
                return None;
            };
            Some((*id, problem))
        });
        wrong.map(|(id, problem)| Broken {
            number,
            request: Some(id),
            problem,
        })
    }
}

impl AuditEntry {
    /// The entry as it is a leaf of the log.
    pub fn leaf(&self) -> String {
        let leaf = Leaf {
            action: &self.action,
            actor: &self.actor,
            at: self.at.0,
            details: &self.text,
            number: self.number,
            object_id: &self.object_id,
            shop: self.shop.as_deref(),
        };
        leaf.text()
    }
}

/// An entry that somebody changed need not be JSON any more.
fn details(row: &Row) -> Result<Value> {
    let text: String = row.get("details")?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn hash(row: &Row) -> Result<String> {
    row.get::<Vec<u8>>("hash").map(hex::encode)
}

#[cfg(test)]
#[path = "../tests/unit/audit.rs"]
mod tests;
