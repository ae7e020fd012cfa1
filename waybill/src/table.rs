//! Tables whose columns line up, for people to read. Machines use `--json`.

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use platform::terminal;
use serde::Serialize;

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

    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
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
