//! The events of the payment provider. Each is read into a record, and the payment,
//! session or subscription is the merge of its records (`domain::payment`). So any event may come
//! first, or again, and whatever follows from the difference is done once.
//!
//! Rows are locked in this sequence, and those of one table in the sequence of their keys: payments,
//! sessions, the agreements of payments that went back and of invoices, subscriptions, agreements, orders. Agreements and orders are locked as in
//! [`orders`](crate::orders).

mod entries;
mod events;
mod settle;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use domain::connection::DEFAULT;
use domain::job::Job;
use domain::payment::record::Record;
use domain::payment::{self, Event, Object, checkout, subscription};
use domain::record::Forget as _;
use domain::shape::Noted;
use serde::Deserialize;
use store::checkout_sessions::SessionEntry;
use store::invoices::{self, Invoice};
use store::payments::PaymentEntry;
use store::sql::Tx;

use crate::erased::{self, About, TombstoneMatch};
use crate::outbox::{self, Outbox};
use crate::sessions::{self, ChangedSession};
use crate::{Result, subscriptions};
use settle::Affected;

/// What a job says, read before the transaction.
pub struct Task {
    /// Not set for jobs that Waybill made itself, because they are about nobody.
    about: Option<About>,
    report: Report,
    /// The connected account that the event is of.
    pub account: Option<String>,
    /// Not set for jobs that Waybill made itself.
    pub noted: Option<Noted>,
}

/// What a job says of which object.
#[derive(Clone)]
enum Report {
    Payment(String, Box<Record>),
    /// With the time of the event, in Unix seconds.
    Session(String, Box<checkout::Record>, i64),
    /// A paid invoice, and what it says of its subscription. An invoice of a trial says nothing of
    /// it, and an invoice may have no subscription.
    Invoice(Invoice, Option<(String, Box<subscription::Record>)>),
    Subscription(String, Box<subscription::Record>),
    Link(String),
    EndWait(String),
    /// It is about money that was never a payment.
    Nothing,
}

/// The body of the jobs that are about an agreement.
#[derive(Deserialize)]
struct Agreement {
    pact_id: String,
}

/// Reads the body of a job that looks once more for the order of an agreement.
pub fn prepare_link(job: &Job) -> Result<Task> {
    prepare_own(job, Report::Link)
}

/// Reads the body of a job that ends the wait of a placeholder for the storefront's own order.
pub fn prepare_end_wait(job: &Job) -> Result<Task> {
    prepare_own(job, Report::EndWait)
}

fn prepare_own(job: &Job, report: fn(String) -> Report) -> Result<Task> {
    let Agreement { pact_id } = outbox::body(job)?;
    Ok(Task {
        about: None,
        report: report(pact_id),
        account: None,
        noted: None,
    })
}

/// Reads the body of an event, without any I/O.
pub fn prepare(job: &Job) -> Result<Task> {
    let mut event = Event::read(&job.body)?;
    event.qualify(job.connection.as_deref().unwrap_or(DEFAULT));
    Ok(Task {
        about: Some(About::read(job)),
        report: report_of(&event).unwrap_or(Report::Nothing),
        account: event.account,
        noted: Some(Noted {
            shape: event.shape,
            unread: event.unread,
        }),
    })
}

fn report_of(event: &Event) -> Option<Report> {
    Some(match &event.object {
        Object::Intent(_) | Object::Charge(_) | Object::Refund(_) | Object::Dispute(_) => {
            let (id, record) = Record::of(event)?;
            Report::Payment(id.to_owned(), Box::new(record))
        }
        Object::Session(_) => {
            let (id, record) = checkout::Record::of(event)?;
            Report::Session(id.to_owned(), Box::new(record), event.created)
        }
        Object::Invoice(invoice) => {
            let reported = subscription::Record::of(event);
            let reported = reported.map(|(id, record)| (id.to_owned(), Box::new(record)));
            Report::Invoice(row_of(invoice), reported)
        }
        Object::InvoicePayment(paid) => {
            let row = Invoice {
                id: paid.invoice.clone(),
                subscription: None,
                payment_id: paid.payment_id.clone(),
                is_first: false,
            };
            Report::Invoice(row, None)
        }
        Object::Subscription(_) => {
            let (id, record) = subscription::Record::of(event)?;
            Report::Subscription(id.to_owned(), Box::new(record))
        }
    })
}

fn row_of(invoice: &payment::Invoice) -> Invoice {
    Invoice {
        id: invoice.id.clone(),
        subscription: invoice.subscription.clone(),
        payment_id: invoice.payment_intent.clone().or(invoice.charge.clone()),
        is_first: invoice.billing_reason.as_deref() == Some("subscription_create"),
    }
}

/// Notes the objects that a job is about. What follows from the job concerns one of them.
fn note(outbox: &mut Outbox<'_>, job: &Job, report: &Report) {
    let (id, agreement) = match report {
        Report::Payment(id, record) => (id, record.pact_id.as_ref()),
        Report::Session(id, record, _) => {
            let payment = record.payment_intent.as_ref();
            if let Some(payment) = payment {
                outbox.causation.note(None, &payment.value, job);
            }
            (id, record.pact_id.as_ref())
        }
        Report::Invoice(_, Some((id, record))) | Report::Subscription(id, record) => {
            (id, record.pact_id.as_ref())
        }
        Report::Invoice(invoice, None) => (&invoice.id, None),
        Report::Link(agreement) | Report::EndWait(agreement) => (agreement, None),
        Report::Nothing => return,
    };
    outbox.causation.note(None, id, job);
    if let Some(agreement) = agreement {
        outbox.causation.note(None, &agreement.value, job);
    }
}

