//! `waybill secrets`: which signing secrets of the providers are set, and with which a delivery was verified last.

use anyhow::Result;
use config::{Config, Mode, Settings};
use platform::zone;
use store::signing_secrets;

use crate::commands::database;
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the signing secrets that are set, and when each verified a delivery last
    ///
    /// It reads STOREFRONT_WEBHOOK_SECRET and PAYMENT_WEBHOOK_SECRET as the service does, so run it with the settings
    /// of the service. To replace a secret, set `new,old`, restart the service, and let the provider sign with the new
    /// one. When the old one has verified nothing for as long as the provider retries a delivery, remove it.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::List { json } = command;
    let set = Config::load(settings, Mode::Development)?.fingerprints();
    let db = database(settings).await?;
    let secrets = signing_secrets::list(&db, &set).await;
    db.close().await;
    let secrets = secrets?;
    if json {
        return table::print_json(&secrets);
    }
    let mut table = Table::new(["SOURCE", "PLACE", "FINGERPRINT", "VERIFIED LAST"]);
    for it in &secrets {
        table.row([
            it.source.to_owned(),
            it.place_name(),
            it.fingerprint.clone(),
            it.verified_at.map_or("never".to_owned(), zone::time),
        ]);
    }
    table::print(&table.render())
}
