//! `customers/redact`: what identifies a customer is erased. Amounts, ids and states stay.
//!
//! Where an address or a telephone number belongs to several people, an operator must decide whom
//! the request means ([`Done::held`]).
//!
//! 1. Tombstones are written of what the request names and of everything that is found by it. From
//!    then on writers store nothing personal of these (`store::tombstones`). What was being written
//!    is committed by then, so the next search finds it. This is repeated until a search finds
//!    nothing new. The orders that were found are noted with their tombstones, because a late
//!    delivery takes the address by which an order was found from its row, and a run that continues
//!    the erasure must still know the order.
//! 2. The bodies of jobs are erased (`bodies`): all of the shop, and all that name no shop, are
//!    scanned. A long scan is interrupted and continued in the next run, as long as it looks for the
//!    same person.
//! 3. Earlier exports are found, and end at once: nobody can fetch them any more.
//! 4. Rows are erased. Steps 2 and 3 search by what is in them, so they come before. A run that is
//!    cut off is simply done again. One whose record cannot be read is passed over, and the run fails at its end.
//! 5. The exports are removed from their store. This comes last, so a store that does not answer
//!    keeps no row alive. Which exports these are is noted with the progress, because nothing else
//!    shows it by then.
//!
//! What was erased then goes into the journal of erasures (`journal`), before anything says that it
//! was done.

mod bodies;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use anyhow::Result;
use bytes::Bytes;
use domain::job::{Job, JobId, Kind};
use domain::order::OrderKey;
use domain::order::record::Record as Order;
use domain::payment::subscription::Record as Subscription;
use domain::privacy::journal::{DecidedCustomers, Erased, Named};
use domain::privacy::{Decided, Held, Request};
use domain::time::Timestamp;
use flows::outbox;
use process::Parts;
use providers::exports::Exports;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::aggregates::Aggregate;
use store::checkout_sessions::SessionEntry;
use store::customers::CustomerEntry;
use store::payments::PaymentEntry;
use store::people::{self, PersonRows, Sought};
use store::sql::{self, Tx};
use store::{deliveries, erasure, erasures, privacy_requests};
use uuid::Uuid;

use super::{Done, begun, export};
use crate::failure::Unfinished;

/// How many rows one transaction erases of each table, and how many ids a scan looks for at a time.
const CHUNK: usize = 100;

/// The body of a job of [`Internal::EraseAgain`](domain::job::Internal): orders of a shop.
#[derive(Deserialize)]
struct Again {
    orders: BTreeSet<i64>,
    /// How far the erasure has come. There is no request whose row could keep it.
    #[serde(default)]
    progress: Progress,
}

/// How far an erasure has come. It is written in the transactions that erase, so what a run did that
/// was cut off is counted too.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    #[serde(flatten)]
    counts: Counts,
    scan: Scan,
    /// The storefront's orders that were found so far, in whatever way.
    orders: BTreeSet<i64>,
    /// The orders among them that an id led to. Only these lead to the payment provider's customers.
    orders_by_id: BTreeSet<i64>,
    /// Requests whose exports are to be removed.
    ended_exports: BTreeSet<Uuid>,
}

/// How far the jobs were scanned.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Scan {
    /// Whom the scan looks for ([`written::digest`]). For anybody else it begins again.
    sought: Uuid,
    /// How often the scan has come to the end of a shop's bodies.
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

/// Erases what certainly belongs to the person at once, and the rest after an operator has decided.
/// Nothing is erased a second time of a person who comes back in between.
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
    let progress = noted.clone().map(serde_json::from_value).transpose()?;
    let progress = progress.unwrap_or_default();
    let note = Note::Request(job.id, noted);
    let outcome = erase(parts, exports, &sought, note, progress, None).await?;
    let named = Named::of(&parts.keys, job.id, request, &job.body);
    let begun = begun(parts, job, &request.shop, named);
    let mut erased = outcome.for_journal(parts, begun).await?;
    erased.decided = decided.clone();
    erased.decided_customers = DecidedCustomers::taken_from(&parts.keys, &mut erased.decided);
    let (mut counts, mut rest) = (outcome.counts, outcome.found.held);
    if let Some(held) = held {
        counts.add(&serde_json::from_value(held.counts).unwrap_or_default());
        rest = people::find(&parts.db, &all).await?.held;
    }
    Ok(Done {
        action: "customer.erased",
        counts: json!(counts),
        export: None,
        erased: Some(erased),
        held: rest,
        decided: Some(decided),
    })
}

