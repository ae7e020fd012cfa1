//! The six event types of the payment provider. Each is read into a record, and the payment,
//! session or subscription is the merge of its records (`domain::payment`), so any may come
//! first and again; what follows from the difference is done once.
//!
//! Rows are taken in this order, and each kind sorted: payments, sessions, subscriptions,
//! agreements, orders. Agreements and orders are as the handler of orders takes them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use anyhow::{Result, anyhow};
use domain::event::{LastEvent, PaymentEvent};
use domain::job::Job;
use domain::money::Money;
use domain::order::record::Record as OrderRecord;
use domain::payment::outcome::{Change, changes};
use domain::payment::record::Record;
use domain::payment::{self, Event, Kind, Object, checkout, ledger, subscription};
use domain::time::Timestamp;
use serde::Deserialize;
use serde_json::json;
use store::invoices as invoice_rows;
use store::invoices::Invoice;
use store::ledger as books;
use store::ledger::NewEntry;
use store::orders as order_rows;
use store::orders::records::OrderKey;
use store::sql::Tx;
use store::{checkout_sessions, payments};

use super::erased::{self, About, Standing};
use super::outbox::{self, Outbox};
use super::sessions::{self, ChangedSession};
use super::{notifications, orders, retries, subscriptions};
use crate::failure::permanent;

/// Looks again for the order of an agreement.
pub const LINK: &str = "payments/link";

/// Ends the wait of an order that a session made for the storefront's own.
pub const END_WAIT: &str = "payments/end_wait";

/// Work of our own.
pub const OWN: [&str; 2] = [LINK, END_WAIT];

/// An order that was being inserted when its payment came is committed by then, or undone.
const SECOND_LOOK: Duration = Duration::from_mins(1);

/// Our last attempt comes so long after a failure.
const STALE: Duration = Duration::from_hours(72);

pub struct Task {
    /// None: it is of our own making.
    about: Option<About>,
    what: What,
}

#[derive(Clone)]
enum What {
    Payment(String, Box<Record>),
    Session(String, Box<checkout::Record>, i64),
    /// A paid invoice, and what it says of its subscription. None of a trial's, and of one
    /// without a subscription.
    Invoice(Invoice, Option<(String, subscription::Record)>),
    Link(String),
    EndWait(String),
}

#[derive(Deserialize)]
struct Link {
    pact_id: String,
}

pub fn is_event(kind: &str) -> bool {
    Kind::parse(kind).is_some()
}

pub fn prepare(job: &Job) -> Result<Task> {
    if job.kind == LINK || job.kind == END_WAIT {
        let Link { pact_id } = outbox::body(job)?;
        let what = if job.kind == LINK {
            What::Link(pact_id)
        } else {
            What::EndWait(pact_id)
        };
        return Ok(Task { about: None, what });
    }
    let event = Event::read(&job.body).map_err(permanent)?;
    Ok(Task {
        about: Some(About::read(job)),
        what: change_of(&event)
            .ok_or_else(|| permanent(anyhow!("the event is about nothing known")))?,
    })
}

fn change_of(event: &Event) -> Option<What> {
    Some(match &event.object {
        Object::Intent(_) | Object::Charge(_) => {
            let (id, record) = Record::of(event)?;
            What::Payment(id.to_owned(), Box::new(record))
        }
        Object::Session(_) => {
            let (id, record) = checkout::Record::of(event)?;
            What::Session(id.to_owned(), Box::new(record), event.created)
        }
        Object::Invoice(invoice) => {
            let reported = subscription::Record::of(event);
            let reported = reported.map(|(id, record)| (id.to_owned(), record));
            What::Invoice(link_of(invoice), reported)
        }
    })
}

fn link_of(invoice: &payment::Invoice) -> Invoice {
    Invoice {
        id: invoice.id.clone(),
        subscription: invoice.subscription.clone(),
        payment_id: invoice.payment_intent.clone().or(invoice.charge.clone()),
        is_first: invoice.billing_reason.as_deref() == Some("subscription_create"),
    }
}

