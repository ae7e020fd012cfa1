//! The one place that writes to a terminal.
//!
//! What somebody else wrote, such as the name of an order, is text here and never a command:
//! control characters, and the marks that turn the direction of writing, are shown escaped, so
//! that it moves no cursor, changes no title and hides nothing. Nothing else writes to standard
//! output or standard error (`clippy.toml`), but for clap, which repeats what its caller typed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

/// Whether a person reads standard output.
#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
pub fn out_is_one() -> bool {
    io::stdout().is_terminal()
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

/// Says lines to whoever runs the command, on standard error. Nobody hears of it when that fails.
pub fn err(text: &str) {
    err_as_it_is(&lines(text));
}

/// Writes a line of how far it is over the one before; an empty one takes it away.
pub fn over(line: &str) {
    err_as_it_is(&format!("\r\x1b[K{}", cell(line)));
}

/// JSON: control characters within its texts as JSON escapes them, so that machines get what was
/// sent.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_text(&serde_json::to_string(value)?).into_owned())
}

/// As [`json`], in several lines.
pub fn pretty_json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_text(&serde_json::to_string_pretty(value)?).into_owned())
}

/// A document, byte by byte, for whoever compares its checksum; on a terminal as [`json`] is.
pub fn document(document: &str) -> io::Result<()> {
    if out_is_one() {
        return out_as_it_is(json_text(document).as_bytes());
    }
    out_as_it_is(document.as_bytes())
}

/// What this program drew itself, with colours: no text of others may be in it.
pub fn drawing(drawing: &str) -> io::Result<()> {
    out_as_it_is(drawing.as_bytes())
}

/// A line of the log, whose values were escaped when they were recorded.
pub(crate) fn log(line: &str) {
    err_as_it_is(line);
}

#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
fn out_as_it_is(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// When writing fails there is nowhere left to say so.
#[expect(clippy::disallowed_methods, reason = "this is the terminal's one home")]
fn err_as_it_is(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

/// A text within a line: it has no line break of its own.
pub fn cell(text: &str) -> Cow<'_, str> {
    escaped(text, commands, |c, into| into.extend(c.escape_default()))
}

/// Lines: their breaks and tabs are meant.
fn lines(text: &str) -> Cow<'_, str> {
    let meant = |c: char| commands(c) && !matches!(c, '\n' | '\t');
    escaped(text, meant, |c, into| into.extend(c.escape_default()))
}

/// Only within texts has JSON anything but line breaks that could command.
fn json_text(text: &str) -> Cow<'_, str> {
    let within = |c: char| commands(c) && c != '\n';
    escaped(text, within, |c, into| {
        let _ = write!(into, "\\u{:04x}", u32::from(c));
    })
}

/// What a terminal does instead of showing it; all of them are below U+10000.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_of_others_is_shown_and_not_obeyed() {
        let name = "\u{1b}[31m#7\u{7}\n\u{9b}0m\u{202e}é😀";
        assert_eq!(cell(name), r"\u{1b}[31m#7\u{7}\n\u{9b}0m\u{202e}é😀");
        assert_eq!(lines("a\n\tb\rc"), "a\n\tb\\rc");
        assert_eq!(cell("Ångström 1 €"), "Ångström 1 €");
        let printed = json(&name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), name);
        assert!(!printed.contains(commands), "{printed:?}");
    }

    proptest! {
        #[test]
        fn whatever_the_text_nothing_in_it_commands(text in any::<String>()) {
            prop_assert!(!cell(&text).contains(commands));
            let meant = |c: char| commands(c) && !matches!(c, '\n' | '\t');
            prop_assert!(!lines(&text).contains(meant));
            let printed = json(&text).unwrap();
            prop_assert!(!printed.contains(commands));
            prop_assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), text);
        }
    }
}
