//! `shop/redact`: every row of a shop is deleted, batch by batch, while the others go on.
//!
//! 1. **Tombstone.** From its commit on, what comes late is not stored, and what was being
//!    stored has been. The request can no longer be cancelled.
//! 2. **Orders**, a few hundred at a time: first their payments and checkout sessions lose
//!    their persons, which only the orders lead to, then the orders are deleted with their parts.
//! 3. **Customers**, the tombstones of single ones, which the shop's now covers, and what refused
//!    deliveries said of the shop.
//! 4. **Exports** of its customers' data end: nobody fetches them any more.
//! 5. **Jobs**, with what bodies of payment events say of payers, and **events**: those of the time before the request, and
//!    those that were written later of the orders that are gone.
//! 6. **Exports** are removed from their store, last: one that does not answer keeps no row.
//! 7. **Unread**: a payment, session or placeholder whose record cannot be read was passed over and noted. It is tried
//!    again, and while it cannot be read the request has failed.
//!
//! How far it has come is noted in the transaction of each batch, so a run may end anywhere and
//! the next one goes on from there. An order that was made after the request came is no part of it, nor is its customer:
//! neither is erased, and the tombstone does not concern them.
//! Payments stay in the books, without addresses. An agreement that two shops' orders name
//! counts as this one's: nobody can say whose its payments are.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use anyhow::{Error, Result};
use domain::job::Job;
use domain::privacy::journal::{Erased, Named};
use domain::privacy::{Held, Request, State, SubjectKey, erased_body};
use domain::time::Timestamp;
use process::Parts;
use providers::exports::Exports;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::erasure::{self, Kept};
use store::shop_erasure::{self, Counts, Order, Scanned, Staying, add};
use store::sql::Tx;
use store::{
    bulk_operations, connections, endpoints, pauses, privacy_requests, reconciliations,
    refused_deliveries, shapes, tombstones,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Done, begun, export};
use crate::failure::Unfinished;

/// How long one run may take before it lets others have its place.
const RUN: Duration = Duration::from_secs(15);

/// Exports that are removed between two looks at the time.
const EXPORTS: usize = 10;

/// Orders of a batch, and rows of what is no order. While it is written PostgreSQL's other
/// writers share its disk and processors, and SQLite's wait for its end.
const ORDERS: i64 = 25;
const ROWS: i64 = 100;

/// Jobs of webhooks that are deleted with one statement.
const JOBS: usize = 512;

/// Between two batches of an erasure the others have the database to themselves for so many times as long as
/// the batch took: nobody waits for an erasure, and intake must not wait because of it.
const REST: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Where an erasure stands, as its request keeps it.
#[derive(Default, Serialize, Deserialize)]
struct Progress {
    phase: Phase,
    /// The last row that was looked at, where a table is scanned.
    cursor: Uuid,
    counts: Counts,
    /// What cannot be read. The orders that led to it are gone.
    #[serde(default)]
    unread: Staying,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    Tombstone,
    Orders,
    Customers,
    Tombstones,
    Exports,
    Jobs,
    Events,
    /// Exports are removed from the store.
    Removal,
    /// What could not be read is tried again.
    Unread,
    Over,
}

/// One erasure.
struct Erasure<'a> {
    parts: &'a Parts,
    exports: &'a Exports,
    id: Uuid,
    shop: &'a str,
    /// When the request came. What came later stays.
    until: Timestamp,
    /// When what stays is said to have been erased.
    at: Timestamp,
    progress: Progress,
    /// What was noted last of the progress.
    noted: Option<Value>,
    /// Why an export of this run could not be removed.
    failed: Option<Error>,
}

/// Erases a shop.
pub async fn erase(parts: &Parts, exports: &Exports, job: &Job, request: &Request) -> Result<Done> {
    let named = Named::of(&parts.keys, job.id, request, &job.body);
    let own = parts.keys.subject(&request.shop, SubjectKey::Shop);
    let begun = begun(parts, job, &request.shop, named);
    let erased = Erased {
        tombstones: BTreeMap::from([(request.shop.clone(), own.into_iter().collect())]),
        ..begun
    };
    erase_as(parts, exports, job, &erased, parts.clock.now()).await
}

