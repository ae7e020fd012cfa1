//! A list, in the three forms in which each can be had: as a page, as JSON and as CSV. Its address says
//! which, so a list that somebody sees can be fetched as it is.

use askama::Template;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use lists::form::{Field, Values};
use lists::{Asked, Extent, List, Room, Wanted};
use serde_json::{Map, Value, json};

use crate::access::{Reader, Visit};
use crate::act::{Act, Look};
use crate::error::Error;
use crate::frame::Frame;
use crate::pages::charts::Histogram;
use lists::shown::Cell;

/// Rows with the same columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The name of each column, for people; in JSON and CSV with `_` for spaces.
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
    /// The columns that a page leaves out where there is little space.
    pub lesser: Vec<&'static str>,
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

    /// The table of a list that is described.
    pub fn of<L: List>(rows: &[L::Row]) -> Self {
        let lesser = L::COLUMNS.iter().filter(|it| it.room == Room::Lesser);
        Table {
            columns: lists::names::<L>(),
            rows: lists::cells::<L>(rows),
            lesser: lesser.map(|it| it.name).collect(),
            ..Table::default()
        }
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

    fn json(&self) -> Vec<Value> {
        let keys: Vec<String> = self.columns.iter().map(|it| lists::key(it)).collect();
        let object = |row: &Vec<Cell>| {
            let fields = keys.iter().cloned().zip(row.iter().map(Cell::json));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}

/// What can be done with the rows that somebody has chosen.
pub struct Chosen {
    /// Where the form is sent, and the label.
    pub buttons: Vec<(String, &'static str, Look)>,
}

/// A filter that is set, and the way to the list without it.
pub struct Chip {
    pub label: String,
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
    pub filters: Vec<Field>,
    /// What stays as it is when filters change.
    pub kept: Option<(&'static str, String)>,
    pub table: Table,
    /// The rows as JSON. None: what the table shows of them.
    pub items: Option<Value>,
    /// What can be done.
    pub acts: Vec<Act>,
    pub chosen: Option<Chosen>,
    /// What came when, above the table.
    pub histogram: Option<Histogram>,
    /// What to say when there is nothing.
    pub empty: &'static str,
    /// What the reader must know of this page.
    pub note: Option<String>,
    /// Where the next page begins.
    pub next: Option<String>,
}

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage<'a> {
    frame: Frame<'a>,
    list: &'a Listing,
    chips: Vec<Chip>,
    next: Option<String>,
}

/// A page of a list that is described, as the query asks for it.
pub struct Read<L: List> {
    pub listing: Listing,
    pub filter: L::Filter,
    pub rows: Vec<L::Row>,
}

/// How many rows a page has of a list that has pages.
const PAGE: usize = 50;
/// The most that a page shows.
const MOST: usize = 500;

/// What the query of a page asks of a list.
pub fn asked<L: List, R>(visit: &Visit<R>) -> Result<Asked<L>, Error> {
    Ok(lists::asked(|name| Some(visit.query.get(name)))?)
}

/// Reads what a page shows of a list.
pub async fn read<L: List, R>(visit: &Visit<R>, list: &L) -> Result<Read<L>, Error> {
    let Asked {
        arguments,
        fields,
        command,
    } = asked::<L, R>(visit)?;
    let usual = match L::EXTENT {
        Extent::Pages => PAGE,
        Extent::First(rows) => rows,
        Extent::Whole => MOST,
    };
    let wanted = Wanted {
        after: arguments.after.as_deref(),
        limit: arguments.limit.unwrap_or(usual).min(MOST),
        now: visit.now(),
    };
    let page = list.page(visit.db(), &arguments.filter, wanted).await?;
    let rows = page.items.len();
    let command = if L::EXTENT != Extent::Whole && rows > lists::ROWS {
        format!("{command} --limit {rows}")
    } else {
        command
    };
    let is_json = visit.query.get("format") == "json";
    let listing = Listing {
        here: L::PAGE,
        title: L::TITLE,
        about: L::ABOUT,
        command,
        filters: fields,
        table: Table::of::<L>(&page.items),
        items: is_json.then(|| json!(page.items)),
        empty: L::EMPTY,
        note: page.note,
        next: page.next,
        ..Listing::default()
    };
    Ok(Read {
        listing,
        filter: arguments.filter,
        rows: page.items,
    })
}

/// The page of a list about which nothing more is to be said.
pub async fn page<L: List>(visit: &Visit<Reader>, list: &L) -> Result<Response, Error> {
    Ok(read(visit, list).await?.listing.answer(visit))
}

impl Listing {
    pub fn answer<R>(&self, visit: &Visit<R>) -> Response {
        match visit.query.get("format") {
            "json" => self.json(),
            "csv" => csv(&self.table, self.here),
            _ => {
                let next = self.next.as_deref();
                let page = ListPage {
                    frame: Frame::of(visit, self.here),
                    list: self,
                    chips: chips(visit, &self.filters),
                    next: next.map(|next| visit.query.with("after", next)),
                };
                Html(page.to_string()).into_response()
            }
        }
    }

    fn json(&self) -> Response {
        let items = self.items.clone();
        let items = items.unwrap_or_else(|| self.table.json().into());
        json_answer(&json!({"items": items, "next": self.next}))
    }
}

/// The filters that are set. A list without one of them begins with its first page.
pub fn chips<R>(visit: &Visit<R>, filters: &[Field]) -> Vec<Chip> {
    let set = filters.iter().filter(|it| !it.value.is_empty());
    set.map(|it| Chip {
        label: it.label.clone(),
        value: it.value.clone(),
        without: visit.query.without(&[&it.name, "after"]),
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
    let text = lists::csv(&table.columns, &table.rows);
    (headers, text).into_response()
}

#[cfg(test)]
#[path = "../tests/unit/listing.rs"]
mod tests;
