//! `customers/data_request`: everything held on a customer, as one document in the export
//! store.
//!
//! 1. The tombstones of the customer are looked at.
//! 2. What is held is read, and written to the store ([`write`]). The bodies of the shop, and those
//!    that name no shop, are scanned for deliveries; a long scan is interrupted and goes on in the next run.
//! 3. Under the lock of the tombstones the request is recorded ([`record`]). An erasure that began
//!    or ended meanwhile may not have known of this export, which may hold what it erased: the run
//!    counts for nothing then, and the next one writes the export anew. One that comes later finds
//!    the export with its request and removes it.
//!
//! An erasure also removes exports that are being written, so a store may then say that a file or
//! folder is missing. The request waits until the erasure is over. This is not counted as a
//! failure, and the store is not blamed ([`BEING_ERASED`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use domain::job::Job;
use domain::privacy::{Keys, Request, SubjectKey};
use domain::time::Timestamp;
use flows::letters;
use flows::outbox::Outbox;
use platform::crash_point::{self, Point};
use process::Parts;
use providers::exports::{Export, ExportFailure, Exports};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use store::erasure::STEP;
use store::people::{self, PersonRows, Sought};
use store::person_data::{self, Data, Scan};
use store::sql::{self, Db, Tx};
use store::tombstones::NO_SHOP;
use store::{audit, export_stores, privacy_requests, tombstones};
use uuid::Uuid;

use super::{Done, Written};
use crate::failure::{Later, Unfinished};

/// The version of the document and its manifest.
const FORMAT: &str = "waybill-export/1";
const DOCUMENT: &str = "export.json";

/// How long a run scans.
const LONGEST_SCAN: Duration = Duration::from_secs(5);

/// Clocks of two hosts differ by less.
const SKEW: Duration = Duration::from_secs(10);

/// Why an export waits while data of the same person is erased, and for how long.
const BEING_ERASED: Later = Later {
    why: "data of this customer is being erased; the export is made after that",
    pause: Duration::from_secs(5),
};

/// Why no export is written when another run has answered the request meanwhile.
const OVERTAKEN: Later = Later {
    why: "another run has answered this request",
    pause: Duration::from_secs(5),
};

/// Exports that are removed between two looks at what is left.
const CHUNK: i64 = 100;

/// The people whose data was read, and the tombstones that they had before that.
pub struct Seen {
    shop: String,
    keys: BTreeSet<Uuid>,
    tombstones: HashMap<Uuid, Timestamp>,
    at: Timestamp,
}

pub async fn write(parts: &Parts, exports: &Exports, job: &Job, request: &Request) -> Result<Done> {
    let Parts { db, config, .. } = parts;
    let now = parts.clock.now();
    exports.prepare(job.id).await?;
    let entry = privacy_requests::find(db, job.id).await?;
    let decided = entry.and_then(|entry| entry.decided);
    let sought = Sought::of(request).decided(&decided.clone().unwrap_or_default());
    let found = people::find(db, &sought).await?;
    let seen = Seen::look(parts, &found, now).await?;
    if seen.is_erased(parts).await? {
        return Err(BEING_ERASED.into());
    }
    let mut data = person_data::read(db, &parts.keys, &found, job.id).await?;
    let connections = parts.connections.now();
    for row in data.get_mut("notifications").into_iter().flatten() {
        letters::as_read(db, config, &connections, row).await?;
    }
    let scan = scan(parts, job, &found).await?;
    let deliveries = person_data::deliveries(db, &scan, job.id).await?;
    data.insert(person_data::DELIVERIES, deliveries);

    let counts: Map<String, Value> = data
        .iter()
        .map(|(table, rows)| ((*table).to_owned(), json!(rows.len())))
        .collect();
    let document = document(job.id, request, &data, now)?;
    let sha256 = hex::encode(Sha256::digest(&document));
    let manifest = json!({
        "format": FORMAT,
        "request_id": job.id,
        "files": [{"name": DOCUMENT, "bytes": document.len(), "sha256": sha256}],
        "counts": counts,
    });
    let manifest = Bytes::from(pretty(&manifest)?);
    let bytes = i64::try_from(document.len())?;
    let store = claim(parts, exports).await?;
    let mut tx = db.begin().await?;
    let expires_at = now.plus(config.privacy.export_retention);
    let subjects = keys(&parts.keys, &found);
    let announced =
        privacy_requests::announce_export(&mut tx, job.id, store, expires_at, &subjects);
    let Some(run) = announced.await? else {
        tx.rollback().await?;
        return Err(OVERTAKEN.into());
    };
    tx.commit().await?;
    let request = job.id;
    let export = Export { request, run };
    crash_point::reach(Point::ExportWrite).await;
    let failed = exports.write(export, document, manifest).await.err();
    crash_point::reach(Point::ExportWritten).await;
    if let Some(failure) = failed {
        if seen.is_erased(parts).await? {
            return Err(BEING_ERASED.into());
        }
        return Err(failure.into());
    }
    Ok(Done {
        action: "export.written",
        counts: Value::Object(counts),
        export: Some(Written {
            export,
            sha256,
            bytes,
            seen,
        }),
        erased: None,
        held: found.held,
        decided,
    })
}

