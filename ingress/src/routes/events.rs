//! `/api/events`: what happened, for the merchant's own systems without a broker, in pages that
//! may be waited for, and as a stream of server-sent events (docs/events.md).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use domain::envelope::Envelope;
use domain::event::Pattern;
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::sse::{self, Next};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::App;
use crate::api_key::{self, EventsRead, Holder};
use crate::error::Error;
use crate::events::{Filter, Place, Reader, Start};
use crate::openapi::operation::{Input, Operation, get, in_header, tagged};

/// How long a client may have the answer wait for events.
const LONGEST_WAIT: u64 = 30;
const MOST_EVENTS: usize = 1000;
const USUAL_EVENTS: usize = 100;
/// How long the patterns of `type` may be together, in characters.
const LONGEST_KINDS: usize = 100;

/// Events that a stream reads at a time.
const AT_A_TIME: usize = 50;
/// A stream on which nothing happens says so, and looks whether its key is still good.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// What a client is told to wait before it connects again.
pub const CONNECT_AGAIN: Duration = Duration::from_secs(2);

const CURSOR: &str = "^(latest|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub fn routes() -> Vec<Operation> {
    let list = get("/api/events", list)
        .is("listEvents", "What happened, from a cursor on")
        .about(
            "Events in the sequence in which every reader sees them; those of one object as they happened. \
             Give `next` as `after` the next time. Without `after` it begins with the oldest event that is \
             kept. With `wait` the answer waits for the first event that fits. A key that is limited to \
             shops sees the events of these shops alone, and none of payments.",
        )
        .in_query::<ListLimits>()
        .answers::<EventList>(200, "The events; none after the wait is a success, too.")
        .link(
            "listEvents",
            "The events after these.",
            &[("after", "$response.body#/next")],
        );
    let cursor = json!({"type": "string", "pattern": CURSOR});
    let last_event_id = in_header(
        "Last-Event-ID",
        "In place of `after`; browsers send it when they connect again.",
        &cursor,
        "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
    );
    let stream = get("/api/events/stream", stream)
        .is("streamEvents", "Events as they happen, as server-sent events")
        .about(
            "Each event has its `id`, its type as `event`, and as `data` the same JSON as in the list. A client \
             that connects again with `Last-Event-ID` gets what it has missed. Without it and without `after` \
             the stream begins with what happens next. A comment comes every ten seconds when nothing else does.",
        )
        .parameters([last_event_id])
        .answers_with(
            200,
            "It goes on until the client or the service ends it.",
            ["text/event-stream"],
        );
    tagged(
        "Events",
        [list, stream].map(|it| it.errors(&[Error::TooManyWait])),
    )
}

/// What happened, in the sequence in which all readers see it.
#[derive(Serialize, ToSchema)]
pub struct EventList {
    /// Those that fit, oldest first.
    events: Vec<Envelope>,
    /// What to give as `after` the next time; null: nothing has happened yet.
    next: Option<Uuid>,
    /// There may be more already: ask again at once.
    more: bool,
}

/// What a request asks for: `?after=`, `?type=`, `?shop=`, `?object=`, `?limit=` and `?wait=`.
pub struct Wanted {
    start: Option<Start>,
    kinds: Vec<Pattern>,
    shop: Option<String>,
    object_id: Option<String>,
    limit: usize,
    wait: Duration,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filters {
    /// The id of the last event that was read, or `latest`.
    #[param(
        pattern = "^(latest|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$",
        example = "01a3185c-5000-7cc3-98c4-dc0c0c07398f"
    )]
    after: Option<String>,
    /// Types between commas; `*` is any word between dots, `#` any number of them.
    #[param(
        max_length = 100,
        pattern = "^([a-z_]+|[*]|#)([.]([a-z_]+|[*]|#))*(,([a-z_]+|[*]|#)([.]([a-z_]+|[*]|#))*)*$",
        example = "order.*"
    )]
    r#type: Option<String>,
    /// Those of this shop.
    #[param(pattern = r"^[^\x00]*$", example = "shop.example")]
    shop: Option<String>,
    /// Those of this order, payment, ..
    #[param(pattern = r"^[^\x00]*$", example = "820982911946154508")]
    object: Option<String>,
}

/// What a list adds to the filters. A stream passes it over.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListLimits {
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100, example = 100)]
    limit: Option<usize>,
    /// Seconds to wait for an event when there is none.
    #[param(value_type = Option<usize>, maximum = 30, default = 0, example = 0)]
    wait: Option<u64>,
}

impl Input for Wanted {
    fn describe(operation: Operation) -> Operation {
        operation
            .in_query::<Filters>()
            .errors(&[Error::EventsQuery])
    }
}

