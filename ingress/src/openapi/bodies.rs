//! The bodies of the providers' webhooks. No type of ours has them whole, because workers read
//! them by need; the test `openapi` compares them with the sandbox's.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;

const BODIES: &str = include_str!("bodies.json");

fn all() -> Map<String, Value> {
    serde_json::from_str(BODIES).unwrap_or_default()
}

pub fn add_to(schemas: &mut Schemas) {
    for (name, schema) in all() {
        schemas.insert(&name, schema);
    }
}

pub fn storefront() -> Value {
    content(&[
        "StorefrontOrder",
        "CustomerDataRequest",
        "CustomerRedaction",
        "ShopRedaction",
    ])
}

pub fn payment() -> Value {
    content(&["PaymentEvent"])
}

/// A body of any of these shapes, with an example of each.
fn content(names: &[&str]) -> Value {
    let mut schemas = Schemas::default();
    add_to(&mut schemas);
    let mut references = Vec::new();
    let mut examples = Map::new();
    for name in names {
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let example = schemas.example(&reference);
        examples.insert((*name).to_owned(), json!({"value": example}));
        references.push(reference);
    }
    let schema = match references.as_slice() {
        [only] => only.clone(),
        several => json!({"anyOf": several}),
    };
    json!({"application/json": {"schema": schema, "examples": examples}})
}
