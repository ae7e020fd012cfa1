//! The bodies that no Rust type describes completely. These are the bodies of the providers'
//! webhooks, of which workers read only the fields that they need, and bodies whose fields depend
//! on one another. The test `openapi` compares the former with the sandbox's bodies.
//! `scripts/api-test` sends right and wrong examples of the latter.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;

const BODIES: &str = include_str!("bodies.json");

pub fn all() -> Schemas {
    let mut schemas = Schemas::default();
    let bodies: Map<String, Value> = serde_json::from_str(BODIES).unwrap_or_default();
    for (name, schema) in bodies {
        schemas.insert(&name, schema);
    }
    schemas
}

/// A body of this schema. The examples need not show every field that it may have.
pub fn one<const N: usize>(name: &str, examples: [(&str, Value); N]) -> Value {
    let examples = examples.map(|(name, example)| (name.to_owned(), json!({"value": example})));
    json!({"application/json": {"schema": reference(name), "examples": Map::from_iter(examples)}})
}

/// A body that has one of these schemas, with an example of each.
pub fn any<const N: usize>(names: [&str; N]) -> Value {
    let schemas = all();
    let examples = names.map(|name| {
        let example = schemas.example(&reference(name));
        (name.to_owned(), json!({"value": example}))
    });
    let schema = match names.map(reference).as_slice() {
        [only] => only.clone(),
        several => json!({"anyOf": several}),
    };
    json!({"application/json": {"schema": schema, "examples": Map::from_iter(examples)}})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}