/// What a job is about: what follows from it, follows by one of these.
fn note(outbox: &mut Outbox<'_>, job: &Job, what: &What) {
    let (id, pact) = match what {
        What::Payment(id, record) => (id, record.pact_id.as_ref()),
        What::Session(id, record, _) => {
            let payment = record.payment_intent.as_ref();
            if let Some(payment) = payment {
                outbox.causation.note(None, &payment.value, job);
            }
            (id, record.pact_id.as_ref())
        }
        What::Invoice(_, Some((id, record))) => (id, record.pact_id.as_ref()),
        What::Invoice(invoice, None) => (&invoice.id, None),
        What::Link(pact) | What::EndWait(pact) => (pact, None),
    };
    outbox.causation.note(None, id, job);
    if let Some(pact) = pact {
        outbox.causation.note(None, &pact.value, job);
    }
}

/// What the deliveries say, without the personal part of those who are erased.
async fn heeded(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    tasks: &[(&Job, &Task)],
) -> Result<Vec<What>> {
    for (job, task) in tasks {
        note(outbox, job, &task.what);
    }
    let ours = tasks.iter().filter(|(_, task)| task.about.is_none());
    let mut heeded: Vec<What> = ours.map(|(_, task)| task.what.clone()).collect();
    let reported: Vec<_> = tasks
        .iter()
        .filter_map(|(job, task)| Some((*job, task.about.as_ref()?, &task.what)))
        .collect();
    let abouts: Vec<_> = reported
        .iter()
        .map(|(_, about, _)| (None, *about))
        .collect();
    let standings = erased::check(outbox.context, tx, &abouts).await?;
    for ((job, _, what), standing) in reported.into_iter().zip(standings) {
        erased::erase_body(tx, job, standing).await?;
        let mut what = what.clone();
        if matches!(standing, Standing::Erased { .. }) {
            match &mut what {
                What::Payment(_, record) => record.forget_person(),
                What::Session(_, record, _) => record.forget_person(),
                What::Invoice(..) | What::Link(_) | What::EndWait(_) => {}
            }
        }
        heeded.push(what);
    }
    Ok(heeded)
}

pub async fn apply(outbox: &mut Outbox<'_>, tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let reserved = LastEvent::before(outbox.now).reserve();
    let mut incoming: BTreeMap<String, payments::PaymentEntry> = BTreeMap::new();
    let mut sessions: BTreeMap<String, sessions::Incoming> = BTreeMap::new();
    let mut paid: BTreeMap<String, subscriptions::SubscriptionEntry> = BTreeMap::new();
    let mut looked_for = BTreeSet::new();
    let mut waited = BTreeSet::new();
    let mut invoices: BTreeMap<String, Invoice> = BTreeMap::new();
    for what in heeded(outbox, tx, tasks).await? {
        match what {
            What::Payment(id, record) => {
                if let Some(entry) = incoming.get_mut(&id) {
                    entry.record.merge(*record);
                    continue;
                }
                let entry = payments::PaymentEntry {
                    record: *record,
                    events_at: reserved,
                    entries: 0,
                    is_bare: false,
                };
                incoming.insert(id, entry);
            }
            What::Session(id, record, created) => {
                if let Some((entry, first)) = sessions.get_mut(&id) {
                    entry.record.merge(*record);
                    *first = (*first).min(created);
                    continue;
                }
                let entry = checkout_sessions::SessionEntry {
                    record: *record,
                    order: None,
                    events_at: reserved,
                };
                sessions.insert(id, (entry, created));
            }
            What::Invoice(invoice, reported) => {
                match invoices.get_mut(&invoice.id) {
                    Some(known) => merge(known, invoice),
                    None => {
                        invoices.insert(invoice.id.clone(), invoice);
                    }
                }
                let Some((id, record)) = reported else {
                    continue;
                };
                if let Some(entry) = paid.get_mut(&id) {
                    entry.record.merge(record);
                    continue;
                }
                let entry = subscriptions::SubscriptionEntry {
                    record,
                    events_at: reserved,
                };
                paid.insert(id, entry);
            }
            What::Link(pact) => {
                looked_for.insert(pact);
            }
            What::EndWait(pact) => {
                waited.insert(pact);
            }
        }
    }
    let mut moved = Moved::default();
    take_payments(outbox, tx, incoming, &mut moved).await?;
    let sessions = sessions::take(outbox, tx, sessions).await?;
    moved
        .pacts
        .extend(sessions.iter().map(ChangedSession::agreement));
    let invoices: Vec<Invoice> = invoices.into_values().collect();
    invoice_rows::save(tx, &invoices, outbox.now).await?;
    moved.invoices(invoices);
    subscriptions::take(outbox, tx, paid).await?;
    let fresh = moved.pacts.clone();
    moved.pacts.extend(looked_for);
    moved.pacts.extend(waited.iter().cloned());
    settle(outbox, tx, moved, sessions, &fresh).await?;
    end_wait(outbox, tx, waited).await
}

