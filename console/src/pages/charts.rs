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
use lists::shown::{Cell, Moment, bounded};

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
    pub axis: Axis,
    pub lines: Vec<Line>,
}

/// What stands at the sides of a drawing.
pub struct Axis {
    most: i64,
    /// At the top and in the middle; the bottom is 0.
    pub top: String,
    pub middle: String,
    pub from: Moment,
    pub until: Moment,
    /// The milliseconds of a step.
    pub step: i64,
}

pub struct Line {
    pub class: String,
    pub name: &'static str,
    pub last: String,
    pub highest: String,
    /// The value of each step, with commas between; nothing where there is none.
    pub values: String,
    /// The points of each piece that has no gap. None for a line that is always 0.
    pub pieces: Vec<String>,
}

/// How many deliveries were accepted in each step of a span. Each bar leads to those of its step.
pub struct Histogram {
    pub bars: Vec<Bar>,
    pub axis: Axis,
    pub each: &'static str,
    pub name: &'static str,
    /// The query of the list without a time.
    pub base: String,
    /// The other spans: their names, and the ways there.
    pub others: Vec<(&'static str, String)>,
}

pub struct Bar {
    pub at: usize,
    pub height: i64,
    pub class: &'static str,
    pub title: String,
    pub href: String,
}

/// The width of a bar.
pub const BAR: usize = 10;

#[derive(Template)]
#[template(path = "charts.html")]
struct ChartsPage<'a> {
    frame: Frame<'a>,
    parts: &'a [Part],
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
    };
    Ok(Html(page.to_string()).into_response())
}

/// The last hour, for the first page.
pub async fn hour(visit: &Visit<Reader>) -> Result<Part, Error> {
    let (span, now) = (&SPANS[0], visit.now());
    let measured = measures::since(visit.db(), from(span, now)).await?;
    Ok(part(span, now, &measured))
}

/// The deliveries of the span that the query names. `from` and `until` are the time that the list shows.
pub async fn histogram(
    visit: &Visit<Reader>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<Histogram, Error> {
    let now = visit.now();
    let wanted = visit.query.get("span");
    let span = SPANS.iter().find(|it| it.id == wanted).unwrap_or(&SPANS[0]);
    let measured = measures::since(visit.db(), self::from(span, now)).await?;
    let steps = numbers(span, now, &measured).steps;
    let accepted: Vec<(Timestamp, i64)> = steps
        .iter()
        .map(|(at, values)| (*at, values[0].unwrap_or_default()))
        .collect();
    let axis = Axis::of(
        span,
        now,
        accepted.iter().map(|(_, count)| *count).max(),
        "",
    );
    let base = visit.query.without(&["since", "before", "after", "done"]);
    let bar = |(at, (begin, count)): (usize, &(Timestamp, i64))| {
        let end = begin.plus(span.step);
        let is_chosen =
            from.is_none_or(|from| *begin >= from) && until.is_none_or(|until| end <= until);
        let mut query = form_urlencoded::Serializer::for_suffix(base.clone(), 1);
        query.append_pair("since", &begin.to_string());
        Bar {
            at: at * BAR,
            height: count * HEIGHT / axis.most,
            class: if is_chosen { "chosen" } else { "other" },
            title: format!(
                "{}: {} accepted",
                Moment(*begin).utc(),
                bounded(*count, i64::MAX)
            ),
            href: query.append_pair("before", &end.to_string()).finish(),
        }
    };
    let others = SPANS.iter().filter(|it| it.id != span.id);
    Ok(Histogram {
        bars: accepted.iter().enumerate().map(bar).collect(),
        axis,
        each: span.each,
        name: span.name,
        others: others
            .map(|it| (it.name, visit.query.with("span", it.id)))
            .collect(),
        base,
    })
}

impl Axis {
    fn of(span: &Span, now: Timestamp, highest: Option<i64>, unit: &str) -> Self {
        let most = round(highest.unwrap_or_default());
        let shown = |value: i64| format!("{}{unit}", bounded(value, i64::MAX));
        Axis {
            most,
            top: shown(most),
            middle: if most > 1 {
                shown(most / 2)
            } else {
                String::new()
            },
            from: Moment(from(span, now)),
            until: Moment(measures::begin(now, span.step)),
            step: i64::try_from(span.step.as_millis()).unwrap_or(i64::MAX),
        }
    }
}

/// The least number that is not below this one, has one digit that is not 0, and can be halved. At least 1.
fn round(highest: i64) -> i64 {
    let mut unit: i64 = 1;
    loop {
        let fits = [1, 2, 4, 6, 8].map(|it| it * unit);
        match fits.into_iter().find(|it| *it >= highest) {
            Some(most) => return most,
            None => unit = unit.saturating_mul(10),
        }
    }
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
            .map(|it| chart(it, span, now, &numbers))
            .collect(),
        table: table(&numbers),
    }
}

fn chart(drawing: &Drawing, span: &Span, now: Timestamp, numbers: &Numbers) -> Chart {
    let columns = drawing.columns;
    let of = |column: usize| {
        numbers
            .steps
            .iter()
            .map(move |(_, values)| values[column - 1])
    };
    let all = columns.iter().flat_map(|(column, _)| of(*column)).flatten();
    let axis = Axis::of(span, now, all.max(), drawing.unit);
    let shown = |value: Option<i64>| match value {
        Some(value) => format!("{}{}", bounded(value, i64::MAX), drawing.unit),
        None => "nothing".to_owned(),
    };
    let line = |(nth, (column, name)): (usize, &(usize, &'static str))| {
        let values: Vec<Option<i64>> = of(*column).collect();
        let text = values
            .iter()
            .map(|it| it.map_or_else(String::new, |it| it.to_string()));
        let is_flat = values.iter().all(|it| it.is_none_or(|it| it == 0));
        Line {
            class: format!("line{nth}"),
            name,
            last: shown(values.last().copied().flatten()),
            highest: shown(values.iter().copied().flatten().max()),
            values: text.collect::<Vec<_>>().join(","),
            pieces: if is_flat {
                Vec::new()
            } else {
                pieces(&values, axis.most)
            },
        }
    };
    Chart {
        id: drawing.id,
        title: drawing.title,
        lines: columns.iter().enumerate().map(line).collect(),
        axis,
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
