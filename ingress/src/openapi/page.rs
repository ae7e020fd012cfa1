//! The description as one HTML page. This file reads the OpenAPI document into what the page
//! shows, and the template `docs.html` decides how it looks.
//!
//! The viewers of libraries (Swagger UI, Redoc, Scalar) draw the page with a script, which most of
//! them load from a CDN. Without the script nothing can be read. They also need a weaker content
//! security policy than ours, which allows neither scripts nor anything that has to be loaded.

use std::sync::LazyLock;

use askama::Template;
use axum::http::HeaderValue;
use domain::code::Code;
use serde_json::Value;

use super::operation::METHODS;
use crate::page;

pub(super) const STYLE: &str = concat!(
    include_str!("../../../common/server/src/base.css"),
    include_str!("../../templates/docs.css"),
);

pub static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| page::policy(STYLE));

/// How deep fields are listed. A deeper field is described only by the name of its type.
const DEEPEST: usize = 3;

#[derive(Template)]
#[template(path = "docs.html")]
struct Docs<'a> {
    title: &'a str,
    version: &'a str,
    server: &'a str,
    paragraphs: Vec<&'a str>,
    schemes: Vec<Scheme<'a>>,
    groups: Vec<Group<'a>>,
    codes: Vec<ErrorCode>,
}

/// A security scheme: a way in which a client authenticates.
struct Scheme<'a> {
    name: &'a str,
    about: &'a str,
}

/// A tag and its operations.
struct Group<'a> {
    anchor: String,
    name: &'a str,
    about: &'a str,
    articles: Vec<Article<'a>>,
}

/// An operation or an event.
struct Article<'a> {
    id: &'a str,
    /// Its name in the table of contents.
    label: &'a str,
    badge: &'a str,
    path: &'a str,
    summary: &'a str,
    about: Option<&'a str>,
    /// The name of a [`Scheme`].
    scheme: Option<&'a str>,
    parameters: Vec<Parameter<'a>>,
    body: Option<Content<'a>>,
    /// The request as a shell would make it. An event has none, and no answers.
    call: Option<String>,
    answers: Vec<Answer<'a>>,
}

struct Parameter<'a> {
    name: &'a str,
    /// Where the parameter is: in the path, the query or a header.
    place: &'a str,
    is_required: bool,
    about: &'a str,
}

struct Answer<'a> {
    status: &'a str,
    is_good: bool,
    about: &'a str,
    headers: Vec<Header<'a>>,
    content: Content<'a>,
}

struct Header<'a> {
    name: &'a str,
    value: String,
    about: &'a str,
}

#[derive(Default)]
struct Content<'a> {
    media: Vec<&'a str>,
    shapes: Vec<Shape<'a>>,
}

/// The fields of a body and its examples.
struct Shape<'a> {
    /// The shapes, if a body has one of several.
    name: Option<&'a str>,
    about: &'a str,
    fields: Vec<Field<'a>>,
    samples: Vec<String>,
}

struct Field<'a> {
    path: String,
    kind: String,
    about: &'a str,
}

struct ErrorCode {
    id: &'static str,
    statuses: String,
    message: &'static str,
    when: &'static str,
    resolution: &'static str,
}

/// Reads the document. `order` lists the ids of the operations in the order in which they are
/// shown.
pub fn html(document: &Value, order: &[&str]) -> String {
    let reader = Reader { document };
    let info = &document["info"];
    let page = Docs {
        title: text(&info["title"]),
        version: text(&info["version"]),
        server: reader.server(),
        paragraphs: text(&info["description"]).split("\n\n").collect(),
        schemes: schemes(&document["components"]["securitySchemes"]),
        groups: list(&document["tags"])
            .iter()
            .map(|tag| reader.group(tag, order))
            .collect(),
        codes: Code::ALL.into_iter().map(error_code).collect(),
    };
    page.to_string()
}