fn document(id: Uuid, request: &Request, data: &Data, now: Timestamp) -> Result<Bytes> {
    let document = json!({
        "format": FORMAT,
        "request_id": id,
        "shop": request.shop,
        // Whom the request names by an address is found in the data.
        "customer": {"id": request.person.id},
        "generated_at": now,
        "data": data,
    });
    Ok(Bytes::from(pretty(&document)?))
}

fn pretty(value: &Value) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// All deliveries, from where the run before this one left off.
async fn scan(parts: &Parts, job: &Job, found: &PersonRows) -> Result<Scan> {
    let Parts { db, clock, .. } = parts;
    let noted = privacy_requests::progress(db, job.id).await?;
    let left_off = noted.clone();
    let left_off = left_off.and_then(|progress| serde_json::from_value(progress).ok());
    let mut scan: Scan = left_off.unwrap_or_default();
    let start = clock.elapsed();
    loop {
        person_data::scan(db, found, &mut scan, STEP).await?;
        if scan.is_over {
            return Ok(scan);
        }
        if clock.elapsed().saturating_sub(start) > LONGEST_SCAN {
            let mut tx = db.begin().await?;
            // What another run has noted meanwhile stays, and the next run goes on from there.
            privacy_requests::go_on(&mut tx, job.id, noted.as_ref(), &scan).await?;
            tx.commit().await?;
            return Err(Unfinished.into());
        }
    }
}

impl Seen {
    async fn look(parts: &Parts, found: &PersonRows, now: Timestamp) -> Result<Self> {
        let keys = keys(&parts.keys, found);
        let mut tx = parts.db.begin().await?;
        let locks = BTreeMap::from([(found.shop.as_str(), keys.clone())]);
        let tombstones = tombstones::check(&mut tx, &locks).await?;
        tx.commit().await?;
        Ok(Seen {
            shop: found.shop.clone(),
            keys,
            tombstones,
            at: now,
        })
    }

    /// Whether data of the person is being erased, or was erased since it was looked at.
    async fn is_erased(&self, parts: &Parts) -> Result<bool> {
        let mut tx = parts.db.begin().await?;
        let is_erased = self.is_erased_in(&mut tx, parts.clock.now()).await?;
        tx.commit().await?;
        Ok(is_erased)
    }

    /// The same in a transaction. No erasure of the person can begin until its end, because it
    /// holds the shared lock of the shop.
    async fn is_erased_in(&self, tx: &mut Tx, now: Timestamp) -> Result<bool> {
        let locks = BTreeMap::from([(self.shop.as_str(), self.keys.clone())]);
        let tombstones = tombstones::check(tx, &locks).await?;
        if tombstones != self.tombstones {
            return Ok(true);
        }
        let Some(begun) = tombstones.values().max() else {
            return Ok(false);
        };
        let (begun, since) = (begun.plus(SKEW), self.at.minus(SKEW));
        Ok(privacy_requests::is_erasing(tx, &self.shop, begun, since, now).await?)
    }
}