/// Erases what belongs to orders that came late, after the data of their people was erased.
pub async fn again(parts: &Parts, exports: &Exports, job: &Job) -> Result<Done> {
    let again: Again = outbox::body(job)?;
    let sought = Sought {
        shop: job.shop.clone().unwrap_or_default(),
        orders: again.orders.clone(),
        ..Sought::default()
    };
    let named = Named {
        orders: again.orders.iter().copied().collect(),
        ..Named::default()
    };
    let note = Note::Again(job.id, again.orders, Some(job.body.clone()));
    let outcome = erase(parts, exports, &sought, note, again.progress, None).await?;
    let begun = begun(parts, job, &sought.shop, named);
    let erased = outcome.for_journal(parts, begun).await?;
    Ok(Done {
        action: "customer.erased_again",
        counts: json!(outcome.counts),
        export: None,
        erased: Some(erased),
        held: Held::default(),
        decided: None,
    })
}

/// Erases again what the journal says that this request, or what came late, had erased. `sought` is what of
/// it was found here.
pub async fn reapply(
    parts: &Parts,
    exports: &Exports,
    job: &Job,
    sought: Sought,
    erased: &Erased,
    decided: Decided,
) -> Result<Done> {
    let (action, note, progress) = if matches!(job.kind, Kind::Privacy(_)) {
        let noted = privacy_requests::progress(&parts.db, job.id).await?;
        let progress = noted.clone().map(serde_json::from_value).transpose()?;
        ("customer.erased", Note::Request(job.id, noted), progress)
    } else {
        let noted = deliveries::body(&parts.db, job.id).await?;
        let again = noted.as_ref();
        let again = again.and_then(|body| serde_json::from_slice::<Again>(body).ok());
        let orders = erased.named.orders.iter().copied().collect();
        let note = Note::Again(job.id, orders, noted);
        (
            "customer.erased_again",
            note,
            again.map(|again| again.progress),
        )
    };
    let mut progress: Progress = progress.unwrap_or_default();
    progress.orders.extend(&erased.orders);
    progress.orders_by_id.extend(&erased.orders_by_id);
    let outcome = erase(
        parts,
        exports,
        &sought,
        note,
        progress,
        Some(erased.erased_at),
    )
    .await?;
    Ok(Done {
        action,
        counts: json!(outcome.counts),
        export: None,
        erased: Some(erased.clone()),
        held: outcome.found.held,
        decided: Some(decided),
    })
}

/// What an erasure came to.
struct Outcome {
    counts: Counts,
    found: PersonRows,
    orders: BTreeSet<i64>,
    orders_by_id: BTreeSet<i64>,
}

impl Outcome {
    /// The same as the journal has it, with the tombstones of all runs.
    async fn for_journal(&self, parts: &Parts, begun: Erased) -> Result<Erased> {
        Ok(Erased {
            orders: self.orders.clone(),
            orders_by_id: self.orders_by_id.clone(),
            tombstones: erasures::subjects(&parts.db, begun.job).await?,
            ..begun
        })
    }
}

/// `at` is when it was erased for the first time; None for an erasure that is not done again. What the person
/// made later is not erased.
async fn erase(
    parts: &Parts,
    exports: &Exports,
    sought: &Sought,
    mut note: Note,
    mut progress: Progress,
    at: Option<Timestamp>,
) -> Result<Outcome> {
    let mut sought = sought.clone();
    let mut erasure = loop {
        sought.orders.extend(&progress.orders_by_id);
        sought.found_orders.extend(&progress.orders);
        // This search comes before the first tombstone, because from then on late deliveries take
        // addresses from rows.
        let mut found = people::find(&parts.db, &sought).await?;
        let mut last = BTreeMap::new();
        loop {
            let tombstones = written::of(&parts.keys, &found);
            if tombstones == last {
                break;
            }
            progress.orders.extend(found.storefront_orders());
            progress.orders_by_id.extend(found.orders_by_id());
            written::write(parts, &mut note, &progress, &tombstones, at).await?;
            last = tombstones;
            found = people::find(&parts.db, &sought).await?;
        }
        let digest = written::digest(&last, found.spellings.len());
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
            at,
            unread: Vec::new(),
        };
        erasure.jobs().await?;
        let known: BTreeSet<i64> = erasure.found.storefront_orders().collect();
        if erasure.progress.orders.is_subset(&known) {
            break erasure;
        }
        // Bodies named orders that no row named, so what belongs to these is looked for as well.
        Erasure { note, progress, .. } = erasure;
    };
    erasure.end_exports().await?;
    erasure.rows().await?;
    erasure.remove_exports(exports).await?;
    let Erasure {
        found,
        progress,
        unread,
        ..
    } = erasure;
    if let Some(error) = unread.into_iter().next() {
        return Err(error.into());
    }
    Ok(Outcome {
        counts: progress.counts,
        found,
        orders: progress.orders,
        orders_by_id: progress.orders_by_id,
    })
}

