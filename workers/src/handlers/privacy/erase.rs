//! `customers/redact`: what identifies a customer is erased; amounts, ids and states stay.
//!
//! Whom an address or a telephone number has in common with others is held ([`Done::held`]).
//!
//! 1. Tombstones of what the request names and of all that is found by it: from then on
//!    writers store nothing personal of them (`store::tombstones`). Whatever was being written
//!    is committed by then, so the next search finds it; until one finds nothing new. Orders that
//!    were found are noted with their tombstones: what comes late takes from their rows the
//!    address by which they were found, and a run that goes on must know them still.
//! 2. Bodies of jobs. All that are kept are scanned; a long scan is interrupted and goes on
//!    in the next run, as long as it is the same person that is looked for.
//! 3. Earlier exports are found, and end at once: nobody fetches them any more.
//! 4. Rows: what steps 2 and 3 search by is in them. So a run that is cut off is simply done
//!    again.
//! 5. The exports are removed from their store, last: one that does not answer keeps nobody's rows.
//!    Which ones is noted with the progress, as nothing else shows it by then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use domain::job::{Job, JobId, State};
use domain::privacy::{Held, Keys, Mentions, Request, SubjectKey, erased_body};
use process::Parts;
use providers::exports::Exports;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::erasure::{self, Kept};
use store::orders::CHECKOUT;
use store::people::{self, PersonRows, Sought};
use store::privacy_requests;
use store::sql::Tx;
use store::tombstones::{self, NO_SHOP};
use uuid::Uuid;

use super::super::outbox;
use super::{Done, export};
use crate::failure::Unfinished;

/// Rows of a transaction, and ids that a scan looks for at a time.
const CHUNK: usize = 100;

/// How long one run scans before it lets others have its place.
const RUN: Duration = Duration::from_secs(15);

/// The body of an [`super::AGAIN`] job: orders of a shop.
#[derive(Default, Serialize, Deserialize)]
pub struct Again {
    pub orders: BTreeSet<i64>,
    /// It is no request, which would keep it.
    #[serde(default)]
    progress: Progress,
}

impl Again {
    pub fn new(orders: BTreeSet<i64>) -> Self {
        Again {
            orders,
            progress: Progress::default(),
        }
    }
}

/// Where an erasure stands. Kept in the transactions that erase, so that a run that is cut off
/// is counted too.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    #[serde(flatten)]
    counts: Counts,
    scan: Scan,
    /// Of the storefront, that were found so far, by whatever.
    orders: BTreeSet<i64>,
    /// Requests whose exports are to be removed.
    ended_exports: BTreeSet<Uuid>,
}

/// How far the jobs were scanned.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Scan {
    /// Whom it looks for ([`digest`]): for anybody else it begins anew.
    sought: Uuid,
    /// How often it has come to the end.
    passes: usize,
    after: Uuid,
}

/// How many rows of each sort were erased.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Counts {
    customers: u64,
    orders: u64,
    payments: u64,
    checkout_sessions: u64,
    jobs: u64,
    exports: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.customers += other.customers;
        self.orders += other.orders;
        self.payments += other.payments;
        self.checkout_sessions += other.checkout_sessions;
        self.jobs += other.jobs;
        self.exports += other.exports;
    }
}

/// What is certain is erased at once, and what an operator has decided when they have: of whom
/// comes back meanwhile nothing is erased a second time.
pub async fn customer(
    parts: &Parts,
    exports: &Exports,
    job: &Job,
    request: &Request,
) -> Result<Done> {
    let entry = privacy_requests::find(&parts.db, job.id).await?;
    let (held, decided) = entry.map_or((None, None), |entry| (entry.held, entry.decided));
    let decided = decided.unwrap_or_default();
    let all = Sought::of(request).decided(&decided);
    let sought = match &held {
        None => all.clone(),
        Some(held) => {
            let done = held.after.as_deref().cloned().unwrap_or_default();
            Sought {
                shop: request.shop.clone(),
                customers: &decided.customers - &done.customers,
                orders: &decided.orders - &done.orders,
                decided: decided.clone(),
                ..Sought::default()
            }
        }
    };
    let noted = privacy_requests::progress(&parts.db, job.id).await?;
    let progress = noted.map(serde_json::from_value).transpose()?;
    let progress = progress.unwrap_or_default();
    let note = Note::Request(job.id);
    let (mut counts, found) = erase(parts, exports, &sought, note, progress).await?;
    let mut rest = found.held;
    if let Some(held) = held {
        counts.add(&serde_json::from_value(held.counts).unwrap_or_default());
        rest = people::find(&parts.db, &all).await?.held;
    }
    Ok(Done {
        action: "customer.erased",
        counts: json!(counts),
        export: None,
        held: rest,
        decided: Some(decided),
    })
}

