//! Streams of server-sent events: what each begins with, its heartbeat, and how it ends.

use std::ops::ControlFlow;
use std::time::Duration;

use axum::http::{HeaderName, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What is sent next: the stream goes on after it, or ends with it.
pub type Next = ControlFlow<Vec<Event>, Vec<Event>>;

/// What one client listens to.
pub trait Source: Send + 'static {
    /// Waits for what comes next. The heartbeat drops this future and asks for another one, so it
    /// takes nothing away before it ends.
    fn next(&mut self) -> impl Future<Output = Next> + Send;

    /// Finds out whether the client may still listen, also while much happens.
    fn heartbeat(&mut self) -> impl Future<Output = Next> + Send;
}

/// Answers with these events and then with those of the source. A client whose connection is lost is
/// told to wait for `again` before it connects anew.
pub fn answer(
    events: Vec<Event>,
    source: impl Source,
    heartbeat: Duration,
    again: Duration,
) -> Response {
    let hello = [Event::default().retry(again)].into_iter().chain(events);
    let state = Some((source, Instant::now() + heartbeat));
    let rest = stream::unfold(state, move |state| async move {
        let (mut source, mut beat_at) = state?;
        let next = tokio::select! {
            biased;
            () = sleep_until(beat_at) => {
                beat_at = Instant::now() + heartbeat;
                source.heartbeat().await
            }
            next = source.next() => next,
        };
        Some(match next {
            ControlFlow::Continue(events) => (events, Some((source, beat_at))),
            ControlFlow::Break(last) => (last, None),
        })
    });
    let events = stream::iter(hello).chain(rest.flat_map(stream::iter));
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        // nginx would hold events back until its buffer is full.
        (ACCEL_BUFFERING, "no"),
    ];
    (headers, Sse::new(events.map(Ok::<_, axum::Error>))).into_response()
}

/// An event of this type with JSON as its data.
pub fn event(kind: &str, data: &impl Serialize) -> Event {
    // JSON has no line breaks, so the data is one line.
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(kind).data(data)
}

/// A comment, which clients pass over.
pub fn comment(text: &str) -> Event {
    Event::default().comment(text)
}
