//! Charts of the last hour, by minutes, and of the last week, by hours: what came, how fast it was answered,
//! and what waits. The numbers are what the processes counted themselves (`process::measures`), so a page
//! counts nothing. Each chart is drawn by the server, and a table has its numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use domain::job::Queue;
use domain::time::Timestamp;
use process::measures::{ANSWERS_MS, Delivery, answers, due, oldest};
use store::measures::{self, MINUTE, Measure, SHARED};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing::{self, Table};
use crate::shown::{Cell, Moment, bounded};

const HOUR: Duration = Duration::from_hours(1);
/// The width of a drawing, in units of its own.
pub const WIDTH: usize = 600;
pub const HEIGHT: i64 = 100;

/// A part of time, and by what it is divided.
struct Span {
    id: &'static str,
    name: &'static str,
    each: &'static str,
    step: Duration,
    steps: u32,
}

const SPANS: [Span; 2] = [
    Span {
        id: "hour",
        name: "The last hour",
        each: "minute",
        step: MINUTE,
        steps: 60,
    },
    Span {
        id: "week",
        name: "The last week",
        each: "hour",
        step: HOUR,
        steps: 7 * 24,
    },
];

const COLUMNS: [&str; 14] = [
    "At",
    "Accepted",
    "Duplicates",
    "Refused",
    "Median ms",
    "95 percent ms",
    "Due orders",
    "Due payments",
    "Due privacy",
    "Due endpoints",
    "Oldest orders s",
    "Oldest payments s",
    "Oldest privacy s",
    "Oldest endpoints s",
];

/// Which columns one chart draws.
struct Drawing {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    columns: &'static [(usize, &'static str)],
}

const DRAWINGS: [Drawing; 4] = [
    Drawing {
        id: "deliveries",
        title: "Deliveries",
        unit: "",
        columns: &[(1, "accepted"), (2, "duplicates"), (3, "refused")],
    },
    Drawing {
        id: "answers",
        title: "How long the intake took to answer",
        unit: " ms",
        columns: &[(4, "half of the answers"), (5, "95 of 100 answers")],
    },
    Drawing {
        id: "due",
        title: "Jobs that were due",
        unit: "",
        columns: &[
            (6, "orders"),
            (7, "payments"),
            (8, "privacy"),
            (9, "endpoints"),
        ],
    },
    Drawing {
        id: "oldest",
        title: "For how long the oldest of them was due",
        unit: " s",
        columns: &[
            (10, "orders"),
            (11, "payments"),
            (12, "privacy"),
            (13, "endpoints"),
        ],
    },
];

/// The numbers of a span: for each step, those of all columns but the first. `None`: nothing was answered.
struct Numbers {
    steps: Vec<(Timestamp, Vec<Option<i64>>)>,
}

pub struct Part {
    pub id: &'static str,
    pub name: &'static str,
    pub each: &'static str,
    pub from: Moment,
    pub until: Moment,
    pub charts: Vec<Chart>,
    pub table: Table,
}

pub struct Chart {
    pub id: &'static str,
    pub title: &'static str,
    pub about: String,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub class: String,
    pub name: &'static str,
    pub last: String,
    pub highest: String,
    /// The points of each piece that has no gap.
    pub pieces: Vec<String>,
}

#[derive(Template)]
#[template(path = "charts.html")]
struct ChartsPage<'a> {
    frame: Frame<'a>,
    parts: &'a [Part],
    width: usize,
    height: i64,
}

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let now = visit.now();
    let format = visit.query.get("format");
    if !format.is_empty() {
        let wanted = visit.query.get("span");
        let span = SPANS
            .iter()
            .find(|span| span.id == wanted)
            .unwrap_or(&SPANS[0]);
        let measured = measures::since(visit.db(), from(span, now)).await?;
        let table = table(&numbers(span, now, &measured));
        return Ok(match format {
            "csv" => listing::csv(&table, "/charts"),
            _ => listing::items(&table),
        });
    }
    let measured = measures::since(visit.db(), from(&SPANS[1], now)).await?;
    let parts: Vec<Part> = SPANS
        .iter()
        .map(|span| part(span, now, &measured))
        .collect();
    let page = ChartsPage {
        frame: Frame::of(&visit, "/charts"),
        parts: &parts,
        width: WIDTH,
        height: HEIGHT,
    };
    Ok(Html(page.to_string()).into_response())
}

/// The last hour, for the first page.
pub async fn hour(visit: &Visit<Reader>) -> Result<Part, Error> {
    let (span, now) = (&SPANS[0], visit.now());
    let measured = measures::since(visit.db(), from(span, now)).await?;
    Ok(part(span, now, &measured))
}

/// When a span begins. It ends with the last step that is over.
fn from(span: &Span, now: Timestamp) -> Timestamp {
    measures::begin(now, span.step).minus(span.step * span.steps)
}

