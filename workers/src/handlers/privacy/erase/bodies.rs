//! The bodies of jobs: what they say of the person is erased, whether the job is done or not.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use domain::job::{JobId, State};
use domain::order::Topic;
use domain::privacy::{Mentions, SubjectKey, erased_body};
use store::erasure::{self, Kept};
use store::people;
use uuid::Uuid;

use super::{CHUNK, Erasure, Scan, written};
use crate::failure::Unfinished;

/// How long one run scans before it lets others have its place.
const RUN: Duration = Duration::from_secs(15);

impl Erasure<'_> {
    /// Scans the bodies of the shop, and those that name no shop. One pass looks for a limited number
    /// of texts and ids, so it takes as many passes as are needed for all of them. A long scan ends
    /// with [`Unfinished`] and is continued in the next run.
    pub(super) async fn jobs(&mut self) -> Result<()> {
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
        // Each of them goes through the bodies of one shop after the other.
        let shops = found.shops();
        let passes = shops.len() * of_texts.max(ids.len().div_ceil(CHUNK)).max(1);
        let clock = &self.parts.clock;
        let start = clock.elapsed();
        let mut rest = None;
        while self.progress.scan.passes < passes {
            let Scan { passes, after, .. } = self.progress.scan;
            let (nth, shop) = (passes / shops.len(), passes % shops.len());
            let shop = shops.iter().nth(shop).map_or("", String::as_str);
            let texts = texts.chunks(erasure::TEXTS).nth(nth).unwrap_or_default();
            let ids = ids.chunks(CHUNK).nth(nth).unwrap_or_default();
            let db = &self.parts.db;
            let page = erasure::scan(db, shop, after, rest, texts, ids.to_vec()).await?;
            rest = page.rest;
            let (passes, after) = match page.last {
                Some(last) => (passes, last),
                None => (passes + 1, Uuid::nil()),
            };
            let next = Scan {
                passes,
                after,
                ..self.progress.scan
            };
            self.erase_bodies(page.kept, next).await?;
            if clock.elapsed().saturating_sub(start) > RUN {
                let tx = self.parts.db.begin().await?;
                self.commit(tx).await?;
                return Err(Unfinished.into());
            }
        }
        let tx = self.parts.db.begin().await?;
        self.commit(tx).await
    }

    /// Replaces the bodies of jobs that are about the person, and of jobs that are done and mention
    /// the person. In the transaction that does this the scan moves on to `next`, and no earlier:
    /// the progress that is noted with tombstones before must still lead to these bodies, because
    /// the run may be cut off in between.
    async fn erase_bodies(&mut self, kept: Vec<Kept>, next: Scan) -> Result<()> {
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
        theirs.sort_by_key(|kept| kept.id);
        let replaced: Vec<(JobId, Option<Vec<u8>>)> = theirs
            .into_iter()
            .map(|kept| (kept.id, erased_body(&kept.kind, &kept.body), kept.body))
            .filter(|(_, erased, body)| erased.as_deref() != Some(body))
            .map(|(id, erased, _)| (id, erased))
            .collect();
        self.progress.scan = next;
        if replaced.is_empty() {
            return Ok(());
        }
        let mut tx = self.parts.db.begin().await?;
        // In the sequence in which workers lock them.
        for (id, body) in replaced {
            self.progress.counts.jobs += u64::from(erasure::replace_body(&mut tx, id, body).await?);
        }
        self.commit(tx).await
    }

    /// Writes tombstones of the orders that these bodies name. Some orders are known by an address
    /// alone, and after it is erased from the body nothing else says whose they are.
    async fn write_order_tombstones(&mut self, theirs: &[Kept]) -> Result<()> {
        let orders = theirs
            .iter()
            .filter(|kept| Topic::is_of_an_order(&kept.kind));
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
        written::write(
            self.parts,
            &mut self.note,
            &self.progress,
            &tombstones,
            self.at,
        )
        .await
    }
}
