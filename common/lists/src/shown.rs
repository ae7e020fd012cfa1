//! What is shown of a value: on a page, on a terminal, in JSON and in CSV. Ids are texts, so that none loses digits.

use std::time::Duration;

use domain::time::{Timestamp, age};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use platform::zone;
use serde_json::{Value, json};

/// What may stand in a part of a path as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    None,
    Text(String),
    /// An id, a name of ours, or a command, which is read letter by letter.
    Code(String),
    Number(i64),
    /// An amount of money, whose ends stand below each other.
    Amount(String),
    Time(Moment),
    /// A time of which is shown how far away it is.
    Age(Moment),
    /// The same of what is due then; what is past is due now.
    Due(Moment),
    /// A text that leads to a page of the console.
    Link {
        text: String,
        href: String,
    },
    /// A state: its class for the style, and its name.
    State(&'static str, String),
}

/// A time. Without script it is shown in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

/// How far ahead something is; below three days in hours, because deadlines are looked at in hours then.
fn ahead(far: Duration) -> String {
    let seconds = far.as_secs();
    match seconds {
        0..60 => format!("in {seconds}s"),
        60..3600 => format!("in {}m", seconds / 60),
        3600..259_200 => format!("in {}h", seconds / 3600),
        _ => format!("in {}d", seconds / 86_400),
    }
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// What is further away than so many days is shown as a date.
const DAYS: i64 = 60;

impl Moment {
    /// RFC 3339.
    pub fn exact(self) -> String {
        self.0.to_string()
    }

    /// `2027-01-15 08:00:00 UTC`.
    pub fn utc(self) -> String {
        let exact = self.0.to_string();
        let whole = exact.split('.').next().unwrap_or(&exact);
        format!("{} UTC", whole.replace('T', " "))
    }

    pub fn is_past(self, now: Moment) -> bool {
        self.0 <= now.0
    }

    /// How far it is from now, in the largest unit that fits: `3 min ago`, `in 2 h`. `console.js` says the same
    /// later.
    pub fn ago(self, now: Moment) -> String {
        let seconds = (now.0.0 - self.0.0) / 1000;
        let (number, unit) = match seconds.abs() {
            far @ ..MINUTE => (far, "s"),
            far @ MINUTE..HOUR => (far / MINUTE, "min"),
            far if far < 2 * DAY => (far / HOUR, "h"),
            far if far < DAYS * DAY => (far / DAY, "d"),
            _ => return self.exact().chars().take_while(|it| *it != 'T').collect(),
        };
        if seconds < 0 {
            format!("in {number} {unit}")
        } else {
            format!("{number} {unit} ago")
        }
    }
}

/// More characters than this of an id are not shown in a row.
const LONGEST_ID: usize = 18;
/// The same for other texts without a space, such as the domain of a shop.
const LONGEST_WORD: usize = 32;
/// A text with spaces and more characters than this is a sentence, which gets the space that is left of a row.
const SENTENCE: usize = 20;

/// JSON is read like a sentence, too.
fn is_sentence(text: &str) -> bool {
    let is_json = text.starts_with(['{', '[']);
    (is_json || text.contains(char::is_whitespace)) && text.chars().count() > SENTENCE
}

/// A text that is too long for a row, without its middle. None when it fits, or is a sentence.
fn brief(text: &str) -> Option<String> {
    if is_sentence(text) {
        return None;
    }
    let chars: Vec<char> = text.chars().collect();
    let is_id = text.contains(|it: char| it.is_ascii_digit())
        && chars
            .iter()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, '-' | '_'));
    let (most, head, tail) = if is_id {
        (LONGEST_ID, 4, 8)
    } else {
        (LONGEST_WORD, 14, 12)
    };
    (chars.len() > most).then(|| {
        let (head, tail) = (&chars[..head], &chars[chars.len() - tail..]);
        head.iter().chain(&['…']).chain(tail).collect()
    })
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        match text.into() {
            text if text.is_empty() => Cell::None,
            text => Cell::Text(text),
        }
    }

    pub fn maybe(text: Option<&str>) -> Self {
        text.map_or(Cell::None, Cell::text)
    }

    pub fn code(text: impl Into<String>) -> Self {
        Cell::Code(text.into())
    }

    pub fn maybe_code(text: Option<&str>) -> Self {
        text.map_or(Cell::None, Cell::code)
    }

    pub fn time(at: Timestamp) -> Self {
        Cell::Time(Moment(at))
    }

    pub fn maybe_time(at: Option<Timestamp>) -> Self {
        at.map_or(Cell::None, Cell::time)
    }

    pub fn age(at: Timestamp) -> Self {
        Cell::Age(Moment(at))
    }

    pub fn maybe_age(at: Option<Timestamp>) -> Self {
        at.map_or(Cell::None, Cell::age)
    }

    pub fn due(at: Timestamp) -> Self {
        Cell::Due(Moment(at))
    }

    pub fn amount(amount: impl Into<String>) -> Self {
        Cell::Amount(amount.into())
    }

    pub fn link(text: impl Into<String>, href: String) -> Self {
        Cell::Link {
            text: text.into(),
            href,
        }
    }

    pub fn job(id: uuid::Uuid) -> Self {
        Cell::link(id.to_string(), job(id))
    }

    /// The text in full, if it is one.
    pub fn whole(&self) -> Option<&str> {
        match self {
            Cell::Text(text) | Cell::Code(text) | Cell::Link { text, .. } => Some(text),
            Cell::None
            | Cell::Number(_)
            | Cell::Amount(_)
            | Cell::Time(_)
            | Cell::Age(_)
            | Cell::Due(_)
            | Cell::State(..) => None,
        }
    }

    /// The text as a row shows it, when that is not all of it.
    pub fn brief(&self) -> Option<String> {
        self.whole().and_then(brief)
    }

    /// The class of its column's part in a row.
    pub fn column(&self) -> &'static str {
        match self {
            Cell::Number(_) | Cell::Amount(_) => "number",
            _ if self.whole().is_some_and(is_sentence) => "sentence",
            _ => "",
        }
    }

    /// The text on a terminal at this time, and whether it is a number.
    pub fn on_terminal(&self, now: Timestamp) -> (String, bool) {
        match self {
            Cell::None => ("-".to_owned(), false),
            Cell::Number(number) => (number.to_string(), true),
            Cell::Amount(text) => (text.clone(), true),
            Cell::Time(at) => (zone::time(at.0), false),
            Cell::Due(at) if at.0 <= now => ("now".to_owned(), false),
            Cell::Age(at) | Cell::Due(at) if at.0 > now => (ahead(at.0.since(now)), false),
            Cell::Age(at) | Cell::Due(at) => (format!("{} ago", age(now, at.0)), false),
            Cell::Text(text)
            | Cell::Code(text)
            | Cell::State(_, text)
            | Cell::Link { text, .. } => (text.clone(), false),
        }
    }

    pub fn json(&self) -> Value {
        match self {
            Cell::None => Value::Null,
            Cell::Text(text)
            | Cell::Code(text)
            | Cell::Amount(text)
            | Cell::State(_, text)
            | Cell::Link { text, .. } => {
                json!(text)
            }
            Cell::Number(number) => json!(number),
            Cell::Time(at) | Cell::Age(at) | Cell::Due(at) => json!(at.exact()),
        }
    }

    /// What the page's script makes the same cell of (`console.js`).
    pub fn parts(&self) -> Value {
        let brief = self.brief();
        let mut parts = match self {
            Cell::None => json!({"is": "none"}),
            Cell::Text(text) => json!({"is": "text", "text": text, "brief": brief}),
            Cell::Number(number) => json!({"is": "text", "text": number.to_string()}),
            Cell::Code(text) => json!({"is": "code", "text": text, "brief": brief}),
            Cell::Amount(text) => json!({"is": "text", "text": text}),
            Cell::Time(at) | Cell::Age(at) | Cell::Due(at) => {
                json!({"is": "time", "exact": at.exact()})
            }
            Cell::Link { text, href } => {
                json!({"is": "link", "text": text, "brief": brief, "href": href})
            }
            Cell::State(class, text) => json!({"is": "state", "class": class, "text": text}),
        };
        parts["column"] = json!(self.column());
        parts
    }

    /// A field of CSV (RFC 4180). Programs for tables take what begins with `=` and the like for a
    /// formula, so it gets an apostrophe.
    pub fn csv(&self) -> String {
        let text = match self {
            Cell::None => String::new(),
            Cell::Number(number) => return number.to_string(),
            Cell::Time(at) | Cell::Age(at) | Cell::Due(at) => return at.exact(),
            Cell::Amount(text) => return text.clone(),
            Cell::Text(text)
            | Cell::Code(text)
            | Cell::State(_, text)
            | Cell::Link { text, .. } => text.clone(),
        };
        let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let text = if is_formula { format!("'{text}") } else { text };
        if text.contains([',', '"', '\n', '\r']) {
            return format!("\"{}\"", text.replace('"', "\"\""));
        }
        text
    }
}

