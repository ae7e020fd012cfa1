//! What follows from a change beside the rows it is about: events for the merchant's own
//! systems, and further jobs. Both are written in the transaction of the change.

use anyhow::Result;
use bus::JobRef;
use bytes::Bytes;
use domain::event::{Event, LastEvent, OrderEvent, PrivacyEvent};
use domain::job::{Job, JobId, Queue, Source, State};
use domain::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::audit;
use store::events;
use store::jobs::{self, NewJob};
use store::orders::records::OrderKey;
use store::sql::{self, Tx};

use super::Context;
use super::causation::Causation;
use crate::failure::permanent;

/// A job that workers are to be notified of once it is committed.
#[derive(Clone, Copy, Debug)]
pub struct JobNotification {
    pub queue: Queue,
    pub kind: &'static str,
    pub job_ref: JobRef,
}

pub struct Outbox<'a> {
    pub context: Context<'a>,
    pub now: Timestamp,
    pub causation: Causation,
    events: Vec<events::New>,
    jobs: Vec<NewJob>,
    notifications: Vec<JobNotification>,
    audited: Vec<Audited>,
}

/// An entry of the audit.
struct Audited {
    action: &'static str,
    object_id: String,
    shop: Option<String>,
    details: Value,
}

impl<'a> Outbox<'a> {
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

    /// All of them follow from one job.
    pub fn of(context: Context<'a>, job: &Job) -> Self {
        Outbox {
            causation: Causation::only(job),
            ..Outbox::new(context)
        }
    }

    /// What happened to an order.
    pub fn order_event(&mut self, key: &OrderKey, last: &mut LastEvent, what: OrderEvent) {
        let (shop, order_id) = key;
        self.event(last, Event::of_order(shop, *order_id, what));
    }

    /// What became of a privacy request, for the merchant's systems and for the audit.
    pub fn request(&mut self, shop: &str, id: JobId, action: &'static str, what: PrivacyEvent) {
        let id = id.to_string();
        let details = what.details();
        self.event(&mut LastEvent::none(), Event::of_request(shop, &id, what));
        self.audited.push(Audited {
            action,
            object_id: id,
            shop: Some(shop.to_owned()),
            details,
        });
    }

    /// What happened to an object whose newest event is `last`.
    pub fn event(&mut self, last: &mut LastEvent, event: Event) {
        let cause = self.causation.of(event.shop(), event.object_id());
        self.events.push(events::New {
            id: self.context.clock.id_at(last.next(self.now)),
            traceparent: cause.map(|cause| cause.context),
            event,
        });
    }

    /// Asks for further work on an order.
    pub fn job(&mut self, queue: Queue, kind: &'static str, key: &OrderKey, body: &Value) {
        let (shop, order_id) = key;
        self.work(
            queue,
            kind,
            Some(shop),
            &order_id.to_string(),
            body,
            self.now,
        );
    }

    /// Asks for further work on a payment, at once or later. Returns the job's id.
    pub fn job_of(
        &mut self,
        kind: &'static str,
        payment_id: &str,
        body: &Value,
        run_at: Timestamp,
    ) -> JobId {
        self.work(Queue::Payments, kind, None, payment_id, body, run_at)
    }

    fn work(
        &mut self,
        queue: Queue,
        kind: &'static str,
        shop: Option<&str>,
        object_id: &str,
        body: &Value,
        run_at: Timestamp,
    ) -> JobId {
        let id = self.context.clock.id();
        let is_due = run_at <= self.now;
        let cause = self.causation.of(shop, object_id);
        let traceparent = cause.map(|cause| cause.context);
        let request_id = cause.map(|cause| cause.request_id.clone());
        if is_due {
            let job_ref = JobRef {
                job: id,
                traceparent,
            };
            self.notifications.push(JobNotification {
                queue,
                kind,
                job_ref,
            });
        }
        self.jobs.push(NewJob {
            id,
            queue,
            kind: kind.to_owned(),
            source: Source::Internal,
            shop: shop.map(ToOwned::to_owned),
            external_id: None,
            object_id: Some(object_id.to_owned()),
            subject: None,
            api_version: None,
            body: Bytes::from(body.to_string()),
            state: State::Ready,
            run_at,
            notified_at: is_due.then_some(self.now),
            deadline_at: None,
            trace: request_id,
            traceparent,
            created_at: self.now,
        });
        id
    }

    /// Writes what was gathered.
    pub async fn write(&self, tx: &mut Tx) -> sql::Result<()> {
        let outlet = self.context.config.outlet();
        events::insert(tx, &self.events, outlet, self.now).await?;
        let jobs: Vec<&NewJob> = self.jobs.iter().collect();
        jobs::insert(tx, &jobs).await
    }

    /// Writes the audit, which is locked from then on: last of all.
    pub async fn audit(&self, tx: &mut Tx) -> sql::Result<()> {
        for entry in &self.audited {
            let new = audit::New {
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

    /// The jobs that workers are to be notified of after the commit.
    pub fn notifications(&self) -> &[JobNotification] {
        &self.notifications
    }
}

/// The body of a job of our own.
pub fn body<T: DeserializeOwned>(job: &Job) -> Result<T> {
    serde_json::from_slice(&job.body).map_err(|_| {
        permanent(anyhow::anyhow!(
            "the body of this {} job cannot be read",
            job.kind
        ))
    })
}
