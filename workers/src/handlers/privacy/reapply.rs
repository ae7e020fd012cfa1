//! Erases again what the journal says was erased and this database does not know, because it was
//! restored from an older backup.
//!
//! 1. The whole journal is read and compared with the entries that the database knows ([`read`]).
//! 2. Everything that names somebody is hashed once, and so the people of all entries are found
//!    together (`people`).
//! 3. For each erasure its tombstones are written, its request is entered if it is not there, and
//!    then the same code runs as for a request of today. Receipt, event and audit entry are written
//!    with it.
//! 4. When all is erased, the database takes over the entries. From then on it is served.
//!
//! Everything up to the fourth step may be done again, so it does not matter when the process is
//! killed: the next one passes over requests that are done. Two at once do no harm either, but the
//! second one waits for the first, because it would do everything twice.

mod people;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use domain::job::{Internal, Job, JobId, Kind, State};
use domain::privacy::journal::{self, Entry, Erased, Hash, Wrong};
use domain::privacy::{Keys, Request, SubjectKey, Topic};
use flows::Context;
use flows::outbox::Outbox;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use platform::task;
use process::Parts;
use providers::exports::{ExportFailure, Exports};
use serde_json::{Value, json};
use store::audit::By;
use store::jobs::{self, NewJob};
use store::sql::{Db, Tx};
use store::{erasures, leases, privacy_requests, tombstones};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::people::Found;
use super::{Done, erase, shop};
use crate::failure::Unfinished;

/// Entries that are read from the store at the same time.
const AT_ONCE: usize = 16;
/// Entries of the database that one statement reads.
const ROWS: i64 = 500;
/// The lease to erase again, how long it lasts, and how often it is renewed.
const LEASE: &str = "reapply";
const LASTS: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(5);
/// How often somebody looks who waits for the lease.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The journal beside what the database knows of it.
#[derive(Debug)]
pub struct Journal {
    /// The last entry that the database knows.
    pub known: i64,
    /// The last entry of the journal.
    pub newest: i64,
    /// The entries that the database does not know and that are as they were written, sorted.
    pub unknown: Vec<Entry>,
    /// The entries that are not as they were written, sorted.
    pub wrong: Vec<(i64, Wrong)>,
}

/// What became of one erasure.
pub struct Step<'a> {
    /// Its place among those that are to be done again, from 1 on, and how many these are.
    pub nth: usize,
    pub of: usize,
    pub erased: &'a Erased,
    pub result: &'a Result<Reapplied>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reapplied {
    /// How many of what were erased.
    Erased(Value),
    /// An earlier run, or another process, has done it.
    DoneBefore,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Summary {
    pub erasures: usize,
    pub erased: usize,
    pub failed: usize,
    /// The last entry that the database knows now.
    pub known: i64,
}

/// Reads the whole journal and compares it with what the database knows.
pub async fn read(db: &Db, keys: &Keys, exports: &Exports) -> Result<Journal> {
    let known = known(db).await?;
    let listed = exports.erasures_after(0).await?;
    let objects = stream::iter(listed)
        .map(async |number| Ok::<_, ExportFailure>((number, exports.erasure(number).await?)))
        .buffered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    let objects = objects.into_iter();
    let objects = objects.filter_map(|(number, bytes)| Some((number, bytes?)));
    Ok(compare(keys, &known, &objects.collect()))
}

/// The objects of the entries that the database knows, by number, and whether each is known to be in
/// the store.
type Known = BTreeMap<i64, (Vec<u8>, bool)>;

async fn known(db: &Db) -> Result<Known> {
    let mut known = Known::new();
    loop {
        let after = known.keys().last().copied().unwrap_or(0);
        let rows = erasures::list(db, after, ROWS).await?;
        if rows.is_empty() {
            return Ok(known);
        }
        let rows = rows.into_iter();
        known.extend(rows.map(|row| (row.number, (row.bytes, row.is_kept))));
    }
}

