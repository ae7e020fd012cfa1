//! Tables whose columns line up, for people to read. Machines use `--json`.

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use domain::time::Timestamp;
use lists::shown::Cell;
use lists::{Arguments, Extent, List, Page, Room, Wanted};
use platform::clock::Clock;
use platform::terminal;
use process::Misuse;
use serde::Serialize;
use store::sql::Db;
use uuid::Uuid;

/// The option of a command that has no other.
#[derive(clap::Args)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What a command shows that shows one thing.
#[derive(clap::Args)]
pub struct One {
    pub id: Uuid,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The options of a command that shows a list: its filters, how much of it, and in which form.
#[derive(clap::Args)]
pub struct Listed<L: List> {
    #[command(flatten)]
    pub asked: Arguments<L>,
    /// Print JSON: `items`, and `next` for the next page
    #[arg(long)]
    pub json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl<L: List> Listed<L> {
    /// Prints as many rows as are wanted, of as many pages as that takes.
    pub async fn print(&self, db: &Db, list: &L) -> Result<()> {
        let now = Clock::system().now();
        let limit = self.asked.limit.unwrap_or(match L::EXTENT {
            Extent::Whole => usize::MAX,
            Extent::First(_) | Extent::Pages => lists::ROWS,
        });
        let mut shown = Page {
            items: Vec::new(),
            next: self.asked.after.clone(),
            note: None,
        };
        loop {
            let wanted = Wanted {
                after: shown.next.as_deref(),
                limit: limit - shown.items.len(),
                now,
            };
            let page = list.page(db, &self.asked.filter, wanted).await;
            let page = page.map_err(|error| match error {
                lists::Error::Wrong(why) => Misuse(format!("--{why}")).into(),
                lists::Error::Database(error) => anyhow::Error::from(error),
            })?;
            shown.items.extend(page.items);
            (shown.next, shown.note) = (page.next, page.note);
            if shown.next.is_none() || shown.items.len() >= limit {
                break;
            }
        }
        if self.json {
            return print_json(&shown);
        }
        if self.csv {
            let cells = lists::cells::<L>(&shown.items);
            let csv = lists::csv(&lists::names::<L>(), &cells);
            return print(&csv.replace("\r\n", "\n"));
        }
        // Where there are some that are not shown, none is to be made.
        let make = L::MAKE.filter(|_| shown.note.is_none());
        let make = make.map_or(String::new(), |make| format!(" Make one:\n\n  {make}\n"));
        let empty = format!("{}{make}\n", L::EMPTY);
        print(&Table::of::<L>(&shown.items, now).or(&empty))?;
        if let Some(note) = shown.note {
            print(&format!("\n{note}\n"))?;
        }
        match shown.next {
            Some(next) => print(&format!(
                "\nThe next page: the same with\n--after={}\n",
                lists::shown::quoted(&next)
            )),
            None => Ok(()),
        }
    }
}

/// Rows under a heading. A line break in a cell is escaped, so what others wrote cannot look like a
/// row.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        let mut table = Self::plain();
        table.row(heading.map(ToOwned::to_owned));
        table
    }

    /// The table of a list. Sentences come last, because they may take several lines.
    pub fn of<L: List>(rows: &[L::Row], now: Timestamp) -> Self {
        let columns = L::COLUMNS.iter().filter(|it| it.room != Room::Lesser);
        let (last, first): (Vec<_>, Vec<_>) = columns.partition(|it| it.room == Room::Sentence);
        let mut columns = [first, last].concat();
        // What is empty in every row takes no room.
        if !rows.is_empty() {
            columns.retain(|it| rows.iter().any(|row| (it.cell)(row) != Cell::None));
        }
        let mut cells: Vec<Vec<(String, bool)>> = vec![
            columns
                .iter()
                .map(|it| (it.name.to_uppercase(), false))
                .collect(),
        ];
        for row in rows {
            let row = columns.iter().map(|it| (it.cell)(row).on_terminal(now));
            cells.push(row.collect());
        }
        // A column of numbers is aligned by their ends.
        for column in 0..columns.len() {
            let mut below = cells.iter().skip(1).map(|row| &row[column]);
            if below.any(|(_, is_number)| *is_number) {
                let widths = cells.iter().map(|row| length(&row[column].0));
                let width = widths.max().unwrap_or_default();
                for row in &mut cells {
                    row[column].0 = format!("{:>width$}", row[column].0);
                }
            }
        }
        let texts = |row: Vec<(String, bool)>| {
            let texts = row.into_iter();
            texts
                .map(|(text, _)| terminal::cell(&text).into_owned())
                .collect()
        };
        Table {
            rows: cells.into_iter().map(texts).collect(),
        }
    }

    /// A table without a heading.
    pub fn plain() -> Self {
        Table { rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| terminal::cell(&cell).into_owned());
        self.rows.push(cells.into());
    }

