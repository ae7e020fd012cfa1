//! What operators list. A list is described here once: which filters it takes, what its rows and its columns are,
//! and how a page of it is read. From that come the command with its options, help and completion, the page of the
//! console with its form, the JSON and the CSV. A new list is an implementation of [`List`].
//!
//! What operators do is described here too ([`deeds`]); the form of the console is made of the arguments of the command
//! ([`form`]).

use std::future::Future;
use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use domain::job::JobId;
use domain::time::Timestamp;
use serde::Serialize;
use store::sql::{self, Db};

pub mod age;
pub mod attention;
pub mod audit;
pub mod deeds;
pub mod events;
pub mod form;
pub mod jobs;
pub mod orders;
pub mod orgs;
pub mod payments;
pub mod people;
pub mod providers;
pub mod shown;
pub mod words;

use crate::form::{Empty, Field};
use crate::shown::Cell;

/// How many rows a command shows when no limit is given.
pub const ROWS: usize = 20;
/// The most that can be asked for at once.
pub const MOST: usize = 10_000;

/// A list of operators.
pub trait List: Send + Sync {
    /// The options by which it is filtered.
    type Filter: Args + Send + Sync;
    /// A row. As JSON it is what programs get.
    type Row: Serialize + Send + Sync + 'static;

    /// The address of its page in the console.
    const PAGE: &'static str;
    /// The words of its command after `waybill`.
    const COMMAND: &'static str;
    const TITLE: &'static str;
    /// What it has, and in which sequence.
    const ABOUT: &'static str;
    /// What is said when there is no row.
    const EMPTY: &'static str;
    /// The command that makes the first row, where people make them.
    const MAKE: Option<&'static str> = None;
    const EXTENT: Extent;
    const COLUMNS: &'static [Column<Self::Row>];

    fn page(
        &self,
        db: &Db,
        filter: &Self::Filter,
        wanted: Wanted<'_>,
    ) -> impl Future<Output = Result<Page<Self::Row>, Error>> + Send;
}

/// The filter of a list that has none.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Any {}

/// How much of a list can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All rows at once, because there are never many.
    Whole,
    /// The first rows alone; a page of the console shows so many.
    First(usize),
    /// All rows, page by page.
    Pages,
}

/// A column: its name, and what it shows of a row.
#[derive(Debug)]
pub struct Column<Row> {
    pub name: &'static str,
    pub cell: fn(&Row) -> Cell,
    pub room: Room,
}

/// What becomes of a column where there is little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Always,
    /// A terminal does not show it, and a page only where there is much room.
    Lesser,
    /// Sentences, which get the room that is left. A terminal shows them last, over several lines.
    Sentence,
}

pub const fn column<Row>(name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column {
        name,
        cell,
        room: Room::Always,
    }
}

pub const fn lesser<Row>(name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column {
        name,
        cell,
        room: Room::Lesser,
    }
}

pub const fn sentence<Row>(name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column {
        name,
        cell,
        room: Room::Sentence,
    }
}

/// Which page is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The cursor that the page before has named.
    pub after: Option<&'a str>,
    pub limit: usize,
    pub now: Timestamp,
}

impl Wanted<'_> {
    /// The limit, as statements take it.
    pub fn rows(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX)
    }

    /// The cursor, read by `read`.
    fn cursor<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Error> {
        let wrong =
            || Error::Wrong("after: it must be the cursor that a page has named".to_owned());
        self.after
            .map(|text| read(text.trim()).ok_or_else(wrong))
            .transpose()
    }

    /// A cursor that is the time of the last row and its job.
    fn place(&self) -> Result<Option<(Timestamp, JobId)>, Error> {
        self.cursor(|text| {
            let (at, id) = text.split_once('.')?;
            Some((Timestamp(at.parse().ok()?), id.parse().ok()?))
        })
    }
}

/// The cursor of such a place.
fn place((at, id): (Timestamp, JobId)) -> String {
    format!("{}.{id}", at.0)
}

/// Some rows of a list.
#[derive(Debug, Serialize)]
pub struct Page<Row> {
    pub items: Vec<Row>,
    /// What to give as `after` for the next page. Null: that was all.
    pub next: Option<String>,
    /// What a reader must know of this page; null: nothing.
    pub note: Option<String>,
}