/// Whatever was found of a person, and by what, as an export and its erasure name it alike: of two
/// that have one of these in common, one holds data of the other. Addresses are the shop's alone,
/// so that nobody's export goes because of a request to another shop.
pub(super) fn subjects(keys: &Keys, found: &PersonRows) -> BTreeSet<Uuid> {
    let customers = found.customers.iter().map(|id| SubjectKey::Customer(*id));
    let emails = found.emails.iter().map(|it| SubjectKey::Email(it));
    let phones = found.phones.iter().map(|it| SubjectKey::Phone(it));
    let of_shop = customers.chain(emails).chain(phones);
    let of_shop = of_shop.map(|key| (found.shop.as_str(), key));
    let orders = found.orders.iter();
    let orders = orders.map(|(shop, id)| (shop.as_str(), SubjectKey::Order(*id)));
    let payments = found.payments.iter().chain(&found.sessions);
    let payments = payments.chain(&found.subscriptions);
    let payments = payments.map(|id| (NO_SHOP, SubjectKey::Payment(id)));
    let agreements = found
        .agreements
        .iter()
        .map(|id| (NO_SHOP, SubjectKey::Agreement(id)));
    let all = of_shop.chain(orders).chain(payments).chain(agreements);
    all.filter_map(|(shop, key)| keys.subject(shop, key))
        .collect()
}

/// What the tombstones of a person in their shop have in common with them.
fn keys(keys: &Keys, found: &PersonRows) -> BTreeSet<Uuid> {
    let mut all = subjects(keys, found);
    all.extend(keys.subject(&found.shop, SubjectKey::Shop));
    all
}

/// The store's id. One that has none is given one, unless the store that was there before has
/// exports still: then another one is there, or nothing.
async fn claim(parts: &Parts, exports: &Exports) -> Result<Uuid> {
    let (db, place) = (&parts.db, exports.address());
    let known = export_stores::at(db, place).await?;
    let mark = exports.mark().await?;
    if let Some(known) = known {
        if mark == Some(known) {
            return Ok(known);
        }
        if export_stores::is_used(db, known).await? {
            // Another run may have set it up since we looked.
            return match exports.mark().await? {
                Some(mark) if mark == known => Ok(known),
                _ => Err(ExportFailure::AnotherStore.into()),
            };
        }
    }
    // Two runs that find a new store at once come to the same id.
    let id = mark.or(known).unwrap_or_else(|| parts.clock.id());
    let noted = export_stores::note(db, place, known, id, parts.clock.now()).await?;
    if mark.is_none() {
        exports.set_mark(noted).await?;
    }
    // Another process may have been at it too: the next run finds what the two have left.
    if exports.mark().await? != Some(noted) || export_stores::at(db, place).await? != Some(noted) {
        return Err(ExportFailure::AnotherStore.into());
    }
    Ok(noted)
}

/// Logs a store that is not the one that exports were written to.
pub async fn look_at_store(parts: &Parts, exports: &Exports) -> Result<()> {
    let known = export_stores::at(&parts.db, exports.address()).await?;
    if export_stores::elsewhere(&parts.db, None).await? == 0 {
        return Ok(());
    }
    let mark = exports.mark().await?;
    let elsewhere = export_stores::elsewhere(&parts.db, mark).await?;
    if elsewhere > 0 {
        let is_changed = known.is_some() && known != mark;
        let problem = ExportFailure::AnotherStore;
        tracing::warn!(
            exports = elsewhere, is_changed, %problem,
            "exports that are not removed are in another store than PRIVACY_EXPORT_URL names"
        );
    }
    Ok(())
}

