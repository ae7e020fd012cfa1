//! `waybill keys` manages the API keys of the commerce API. A key itself is shown only once, when
//! it is made. The audit says who made and who revoked each key.

use anyhow::Result;
use config::Settings;
use lists::deeds::keys::{Create, Revoke};
use lists::people::Keys;

use crate::commands::deed::Do;
use crate::commands::with_database;
use crate::table::Listed;

#[derive(clap::Subcommand)]
pub enum Command {
    Create(Do<Create>),
    /// List keys with their scopes, their ends, and when they were last used
    List(Listed<Keys>),
    Revoke(Do<Revoke>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Create(deed) => deed.run(settings, db).await,
        Command::List(listed) => listed.print(db, &Keys).await,
        Command::Revoke(deed) => deed.run(settings, db).await,
    })
    .await
}
