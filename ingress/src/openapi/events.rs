//! The events that Waybill sends, as `webhooks` of the description. They are made from their types
//! (`domain::event`). The test `events_schema` compares the types with events that occur.

use domain::event::{EventField, EventType, catalogue};
use serde_json::{Map, Value, json};

use super::schemas::Schemas;

pub fn webhooks(schemas: &mut Schemas) -> Value {
    let mut webhooks = Map::new();
    for event in catalogue() {
        let name = format!("Event.{}", event.name);
        schemas.insert(&name, message(&event));
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let example = schemas.example(&schema);
        let description = json!({"post": {
            "operationId": event.name,
            "tags": ["Events"],
            // Without this the credentials of the document as a whole would count.
            "security": [],
            "summary": plain(&event.when),
            "description": "A message of the exchange `waybill.events` with the event's type as its routing \
                            key, not a request over HTTP; without a broker `waybill events tail` shows it. At \
                            least once, those of one object in order.",
            "requestBody": {
                "required": true,
                "content": {"application/json": {"schema": schema, "example": example}},
            },
            "responses": {"2XX": {"description": "The acknowledgement of the message."}},
        }});
        webhooks.insert(event.name, description);
    }
    webhooks.into()
}

/// The text with a capital as its first letter, and without links.
pub(super) fn plain(text: &str) -> String {
    let text = without_links(text);
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// The text with only the words of its links, which lead to places in our documents and not in
/// this description.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, after)) = link.split_once("](") else {
            break;
        };
        let Some((_, after)) = after.split_once(')') else {
            break;
        };
        plain += before;
        plain += words;
        rest = after;
    }
    plain + rest
}

pub(super) fn message(event: &EventType) -> Value {
    let mut data = json!({"type": "object", "properties": {}, "required": []});
    for field in &event.fields {
        put(&mut data, &field.path, described(field));
    }
    json!({
        "type": "object",
        "required": ["id", "type", "shop", "object_id", "created_at", "data"],
        "properties": {
            "id": {"type": "string", "format": "uuid", "description": "The same whenever it is sent."},
            "type": {"type": "string", "const": event.name, "example": event.name},
            "shop": {"type": ["string", "null"], "example": "shop.example"},
            "object_id": {"type": "string", "example": "820982911946154508"},
            "created_at": {"$ref": "#/components/schemas/Timestamp"},
            "data": data,
        },
    })
}

fn described(field: &EventField) -> Value {
    let mut schema = field.schema.clone();
    schema["description"] = without_links(&field.meaning).into();
    let kind = schema["type"].to_string();
    if let (true, Some(example)) = (kind.contains("string"), example(field)) {
        schema["example"] = example.into();
    }
    schema
}

/// An example for a text field. For a common name it is fixed; for other names it is a value that
/// the field's description quotes.
fn example(field: &EventField) -> Option<&str> {
    let name = field.path.rsplit('.').next().unwrap_or(&field.path);
    Some(match name {
        _ if field.schema["format"] == "date-time" => "2026-11-20T14:24:45.002Z",
        "shop" => "shop.example",
        "currency" => "EUR",
        "request_id" => "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
        "payment_id" => "pi_3MmlLrLkdIwHu7ix0snN0B15",
        _ if name.ends_with("_id") => "820982911946154508",
        _ if name.contains("amount") || name.contains("price") => "199.00",
        _ => return field.meaning.split('`').nth(1),
    })
}

/// Inserts a field at its path, such as `lines[].sku`.
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
