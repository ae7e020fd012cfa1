//! The file `.env` in the folder where the program is started, in which settings may be kept beside
//! the environment.
//!
//! Decisions:
//! 1. A flag comes before the environment, the environment before `.env`, and `.env` before the
//!    default. So a supervisor that sets variables is never overruled by a file.
//! 2. Only the folder in which the program runs is looked in, and not those above it.
//! 3. A name without a value is as good as a name that is not there, because `.env.example` has
//!    such lines to be filled in.
//! 4. Names that are not settings are passed over, since other programs, such as compose, read the
//!    same file. Misspelt names of ours are mistakes, as in the environment.
//! 5. Somebody who can write the file can lead our credentials to their own host. So a file is not
//!    read that belongs to another user than the one who runs the program or root, or that others
//!    may write.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub const NAME: &str = ".env";

/// The permission bits of users other than the owner to write a file, and to read it.
const WRITTEN_BY_OTHERS: u32 = 0o022;
const READ_BY_OTHERS: u32 = 0o044;

/// The values of the file by name; nothing if there is no file. An error says what is wrong with
/// the file, without its content.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let unreadable = |error: io::Error| format!("{NAME}: cannot read {}: {error}", path.display());
    let file = match std::fs::metadata(path) {
        Ok(file) if file.is_file() => file,
        Ok(_) => return Ok(BTreeMap::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let ours = [0, rustix::process::getuid().as_raw()];
    if !ours.contains(&file.uid()) || file.mode() & WRITTEN_BY_OTHERS != 0 {
        return Err(format!(
            "{NAME} in this folder is not read, because others than you may have written it: make \
             it your own (chown, chmod 600), or start the program in another folder"
        ));
    }
    parse(&std::fs::read_to_string(path).map_err(unreadable)?)
}

/// The permissions of the file if other users of this machine can read it.
pub fn read_by_others() -> Option<String> {
    let file = std::fs::metadata(NAME)
        .ok()
        .filter(std::fs::Metadata::is_file)?;
    let mode = file.mode() & 0o777;
    (mode & READ_BY_OTHERS != 0).then(|| format!("{NAME} has mode {mode:o}"))
}

/// The values in the text of such a file.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let wrong = |what: &str| format!("{NAME}, line {number}: {what}");
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| wrong("must be NAME=value"))?;
        let value = unquoted(value.trim())
            .ok_or_else(|| wrong("the quotation marks around its value do not fit"))?;
        if !value.is_empty() {
            values.insert(name.trim().to_owned(), value);
        }
    }
    Ok(values)
}

/// The value without its quotation marks. Within single ones everything is as it is; within double
/// ones a backslash stands before `"`, `\`, `$` and `n`. Without any, a comment begins with ` #`.
fn unquoted(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('\'') {
        let (value, rest) = rest.split_once('\'')?;
        return is_over(rest).then(|| value.to_owned());
    }
    let Some(rest) = value.strip_prefix('"') else {
        let end = value.find(" #").unwrap_or(value.len());
        return Some(value[..end].trim_end().to_owned());
    };
    let mut value = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => return is_over(letters.as_str()).then_some(value),
            '\\' => match letters.next()? {
                'n' => value.push('\n'),
                c @ ('"' | '\\' | '$') => value.push(c),
                c => value.extend(['\\', c]),
            },
            c => value.push(c),
        }
    }
}

/// Whether nothing but a comment follows a value.
fn is_over(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with('#')
}
