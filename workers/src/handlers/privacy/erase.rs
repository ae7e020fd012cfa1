//! `customers/redact`: what identifies a customer is erased; amounts, ids and states stay.
//!
//! 1. Tombstones of what the request names, then of all that is found by it: from then on
//!    writers store nothing personal of them (`store::subjects`). Whatever was being written
//!    is committed by then, so the next search finds it; until one finds nothing new.
//! 2. Bodies of jobs. All that are kept are walked through; a long walk is left off and goes on
//!    in the next run, as long as it is the same person that is looked for.
//! 3. Earlier exports.
//! 4. Rows, last: what steps 2 and 3 search by is in them. So a run that is cut off is simply
//!    done again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use common::exports::Exports;
use common::job::{Job, JobId};
use common::privacy::{Key, Keys, Mentions, Person, Request, Topic, scrub};
use common::process::Parts;
use common::sql::Tx;
use common::store::erasure::{self, Kept};
use common::store::orders::CHECKOUT;
use common::store::people::{self, Found, Sought};
use common::store::privacy_requests;
use common::store::subjects::{self, NO_SHOP};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::effects;
use super::{Done, export};
use crate::failure::Unfinished;

/// Rows of a transaction, and ids that a walk looks for at a time.
const CHUNK: usize = 100;

/// How long one run walks before it lets others have its place.
const RUN: Duration = Duration::from_secs(15);

/// The body of an [`super::AGAIN`] job: orders of a shop, and their customers.
#[derive(Default, Serialize, Deserialize)]
pub struct Again {
    pub orders: BTreeSet<i64>,
    pub customers: BTreeSet<i64>,
    /// It is no request, which would keep it.
    #[serde(default)]
    progress: Progress,
}

