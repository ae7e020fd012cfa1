//! The `audit` table: who did what to people's data, and what operators did to jobs, licences,
//! organizations and API keys, with the time and how many rows it concerned. It has no personal
//! data.
//!
//! Entries are only added. The hash of each entry is made with our key from the entry and the
//! hash before it, so [`verify`] finds an entry that was changed, removed or inserted. The table
//! `audit_seal` has the end of the chain, sealed with the same key: somebody who removes the last
//! entries and sets the head back cannot make the seal for what is left. Somebody who removes all
//! three tables leaves privacy requests without any entry about them. Somebody who also removes
//! the requests, or who has kept an older seal to put it back, is found only by comparing with a
//! head that was kept elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::sql::{Db, Result, Row, Tx, column};
use domain::privacy::Keys;
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
    /// What was done: `export.written`, `customer.erased`, ..
    pub action: &'a str,
    /// The id of the request, job, licence, .. to which it was done.
    pub object_id: &'a str,
    pub shop: Option<&'a str>,
    /// Counts and ids, as a JSON object.
    pub details: Value,
}

/// What was done to people's data, by whom, when.
#[derive(Clone, Debug, Serialize, ToSchema)]
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
    pub details: Value,
    /// Of this entry and the one before it, in hex.
    pub hash: String,
    /// As it was hashed.
    #[serde(skip)]
    text: String,
}

/// Adds an entry, as [`append_all`] does.
pub async fn append(tx: &mut Tx, keys: &Keys, new: New<'_>, now: Timestamp) -> Result<()> {
    append_all(tx, keys, vec![(new, now)]).await
}

/// Adds entries, each with the time at which it was done; the first is for now. The number of statements
/// is the same for any number of entries. This locks the chain until the transaction commits, so it
/// should be the last statement.
///
/// A chain that somebody cut is continued, because intake must not stop for it. The number of the
/// next entry comes after all numbers that are known, so that [`verify`] finds the gap, and an
/// entry of its own says what was found.
pub async fn append_all(
    tx: &mut Tx,
    keys: &Keys,
    entries: Vec<(New<'_>, Timestamp)>,
) -> Result<()> {
    let Some((_, now)) = entries.first() else {
        return Ok(());
    };
    let last = resume(tx, keys, *now).await?;
    let last = insert(tx, keys, last, entries).await?;
    save(tx, keys, &last).await
}

/// Seals a chain that was written by a version without seals, and records that in the chain.
pub async fn seal_older(db: &Db, keys: &Keys, now: Timestamp) -> Result<()> {
    let sealed = db.query(SEAL).fetch_optional().await?;
    if sealed.is_some() || newest(db, 1).await?.is_empty() {
        return Ok(());
    }
    let mut tx = db.begin().await?;
    let last = resume(&mut tx, keys, now).await?;
    save(&mut tx, keys, &last).await?;
    tx.commit().await
}

/// The last entry, which the next one follows.
#[derive(Clone)]
struct Last {
    number: i64,
    hash: Vec<u8>,
}

/// The action of an entry that says what is wrong with the end of the chain.
const BROKEN: &str = "audit.broken";
/// The action of the entry with which the chain of an older version got its seal.
const SEALED: &str = "audit.sealed";

const SEAL: &str = "select number, hash, code from audit_seal where id = 1";

/// Locks the chain and returns its end. If something is wrong with the end, an entry that says so
/// is added first.
async fn resume(tx: &mut Tx, keys: &Keys, now: Timestamp) -> Result<Last> {
    let head = locked(tx).await?;
    let newest = tx
        .query("select number, hash from audit order by number desc limit 1")
        .fetch_optional()
        .await?;
    let newest = newest.as_ref().map(end).transpose()?;
    let seal = tx.query(SEAL).fetch_optional().await?;
    let is_new = newest.is_none() && seal.is_none() && head.number == 0;
    let last = newest.unwrap_or(Last {
        number: 0,
        hash: begin(keys).to_vec(),
    });
    if is_new {
        return Ok(last);
    }
    let is_head = head.number == last.number && head.hash == last.hash;
    let (last, action, found) = match seal.as_ref().map(|row| sealed(keys, row)).transpose()? {
        None if is_head => (last, SEALED, "no seal"),
        None => (last, BROKEN, "another head, and no seal"),
        Some(None) => (last, BROKEN, "a seal that is not ours"),
        Some(Some(seal)) if seal.number > last.number => {
            (seal, BROKEN, "fewer entries than sealed")
        }
        Some(Some(_)) if is_head => return Ok(last),
        Some(Some(_)) => (last, BROKEN, "another head"),
    };
    let entry = New {
        actor: WORKER,
        action,
        object_id: "audit",
        shop: None,
        details: json!({"found": found, "after": last.number}),
    };
    insert(tx, keys, last, vec![(entry, now)]).await
}

/// Locks the chain until the transaction commits.
pub(crate) async fn lock(tx: &mut Tx) -> Result<()> {
    locked(tx).await.map(drop)
}

/// Locks the head, and returns it.
async fn locked(tx: &mut Tx) -> Result<Last> {
    const HEAD: &str = "select number, hash from audit_head where id = 1 for update";
    if let Some(head) = tx.query(HEAD).fetch_optional().await? {
        return end(&head);
    }
    tx.query(
        "insert into audit_head (id, number, hash) values (1, 0, $1) on conflict (id) do nothing",
    )
    .bind([0u8; 32].as_slice())
    .execute()
    .await?;
    end(&tx.query(HEAD).fetch_one().await?)
}

/// An entry as it is written.
struct Entry<'a> {
    new: New<'a>,
    at: Timestamp,
    number: i64,
    details: String,
    hash: [u8; 32],
}

