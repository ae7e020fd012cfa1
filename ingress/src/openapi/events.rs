//! The events that Waybill sends, as `webhooks` of the description. Their shapes are those of
//! docs/events.md, which the test `events_schema` compares with events that occur.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;

const EVENTS: &str = include_str!("../../../docs/events.md");

/// An event of the document: its type, and its fields with what they are and mean.
struct Event {
    kind: &'static str,
    fields: Vec<[&'static str; 3]>,
}

fn events() -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut is_in_event = false;
    for line in EVENTS.lines() {
        if let Some(kind) = line.strip_prefix("### ") {
            is_in_event = true;
            let fields = Vec::new();
            events.push(Event { kind, fields });
        } else if line.starts_with("## ") {
            is_in_event = false;
        }
        let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
        if let (true, Some(event), [_, field, kind, meaning, ..]) =
            (is_in_event, events.last_mut(), cells.as_slice())
            && let Some(field) = field.strip_prefix('`').and_then(|it| it.strip_suffix('`'))
        {
            event.fields.push([field, kind, meaning]);
        }
    }
    events
}

/// What happened, by the event's type, from the tables that list them.
fn meaning(kind: &str) -> Option<&'static str> {
    let row = format!("| `{kind}` |");
    let line = EVENTS.lines().find(|line| line.starts_with(&row))?;
    line.split('|').map(str::trim).nth(2)
}

pub fn webhooks(schemas: &mut Schemas) -> Value {
    let mut webhooks = Map::new();
    for event in events() {
        let name = format!("Event.{}", event.kind);
        schemas.insert(&name, message(&event));
        let summary = meaning(event.kind).unwrap_or(event.kind);
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let example = schemas.example(&schema);
        webhooks.insert(
            event.kind.to_owned(),
            json!({"post": {
                "operationId": event.kind,
                "tags": ["Events"],
                "summary": plain(summary),
                "description": "A message of the exchange `waybill.events` with the event's type as its routing \
                                key, not a request over HTTP; without a broker `waybill events tail` shows it. At \
                                least once, those of one object in order.",
                "requestBody": {
                    "required": true,
                    "content": {"application/json": {"schema": schema, "example": example}},
                },
                "responses": {"2XX": {"description": "The acknowledgement of the message."}},
            }}),
        );
    }
    webhooks.into()
}

/// The first letter in capitals, links without where they lead.
fn plain(text: &str) -> String {
    let text = text.replace(['[', ']'], "");
    let text = match text.split_once("(#") {
        Some((before, after)) => {
            let after = after.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => text,
    };
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

fn message(event: &Event) -> Value {
    let mut data = json!({"type": "object", "properties": {}, "required": []});
    for [path, kind, meaning] in &event.fields {
        put(&mut data, path, field(path, kind, meaning));
    }
    json!({
        "type": "object",
        "required": ["id", "type", "shop", "object_id", "created_at", "data"],
        "properties": {
            "id": {"type": "string", "format": "uuid", "description": "The same whenever it is sent."},
            "type": {"type": "string", "const": event.kind, "example": event.kind},
            "shop": {"type": ["string", "null"], "example": "shop.example"},
            "object_id": {"type": "string", "example": "820982911946154508"},
            "created_at": {"$ref": "#/components/schemas/Timestamp"},
            "data": data,
        },
    })
}

fn field(path: &str, kind: &str, meaning: &str) -> Value {
    let types: Vec<&str> = kind.split(" or ").collect();
    let mut schema = match types.as_slice() {
        [only] => json!({"type": only}),
        several => json!({"type": several}),
    };
    schema["description"] = meaning.into();
    if path.ends_with("_at") && types == ["string"] {
        schema["format"] = "date-time".into();
    }
    if let (true, Some(example)) = (types.contains(&"string"), example(path, meaning)) {
        schema["example"] = example.into();
    }
    schema
}

/// What a text of this name may be; of one that is no everyday name, what its meaning quotes.
fn example<'a>(path: &str, meaning: &'a str) -> Option<&'a str> {
    let name = path.rsplit('.').next().unwrap_or(path);
    Some(match name {
        "shop" => "shop.example",
        "currency" => "EUR",
        "request_id" => "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
        "payment_id" => "pi_3MmlLrLkdIwHu7ix0snN0B15",
        _ if name.ends_with("_at") => "2026-11-20T14:24:45.002Z",
        _ if name.ends_with("_id") => "820982911946154508",
        _ if name.contains("amount") || name.contains("price") => "199.00",
        _ => return meaning.split('`').nth(1),
    })
}

/// Puts a field where its path leads: `lines[].sku`.
fn put(object: &mut Value, path: &str, schema: Value) {
    let Some((list, rest)) = path.split_once("[].") else {
        object["properties"][path] = schema;
        if let Some(required) = object["required"].as_array_mut() {
            required.push(path.into());
        }
        return;
    };
    let items = &mut object["properties"][list]["items"];
    if items.is_null() {
        *items = json!({"type": "object", "properties": {}, "required": []});
    }
    put(items, rest, schema);
}
