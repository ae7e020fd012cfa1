//! Reading events, and following deliveries.

use domain::api_key::Scope;
use serde_json::{Value, json};

use super::commerce::OF_A_KEY;
use super::operation::{Operation, get, in_header, in_query};
use crate::error::Error;
use crate::routes::{EventList, LONGEST_KINDS, LONGEST_WAIT, MOST_EVENTS, USUAL_EVENTS};

pub fn operations() -> Vec<Operation> {
    let list = by_key(get("/api/events", "listEvents", "What happened, from a cursor on"))
        .about(
            "Events in the sequence in which every reader sees them; those of one object as they happened. \
             Give `next` as `after` the next time. Without `after` it begins with the oldest event that is \
             kept. With `wait` the answer waits for the first event that fits. A key that is limited to \
             shops sees the events of these shops alone, and none of payments.",
        )
        .parameters(filters())
        .parameters([limit(), wait()])
        .answers::<EventList>(200, "The events; none after the wait is a success, too.")
        .link(
            "listEvents",
            "The events after these.",
            &[("after", "$response.body#/next")],
        );
    let stream = by_key(get(
        "/api/events/stream",
        "streamEvents",
        "Events as they happen, as server-sent events",
    ))
    .about(
        "Each event has its `id`, its type as `event`, and as `data` the same JSON as in the list. A client \
         that connects again with `Last-Event-ID` gets what it has missed. Without it and without `after` \
         the stream begins with what happens next. A comment comes every ten seconds when nothing else does.",
    )
    .parameters(filters())
    .parameters([last_event_id()])
    .answers_with(200, "It goes on until the client or the service ends it.", "text/event-stream");
    vec![list, stream, deliveries()]
}

fn deliveries() -> Operation {
    get(
        "/api/deliveries/stream",
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
    .tag("Service")
    .needs("apiKey")
    .errors(&OF_A_KEY)
    .errors(&[
        Error::MissingScope(Scope::DeliveriesRead),
        Error::TooManyWait,
    ])
    .answers_with(
        200,
        "It goes on until the client or the service ends it.",
        "text/event-stream",
    )
}

fn by_key(operation: Operation) -> Operation {
    operation
        .tag("Events")
        .needs("apiKey")
        .errors(&OF_A_KEY)
        .errors(&[
            Error::MissingScope(Scope::EventsRead),
            Error::EventsQuery,
            Error::TooManyWait,
        ])
}

const CURSOR: &str = "^(latest|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";

fn filters() -> [Value; 4] {
    let after = json!({"type": "string", "pattern": CURSOR});
    let word = "([a-z_]+|[*]|#)";
    let pattern = format!("{word}([.]{word})*");
    let kind = json!({"type": "string", "maxLength": LONGEST_KINDS, "pattern": format!("^{pattern}(,{pattern})*$")});
    let text = json!({"type": "string", "pattern": r"^[^\x00]*$"});
    [
        in_query(
            "after",
            "The id of the last event that was read, or `latest`.",
            &after,
            "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
        ),
        in_query(
            "type",
            "Types between commas; `*` is any word between dots, `#` any number of them.",
            &kind,
            "order.*",
        ),
        in_query("shop", "Those of this shop.", &text, "shop.example"),
        in_query(
            "object",
            "Those of this order, payment, ..",
            &text,
            "820982911946154508",
        ),
    ]
}

fn limit() -> Value {
    let limit =
        json!({"type": "integer", "minimum": 1, "maximum": MOST_EVENTS, "default": USUAL_EVENTS});
    in_query("limit", "How many at most.", &limit, USUAL_EVENTS)
}

fn wait() -> Value {
    let wait = json!({"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0});
    in_query(
        "wait",
        "Seconds to wait for an event when there is none.",
        &wait,
        0,
    )
}

fn last_event_id() -> Value {
    let id = json!({"type": "string", "pattern": CURSOR});
    in_header(
        "Last-Event-ID",
        "In place of `after`; browsers send it when they connect again.",
        &id,
        "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
    )
}
