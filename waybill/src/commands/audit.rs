//! `waybill audit` lists what was done to people's data, and what operators did to jobs, licences
//! and keys. It also checks that nobody has changed these entries, and proves it to others.

use anyhow::{Result, bail};
use config::{Config, Settings};
use domain::privacy::transparency::{Hashes, checkpoint, is_origin, origin, verifier_key};
use store::audit::{self, Checked, Head};
use store::sql::Db;

use crate::commands::privacy::keys;
use crate::commands::{misused, with_database};
use crate::table::{self, Listed};
use lists::audit::Audit;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest entries, the newest first; with --object the oldest first
    List(Listed<Audit>),
    /// Check that no entry was changed, removed or added by hand; exit code 1 if one was
    ///
    /// The entries are the leaves of a Merkle tree, and the head is its root. The database has it with
    /// a code made with PRIVACY_KEY, or the database's own key. If you keep a head elsewhere, you can
    /// show later that no entry up to there was changed. The command also compares the privacy requests
    /// with the entries. Workers may run meanwhile.
    Verify {
        /// A number of entries and their hash that you kept elsewhere, such as the second and third line of
        /// a checkpoint, like 42:4Ua3qVH7..=; these entries must still have this hash
        #[arg(long, value_name = "NUMBER:HASH")]
        head: Option<Head>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a signed checkpoint: how many entries there are, and one hash over all of them
    ///
    /// It has the form of the transparency logs of C2SP (tlog-checkpoint): the root of a Merkle tree over the
    /// entries, signed with Ed25519. Whoever keeps it can check with programs of others that an entry was
    /// among them (`waybill audit prove`).
    Checkpoint {
        #[command(flatten)]
        name: Name,
    },
    /// Print the proof that an entry is in the audit, with the entry and a checkpoint (tlog-proof of C2SP)
    Prove {
        /// The number of the entry, as `waybill audit list` shows it
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        number: u64,
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
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Audit).await,
        Command::Verify { head, json } => verify(settings, db, head.as_ref(), json).await,
        Command::Checkpoint { name } => sign(settings, db, &name).await,
        Command::Prove { number, name } => prove(settings, db, number, &name).await,
        Command::Key { name } => {
            let keys = keys(settings, db).await?;
            let key = verifier_key(&keys, &name.origin(settings)?);
            table::print(&format!("{key}\n"))
        }
    })
    .await
}

async fn verify(settings: &Settings, db: &Db, kept: Option<&Head>, json: bool) -> Result<()> {
    let keys = keys(settings, db).await?;
    let checked = audit::verify_with(db, &keys, kept, |_| ()).await?;
    if json {
        table::print_json(&checked)?;
    }
    if let Some(broken) = &checked.broken {
        bail!(
            "the audit is broken: {broken}. Somebody changed its tables by hand, or put back an old \
             copy of them; from entry {} on it proves nothing.",
            broken.number
        );
    }
    if json {
        return Ok(());
    }
    if checked.entries == 0 {
        return table::print(
            "There are no entries, as in a new database. If there were some, the audit's tables were emptied.\n",
        );
    }
    if let Some(kept) = kept {
        table::print(&format!(
            "The entries up to entry {} are those whose hash was kept elsewhere.\n\n",
            kept.number
        ))?;
    }
    table::print(&format!(
        "entries  {0}\nhead     {1}\n\nEvery entry is as it was written. Keep the head elsewhere: \
         as long as a later check\nfinds it again, none of these entries has changed since: \
         waybill audit verify --head {0}:{1}\n",
        checked.entries, checked.head
    ))
}

async fn sign(settings: &Settings, db: &Db, name: &Name) -> Result<()> {
    let (origin, keys) = (name.origin(settings)?, keys(settings, db).await?);
    let checked = audit::verify(db, &keys).await?;
    is_whole(&checked)?;
    table::print(&checkpoint(&keys, &origin, &checked.tree))
}

/// Nothing is signed of an audit that is not as it was written.
fn is_whole(checked: &Checked) -> Result<()> {
    match &checked.broken {
        None => Ok(()),
        Some(broken) => bail!("the audit is broken, and nothing is signed: {broken}"),
    }
}

async fn prove(settings: &Settings, db: &Db, number: u64, name: &Name) -> Result<()> {
    let (origin, keys) = (name.origin(settings)?, keys(settings, db).await?);
    let (mut hashes, mut added) = (Hashes::default(), Ok(()));
    let mut proved = None;
    let checked = audit::verify_with(db, &keys, None, |entry| {
        let leaf = entry.leaf();
        if added.is_ok() {
            added = hashes.push(leaf.as_bytes());
        }
        if entry.number.cast_unsigned() == number {
            proved = Some(leaf);
        }
    });
    let checked = checked.await?;
    is_whole(&checked)?;
    added?;
    let Some(entry) = proved else {
        bail!("there is no entry {number}; `waybill audit list` shows them");
    };
    let signed = checkpoint(&keys, &origin, &checked.tree);
    table::print(&hashes.proof(entry.as_bytes(), number - 1, &signed)?)
}