/// Two events of one invoice: what one leaves out the other has.
fn merge(known: &mut Invoice, reported: Invoice) {
    known.subscription = known.subscription.take().or(reported.subscription);
    known.payment_id = known.payment_id.take().or(reported.payment_id);
    known.is_first |= reported.is_first;
}

/// What orders may be settled by.
#[derive(Default)]
struct Moved {
    pacts: BTreeSet<String>,
    payments: BTreeSet<String>,
    invoices: BTreeSet<String>,
    subscriptions: BTreeSet<String>,
}

impl Moved {
    /// Their sessions are found by the invoice, by the subscription that it began, and by the
    /// payment.
    fn invoices(&mut self, invoices: impl IntoIterator<Item = Invoice>) {
        for invoice in invoices {
            self.subscriptions.extend(invoice.subscription);
            self.invoices.insert(invoice.id);
        }
    }
}

async fn take_payments(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    mut incoming: BTreeMap<String, payments::PaymentEntry>,
    moved: &mut Moved,
) -> Result<()> {
    if incoming.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    for entry in incoming.values_mut() {
        entry.entries = count(&ledger::postings(None, &entry.record));
    }
    let inserted = payments::insert_new(tx, &incoming, now).await?;
    let known = incoming.keys().filter(|id| !inserted.contains(*id));
    let mut known = payments::load(tx, known.cloned().collect()).await?;
    let mut saved: Vec<(String, payments::PaymentEntry)> = Vec::new();
    let mut entries = Vec::new();
    let mut failed = Vec::new();
    let mut ended = Vec::new();
    for (id, new) in incoming {
        let before = known.remove(&id);
        let known_last = before.as_ref().map(|entry| entry.events_at);
        let mut last_event = known_last.unwrap_or(LastEvent::before(now));
        let mut after = new;
        let mut number = 0;
        if let Some(before) = &before {
            let mut record = before.record.clone();
            record.merge(after.record);
            if record == before.record && !before.is_bare {
                continue;
            }
            number = before.entries;
            after.record = record;
        }
        // Nothing followed yet from a row that an older version stored.
        let booked = before.as_ref().filter(|entry| !entry.is_bare);
        let was = booked.map(|entry| &entry.record);
        for posting in ledger::postings(was, &after.record) {
            number += 1;
            entries.push(NewEntry {
                payment_id: id.clone(),
                number,
                posting,
            });
        }
        let changes = changes(was, &after.record);
        let (refunds, others): (Vec<Change>, Vec<Change>) = changes
            .iter()
            .partition(|change| matches!(change, Change::Refunded { .. }));
        let event = |change: &Change| event_of(*change, was, &after.record);
        let released = released(was, &after.record);
        let events = others.iter().filter_map(event).chain(released);
        for event in events.chain(refunds.iter().filter_map(event)) {
            outbox.event(
                &mut last_event,
                domain::event::Event::of_payment(&id, event),
            );
        }
        if changes.contains(&Change::Failed) && is_recent(&after.record, now) {
            failed.push((id.clone(), after.record.clone()));
        }
        let is_over = |record: &Record| record.is_paid() || record.canceled.is_some();
        if is_over(&after.record) && !was.is_some_and(is_over) {
            ended.push(id.clone());
        }
        if after.record.is_paid() || after.record.canceled.is_some() {
            moved.payments.insert(id.clone());
            let invoice = after.record.invoice.as_ref();
            moved
                .invoices
                .extend(invoice.map(|part| part.value.clone()));
            // Of another agreement than before: neither order keeps what is not its own.
            let pacts = after
                .record
                .pact()
                .into_iter()
                .chain(was.and_then(Record::pact));
            moved.pacts.extend(pacts.map(ToOwned::to_owned));
        }
        if before.is_some() || last_event > after.events_at {
            after.entries = number;
            after.events_at = last_event;
            saved.push((id, after));
        }
    }
    let rows: Vec<(&str, &payments::PaymentEntry)> = saved
        .iter()
        .map(|(id, entry)| (id.as_str(), entry))
        .collect();
    payments::save(tx, &rows, now).await?;
    books::append(tx, &entries, now).await?;
    retries::schedule(outbox, tx, &failed).await?;
    notifications::of_failures(outbox, tx, &failed).await?;
    retries::stop(outbox, tx, ended).await
}

