//! The description of the events: AsyncAPI 3 at `/asyncapi.json`, made of the same types as
//! docs/events.md and as the `webhooks` of the OpenAPI description. The test `asyncapi` lets the
//! official parser read it.
//!
//! On the broker each type of event has a routing key of its own, so it is a channel of its own. The
//! stream over HTTP is one channel with all of them.

use domain::event::catalogue;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};

use super::events::{message, plain};
use super::schemas::Schemas;

const ABOUT: &str = "What Waybill sends to your own systems: ids, states and amounts, and no names or addresses. \
     Every event is sent at least once, and those of one object in order; an event that comes again has the same id. \
     Fields may be added: pass over what you do not know.";

/// The channel of the stream, and the server that has it.
const STREAM: &str = "stream";
const HTTP: &str = "api";
const BROKER: &str = "broker";

/// The whole description. `public_url` is where clients reach the service, and `prefix` the
/// beginning of the names of exchanges.
pub fn document(public_url: &str, prefix: &str) -> Value {
    let mut schemas = Schemas::default();
    schemas.answer::<Timestamp>();
    let (mut channels, mut operations, mut messages) = (Map::new(), Map::new(), Map::new());
    let mut of_stream = Map::new();
    for event in catalogue() {
        let (name, when) = (event.name.as_str(), plain(&event.when));
        let schema = format!("Event.{name}");
        schemas.insert(&schema, message(&event));
        let schema = reference(&format!("components/schemas/{schema}"));
        messages.insert(
            name.to_owned(),
            json!({
                "name": name,
                "title": name,
                "summary": when,
                "contentType": "application/json",
                "examples": [{"name": name, "payload": schemas.example(&schema)}],
                "payload": schema,
            }),
        );
        let sent = reference(&format!("components/messages/{name}"));
        of_stream.insert(name.to_owned(), sent.clone());
        channels.insert(
            name.to_owned(),
            json!({
                "address": name,
                "description": "The routing key; bind a durable queue of your own to the exchange.",
                "servers": [reference(&format!("servers/{BROKER}"))],
                "messages": {name: sent},
                "bindings": {"amqp": {
                    "is": "routingKey",
                    "exchange": {"name": format!("{prefix}.events"), "type": "topic", "durable": true},
                    "bindingVersion": "0.3.0",
                }},
            }),
        );
        operations.insert(
            format!("send.{name}"),
            sends(name, &[name.to_owned()], &when),
        );
    }
    let names: Vec<String> = of_stream.keys().cloned().collect();
    channels.insert(STREAM.to_owned(), stream(&of_stream));
    let about = "Sends events as they happen, and on request those since an event.";
    operations.insert(STREAM.to_owned(), sends(STREAM, &names, about));
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Waybill events",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": servers(public_url),
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": messages,
            "schemas": schemas.into_json(),
            "securitySchemes": {"apiKey": {
                "type": "http", "scheme": "bearer",
                "description": "An API key with the scope `events:read`.",
            }},
        },
    })
}

fn stream(messages: &Map<String, Value>) -> Value {
    json!({
        "address": "/api/events/stream",
        "description": "Server-sent events: `id`, the type as `event`, and the message as `data`. \
                        `/openapi.json` describes its parameters.",
        "servers": [reference(&format!("servers/{HTTP}"))],
        "messages": messages,
    })
}

fn sends(channel: &str, messages: &[String], about: &str) -> Value {
    let of_channel = |name: &String| reference(&format!("channels/{channel}/messages/{name}"));
    let messages: Vec<Value> = messages.iter().map(of_channel).collect();
    json!({
        "action": "send",
        "channel": reference(&format!("channels/{channel}")),
        "summary": about,
        "messages": messages,
    })
}

fn servers(public_url: &str) -> Value {
    let (protocol, rest) = public_url.split_once("://").unwrap_or(("http", public_url));
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (rest, String::new()),
    };
    let mut api = json!({
        "host": host,
        "protocol": protocol,
        "description": "The service itself.",
        "security": [reference("components/securitySchemes/apiKey")],
    });
    if !path.is_empty() {
        api["pathname"] = path.into();
    }
    json!({
        HTTP: api,
        BROKER: {
            "host": "{broker}",
            "protocol": "amqp",
            "description": "RabbitMQ, if `AMQP_URL` is set. Without it there is only the service.",
            "variables": {"broker": {
                "description": "Host and port of `AMQP_URL`.", "default": "localhost:5672",
            }},
        },
    })
}

/// A reference within the document.
fn reference(path: &str) -> Value {
    json!({"$ref": format!("#/{path}")})
}
