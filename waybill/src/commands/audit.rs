//! `waybill audit` lists what was done to people's data, and what operators did to jobs, licences
//! and keys. It also checks that nobody has changed these entries.

use anyhow::{Result, bail};
use config::Settings;
use platform::zone;
use store::audit::{self, AuditEntry, Head};
use store::sql::Db;

use crate::commands::database;
use crate::commands::privacy::keys;
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest entries, the newest first; with --object the oldest first
    List {
        /// Only entries about the request, job, licence or other object with this id
        #[arg(long, value_name = "ID")]
        object: Option<String>,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that no entry was changed, removed or added by hand; exit code 1 if one was
    ///
    /// The hash of each entry is made with PRIVACY_KEY, or the database's own key, and covers the
    /// entry and the hash before it. So the head, which is the hash of the last entry, covers all
    /// entries. If you keep a head elsewhere, you can prove later that nothing up to that entry
    /// was changed. The command also compares the privacy requests with the entries. Workers may
    /// run meanwhile.
    Verify {
        /// The number and hash of an entry that you kept elsewhere, like 42:e146b7a9..; the entry
        /// must still have this hash
        #[arg(long, value_name = "NUMBER:HASH")]
        head: Option<Head>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    let done = match command {
        Command::List {
            object,
            limit,
            json,
        } => list(&db, object.as_deref(), limit, json).await,
        Command::Verify { head, json } => verify(settings, &db, head.as_ref(), json).await,
    };
    db.close().await;
    done
}

async fn list(db: &Db, object: Option<&str>, limit: i64, json: bool) -> Result<()> {
    let entries = match object {
        Some(object) => audit::list(db, Some(object), 0, limit).await?,
        None => audit::newest(db, limit).await?,
    };
    if json {
        return table::print_json(&entries);
    }
    if entries.is_empty() {
        return table::print("No entries.\n");
    }
    table::print(&rows(&entries))
}

/// Entries of the audit as a table, with a line for each.
pub fn rows(entries: &[AuditEntry]) -> String {
    let mut table = Table::new([
        "NUMBER", "TIME", "ACTOR", "ACTION", "SHOP", "OBJECT", "DETAILS",
    ]);
    for entry in entries {
        table.row([
            format!("{:>6}", entry.number),
            zone::time(entry.at),
            entry.actor.clone(),
            entry.action.clone(),
            entry.shop.clone().unwrap_or_else(|| "-".to_owned()),
            entry.object_id.clone(),
            entry.details.to_string(),
        ]);
    }
    table.render()
}

async fn verify(settings: &Settings, db: &Db, kept: Option<&Head>, json: bool) -> Result<()> {
    let keys = keys(settings, db).await?;
    let chain = audit::verify_with(db, &keys, kept).await?;
    if json {
        table::print_json(&chain)?;
    }
    if let Some(broken) = &chain.broken {
        bail!(
            "the audit is broken: {broken}. Somebody changed its tables by hand, or put back an old \
             copy of them; from entry {} on it proves nothing.",
            broken.number
        );
    }
    if json {
        return Ok(());
    }
    if let Some(kept) = kept {
        table::print(&format!(
            "The hash of entry {} is the one that was kept elsewhere.\n\n",
            kept.number
        ))?;
    }
    table::print(&format!(
        "entries  {}\nhead     {}\n\nEvery entry is as it was written. Keep the head elsewhere: \
         as long as a later check\nfinds it as the hash of entry {}, nothing up to there has \
         changed since: waybill audit verify --head \
         {}:{}\n",
        chain.entries, chain.head, chain.entries, chain.entries, chain.head
    ))
}