/// A failure that is reported later than our last attempt would be is nobody's concern any more.
fn is_recent(record: &Record, now: Timestamp) -> bool {
    let created = record.failure.as_ref().map(|part| part.version.created);
    created.is_some_and(|at| now.since(Timestamp::from_unix_seconds(at)) <= STALE)
}

fn count(postings: &[ledger::Posting]) -> i64 {
    i64::try_from(postings.len()).unwrap_or(i64::MAX)
}

fn is_released(record: &Record) -> bool {
    record.succeeded && record.received > 0 && record.pact_id.is_some()
}

/// The event of a change.
fn event_of(change: Change, before: Option<&Record>, after: &Record) -> Option<PaymentEvent> {
    let pact_id = after.pact().map(ToOwned::to_owned);
    let currency = after.currency.value.to_string();
    Some(match change {
        Change::Succeeded => PaymentEvent::Succeeded {
            pact_id,
            fulfillment_cycle: cycle(after),
            amount: amount(after.received, after),
            currency,
        },
        Change::Failed => {
            let failure = after.failure.as_ref().map(|part| part.value.clone());
            let (code, decline_code) = failure.map(|it| (it.code, it.decline_code)).unzip();
            PaymentEvent::Failed {
                pact_id,
                amount: after.amount.as_ref().map(|part| amount(part.value, after)),
                currency,
                code: code.flatten(),
                decline_code: decline_code.flatten(),
            }
        }
        Change::Canceled => PaymentEvent::Canceled {
            pact_id,
            canceled_at: Timestamp::from_unix_seconds(after.canceled?),
        },
        Change::Refunded { by } => PaymentEvent::Refunded {
            pact_id,
            customer_id: after.customer.as_ref().map(|part| part.value.clone()),
            amount: amount(by, after),
            refunded: amount(after.refunded, after),
            in_full: after.state() == payment::outcome::State::Refunded,
            currency,
        },
        Change::PactChanged => PaymentEvent::AgreementChanged {
            pact_id: pact_id?,
            was: before?.pact()?.to_owned(),
        },
        // That its money is released says so.
        Change::PactLinked => return None,
    })
}

/// What is left of a payment is its agreement's from now on.
fn released(before: Option<&Record>, after: &Record) -> Option<PaymentEvent> {
    if after.kept() <= 0 || !is_released(after) || before.is_some_and(is_released) {
        return None;
    }
    Some(PaymentEvent::FundsReleased {
        pact_id: after.pact()?.to_owned(),
        fulfillment_cycle: cycle(after),
        amount: amount(after.kept(), after),
        currency: after.currency.value.to_string(),
    })
}

fn cycle(record: &Record) -> Option<String> {
    record.cycle.as_ref().map(|part| part.value.clone())
}

fn amount(minor: i64, record: &Record) -> String {
    let currency = record.currency.value;
    Money { minor, currency }.to_string()
}

