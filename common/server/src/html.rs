//! How text that others wrote gets into a page.

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html};

/// The filter through which every value gets into a template (`askama.toml` of each crate with pages). It
/// escapes the value, and removes the control characters that HTML cannot express.
#[derive(Clone, Copy)]
pub struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        let is_invisible = |c: char| c.is_control() && c != '\n';
        text.split(is_invisible)
            .try_for_each(|part| Html.write_escaped_str(&mut dest, part))
    }
}
