//! `GET /api/deliveries/stream`: deliveries as they arrive and what becomes of them, as server-sent
//! events, for `waybill listen` from another machine (docs/operating.md).
//!
//! It has a scope of its own, and not that of events. Events are the business of a merchant's systems;
//! this says what strangers try and which settings would take it, which is the operator's.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::api_key::Shops;
use futures_util::stream;
use serde_json::json;
use server::deliveries::{Line, Listener, Message, Outcome};
use store::api_keys;
use tokio::time::Instant;
use uuid::Uuid;

use crate::App;
use crate::api_key::{DeliveriesRead, Holder};
use crate::database::{READ_DEADLINE, step};
use crate::error::Error;
use crate::events::Place;
use crate::openapi::operation::{Operation, get, tagged};

/// A stream on which nothing happens says so, and looks whether its key is still good.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// What a client is told to wait before it connects again, in milliseconds.
const CONNECT_AGAIN: u64 = 2000;
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

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
        heartbeat_at: Instant::now() + HEARTBEAT,
        app,
        key: key.id,
        shops: key.shops,
        listener,
        _place: place,
    };
    let hello = Bytes::from(format!("retry: {CONNECT_AGAIN}\n\n"));
    let hello = stream::iter([Ok::<_, Infallible>(hello)]);
    let messages = stream::unfold(stream, async |mut stream| {
        let text = stream.next().await?;
        Some((Ok(Bytes::from(text)), stream))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would hold lines back until its buffer is full.
        (ACCEL_BUFFERING, "no"),
    ];
    let body = Body::from_stream(stream::StreamExt::chain(hello, messages));
    Ok((headers, body).into_response())
}

/// What one client listens to.
struct DeliveryStream {
    app: Arc<App>,
    key: Uuid,
    shops: Shops,
    listener: Listener,
    _place: Place,
    heartbeat_at: Instant,
}

impl DeliveryStream {
    /// What is sent next; `None`: the stream ends, and the client connects again.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.app.is_stopping() {
                return None;
            }
            // Also while much happens.
            if Instant::now() >= self.heartbeat_at {
                let good = api_keys::is_good(&self.app.db, self.key, self.app.clock.now());
                if !step(good).await.unwrap_or(false) {
                    return None;
                }
                self.heartbeat_at = Instant::now() + HEARTBEAT;
                return Some(": the key is good\n\n".to_owned());
            }
            tokio::select! {
                message = self.listener.next() => {
                    if let Some(frame) = frame(&self.shops, &message?) {
                        return Some(frame);
                    }
                }
                () = tokio::time::sleep_until(self.heartbeat_at) => {}
                () = self.app.stopping.cancelled() => return None,
            }
        }
    }
}

/// The message of the stream; `None` if the key does not open it.
fn frame(shops: &Shops, message: &Message) -> Option<String> {
    let (event, data) = match message {
        Message::Line(line) if !is_open(shops, line) => return None,
        Message::Line(line) => {
            let event = match line.outcome {
                Outcome::Refused => "refused",
                _ => "delivery",
            };
            (event, serde_json::to_string(line).ok()?)
        }
        Message::PassedOver(deliveries) => {
            ("passed_over", json!({"deliveries": deliveries}).to_string())
        }
    };
    Some(format!("event: {event}\ndata: {data}\n\n"))
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
mod tests {
    use domain::time::Timestamp;

    use super::*;

    #[test]
    fn a_key_of_shops_sees_their_deliveries_and_nothing_that_nobody_signed() {
        let line = |shop: Option<&str>, outcome| Line {
            job: None,
            source: "storefront".to_owned(),
            topic: Some("orders/create".to_owned()),
            shop: shop.map(ToOwned::to_owned),
            object_id: None,
            delivery_id: None,
            status: 200,
            outcome,
            attempts: 0,
            deliveries: 1,
            received_at: Timestamp(0),
            finished_at: None,
            milliseconds: None,
            reason: None,
            signature: None,
            header: None,
            advice: None,
        };
        let one = Shops(Some(vec!["a.example".to_owned()]));
        assert!(is_open(&one, &line(Some("a.example"), Outcome::Done)));
        assert!(!is_open(&one, &line(Some("b.example"), Outcome::Done)));
        assert!(!is_open(&one, &line(None, Outcome::Done)));
        assert!(!is_open(&one, &line(Some("a.example"), Outcome::Refused)));
        for outcome in [Outcome::Done, Outcome::Refused] {
            assert!(is_open(&Shops(None), &line(None, outcome)));
        }
    }
}
