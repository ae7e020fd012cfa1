//! Deliveries and what becomes of them, as they come. The page shows the newest; its script then listens to
//! `/live/events` (server-sent events), which goes on until the session ends, its key is revoked or the
//! process stops. One look at the database is for all who watch (`server::deliveries`). Who reads too slowly
//! misses rows and is sent a message that says so, and makes nobody else wait.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::http::HeaderName;
use axum::response::sse::Event;
use axum::response::{Html, IntoResponse, Response};
use domain::job::JobId;
use lists::List as _;
use lists::form::{Field, Values};
use lists::jobs::Deliveries;
use lists::shown::Cell;
use serde_json::{Value, json};
use server::deliveries::{Line, Listener, Live, Message, fits};
use server::sse::{self, Next};
use store::jobs::arrived::{self, Filter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use uuid::Uuid;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing::{self, Table};

/// The pause between two looks at the database while somebody watches.
pub const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How many watch in one process at most.
const MOST_WATCH: usize = 20;
/// How many rows somebody is sent who begins to watch, and how many the script keeps.
const ROWS: usize = 200;
/// How often it is found out whether somebody who watches is still signed in. The stream then says that it
/// goes on, which also finds out who has left.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long it may take until the first look.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// What a browser is asked to wait before it connects again.
const CONNECT_AGAIN: Duration = Duration::from_secs(3);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The number of people who watch in this process, and what they see.
pub struct Watched {
    pub live: Live,
    places: Arc<Semaphore>,
}

impl Default for Watched {
    fn default() -> Self {
        Watched {
            live: Live::default(),
            places: Arc::new(Semaphore::new(MOST_WATCH)),
        }
    }
}

#[derive(Template)]
#[template(path = "live.html")]
struct LivePage<'a> {
    frame: Frame<'a>,
    filters: &'a [Field],
    chips: Vec<listing::Chip>,
    table: &'a Table,
    rows: usize,
    /// The query of this page.
    query: String,
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Deliveries).await?.listing;
    if !visit.query.get("format").is_empty() {
        return Ok(listing.answer(&visit));
    }
    // What comes has come now.
    listing
        .filters
        .retain(|it| !["since", "before"].contains(&it.name.as_str()));
    listing.table.is_whole = true;
    let page = LivePage {
        frame: Frame::of(&visit, "/live"),
        chips: listing::chips(&visit, &listing.filters),
        filters: &listing.filters,
        table: &listing.table,
        rows: ROWS,
        query: visit.query.with("format", ""),
    };
    Ok(Html(page.to_string()).into_response())
}

/// The newest deliveries that the filter selects, and from then on each that comes. A browser that
/// connects again names the last delivery that it has seen, and hears when there were more than it is
/// sent.
pub async fn events(mut visit: Visit<Reader>) -> Result<Response, Error> {
    let watched = visit.watched();
    let place = watched.places.clone().try_acquire_owned();
    let place = place.map_err(|_| Error::TooManyWatch)?;
    let mut listener = watched.live.listen();
    // The look takes a turn too.
    visit.give_turn_back();
    let ready = timeout(FIRST_LOOK, listener.ready()).await;
    ready.map_err(|_| Error::Late)?;
    let mut visit = visit.take_turn().await;
    let asked = listing::asked::<Deliveries, _>(&visit)?;
    let filter = asked.arguments.filter.at(visit.now());
    let page = arrived::page(visit.db(), &filter, JobId::max(), ROWS).await?;
    visit.give_turn_back();
    let last = visit.header(&LAST_EVENT_ID);
    let last = last.unwrap_or_else(|| visit.query.get("after"));
    let last = Uuid::parse_str(last).ok();
    let is_gap = last.is_some_and(|last| page.rows.iter().all(|it| it.id > last));
    let mut stream = EventStream {
        filter,
        listener,
        newest: last.unwrap_or_default(),
        visit,
        _place: place,
    };
    let mut hello = Vec::new();
    if is_gap && page.next.is_some() {
        hello.push(sse::event("left_out", &json!({})));
    }
    for delivery in page.rows.iter().rev() {
        let line = Line::now(delivery);
        if !line.is_ended() {
            let live = &stream.visit.watched().live;
            live.follow(delivery.id, delivery.attempts);
        }
        hello.extend(stream.line(&line));
    }
    Ok(sse::answer(hello, stream, HEARTBEAT, CONNECT_AGAIN))
}

/// What one browser watches.
struct EventStream {
    visit: Visit<Reader>,
    filter: Filter,
    listener: Listener,
    /// The newest delivery that was sent, the id of each message.
    newest: JobId,
    _place: OwnedSemaphorePermit,
}

impl sse::Source for EventStream {
    async fn next(&mut self) -> Next {
        loop {
            let event = match self.listener.next().await {
                None => return ControlFlow::Break(Vec::new()),
                Some(Message::PassedOver(_)) => Some(sse::event("left_out", &json!({}))),
                Some(Message::Line(line)) => self.line(&line),
            };
            if let Some(event) = event {
                return ControlFlow::Continue(vec![event]);
            }
        }
    }

    async fn heartbeat(&mut self) -> Next {
        match self.visit.is_still_let_in().await {
            Some(true) => ControlFlow::Continue(vec![sse::comment("still here")]),
            Some(false) => ControlFlow::Break(vec![sse::event("ended", &json!({}))]),
            // Nobody is let in unseen; the browser connects again.
            None => ControlFlow::Break(Vec::new()),
        }
    }
}

impl EventStream {
    /// The message about a delivery. One that the filter no longer selects, because its state has
    /// changed, goes from the page.
    fn line(&mut self, line: &Line) -> Option<Event> {
        let job = line.job.map(|job| job.to_string());
        if !fits(&self.filter, line) {
            let gone = job.filter(|_| !self.filter.state.is_empty())?;
            return Some(sse::event("gone", &json!({"job": gone})));
        }
        let columns = Deliveries::COLUMNS.iter();
        let cells: Vec<Value> = columns.map(|it| (it.cell)(line).parts()).collect();
        self.newest = line.job.map_or(self.newest, |job| self.newest.max(job));
        let row = sse::event("row", &json!({"job": job, "cells": cells}));
        Some(if self.newest.is_nil() {
            row
        } else {
            row.id(self.newest.to_string())
        })
    }
}
