//! Deliveries and what becomes of them, as they come. The page shows the newest; its script then listens to
//! `/live/events` (server-sent events), which goes on until the session ends, its key is revoked or the
//! process stops. One look at the database is for all who watch (`server::deliveries`). Who reads too slowly
//! misses rows and is sent a message that says so, and makes nobody else wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{Html, IntoResponse, Response};
use domain::job::JobId;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use server::deliveries::{Line, Listener, Live, Message, fits};
use store::jobs::arrived::{self, Filter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing::{self, Table};
use crate::pages::{PAGE, deliveries};
use crate::shown::Cell;

/// Between two looks at the database while somebody watches.
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
/// What a browser is asked to wait before it connects again, in milliseconds.
const CONNECT_AGAIN: u64 = 3000;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Those who watch in this process.
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
    filters: &'a [listing::Filter],
    table: &'a Table,
    rows: usize,
    /// The query of this page.
    query: String,
    json: String,
    csv: String,
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let filter = deliveries::filter(&visit);
    let page = arrived::page(visit.db(), &filter, JobId::max(), PAGE).await?;
    let table = deliveries::table(&page.deliveries);
    let answer = match visit.query.get("format") {
        "json" => listing::items(&table),
        "csv" => listing::csv(&table, "/live"),
        _ => {
            let page = LivePage {
                frame: Frame::new(&visit.who, "/live"),
                filters: &deliveries::filters(&filter),
                table: &table,
                rows: ROWS,
                query: visit.query.with("format", ""),
                json: visit.query.with("format", "json"),
                csv: visit.query.with("format", "csv"),
            };
            Html(page.to_string()).into_response()
        }
    };
    Ok(answer)
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
    let filter = deliveries::filter(&visit);
    let page = arrived::page(visit.db(), &filter, JobId::max(), ROWS).await?;
    visit.give_turn_back();
    let last = visit.header(&LAST_EVENT_ID);
    let last = last.unwrap_or_else(|| visit.query.get("after"));
    let last = Uuid::parse_str(last).ok();
    let is_gap = last.is_some_and(|last| page.deliveries.iter().all(|it| it.id > last));
    let mut stream = EventStream {
        filter,
        listener,
        newest: last.unwrap_or_default(),
        heartbeat_at: Instant::now() + HEARTBEAT,
        visit,
        _place: place,
    };
    let mut hello = format!("retry: {CONNECT_AGAIN}\n\n");
    if is_gap && page.next.is_some() {
        hello.push_str(&frame("left_out", &json!({}), None));
    }
    for delivery in page.deliveries.iter().rev() {
        let line = Line::now(delivery);
        if !line.is_ended() {
            let live = &stream.visit.watched().live;
            live.follow(delivery.id, delivery.attempts);
        }
        hello.push_str(&stream.line(&line).unwrap_or_default());
    }
    let hello = stream::iter([Ok::<_, Infallible>(hello)]);
    let rest = stream::unfold(Some(stream), async |stream| {
        let mut stream = stream?;
        match stream.next().await {
            Next::Text(text) => Some((Ok(text), Some(stream))),
            Next::Last(text) => Some((Ok(text), None)),
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // nginx would hold rows back until its buffer is full.
        (ACCEL_BUFFERING, "no"),
    ];
    Ok((headers, Body::from_stream(hello.chain(rest))).into_response())
}

/// What one browser watches.
struct EventStream {
    visit: Visit<Reader>,
    filter: Filter,
    listener: Listener,
    /// The newest delivery that was sent, the id of each message.
    newest: JobId,
    heartbeat_at: Instant,
    _place: OwnedSemaphorePermit,
}

enum Next {
    Text(String),
    /// The stream ends with it.
    Last(String),
}

impl EventStream {
    async fn next(&mut self) -> Next {
        loop {
            // Also while much happens.
            if Instant::now() >= self.heartbeat_at {
                self.heartbeat_at = Instant::now() + HEARTBEAT;
                return match self.visit.is_still_let_in().await {
                    Some(true) => Next::Text(": still here\n\n".to_owned()),
                    Some(false) => Next::Last(frame("ended", &json!({}), None)),
                    // Nobody is let in unseen; the browser connects again.
                    None => Next::Last(String::new()),
                };
            }
            tokio::select! {
                message = self.listener.next() => match message {
                    None => return Next::Last(String::new()),
                    Some(Message::PassedOver(_)) => {
                        return Next::Text(frame("left_out", &json!({}), None));
                    }
                    Some(Message::Line(line)) => {
                        if let Some(text) = self.line(&line) {
                            return Next::Text(text);
                        }
                    }
                },
                () = sleep_until(self.heartbeat_at) => {}
            }
        }
    }

    /// The message about a delivery. One that the filter no longer selects, because its state has
    /// changed, goes from the page.
    fn line(&mut self, line: &Line) -> Option<String> {
        let job = line.job.map(|job| job.to_string());
        if !fits(&self.filter, line) {
            let gone = job.filter(|_| !self.filter.state.is_empty())?;
            return Some(frame("gone", &json!({"job": gone}), None));
        }
        let cells: Vec<Value> = deliveries::row(line).iter().map(Cell::parts).collect();
        self.newest = line.job.map_or(self.newest, |job| self.newest.max(job));
        let id = (!self.newest.is_nil()).then_some(self.newest);
        Some(frame("row", &json!({"job": job, "cells": cells}), id))
    }
}

/// A server-sent event. JSON has no line breaks of its own, so the data is one line.
fn frame(event: &str, data: &Value, id: Option<JobId>) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("event: {event}\n{id}data: {data}\n\n")
}
