//! `waybill audit`: what was done to people's data, and by operators to jobs, licences and keys;
//! and the check that nobody has changed it.

use anyhow::{Result, bail};
use config::Settings;
use store::audit::{self, AuditEntry, Head};
use store::sql::Db;

use crate::commands::database;
use crate::commands::privacy::keys;
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest entries, newest first; those of one object oldest first
    List {
        /// Only what was done to a request, a job, ..: its id
        #[arg(long, value_name = "ID")]
        object: Option<String>,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check every entry against the one before it, and requests against entries; exit code 1 when one is not as it was written
    ///
    /// The hash of each is made with PRIVACY_KEY, or the database's own key, of the entry and
    /// the hash before it. So the head, which is the last one's hash, covers them all: kept
    /// elsewhere, it proves later that nothing before it was changed. Workers may go on
    /// meanwhile.
    Verify {
        /// An entry's number and hash that were kept elsewhere, like 42:e146b7a9..: it must be the
        /// same still
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

/// Entries of the audit, a line each.
pub fn rows(entries: &[AuditEntry]) -> String {
    let mut table = Table::new([
        "NUMBER", "TIME", "ACTOR", "ACTION", "SHOP", "OBJECT", "DETAILS",
    ]);
    for entry in entries {
        table.row([
            format!("{:>6}", entry.number),
            entry.at.to_string(),
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