/// Inserts entries after `last`, and returns the last of them.
async fn insert(
    tx: &mut Tx,
    keys: &Keys,
    mut last: Last,
    entries: Vec<(New<'_>, Timestamp)>,
) -> Result<Last> {
    let mut chain = Vec::with_capacity(entries.len());
    for (new, at) in entries {
        let number = last.number + 1;
        let details = new.details.to_string();
        let names = [new.actor, new.action, new.object_id];
        let hash = hash(keys, &last.hash, number, at, names, new.shop, &details);
        last = Last {
            number,
            hash: hash.to_vec(),
        };
        chain.push(Entry {
            new,
            at,
            number,
            details,
            hash,
        });
    }
    let chain = || chain.iter();
    let columns = [
        column("number", chain().map(|it| it.number)),
        column("at", chain().map(|it| it.at.0)),
        column("actor", chain().map(|it| it.new.actor)),
        column("action", chain().map(|it| it.new.action)),
        column("object_id", chain().map(|it| it.new.object_id)),
        column("shop", chain().map(|it| it.new.shop)),
        column("details", chain().map(|it| it.details.as_str())),
        column("hash", chain().map(|it| it.hash.as_slice())),
    ];
    tx.insert("audit", &columns, "").await?;
    Ok(last)
}

/// Saves the end of the chain, as the head for the next entry and sealed with our key for
/// [`verify`].
async fn save(tx: &mut Tx, keys: &Keys, last: &Last) -> Result<()> {
    tx.query("update audit_head set number = $1, hash = $2 where id = 1")
        .bind(last.number)
        .bind(last.hash.as_slice())
        .execute()
        .await?;
    tx.query(
        "insert into audit_seal (id, number, hash, code) values (1, $1, $2, $3)
         on conflict (id) do update
         set number = excluded.number, hash = excluded.hash, code = excluded.code",
    )
    .bind(last.number)
    .bind(last.hash.as_slice())
    .bind(seal(keys, last).as_slice())
    .execute()
    .await?;
    Ok(())
}

fn end(row: &Row) -> Result<Last> {
    Ok(Last {
        number: row.get("number")?,
        hash: row.get("hash")?,
    })
}

/// The hash before the first entry, for a chain that has a seal from its beginning.
fn begin(keys: &Keys) -> [u8; 32] {
    keys.code("audit begin", &[])
}

fn seal(keys: &Keys, last: &Last) -> [u8; 32] {
    keys.code("audit seal", &[&last.number.to_be_bytes(), &last.hash])
}

/// The end of the chain that a seal stands for. None when the seal was not made with our key.
fn sealed(keys: &Keys, row: &Row) -> Result<Option<Last>> {
    let last = end(row)?;
    let code: Vec<u8> = row.get("code")?;
    let is_ours = bool::from(seal(keys, &last).as_slice().ct_eq(&code));
    Ok(is_ours.then_some(last))
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
    query.fetch_all().await?.iter().map(read).collect()
}

/// The newest entries, newest first.
pub async fn newest(db: &Db, limit: i64) -> Result<Vec<AuditEntry>> {
    before(db, i64::MAX, limit).await
}

/// The newest entries before this number, newest first.
pub async fn before(db: &Db, number: i64, limit: i64) -> Result<Vec<AuditEntry>> {
    let rows = db
        .query(
            "select number, at, actor, action, object_id, shop, details, hash from audit
             where number < $1
             order by number desc limit $2",
        )
        .bind(number)
        .bind(limit)
        .fetch_all()
        .await?;
    rows.iter().map(read).collect()
}

/// The result of a check of the whole chain.
#[derive(Debug, Serialize)]
pub struct Chain {
    pub entries: i64,
    /// The last entry's hash, in hex. If it is kept elsewhere, it shows later that no entry up to
    /// it has changed.
    pub head: String,
    /// The first mistake that was found.
    pub broken: Option<Broken>,
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

/// The number and the hash of an entry as somebody kept them elsewhere: `42:e146b7..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub number: i64,
    hash: String,
}

#[derive(Debug, thiserror::Error)]
#[error("it must be an entry's number and its hash, 64 hexadecimal digits, like 42:e146b7a9..")]
pub struct NotAHead;

impl FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> std::result::Result<Self, NotAHead> {
        let (number, hash) = text.trim().split_once(':').ok_or(NotAHead)?;
        let number = number.parse().ok().filter(|it| *it > 0).ok_or(NotAHead)?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit());
        let hash = hash.to_ascii_lowercase();
        is_hash.then_some(Head { number, hash }).ok_or(NotAHead)
    }
}

