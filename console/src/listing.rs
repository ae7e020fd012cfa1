//! A list, in the three forms in which each can be had: as a page, as JSON and as CSV. Its address says
//! which, so a list that somebody sees can be fetched as it is.

use askama::Template;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::access::Visit;
use crate::act::Act;
use crate::frame::Frame;
use crate::pages::charts::Histogram;
use crate::shown::Cell;

/// Rows with the same columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The name of each column, for people; in JSON and CSV with `_` for spaces.
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
    /// The columns that a page leaves out where there is little space.
    pub lesser: &'static [&'static str],
    /// All columns are shown, whatever is in them, because rows come later.
    pub is_whole: bool,
    /// What a form is sent of each row that was chosen: a name and a value. Empty: none can be chosen.
    pub chosen: Vec<(String, String)>,
}

/// The part of a table that a page shows.
pub struct Seen<'a> {
    /// The names of the columns in which rows differ, and their classes.
    pub columns: Vec<(&'static str, &'static str)>,
    /// The columns with the same in each row, and what that is.
    pub same: Vec<(&'static str, &'a Cell)>,
    pub rows: Vec<SeenRow<'a>>,
}

pub struct SeenRow<'a> {
    /// The field that chooses it, and its value.
    pub choice: Option<&'a (String, String)>,
    pub cells: Vec<SeenCell<'a>>,
}

pub struct SeenCell<'a> {
    pub column: &'static str,
    pub class: String,
    pub cell: &'a Cell,
    /// It leads to what the row is about: the last link.
    pub opens: bool,
}

/// The name of a column, and what it shows of a row.
pub type Column<'a, T> = (&'static str, &'a dyn Fn(&T) -> Cell);

