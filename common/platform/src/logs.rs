//! Log lines on stderr, either for people or as one JSON object for each line.
//!
//! Every value is redacted when it is recorded, before it is stored with a span or written into a
//! line. So a line has no personal data and no secret, and the only line break is the one at its
//! end, whatever a request or an error contains.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::terminal;
use domain::redact::{self, Hide, REDACTED};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Human,
    Json,
}

impl LogFormat {
    /// The format that suits the reader of stderr: for people on a terminal, else JSON for a
    /// program.
    pub fn for_terminal() -> Self {
        if terminal::err_is_one() {
            LogFormat::Human
        } else {
            LogFormat::Json
        }
    }
}

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "human" => Ok(LogFormat::Human),
            "json" => Ok(LogFormat::Json),
            _ => Err(UnknownFormat),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a log format is human or json")]
pub struct UnknownFormat;

/// Starts logging to stderr. Only the first call in a process has an effect. `filter` is a level
/// or pairs `target=level`; it was checked with the settings, and one that cannot be read counts
/// as `info`. Without `redact`, personal data is shown, but secrets are not.
pub fn init(format: LogFormat, filter: &str, redact: bool) {
    let targets: Targets = filter
        .parse()
        .unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
    let hide = if redact {
        Hide::PersonalDataAndSecrets
    } else {
        Hide::Secrets
    };
    let lines = Lines::new(format, hide, terminal::log).coloured(terminal::err_is_one());
    let subscriber = tracing_subscriber::registry().with(targets).with(lines);
    let _ = tracing::subscriber::set_global_default(subscriber);
    // The default hook would print the panic without redacting it.
    std::panic::set_hook(Box::new(|panic| {
        if redact::is_under_way() {
            return;
        }
        let location = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(message, location, "a panic");
    }));
}

/// Makes a line of each event, and writes the line with its line break in one piece.
pub struct Lines<W> {
    format: LogFormat,
    hide: Hide,
    coloured: bool,
    write: W,
}

impl<W: Fn(&str)> Lines<W> {
    pub fn new(format: LogFormat, hide: Hide, write: W) -> Self {
        Lines {
            format,
            hide,
            coloured: false,
            write,
        }
    }

    /// Shows the level in colour in lines for people.
    #[must_use]
    pub fn coloured(self, coloured: bool) -> Self {
        Lines { coloured, ..self }
    }
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new(self.hide);
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        // The values are recorded before the span is locked, because a value's `Debug` may itself
        // log.
        let mut recorded = Fields::new(self.hide);
        values.record(&mut recorded);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            for (name, value) in recorded.values {
                fields.put(name, value);
            }
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::new(self.hide);
        event.record(&mut fields);
        let mut spans = Vec::new();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                spans.push(match self.format {
                    LogFormat::Human => fields.human_span(span.name()),
                    LogFormat::Json => fields.json_span(span.name()),
                });
            }
        }
        let mut line = match self.format {
            LogFormat::Human => fields.human_line(metadata, &spans, self.coloured),
            LogFormat::Json => fields.json_line(metadata, &spans),
        };
        line.push('\n');
        (self.write)(&line);
    }
}

/// The values with which an event or a span was recorded, redacted.
struct Fields {
    hide: Hide,
    message: String,
    values: Vec<(&'static str, Value)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, self.hide.within(value).into_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, self.hide.redacted(format_args!("{value:?}")));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }
}

impl Fields {
    fn new(hide: Hide) -> Self {
        Fields {
            hide,
            message: String::new(),
            values: Vec::new(),
        }
    }

    fn take(&mut self, field: &Field, redacted: String) {
        if field.name() == "message" {
            self.message = redacted;
        } else {
            self.put(field.name(), redacted.into());
        }
    }

    /// Stores a value. A field of a span may be recorded again, and then its last value counts.
    fn put(&mut self, name: &'static str, value: Value) {
        let name = name.trim_start_matches("r#");
        let value = if self.hide.key(name) && !value.is_boolean() {
            REDACTED.into()
        } else {
            value
        };
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, last)) => *last = value,
            None => self.values.push((name, value)),
        }
    }

    /// A line such as `2026-11-20T10:15:00.123456Z  INFO webhook{shop=..}: bus: message
    /// key=value`.
    fn human_line(&self, metadata: &Metadata<'_>, spans: &[String], coloured: bool) -> String {
        let level = match (*metadata.level(), coloured) {
            (Level::ERROR, true) => "\x1b[31mERROR\x1b[0m",
            (Level::WARN, true) => "\x1b[33m WARN\x1b[0m",
            (Level::INFO, true) => "\x1b[32m INFO\x1b[0m",
            (level, _) => &format!("{level:>5}"),
        };
        let place = format!("{}{}", spans.concat(), metadata.target());
        let mut words = vec![now(), level.to_owned(), format!("{place}:")];
        if !self.message.is_empty() {
            words.push(self.message.clone());
        }
        words.extend(self.human_values());
        words.join(" ")
    }

    fn human_span(&self, name: &str) -> String {
        let values: Vec<_> = self.human_values().collect();
        format!("{name}{{{}}}: ", values.join(" "))
    }

    /// Each value as `key=value`, with quotes if it could be read as more than one.
    fn human_values(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|(name, value)| match value {
            Value::String(text) if text.is_empty() || text.contains([' ', '\t', '=', '"']) => {
                format!("{name}=\"{}\"", text.replace('"', "\\\""))
            }
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
    }

    fn json_line(&self, metadata: &Metadata<'_>, spans: &[String]) -> String {
        let own = [
            ("timestamp", now().into()),
            ("level", metadata.level().as_str().into()),
            ("target", metadata.target().into()),
            ("message", Value::from(&*self.message)),
        ];
        let own = own.map(|(name, value)| json_pair(name, &value));
        let spans = format!("\"spans\":[{}]", spans.join(","));
        let taken = ["timestamp", "level", "target", "message", "spans"];
        json_object(
            own.into_iter()
                .chain(self.json_values(&taken))
                .chain([spans]),
        )
    }

    fn json_span(&self, name: &str) -> String {
        let own = json_pair("span", &name.into());
        json_object([own].into_iter().chain(self.json_values(&["span"])))
    }

    /// Each value as `"key":value`. A key that the line itself uses gets a `_` at its end.
    fn json_values(&self, taken: &[&str]) -> impl Iterator<Item = String> {
        self.values.iter().map(move |(name, value)| {
            if taken.contains(name) {
                json_pair(&format!("{name}_"), value)
            } else {
                json_pair(name, value)
            }
        })
    }
}

fn json_pair(name: &str, value: &Value) -> String {
    format!("{}:{value}", Value::from(name))
}

/// Not a [`serde_json::Map`], because the time and the level must come first.
fn json_object(pairs: impl Iterator<Item = String>) -> String {
    let pairs: Vec<_> = pairs.collect();
    format!("{{{}}}", pairs.join(","))
}

/// The present time as RFC 3339 in UTC. It is the real time, even where a test sets the clock.
fn now() -> String {
    let mut text = String::new();
    let written = SystemTime.format_time(&mut Writer::new(&mut text));
    written.expect("a string takes any text");
    text
}
