//! Who is at the keyboard, for the audit.

use std::process::{Command, Stdio};

use anyhow::Result;
use config::Settings;
use domain::privacy::Keys;
use domain::time::Timestamp;
use store::audit::{self, By};
use store::sql::Db;

use crate::commands::privacy;

const LONGEST: usize = 60;

/// Of every command that leaves an entry in the audit.
#[derive(clap::Args)]
pub struct Operator {
    /// Who does it, for the audit. Default: the user of this system
    #[arg(long, value_name = "NAME", value_parser = name)]
    by: Option<String>,
}

impl Operator {
    /// As in the audit.
    pub fn actor(&self) -> String {
        actor(self.by.as_deref())
    }

    /// Somebody who can write into the audit. Only `PRIVACY_KEY` and what belongs to it must be
    /// right.
    pub async fn author(&self, settings: &Settings, db: &Db) -> Result<Author> {
        Ok(Author {
            keys: privacy::keys(settings, db).await?,
            actor: self.actor(),
        })
    }
}

pub struct Author {
    pub keys: Keys,
    actor: String,
}

impl Author {
    pub fn by(&self, now: Timestamp) -> By<'_> {
        By {
            keys: &self.keys,
            actor: &self.actor,
            now,
        }
    }
}

/// A name that somebody gives themselves.
fn name(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@+ ".contains(c);
    if text.is_empty() || text.chars().count() > LONGEST || !text.chars().all(is_plain) {
        return Err("it must be a name of up to 60 letters, digits, spaces and any of -_.@+");
    }
    Ok(text.to_owned())
}

/// As in the audit: `operator:ann`. Without a name it is the user of the operating system; where
/// that has none, as in a container, `operator`.
fn actor(by: Option<&str>) -> String {
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
