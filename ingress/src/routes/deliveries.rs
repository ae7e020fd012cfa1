//! `GET /api/deliveries/stream`: deliveries as they arrive and what becomes of them, as server-sent
//! events, for `waybill listen` from another machine (docs/operating.md).
//!
//! It has a scope of its own, and not that of events. Events are the business of a merchant's systems;
//! this says what strangers try and which settings would take it, which is the operator's.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use domain::api_key::Shops;
use serde_json::json;
use server::deliveries::{Line, Listener, Message, Outcome};
use server::sse::{self, Next};
use uuid::Uuid;

use super::events::{CONNECT_AGAIN, HEARTBEAT};
use crate::App;
use crate::api_key::{self, DeliveriesRead, Holder};
use crate::database::READ_DEADLINE;
use crate::error::Error;
use crate::events::Place;
use crate::openapi::operation::{Operation, get, tagged};

pub fn routes() -> Vec<Operation> {
    let stream = get("/api/deliveries/stream", stream)
        .is(
            "streamDeliveries",
            "Deliveries as they arrive and what becomes of each, as server-sent events",
        )
        .about(
            "For operators; `waybill listen` reads it. Messages are `delivery`, `refused` (deliveries that were \
             not accepted, counted by reason, up to two seconds late), and `passed_over` (so many are not shown, \
             because more arrive than somebody could read). A delivery comes when its work has ended, or after \
             two seconds as `waiting` and again at its end. There is no cursor: the stream begins with what \
             arrives next. It holds ids, topics, shops, states and times, and nothing of bodies and customers. A \
             key that is limited to shops sees their deliveries alone, and nothing that was refused. A comment \
             comes every ten seconds.",
        )
        .answers_with(
            200,
            "It goes on until the client or the service ends it.",
            ["text/event-stream"],
        )
        .errors(&[Error::TooManyWait]);
    tagged("Service", [stream])
}

/// Deliveries from now on, for as long as the client listens and its key is good.
pub async fn stream(
    key: Holder<DeliveriesRead>,
    State(app): State<Arc<App>>,
) -> Result<Response, Error> {
    let place = app.listening.admit(key.id)?;
    let mut listener = app.live.listen();
    // Whoever has the answer misses nothing that arrives later.
    let ready = tokio::time::timeout(READ_DEADLINE, listener.ready()).await;
    ready.map_err(|_| Error::Unavailable)?;
    let stream = DeliveryStream {
        app,
        key: key.id,
        shops: key.shops,
        listener,
        _place: place,
    };
    Ok(sse::answer(Vec::new(), stream, HEARTBEAT, CONNECT_AGAIN))
}

/// What one client listens to.
struct DeliveryStream {
    app: Arc<App>,
    key: Uuid,
    shops: Shops,
    listener: Listener,
    _place: Place,
}

impl sse::Source for DeliveryStream {
    async fn next(&mut self) -> Next {
        loop {
            let message = tokio::select! {
                biased;
                () = self.app.stopping.cancelled() => None,
                message = self.listener.next() => message,
            };
            let Some(message) = message else {
                return ControlFlow::Break(Vec::new());
            };
            if let Some(event) = event(&self.shops, &message) {
                return ControlFlow::Continue(vec![event]);
            }
        }
    }

    async fn heartbeat(&mut self) -> Next {
        if api_key::is_still_good(&self.app, self.key).await {
            ControlFlow::Continue(vec![sse::comment("the key is good")])
        } else {
            ControlFlow::Break(Vec::new())
        }
    }
}

/// The message of the stream; `None` if the key does not open it.
fn event(shops: &Shops, message: &Message) -> Option<Event> {
    match message {
        Message::Line(line) if !is_open(shops, line) => None,
        Message::Line(line) => {
            let kind = match line.outcome {
                Outcome::Refused => "refused",
                _ => "delivery",
            };
            Some(sse::event(kind, line))
        }
        Message::PassedOver(deliveries) => Some(sse::event(
            "passed_over",
            &json!({"deliveries": deliveries}),
        )),
    }
}

/// A key that is limited to shops sees the deliveries of these shops. What was refused is of no shop,
/// because nobody has signed the name that it bears, and neither are payments.
fn is_open(shops: &Shops, line: &Line) -> bool {
    match &line.shop {
        Some(shop) if line.outcome != Outcome::Refused => shops.have(shop),
        _ => shops.0.is_none(),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/routes/deliveries.rs"]
mod tests;
