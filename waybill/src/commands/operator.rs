//! Who is at the keyboard, for the audit.

use std::process::{Command, Stdio};

use common::store::audit;

const LONGEST: usize = 60;

/// A name that somebody gives themselves.
pub fn name(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@+ ".contains(c);
    if text.is_empty() || text.chars().count() > LONGEST || !text.chars().all(is_plain) {
        return Err("it must be a name of up to 60 letters, digits, spaces and any of -_.@+");
    }
    Ok(text.to_owned())
}

/// As in the audit: `operator:ann`. Without a name it is the user of the operating system; where
/// that has none, as in a container, `operator`.
pub fn actor(by: Option<&str>) -> String {
    let by = by.map(ToOwned::to_owned).or_else(user);
    by.map_or(audit::OPERATOR.to_owned(), |name| {
        format!("{}:{name}", audit::OPERATOR)
    })
}

/// Asked of the system and not of the environment, which anyone may set.
fn user() -> Option<String> {
    let asked = Command::new("id").arg("-un").stderr(Stdio::null()).output();
    let said = asked.ok().filter(|said| said.status.success())?;
    name(&String::from_utf8(said.stdout).ok()?).ok()
}
