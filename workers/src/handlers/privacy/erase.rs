//! `customers/redact`: what identifies a customer is erased; amounts, ids and states stay.
//!
//! 1. Tombstones of what the request names, then of all that is found by it: from then on
//!    writers store nothing personal of them (`store::subjects`). Whatever was being written
//!    is committed by then, so the next search finds it; until one finds nothing new.
//! 2. Bodies of jobs: those that are not done, then those that are.
//! 3. Earlier exports.
//! 4. Rows, last: what steps 2 and 3 search by is in them. So a run that is cut off is simply
//!    done again from the start.

use std::collections::{BTreeMap, BTreeSet};

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
use uuid::Uuid;

use super::super::effects;
use super::{Done, export};

/// Rows of a transaction.
const CHUNK: usize = 100;

/// The body of an [`super::AGAIN`] job: orders of a shop, and their customers.
#[derive(Default, Serialize, Deserialize)]
pub struct Again {
    pub orders: BTreeSet<i64>,
    pub customers: BTreeSet<i64>,
}

/// How many rows of each sort were erased. Kept with the request in the
/// transactions that erase, so that a run that is cut off is counted too.
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
    let counts = erase(parts, exports, job.id, &Sought::of(request)).await?;
    Ok(Done {
        action: "customer.erased",
        counts: json!(counts),
        export: None,
    })
}

/// Orders of people whose data was erased have come late: erases what belongs to them.
pub async fn again(parts: &Parts, exports: &Exports, job: &Job) -> Result<Done> {
    let again: Again = effects::body(job)?;
    let shop = job.shop.as_deref().unwrap_or_default();
    let sought = Sought {
        shop,
        person: &Person::default(),
        customers: again.customers,
        orders: again.orders,
    };
    let counts = erase(parts, exports, job.id, &sought).await?;
    Ok(Done {
        action: "customer.erased_again",
        counts: json!(counts),
        export: None,
    })
}

async fn erase(
    parts: &Parts,
    exports: &Exports,
    own: JobId,
    sought: &Sought<'_>,
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
    let counts = match privacy_requests::progress(&parts.db, own).await? {
        Some(progress) => serde_json::from_value(progress)?,
        None => Counts::default(),
    };
    let mut erasure = Erasure {
        parts,
        own,
        found,
        counts,
    };
    erasure.scrub_unfinished().await?;
    erasure.scrub_finished().await?;
    erasure.exports(exports).await?;
    erasure.rows().await?;
    Ok(erasure.counts)
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
    /// The request's own job.
    own: JobId,
    found: Found,
    counts: Counts,
}

impl Erasure<'_> {
    async fn scrub_unfinished(&mut self) -> Result<()> {
        let ids = erasure::unfinished(&self.parts.db).await?;
        for ids in ids.chunks(CHUNK) {
            let kept = erasure::bodies(&self.parts.db, ids.to_vec()).await?;
            self.scrub(kept).await?;
        }
        Ok(())
    }

    async fn scrub_finished(&mut self) -> Result<()> {
        let found = &self.found;
        let orders = found.orders.iter().map(|(_, id)| id.to_string());
        let customers = found.customers.iter().map(ToString::to_string);
        let ids: Vec<String> = orders.chain(customers).collect();
        let texts = found.spellings.iter().chain(&found.payments);
        let texts = texts.chain(&found.sessions).chain(&found.subscriptions);
        let texts: Vec<String> = texts.cloned().collect();
        for ids in ids.chunks(CHUNK) {
            let mut cursor = Uuid::nil();
            loop {
                let kept = erasure::finished_of(&self.parts.db, cursor, ids.to_vec()).await?;
                let Some(last) = kept.last() else { break };
                cursor = last.id;
                self.scrub(kept).await?;
            }
        }
        for texts in texts.chunks(erasure::TEXTS) {
            let mut cursor = Uuid::nil();
            loop {
                let kept = erasure::finished_with(&self.parts.db, cursor, texts).await?;
                let Some(last) = kept.last() else { break };
                cursor = last.id;
                self.scrub(kept).await?;
            }
        }
        Ok(())
    }

    /// Replaces the bodies of those jobs that are about the person.
    async fn scrub(&mut self, kept: Vec<Kept>) -> Result<()> {
        let theirs = kept.into_iter();
        let theirs = theirs.filter(|kept| kept.id != self.own && concerns(kept, &self.found));
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
            self.counts.jobs += u64::from(erasure::replace_body(&mut tx, id, body).await?);
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
        privacy_requests::note_progress(&mut tx, self.own, &self.counts).await?;
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
            self.counts.exports += 1;
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
        // A run that was cut off counted them too.
        (self.counts.customers, self.counts.orders) = (0, 0);
        for nth in 0..rounds {
            let mut tx = self.parts.db.begin().await?;
            let counts = &mut self.counts;
            if let Some(ids) = payments.chunks(CHUNK).nth(nth) {
                counts.payments += erasure::payments(&mut tx, ids.to_vec()).await?;
            }
            if let Some(ids) = sessions.chunks(CHUNK).nth(nth) {
                counts.checkout_sessions +=
                    erasure::checkout_sessions(&mut tx, ids.to_vec()).await?;
            }
            if let Some(ids) = customers.chunks(CHUNK).nth(nth) {
                counts.customers += erasure::customers(&mut tx, &shop, ids.to_vec(), now).await?;
            }
            if let Some(ids) = stand_ins.chunks(CHUNK).nth(nth) {
                counts.orders += erasure::orders(&mut tx, CHECKOUT, ids.to_vec(), now).await?;
            }
            if let Some(ids) = orders.chunks(CHUNK).nth(nth) {
                counts.orders += erasure::orders(&mut tx, &shop, ids.to_vec(), now).await?;
            }
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
