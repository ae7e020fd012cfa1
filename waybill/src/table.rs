//! Tables whose columns line up, for people to read. Machines use `--json`.

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use platform::terminal;
use serde::Serialize;

/// How many characters of the last column are shown in any case.
const LEAST: usize = 6;

/// Rows under a heading. Each row is printed on one line, whatever its cells contain. The last
/// column is as long as it needs to be.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        let mut table = Self::plain();
        table.row(heading.map(ToOwned::to_owned));
        table
    }

    /// A table without a heading.
    pub fn plain() -> Self {
        Table { rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| terminal::cell(&cell).into_owned());
        self.rows.push(cells.into());
    }

    /// The table with lines of at most `most` characters: the cells of the last column are cut, but
    /// not to less than [`LEAST`].
    pub fn render_within(mut self, most: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let last = columns.saturating_sub(1);
        let before: usize = (0..last).map(|column| self.width(column) + 2).sum();
        let room = most.saturating_sub(before).max(LEAST);
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(last)) {
            *cell = cut(cell, room);
        }
        self.render()
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The text with at most so many characters. `..` stands for what was cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let begin: String = text.chars().take(most.saturating_sub(2)).collect();
    format!("{begin}..")
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

/// Prints a value as JSON for machines.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&format!("{}\n", terminal::pretty_json(value)?))
}