impl<Row> Page<Row> {
    /// All rows that there are.
    fn whole(items: Vec<Row>) -> Self {
        Page {
            items,
            next: None,
            note: None,
        }
    }

    /// The first rows. When there are as many as were wanted, there may be more.
    fn first(items: Vec<Row>, wanted: Wanted<'_>) -> Self {
        let is_full = items.len() >= wanted.limit;
        let note = is_full.then(|| {
            format!(
                "These are the first {}. There may be more: give a larger `limit`.",
                wanted.limit
            )
        });
        Page {
            items,
            next: None,
            note,
        }
    }

    /// A page that is full unless it is the last one, whose last row is the cursor.
    fn full(items: Vec<Row>, wanted: Wanted<'_>, cursor: impl FnOnce(&Row) -> String) -> Self {
        let is_full = items.len() >= wanted.limit;
        let next = items.last().filter(|_| is_full).map(cursor);
        Page {
            items,
            next,
            note: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense, and why.
    #[error("{0}")]
    Wrong(String),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// What is asked of a list: its filters, how many rows, and where they begin.
pub struct Arguments<L: List> {
    pub filter: L::Filter,
    /// None: as many as whoever shows it has room for.
    pub limit: Option<usize>,
    pub after: Option<String>,
    list: PhantomData<L>,
}

impl<L: List> Args for Arguments<L> {
    fn augment_args(command: Command) -> Command {
        let command = L::Filter::augment_args(command);
        let command = match L::EXTENT {
            Extent::Whole => command,
            Extent::First(_) | Extent::Pages => command.arg(
                Arg::new(LIMIT)
                    .long(LIMIT)
                    .value_parser(clap::value_parser!(u64).range(1..=MOST as u64))
                    .help(format!("Show at most this many [default: {ROWS}]")),
            ),
        };
        match L::EXTENT {
            Extent::Whole | Extent::First(_) => command,
            Extent::Pages => command.arg(Arg::new(AFTER).long(AFTER).value_name("CURSOR").help(
                "The next page: go on after this cursor, which the page before names at its end (in JSON: `next`)",
            )),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

const LIMIT: &str = "limit";
const AFTER: &str = "after";

impl<L: List> FromArgMatches for Arguments<L> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let limit = matches.try_get_one::<u64>(LIMIT).ok().flatten();
        let after = matches.try_get_one::<String>(AFTER).ok().flatten();
        Ok(Arguments {
            filter: L::Filter::from_arg_matches(matches)?,
            limit: limit.and_then(|it| usize::try_from(*it).ok()),
            after: after.cloned(),
            list: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What the fields of an address ask of a list.
pub struct Asked<L: List> {
    pub arguments: Arguments<L>,
    pub fields: Vec<Field>,
    /// The command that shows the same.
    pub command: String,
}

/// Reads the fields of an address, as the command reads its options. `given` has the value of a field, or nothing.
pub fn asked<'a, L: List>(given: impl Fn(&str) -> Option<&'a str>) -> Result<Asked<L>, Error> {
    let mut fields = form::fields::<Arguments<L>>(&given);
    let arguments = form::read::<Arguments<L>>(&given, Empty::LeftOut)?;
    fields.retain(|it| it.name != AFTER);
    let command = form::command(L::COMMAND, &fields);
    fields.retain(|it| it.name != LIMIT);
    Ok(Asked {
        arguments,
        fields,
        command,
    })
}

/// The cells of each row.
pub fn cells<L: List>(rows: &[L::Row]) -> Vec<Vec<Cell>> {
    let cells = |row| L::COLUMNS.iter().map(|it| (it.cell)(row)).collect();
    rows.iter().map(cells).collect()
}

/// The names of the columns.
pub fn names<L: List>() -> Vec<&'static str> {
    L::COLUMNS.iter().map(|it| it.name).collect()
}

/// Rows as CSV (RFC 4180).
pub fn csv(names: &[&str], rows: &[Vec<Cell>]) -> String {
    let line = |fields: Vec<String>| format!("{}\r\n", fields.join(","));
    let head = line(names.iter().map(|it| key(it)).collect());
    let rows = rows
        .iter()
        .map(|row| line(row.iter().map(Cell::csv).collect()));
    head + &rows.collect::<String>()
}

/// The name of a column for programs.
pub fn key(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}