/// Orders of people whose data was erased have come late: erases what belongs to them.
pub async fn again(parts: &Parts, exports: &Exports, job: &Job) -> Result<Done> {
    let again: Again = outbox::body(job)?;
    let sought = Sought {
        shop: job.shop.clone().unwrap_or_default(),
        orders: again.orders.clone(),
        ..Sought::default()
    };
    let note = Note::Again(job.id, again.orders);
    let (counts, _) = erase(parts, exports, &sought, note, again.progress).await?;
    Ok(Done {
        action: "customer.erased_again",
        counts: json!(counts),
        export: None,
        held: Held::default(),
        decided: None,
    })
}

async fn erase(
    parts: &Parts,
    exports: &Exports,
    sought: &Sought,
    mut note: Note,
    mut progress: Progress,
) -> Result<(Counts, PersonRows)> {
    let mut sought = sought.clone();
    let mut erasure = loop {
        sought.orders.extend(&progress.orders);
        // Before the first tombstone: what comes late takes addresses from rows from then on.
        let mut found = people::find(&parts.db, &sought).await?;
        let mut written = BTreeMap::new();
        loop {
            let tombstones = tombstones(&parts.keys, &found);
            if tombstones == written {
                break;
            }
            progress.orders.extend(found.storefront_orders());
            write_tombstones(parts, &note, &progress, &tombstones).await?;
            written = tombstones;
            found = people::find(&parts.db, &sought).await?;
        }
        let digest = digest(&written, found.spellings.len());
        if progress.scan.sought != digest {
            progress.scan = Scan {
                sought: digest,
                ..Scan::default()
            };
        }
        let mut erasure = Erasure {
            parts,
            note,
            found,
            progress,
        };
        erasure.jobs().await?;
        let known: BTreeSet<i64> = erasure.found.storefront_orders().collect();
        if erasure.progress.orders.is_subset(&known) {
            break erasure;
        }
        // Bodies named orders that no row did: what else is theirs is looked for too.
        Erasure { note, progress, .. } = erasure;
    };
    erasure.end_exports().await?;
    erasure.rows().await?;
    erasure.remove_exports(exports).await?;
    Ok((erasure.progress.counts, erasure.found))
}

/// Where progress is noted.
enum Note {
    /// With the request of this job.
    Request(JobId),
    /// In this job's own body, with what else is in it.
    Again(JobId, BTreeSet<i64>),
}

impl Note {
    fn job(&self) -> JobId {
        match self {
            Note::Request(job) | Note::Again(job, _) => *job,
        }
    }

    async fn write(&self, tx: &mut Tx, progress: &Progress) -> Result<()> {
        match self {
            Note::Request(job) => {
                privacy_requests::note_progress(tx, *job, progress).await?;
            }
            Note::Again(job, orders) => {
                let again = json!({"orders": orders, "progress": progress});
                erasure::replace_body(tx, *job, Some(again.to_string().into_bytes())).await?;
            }
        }
        Ok(())
    }
}

/// Of tombstones, which are keyed, so it says nothing about anybody.
fn digest(tombstones: &BTreeMap<String, BTreeSet<Uuid>>, spellings: usize) -> Uuid {
    let mut hash = Sha256::new();
    for key in tombstones.values().flatten() {
        hash.update(key);
    }
    hash.update(spellings.to_be_bytes());
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    Uuid::from_bytes(first)
}

async fn write_tombstones(
    parts: &Parts,
    note: &Note,
    progress: &Progress,
    tombstones: &BTreeMap<String, BTreeSet<Uuid>>,
) -> Result<()> {
    let tombstones: BTreeMap<&str, BTreeSet<Uuid>> = tombstones
        .iter()
        .map(|(shop, keys)| (shop.as_str(), keys.clone()))
        .collect();
    let mut tx = parts.db.begin().await?;
    tombstones::write(&mut tx, &tombstones, parts.clock.now()).await?;
    note.write(&mut tx, progress).await?;
    Ok(tx.commit().await?)
}