/// Notes the export with its request, unless the customer's data was erased meanwhile.
pub async fn record(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    written: &Written,
) -> Result<()> {
    let now = outbox.now;
    if written.seen.is_erased_in(tx, now).await? {
        return Err(BEING_ERASED.into());
    }
    let expires_at = now.plus(outbox.context.config.privacy.export_retention);
    let Written {
        export,
        sha256,
        bytes,
        ..
    } = written;
    privacy_requests::note_export(tx, job.id, export.run, sha256, *bytes, expires_at).await?;
    Ok(())
}

/// Removes what earlier runs have left, once an export was recorded. None of them can be recorded any
/// more, because their claims have ended. If that fails, it is removed with the recorded one.
pub async fn remove_earlier(exports: &Exports, written: &Written) {
    if let Err(problem) = exports.remove_earlier(written.export).await {
        let request = written.export.request;
        tracing::warn!(%request, %problem, "what earlier runs left of an export was not removed yet");
    }
}

/// Removes an export that counts for nothing, unless it was recorded after all: the answer to a commit
/// may have been lost. If that fails, it is removed with the request's other exports.
pub async fn discard(db: &Db, exports: &Exports, written: &Written) -> sql::Result<()> {
    let Export { request, run } = written.export;
    let entry = privacy_requests::find(db, request).await?;
    let recorded = entry.and_then(|entry| entry.export);
    if recorded.is_some_and(|export| export.run == run && export.sha256 == written.sha256) {
        return Ok(());
    }
    if let Err(problem) = exports.discard(written.export).await {
        tracing::warn!(%request, %problem, "an export that counts for nothing was not removed yet");
    }
    Ok(())
}

/// Removes exports that were kept long enough; how many.
pub async fn remove_expired(parts: &Parts, exports: &Exports) -> Result<usize> {
    let now = parts.clock.now();
    let mut removed = 0;
    let mut after = Uuid::nil();
    let mut failed = Ok(());
    loop {
        let ids = privacy_requests::expired_exports(&parts.db, now, after, CHUNK).await?;
        let Some(last) = ids.last() else {
            return failed.map(|()| removed);
        };
        after = *last;
        match remove_all_of(parts, exports, &ids).await {
            Ok(()) => removed += ids.len(),
            Err(error) if is_silent(&error) => return Err(error),
            Err(error) => failed = Err(error),
        }
    }
}

/// Removes the exports of these requests, one after the other. One that cannot be removed keeps
/// no other; the last failure is reported at the end. A store that does not answer is asked no
/// more.
pub async fn remove_all_of(parts: &Parts, exports: &Exports, ids: &[Uuid]) -> Result<()> {
    let mut failed = Ok(());
    for id in ids {
        match remove(parts, exports, *id).await {
            Ok(()) => {}
            Err(error) if is_silent(&error) => return Err(error),
            Err(error) => failed = Err(error),
        }
    }
    failed
}

/// The store does not answer, so it need not be asked for anything else now.
pub(super) fn is_silent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ExportFailure::Silent))
}

/// From the store first, so that one which is marked as removed is.
async fn remove(parts: &Parts, exports: &Exports, id: Uuid) -> Result<()> {
    let Some(kept) = privacy_requests::kept_export(&parts.db, id).await? else {
        return Ok(());
    };
    let removed = {
        let last = Export {
            request: id,
            run: kept.runs,
        };
        crash_point::reach(Point::ExportRemove).await;
        exports.remove_from(kept.store, last).await
    };
    crash_point::reach(Point::ExportRemoved).await;
    let now = parts.clock.now();
    let mut tx = parts.db.begin().await?;
    if let Err(problem) = removed {
        privacy_requests::note_export_problem(&mut tx, id, &problem.to_string()).await?;
        tx.commit().await?;
        return Err(problem.into());
    }
    if let Some(shop) = privacy_requests::export_removed(&mut tx, id, now).await? {
        let new = audit::NewEntry {
            actor: audit::WORKER,
            action: "export.removed",
            object_id: &id.to_string(),
            shop: Some(&shop),
            details: json!({}),
        };
        audit::append(&mut tx, &parts.keys, new, now).await?;
    }
    tx.commit().await?;
    Ok(())
}