impl Again {
    pub fn new(orders: BTreeSet<i64>, customers: BTreeSet<i64>) -> Self {
        Again {
            orders,
            customers,
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
    walk: Walk,
}

/// How far the jobs were walked through.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Walk {
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

pub async fn customer(
    parts: &Parts,
    exports: &Exports,
    job: &Job,
    request: &Request,
) -> Result<Done> {
    let noted = privacy_requests::progress(&parts.db, job.id).await?;
    let progress = noted.map(serde_json::from_value).transpose()?;
    let progress = progress.unwrap_or_default();
    let note = Note::Request(job.id);
    let counts = erase(parts, exports, &Sought::of(request), note, progress).await?;
    Ok(Done {
        action: "customer.erased",
        counts: json!(counts),
        export: None,
    })
}

/// Orders of people whose data was erased have come late: erases what belongs to them.
pub async fn again(parts: &Parts, exports: &Exports, job: &Job) -> Result<Done> {
    let again: Again = effects::body(job)?;
    let sought = Sought {
        shop: job.shop.as_deref().unwrap_or_default(),
        person: &Person::default(),
        customers: again.customers.clone(),
        orders: again.orders.clone(),
    };
    let note = Note::Again(job.id, again.orders, again.customers);
    let counts = erase(parts, exports, &sought, note, again.progress).await?;
    Ok(Done {
        action: "customer.erased_again",
        counts: json!(counts),
        export: None,
    })
}

async fn erase(
    parts: &Parts,
    exports: &Exports,
    sought: &Sought<'_>,
    note: Note,
    mut progress: Progress,
) -> Result<Counts> {
    let mut found = people::named(sought);
    let mut buried = BTreeMap::new();
    loop {
        let tombstones = tombstones(&parts.keys, &found);
        if tombstones == buried {
            break;
        }
        bury(parts, &tombstones).await?;
        buried = tombstones;
        found = people::find(&parts.db, sought).await?;
    }
    let digest = digest(&buried, found.spellings.len());
    if progress.walk.sought != digest {
        progress.walk = Walk {
            sought: digest,
            ..Walk::default()
        };
    }
    let mut erasure = Erasure {
        parts,
        note,
        found,
        progress,
    };
    erasure.jobs().await?;
    erasure.exports(exports).await?;
    erasure.rows().await?;
    Ok(erasure.progress.counts)
}

/// Where progress is noted.
enum Note {
    /// With the request of this job.
    Request(JobId),
    /// In this job's own body, with what else is in it.
    Again(JobId, BTreeSet<i64>, BTreeSet<i64>),
}

impl Note {
    fn job(&self) -> JobId {
        match self {
            Note::Request(job) | Note::Again(job, ..) => *job,
        }
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

async fn bury(parts: &Parts, tombstones: &BTreeMap<String, BTreeSet<Uuid>>) -> Result<()> {
    let tombstones: BTreeMap<&str, BTreeSet<Uuid>> = tombstones
        .iter()
        .map(|(shop, keys)| (shop.as_str(), keys.clone()))
        .collect();
    let mut tx = parts.db.begin().await?;
    subjects::bury(&mut tx, &tombstones, parts.clock.now()).await?;
    Ok(tx.commit().await?)
}

fn tombstones(keys: &Keys, found: &Found) -> BTreeMap<String, BTreeSet<Uuid>> {
    let mut tombstones: BTreeMap<String, BTreeSet<Uuid>> = BTreeMap::new();
    let mut add = |shop: &str, key: Key<'_>| {
        let of_shop = tombstones.entry(shop.to_owned()).or_default();
        of_shop.extend(keys.subject(shop, key));
    };
    for id in &found.customers {
        add(&found.shop, Key::Customer(*id));
    }
    for (shop, id) in &found.orders {
        add(shop, Key::Order(*id));
    }
    for email in &found.emails {
        for shop in [found.shop.as_str(), CHECKOUT, NO_SHOP] {
            add(shop, Key::Email(email));
        }
    }
    for phone in &found.phones {
        for shop in [found.shop.as_str(), NO_SHOP] {
            add(shop, Key::Phone(phone));
        }
    }
    for pact in &found.pacts {
        add(NO_SHOP, Key::Pact(pact));
    }
    let objects = found.payments.iter().chain(&found.sessions);
    for id in objects.chain(&found.subscriptions) {
        add(NO_SHOP, Key::Payment(id));
    }
    tombstones
}

struct Erasure<'a> {
    parts: &'a Parts,
    note: Note,
    found: Found,
    progress: Progress,
}

impl Erasure<'_> {
    /// Walks through all jobs, as often as it takes to look for everything.
    async fn jobs(&mut self) -> Result<()> {
        let found = &self.found;
        let orders = found.orders.iter().map(|(_, id)| id.to_string());
        let customers = found.customers.iter().map(ToString::to_string);
        let ids: Vec<String> = orders.chain(customers).collect();
        let texts = found.spellings.iter().chain(&found.payments);
        let texts = texts.chain(&found.sessions).chain(&found.subscriptions);
        let texts: Vec<String> = texts.cloned().collect();
        let of_texts = texts.len().div_ceil(erasure::TEXTS);
        let passes = of_texts.max(ids.len().div_ceil(CHUNK)).max(1);
        let clock = &self.parts.clock;
        let start = clock.elapsed();
        while self.progress.walk.passes < passes {
            let Walk { passes, after, .. } = self.progress.walk;
            let texts = texts.chunks(erasure::TEXTS).nth(passes).unwrap_or_default();
            let ids = ids.chunks(CHUNK).nth(passes).unwrap_or_default();
            let stretch = erasure::walk(&self.parts.db, after, texts, ids.to_vec()).await?;
            let walk = &mut self.progress.walk;
            (walk.passes, walk.after) = match stretch.last {
                Some(last) => (passes, last),
                None => (passes + 1, Uuid::nil()),
            };
            self.scrub(stretch.kept).await?;
            if clock.elapsed().saturating_sub(start) > RUN {
                self.commit(self.parts.db.begin().await?).await?;
                return Err(Unfinished.into());
            }
        }
        self.commit(self.parts.db.begin().await?).await
    }

    /// Replaces the bodies of those jobs that are about the person.
    async fn scrub(&mut self, kept: Vec<Kept>) -> Result<()> {
        let own = self.note.job();
        let theirs = kept.into_iter();
        let theirs = theirs.filter(|kept| kept.id != own && concerns(kept, &self.found));
        let theirs: Vec<Kept> = theirs.collect();
        self.bury_orders(&theirs).await?;
        let replaced: Vec<(JobId, Option<Vec<u8>>)> = theirs
            .into_iter()
            .map(|kept| (kept.id, scrub(&kept.kind, &kept.body), kept.body))
            .filter(|(_, scrubbed, body)| scrubbed.as_deref() != Some(body))
            .map(|(id, scrubbed, _)| (id, scrubbed))
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

    /// Writes tombstones of orders that are known by an address alone, and of their customers:
    /// once the address is gone from the body, nothing else tells whose they are.
    async fn bury_orders(&self, theirs: &[Kept]) -> Result<()> {
        let found = &self.found;
        let mut keys = BTreeSet::new();
        for kept in theirs
            .iter()
            .filter(|kept| kept.kind.starts_with("orders/"))
        {
            let mentions = Mentions::of(&kept.body);
            if mentions.own_emails.is_disjoint(&found.emails)
                && mentions.own_phones.is_disjoint(&found.phones)
            {
                continue;
            }
            let own = [
                mentions.order.map(Key::Order),
                mentions.customer.map(Key::Customer),
            ];
            let own = own.into_iter().flatten();
            keys.extend(own.filter_map(|key| self.parts.keys.subject(&found.shop, key)));
        }
        if keys.is_empty() {
            return Ok(());
        }
        bury(self.parts, &BTreeMap::from([(found.shop.clone(), keys)])).await
    }

    async fn commit(&self, mut tx: Tx) -> Result<()> {
        match &self.note {
            Note::Request(job) => {
                privacy_requests::note_progress(&mut tx, *job, &self.progress).await?;
            }
            Note::Again(job, orders, customers) => {
                let again = json!({
                    "orders": orders, "customers": customers, "progress": self.progress,
                });
                erasure::replace_body(&mut tx, *job, Some(again.to_string().into_bytes())).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    /// Listed after the tombstones were written: an export that is noted later has seen them.
    async fn exports(&mut self, exports: &Exports) -> Result<()> {
        let found = &self.found;
        let customers: Vec<i64> = found.customers.iter().copied().collect();
        let key = |key| self.parts.keys.subject(&found.shop, key);
        let emails = found.emails.iter().filter_map(|it| key(Key::Email(it)));
        let phones = found.phones.iter().filter_map(|it| key(Key::Phone(it)));
        let ids = privacy_requests::exports_of_person(
            &self.parts.db,
            &found.shop,
            &customers,
            &emails.collect::<Vec<Uuid>>(),
            &phones.collect::<Vec<Uuid>>(),
        )
        .await?;
        for id in ids {
            export::remove_all_of(self.parts, exports, &[id]).await?;
            self.progress.counts.exports += 1;
        }
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
        let shop = found.shop.clone();
        let (orders, stand_ins) = (of_shop(&shop), of_shop(CHECKOUT));
        let longest = [
            payments.len(),
            sessions.len(),
            customers.len(),
            orders.len(),
            stand_ins.len(),
        ];
        let rounds = longest.into_iter().max().unwrap_or(0).div_ceil(CHUNK);
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
            if let Some(ids) = customers.chunks(CHUNK).nth(nth) {
                erased_customers += erasure::customers(&mut tx, &shop, ids.to_vec(), now).await?;
            }
            if let Some(ids) = stand_ins.chunks(CHUNK).nth(nth) {
                erased_orders += erasure::orders(&mut tx, CHECKOUT, ids.to_vec(), now).await?;
            }
            if let Some(ids) = orders.chunks(CHUNK).nth(nth) {
                erased_orders += erasure::orders(&mut tx, &shop, ids.to_vec(), now).await?;
            }
            counts.customers = counts.customers.max(erased_customers);
            counts.orders = counts.orders.max(erased_orders);
            self.commit(tx).await?;
        }
        Ok(())
    }
}

/// True for a body that is about the person.
fn concerns(kept: &Kept, found: &Found) -> bool {
    let mentions = Mentions::of(&kept.body);
    let has_address =
        !mentions.emails.is_disjoint(&found.emails) || !mentions.phones.is_disjoint(&found.phones);
    let topic = Topic::parse(&kept.kind);
    if topic.is_none() && !kept.kind.starts_with("orders/") {
        let ids = [&found.payments, &found.sessions, &found.subscriptions];
        return has_address
            || !mentions.pacts.is_disjoint(&found.pacts)
            || ids.iter().any(|ids| !mentions.ids.is_disjoint(ids));
    }
    if kept.shop.as_ref().is_some_and(|shop| *shop != found.shop) {
        return false;
    }
    // Another erasure that is open reads its own body, and cuts it at its end.
    if topic == Some(Topic::Redact) && kept.is_ready {
        return false;
    }
    let order = mentions.order.map(|id| (found.shop.clone(), id));
    has_address
        || mentions
            .customer
            .is_some_and(|id| found.customers.contains(&id))
        || order.is_some_and(|key| topic.is_none() && found.orders.contains(&key))
}
