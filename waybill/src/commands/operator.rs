//! The operator who runs a command, as the audit names them.

use std::process::{Command, Stdio};

use anyhow::Result;
use config::Settings;
use domain::privacy::Keys;
use domain::time::Timestamp;
use store::audit::{self, By};
use store::sql::Db;

use crate::commands::privacy;

const LONGEST: usize = 60;

// The option of every command that writes an entry into the audit. (A comment for the documentation would become the
// help of the command.)
#[derive(clap::Args)]
pub struct Operator {
    /// The name of the operator for the audit. Default: the user of this system
    #[arg(long, value_name = "NAME", value_parser = name)]
    by: Option<String>,
}

impl Operator {
    /// The operator's name as the audit has it.
    pub fn actor(&self) -> String {
        actor(self.by.as_deref())
    }

    /// The author of audit entries: the operator's name, and the keys with which entries are
    /// hashed. Of the settings only those that begin with `PRIVACY_` must be right.
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

/// Checks a name that an operator gives with `--by`.
fn name(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@+ ".contains(c);
    if text.is_empty() || text.chars().count() > LONGEST || !text.chars().all(is_plain) {
        return Err("it must be a name of up to 60 letters, digits, spaces and any of -_.@+");
    }
    Ok(text.to_owned())
}

/// The actor as the audit has it: `operator:ann`. Without a given name it is the user of the
/// operating system. If the system has no name for the user, as in a container, it is `operator`.
fn actor(by: Option<&str>) -> String {
    let by = by.map(ToOwned::to_owned).or_else(user);
    by.map_or(audit::OPERATOR.to_owned(), |name| {
        format!("{}:{name}", audit::OPERATOR)
    })
}

/// The name of the user. It comes from the operating system and not from the environment, because
/// anyone can set variables.
fn user() -> Option<String> {
    let asked = Command::new("id").arg("-un").stderr(Stdio::null()).output();
    let said = asked.ok().filter(|said| said.status.success())?;
    name(&String::from_utf8(said.stdout).ok()?).ok()
}
