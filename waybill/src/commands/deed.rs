//! Does what operators ask for with a command: `lists::deeds` says what that is.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use config::Settings;
use lists::deeds::{Configured, Deed, Desk, Done, Refused, Site};
use operators::endpoints::TEST_PATIENCE;
use platform::clock::Clock;
use platform::terminal;
use process::Misuse;
use store::sql::Db;

use crate::commands::connections::secret_of;
use crate::commands::misused;
use crate::commands::operation::Notifier;
use crate::commands::operator::Operator;
use crate::table;

// Its help is that of the deed.
#[derive(clap::Args)]
pub struct Do<D: Deed> {
    #[command(flatten)]
    pub deed: D,
    #[command(flatten)]
    pub operator: Operator,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl<D: Deed> Do<D> {
    /// Does it, and says what came of it.
    pub async fn run(self, settings: &Settings, db: &Db) -> Result<()> {
        let json = self.json;
        let done = self.outcome(settings, db).await?;
        show(done.map_err(failed)?, json)
    }

    /// Does it. The outer error is one of the command itself.
    pub async fn outcome(self, settings: &Settings, db: &Db) -> Result<Result<Done, Refused>> {
        let clock = Clock::system();
        let now = clock.now();
        let author = self.operator.author(settings, db).await?;
        let mut typed = String::new();
        if let Some(wanted) = D::TYPED.filter(|_| self.deed.needs_typed()) {
            terminal::err(&format!("{}: ", wanted.label));
            std::io::stdin().read_line(&mut typed)?;
        }
        let notifier = if D::ABOUT.notifies {
            Some(Notifier::open(settings).await?)
        } else {
            None
        };
        let desk = Desk {
            site: Site {
                db,
                now,
                configured: Configured::Settings(settings),
            },
            by: author.by(now),
            clock: &clock,
            bus: notifier.as_ref().and_then(Notifier::reached),
            heard: notifier.as_ref().map_or("", |it| it.reach.description()),
            id: clock.id(),
            asked_at: now,
            seen: None,
            patience: TEST_PATIENCE,
            // Nobody gives the id again.
            remembered: Duration::ZERO,
            typed: Some(typed.trim()),
            secret: &|file| {
                let secret = secret_of(Path::new(file));
                secret.map_err(|why| match why.downcast::<Misuse>() {
                    Ok(why) => Refused::Wrong(why.to_string()),
                    Err(why) => Refused::Impossible(format!("{why:#}")),
                })
            },
        };
        let done = self.deed.run(&desk).await;
        if let Some(notifier) = notifier {
            notifier.close(db).await;
        }
        Ok(done)
    }
}

/// Says what came of it.
pub fn show(done: Done, json: bool) -> Result<()> {
    if json {
        table::print_json(&done.json)?;
    } else if done.failed.is_none() || done.text.is_some() {
        let sentence = || format!("{}\n", done.says);
        table::print(&done.text.unwrap_or_else(sentence))?;
    }
    if let Some(why) = done.failed {
        bail!("{why}");
    }
    if let Some(advice) = done.advice.filter(|_| !json) {
        terminal::err(&advice);
    }
    Ok(())
}

/// The error of a command that was refused.
pub fn failed(why: Refused) -> anyhow::Error {
    match why {
        Refused::Wrong(why) => misused(why),
        Refused::Advised(why, option) => match *why {
            Refused::Wrong(why) => misused(format!("{why}: {option}")),
            why => anyhow!("{why}: {option}"),
        },
        Refused::Settings(mistakes) => mistakes.into(),
        Refused::Database(error) => error.into(),
        why => why.into(),
    }
}
