//! `waybill secrets`: which signing secrets of the providers are set, and with which a delivery was verified last.

use anyhow::Result;
use config::{Config, Mode, Settings};
use platform::zone;
use store::signing_secrets;

use crate::commands::with_database;
use crate::table::{self, Output, Rows as _};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the signing secrets that are set, and when each verified a delivery last
    ///
    /// It reads STOREFRONT_WEBHOOK_SECRET and PAYMENT_WEBHOOK_SECRET as the service does, so run it with the settings
    /// of the service. To replace a secret, set `new,old`, restart the service, and let the provider sign with the new
    /// one. When the old one has verified nothing for as long as the provider retries a delivery, remove it.
    List(Output),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::List(Output { json }) = command;
    let set = Config::load(settings, Mode::Development)?.fingerprints();
    let secrets = with_database(settings, async |db| {
        Ok(signing_secrets::list(db, &set).await?)
    });
    let secrets = secrets.await?;
    let table = secrets.table(&[
        ("SOURCE", &|it| it.source.to_owned()),
        ("PLACE", &|it| it.place_name()),
        ("FINGERPRINT", &|it| it.fingerprint.clone()),
        ("VERIFIED LAST", &|it| {
            it.verified_at.map_or("never".to_owned(), zone::time)
        }),
    ]);
    table::show(json, &secrets, || table.render())
}
