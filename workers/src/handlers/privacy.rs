//! Privacy requests. Each is a call (`call.rs`): it reads and writes in many small steps of its
//! own, each harmless when it is done again, and one transaction at the end records what was
//! done: the request, its receipt, an event, the audit.

mod erase;
pub mod export;
mod journal;
pub mod reapply;
mod shop;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::code::Code;
use domain::event::PrivacyEvent;
use domain::job::{Job, Kind};
use domain::privacy::journal::{DecidedCustomers, Erased, Named};
use domain::privacy::{ALARM, Decided, Held, PERIOD, Request, State, Topic};
use domain::time::Timestamp;
use process::Parts;
use providers::exports::{Export, Exports};
use serde_json::{Value, json};
use store::deliveries;
use store::erasures;
use store::jobs;
use store::people::{self, Sought};
use store::privacy_requests::{self, RequestEntry};
use store::shop_erasure;
use store::sql::{self, Tx};

use super::Answer;
use crate::failure::{Later, permanent};
use flows::outbox::Outbox;

/// The pause between two looks at a request that waits for an operator.
const UNCONFIRMED: Duration = Duration::from_hours(1);

/// Before the request to erase a shop. An order of this time shows that the shop is in use: the storefront asks 48 hours
/// after it has sent the last one.
const IN_USE: Duration = Duration::from_hours(48);

/// What a request waits for whose certain part is done.
const UNDECIDED: &str = "an operator is to decide whom else it means; see `waybill privacy show`";

const REPEATED: &str = "its body came before: it waits for `waybill privacy confirm`";
const HELD: &str = "it is held; see `waybill privacy show`";
const IN_USE_STILL: &str = "the shop is in use: it waits for `waybill privacy confirm`, at most until two days before its deadline";

/// Nothing is done then but to wait on: a decision notifies workers of the job at once.
const LOOK_AGAIN: Duration = Duration::from_hours(24);

/// What a request came to.
pub struct Done {
    /// `export.written`, `customer.erased`, ..
    pub action: &'static str,
    /// How many of what, as a JSON object; no personal data.
    pub counts: Value,
    pub export: Option<Written>,
    /// What was erased. None for an export.
    pub erased: Option<Erased>,
    /// What was left to an operator, and what they had decided by then.
    pub held: Held,
    pub decided: Option<Decided>,
}

/// An export that was written, read back and compared.
pub struct Written {
    export: Export,
    /// The SHA-256 of the document, in hex.
    pub sha256: String,
    pub bytes: i64,
    /// By which it is seen that the customer's data was erased while it was read.
    seen: export::Seen,
}

pub async fn call(parts: &Parts, exports: &Exports, job: &Job) -> Result<Answer> {
    let done = match topic(job) {
        None => erase::again(parts, exports, job).await?,
        Some(topic) => {
            let request = Request::read(topic, &job.body).map_err(permanent)?;
            if job.shop.as_ref().is_some_and(|shop| *shop != request.shop) {
                return Err(permanent(anyhow!("its shop is not that of its body")));
            }
            let entry = privacy_requests::find(&parts.db, job.id).await?;
            let entry = entry.ok_or_else(|| permanent(anyhow!("the request has no row")))?;
            if is_over(parts, &entry)? {
                return Ok(Answer::NotAsked);
            }
            hold_erasure(parts, job, &request, &entry).await?;
            match topic {
                Topic::DataRequest => export::write(parts, exports, job, &request).await?,
                Topic::Redact => erase::customer(parts, exports, job, &request).await?,
                Topic::ShopRedact => shop::erase(parts, exports, job, &request).await?,
            }
        }
    };
    if let Some(erased) = &done.erased {
        journal::keep(parts, exports, erased).await?;
    }
    Ok(Answer::Privacy(Box::new(done)))
}

/// The topic of a request; `None` for an erasure of what came late.
fn topic(job: &Job) -> Option<Topic> {
    match job.kind {
        Kind::Privacy(topic) => Some(topic),
        Kind::Order(_) | Kind::Payment(_) | Kind::ThinPayment(_) | Kind::Internal(_) => None,
    }
}