    /// A table of facts: the name of each, and its value.
    pub fn facts<const N: usize>(facts: [(&str, String); N]) -> Self {
        let mut table = Self::plain();
        for (name, value) in facts {
            table.fact(name, value);
        }
        table
    }

    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.row([name.to_owned(), value.into()]);
    }

    /// The table as text, if it has rows below its heading.
    pub fn filled(&self) -> Option<String> {
        (self.rows.len() > 1).then(|| self.render())
    }

    /// The table as text, or this text when it has a heading alone.
    pub fn or(&self, nothing: &str) -> String {
        self.filled().unwrap_or_else(|| nothing.to_owned())
    }

    /// The table as text. On a terminal no line is longer than the terminal is wide.
    pub fn render(&self) -> String {
        self.fit(terminal::out_width())
    }

    /// The table in lines of at most `width` characters. If its columns have no room side by side,
    /// the last ones are put on further lines, indented, in the heading and in every row. Cells that
    /// are longer than a line are broken between words. Nothing is left out, so that ids can still
    /// be copied.
    fn fit(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| length(cell)).max().unwrap_or(0)
            })
            .collect();
        let groups = groups(&widths, width.unwrap_or(usize::MAX));
        let mut text = String::new();
        for row in &self.rows {
            for group in &groups {
                group.write(row, &widths, &mut text);
            }
        }
        text
    }
}

/// The name of a column, and what it shows of a row.
pub type Column<'a, T> = (&'static str, &'a dyn Fn(&T) -> String);

/// What a table can be made of.
pub trait Rows<T> {
    fn table(&self, columns: &[Column<'_, T>]) -> Table;
}

impl<T> Rows<T> for [T] {
    fn table(&self, columns: &[Column<'_, T>]) -> Table {
        let cell = |text: &str| terminal::cell(text).into_owned();
        let heading = columns.iter().map(|(name, _)| cell(name)).collect();
        let row = |row: &T| columns.iter().map(|(_, of)| cell(&of(row))).collect();
        let rows = self.iter().map(row);
        Table {
            rows: std::iter::once(heading).chain(rows).collect(),
        }
    }
}

/// A value that may be missing, as a cell shows it.
pub fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A text that may be empty, as a cell shows it.
pub fn or_dash(text: &str) -> String {
    or_none(Some(text).filter(|text| !text.is_empty()))
}

/// What lies between two columns, and before the columns of further lines.
const GAP: usize = 2;
const INDENT: usize = 4;
/// A last column that is longer than the line is broken where it stands, if it has at least this
/// much room there.
const LEAST_ROOM: usize = 30;

/// Columns that stand side by side.
struct Group {
    columns: std::ops::Range<usize>,
    indent: usize,
    /// How much room the last of the columns has.
    room: usize,
}

fn groups(widths: &[usize], width: usize) -> Vec<Group> {
    let mut groups = Vec::new();
    let (mut begin, mut indent, mut used) = (0, 0, 0);
    for (column, own) in widths.iter().enumerate() {
        let before = if column == begin { indent } else { used + GAP };
        let is_last = column + 1 == widths.len();
        let room = width.saturating_sub(before);
        let fits = *own <= room || (is_last && room >= LEAST_ROOM);
        if fits || column == begin {
            used = before.saturating_add(*own);
            continue;
        }
        groups.push(Group {
            columns: begin..column,
            indent,
            room: usize::MAX,
        });
        (begin, indent) = (column, INDENT);
        used = indent.saturating_add(*own);
    }
    let before = widths.len().checked_sub(1).map_or(0, |last| {
        let others = widths[begin.min(last)..last].iter();
        indent + others.map(|own| own + GAP).sum::<usize>()
    });
    groups.push(Group {
        columns: begin..widths.len(),
        indent,
        room: width.saturating_sub(before).max(1),
    });
    // Among the others, only a column that stands alone can be longer than the line.
    for group in &mut groups {
        if group.columns.len() == 1 {
            group.room = width.saturating_sub(group.indent).max(1);
        }
    }
    groups
}

impl Group {
    fn write(&self, row: &[String], widths: &[usize], text: &mut String) {
        let cells = row.get(self.columns.clone());
        let cells = cells.unwrap_or_else(|| row.get(self.columns.start..).unwrap_or_default());
        let is_empty = cells.iter().all(String::is_empty);
        if is_empty && self.columns.start > 0 {
            return;
        }
        let mut line = " ".repeat(self.indent);
        let Some((last, others)) = cells.split_last() else {
            text.push('\n');
            return;
        };
        for (cell, width) in others.iter().zip(&widths[self.columns.start..]) {
            let _ = write!(line, "{cell:width$}{:GAP$}", "");
        }
        let below = " ".repeat(length(&line));
        let mut parts = broken(last, self.room).into_iter();
        line += parts.next().unwrap_or_default();
        text.push_str(line.trim_end());
        text.push('\n');
        for part in parts {
            text.extend([&below, part, "\n"]);
        }
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The text in parts of at most `room` characters, broken between words where there are any.
fn broken(text: &str, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(room) {
        // A space right after the room is a place to break, too.
        let next = rest[end..].chars().next().map_or(0, char::len_utf8);
        let space = rest[..end + next].rfind(' ').filter(|at| *at > 0);
        let (part, after) = match space {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => rest.split_at(end),
        };
        parts.push(part.trim_end());
        rest = after;
    }
    parts.push(rest);
    parts
}

/// Prints text for people. It is not an error if the reader has gone away (`| head`).
pub fn print(text: &str) -> Result<()> {
    was_read(terminal::out(text)).map(|_| ())
}

/// Turns the result of printing into whether anyone still reads the output. A closed pipe is not
/// an error.
pub fn was_read(printed: io::Result<()>) -> Result<bool> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

/// Prints a value: as JSON for machines, or this text for people.
pub fn show(is_json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    if is_json {
        return print_json(value);
    }
    print(&text())
}

/// Prints a value as JSON for machines.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&format!("{}\n", terminal::pretty_json(value)?))
}

#[cfg(test)]
#[path = "../tests/unit/table.rs"]
mod tests;
