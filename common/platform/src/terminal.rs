//! The one place that writes to a terminal.
//!
//! A text that somebody else wrote, such as the name of an order, must never command the
//! terminal. So control characters, and the marks that change the direction of writing, are shown
//! escaped, and such a text cannot move the cursor, change the title or hide anything. Nothing
//! else writes to standard output or standard error (`clippy.toml`), except clap, which repeats
//! what its caller typed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

/// Whether a person reads standard output.
#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
pub fn out_is_one() -> bool {
    io::stdout().is_terminal()
}

/// How many characters a line of standard output has room for. None if no person reads it, or if
/// the terminal does not say.
#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
pub fn out_width() -> Option<usize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Whether a person reads standard error.
#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
pub fn err_is_one() -> bool {
    io::stderr().is_terminal()
}

/// Prints lines for people on standard output.
pub fn out(text: &str) -> io::Result<()> {
    out_as_it_is(lines(text).as_bytes())
}

/// Prints lines on standard error for the one who runs the command. A failure to do so is
/// ignored.
pub fn err(text: &str) {
    err_as_it_is(&lines(text));
}

/// Writes a line of progress over the one before, where people read it. An empty line removes it.
pub fn over(line: &str) {
    if err_is_one() {
        err_as_it_is(&format!("\r\x1b[K{}", cell(line)));
    }
}

/// The value as JSON. Control characters in its texts are escaped as JSON escapes them, so that a
/// program reads the text unchanged.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_text(&serde_json::to_string(value)?).into_owned())
}

/// The same as [`json`], in several lines.
pub fn pretty_json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_text(&serde_json::to_string_pretty(value)?).into_owned())
}

/// Prints a document. It is unchanged, byte by byte, for a reader who compares its checksum; on a
/// terminal it is escaped as by [`json`].
pub fn document(document: &str) -> io::Result<()> {
    if out_is_one() {
        return out_as_it_is(json_text(document).as_bytes());
    }
    out_as_it_is(document.as_bytes())
}

/// Prints a drawing of this program, with colours. It must not contain a text of others.
pub fn drawing(drawing: &str) -> io::Result<()> {
    out_as_it_is(drawing.as_bytes())
}

/// Prints a line of the log, whose values were escaped when they were recorded.
pub(crate) fn log(line: &str) {
    err_as_it_is(line);
}

#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
fn out_as_it_is(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// A failure to write is ignored, because there is nowhere to report it.
#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
fn err_as_it_is(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

/// A text within a line, with its own line breaks escaped.
pub fn cell(text: &str) -> Cow<'_, str> {
    escaped(text, commands, |c, into| into.extend(c.escape_default()))
}

/// The text with its line breaks and tabs kept, because these are intended.
fn lines(text: &str) -> Cow<'_, str> {
    let meant = |c: char| commands(c) && !matches!(c, '\n' | '\t');
    escaped(text, meant, |c, into| into.extend(c.escape_default()))
}

/// JSON with its line breaks kept. Anything else that could command a terminal stands only in the
/// texts within it.
fn json_text(text: &str) -> Cow<'_, str> {
    let within = |c: char| commands(c) && c != '\n';
    escaped(text, within, |c, into| {
        let _ = write!(into, "\\u{:04x}", u32::from(c));
    })
}

/// True for characters that a terminal obeys instead of showing. All of them are below U+10000.
fn commands(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) {
            escape(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
#[path = "../tests/unit/terminal.rs"]
mod tests;