/// What the journal says of an erasure, before it is known what was erased.
fn begun(parts: &Parts, job: &Job, shop: &str, named: Named) -> Erased {
    Erased {
        job: job.id,
        kind: job.kind.to_string(),
        shop: shop.to_owned(),
        received_at: job.created_at,
        due_at: due_at(job),
        erased_at: parts.clock.now(),
        named,
        decided: Decided::default(),
        decided_customers: DecidedCustomers::default(),
        orders: BTreeSet::new(),
        orders_by_id: BTreeSet::new(),
        tombstones: BTreeMap::new(),
    }
}

/// It was cancelled, or is done already. One that is held waits on. Intake stored its row together with the job.
fn is_over(parts: &Parts, entry: &RequestEntry) -> Result<bool> {
    let now = parts.clock.now();
    let state = entry.state.parse();
    let (why, pause) = match entry.held_until {
        _ if entry.waits() => (REPEATED, UNCONFIRMED),
        _ if state == Ok(State::Held) && entry.held.is_some() => (UNDECIDED, LOOK_AGAIN),
        Some(until) if state == Ok(State::Held) && until > now => (HELD, until.since(now)),
        _ => return Ok(matches!(state, Ok(State::Cancelled | State::Done))),
    };
    Err(Later { why, pause }.into())
}

/// Holds an erasure for an operator that may not be meant: of a shop that is in use, for as long as the deadline allows;
/// and one whose body was carried out before, if it would erase what came since, because anyone who has captured a body can
/// send it again.
async fn hold_erasure(
    parts: &Parts,
    job: &Job,
    request: &Request,
    entry: &RequestEntry,
) -> Result<()> {
    let (db, now) = (&parts.db, parts.clock.now());
    let state = entry.state.parse();
    let later = match request.topic {
        Topic::ShopRedact if state == Ok(State::Held) && entry.living_at.is_none() => {
            let until = due_at(job).minus(ALARM);
            let since = job.created_at.minus(IN_USE);
            if until <= now || !shop_erasure::is_in_use(db, &request.shop, since).await? {
                return Ok(());
            }
            let mut tx = db.begin().await?;
            if !privacy_requests::hold_living(&mut tx, job.id, now, until).await? {
                return Ok(tx.rollback().await?);
            }
            tx.commit().await?;
            (IN_USE_STILL, until.since(now))
        }
        Topic::Redact if state == Ok(State::Received) && entry.repeats.is_some() => {
            let Some(done_at) = privacy_requests::carried_out_at(db, job.id).await? else {
                return Ok(());
            };
            let found = people::find(db, &Sought::of(request)).await?;
            if !people::has_newer(db, &found, done_at).await? {
                return Ok(());
            }
            let mut tx = db.begin().await?;
            if !privacy_requests::hold_repeated(&mut tx, job.id).await? {
                return Ok(tx.rollback().await?);
            }
            tx.commit().await?;
            (REPEATED, UNCONFIRMED)
        }
        Topic::DataRequest | Topic::Redact | Topic::ShopRedact => return Ok(()),
    };
    let (why, pause) = later;
    Err(Later { why, pause }.into())
}

fn due_at(job: &Job) -> Timestamp {
    job.deadline_at.unwrap_or(job.created_at.plus(PERIOD))
}

/// Records what was done, for a job that was marked done in `tx`. An erasure is recorded only after its
/// entry is in the journal.
pub async fn record(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, done: &Done) -> Result<()> {
    if done.erased.is_some() && !erasures::is_kept(tx, job.id).await? {
        bail!("the journal has no entry of this erasure");
    }
    note(outbox, tx, job, done).await
}

