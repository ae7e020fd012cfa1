//! What follows from a change beside the rows it is about: events for the merchant's own
//! systems, and further jobs. Both are written in the transaction of the change.

use anyhow::Result;
use bus::Bell;
use bytes::Bytes;
use domain::job::{Job, JobId, Queue, Source, State};
use domain::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::audit;
use store::events::{self, Event};
use store::jobs::{self, NewJob};
use store::orders::records::Key;
use store::sql::{self, Tx};

use super::Context;
use super::causes::Causes;
use crate::failure::permanent;

/// Times that an order's row reserves for the events of a message: it holds the time of the
/// last one, and is written before they are known.
pub const RESERVED: i64 = 31;

/// Entries of a list in an event.
pub const MOST_LISTED: usize = 1000;

/// A job to be rung once it is committed.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pub queue: Queue,
    pub kind: &'static str,
    pub bell: Bell,
}

pub struct Effects<'a> {
    pub context: Context<'a>,
    pub now: Timestamp,
    pub causes: Causes,
    events: Vec<Event>,
    jobs: Vec<NewJob>,
    rings: Vec<Ring>,
    audited: Vec<Audited>,
}

/// An entry of the audit.
struct Audited {
    action: &'static str,
    object_id: String,
    shop: Option<String>,
    details: Value,
}

impl<'a> Effects<'a> {
    pub fn new(context: Context<'a>) -> Self {
        Effects {
            context,
            now: context.clock.now(),
            causes: Causes::default(),
            events: Vec::new(),
            jobs: Vec::new(),
            rings: Vec::new(),
            audited: Vec::new(),
        }
    }

    /// All of them follow from one job.
    pub fn of(context: Context<'a>, job: &Job) -> Self {
        Effects {
            causes: Causes::only(job),
            ..Effects::new(context)
        }
    }

    /// Tells what happened to an order.
    pub fn event(&mut self, key: &Key, last: &mut Timestamp, kind: &'static str, body: Value) {
        let (shop, order_id) = key;
        let order_id = order_id.to_string();
        let mut body = body;
        body["shop"] = Value::from(shop.as_str());
        body["order_id"] = Value::from(order_id.as_str());
        self.tell(Some(shop), &order_id, last, kind, body);
    }

    /// Tells what happened to a payment, a session or a subscription, which are of no shop.
    pub fn event_of(&mut self, id: &str, last: &mut Timestamp, kind: &'static str, body: Value) {
        self.tell(None, id, last, kind, body);
    }

    /// Tells what became of a privacy request, to the merchant's systems and in the audit.
    pub fn request(
        &mut self,
        shop: &str,
        id: JobId,
        kind: &'static str,
        action: &'static str,
        details: Value,
    ) {
        let id = id.to_string();
        let mut body = details.clone();
        body["request_id"] = Value::from(id.as_str());
        body["shop"] = Value::from(shop);
        self.tell(Some(shop), &id, &mut Timestamp(0), kind, body);
        self.audited.push(Audited {
            action,
            object_id: id,
            shop: Some(shop.to_owned()),
            details,
        });
    }

    /// `last` is the time in the id of the object's event before this one, and moves on: ids
    /// of one object's events sort as they happened, whatever the clocks of two hosts make
    /// of it.
    fn tell(
        &mut self,
        shop: Option<&str>,
        object_id: &str,
        last: &mut Timestamp,
        kind: &'static str,
        body: Value,
    ) {
        *last = Timestamp(self.now.0.max(last.0 + 1));
        let cause = self.causes.of(shop, object_id);
        self.events.push(Event {
            id: self.context.clock.id_at(*last),
            kind,
            shop: shop.map(ToOwned::to_owned),
            object_id: object_id.to_owned(),
            body,
            traceparent: cause.map(|cause| cause.context),
        });
    }

    /// Asks for further work on an order.
    pub fn job(&mut self, queue: Queue, kind: &'static str, key: &Key, body: &Value) {
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
        let cause = self.causes.of(shop, object_id);
        let traceparent = cause.map(|cause| cause.context);
        let request_id = cause.map(|cause| cause.request_id.clone());
        if is_due {
            let bell = Bell {
                job: id,
                traceparent,
            };
            self.rings.push(Ring { queue, kind, bell });
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
            rung_at: is_due.then_some(self.now),
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

    /// The jobs to be rung after the commit.
    pub fn rings(&self) -> &[Ring] {
        &self.rings
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
