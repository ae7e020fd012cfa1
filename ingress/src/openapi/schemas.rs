//! The named schemas of the description, collected from the types with which handlers answer, and
//! examples that are made from the examples of their fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// The fields that an answer may lack. Every other field is always there, and is null if it has no
/// value.
const OMITTED: [(&str, &str); 5] = [
    ("PrivacyRequest", "code"),
    ("DeviceCode", "verification_uri_complete"),
    ("Login", "expires_in"),
    ("Login", "refresh_token"),
    ("Login", "refresh_token_expires_in"),
];

const REFERENCE: &str = "#/components/schemas/";

#[derive(Default)]
pub struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Adds the schema of an answer and of all types in it, and returns the reference to it.
    pub fn answer<T: ToSchema>(&mut self) -> Value {
        let mut found = Vec::new();
        T::schemas(&mut found);
        found.push((T::name().into_owned(), T::schema()));
        for (name, schema) in found {
            let mut schema = json!(schema);
            require_all(&name, &mut schema);
            self.0.entry(name).or_insert(schema);
        }
        json!({"$ref": format!("{REFERENCE}{}", T::name())})
    }

    /// Adds a schema that no Rust type has.
    pub fn insert(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    pub fn extend(&mut self, others: Schemas) {
        self.0.extend(others.0);
    }

    pub fn into_json(self) -> Value {
        json!(self.0)
    }

    /// An example value of this schema, made from the examples of its fields. A field without an
    /// example is null if it may be null.
    pub fn example(&self, schema: &Value) -> Value {
        if !schema["example"].is_null() {
            return schema["example"].clone();
        }
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix(REFERENCE).unwrap_or(name);
            return self.0.get(name).map_or(Value::Null, |it| self.example(it));
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(fields) = self.example(part) {
                    whole.extend(fields);
                }
            }
            return whole.into();
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let choice = choices.iter().find(|choice| choice["type"] != "null");
            return choice.map_or(Value::Null, |choice| self.example(choice));
        }
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        self.example_of_type(schema)
    }

    fn example_of_type(&self, schema: &Value) -> Value {
        if schema["type"].as_array().is_some() {
            return Value::Null;
        }
        match schema["type"].as_str() {
            Some("object") => {
                let fields = schema["properties"].as_object();
                let fields = fields.into_iter().flatten();
                fields
                    .map(|(name, field)| (name.clone(), self.example(field)))
                    .collect()
            }
            Some("array") => json!([self.example(&schema["items"])]),
            Some("integer") => json!(1),
            Some("boolean") => json!(true),
            Some("string") if schema["format"] == "uuid" => {
                json!("01a3185c-5000-7cc3-98c4-dc0c0c07398f")
            }
            Some("string") => json!("text"),
            _ => Value::Null,
        }
    }
}

/// Marks all fields of an answer as required, except those in [`OMITTED`].
fn require_all(name: &str, schema: &mut Value) {
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        require_all(name, part);
    }
    let Some(fields) = schema["properties"].as_object() else {
        return;
    };
    let required: Vec<String> = fields
        .keys()
        .filter(|field| !OMITTED.contains(&(name, field)))
        .cloned()
        .collect();
    schema["required"] = json!(required);
}