fn tombstones(keys: &Keys, found: &PersonRows) -> BTreeMap<String, BTreeSet<Uuid>> {
    let mut tombstones: BTreeMap<String, BTreeSet<Uuid>> = BTreeMap::new();
    let mut add = |shop: &str, key: SubjectKey<'_>| {
        let of_shop = tombstones.entry(shop.to_owned()).or_default();
        of_shop.extend(keys.subject(shop, key));
    };
    for shop in found.shops() {
        for id in &found.customers {
            add(&shop, SubjectKey::Customer(*id));
        }
        for id in &found.guest_orders {
            add(&shop, SubjectKey::GuestOrder(*id));
        }
    }
    for (shop, id) in &found.orders {
        add(shop, SubjectKey::Order(*id));
    }
    for email in &found.emails {
        for shop in [found.shop.as_str(), CHECKOUT, NO_SHOP] {
            add(shop, SubjectKey::Email(email));
        }
    }
    for phone in &found.phones {
        for shop in [found.shop.as_str(), NO_SHOP] {
            add(shop, SubjectKey::Phone(phone));
        }
    }
    for pact in &found.pacts {
        add(NO_SHOP, SubjectKey::Pact(pact));
    }
    for payer in &found.payers {
        add(NO_SHOP, SubjectKey::Payer(payer));
    }
    let objects = found.payments.iter().chain(&found.sessions);
    for id in objects.chain(&found.subscriptions) {
        add(NO_SHOP, SubjectKey::Payment(id));
    }
    tombstones
}

struct Erasure<'a> {
    parts: &'a Parts,
    note: Note,
    found: PersonRows,
    progress: Progress,
}