/// Makes the orders of sessions, and settles the orders of what has moved.
async fn settle(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    moved: Moved,
    mut sessions: Vec<ChangedSession>,
    fresh: &BTreeSet<String>,
) -> Result<()> {
    let now = outbox.now;
    // A payment's id too: of a session and its payment, which come at the same time, the
    // second sees the first.
    let intents = sessions.iter().filter_map(ChangedSession::payment);
    let locks = moved.pacts.iter().chain(&moved.payments).cloned();
    payments::lock_pacts(tx, locks.chain(intents)).await?;
    let mut keys: BTreeSet<OrderKey> = BTreeSet::new();
    let claimed = order_rows::of_pacts(tx, moved.pacts.iter().cloned().collect()).await?;
    for pact in &moved.pacts {
        let orders = claimed.get(pact).map(Vec::as_slice).unwrap_or_default();
        keys.extend(orders.iter().map(|claim| claim.key.clone()));
        let is_found = orders.iter().any(|claim| claim.is_by_id);
        if !is_found && fresh.contains(pact) && may_be_an_order(pact) {
            let body = json!({ "pact_id": pact });
            outbox.job_of(LINK, pact, &body, now.plus(SECOND_LOOK));
        }
    }
    let waits_until = outbox.context.config.checkout_order_wait;
    let waits_until = waits_until.map(|wait| now.plus(wait));
    let made = sessions::place(&mut sessions, &claimed, waits_until);
    if let Some(at) = waits_until {
        for session in sessions.iter().filter(|it| it.is_first) {
            let agreement = session.agreement();
            let waits = |(key, order): &(OrderKey, OrderRecord)| {
                order.waits_until.is_some() && *key == order_rows::checkout_key(&agreement)
            };
            if made.iter().any(waits) {
                let body = json!({ "pact_id": agreement });
                outbox.job_of(END_WAIT, &agreement, &body, at);
            }
        }
    }
    keys.extend(sessions.iter().filter_map(|it| it.entry.order.clone()));
    let rows: Vec<(&str, &checkout_sessions::SessionEntry)> = sessions
        .iter()
        .map(|session| (session.id.as_str(), &session.entry))
        .collect();
    checkout_sessions::save(tx, &rows, now).await?;
    let made_keys: HashSet<OrderKey> = made.iter().map(|(key, _)| key.clone()).collect();
    orders::of_sessions(outbox, tx, made).await?;
    let ids: Vec<String> = moved.payments.iter().cloned().collect();
    let mut moved = moved;
    moved.invoices(invoice_rows::of_payments(tx, ids.clone()).await?);
    keys.extend(checkout_sessions::orders_of(tx, ids).await?);
    let invoices = moved.invoices.into_iter().collect();
    keys.extend(checkout_sessions::orders_of_invoices(tx, invoices).await?);
    let subscriptions = moved.subscriptions.into_iter().collect();
    keys.extend(checkout_sessions::orders_of_subscriptions(tx, subscriptions).await?);
    keys.retain(|key| !made_keys.contains(key));
    orders::settle_again(outbox, tx, &keys).await
}

/// The orders that sessions made of these agreements wait no longer, but where orders of the
/// storefront claim an agreement and none of them is known to be the one: people decide.
async fn end_wait(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    agreements: BTreeSet<String>,
) -> Result<()> {
    let claimed = order_rows::of_pacts(tx, agreements.iter().cloned().collect()).await?;
    let mut keys = BTreeSet::new();
    for agreement in agreements {
        let own = order_rows::checkout_key(&agreement);
        let claims = claimed.get(&agreement).map(Vec::as_slice);
        let claims = claims.unwrap_or_default();
        if claims.iter().all(|claim| claim.key == own) {
            keys.insert(own);
        } else if claims.iter().any(|it| it.key == own && !it.is_cancelled) {
            // They may turn out to be of other agreements, all of them.
            let wait = outbox.context.config.checkout_order_wait;
            let at = outbox.now.plus(wait.unwrap_or(SECOND_LOOK));
            let body = json!({ "pact_id": agreement });
            outbox.job_of(END_WAIT, &agreement, &body, at);
        }
    }
    orders::end_wait(outbox, tx, &keys).await
}

/// An order that names no agreement is found by its id, and does not lock it.
fn may_be_an_order(pact: &str) -> bool {
    pact.parse::<i64>().is_ok()
}