/// Goes through all numbers that either has. Of a gap the first number is reported.
fn compare(keys: &Keys, known: &Known, objects: &BTreeMap<i64, Bytes>) -> Journal {
    let numbers: BTreeSet<i64> = known.keys().chain(objects.keys()).copied().collect();
    let mut read = Journal {
        known: 0,
        newest: numbers.last().copied().unwrap_or(0),
        unknown: Vec::new(),
        wrong: Vec::new(),
    };
    let (mut last, mut before) = (0, Some(journal::begin(keys)));
    for number in numbers {
        if number != last + 1 {
            read.wrong.push((last + 1, Wrong::Missing));
            before = None;
        }
        last = number;
        before = read.entry(
            keys,
            known.get(&number),
            number,
            objects.get(&number),
            before,
        );
    }
    read.wrong.dedup_by_key(|(number, _)| *number);
    read
}

impl Journal {
    /// Takes in one entry. `before` is the hash of the one before it, if that is as it was written; the
    /// same of this one is returned.
    fn entry(
        &mut self,
        keys: &Keys,
        here: Option<&(Vec<u8>, bool)>,
        number: i64,
        there: Option<&Bytes>,
        before: Option<Hash>,
    ) -> Option<Hash> {
        let is_kept = here.is_some_and(|(_, is_kept)| *is_kept);
        if is_kept || there.is_none() {
            self.known = number;
        }
        let Some(bytes) = there else {
            // The erasure of one that is not kept is under way.
            if is_kept {
                self.wrong.push((number, Wrong::Missing));
            }
            return None;
        };
        let entry = Entry::read(keys, number, bytes, before.as_ref()).or_else(|wrong| {
            self.wrong.push((number, wrong));
            // What is wrong may be the entry before it.
            Entry::read(keys, number, bytes, None)
        });
        let entry = entry.ok()?;
        let hash = entry.hash;
        if here.is_some_and(|(ours, _)| bytes == ours) {
            self.known = number;
        } else if is_kept {
            self.wrong.push((number, Wrong::Changed));
        } else {
            self.unknown.push(entry);
        }
        Some(hash)
    }

    /// True when there is nothing to be done again, and nothing is wrong.
    pub fn is_current(&self) -> bool {
        self.unknown.is_empty() && self.wrong.is_empty()
    }

    /// The erasures that are to be done again. What one job erased in several steps, with an
    /// operator's decision between them, is one erasure.
    pub fn erasures(&self) -> Vec<Erased> {
        let mut of_jobs: BTreeMap<Uuid, (i64, Erased)> = BTreeMap::new();
        for Entry { number, erased, .. } in &self.unknown {
            let mut erased = erased.clone();
            if let Some((_, before)) = of_jobs.remove(&erased.job) {
                erased.orders.extend(before.orders);
                erased.orders_by_id.extend(before.orders_by_id);
                for (shop, keys) in before.tombstones {
                    erased.tombstones.entry(shop).or_default().extend(keys);
                }
            }
            of_jobs.insert(erased.job, (*number, erased));
        }
        let mut erasures: Vec<(i64, Erased)> = of_jobs.into_values().collect();
        erasures.sort_by_key(|(number, _)| *number);
        erasures.into_iter().map(|(_, erased)| erased).collect()
    }
}

/// Writes entries that the database knows and the store lacks to the store. Returns how many there
/// were.
pub async fn write_lost(db: &Db, exports: &Exports, journal: &Journal) -> Result<usize> {
    let known = known(db).await?;
    let mut written = 0;
    for (number, wrong) in &journal.wrong {
        if let (Wrong::Missing, Some((bytes, _))) = (wrong, known.get(number)) {
            exports.add_erasure(*number, bytes.clone()).await?;
            written += 1;
        }
    }
    Ok(written)
}