/// Checks every entry against the one before it, the end against the seal, and the privacy
/// requests against the entries about them.
pub async fn verify(db: &Db, keys: &Keys) -> Result<Chain> {
    verify_with(db, keys, None).await
}

/// Does the same as [`verify`], and also compares one entry with the head that somebody kept
/// elsewhere.
pub async fn verify_with(db: &Db, keys: &Keys, kept: Option<&Head>) -> Result<Chain> {
    const AT_ONCE: i64 = 1000;
    // The head is read first. Entries that are added during the check come after it, and so do
    // their requests.
    let head = db
        .query("select number, hash from audit_head where id = 1")
        .fetch_optional()
        .await?;
    let head = head.as_ref().map(end).transpose()?;
    let seal = db.query(SEAL).fetch_optional().await?;
    let seal = seal.as_ref().map(|row| sealed(keys, row)).transpose()?;
    let mut check = Check {
        keys,
        is_sealed: seal.is_some(),
        seal: seal.clone().flatten(),
        last: head.as_ref().map_or(0, |head| head.number),
        head,
        kept,
        number: 0,
        before: begin(keys).to_vec(),
        is_older: false,
        seals: 0,
        requests: Requests::read(db).await?,
    };
    let broken = 'chain: loop {
        let entries = list(db, None, check.number, AT_ONCE).await?;
        if entries.is_empty() {
            break 'chain check.end();
        }
        for entry in &entries {
            if let Err(broken) = check.entry(entry) {
                break 'chain Some(broken);
            }
        }
    };
    // The hash of the entry that `entries` counts to, even if that entry was added during the
    // check.
    let known = check.head.map_or_else(|| vec![0; 32], |head| head.hash);
    let head = match (&broken, check.number) {
        (None, 1..) => check.before,
        (None, _) => vec![0; 32],
        (Some(_), _) => known,
    };
    Ok(Chain {
        entries: check.number.max(check.last),
        head: hex::encode(head),
        broken,
    })
}

/// The state of a running check.
struct Check<'a> {
    keys: &'a Keys,
    /// True when there is a seal. `seal` is None nevertheless if our key did not make it.
    is_sealed: bool,
    seal: Option<Last>,
    head: Option<Last>,
    kept: Option<&'a Head>,
    /// The number of the head when the check began.
    last: i64,
    number: i64,
    before: Vec<u8>,
    /// True when the chain was begun by a version without seals.
    is_older: bool,
    seals: usize,
    requests: Requests,
}