/// An operation, and its method and path in the document.
struct Place<'a> {
    path: &'a str,
    method: &'a str,
    value: &'a Value,
    is_event: bool,
}

struct Reader<'a> {
    document: &'a Value,
}

impl<'a> Reader<'a> {
    fn server(&self) -> &'a str {
        text(&self.document["servers"][0]["url"])
    }

    fn group(&self, tag: &'a Value, order: &[&str]) -> Group<'a> {
        let name = text(&tag["name"]);
        let mut operations = self.operations(name);
        operations.sort_by_key(|it| {
            let id = text(&it.value["operationId"]);
            order.iter().position(|known| *known == id)
        });
        Group {
            anchor: super::anchor(name),
            name,
            about: text(&tag["description"]),
            articles: operations.iter().map(|it| self.article(it)).collect(),
        }
    }

    fn operations(&self, tag: &str) -> Vec<Place<'a>> {
        let mut found = Vec::new();
        for (section, is_event) in [("paths", false), ("webhooks", true)] {
            for (path, item) in members(&self.document[section]) {
                for method in METHODS {
                    let value = &item[method];
                    if value["tags"][0] == tag {
                        found.push(Place {
                            path,
                            method,
                            value,
                            is_event,
                        });
                    }
                }
            }
        }
        found
    }

    fn article(&self, operation: &Place<'a>) -> Article<'a> {
        let Place {
            path,
            method,
            value,
            is_event,
        } = *operation;
        let summary = text(&value["summary"]);
        let body = &value["requestBody"];
        Article {
            id: text(&value["operationId"]),
            label: if is_event { path } else { summary },
            badge: if is_event { "event" } else { method },
            path,
            summary,
            about: value["description"].as_str().filter(|_| !is_event),
            scheme: scheme(value),
            parameters: list(&value["parameters"]).iter().map(parameter).collect(),
            body: (!body.is_null()).then(|| self.content(&body["content"])),
            call: (!is_event).then(|| self.curl(operation)),
            answers: members(&value["responses"])
                .map(|(status, answer)| self.answer(status, answer))
                .collect(),
        }
    }

    fn answer(&self, status: &'a str, answer: &'a Value) -> Answer<'a> {
        Answer {
            status,
            is_good: status.starts_with('2'),
            about: text(&answer["description"]),
            headers: headers(&answer["headers"]),
            content: self.content(&answer["content"]),
        }
    }

    fn content(&self, content: &'a Value) -> Content<'a> {
        let Some((media, body)) = members(content).next() else {
            return Content::default();
        };
        let shapes = match body["schema"]["anyOf"].as_array() {
            Some(shapes) => {
                let shape = |it| self.named_shape(it, media, &body["examples"]);
                shapes.iter().map(shape).collect()
            }
            None => vec![self.only_shape(media, body)],
        };
        Content {
            media: members(content).map(|(media, _)| media).collect(),
            shapes,
        }
    }

    /// A type that is one of several.
    fn named_shape(&self, shape: &'a Value, media: &str, examples: &Value) -> Shape<'a> {
        let reference = text(&shape["$ref"]);
        let name = reference.rsplit('/').next().unwrap_or_default();
        let example = examples.get(name).map(|it| sample(media, &it["value"]));
        Shape {
            name: Some(name),
            about: text(&self.resolved(shape)["description"]),
            fields: self.fields(shape),
            samples: example.into_iter().collect(),
        }
    }

    fn only_shape(&self, media: &str, body: &'a Value) -> Shape<'a> {
        let single = Some(&body["example"]).filter(|it| !it.is_null());
        let named = members(&body["examples"]).map(|(_, it)| &it["value"]);
        let mut samples: Vec<String> = Vec::new();
        for example in single.into_iter().chain(named) {
            let sample = sample(media, example);
            if !samples.contains(&sample) {
                samples.push(sample);
            }
        }
        Shape {
            name: None,
            about: "",
            fields: self.fields(&body["schema"]),
            samples,
        }
    }

    fn fields(&self, schema: &'a Value) -> Vec<Field<'a>> {
        let mut fields = Vec::new();
        self.add_fields(schema, "", 0, &mut fields);
        fields
    }

    fn add_fields(&self, schema: &'a Value, prefix: &str, depth: usize, all: &mut Vec<Field<'a>>) {
        let schema = self.resolved(schema);
        for part in list(&schema["allOf"]) {
            self.add_fields(part, prefix, depth, all);
        }
        for (name, field) in members(&schema["properties"]) {
            let own = text(&field["description"]);
            let inner = self.inner(field);
            let about = if own.is_empty() && inner["properties"].is_null() {
                text(&inner["description"])
            } else {
                own
            };
            let path = format!("{prefix}{name}");
            all.push(Field {
                path: path.clone(),
                kind: self.kind(field),
                about,
            });
            if depth < DEEPEST {
                self.add_fields(inner, &format!("{path}."), depth + 1, all);
                let items = self.inner(&self.resolved(field)["items"]);
                self.add_fields(items, &format!("{path}[]."), depth + 1, all);
            }
        }
    }

    /// The type of a field's value when it is not null.
    fn inner(&self, field: &'a Value) -> &'a Value {
        let field = self.resolved(field);
        if field["properties"].is_object() {
            return field;
        }
        let choice = list(&field["oneOf"]).iter().find(|it| it["type"] != "null");
        choice.map_or(field, |it| self.resolved(it))
    }

    fn kind(&self, field: &'a Value) -> String {
        if let Some(choices) = field["oneOf"].as_array() {
            let kinds: Vec<String> = choices.iter().map(|it| self.kind(it)).collect();
            let (null, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|it| it == "null");
            return [others, null].concat().join(" or ");
        }
        let shape = self.resolved(field);
        if let Some(values) = shape["enum"].as_array() {
            let values: Vec<&str> = values.iter().map(text).collect();
            return values.join(", ");
        }
        match &shape["type"] {
            Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
            kind => text(kind).to_owned(),
        }
    }

    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else {
            return schema;
        };
        let pointer = reference.trim_start_matches('#');
        self.document.pointer(pointer).unwrap_or(schema)
    }

    /// The request as a shell would make it.
    fn curl(&self, operation: &Place<'_>) -> String {
        let value = operation.value;
        let mut path = operation.path.to_owned();
        let mut query = Vec::new();
        let mut lines = Vec::new();
        for parameter in value["parameters"].as_array().into_iter().flatten() {
            let name = text(&parameter["name"]);
            let example = plain(&parameter["example"]);
            match text(&parameter["in"]) {
                "path" => path = path.replace(&format!("{{{name}}}"), &example),
                "query" if parameter["required"] == true => query.push(format!("{name}={example}")),
                "header" if parameter["required"] == true => {
                    lines.push(format!("-H '{name}: {example}'"));
                }
                _ => {}
            }
        }
        let scheme = scheme(value).unwrap_or_default();
        match scheme {
            "apiKey" => lines.push("-H \"Authorization: Bearer $WAYBILL_API_KEY\"".to_owned()),
            "accessToken" => lines.push("-H \"Authorization: Bearer $ACCESS_TOKEN\"".to_owned()),
            "exportLink" => query.push("signature=mY0s..".to_owned()),
            _ => {}
        }
        query.dedup();
        let mut before = String::new();
        if let Some((media, body)) = first_body(&value["requestBody"]["content"]) {
            if media == "application/x-www-form-urlencoded" {
                let fields = body.as_object().into_iter().flatten();
                lines.extend(
                    fields.map(|(name, it)| format!("--data-urlencode '{name}={}'", plain(it))),
                );
            } else {
                lines.push(format!("-H 'Content-Type: {media}'"));
                before = format!("body='{}'\n", body.to_string().replace('\'', "'\\''"));
                lines.extend(signature(scheme, &mut before).map(str::to_owned));
                lines.push("-d \"$body\"".to_owned());
            }
        } else if operation.method == "post" {
            lines.push("-X POST".to_owned());
        }
        let server = self.server();
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{}", query.join("&"))
        };
        lines.insert(0, format!("{before}curl '{server}{path}{query}'"));
        lines.join(" \\\n  ")
    }
}

/// The header that signs `$body`, as OpenSSL makes it.
fn signature(scheme: &str, before: &mut String) -> Option<&'static str> {
    match scheme {
        "storefrontSignature" => {
            *before += "hmac=$(printf %s \"$body\" | openssl dgst -sha256 -hmac \"$STOREFRONT_WEBHOOK_SECRET\" -binary | base64)\n";
            Some("-H \"X-Storefront-Hmac-Sha256: $hmac\"")
        }
        "paymentSignature" => {
            *before += "t=$(date +%s)\nv1=$(printf %s \"$t.$body\" | openssl dgst -sha256 -hmac \"$PAYMENT_WEBHOOK_SECRET\" -r | cut -d' ' -f1)\n";
            Some("-H \"Payment-Signature: t=$t,v1=$v1\"")
        }
        _ => None,
    }
}

fn first_body(content: &Value) -> Option<(&str, &Value)> {
    let all = content.as_object()?;
    let form = all.get_key_value("application/x-www-form-urlencoded");
    let (media, body) = form.or_else(|| all.iter().next())?;
    let example = match body["examples"].as_object() {
        Some(named) => {
            let order = named.get("StorefrontOrder");
            order
                .or_else(|| named.values().next())
                .map(|it| &it["value"])?
        }
        None => &body["example"],
    };
    Some((media, example))
}

fn schemes(schemes: &Value) -> Vec<Scheme<'_>> {
    members(schemes)
        .map(|(name, scheme)| Scheme {
            name,
            about: text(&scheme["description"]),
        })
        .collect()
}

