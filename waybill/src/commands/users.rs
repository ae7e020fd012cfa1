//! `waybill users` forgets persons who have logged in or were granted something. The audit says who did it.

use anyhow::{Result, bail};
use config::Settings;
use platform::clock::Clock;
use serde_json::json;
use store::licenses::{self, Owner};
use store::users::{self, Named};

use crate::commands::operator::Operator;
use crate::commands::with_database;
use crate::table;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Forget a person: the account's number and login, with their licences and memberships
    ///
    /// Whoever logs in with the account later is somebody new. Persons without a licence are forgotten by
    /// themselves a year after they were seen last. What they bought is forgotten with
    /// `waybill privacy request --erase`.
    Forget {
        /// A login, or `id:` and the number of the account
        user: Named,
        /// Forget the person even if one of their licences is active
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::Forget {
        user,
        yes,
        operator,
    } = command;
    let when = super::licenses::when(settings)?;
    with_database(settings, async |db| {
        let author = operator.author(settings, db).await?;
        let mut tx = db.begin().await?;
        licenses::lock(&mut tx).await?;
        let Some(person) = users::find(&mut tx, &user).await? else {
            bail!("nobody named {user} is known here");
        };
        let licenses = licenses::of_owner(&mut tx, Owner::User(person.id)).await?;
        let active = licenses.iter().filter(|it| when.is_active(it)).count();
        if active > 0 && !yes {
            bail!(
                "{person} has licences that are active ({active}), which would go too: add --yes"
            );
        }
        users::forget(&mut tx, person.id).await?;
        let by = author.by(Clock::system().now());
        let details = json!({"active_licenses": active});
        by.note(&mut tx, "user.forgotten", person.id, details)
            .await?;
        tx.commit().await?;
        table::print(&format!("{person} is forgotten.\n"))
    })
    .await
}
