//! The description as one HTML page that can be read offline: pure, from the document to text.
//! It has no script and loads nothing; text gets in through [`Text`] alone.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::HeaderValue;
use domain::code::Code;
use serde_json::Value;

use super::operation::METHODS;
use crate::page::{self, Text};

const STYLE: &str = include_str!("page.css");

pub static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| page::policy(STYLE));

/// A deeper field is told by the type that it is of.
const DEEPEST: usize = 3;

/// `order` is of operations, by their ids.
pub fn html(document: &Value, order: &[&str]) -> String {
    let reader = Reader { document };
    let tags = document["tags"].as_array().map_or(&[][..], Vec::as_slice);
    let mut contents = String::new();
    let mut body = reader.head();
    for tag in tags {
        let (name, about) = (text(&tag["name"]), text(&tag["description"]));
        let mut operations = reader.operations(name);
        operations.sort_by_key(|it| {
            let id = text(&it.value["operationId"]);
            order.iter().position(|known| *known == id)
        });
        let anchor = name.to_ascii_lowercase();
        let _ = write!(contents, "<li><a href=\"#{anchor}\">{}</a><ul>", Text(name));
        let _ = write!(
            body,
            "<section id=\"{anchor}\"><h2>{}</h2><p class=\"lead\">{}</p>",
            Text(name),
            inline(about)
        );
        for operation in operations {
            let id = Text(text(&operation.value["operationId"]));
            let label = if operation.is_event {
                operation.path
            } else {
                text(&operation.value["summary"])
            };
            let _ = write!(contents, "<li><a href=\"#{id}\">{}</a></li>", Text(label));
            body += &reader.article(&operation);
        }
        contents += "</ul></li>";
        body += "</section>";
    }
    contents += "<li><a href=\"#errors\">Error codes</a></li>";
    body += &errors();
    layout(text(&document["info"]["title"]), &contents, &body)
}

fn layout(title: &str, contents: &str, body: &str) -> String {
    let title = Text(title);
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="color-scheme" content="light dark">
<title>{title} API</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<nav aria-label="Contents"><details><summary>Contents</summary><ul>{contents}</ul></details><ul class="wide">{contents}</ul></nav>
<main id="content">
{body}
</main>
</body>
</html>
"##
    )
}