/// Erases again what the database does not know, in the sequence of the journal, and reports each step.
/// An erasure that fails keeps no other; it is tried again by the next run.
pub async fn apply(
    parts: &Parts,
    exports: &Exports,
    by: By<'_>,
    journal: &Journal,
    report: impl FnMut(Step<'_>),
) -> Result<Summary> {
    let holder = parts.clock.id();
    let renewing = hold(parts, holder).await?;
    let done = apply_alone(parts, exports, by, journal, report).await;
    renewing.cancel();
    leases::release(&parts.db, LEASE, holder).await?;
    done
}

/// Waits for the lease, and renews it until the token is cancelled.
async fn hold(parts: &Parts, holder: Uuid) -> Result<CancellationToken> {
    while !take(parts, holder).await? {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let (parts, ended) = (parts.clone(), CancellationToken::new());
    let until = ended.clone();
    task::spawn("lease to erase again", async move {
        let pause = || until.run_until_cancelled(tokio::time::sleep(RENEW));
        while pause().await.is_some() {
            if let Err(error) = take(&parts, holder).await {
                tracing::debug!(%error, "the lease to erase again is not renewed");
            }
        }
    });
    Ok(ended)
}

async fn take(parts: &Parts, holder: Uuid) -> Result<bool> {
    let now = parts.clock.now();
    Ok(leases::take(&parts.db, LEASE, holder, now, now.plus(LASTS)).await?)
}

async fn apply_alone(
    parts: &Parts,
    exports: &Exports,
    by: By<'_>,
    journal: &Journal,
    mut report: impl FnMut(Step<'_>),
) -> Result<Summary> {
    let erasures = journal.erasures();
    let found = people::find(parts, &erasures).await?;
    let mut summary = Summary {
        erasures: erasures.len(),
        known: journal.known,
        ..Summary::default()
    };
    let mut failed = Vec::new();
    for (nth, (erased, found)) in erasures.iter().zip(&found).enumerate() {
        let result = again(parts, exports, by, erased, found).await;
        match &result {
            Ok(Reapplied::Erased(_)) => summary.erased += 1,
            Ok(Reapplied::DoneBefore) => {}
            Err(_) => {
                summary.failed += 1;
                failed.push(erased.job);
            }
        }
        report(Step {
            nth: nth + 1,
            of: erasures.len(),
            erased,
            result: &result,
        });
    }
    summary.known = take_over(parts, by, journal, &failed).await?;
    Ok(summary)
}

/// Lets the database know the entries up to the first that is wrong, or whose erasure has failed.
/// Returns the last that it knows then.
async fn take_over(parts: &Parts, by: By<'_>, journal: &Journal, failed: &[JobId]) -> Result<i64> {
    let mut known = journal.known;
    let wrong = journal
        .wrong
        .first()
        .map_or(i64::MAX, |(number, _)| *number);
    let entries = journal.unknown.iter().take_while(|entry| {
        let follows = entry.number == known + 1 && entry.number < wrong;
        let is_done = follows && !failed.contains(&entry.erased.job);
        known += i64::from(is_done);
        is_done
    });
    let entries: Vec<Entry> = entries.cloned().collect();
    let mut tx = parts.db.begin().await?;
    if erasures::take_over(&mut tx, &entries, parts.clock.now()).await? > 0 {
        let details = json!({
            "after": journal.known, "until": known, "entries": entries.len(),
        });
        by.note(&mut tx, "erasures.reapplied", "journal", details)
            .await?;
    }
    tx.commit().await?;
    Ok(known)
}

/// One erasure.
async fn again(
    parts: &Parts,
    exports: &Exports,
    by: By<'_>,
    erased: &Erased,
    found: &Found,
) -> Result<Reapplied> {
    let job = job(&parts.keys, erased, found);
    let mut tx = parts.db.begin().await?;
    if !enter(&mut tx, by, erased, found, &job).await? {
        tx.rollback().await?;
        return Ok(Reapplied::DoneBefore);
    }
    tx.commit().await?;
    let done = loop {
        match run(parts, exports, erased, found, &job).await {
            Err(error) if error.is::<Unfinished>() => {}
            done => break done?,
        }
    };
    record(parts, &job, &done).await?;
    Ok(Reapplied::Erased(done.counts))
}

/// Enters the tombstones, the job and the request of an erasure. False when it is done.
async fn enter(tx: &mut Tx, by: By<'_>, erased: &Erased, found: &Found, job: &Job) -> Result<bool> {
    let state = jobs::state(tx, job.id).await?;
    let topic = super::topic(job);
    if topic.is_none() && state == Some(State::Done) {
        return Ok(false);
    }
    let keys = erased.tombstones.iter();
    let keys = keys
        .map(|(shop, keys)| (shop.as_str(), keys.clone()))
        .collect();
    // Of a shop only what was there when the request came was erased.
    let at = match topic {
        Some(Topic::ShopRedact) => erased.received_at,
        _ => erased.erased_at,
    };
    tombstones::write(tx, &keys, at).await?;
    if state.is_none() {
        jobs::insert(tx, &[&new(job, by)]).await?;
    }
    if topic.is_none() {
        return Ok(true);
    }
    let customer = found.named(erased);
    let decided = found.decided(erased);
    Ok(privacy_requests::reapply(tx, by, erased, customer, &decided).await?)
}

/// Runs the erasure as a request of today would be.
async fn run(
    parts: &Parts,
    exports: &Exports,
    erased: &Erased,
    found: &Found,
    job: &Job,
) -> Result<Done> {
    match super::topic(job) {
        Some(Topic::ShopRedact) => shop::reapply(parts, exports, job, erased).await,
        Some(Topic::Redact) | None => {
            erase::reapply(
                parts,
                exports,
                job,
                found.sought(erased),
                erased,
                found.decided(erased),
            )
            .await
        }
        Some(Topic::DataRequest) => bail!("an export is no erasure"),
    }
}

/// Records what was done, as for a request of today.
async fn record(parts: &Parts, job: &Job, done: &Done) -> Result<()> {
    let context = Context {
        config: &parts.config,
        connections: &parts.connections,
        clock: &parts.clock,
        keys: &parts.keys,
    };
    let mut tx = parts.db.begin().await?;
    let finished = jobs::finish(&mut tx, &[job.id], parts.clock.now()).await?;
    if finished.is_empty() && super::topic(job).is_none() {
        tx.rollback().await?;
        return Ok(());
    }
    let mut outbox = Outbox::of(context, job);
    super::note(&mut outbox, &mut tx, job, done).await?;
    outbox.write(&mut tx).await?;
    tx.commit().await?;
    outbox.readable(&parts.bus);
    parts.db.erased();
    Ok(())
}

/// The job of an erasure, with a body of what was found.
fn job(keys: &Keys, erased: &Erased, found: &Found) -> Job {
    let key_of = |key| keys.subject(&erased.shop, key);
    let email = found.emails.iter();
    let mut email = email.filter(|it| key_of(SubjectKey::Email(it)) == erased.named.email);
    let phone = found.phones.iter();
    let mut phone = phone.filter(|it| key_of(SubjectKey::Phone(it)) == erased.named.phone);
    let customer = json!({
        "id": found.named(erased), "email": email.next(), "phone": phone.next(),
    });
    let orders = &erased.named.orders;
    let topic = erased.kind.parse::<Topic>().ok();
    let body = match topic {
        Some(Topic::ShopRedact) => json!({"shop_domain": erased.shop}),
        Some(_) => json!({
            "shop_domain": erased.shop, "customer": customer, "orders_to_redact": orders,
        }),
        None => json!({"orders": orders}),
    };
    Job {
        id: erased.job,
        kind: topic.map_or(Kind::Internal(Internal::EraseAgain), Kind::Privacy),
        shop: Some(erased.shop.clone()),
        connection: None,
        body: Bytes::from(body.to_string()),
        attempts: 0,
        unfinished_attempts: 0,
        deadline_at: Some(erased.due_at),
        trace: None,
        traceparent: None,
        created_at: erased.received_at,
        run: None,
    }
}

/// The same to be inserted. No worker begins it: it is done before the database is served.
fn new(job: &Job, by: By<'_>) -> NewJob {
    let request = super::topic(job).and_then(|topic| Request::read(topic, &job.body).ok());
    let customer = request.and_then(|request| request.person.id);
    NewJob {
        shop: job.shop.clone(),
        subject: customer.map(|id| id.to_string()),
        deadline_at: job.deadline_at,
        created_at: job.created_at,
        ..NewJob::of(job.kind, job.id, job.body.clone(), by.now)
    }
}
