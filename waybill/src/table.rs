//! Tables whose columns line up, for people; machines take `--json`.

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use platform::terminal;
use serde::Serialize;

/// Rows under a heading, each on a line of its own whatever is in its cells; the last column is as long as it needs to be.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        let mut table = Self::plain();
        table.row(heading.map(ToOwned::to_owned));
        table
    }

    /// Without a heading.
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

/// Prints for people; a reader that has gone away (`| head`) is not an error.
pub fn print(text: &str) -> Result<()> {
    was_read(terminal::out(text)).map(|_| ())
}

/// Whether anyone still reads what was printed.
pub fn was_read(printed: io::Result<()>) -> Result<bool> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

/// Prints for machines.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&format!("{}\n", terminal::pretty_json(value)?))
}