/// The name of the security scheme that an operation names first.
fn scheme(operation: &Value) -> Option<&str> {
    let (name, _) = members(&operation["security"][0]).next()?;
    Some(name)
}

fn parameter(parameter: &Value) -> Parameter<'_> {
    Parameter {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        is_required: parameter["required"] == true,
        about: text(&parameter["description"]),
    }
}

/// The headers of an answer, without the one that every answer has.
fn headers(headers: &Value) -> Vec<Header<'_>> {
    let own = members(headers).filter(|(name, _)| *name != "X-Request-Id");
    own.map(|(name, header)| header_row(name, header)).collect()
}

fn header_row<'a>(name: &'a str, header: &'a Value) -> Header<'a> {
    let values = header["schema"]["enum"].as_array();
    let values = values.map(|all| all.iter().map(text).collect::<Vec<_>>().join(", "));
    Header {
        name,
        value: values.unwrap_or_else(|| plain(&header["example"])),
        about: text(&header["description"]),
    }
}

fn error_code(code: Code) -> ErrorCode {
    let meaning = code.meaning();
    let statuses: Vec<String> = meaning.statuses.iter().map(u16::to_string).collect();
    ErrorCode {
        id: meaning.id,
        statuses: if statuses.is_empty() {
            "none".to_owned()
        } else {
            statuses.join(", ")
        },
        message: meaning.message,
        when: meaning.description,
        resolution: meaning.resolution,
    }
}

fn sample(media: &str, example: &Value) -> String {
    if media.contains("json") {
        return serde_json::to_string_pretty(example).unwrap_or_default();
    }
    let fields = members(example).map(|(name, it)| format!("{name}={}", plain(it)));
    fields.collect::<Vec<_>>().join("&\n")
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The entries of a list; nothing if the value is not a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The fields of an object; nothing if the value is not an object.
fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}