fn numbers(span: &Span, now: Timestamp, measured: &[Measure]) -> Numbers {
    let (from, until) = (from(span, now), measures::begin(now, span.step));
    let mut sums: BTreeMap<(i64, &str), i64> = BTreeMap::new();
    for measure in measured {
        if measure.at >= from && measure.at < until {
            let at = measures::begin(measure.at, span.step).0;
            let sum = sums.entry((at, &measure.name)).or_default();
            if measure.name.starts_with(SHARED) {
                *sum = measure.value.max(*sum);
            } else {
                *sum += measure.value;
            }
        }
    }
    let step = |number: u32| {
        let at = from.plus(span.step * number);
        let value = |name: &str| sums.get(&(at.0, name)).copied().unwrap_or_default();
        let classes: Vec<i64> = (0..=ANSWERS_MS.len())
            .map(|it| value(&answers(it)))
            .collect();
        let mut values: Vec<Option<i64>> = Delivery::ALL.map(|it| Some(value(it.name()))).into();
        values.extend([50, 95].map(|percent| percentile(&classes, percent)));
        values.extend(Queue::ALL.map(|queue| Some(value(&due(queue.into_str())))));
        values.extend(Queue::ALL.map(|queue| Some(value(&oldest(queue.into_str())))));
        (at, values)
    };
    Numbers {
        steps: (0..span.steps).map(step).collect(),
    }
}

/// The milliseconds within which so many of a hundred were answered: the longest time of their class.
fn percentile(classes: &[i64], percent: i64) -> Option<i64> {
    let all: i64 = classes.iter().sum();
    if all == 0 {
        return None;
    }
    let wanted = (all * percent + 99) / 100;
    let mut counted = 0;
    let class = classes.iter().position(|count| {
        counted += count;
        counted >= wanted
    });
    let most = class
        .and_then(|class| ANSWERS_MS.get(class))
        .or(ANSWERS_MS.last());
    most.map(|most| i64::from(*most))
}

/// The newest step first.
fn table(numbers: &Numbers) -> Table {
    let mut table = Table::new(&COLUMNS);
    for (at, values) in numbers.steps.iter().rev() {
        let cells = values
            .iter()
            .map(|value| value.map_or(Cell::None, Cell::Number));
        table.row([Cell::time(*at)].into_iter().chain(cells).collect());
    }
    table
}

fn part(span: &Span, now: Timestamp, measured: &[Measure]) -> Part {
    let numbers = numbers(span, now, measured);
    Part {
        id: span.id,
        name: span.name,
        each: span.each,
        from: Moment(from(span, now)),
        until: Moment(measures::begin(now, span.step)),
        charts: DRAWINGS
            .iter()
            .map(|it| chart(it, span, &numbers))
            .collect(),
        table: table(&numbers),
    }
}

fn chart(drawing: &Drawing, span: &Span, numbers: &Numbers) -> Chart {
    let columns = drawing.columns;
    let of = |column: usize| {
        numbers
            .steps
            .iter()
            .map(move |(_, values)| values[column - 1])
    };
    let highest = columns
        .iter()
        .flat_map(|(column, _)| of(*column))
        .flatten()
        .max();
    let highest = highest.unwrap_or_default();
    let shown = |value: Option<i64>| match value {
        Some(value) => format!("{}{}", bounded(value, i64::MAX), drawing.unit),
        None => "nothing".to_owned(),
    };
    let line = |(nth, (column, name)): (usize, &(usize, &'static str))| Line {
        class: format!("line{nth}"),
        name,
        last: shown(of(*column).next_back().flatten()),
        highest: shown(of(*column).flatten().max()),
        pieces: pieces(&of(*column).collect::<Vec<_>>(), highest),
    };
    Chart {
        id: drawing.id,
        title: drawing.title,
        about: format!(
            "By {}. The top of the chart is {}.",
            span.each,
            shown(Some(highest.max(1)))
        ),
        lines: columns.iter().enumerate().map(line).collect(),
    }
}

/// The points of a line, for each piece without a gap. A piece of one point is drawn as a dot.
fn pieces(values: &[Option<i64>], highest: i64) -> Vec<String> {
    let last = values.len().saturating_sub(1).max(1);
    let mut pieces: Vec<String> = Vec::new();
    for piece in values
        .iter()
        .enumerate()
        .collect::<Vec<_>>()
        .chunk_by(|(_, one), (_, next)| one.is_some() == next.is_some())
    {
        let point = |(at, value): &(usize, &Option<i64>)| {
            let value = (**value)?;
            let down = HEIGHT - value * HEIGHT / highest.max(1);
            Some(format!("{},{down}", at * WIDTH / last))
        };
        let mut points: Vec<String> = piece.iter().filter_map(point).collect();
        if let [one] = points.as_slice() {
            points.push(one.clone());
        }
        if !points.is_empty() {
            pieces.push(points.join(" "));
        }
    }
    pieces
}

#[cfg(test)]
#[path = "../../tests/unit/pages/charts.rs"]
mod tests;