impl Erasure<'_> {
    /// Scans all jobs, as often as it takes to look for everything.
    async fn jobs(&mut self) -> Result<()> {
        let found = &self.found;
        let orders = found.orders.iter().map(|(_, id)| id.to_string());
        let customers = found.customers.iter().map(ToString::to_string);
        let ids: Vec<String> = orders.chain(customers).collect();
        let ids: Vec<String> = ids
            .into_iter()
            .chain(found.guest_orders.iter().map(ToString::to_string))
            .collect();
        let texts: Vec<String> = found.spellings.iter().cloned().collect();
        let of_texts = texts.len().div_ceil(erasure::TEXTS);
        let passes = of_texts.max(ids.len().div_ceil(CHUNK)).max(1);
        let clock = &self.parts.clock;
        let start = clock.elapsed();
        while self.progress.scan.passes < passes {
            let Scan { passes, after, .. } = self.progress.scan;
            let texts = texts.chunks(erasure::TEXTS).nth(passes).unwrap_or_default();
            let ids = ids.chunks(CHUNK).nth(passes).unwrap_or_default();
            let page = erasure::scan(&self.parts.db, after, texts, ids.to_vec()).await?;
            let scan = &mut self.progress.scan;
            (scan.passes, scan.after) = match page.last {
                Some(last) => (passes, last),
                None => (passes + 1, Uuid::nil()),
            };
            self.erase_bodies(page.kept).await?;
            if clock.elapsed().saturating_sub(start) > RUN {
                self.commit(self.parts.db.begin().await?).await?;
                return Err(Unfinished.into());
            }
        }
        self.commit(self.parts.db.begin().await?).await
    }

    /// Replaces the bodies of those jobs that are about the person.
    async fn erase_bodies(&mut self, kept: Vec<Kept>) -> Result<()> {
        let own = self.note.job();
        let (db, found) = (&self.parts.db, &self.found);
        let (mut theirs, mut mentioned) = (Vec::new(), Vec::new());
        for kept in kept.into_iter().filter(|kept| kept.id != own) {
            if people::concerns(db, found, &kept).await? {
                theirs.push(kept);
            } else if kept.state == State::Done && people::is_mentioned(found, &kept) {
                mentioned.push(kept);
            }
        }
        self.write_order_tombstones(&theirs).await?;
        theirs.extend(mentioned);
        let replaced: Vec<(JobId, Option<Vec<u8>>)> = theirs
            .into_iter()
            .map(|kept| (kept.id, erased_body(&kept.kind, &kept.body), kept.body))
            .filter(|(_, erased, body)| erased.as_deref() != Some(body))
            .map(|(id, erased, _)| (id, erased))
            .collect();
        if replaced.is_empty() {
            return Ok(());
        }
        let mut tx = self.parts.db.begin().await?;
        for (id, body) in replaced {
            self.progress.counts.jobs += u64::from(erasure::replace_body(&mut tx, id, body).await?);
        }
        self.commit(tx).await
    }

    /// Writes tombstones of orders that are known by an address alone: once it is gone from the
    /// body, nothing else says whose they are.
    async fn write_order_tombstones(&mut self, theirs: &[Kept]) -> Result<()> {
        let orders = theirs
            .iter()
            .filter(|kept| kept.kind.starts_with("orders/"));
        let ids = orders.filter_map(|kept| Mentions::of(&kept.body).order);
        let ids: BTreeSet<i64> = ids.collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.progress.orders.extend(&ids);
        let keys = &self.parts.keys;
        let of_shop = |shop: String| {
            let of_shop = ids.iter();
            let of_shop = of_shop.filter_map(|id| keys.subject(&shop, SubjectKey::Order(*id)));
            let of_shop = of_shop.collect();
            (shop, of_shop)
        };
        let tombstones = self.found.shops().into_iter().map(of_shop).collect();
        write_tombstones(self.parts, &self.note, &self.progress, &tombstones).await
    }

    async fn commit(&self, mut tx: Tx) -> Result<()> {
        self.note.write(&mut tx, &self.progress).await?;
        Ok(tx.commit().await?)
    }

    /// Listed after the tombstones were written: an export that is noted later has seen them.
    async fn end_exports(&mut self) -> Result<()> {
        let Parts {
            db, keys, clock, ..
        } = self.parts;
        let found = &self.found;
        let customers: Vec<i64> = found.customers.iter().copied().collect();
        let key = |key| keys.subject(&found.shop, key);
        let emails = found
            .emails
            .iter()
            .filter_map(|it| key(SubjectKey::Email(it)));
        let emails: Vec<Uuid> = emails.collect();
        let phones = found
            .phones
            .iter()
            .filter_map(|it| key(SubjectKey::Phone(it)));
        let phones: Vec<Uuid> = phones.collect();
        let shop = &found.shop;
        let of_older_versions =
            privacy_requests::exports_of_person(db, shop, &customers, &emails, &phones).await?;
        let ended = &mut self.progress.ended_exports;
        ended.extend(of_older_versions);
        let subjects = export::subjects(keys, found);
        ended.extend(privacy_requests::exports_about(db, &subjects).await?);
        if ended.is_empty() {
            return Ok(());
        }
        let ids = ended.iter().copied().collect();
        let mut tx = db.begin().await?;
        privacy_requests::end_exports(&mut tx, ids, clock.now()).await?;
        self.commit(tx).await
    }

    async fn remove_exports(&mut self, exports: &Exports) -> Result<()> {
        let ended = &self.progress.ended_exports;
        let ids: Vec<Uuid> = ended.iter().copied().collect();
        export::remove_all_of(self.parts, exports, &ids).await?;
        self.progress.counts.exports = ids.len() as u64;
        Ok(())
    }

    /// A few of each sort a transaction, in the order in which writers take them.
    async fn rows(&mut self) -> Result<()> {
        let now = self.parts.clock.now();
        let found = &self.found;
        let of_shop = |shop: &str| {
            let of_shop = found.orders.iter().filter(|(of, _)| of == shop);
            of_shop.map(|(_, id)| *id).collect::<Vec<i64>>()
        };
        let payments: Vec<String> = found.payments.iter().cloned().collect();
        let sessions: Vec<String> = found.sessions.iter().cloned().collect();
        let customers: Vec<i64> = found.customers.iter().copied().collect();
        let shops = found.shops();
        let mut orders: Vec<(String, Vec<i64>)> = vec![(CHECKOUT.to_owned(), of_shop(CHECKOUT))];
        orders.extend(shops.iter().map(|shop| (shop.clone(), of_shop(shop))));
        orders.sort();
        let of_orders = orders.iter().map(|(_, ids)| ids.len());
        let longest = [payments.len(), sessions.len(), customers.len()];
        let longest = longest.into_iter().chain(of_orders).max();
        let rounds = longest.unwrap_or(0).div_ceil(CHUNK);
        // A run that was cut off counted them too. It may have erased what they were found by.
        let (mut erased_customers, mut erased_orders) = (0, 0);
        for nth in 0..rounds {
            let mut tx = self.parts.db.begin().await?;
            let counts = &mut self.progress.counts;
            if let Some(ids) = payments.chunks(CHUNK).nth(nth) {
                counts.payments += erasure::payments(&mut tx, ids.to_vec()).await?;
            }
            if let Some(ids) = sessions.chunks(CHUNK).nth(nth) {
                counts.checkout_sessions +=
                    erasure::checkout_sessions(&mut tx, ids.to_vec()).await?;
            }
            for shop in &shops {
                if let Some(ids) = customers.chunks(CHUNK).nth(nth) {
                    erased_customers +=
                        erasure::customers(&mut tx, shop, ids.to_vec(), now).await?;
                }
            }
            for (shop, ids) in &orders {
                if let Some(ids) = ids.chunks(CHUNK).nth(nth) {
                    erased_orders += erasure::orders(&mut tx, shop, ids.to_vec(), now).await?;
                }
            }
            counts.customers = counts.customers.max(erased_customers);
            counts.orders = counts.orders.max(erased_orders);
            self.commit(tx).await?;
        }
        Ok(())
    }
}