/// An operation and where it stands in the document.
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
    fn head(&self) -> String {
        let info = &self.document["info"];
        let server = text(&self.document["servers"][0]["url"]);
        let mut head = format!(
            "<header><h1>{} API</h1><p class=\"quiet\">Version {} at <code>{}</code>. For tools: \
             <a href=\"/openapi.json\">OpenAPI 3.1</a>.</p>",
            Text(text(&info["title"])),
            Text(text(&info["version"])),
            Text(server)
        );
        for paragraph in text(&info["description"]).split("\n\n") {
            let _ = write!(head, "<p>{}</p>", inline(paragraph));
        }
        head += "<h2>Who may ask</h2><dl class=\"schemes\">";
        let schemes = self.document["components"]["securitySchemes"].as_object();
        for (name, scheme) in schemes.into_iter().flatten() {
            let _ = write!(
                head,
                "<dt id=\"{0}\"><code>{0}</code></dt><dd>{1}</dd>",
                Text(name),
                inline(text(&scheme["description"]))
            );
        }
        head + "</dl></header>"
    }

    fn operations(&self, tag: &str) -> Vec<Place<'a>> {
        let mut found = Vec::new();
        for (section, is_event) in [("paths", false), ("webhooks", true)] {
            for (path, item) in self.document[section].as_object().into_iter().flatten() {
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

    fn article(&self, operation: &Place<'_>) -> String {
        let value = operation.value;
        let badge = if operation.is_event {
            "event"
        } else {
            operation.method
        };
        let mut article = format!(
            "<article id=\"{}\"><h3><span class=\"method {badge}\">{badge}</span> <code>{}</code></h3>\
             <p class=\"summary\">{}</p>",
            Text(text(&value["operationId"])),
            breakable(operation.path),
            inline(text(&value["summary"])),
        );
        if !operation.is_event && !value["description"].is_null() {
            let _ = write!(article, "<p>{}</p>", inline(text(&value["description"])));
        }
        let scheme = value["security"][0].as_object();
        if let Some(name) = scheme.and_then(|scheme| scheme.keys().next()) {
            let name = Text(name);
            let _ = write!(
                article,
                "<p class=\"quiet\">Needs <a href=\"#{name}\"><code>{name}</code></a>.</p>"
            );
        }
        article += &parameters(&value["parameters"]);
        if !value["requestBody"].is_null() {
            article += &self.content(&value["requestBody"]["content"], "Body");
        }
        if !operation.is_event {
            let _ = write!(
                article,
                "<h4>Example</h4><pre tabindex=\"0\"><code>{}</code></pre>",
                lines(&self.curl(operation))
            );
            article += &self.responses(&value["responses"]);
        }
        article + "</article>"
    }

    fn responses(&self, responses: &Value) -> String {
        let mut all = "<h4>Answers</h4>".to_owned();
        for (status, response) in responses.as_object().into_iter().flatten() {
            let class = if status.starts_with('2') {
                "good"
            } else {
                "bad"
            };
            let open = if status.starts_with('2') { " open" } else { "" };
            let _ = write!(
                all,
                "<details{open}><summary><span class=\"status {class}\">{status}</span> \
                 {}</summary>",
                inline(text(&response["description"]))
            );
            all += &headers(&response["headers"]);
            all += &self.content(&response["content"], "");
            all += "</details>";
        }
        all
    }

    /// The fields of a body and its examples.
    fn content(&self, content: &Value, heading: &str) -> String {
        let mut shown = String::new();
        if !heading.is_empty() {
            let _ = write!(shown, "<h4>{heading}</h4>");
        }
        let Some((media, body)) = content.as_object().and_then(|all| all.iter().next()) else {
            return shown;
        };
        let kinds: Vec<&str> = content
            .as_object()
            .into_iter()
            .flatten()
            .map(|it| it.0.as_str())
            .collect();
        let kinds: Vec<String> = kinds
            .iter()
            .map(|kind| format!("<code>{}</code>", Text(kind)))
            .collect();
        let _ = write!(shown, "<p class=\"quiet\">{}</p>", kinds.join(" or "));
        let named = body["examples"].as_object();
        if let Some(shapes) = body["schema"]["anyOf"].as_array() {
            for shape in shapes {
                let name = text(&shape["$ref"]).rsplit('/').next().unwrap_or_default();
                let about = text(&self.resolved(shape)["description"]);
                let _ = write!(shown, "<h5>{}</h5><p>{}</p>", Text(name), inline(about));
                shown += &self.fields(shape);
                let example = named.and_then(|all| all.get(name));
                shown += &example.map_or(String::new(), |it| sample(media, &it["value"]));
            }
            return shown;
        }
        shown += &self.fields(&body["schema"]);
        let single = Some(&body["example"]).filter(|it| !it.is_null());
        let named = named.into_iter().flatten().map(|(_, it)| &it["value"]);
        let mut written: Vec<String> = Vec::new();
        for example in single.into_iter().chain(named) {
            let sample = sample(media, example);
            if !written.contains(&sample) {
                written.push(sample);
            }
        }
        shown + &written.concat()
    }

    fn fields(&self, schema: &Value) -> String {
        let mut rows = String::new();
        self.rows(schema, "", 0, &mut rows);
        if rows.is_empty() {
            return rows;
        }
        table(&["Field", "Type", "Meaning"], &rows)
    }

    fn rows(&self, schema: &Value, prefix: &str, depth: usize, rows: &mut String) {
        let schema = self.resolved(schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.rows(part, prefix, depth, rows);
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let own = text(&field["description"]);
            let inner = self.inner(field);
            let about = if own.is_empty() && inner["properties"].is_null() {
                text(&inner["description"])
            } else {
                own
            };
            let path = format!("{prefix}{name}");
            let _ = write!(
                rows,
                "<tr><th scope=\"row\"><code>{}</code></th><td>{}</td><td>{}</td></tr>",
                breakable(&path),
                Text(&self.kind(field)),
                inline(about)
            );
            if depth < DEEPEST {
                self.rows(self.inner(field), &format!("{path}."), depth + 1, rows);
                let items = self.inner(&self.resolved(field)["items"]);
                self.rows(items, &format!("{path}[]."), depth + 1, rows);
            }
        }
    }

    /// What a field holds when it is not null.
    fn inner<'b>(&'b self, field: &'b Value) -> &'b Value {
        let field = self.resolved(field);
        if field["properties"].is_object() {
            return field;
        }
        let choices = field["oneOf"].as_array();
        let choice = choices.and_then(|all| all.iter().find(|it| it["type"] != "null"));
        choice.map_or(field, |it| self.resolved(it))
    }

    fn kind(&self, field: &Value) -> String {
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

    fn resolved<'b>(&'b self, schema: &'b Value) -> &'b Value {
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
        let scheme = value["security"][0].as_object();
        let scheme = scheme
            .and_then(|scheme| scheme.keys().next())
            .map_or("", String::as_str);
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
        let server = text(&self.document["servers"][0]["url"]);
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

fn parameters(parameters: &Value) -> String {
    let Some(parameters) = parameters.as_array() else {
        return String::new();
    };
    let mut rows = String::new();
    for parameter in parameters {
        let required = if parameter["required"] == true {
            "required"
        } else {
            "optional"
        };
        let _ = write!(
            rows,
            "<tr><th scope=\"row\"><code>{}</code></th><td>{}, {required}</td><td>{}</td></tr>",
            breakable(text(&parameter["name"])),
            Text(text(&parameter["in"])),
            inline(text(&parameter["description"]))
        );
    }
    format!(
        "<h4>Parameters</h4>{}",
        table(&["Name", "Where", "Meaning"], &rows)
    )
}

/// All but the one that every answer has.
fn headers(headers: &Value) -> String {
    let mut rows = String::new();
    for (name, header) in headers.as_object().into_iter().flatten() {
        if name == "X-Request-Id" {
            continue;
        }
        let values = header["schema"]["enum"].as_array();
        let values = values.map(|all| all.iter().map(text).collect::<Vec<_>>().join(", "));
        let example = values.unwrap_or_else(|| plain(&header["example"]));
        let _ = write!(
            rows,
            "<tr><th scope=\"row\"><code>{}</code></th><td><code>{}</code></td><td>{}</td></tr>",
            breakable(name),
            breakable(&example),
            inline(text(&header["description"]))
        );
    }
    if rows.is_empty() {
        return rows;
    }
    table(&["Header", "Value", "Meaning"], &rows)
}

fn errors() -> String {
    let mut rows = String::new();
    for code in Code::ALL {
        let meaning = code.meaning();
        let statuses: Vec<String> = meaning.statuses.iter().map(u16::to_string).collect();
        let statuses = if statuses.is_empty() {
            "none".to_owned()
        } else {
            statuses.join(", ")
        };
        let _ = write!(
            rows,
            "<tr id=\"{0}\"><th scope=\"row\"><code>{1}</code></th><td>{statuses}</td><td>{2}: {3}</td><td>{4}</td></tr>",
            meaning.id,
            breakable(meaning.id),
            Text(meaning.message),
            inline(meaning.told),
            inline(meaning.resolution)
        );
    }
    format!(
        "<section id=\"errors\"><h2>Error codes</h2><p class=\"lead\">In the header <code>X-Error-Code</code>. \
         Those without a status are told elsewhere: in log lines, and in what is stored of a job.</p>{}</section>",
        table(&["Code", "Status", "When", "What to do"], &rows)
    )
}

fn table(heads: &[&str], rows: &str) -> String {
    let mut columns = String::new();
    for head in heads {
        let _ = write!(columns, "<th scope=\"col\">{head}</th>");
    }
    format!(
        "<div class=\"table\" tabindex=\"0\"><table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn sample(media: &str, example: &Value) -> String {
    let shown = if media.contains("json") {
        serde_json::to_string_pretty(example).unwrap_or_default()
    } else {
        let fields = example.as_object().into_iter().flatten();
        let fields: Vec<String> = fields
            .map(|(name, it)| format!("{name}={}", plain(it)))
            .collect();
        fields.join("&\n")
    };
    format!("<pre tabindex=\"0\"><code>{}</code></pre>", lines(&shown))
}

/// Text of several lines: [`Text`] leaves out what ends them.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| Text(line).to_string()).collect();
    lines.join("\n")
}

/// Markdown's `code`; everything else as it is.
fn inline(markdown: &str) -> String {
    let mut shown = String::new();
    for (nth, part) in markdown.split('`').enumerate() {
        let part = part.replace('\n', " ");
        let part = Text(&part);
        let _ = if nth % 2 == 1 {
            write!(shown, "<code>{part}</code>")
        } else {
            write!(shown, "{part}")
        };
    }
    shown
}

/// May be broken after a slash, dot or underscore.
fn breakable(path: &str) -> String {
    let escaped = Text(path).to_string();
    escaped
        .replace('/', "/<wbr>")
        .replace('.', ".<wbr>")
        .replace('_', "_<wbr>")
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