/// What a table can be made of.
pub trait Rows<T> {
    fn table(&self, columns: &[Column<'_, T>]) -> Table;
}

impl<T> Rows<T> for [T] {
    fn table(&self, columns: &[Column<'_, T>]) -> Table {
        let cells = |row: &T| columns.iter().map(|(_, cell)| cell(row)).collect();
        Table {
            columns: columns.iter().map(|(name, _)| *name).collect(),
            rows: self.iter().map(cells).collect(),
            ..Table::default()
        }
    }
}

impl Table {
    pub fn new(columns: &[&'static str]) -> Self {
        Table {
            columns: columns.to_vec(),
            ..Table::default()
        }
    }

    pub fn lesser(self, lesser: &'static [&'static str]) -> Self {
        Table { lesser, ..self }
    }

    /// A column that is empty in all rows is not shown, and what is the same in all of several rows is said once. A
    /// column of links is shown all the same.
    pub fn seen(&self) -> Seen<'_> {
        let mut same = Vec::new();
        let mut shown = Vec::new();
        for (at, name) in self.columns.iter().enumerate() {
            let mut cells = self.rows.iter().map(|row| &row[at]);
            let first = cells.next().unwrap_or(&Cell::None);
            let is_same = cells.all(|it| it == first) && !matches!(first, Cell::Link { .. });
            match first {
                _ if self.is_whole || self.rows.is_empty() => shown.push(at),
                Cell::None if is_same => {}
                first if is_same && self.rows.len() > 1 => same.push((*name, first)),
                _ => shown.push(at),
            }
        }
        let lesser = |at: usize| {
            let is_lesser = self.lesser.contains(&self.columns[at]);
            if is_lesser { "lesser" } else { "" }
        };
        let rows = self.rows.iter().enumerate().map(|(number, cells)| {
            let opens = cells.iter().rposition(|it| matches!(it, Cell::Link { .. }));
            SeenRow {
                choice: self.chosen.get(number),
                cells: shown
                    .iter()
                    .map(|at| SeenCell {
                        column: self.columns[*at],
                        class: format!("{} {}", cells[*at].column(), lesser(*at)),
                        cell: &cells[*at],
                        opens: opens == Some(*at),
                    })
                    .collect(),
            }
        });
        Seen {
            rows: rows.collect(),
            columns: shown
                .iter()
                .map(|at| (self.columns[*at], lesser(*at)))
                .collect(),
            same,
        }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    fn keys(&self) -> Vec<String> {
        let columns = self.columns.iter();
        columns
            .map(|column| column.to_lowercase().replace(' ', "_"))
            .collect()
    }

    fn json(&self) -> Vec<Value> {
        let keys = self.keys();
        let object = |row: &Vec<Cell>| {
            let fields = keys.iter().cloned().zip(row.iter().map(Cell::json));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }

    fn csv(&self) -> String {
        let line = |fields: Vec<String>| format!("{}\r\n", fields.join(","));
        let rows = self.rows.iter();
        let rows = rows.map(|row| line(row.iter().map(Cell::csv).collect()));
        line(self.keys()) + &rows.collect::<String>()
    }
}

/// A field by which a list is filtered.
#[derive(Clone, Debug)]
pub struct Filter {
    pub name: &'static str,
    /// Empty: it is not shown, and stays as it is when the others change.
    pub label: &'static str,
    pub value: String,
    /// The values to choose from; none for a text.
    pub choices: &'static [&'static str],
}

/// What can be done with the rows that somebody has chosen.
pub struct Chosen {
    /// Where the form is sent, and the label.
    pub buttons: Vec<(String, &'static str)>,
}

/// A filter that is set, and the way to the list without it.
pub struct Chip {
    pub label: &'static str,
    pub value: String,
    pub without: String,
}

#[derive(Default)]
pub struct Listing {
    /// The address of the list without its query.
    pub here: &'static str,
    pub title: &'static str,
    /// What the list has, in a sentence.
    pub about: &'static str,
    /// The command that shows the same.
    pub command: String,
    pub filters: Vec<Filter>,
    pub table: Table,
    /// What can be done.
    pub acts: Vec<Act>,
    pub chosen: Option<Chosen>,
    /// What came when, above the table.
    pub histogram: Option<Histogram>,
    /// What to say when there is nothing.
    pub empty: &'static str,
    /// What the reader must know of this page.
    pub note: Option<String>,
    /// The field of the query that names where the next page begins, and its value.
    pub next: Option<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage<'a> {
    frame: Frame<'a>,
    list: &'a Listing,
    chips: Vec<Chip>,
    next: Option<String>,
}

impl Listing {
    pub fn answer<R>(&self, visit: &Visit<R>) -> Response {
        match visit.query.get("format") {
            "json" => self.json(),
            "csv" => csv(&self.table, self.here),
            _ => {
                let next = self.next.as_ref();
                let page = ListPage {
                    frame: Frame::of(visit, self.here),
                    list: self,
                    chips: chips(visit, &self.filters),
                    next: next.map(|(name, value)| visit.query.with(name, value)),
                };
                Html(page.to_string()).into_response()
            }
        }
    }

    fn json(&self) -> Response {
        let next = self.next.as_ref().map(|(_, value)| value);
        json_answer(&json!({"items": self.table.json(), "next": next}))
    }
}

/// The filters that are set. A list without one of them begins with its first page.
pub fn chips<R>(visit: &Visit<R>, filters: &[Filter]) -> Vec<Chip> {
    let set = filters
        .iter()
        .filter(|it| !it.label.is_empty() && !visit.query.get(it.name).is_empty());
    set.map(|it| Chip {
        label: it.label,
        value: it.value.clone(),
        without: visit.query.without(&[it.name, "before", "after"]),
    })
    .collect()
}

/// The table in the format that the query of a page names, if it names one.
pub fn in_format<R>(visit: &Visit<R>, table: &Table, name: &str) -> Option<Response> {
    match visit.query.get("format") {
        "json" => Some(items(table)),
        "csv" => Some(csv(table, name)),
        _ => None,
    }
}

/// The answer as JSON of a page with one table.
pub fn items(table: &Table) -> Response {
    json_answer(&json!({"items": table.json(), "next": null}))
}

fn json_answer(value: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json")];
    (headers, value.to_string()).into_response()
}

/// The answer as CSV, as a file with the name of the list or of the kind of thing.
pub fn csv(table: &Table, name: &str) -> Response {
    let name = match name.trim_matches('/') {
        "" => "now".to_owned(),
        name => name.replace([' ', '/'], "-"),
    };
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"waybill-{name}.csv\""),
        ),
    ];
    (headers, table.csv()).into_response()
}

#[cfg(test)]
#[path = "../tests/unit/listing.rs"]
mod tests;
