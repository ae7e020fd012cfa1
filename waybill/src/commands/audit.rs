//! `waybill audit` lists what was done to people's data, and what operators did to jobs, licences
//! and keys. It also checks that nobody has changed these entries, and proves it to others.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use config::{Config, Settings};
use domain::privacy::Keys;
use domain::privacy::transparency::{
    Proof, Reader, checkpoint, is_origin, opened, origin, proof_text, verifier_key, witness_text,
};
use platform::zone;
use store::audit::{self, AuditEntry, Head};
use store::sql::Db;

use crate::commands::privacy::keys;
use crate::commands::{database, misused};
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
    /// Print a signed checkpoint: how many entries there are, and one hash over all of them
    ///
    /// It has the form of the transparency logs of C2SP (tlog-checkpoint): the root of a Merkle tree over the
    /// entries, signed with Ed25519. Whoever keeps it can check with programs of others that a later
    /// checkpoint has the same entries and more, and that an entry was among them (`waybill audit prove`).
    Checkpoint {
        #[command(flatten)]
        name: Name,
        /// Check that the entries of this older checkpoint are still there, unchanged, and print the proof
        /// before the checkpoint: what a witness of C2SP (tlog-witness) is sent
        #[arg(long, value_name = "FILE")]
        since: Option<PathBuf>,
    },
    /// Print the proof that an entry is in the audit, with the entry and a checkpoint (tlog-proof of C2SP)
    Prove {
        /// The number of the entry, as `waybill audit list` shows it
        number: i64,
        #[command(flatten)]
        name: Name,
    },
    /// Print the public key with which others verify checkpoints, in the form of signed notes
    Key {
        #[command(flatten)]
        name: Name,
    },
}

#[derive(clap::Args)]
pub struct Name {
    /// The name of the log, in place of the address of `PUBLIC_URL` and `/audit`. Give the same one always
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,
}

impl Name {
    fn origin(&self, settings: &Settings) -> Result<String> {
        let origin = match &self.origin {
            Some(origin) => origin.clone(),
            None => origin(&Config::public_url(settings)?),
        };
        if is_origin(&origin) {
            return Ok(origin);
        }
        Err(misused(
            "--origin: it must have neither spaces nor +, such as shop.example/audit",
        ))
    }
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
        Command::Checkpoint { name, since } => sign(settings, &db, &name, since.as_deref()).await,
        Command::Prove { number, name } => prove(settings, &db, number, &name).await,
        Command::Key { name } => {
            let keys = keys(settings, &db).await?;
            let key = verifier_key(&keys, &name.origin(settings)?);
            table::print(&format!("{key}\n"))
        }
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

/// Fails when the audit is not as it was written: nothing is signed that is not.
async fn is_whole(db: &Db, keys: &Keys) -> Result<()> {
    match audit::verify(db, keys).await?.broken {
        None => Ok(()),
        Some(broken) => bail!("the audit is broken, and nothing is signed: {broken}"),
    }
}

async fn sign(settings: &Settings, db: &Db, name: &Name, since: Option<&Path>) -> Result<()> {
    let (origin, keys) = (name.origin(settings)?, keys(settings, db).await?);
    let older = since.map(|file| older(&keys, &origin, file)).transpose()?;
    is_whole(db, &keys).await?;
    let (newest, size) = audit::size(db).await?;
    let before = older.map_or(0, |(before, _)| before);
    if before > size {
        bail!("the checkpoint has {before} entries, and the audit {size}: some were removed since");
    }
    let mut reader = Reader::new(older.map(|_| Proof::consistency(before, size)));
    let mut root_before = (before == 0).then(|| reader.tree.root());
    audit::read_until(db, newest, |entry| {
        reader.push(entry.leaf().as_bytes());
        if reader.tree.size() == before {
            root_before = Some(reader.tree.root());
        }
    })
    .await?;
    if let Some((_, root)) = older
        && root_before != Some(root)
    {
        bail!("an entry among the first {before} is not what it was at that checkpoint");
    }
    let signed = checkpoint(&keys, &origin, &reader.tree);
    match reader.proof {
        None => table::print(&signed),
        Some(proof) => table::print(&witness_text(before, &proof.hashes(), &signed)),
    }
}

/// The size and the root of a checkpoint in a file, or of the one in what `--since` has printed.
fn older(keys: &Keys, origin: &str, file: &Path) -> Result<(u64, [u8; 32])> {
    let place = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {place}"))?;
    let begin = text.find(&format!("{origin}\n")).unwrap_or(0);
    opened(keys, origin, &text[begin..]).ok_or_else(|| {
        anyhow!(
            "{place} has no checkpoint that is signed with the key of this database for {origin}; \
             check PRIVACY_KEY, and PUBLIC_URL or --origin"
        )
    })
}

async fn prove(settings: &Settings, db: &Db, number: i64, name: &Name) -> Result<()> {
    let (origin, keys) = (name.origin(settings)?, keys(settings, db).await?);
    is_whole(db, &keys).await?;
    let (newest, size) = audit::size(db).await?;
    // Where entries were removed once, their numbers are not those of the leaves.
    let mut index = None;
    let mut next = 0;
    audit::read_until(db, newest, |entry| {
        if entry.number == number {
            index = Some(next);
        }
        next += 1;
    })
    .await?;
    let Some(index) = index else {
        bail!("there is no entry {number}; `waybill audit list` shows them");
    };
    let mut reader = Reader::new(Some(Proof::inclusion(index, size)));
    let mut proved = String::new();
    audit::read_until(db, newest, |entry| {
        let leaf = entry.leaf();
        reader.push(leaf.as_bytes());
        if entry.number == number {
            proved = leaf;
        }
    })
    .await?;
    let signed = checkpoint(&keys, &origin, &reader.tree);
    let hashes = reader.proof.map(|proof| proof.hashes()).unwrap_or_default();
    table::print(&proof_text(proved.as_bytes(), index, &hashes, &signed))
}