/// Erases a shop again, as of the time at which the journal says that it was erased.
pub async fn reapply(parts: &Parts, exports: &Exports, job: &Job, erased: &Erased) -> Result<Done> {
    erase_as(parts, exports, job, erased, erased.erased_at).await
}

async fn erase_as(
    parts: &Parts,
    exports: &Exports,
    job: &Job,
    erased: &Erased,
    at: Timestamp,
) -> Result<Done> {
    let started = parts.clock.elapsed();
    let noted = privacy_requests::progress(&parts.db, job.id).await?;
    let mut erasure = Erasure {
        parts,
        exports,
        id: job.id,
        shop: &erased.shop,
        until: erased.received_at,
        at,
        progress: noted
            .clone()
            .and_then(|noted| serde_json::from_value(noted).ok())
            .unwrap_or_default(),
        noted,
        failed: None,
    };
    while erasure.progress.phase != Phase::Over {
        let begun = Instant::now();
        erasure.step().await?;
        sleep((begun.elapsed() * REST).min(LONGEST_REST)).await;
        let took = parts.clock.elapsed().saturating_sub(started);
        if took >= RUN && erasure.progress.phase != Phase::Over {
            return Err(Error::new(Unfinished));
        }
    }
    Ok(Done {
        action: "shop.erased",
        counts: json!(erasure.progress.counts),
        export: None,
        erased: Some(erased.clone()),
        held: Held::default(),
        decided: None,
    })
}