async fn note(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, done: &Done) -> Result<()> {
    erasures::forget_subjects(tx, job.id).await?;
    let Some(topic) = topic(job) else {
        let shop = job.shop.as_deref().unwrap_or_default();
        outbox.request(
            shop,
            job.id,
            done.action,
            PrivacyEvent::ErasedAgain {
                counts: done.counts.clone(),
            },
        );
        return Ok(());
    };
    let now = outbox.now;
    if !done.held.is_nothing() {
        return hold(outbox, tx, job, done).await;
    }
    let from = [State::Received, State::Held, State::Failed];
    if !privacy_requests::set_state(tx, job.id, &from, State::Done, now).await? {
        return Ok(());
    }
    let request = Request::read(topic, &job.body).map_err(permanent)?;
    privacy_requests::note_progress(tx, job.id, &done.counts).await?;
    if let Some(written) = &done.export {
        export::record(outbox, tx, job, written).await?;
    }
    let receipt = receipt(outbox, job, &request, done);
    privacy_requests::set_receipt(tx, job.id, &receipt).await?;
    // Its body names the customer, and nobody will need it again.
    deliveries::forget_body(tx, job.id).await?;
    let completed = PrivacyEvent::RequestCompleted {
        topic: topic.into_str().to_owned(),
        customer_id: request.person.id.map(|id| id.to_string()),
        counts: done.counts.clone(),
        export_sha256: done.export.as_ref().map(|export| export.sha256.clone()),
    };
    outbox.request(&request.shop, job.id, done.action, completed);
    Ok(())
}

/// The certain part is done; for the rest the request, and its job with what it names, wait for
/// an operator. The deadline goes on.
async fn hold(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, done: &Done) -> Result<()> {
    let now = outbox.now;
    let from = [State::Received, State::Failed];
    if !privacy_requests::set_state(tx, job.id, &from, State::Held, now).await? {
        return Ok(());
    }
    let held = Held {
        counts: done.counts.clone(),
        after: done.decided.clone().map(Box::new),
        ..done.held.clone()
    };
    privacy_requests::note_progress(tx, job.id, &done.counts).await?;
    privacy_requests::hold(tx, job.id, &held).await?;
    if let Some(written) = &done.export {
        export::record(outbox, tx, job, written).await?;
    }
    jobs::wait(tx, job.id, now.plus(LOOK_AGAIN), UNDECIDED).await?;
    let shop = job.shop.as_deref().unwrap_or_default();
    let event = PrivacyEvent::RequestHeld {
        topic: job.kind.to_string(),
        customers: held.customers.len(),
        orders: held.orders.len(),
        begins_at: None,
        due_at: due_at(job),
    };
    outbox.request(shop, job.id, "request.held", event);
    Ok(())
}

/// What was done, as a document that anyone can verify who has our public key: `signature` is
/// over the text of `receipt`, byte by byte.
fn receipt(outbox: &Outbox<'_>, job: &Job, request: &Request, done: &Done) -> Value {
    let keys = outbox.context.keys;
    let asked = match &done.erased {
        Some(erased) => erased.named.asked.clone(),
        None => keys.asked(job.id, &request.person),
    };
    let receipt = json!({
        "request_id": job.id,
        "topic": request.topic.into_str(),
        "shop": request.shop,
        "customer_id": request.person.id,
        "orders": request.orders,
        "asked": asked,
        "received_at": job.created_at,
        "due_at": job.deadline_at,
        "finished_at": outbox.now,
        "action": done.action,
        "counts": done.counts,
        "export_sha256": done.export.as_ref().map(|export| &export.sha256),
    })
    .to_string();
    json!({
        "algorithm": "Ed25519",
        "public_key": STANDARD.encode(keys.public()),
        "signature": STANDARD.encode(keys.sign(receipt.as_bytes())),
        "receipt": receipt,
    })
}

/// Says that a request will not be tried again by itself, in the transaction that dead-letters it.
pub async fn on_exhausted(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    error: &str,
) -> sql::Result<()> {
    let from = [State::Received, State::Held];
    if !privacy_requests::set_state(tx, job.id, &from, State::Failed, outbox.now).await? {
        return Ok(());
    }
    let shop = job.shop.as_deref().unwrap_or_default();
    let event = PrivacyEvent::RequestFailed {
        topic: job.kind.to_string(),
        code: Code::Privacy.id(),
        error: error.to_owned(),
        due_at: due_at(job),
    };
    outbox.request(shop, job.id, "request.failed", event);
    tracing::error!(
        request = %job.id, topic = %job.kind, code = %Code::Privacy, error,
        "a privacy request was given up; see `waybill privacy show`, then `waybill privacy retry`"
    );
    Ok(())
}
