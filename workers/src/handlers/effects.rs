//! What follows from a change beside the rows it is about: events for the merchant's own
//! systems, and further jobs. Both are written in the transaction of the change.

use anyhow::Result;
use bytes::Bytes;
use common::clock::Timestamp;
use common::job::{JobId, Queue, Source, State};
use common::sql::{self, Tx};
use common::store::events::{self, Event, Outlet};
use common::store::jobs::{self, NewJob};
use common::store::orders::records::Key;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Context;
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
    pub id: JobId,
}

pub struct Effects<'a> {
    pub context: Context<'a>,
    pub now: Timestamp,
    events: Vec<Event>,
    jobs: Vec<NewJob>,
    rings: Vec<Ring>,
}

impl<'a> Effects<'a> {
    pub fn new(context: Context<'a>) -> Self {
        Effects {
            context,
            now: context.clock.now(),
            events: Vec::new(),
            jobs: Vec::new(),
            rings: Vec::new(),
        }
    }

    /// Tells what happened to an order. `last` is the time in the id of its event before
    /// this one, and moves on: ids of one order's events sort as they happened, whatever the
    /// clocks of two hosts make of it.
    pub fn event(&mut self, key: &Key, last: &mut Timestamp, kind: &'static str, body: Value) {
        *last = Timestamp(self.now.0.max(last.0 + 1));
        let (shop, order_id) = key;
        let mut body = body;
        body["shop"] = Value::from(shop.as_str());
        body["order_id"] = Value::from(order_id.to_string());
        self.events.push(Event {
            id: self.context.clock.id_at(*last),
            kind,
            shop: shop.clone(),
            object_id: order_id.to_string(),
            body,
        });
    }

    /// Asks for further work on an order.
    pub fn job(&mut self, queue: Queue, kind: &'static str, key: &Key, body: &Value) {
        let id = self.context.clock.id();
        self.rings.push(Ring { queue, kind, id });
        self.jobs.push(NewJob {
            id,
            queue,
            kind: kind.to_owned(),
            source: Source::Internal,
            shop: Some(key.0.clone()),
            external_id: None,
            object_id: Some(key.1.to_string()),
            subject: None,
            body: Bytes::from(body.to_string()),
            state: State::Ready,
            rung_at: Some(self.now),
            deadline_at: None,
            trace: None,
            created_at: self.now,
        });
    }

    /// Writes what was gathered.
    pub async fn write(&self, tx: &mut Tx) -> sql::Result<()> {
        let outlet = Outlet::of(self.context.config);
        events::insert(tx, &self.events, outlet, self.now).await?;
        let jobs: Vec<&NewJob> = self.jobs.iter().collect();
        jobs::insert(tx, &jobs).await
    }

    /// The jobs to be rung after the commit.
    pub fn rings(&self) -> &[Ring] {
        &self.rings
    }
}

/// The body of a job of our own.
pub fn body<T: DeserializeOwned>(job: &common::job::Job) -> Result<T> {
    serde_json::from_slice(&job.body).map_err(|_| {
        permanent(anyhow::anyhow!(
            "the body of this {} job cannot be read",
            job.kind
        ))
    })
}
