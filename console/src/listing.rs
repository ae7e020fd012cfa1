//! A list, in the three forms in which each can be had: as a page, as JSON and as CSV. Its address says
//! which, so a list that somebody sees can be fetched as it is.

use askama::Template;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::access::Visit;
use crate::act::Act;
use crate::frame::Frame;
use crate::shown::Cell;

/// Rows with the same columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The name of each column, for people; in JSON and CSV with `_` for spaces.
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
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
        }
    }
}

impl Table {
    pub fn new(columns: &[&'static str]) -> Self {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
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
    pub label: &'static str,
    pub value: String,
    /// The values to choose from; none for a text.
    pub choices: &'static [&'static str],
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
