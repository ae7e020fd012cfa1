//! The outbox: what follows from a change beside its own rows. It gathers events for the merchant's
//! own systems, further jobs and entries of the audit, and writes them in the transaction of the
//! change. No other code writes events.

use bus::{Bus, JobRef};
use domain::connection::{DEFAULT, of_id};
use domain::event::{Event, OrderEvent, PrivacyEvent};
use domain::job::{Internal, Job, JobId, Kind};
use domain::order::OrderKey;
use domain::pause::Provider;
use domain::time::Timestamp;
use domain::trace::TraceContext;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::audit;
use store::events;
use store::jobs::{self, NewJob};
use store::sql::{self, Tx};

use crate::causation::Causation;
use crate::{Context, Error, Result};

/// A job that workers are to be notified of once it is committed.
#[derive(Clone, Copy, Debug)]
pub struct JobNotification {
    pub kind: Kind,
    pub job_ref: JobRef,
}

pub struct Outbox<'a> {
    pub context: Context<'a>,
    /// The time of everything that this transaction writes.
    pub now: Timestamp,
    pub(crate) causation: Causation,
    events: Vec<events::NewEvent>,
    jobs: Vec<NewJob>,
    notifications: Vec<JobNotification>,
    audited: Vec<Audited>,
}

/// An entry for the audit.
struct Audited {
    action: &'static str,
    object_id: String,
    shop: Option<String>,
    details: Value,
}

impl<'a> Outbox<'a> {
    /// The outbox of several jobs, or of work that no request asked for.
    pub fn new(context: Context<'a>) -> Self {
        Outbox {
            context,
            now: context.clock.now(),
            causation: Causation::default(),
            events: Vec::new(),
            jobs: Vec::new(),
            notifications: Vec::new(),
            audited: Vec::new(),
        }
    }

    /// The outbox of one job. Everything in it follows from that job.
    pub fn of(context: Context<'a>, job: &Job) -> Self {
        Outbox {
            causation: Causation::only(job),
            ..Outbox::new(context)
        }
    }

    /// The outbox of a request to the API that has this place in a trace, if it has one.
    /// Everything in it follows from that request.
    pub fn of_request(context: Context<'a>, trace: Option<TraceContext>) -> Self {
        Outbox {
            causation: Causation::of_request(trace),
            ..Outbox::new(context)
        }
    }

    /// Adds the event of what happened to an order, whose row the caller has locked.
    pub fn order_event(&mut self, (shop, order_id): &OrderKey, what: OrderEvent) {
        self.event(Event::of_order(shop, *order_id, what));
    }

    /// Adds what became of a privacy request: an event, and an entry of the audit.
    pub fn request(&mut self, shop: &str, id: JobId, action: &'static str, what: PrivacyEvent) {
        let id = id.to_string();
        let details = what.details();
        self.event(Event::of_request(shop, &id, what));
        self.audited.push(Audited {
            action,
            object_id: id,
            shop: Some(shop.to_owned()),
            details,
        });
    }

    /// Adds the event of what happened to an object, whose row the caller has locked.
    pub fn event(&mut self, event: Event) {
        let cause = self.causation.of(event.shop(), event.object_id());
        self.events.push(events::NewEvent {
            at: self.now,
            traceparent: cause.map(|cause| cause.context),
            event,
        });
    }

    /// Adds a job that is about an order and due at once.
    pub fn job(&mut self, kind: Internal, key: &OrderKey, body: &Value) {
        self.job_with_id(self.context.clock.id(), kind, key, body);
    }

    /// Adds a job that is about an order and due at once, under an id that the order's rows name.
    pub fn job_with_id(&mut self, id: JobId, kind: Internal, key: &OrderKey, body: &Value) {
        let (shop, order_id) = key;
        self.add_job(
            id,
            kind,
            (Some(shop), &order_id.to_string()),
            body,
            self.now,
        );
    }

    /// Adds a job that is about a payment, due at once or later. Returns the job's id.
    pub fn job_of(
        &mut self,
        kind: Internal,
        payment_id: &str,
        body: &Value,
        run_at: Timestamp,
    ) -> JobId {
        let id = self.context.clock.id();
        self.add_job(id, kind, (None, payment_id), body, run_at);
        id
    }

    fn add_job(
        &mut self,
        id: JobId,
        kind: Internal,
        (shop, object_id): (Option<&str>, &str),
        body: &Value,
        run_at: Timestamp,
    ) {
        let connections = self.context.connections.now();
        let kind = Kind::Internal(kind);
        let connection = match (kind.provider(), shop) {
            (Some(Provider::Payment), _) => {
                let payment = body.get("payment_id").and_then(Value::as_str);
                of_id(payment.unwrap_or(object_id))
            }
            (_, Some(shop)) => &connections.of_shop(shop).name,
            (_, None) => of_id(object_id),
        };
        let connection = Some(connection).filter(|it| *it != DEFAULT);
        let connection = connection.map(ToOwned::to_owned);
        let is_due = run_at <= self.now;
        let cause = self.causation.of(shop, object_id);
        let traceparent = cause.map(|cause| cause.context);
        let request_id = cause.and_then(|cause| cause.request_id.clone());
        if is_due {
            let job_ref = JobRef {
                job: id,
                traceparent,
            };
            self.notifications.push(JobNotification { kind, job_ref });
        }
        self.jobs.push(NewJob {
            shop: shop.map(ToOwned::to_owned),
            object_id: Some(object_id.to_owned()),
            connection,
            run_at,
            notified_at: is_due.then_some(self.now),
            trace: request_id,
            traceparent,
            ..NewJob::of(kind, id, body.to_string(), self.now)
        });
    }

    /// Writes everything: the last thing that a transaction does before its commit.
    pub async fn write(&self, tx: &mut Tx) -> sql::Result<()> {
        self.write_rows(tx).await?;
        write_events(tx, std::slice::from_ref(self)).await
    }

    /// Writes everything but the events: jobs, and then the audit, because that is locked until the commit.
    pub async fn write_rows(&self, tx: &mut Tx) -> sql::Result<()> {
        let jobs: Vec<&NewJob> = self.jobs.iter().collect();
        jobs::insert(tx, &jobs).await?;
        for entry in &self.audited {
            let new = audit::NewEntry {
                actor: audit::WORKER,
                action: entry.action,
                object_id: &entry.object_id,
                shop: entry.shop.as_deref(),
                details: entry.details.clone(),
            };
            audit::append(tx, self.context.keys, new, self.now).await?;
        }
        Ok(())
    }

    /// Records, after the commit, that the events may be read.
    pub fn readable(&self, bus: &Bus) {
        for new in &self.events {
            bus.record_readable(new.traceparent, || new.event.message().kind);
        }
    }

    /// The jobs that workers are to be notified of after the commit.
    pub fn notifications(&self) -> &[JobNotification] {
        &self.notifications
    }
}

/// Writes the events of all that is in a transaction, in this sequence and as the last thing before its commit, because
/// readers wait for its end.
pub async fn write_events(tx: &mut Tx, outboxes: &[Outbox<'_>]) -> sql::Result<()> {
    let events = outboxes.iter().flat_map(|outbox| &outbox.events);
    // Boxed: its future is large, and every caller's would hold it.
    Box::pin(events::insert(tx, events)).await
}

/// Reads the body of a job that Waybill made itself.
pub fn body<T: DeserializeOwned>(job: &Job) -> Result<T> {
    serde_json::from_slice(&job.body).map_err(|_| Error::JobBody { kind: job.kind })
}
