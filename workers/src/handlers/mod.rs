//! What runs the jobs of each kind (`domain::job::Kind`). There are two sorts of handlers:
//!
//! - Those that write have two halves, and both are in the crate `flows`: `prepare` reads one body
//!   and computes, without any I/O; `apply` writes the rows of a whole message in the given
//!   transaction, all or nothing.
//! - Those that ask a provider are here: `call` asks outside any transaction, `record` writes the
//!   answer, and `on_exhausted` writes what follows if there will be no answer.

mod confirmations;
mod fulfillments;
mod notifications;
pub mod privacy;
mod refunds;
mod retries;
mod thin_events;
pub mod webhooks;

use anyhow::{Result, bail};
use bytes::Bytes;
use domain::connection::DEFAULT;
use domain::job::{Exhausted, Internal, Job, Kind};
use domain::pause::Provider;
use flows::outbox::Outbox;
use flows::{Context, orders, payments};
use platform::crash_point;
use process::Parts;
use process::clients::Clients;
use providers::endpoints::Sender;
use providers::exports::Exports;
use providers::payment::Refunded;
use providers::storefront::Requested;
use store::sql::{self, Db, Tx};

use self::webhooks::Rooms;
use crate::mail::Mailer;

/// A job ready to be applied.
pub struct Prepared {
    pub job: Job,
    pub task: Task,
}

/// What a handler has made of a body.
pub enum Task {
    Order(Box<orders::Task>),
    Payment(Box<payments::Task>),
}

/// A provider's answer.
pub enum Answer {
    Fulfillment(Requested),
    Confirmation(confirmations::Verdict),
    Refund(Refunded),
    Retry(retries::Tried),
    Mail(notifications::Ended),
    Privacy(Box<privacy::Done>),
    /// The event with the object that it came without.
    Object(Bytes),
    Webhook(webhooks::Ended),
    Tested(webhooks::Tested),
    /// It was not asked: by now nothing is wanted of it.
    NotAsked,
}

/// The providers' APIs and the mail server, as far as they are set, and the export store.
#[derive(Clone)]
pub struct Providers {
    pub clients: Clients,
    pub mailer: Option<Mailer>,
    pub exports: Exports,
    pub endpoints: Sender,
    pub endpoint_rooms: Rooms,
}

impl Providers {
    /// True while the call of this job would be refused, because its provider did not answer.
    pub fn is_left_alone(&self, job: &Job) -> bool {
        let name = job.connection.as_deref().unwrap_or(DEFAULT);
        match job.kind.provider() {
            Some(Provider::Storefront) => self.clients.is_storefront_left_alone(name),
            Some(Provider::Payment) => self.clients.is_payment_left_alone(name),
            Some(Provider::Mail) | None => false,
        }
    }

    pub fn new(parts: &Parts) -> Self {
        let Parts { config, .. } = parts;
        Providers {
            clients: Clients::new(&parts.connections, &parts.clock),
            mailer: Mailer::new(config),
            exports: Exports::new(&config.privacy.exports),
            endpoints: Sender::new(config.endpoints.clone()),
            endpoint_rooms: Rooms::default(),
        }
    }
}

/// The pure half of the handler of a job that writes.
pub fn prepare(parts: &Parts, job: &Job) -> Result<Task> {
    let payment = |prepared: flows::Result<payments::Task>| -> Result<Task> {
        Ok(Task::Payment(Box::new(prepared?)))
    };
    match job.kind {
        Kind::Order(topic) => {
            let context = Context {
                config: &parts.config,
                connections: &parts.connections,
                clock: &parts.clock,
                keys: &parts.keys,
            };
            let prepared = orders::prepare(context, job, topic)?;
            Ok(Task::Order(Box::new(prepared)))
        }
        Kind::Payment(_) => payment(payments::prepare(job)),
        Kind::Internal(Internal::LinkPayment) => payment(payments::prepare_link(job)),
        Kind::Internal(Internal::EndWait) => payment(payments::prepare_end_wait(job)),
        Kind::Privacy(_)
        | Kind::ThinPayment(_)
        | Kind::Internal(
            Internal::ConfirmTopic
            | Internal::RequestFulfillment
            | Internal::IssueRefund
            | Internal::RetryPayment
            | Internal::SendNotification
            | Internal::EraseAgain
            | Internal::SendEvent
            | Internal::TestEndpoint,
        ) => bail!("a job of the kind {} is a call", job.kind),
    }
}

/// The writing half, for jobs that were marked done in `tx`. Returns what follows from it, of which everything is
/// stored in the same transaction but the events: write these before the commit, and notify workers of the jobs after it.
pub async fn apply<'a>(
    context: Context<'a>,
    tx: &mut Tx,
    prepared: &[&Prepared],
) -> Result<Outbox<'a>> {
    let (mut orders, mut payments) = (Vec::new(), Vec::new());
    for prepared in prepared {
        match &prepared.task {
            Task::Order(task) => orders.push((&prepared.job, &**task)),
            Task::Payment(task) => payments.push((&prepared.job, &**task)),
        }
    }
    let mut outbox = match prepared {
        [only] => Outbox::of(context, &only.job),
        _ => Outbox::new(context),
    };
    // Boxed: their futures are large, and every caller's would hold them.
    Box::pin(orders::apply(&mut outbox, tx, &orders)).await?;
    Box::pin(payments::apply(&mut outbox, tx, &payments)).await?;
    outbox.write_rows(tx).await?;
    for prepared in prepared {
        crash_point::work(prepared.job.id.as_u128()).await?;
    }
    Ok(outbox)
}

