//! Does what operators ask for with a command: `lists::deeds` says what that is.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use config::Settings;
use lists::deeds::{Configured, Deed, Desk, Refused, Site};
use operators::endpoints::TEST_PATIENCE;
use platform::clock::Clock;
use platform::terminal;
use store::sql::Db;

use crate::commands::connections::secret_of;
use crate::commands::misused;
use crate::commands::operator::Operator;
use crate::table;

// Its help is that of the deed.
#[derive(clap::Args)]
pub struct Do<D: Deed> {
    #[command(flatten)]
    deed: D,
    #[command(flatten)]
    operator: Operator,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl<D: Deed> Do<D> {
    /// Does it, and says what came of it.
    pub async fn run(self, settings: &Settings, db: &Db) -> Result<()> {
        let mut typed = String::new();
        if let Some(wanted) = D::TYPED.filter(|_| self.deed.needs_typed()) {
            terminal::err(&format!("{}: ", wanted.label));
            std::io::stdin().read_line(&mut typed)?;
        }
        let clock = Clock::system();
        let now = clock.now();
        let author = self.operator.author(settings, db).await?;
        let desk = Desk {
            site: Site {
                db,
                now,
                configured: Configured::Settings(settings),
            },
            by: author.by(now),
            clock: &clock,
            bus: None,
            id: clock.id(),
            asked_at: now,
            seen: None,
            patience: TEST_PATIENCE,
            // Nobody gives the id again.
            remembered: Duration::ZERO,
            typed: Some(typed.trim()),
            secret: &|file| {
                let secret = secret_of(Path::new(file));
                secret.map_err(|why| Refused::Wrong(format!("{why:#}")))
            },
        };
        let meanwhile = D::ABOUT.meanwhile.filter(|_| !self.json);
        if let Some(meanwhile) = meanwhile {
            terminal::over(meanwhile);
        }
        let done = self.deed.run(&desk).await;
        if meanwhile.is_some() {
            terminal::over("");
        }
        let done = done.map_err(failed)?;
        if self.json {
            table::print_json(&done.json)?;
        }
        if let Some(why) = done.failed {
            bail!("{why}");
        }
        if self.json {
            return Ok(());
        }
        let sentence = || format!("{}\n", done.says);
        table::print(&done.text.unwrap_or_else(sentence))?;
        if let Some(advice) = done.advice {
            terminal::err(&advice);
        }
        Ok(())
    }
}

/// The error of a command that was refused.
pub fn failed(why: Refused) -> anyhow::Error {
    match why {
        Refused::Wrong(why) => misused(why),
        Refused::Settings(mistakes) => mistakes.into(),
        Refused::Database(error) => error.into(),
        why => why.into(),
    }
}
