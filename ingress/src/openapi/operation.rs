//! One method of one path: its handler, and how OpenAPI describes it. Each file of `routes` has a
//! table of its operations.
//!
//! What an extractor takes from a request, and how it refuses one, is described with the extractor
//! ([`Input`]), so an operation says only what its handler adds. Errors are given as variants of
//! `Error`, from which their answers are described.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::{self, MethodRouter};
use serde_json::{Map, Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

use super::schemas::Schemas;
use crate::App;
use crate::error::{CheckoutErrorBody, DetailBody, Error, LoginErrorBody};
use crate::routes::is_always_served;

/// The HTTP methods that the API uses.
pub const METHODS: [&str; 3] = ["get", "post", "delete"];

#[must_use]
pub struct Operation {
    pub path: &'static str,
    pub method: &'static str,
    pub id: &'static str,
    pub handler: MethodRouter<Arc<App>>,
    described: Value,
    parameters: Vec<Value>,
    /// Successes by status, and the status of the one that was added last.
    answers: Map<String, Value>,
    last: String,
    errors: Vec<Error>,
    errors_as: Shape,
    /// The types of which the answers are.
    schemas: Schemas,
}

/// The kind of body that an error has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Detail,
    Checkout,
    DeviceLogin,
    Page,
}

/// An argument of a handler. It adds to the description what it takes from a request, and the errors
/// with which it refuses one.
pub trait Input {
    fn describe(operation: Operation) -> Operation {
        operation
    }
}

impl Input for Body {}
impl Input for HeaderMap {}
impl Input for Option<Path<String>> {}
impl Input for Request {}
impl Input for State<Arc<App>> {}
impl Input for Uri {}

/// `Handler` names the arguments of a handler as a tuple, after a mark of its own.
macro_rules! inputs {
    ($($argument:ident)*) => {
        impl<Mark, $($argument: Input),*> Input for (Mark, $($argument,)*) {
            fn describe(operation: Operation) -> Operation {
                operation$(.with::<$argument>())*
            }
        }
    };
}
inputs!(A);
inputs!(A B);
inputs!(A B C);
inputs!(A B C D);

impl Input for ((),) {}

pub fn get<H: Handler<T, Arc<App>>, T: Input + 'static>(
    path: &'static str,
    handler: H,
) -> Operation {
    Operation::new("get", path, routing::get(handler)).with::<T>()
}

pub fn post<H: Handler<T, Arc<App>>, T: Input + 'static>(
    path: &'static str,
    handler: H,
) -> Operation {
    Operation::new("post", path, routing::post(handler)).with::<T>()
}

pub fn patch<H: Handler<T, Arc<App>>, T: Input + 'static>(
    path: &'static str,
    handler: H,
) -> Operation {
    Operation::new("patch", path, routing::patch(handler)).with::<T>()
}

pub fn delete<H: Handler<T, Arc<App>>, T: Input + 'static>(
    path: &'static str,
    handler: H,
) -> Operation {
    Operation::new("delete", path, routing::delete(handler)).with::<T>()
}

/// Operations of one group.
pub fn tagged(tag: &str, operations: impl IntoIterator<Item = Operation>) -> Vec<Operation> {
    let mut operations: Vec<Operation> = operations.into_iter().collect();
    for operation in &mut operations {
        operation.described["tags"] = json!([tag]);
    }
    operations
}

impl Operation {
    fn new(method: &'static str, path: &'static str, handler: MethodRouter<Arc<App>>) -> Self {
        let is_always_served = is_always_served(path);
        Operation {
            path,
            method,
            id: "",
            handler,
            described: json!({"security": []}),
            parameters: Vec::new(),
            answers: Map::new(),
            last: String::new(),
            errors: (!is_always_served)
                .then_some(Error::NotServed)
                .into_iter()
                .collect(),
            errors_as: Shape::Detail,
            schemas: Schemas::default(),
        }
    }

    /// The operation's id, by which clients name it, and what it does in a few words.
    pub fn is(mut self, id: &'static str, summary: &str) -> Self {
        self.id = id;
        self.described["operationId"] = id.into();
        self.described["summary"] = summary.into();
        self
    }

    /// The description in Markdown.
    pub fn about(mut self, about: &str) -> Self {
        self.described["description"] = about.into();
        self
    }

    /// Adds what the description of an extractor says.
    pub fn with<I: Input>(self) -> Self {
        I::describe(self)
    }

    /// The security scheme that the operation needs.
    pub fn needs(mut self, scheme: &str) -> Self {
        self.described["security"] = json!([{scheme: []}]);
        self
    }

    pub fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    pub fn in_path<P: IntoParams>(self) -> Self {
        self.parameters(parameters::<P>(&ParameterIn::Path))
    }

    pub fn in_query<P: IntoParams>(self) -> Self {
        self.parameters(parameters::<P>(&ParameterIn::Query))
    }

    pub fn in_header<P: IntoParams>(self) -> Self {
        self.parameters(parameters::<P>(&ParameterIn::Header))
    }