/// How many idempotency keys a run asks the payment provider with, when it keeps failures.
const KEYS_A_RUN: usize = 2;

/// Asks the provider. The job's id is the idempotency key.
pub async fn call(parts: &Parts, providers: &Providers, job: &Job) -> Result<Answer> {
    let db = &parts.db;
    match job.kind {
        // Boxed: it is far larger than the others.
        Kind::Privacy(_) | Kind::Internal(Internal::EraseAgain) => {
            Box::pin(privacy::call(parts, &providers.exports, job)).await
        }
        Kind::ThinPayment(_) => thin_events::call(providers, job).await,
        Kind::Internal(Internal::ConfirmTopic) => confirmations::call(providers, job).await,
        Kind::Internal(Internal::RequestFulfillment) => {
            fulfillments::call(db, providers, job).await
        }
        Kind::Internal(Internal::IssueRefund) => {
            refunds::call(db, &parts.clock, providers, job).await
        }
        Kind::Internal(Internal::RetryPayment) => {
            retries::call(db, &parts.clock, providers, job).await
        }
        Kind::Internal(Internal::SendNotification) => {
            notifications::call(parts, providers.mailer.as_ref(), job).await
        }
        Kind::Internal(Internal::SendEvent) => {
            webhooks::call(parts, &providers.endpoints, &providers.endpoint_rooms, job).await
        }
        Kind::Internal(Internal::TestEndpoint) => {
            webhooks::test(parts, &providers.endpoints, &providers.endpoint_rooms, job).await
        }
        Kind::Order(_)
        | Kind::Payment(_)
        | Kind::Internal(Internal::LinkPayment | Internal::EndWait) => {
            bail!("a job of the kind {} calls nobody", job.kind)
        }
    }
}

/// Writes a provider's answer, for a job that was marked done in `tx`.
pub async fn record<'a>(
    context: Context<'a>,
    tx: &mut Tx,
    job: &Job,
    answer: &Answer,
) -> Result<Outbox<'a>> {
    let mut outbox = Outbox::of(context, job);
    match answer {
        Answer::Fulfillment(answer) => {
            fulfillments::record(&mut outbox, tx, job, answer).await?;
        }
        Answer::Confirmation(verdict) => {
            confirmations::record(&mut outbox, tx, job, verdict).await?;
        }
        Answer::Refund(answer) => refunds::record(&mut outbox, tx, job, answer).await?,
        Answer::Retry(answer) => retries::record(&mut outbox, tx, job, answer).await?,
        Answer::Mail(ended) => notifications::record(tx, job, ended, outbox.now).await?,
        Answer::Privacy(done) => privacy::record(&mut outbox, tx, job, done).await?,
        Answer::Object(event) => {
            Box::pin(thin_events::record(&mut outbox, tx, job, event)).await?;
        }
        Answer::Webhook(ended) => webhooks::record(tx, job, *ended, outbox.now).await?,
        Answer::Tested(tested) => webhooks::record_test(context.clock, tx, job, tested).await?,
        Answer::NotAsked => {}
    }
    outbox.write(tx).await?;
    crash_point::work(job.id.as_u128()).await?;
    Ok(outbox)
}

/// Removes what earlier runs of a call have left, once its answer was recorded.
pub async fn recorded(providers: &Providers, answer: &Answer) {
    if let Answer::Privacy(done) = answer
        && let Some(written) = &done.export
    {
        privacy::export::remove_earlier(&providers.exports, written).await;
    }
}

/// Removes what a call has made that counts for nothing, because another run has claimed its job since,
/// or because its answer could not be recorded.
pub async fn discard(db: &Db, providers: &Providers, answer: &Answer) -> sql::Result<()> {
    if let Answer::Privacy(done) = answer
        && let Some(written) = &done.export
    {
        privacy::export::discard(db, &providers.exports, written).await?;
    }
    Ok(())
}

/// Writes what follows from a call that is given up, in the transaction that dead-letters its job. Jobs of one message
/// that write are no calls, and nothing follows from them.
pub async fn on_exhausted<'a>(
    context: Context<'a>,
    tx: &mut Tx,
    job: &Job,
    error: &str,
) -> sql::Result<Outbox<'a>> {
    let mut outbox = Outbox::of(context, job);
    match job.kind.row().exhausted {
        Exhausted::Nothing => {}
        Exhausted::FulfillmentFailed => {
            fulfillments::on_exhausted(&mut outbox, tx, job, error).await?;
        }
        Exhausted::RefundFailed => refunds::on_exhausted(&mut outbox, tx, job, error).await?,
        Exhausted::RetryFailed => retries::on_exhausted(tx, job, outbox.now).await?,
        Exhausted::NotificationFailed => {
            notifications::on_exhausted(tx, job, error, outbox.now).await?;
        }
        Exhausted::EventNotSent => webhooks::on_exhausted(tx, job, outbox.now).await?,
        Exhausted::RequestFailed => privacy::on_exhausted(&mut outbox, tx, job, error).await?,
    }
    outbox.write(tx).await?;
    Ok(outbox)
}
