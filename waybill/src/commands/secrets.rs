//! `waybill secrets`: which signing secrets of the providers are set, and with which a delivery was verified last.

use anyhow::Result;
use config::{Config, Mode, Settings};
use lists::providers::Secrets;

use crate::commands::with_database;
use crate::table::Listed;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the signing secrets that are set, and when each verified a delivery last
    ///
    /// It reads STOREFRONT_WEBHOOK_SECRET and PAYMENT_WEBHOOK_SECRET as the service does, so run it with the settings
    /// of the service. To replace a secret, set `new,old`, restart the service, and let the provider sign with the new
    /// one. When the old one has verified nothing for as long as the provider retries a delivery, remove it.
    List(Listed<Secrets>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::List(listed) = command;
    let set = Config::load(settings, Mode::Development)?.fingerprints();
    let list = Secrets { set };
    with_database(settings, async |db| listed.print(db, &list).await).await
}