/// What the jobs of a message say, without the personal part of people whose data was erased.
async fn reports(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    tasks: &[(&Job, &Task)],
) -> Result<Vec<Report>> {
    for (job, task) in tasks {
        note(outbox, job, &task.report);
    }
    let own = tasks.iter().filter(|(_, task)| task.about.is_none());
    let mut reports: Vec<Report> = own.map(|(_, task)| task.report.clone()).collect();
    let events: Vec<_> = tasks
        .iter()
        .filter_map(|(job, task)| Some((*job, task.about.as_ref()?, &task.report)))
        .collect();
    let abouts: Vec<_> = events.iter().map(|(_, about, _)| (None, *about)).collect();
    let matches = erased::check(outbox.context, tx, &abouts).await?;
    for ((job, _, report), tombstone) in events.into_iter().zip(matches) {
        erased::erase_body(tx, job, tombstone).await?;
        let mut report = report.clone();
        if matches!(tombstone, TombstoneMatch::Erased { .. }) {
            match &mut report {
                Report::Payment(_, record) => record.forget_person(),
                Report::Session(_, record, _) => record.forget_person(),
                Report::Invoice(..)
                | Report::Subscription(..)
                | Report::Link(_)
                | Report::EndWait(_)
                | Report::Nothing => {}
            }
        }
        reports.push(report);
    }
    Ok(reports)
}

/// What the jobs of a message say altogether, by object.
#[derive(Default)]
struct Gathered {
    payments: BTreeMap<String, PaymentEntry>,
    sessions: BTreeMap<String, sessions::Incoming>,
    subscriptions: BTreeMap<String, subscription::Record>,
    invoices: BTreeMap<String, Invoice>,
    /// Agreements whose orders are looked for once more.
    looked_for: BTreeSet<String>,
    /// Agreements whose placeholders have waited long enough.
    waited: BTreeSet<String>,
}

impl Gathered {
    fn add(&mut self, report: Report) {
        match report {
            Report::Payment(id, record) => {
                let (record, entries) = (*record, 0);
                let merge =
                    |known: &mut PaymentEntry, new: PaymentEntry| known.record.merge(new.record);
                add(
                    &mut self.payments,
                    id,
                    PaymentEntry { record, entries },
                    merge,
                );
            }
            Report::Session(id, record, created) => {
                let (record, order) = (*record, None);
                let new = (SessionEntry { record, order }, created);
                add(&mut self.sessions, id, new, |known, (entry, created)| {
                    known.0.record.merge(entry.record);
                    known.1 = known.1.min(created);
                });
            }
            Report::Invoice(invoice, reported) => {
                add(&mut self.invoices, invoice.id.clone(), invoice, merge);
                if let Some((id, record)) = reported {
                    self.add(Report::Subscription(id, record));
                }
            }
            Report::Subscription(id, record) => {
                add(
                    &mut self.subscriptions,
                    id,
                    *record,
                    subscription::Record::merge,
                );
            }
            Report::Link(agreement) => {
                self.looked_for.insert(agreement);
            }
            Report::EndWait(agreement) => {
                self.waited.insert(agreement);
            }
            Report::Nothing => {}
        }
    }
}

fn add<T>(known: &mut BTreeMap<String, T>, id: String, new: T, merge: impl FnOnce(&mut T, T)) {
    match known.entry(id) {
        Entry::Occupied(mut known) => merge(known.get_mut(), new),
        Entry::Vacant(place) => drop(place.insert(new)),
    }
}

/// Merges two events of one invoice. What one of them leaves out the other may have.
fn merge(known: &mut Invoice, reported: Invoice) {
    known.subscription = known.subscription.take().or(reported.subscription);
    known.payment_id = match (known.payment_id.take(), reported.payment_id) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    known.is_first |= reported.is_first;
}

/// Writes what the jobs of a message say and what follows from it, all or nothing.
pub async fn apply(outbox: &mut Outbox<'_>, tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut gathered = Gathered::default();
    for report in reports(outbox, tx, tasks).await? {
        gathered.add(report);
    }
    let mut affected = Affected::default();
    entries::take_payments(outbox, tx, gathered.payments, &mut affected).await?;
    let sessions = sessions::take(outbox, tx, gathered.sessions).await?;
    affected
        .agreements
        .extend(sessions.iter().map(ChangedSession::agreement));
    let invoices: Vec<Invoice> = gathered.invoices.into_values().collect();
    invoices::save(tx, &invoices, outbox.now).await?;
    let of_payment = invoices
        .iter()
        .filter(|it| it.subscription.is_none() && it.payment_id.is_some());
    let paid_invoices: Vec<String> = of_payment.map(|it| it.id.clone()).collect();
    let of_subscriptions = gathered.subscriptions.keys().cloned();
    affected.subscriptions.extend(of_subscriptions);
    // An invoice and the refund of its payment may come at the same time, and the second of them then sees the first.
    let payments = invoices.iter().filter_map(|it| it.payment_id.clone());
    let payments: Vec<String> = payments.chain(affected.turned.iter().cloned()).collect();
    store::payments::lock_agreements(tx, payments).await?;
    let touched = affected.touched_subscriptions(tx, paid_invoices).await?;
    affected.add_invoices(invoices);
    subscriptions::take(outbox, tx, gathered.subscriptions, touched).await?;
    let fresh = affected.agreements.clone();
    affected.agreements.extend(gathered.looked_for);
    affected.agreements.extend(gathered.waited.iter().cloned());
    settle::settle(outbox, tx, affected, sessions, &fresh).await?;
    settle::end_wait(outbox, tx, gathered.waited).await
}