impl FromRequestParts<Arc<App>> for Wanted {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let query = Query::<Filters>::from_request_parts(parts, app).await;
        let Query(given) = query.map_err(|_| Error::EventsQuery)?;
        let query = Query::<ListLimits>::from_request_parts(parts, app).await;
        let Query(limits) = query.map_err(|_| Error::EventsQuery)?;
        let kinds = given.r#type.as_deref().unwrap_or("#");
        if kinds.len() > LONGEST_KINDS {
            return Err(Error::EventsQuery);
        }
        let kinds: Vec<Pattern> = kinds
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| Error::EventsQuery)?;
        let limit = limits.limit.unwrap_or(USUAL_EVENTS);
        let wait = limits.wait.unwrap_or(0);
        let is_text = |text: &Option<String>| !text.as_ref().is_some_and(|it| it.contains('\0'));
        let fits = (1..=MOST_EVENTS).contains(&limit)
            && wait <= LONGEST_WAIT
            && is_text(&given.shop)
            && is_text(&given.object);
        if !fits {
            return Err(Error::EventsQuery);
        }
        Ok(Wanted {
            start: given.after.as_deref().map(start).transpose()?,
            kinds,
            shop: given.shop.map(|shop| shop.to_ascii_lowercase()),
            object_id: given.object,
            limit,
            wait: Duration::from_secs(wait),
        })
    }
}

fn start(text: &str) -> Result<Start, Error> {
    if text == "latest" {
        return Ok(Start::Latest);
    }
    text.parse()
        .map(Start::After)
        .map_err(|_| Error::EventsQuery)
}

impl Wanted {
    fn filter(&self, key: &Holder<EventsRead>) -> Filter {
        Filter {
            kinds: self.kinds.clone(),
            shop: self.shop.clone(),
            object_id: self.object_id.clone(),
            shops: key.shops.clone(),
        }
    }
}

/// The next events after a cursor. With `?wait=` the answer waits for the first of them.
pub async fn list(
    key: Holder<EventsRead>,
    State(app): State<Arc<App>>,
    wanted: Wanted,
) -> Result<Response, Error> {
    let mut place = match wanted.wait {
        Duration::ZERO => None,
        _ => Some(app.waiting.admit(key.id)?),
    };
    let until = Instant::now() + wanted.wait;
    let start = wanted.start.unwrap_or(Start::Oldest);
    let mut reader = Reader::begin(&app, start, wanted.filter(&key)).await?;
    loop {
        if let Some(place) = &mut place {
            place.look();
        }
        let page = reader.page(&app, wanted.limit).await?;
        let waits = page.events.is_empty() && !page.is_more && Instant::now() < until;
        if let (Some(place), true) = (&mut place, waits) {
            tokio::select! {
                () = place.wait() => continue,
                () = tokio::time::sleep_until(until) => {}
                () = app.stopping.cancelled() => {}
            }
        }
        let answer = EventList {
            events: page.events,
            next: reader.cursor(),
            more: page.is_more,
        };
        return Ok(Json(answer).into_response());
    }
}

/// Events as they happen, for as long as the client listens and its key is good.
pub async fn stream(
    key: Holder<EventsRead>,
    State(app): State<Arc<App>>,
    wanted: Wanted,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let place = app.waiting.admit(key.id)?;
    let last = match headers.get(&LAST_EVENT_ID) {
        Some(last) => Some(start(last.to_str().map_err(|_| Error::EventsQuery)?)?),
        None => wanted.start,
    };
    let start = last.unwrap_or(Start::Latest);
    let reader = Reader::begin(&app, start, wanted.filter(&key)).await?;
    let stream = EventStream {
        app,
        key: key.id,
        reader,
        place,
    };
    Ok(sse::answer(Vec::new(), stream, HEARTBEAT, CONNECT_AGAIN))
}

/// What one client listens to.
struct EventStream {
    app: Arc<App>,
    key: Uuid,
    reader: Reader,
    place: Place,
}

impl sse::Source for EventStream {
    async fn next(&mut self) -> Next {
        loop {
            if self.app.is_stopping() {
                return ControlFlow::Break(Vec::new());
            }
            self.place.look();
            // A look that the heartbeat interrupts is done again.
            let mut reader = self.reader.clone();
            let Ok(page) = reader.page(&self.app, AT_A_TIME).await else {
                return ControlFlow::Break(Vec::new());
            };
            self.reader = reader;
            if !page.events.is_empty() {
                let event = |it: &Envelope| sse::event(&it.kind, it).id(it.id.to_string());
                return ControlFlow::Continue(page.events.iter().map(event).collect());
            }
            if page.is_more {
                continue;
            }
            tokio::select! {
                () = self.place.wait() => {}
                () = self.app.stopping.cancelled() => {}
            }
        }
    }

    /// Its id lets a client go on from here that has seen no event for long, because none fits.
    async fn heartbeat(&mut self) -> Next {
        if !api_key::is_still_good(&self.app, self.key).await {
            return ControlFlow::Break(Vec::new());
        }
        let mut beat = sse::comment("nothing happened");
        if let Some(id) = self.reader.cursor() {
            beat = beat.id(id.to_string());
        }
        ControlFlow::Continue(vec![beat])
    }
}