impl Erasure<'_> {
    /// One batch.
    async fn step(&mut self) -> Result<()> {
        match self.progress.phase {
            Phase::Tombstone => self.write_tombstones().await,
            Phase::Orders => self.orders().await,
            Phase::Customers => self.customers().await,
            Phase::Tombstones => self.tombstones().await,
            Phase::Exports => self.exports().await,
            Phase::Jobs => self.jobs().await,
            Phase::Events => self.events().await,
            Phase::Removal => self.remove_exports().await,
            Phase::Unread => self.unread().await,
            Phase::Over => Ok(()),
        }
    }

    /// Notes what the transaction did, and commits both. A run whose claim has passed to another one ends here, so
    /// that what both have done is counted.
    async fn commit(&mut self, mut tx: Tx) -> Result<()> {
        let progress = json!(self.progress);
        let noted = self.noted.as_ref();
        if !privacy_requests::go_on(&mut tx, self.id, noted, &progress).await? {
            tx.rollback().await?;
            return Err(Error::new(Unfinished));
        }
        self.noted = Some(progress);
        Ok(tx.commit().await?)
    }

    fn go_on_to(&mut self, phase: Phase) {
        self.progress.phase = phase;
        self.progress.cursor = Uuid::nil();
    }

    async fn write_tombstones(&mut self) -> Result<()> {
        let Parts { db, clock, .. } = self.parts;
        let mut tx = db.begin().await?;
        let now = clock.now();
        let state = privacy_requests::state(&mut tx, self.id).await?;
        if let Some(State::Cancelled | State::Done) = state {
            tx.rollback().await?;
            // The next run sees it, and does nothing.
            return Err(Error::new(Unfinished));
        }
        privacy_requests::set_state(&mut tx, self.id, &[State::Held], State::Received, now).await?;
        let keys = BTreeMap::from([(self.shop, self.own_key().into_iter().collect())]);
        tombstones::write(&mut tx, &keys, self.until).await?;
        self.go_on_to(Phase::Orders);
        self.commit(tx).await
    }

    fn scanned(&self) -> Scanned<'_> {
        Scanned {
            shop: self.shop,
            until: self.until,
        }
    }

    fn own_key(&self) -> Option<Uuid> {
        self.parts.keys.subject(self.shop, SubjectKey::Shop)
    }

    async fn orders(&mut self) -> Result<()> {
        let db = &self.parts.db;
        let orders = shop_erasure::orders(db, self.shop, self.until, ORDERS).await?;
        if orders.is_empty() {
            self.go_on_to(Phase::Customers);
            return Ok(());
        }
        self.forget_people(&orders).await?;
        let mut tx = db.begin().await?;
        let counts = &mut self.progress.counts;
        shop_erasure::delete_orders(&mut tx, self.shop, &orders, counts).await?;
        self.commit(tx).await
    }

    /// What only the orders lead to. The tombstones keep events of these payments that come
    /// late from bringing an address back. From the first tombstone to the commit no payment event of any
    /// shop is processed, so rows are changed in a transaction of their own.
    async fn forget_people(&mut self, orders: &[Order]) -> Result<()> {
        let (db, now) = (&self.parts.db, self.at);
        let agreements: Vec<String> = orders.iter().map(Order::agreement).collect();
        let agreements = agreements
            .iter()
            .map(|agreement| SubjectKey::Agreement(agreement));
        let mut tx = db.begin().await?;
        self.write_payment_tombstones(&mut tx, agreements, now)
            .await?;
        let payments = shop_erasure::payments(&mut tx, self.shop, orders).await?;
        let ids = payments.iter().map(|id| SubjectKey::Payment(id));
        self.write_payment_tombstones(&mut tx, ids, now).await?;
        tx.commit().await?;
        let mut tx = db.begin().await?;
        let staying = shop_erasure::staying(&mut tx, self.shop, orders, payments).await?;
        self.forget(tx, staying).await.map(|_| ())
    }

    /// Passes over what cannot be read, and notes it. Why the first of it cannot be.
    async fn forget(&mut self, mut tx: Tx, staying: Staying) -> Result<Option<Error>> {
        let counts = &mut self.progress.counts;
        let (left, errors) = shop_erasure::forget(&mut tx, staying, self.at, counts).await?;
        for error in &errors {
            tracing::error!(
                request = %self.id, shop = self.shop, error = %error,
                "the erasure of a shop passes over a record, and fails when all else is erased"
            );
        }
        self.progress.unread.extend(left);
        self.commit(tx).await?;
        Ok(errors.into_iter().next().map(Error::new))
    }

    /// The run fails as long as something cannot be read.
    async fn unread(&mut self) -> Result<()> {
        let unread = mem::take(&mut self.progress.unread);
        if !unread.is_nothing() {
            let tx = self.parts.db.begin().await?;
            if let Some(error) = self.forget(tx, unread).await? {
                return Err(error);
            }
        }
        self.go_on_to(Phase::Over);
        Ok(())
    }

    async fn write_payment_tombstones<'k>(
        &self,
        tx: &mut Tx,
        keys: impl Iterator<Item = SubjectKey<'k>>,
        now: Timestamp,
    ) -> Result<()> {
        let shop = tombstones::NO_SHOP;
        let keys: BTreeSet<Uuid> = keys
            .filter_map(|key| self.parts.keys.subject(shop, key))
            .collect();
        Ok(tombstones::write(tx, &BTreeMap::from([(shop, keys)]), now).await?)
    }

    async fn customers(&mut self) -> Result<()> {
        let mut tx = self.parts.db.begin().await?;
        let limit = ROWS;
        let deleted = shop_erasure::delete_customers(&mut tx, self.shop, limit).await?;
        add(&mut self.progress.counts, "customers", deleted);
        if deleted < limit.cast_unsigned() {
            self.go_on_to(Phase::Tombstones);
        }
        self.commit(tx).await
    }

    async fn tombstones(&mut self) -> Result<()> {
        let mut tx = self.parts.db.begin().await?;
        let limit = ROWS;
        let deleted =
            shop_erasure::delete_tombstones(&mut tx, self.shop, self.own_key(), self.until, limit)
                .await?;
        if deleted < limit.cast_unsigned() {
            refused_deliveries::forget_shop(&mut tx, self.shop).await?;
            bulk_operations::forget_shop(&mut tx, self.shop, self.until).await?;
            pauses::forget_shop(&mut tx, self.shop, self.until).await?;
            shapes::forget_shop(&mut tx, self.shop).await?;
            reconciliations::forget_shop(&mut tx, self.shop).await?;
            let now = self.parts.clock.now();
            connections::forget_shop(&mut tx, self.shop, self.until, now).await?;
            self.go_on_to(Phase::Exports);
        }
        self.commit(tx).await
    }

    async fn exports(&mut self) -> Result<()> {
        let Parts { db, clock, .. } = self.parts;
        let ids = privacy_requests::exports_of_shop(db, self.shop, self.until).await?;
        let mut tx = db.begin().await?;
        add(&mut self.progress.counts, "exports", ids.len() as u64);
        privacy_requests::end_exports(&mut tx, ids, clock.now()).await?;
        self.go_on_to(Phase::Jobs);
        self.commit(tx).await
    }

    /// Some exports of earlier requests. Those that cannot be removed are passed over, and the run
    /// fails when the others are gone.
    async fn remove_exports(&mut self) -> Result<()> {
        let (db, until) = (&self.parts.db, self.until);
        let ids = privacy_requests::exports_of_shop(db, self.shop, until).await?;
        let left = ids.iter().copied().filter(|id| *id > self.progress.cursor);
        let some: Vec<Uuid> = left.take(EXPORTS).collect();
        let Some(last) = some.last() else {
            self.progress.cursor = Uuid::nil();
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.go_on_to(Phase::Unread);
            return Ok(());
        };
        self.progress.cursor = *last;
        match export::remove_all_of(self.parts, self.exports, &some).await {
            Err(error) if export::is_silent(&error) => return Err(error),
            Err(error) => self.failed = Some(error),
            Ok(()) => {}
        }
        Ok(())
    }

    async fn jobs(&mut self) -> Result<()> {
        let (db, after) = (&self.parts.db, self.progress.cursor);
        let page = shop_erasure::scan_jobs(db, self.scanned(), after, ROWS).await?;
        let until = page.last.unwrap_or(Uuid::max());
        let events = erasure::payment_events(db, after, until).await?;
        let mut tx = db.begin().await?;
        self.erase_bodies(&mut tx, events).await?;
        let mut found = page.found;
        found.retain(|id| *id != self.id);
        let counts = &mut self.progress.counts;
        shop_erasure::delete_jobs(&mut tx, Some(self.shop), found, counts).await?;
        if let Some(last) = page.last {
            self.progress.cursor = last;
        } else {
            self.go_on_to(Phase::Events);
        }
        self.commit(tx).await
    }

    /// Takes the payers out of the bodies of payment events that led to the shop's orders.
    async fn erase_bodies(&self, tx: &mut Tx, events: Vec<Kept>) -> Result<()> {
        let keys_of = |event: &Kept| {
            let mentions = event.mentions();
            mentions.payment_keys(&self.parts.keys, tombstones::NO_SHOP)
        };
        let keys: Vec<Vec<Uuid>> = events.iter().map(keys_of).collect();
        let all = keys.iter().flatten().copied().collect();
        let tombstones =
            tombstones::check(tx, &BTreeMap::from([(tombstones::NO_SHOP, all)])).await?;
        for (event, keys) in events.iter().zip(keys) {
            if keys.iter().any(|key| tombstones.contains_key(key)) {
                let rest = erased_body(&event.kind, &event.body);
                if rest.as_deref() != Some(&event.body) {
                    erasure::replace_body(tx, event.id, rest).await?;
                }
            }
        }
        Ok(())
    }

    /// Events of the shop that wait for an endpoint, with the jobs that send them.
    async fn forget_webhooks(&mut self, tx: &mut Tx) -> Result<()> {
        let jobs = endpoints::forget_shop(tx, self.shop).await?;
        for jobs in jobs.chunks(JOBS) {
            let counts = &mut self.progress.counts;
            shop_erasure::delete_jobs(tx, Some(self.shop), jobs.to_vec(), counts).await?;
        }
        Ok(())
    }

    async fn events(&mut self) -> Result<()> {
        let (db, after) = (&self.parts.db, self.progress.cursor);
        let page = shop_erasure::scan_events(db, self.scanned(), after, ROWS).await?;
        let mut tx = db.begin().await?;
        let deleted = shop_erasure::delete_events(&mut tx, self.id, page.found).await?;
        add(&mut self.progress.counts, "events", deleted);
        if let Some(last) = page.last {
            self.progress.cursor = last;
        } else {
            self.forget_webhooks(&mut tx).await?;
            self.go_on_to(Phase::Removal);
        }
        self.commit(tx).await
    }
}