/// Where the progress is noted, and what was noted last.
enum Note {
    /// The progress is kept in the row of the request of this job.
    Request(JobId, Option<Value>),
    /// The progress is kept in the body of this job, beside the orders that it is about. A body that is gone keeps none.
    Again(JobId, BTreeSet<i64>, Option<Bytes>),
}

impl Note {
    fn job(&self) -> JobId {
        match self {
            Note::Request(job, _) | Note::Again(job, ..) => *job,
        }
    }

    /// A run that another one has overtaken ends here, so that what both have done is counted.
    async fn write(&mut self, tx: &mut Tx, progress: &Progress) -> Result<()> {
        let is_known = match self {
            Note::Request(job, noted) => {
                let progress = json!(progress);
                let noted = noted.replace(progress.clone());
                privacy_requests::go_on(tx, *job, noted.as_ref(), &progress).await?
            }
            Note::Again(_, _, None) => true,
            Note::Again(job, orders, Some(noted)) => {
                let again = json!({"orders": orders, "progress": progress}).to_string();
                let noted = mem::replace(noted, again.clone().into());
                erasure::go_on(tx, *job, &noted, again.as_bytes()).await?
            }
        };
        if is_known {
            Ok(())
        } else {
            Err(Unfinished.into())
        }
    }
}

struct Erasure<'a> {
    parts: &'a Parts,
    note: Note,
    found: PersonRows,
    progress: Progress,
    /// When it was erased for the first time, if it is done again.
    at: Option<Timestamp>,
    /// Why rows cannot be read, which were passed over.
    unread: Vec<sql::Error>,
}

impl Erasure<'_> {
    async fn commit(&mut self, mut tx: Tx) -> Result<()> {
        self.note.write(&mut tx, &self.progress).await?;
        Ok(tx.commit().await?)
    }

    /// Ends the exports that are about the person. They are listed after the tombstones were written,
    /// so an export that is recorded later has seen the tombstones.
    async fn end_exports(&mut self) -> Result<()> {
        let Parts {
            db, keys, clock, ..
        } = self.parts;
        let ended = &mut self.progress.ended_exports;
        let subjects = export::subjects(keys, &self.found);
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

    /// Erases rows, a few of each table in one transaction, in the sequence in which writers lock them.
    async fn rows(&mut self) -> Result<()> {
        let now = self.at.unwrap_or_else(|| self.parts.clock.now());
        let found = &self.found;
        let payments: Vec<String> = found.payments.iter().cloned().collect();
        let sessions: Vec<String> = found.sessions.iter().cloned().collect();
        let subscriptions: Vec<String> = found.subscriptions.iter().cloned().collect();
        let of_shop = |shop: String| found.customers.iter().map(move |id| (shop.clone(), *id));
        let customers: Vec<OrderKey> = found.shops().into_iter().flat_map(of_shop).collect();
        let orders: Vec<OrderKey> = found.orders.iter().cloned().collect();
        let longest = [payments.len(), sessions.len(), subscriptions.len()];
        let longest = longest.into_iter().chain([customers.len(), orders.len()]);
        let rounds = longest.max().unwrap_or(0).div_ceil(CHUNK);
        // A run that was cut off has counted some of these rows too, and it may have erased what
        // they were found by. So the larger of both counts is kept.
        let (mut erased_customers, mut erased_orders) = (0, 0);
        for nth in 0..rounds {
            let mut tx = self.parts.db.begin().await?;
            let round = &mut Round {
                nth,
                now,
                tx: &mut tx,
                unread: &mut self.unread,
            };
            let counts = &mut self.progress.counts;
            counts.payments += round.forget::<PaymentEntry>(&payments).await?.1;
            counts.checkout_sessions += round.forget::<SessionEntry>(&sessions).await?.1;
            round.forget::<Subscription>(&subscriptions).await?;
            erased_customers += round.forget::<CustomerEntry>(&customers).await?.0;
            erased_orders += round.forget::<Order>(&orders).await?.0;
            counts.customers = counts.customers.max(erased_customers);
            counts.orders = counts.orders.max(erased_orders);
            self.commit(tx).await?;
        }
        Ok(())
    }
}

/// A few rows of each table.
struct Round<'a> {
    nth: usize,
    now: Timestamp,
    tx: &'a mut Tx,
    unread: &'a mut Vec<sql::Error>,
}

impl Round<'_> {
    /// Has the round's rows of a table forget their person; how many were found and changed. Those that cannot be read are
    /// passed over.
    async fn forget<A: Aggregate>(&mut self, keys: &[A::Key]) -> Result<(u64, u64)> {
        let Some(keys) = keys.chunks(CHUNK).nth(self.nth) else {
            return Ok((0, 0));
        };
        let forgotten = erasure::forget::<A>(self.tx, keys.to_vec(), self.now).await?;
        self.unread.extend(forgotten.unreadable.into_values());
        Ok((forgotten.found, forgotten.changed))
    }
}
