//! Builds the OpenAPI description of one method of one path. Errors are given as variants of
//! `Error`, and their description is made from these.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::schemas::Schemas;
use crate::error::{CheckoutErrorBody, DetailBody, Error, LoginErrorBody};
use crate::routes::ALWAYS_SERVED;

/// The HTTP methods that the API uses.
pub const METHODS: [&str; 3] = ["get", "post", "delete"];

/// Registers the schemas that a body needs, and returns the reference to its schema.
type Body = Box<dyn FnOnce(&mut Schemas) -> Value>;

pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    tag: &'static str,
    summary: &'static str,
    about: &'static str,
    security: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Body>,
    answers: Vec<Answer>,
    errors: Vec<Error>,
    errors_as: Shape,
}

/// A success.
struct Answer {
    status: u16,
    about: &'static str,
    headers: Map<String, Value>,
    links: Map<String, Value>,
    body: Body,
}

/// The kind of body that an error has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Detail,
    Checkout,
    DeviceLogin,
    Page,
}

pub fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("get", path, id, summary)
}

pub fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("post", path, id, summary)
}

pub fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("delete", path, id, summary)
}

impl Operation {
    fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        Operation {
            method,
            path,
            id,
            tag: "",
            summary,
            about: "",
            security: None,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            errors: if ALWAYS_SERVED.contains(&path) {
                Vec::new()
            } else {
                vec![Error::NotServed]
            },
            errors_as: Shape::Detail,
        }
    }

    pub fn tag(self, tag: &'static str) -> Self {
        Operation { tag, ..self }
    }

    /// The description in Markdown.
    pub fn about(self, about: &'static str) -> Self {
        Operation { about, ..self }
    }

    /// The security scheme that the operation needs.
    pub fn needs(self, scheme: &'static str) -> Self {
        Operation {
            security: Some(scheme),
            ..self
        }
    }

    pub fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// The content of the request's body, by media type.
    pub fn takes(mut self, content: Value) -> Self {
        self.body = Some(Box::new(
            move |_| json!({"required": true, "content": content}),
        ));
        self
    }

    /// Adds a success whose body is this type as JSON.
    pub fn answers<T: ToSchema + 'static>(self, status: u16, about: &'static str) -> Self {
        let body: Body = Box::new(|schemas| {
            let schema = schemas.answer::<T>();
            let example = schemas.example(&schema);
            json!({"application/json": {"schema": schema, "example": example}})
        });
        self.answer(status, about, body)
    }

    /// Adds a success with a body of another media type.
    pub fn answers_with(self, status: u16, about: &'static str, media: &'static str) -> Self {
        let body: Body = Box::new(move |_| json!({media: {"schema": content_of(media)}}));
        self.answer(status, about, body)
    }

    /// Adds a success with a body of either of two media types, as the client asks.
    pub fn answers_with_either(
        self,
        status: u16,
        about: &'static str,
        media: [&'static str; 2],
    ) -> Self {
        let body: Body = Box::new(move |_| {
            let kinds = media.map(|media| (media.to_owned(), json!({"schema": content_of(media)})));
            Map::from_iter(kinds).into()
        });
        self.answer(status, about, body)
    }

    /// Adds a success without a body.
    pub fn answers_nothing(self, status: u16, about: &'static str) -> Self {
        self.answer(status, about, Box::new(|_| json!({})))
    }

    fn answer(mut self, status: u16, about: &'static str, body: Body) -> Self {
        self.answers.push(Answer {
            status,
            about,
            headers: Map::new(),
            links: Map::new(),
            body,
        });
        self
    }

    /// Adds a header to the answer that was added last.
    pub fn header(mut self, name: &'static str, about: &'static str, example: &str) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.headers.insert(
                name.to_owned(),
                header(about, &json!({"type": "string"}), example),
            );
        }
        self
    }

    /// Adds to the answer that was added last the operation with this id, which can follow it.
    /// `parameters` are the names of its parameters, each with the runtime expression of its value.
    pub fn link(
        mut self,
        operation_id: &'static str,
        about: &'static str,
        parameters: &[(&str, &str)],
    ) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            let parameters: Map<String, Value> = parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).into()))
                .collect();
            let link = json!({
                "operationId": operation_id, "description": about, "parameters": parameters,
            });
            answer.links.insert(operation_id.to_owned(), link);
        }
        self
    }

    pub fn errors(mut self, errors: &[Error]) -> Self {
        self.errors.extend_from_slice(errors);
        self
    }

    pub fn errors_as(self, errors_as: Shape) -> Self {
        Operation { errors_as, ..self }
    }

    pub fn describe(self, schemas: &mut Schemas) -> Value {
        let mut responses = Map::new();
        for answer in self.answers {
            let mut all = request_id();
            all.extend(answer.headers);
            let mut response = json!({
                "description": answer.about, "headers": all, "content": (answer.body)(schemas),
            });
            if !answer.links.is_empty() {
                response["links"] = answer.links.into();
            }
            responses.insert(answer.status.to_string(), response);
        }
        let mut by_status: BTreeMap<StatusCode, Vec<Error>> = BTreeMap::new();
        for error in self.errors {
            by_status.entry(error.answer().0).or_default().push(error);
        }
        for (status, errors) in by_status {
            let response = refusal(&errors, self.errors_as, schemas);
            responses.insert(status.as_str().to_owned(), response);
        }
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "responses": responses,
            "security": self.security.map_or(json!([]), |scheme| json!([{scheme: []}])),
        });
        if !self.about.is_empty() {
            operation["description"] = self.about.into();
        }
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.into();
        }
        if let Some(body) = self.body {
            operation["requestBody"] = body(schemas);
        }
        operation
    }
}

