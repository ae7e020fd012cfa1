//! The bodies that no Rust type describes completely. These are the bodies of the providers'
//! webhooks, of which workers read only the fields that they need, and bodies whose fields depend
//! on one another. The test `openapi` compares the former with the sandbox's bodies.
//! `scripts/api-test` sends right and wrong examples of the latter.

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

/// The example shows the fields that most clients will send, and not every field.
pub fn checkout() -> Value {
    let item = json!({"name": "Enamel mug", "amount": 1450, "currency": "EUR", "quantity": 2});
    let example = json!({
        "line_items": [item],
        "return_url": "https://shop.example/thanks",
    });
    let variant = json!({
        "line_items": [{"variant_id": "44872223000001", "quantity": 1}],
        "return_url": "https://shop.example/thanks",
        "customer_email": "ada@example.com",
    });
    with_examples(
        "CheckoutRequest",
        [("named", example), ("variant", variant)],
    )
}

pub fn qr() -> Value {
    let order = json!({"kind": "order", "order_id": "1001"});
    let payment = json!({
        "kind": "payment", "order_id": "1001", "amount": "19.90", "currency": "EUR",
        "format": "SVG",
    });
    with_examples("QrRequest", [("order", order), ("payment", payment)])
}

pub fn endpoint() -> Value {
    let all = json!({"url": "https://shop.example/hooks/waybill"});
    let some = json!({
        "url": "https://shop.example/hooks/waybill", "types": ["order.*", "payment.#"],
        "since_seconds": 3600,
    });
    with_examples("EndpointRequest", [("all", all), ("some", some)])
}

fn with_examples(name: &str, examples: [(&str, Value); 2]) -> Value {
    let examples: Map<String, Value> = examples
        .into_iter()
        .map(|(name, example)| (name.to_owned(), json!({"value": example})))
        .collect();
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    json!({"application/json": {"schema": schema, "examples": examples}})
}

/// A body that has one of these shapes, with an example of each.
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