    /// Adds to a parameter the values that it may have.
    pub fn one_of(mut self, name: &str, values: &[&str]) -> Self {
        let parameter = self.parameters.iter_mut().find(|it| it["name"] == name);
        if let Some(parameter) = parameter {
            parameter["schema"]["enum"] = json!(values);
        }
        self
    }

    /// The content of the request's body, by media type.
    pub fn takes(mut self, content: &Value) -> Self {
        self.described["requestBody"] = json!({"required": true, "content": content});
        self
    }

    /// Adds a success whose body is this type as JSON.
    pub fn answers<T: ToSchema>(mut self, status: u16, about: &str) -> Self {
        let schema = self.schemas.answer::<T>();
        let example = self.schemas.example(&schema);
        let content = json!({"application/json": {"schema": schema, "example": example}});
        self.answers_content(status, about, &content)
    }

    /// Adds a success with a body of one of these media types, as the client asks.
    pub fn answers_with<const N: usize>(self, status: u16, about: &str, media: [&str; N]) -> Self {
        let kinds = media.map(|media| (media.to_owned(), json!({"schema": content_of(media)})));
        self.answers_content(status, about, &Map::from_iter(kinds).into())
    }

    /// Adds a success with this content; `{}`: it has none.
    pub fn answers_content(mut self, status: u16, about: &str, content: &Value) -> Self {
        self.last = status.to_string();
        self.answers.insert(
            self.last.clone(),
            json!({"description": about, "headers": request_id(), "content": content}),
        );
        self
    }

    /// Adds a header to the answer that was added last.
    pub fn header(mut self, name: &str, about: &str, example: &str) -> Self {
        self.answers[&self.last]["headers"][name] =
            header(about, &json!({"type": "string"}), example);
        self
    }

    /// Adds to the answer that was added last the operation with this id, which can follow it.
    /// `parameters` are the names of its parameters, each with the runtime expression of its value.
    pub fn link(mut self, id: &str, about: &str, parameters: &[(&str, &str)]) -> Self {
        let parameters: BTreeMap<_, _> = parameters.iter().copied().collect();
        self.answers[&self.last]["links"][id] =
            json!({"operationId": id, "description": about, "parameters": parameters});
        self
    }

    pub fn errors(mut self, errors: &[Error]) -> Self {
        self.errors.extend_from_slice(errors);
        self
    }

    pub fn errors_as(self, errors_as: Shape) -> Self {
        Operation { errors_as, ..self }
    }

    pub fn describe(mut self, schemas: &mut Schemas) -> Value {
        let mut by_status: BTreeMap<StatusCode, Vec<Error>> = BTreeMap::new();
        for error in self.errors {
            by_status.entry(error.status()).or_default().push(error);
        }
        for (status, errors) in by_status {
            let refusal = refusal(&errors, self.errors_as, &mut self.schemas);
            self.answers.insert(status.as_str().to_owned(), refusal);
        }
        schemas.extend(self.schemas);
        self.described["responses"] = self.answers.into();
        if !self.parameters.is_empty() {
            self.described["parameters"] = self.parameters.into();
        }
        self.described
    }
}

/// The fields of a type as parameters in this place.
fn parameters<P: IntoParams>(place: &ParameterIn) -> impl Iterator<Item = Value> + use<P> {
    let fields = P::into_params(|| Some(place.clone()));
    fields.into_iter().map(|field| {
        let mut field = json!(field);
        if let (false, Some(field)) = (field["required"] == true, field.as_object_mut()) {
            field.remove("required");
        }
        field
    })
}
/// The answer with one status, which describes all of these errors.
fn refusal(errors: &[Error], shape: Shape, schemas: &mut Schemas) -> Value {
    let reported = |error: &Error| {
        let text = error.text();
        let code = error
            .code()
            .map_or(String::new(), |code| format!(" ({code})"));
        format!("`{text}`{code}")
    };
    let texts: BTreeSet<String> = errors.iter().map(reported).collect();
    let texts: Vec<String> = texts.into_iter().collect();
    let mut headers = request_id();
    let codes: BTreeSet<&str> = errors
        .iter()
        .filter_map(|error| Some(error.code()?.id()))
        .collect();
    if let Some(first) = codes.first() {
        let schema = json!({"type": "string", "enum": codes});
        let mut code = header("The application code.", &schema, *first);
        let always = errors.iter().all(|error| error.code().is_some());
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

pub fn in_query(name: &str, about: &str, schema: &Value, example: impl Into<Value>) -> Value {
    parameter("query", name, about, schema, &example.into())
}

pub fn in_header(name: &str, about: &str, schema: &Value, example: impl Into<Value>) -> Value {
    parameter("header", name, about, schema, &example.into())
}

fn parameter(place: &str, name: &str, about: &str, schema: &Value, example: &Value) -> Value {
    json!({"in": place, "name": name, "description": about, "schema": schema, "example": example})
}