/// The answer with one status, which describes all of these errors.
fn refusal(errors: &[Error], shape: Shape, schemas: &mut Schemas) -> Value {
    let reported = |error: &Error| {
        let (_, code, _) = error.answer();
        let text = error.text();
        let code = code.map_or(String::new(), |code| format!(" ({code})"));
        format!("`{text}`{code}")
    };
    let texts: BTreeSet<String> = errors.iter().map(reported).collect();
    let texts: Vec<String> = texts.into_iter().collect();
    let mut headers = request_id();
    let codes: BTreeSet<&str> = errors
        .iter()
        .filter_map(|error| Some(error.answer().1?.id()))
        .collect();
    if let Some(first) = codes.first() {
        let schema = json!({"type": "string", "enum": codes});
        let mut code = header("The application code.", &schema, *first);
        let always = errors.iter().all(|error| error.answer().1.is_some());
        code["required"] = always.into();
        headers.insert("X-Error-Code".to_owned(), code);
    }
    if errors.iter().any(|error| error.retry_after().is_some()) {
        let schema = json!({"type": "integer", "minimum": 1});
        let mut after = header("Seconds to wait before trying again.", &schema, 2);
        let always = errors.iter().all(|error| error.retry_after().is_some());
        after["required"] = always.into();
        headers.insert("Retry-After".to_owned(), after);
    }
    if let Some(challenge) = errors.iter().find_map(|error| error.challenge()) {
        let schema = json!({"type": "string"});
        let about = "What the header `Authorization` must hold (RFC 6750).";
        headers.insert(
            "WWW-Authenticate".to_owned(),
            header(about, &schema, challenge),
        );
    }
    let content = match shape {
        Shape::Page => json!({"text/html": {"schema": content_of("text/html")}}),
        Shape::Detail => with_examples(&schemas.answer::<DetailBody>(), errors, |error| {
            json!(DetailBody::from(error))
        }),
        Shape::Checkout => with_examples(&schemas.answer::<CheckoutErrorBody>(), errors, |error| {
            json!(CheckoutErrorBody::from(error))
        }),
        Shape::DeviceLogin => with_examples(&schemas.answer::<LoginErrorBody>(), errors, |error| {
            json!(LoginErrorBody::from(error))
        }),
    };
    json!({"description": texts.join("; "), "headers": headers, "content": content})
}

fn with_examples(schema: &Value, errors: &[Error], body: impl Fn(Error) -> Value) -> Value {
    let mut examples = Map::new();
    for &error in errors {
        let name = format!("{error:?}");
        let end = name.find(|c: char| !c.is_alphanumeric());
        let mut name = name[..end.unwrap_or(name.len())].to_owned();
        while examples.contains_key(&name) {
            name.push('+');
        }
        examples.insert(name, json!({"value": body(error)}));
    }
    json!({"application/json": {"schema": schema, "examples": examples}})
}

fn request_id() -> Map<String, Value> {
    let schema = json!({"type": "string"});
    let about = "The client's own id of the request, or a new one.";
    let mut id = header(about, &schema, "01a3185c-5000-7cc3-98c4-dc0c0c07398f");
    id["required"] = true.into();
    Map::from_iter([("X-Request-Id".to_owned(), id)])
}

fn header(about: &str, schema: &Value, example: impl Into<Value>) -> Value {
    let example: Value = example.into();
    json!({"description": about, "schema": schema, "example": example})
}

fn content_of(media: &str) -> Value {
    if media == "application/json" {
        json!({"type": "object"})
    } else if media.contains("text") || media == "image/svg+xml" {
        json!({"type": "string"})
    } else {
        json!({"type": "string", "contentMediaType": media})
    }
}

pub fn in_path(name: &str, about: &str, schema: &Value, example: impl Into<Value>) -> Value {
    let mut parameter = parameter("path", name, about, schema, &example.into());
    parameter["required"] = true.into();
    parameter
}

pub fn in_query(name: &str, about: &str, schema: &Value, example: impl Into<Value>) -> Value {
    parameter("query", name, about, schema, &example.into())
}

pub fn in_header(name: &str, about: &str, schema: &Value, example: impl Into<Value>) -> Value {
    parameter("header", name, about, schema, &example.into())
}

fn parameter(place: &str, name: &str, about: &str, schema: &Value, example: &Value) -> Value {
    json!({"in": place, "name": name, "description": about, "schema": schema, "example": example})
}