impl Check<'_> {
    fn entry(&mut self, entry: &AuditEntry) -> std::result::Result<(), Broken> {
        self.number += 1;
        let number = self.number;
        let is = |problem| Err(broken(number, problem));
        if entry.number != number {
            return is("is missing");
        }
        let names = [
            entry.actor.as_str(),
            entry.action.as_str(),
            entry.object_id.as_str(),
        ];
        let shop = entry.shop.as_deref();
        let after = |before: &[u8]| {
            hash(
                self.keys,
                before,
                number,
                entry.at,
                names,
                shop,
                &entry.text,
            )
        };
        let mut hash = after(&self.before);
        if number == 1 && hex::encode(hash) != entry.hash {
            hash = after(&[0; 32]);
            self.is_older = true;
        }
        if hex::encode(hash) != entry.hash {
            return is("is not as it was written, or PRIVACY_KEY is another one");
        }
        let differs = |from: &Last| from.number == number && from.hash != hash;
        if self.head.as_ref().is_some_and(differs) || self.seal.as_ref().is_some_and(differs) {
            return is("is not the last one that was written");
        }
        if let Some(kept) = self.kept
            && kept.number == number
            && kept.hash != entry.hash
        {
            return is("has another hash than the one that was kept elsewhere");
        }
        if entry.action == BROKEN {
            return is("says that the chain before it was cut or its end was changed");
        }
        self.seals += usize::from(entry.action == SEALED);
        if entry.action == SEALED && (self.seals > 1 || !self.is_older) {
            return is("says that the chain had lost its seal");
        }
        self.before = hash.to_vec();
        let is_before = number <= self.last;
        self.requests.compare(entry, is_before)
    }

    /// Checks that nothing is missing at the end.
    fn end(&mut self) -> Option<Broken> {
        let sealed = self.seal.as_ref().map_or(0, |seal| seal.number);
        let kept = self.kept.map_or(0, |kept| kept.number);
        let known = self.last.max(sealed).max(kept);
        if self.number < known {
            return Some(broken(self.number + 1, "is missing, and all after it"));
        }
        if self.number > 0 && self.head.is_none() {
            return Some(broken(
                self.number,
                "is the last one, and the head is missing",
            ));
        }
        if self.number > self.last && self.seal.as_ref().is_some_and(|it| it.number > self.last) {
            return Some(broken(
                self.number,
                "is the last one, and the head is another one",
            ));
        }
        if self.number > 0 && !self.is_sealed {
            return Some(broken(
                self.number,
                "is the last one, and its seal is missing",
            ));
        }
        if self.is_sealed && self.seal.is_none() {
            return Some(broken(
                self.number,
                "is the last one, and its seal is not ours, or PRIVACY_KEY is another one",
            ));
        }
        self.requests.unrecorded(self.number)
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
    async fn read(db: &Db) -> Result<Self> {
        const AT_ONCE: i64 = 5000;
        let mut by_id = HashMap::new();
        let mut after = Uuid::nil();
        loop {
            let rows = db
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

    /// Compares an entry with its request. `is_before` is true when the requests were read after
    /// the entry was written.
    fn compare(&mut self, entry: &AuditEntry, is_before: bool) -> std::result::Result<(), Broken> {
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
            return if is_before {
                wrong("is in the audit, and not in the table of requests")
            } else {
                Ok(())
            };
        };
        match end {
            None => request.is_received = true,
            Some(end) if request.ended.as_deref() == Some(end) => request.is_ended = true,
            Some(_) if is_before => {
                return wrong("ended otherwise by the audit than by the table of requests");
            }
            Some(_) => {}
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

impl AuditEntry {
    /// The entry as it is a leaf of the tree that checkpoints are about: JSON with sorted names, in which the
    /// details are the text that was written.
    pub fn leaf(&self) -> String {
        let leaf = json!({
            "number": self.number,
            "at": self.at.0,
            "actor": self.actor,
            "action": self.action,
            "object_id": self.object_id,
            "shop": self.shop,
            "details": self.text,
        });
        leaf.to_string()
    }
}

/// The number of the newest entry, and how many there are until then.
pub async fn size(db: &Db) -> Result<(i64, u64)> {
    let ask = "select coalesce(max(number), 0) as newest, count(*) as n from audit";
    let row = db.query(ask).fetch_one().await?;
    let count: i64 = row.get("n")?;
    Ok((row.get("newest")?, count.unsigned_abs()))
}

/// Calls `each` with every entry until this number, the oldest first.
pub async fn read_until(db: &Db, newest: i64, mut each: impl FnMut(&AuditEntry)) -> Result<()> {
    const AT_ONCE: i64 = 1000;
    let mut after = 0;
    while after < newest {
        let entries = list(db, None, after, AT_ONCE).await?;
        let Some(last) = entries.last() else { break };
        after = last.number;
        for entry in entries.iter().filter(|entry| entry.number <= newest) {
            each(entry);
        }
    }
    Ok(())
}

fn read(row: &Row) -> Result<AuditEntry> {
    let text: String = row.get("details")?;
    Ok(AuditEntry {
        number: row.get("number")?,
        at: Timestamp(row.get("at")?),
        actor: row.get("actor")?,
        action: row.get("action")?,
        object_id: row.get("object_id")?,
        shop: row.get("shop")?,
        // An entry that somebody changed need not be JSON any more.
        details: serde_json::from_str(&text).unwrap_or_default(),
        hash: hex::encode(row.get::<Vec<u8>>("hash")?),
        text,
    })
}