pub fn escaped(part: &str) -> String {
    utf8_percent_encode(part, PLAIN).to_string()
}

/// The text as a shell reads it as one word.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub fn job(id: uuid::Uuid) -> String {
    format!("/jobs/{id}")
}

pub fn order(shop: &str, id: impl std::fmt::Display) -> String {
    format!("/orders/{id}?shop={}", escaped(shop))
}

pub fn payment(id: &str) -> String {
    format!("/payments/{}", escaped(id))
}

pub fn subscription(id: &str) -> String {
    format!("/subscriptions/{}", escaped(id))
}

pub fn customer(shop: &str, id: i64) -> String {
    format!("/customers/{id}?shop={}", escaped(shop))
}

/// What the payment provider has an id for. It begins its subscriptions' ids so.
pub fn of_provider(id: &str) -> String {
    if id.starts_with("sub_") {
        subscription(id)
    } else {
        payment(id)
    }
}

/// A number that stops to be counted at `most`: "10,000+".
pub fn bounded(number: i64, most: i64) -> String {
    let digits = number.min(most).to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number >= most {
        text.push('+');
    }
    text
}

/// How long something took.
pub fn took(milliseconds: i64) -> String {
    match milliseconds {
        ..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!(
            "{} min {} s",
            milliseconds / 60_000,
            milliseconds % 60_000 / 1000
        ),
    }
}

/// The class of a state for the style.
pub fn class(state: &str) -> &'static str {
    match state {
        "done" | "fulfilled" | "paid" | "succeeded" | "active" | "accepted" => "good",
        "dead" | "failed" | "refused" | "overdue" => "bad",
        "ready" | "retried" | "deferred" | "held" | "received" | "waiting" | "paused" => "open",
        _ => "plain",
    }
}

pub fn maybe_state(text: Option<&str>) -> Cell {
    text.map_or(Cell::None, state)
}

/// An amount with its currency, where both are known.
pub fn amount(amount: Option<&str>, currency: Option<&str>) -> Cell {
    let amount = amount.zip(currency);
    amount.map_or(Cell::None, |(amount, code)| {
        Cell::text(format!("{amount} {code}"))
    })
}

pub fn state(text: impl Into<String>) -> Cell {
    let text = text.into();
    Cell::State(class(&text), text)
}

#[cfg(test)]
#[path = "../tests/unit/shown.rs"]
mod tests;
