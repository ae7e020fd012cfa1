//! `waybill privacy` shows privacy requests with their deadlines and results, and lets operators
//! decide about them. Each change of a request, and each reading of an export, is in the audit.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::{Config, Privacy, Settings};
use domain::privacy::{self, Asked, Held, Keys, Person, State};
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::{terminal, zone};
use process::journal;
use providers::exports::Exports;
use serde::Deserialize;
use serde_json::{Value, json};
use store::privacy_requests::{self, By, Export, History, RequestEntry};
use store::sql::Db;
use store::{erasure, privacy_keys};
use uuid::Uuid;

use crate::commands;
use crate::commands::deed::Do;
use crate::commands::operator::{Author, Operator};
use crate::commands::reapply;
use crate::table::{self, Listed, One, Table, or_none};
use lists::audit::Audit;
use lists::deeds::privacy::{Cancel, Confirm, Decide, Request, Retry};
use lists::people::PrivacyRequests;
use lists::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List requests by their deadlines, the nearest first
    ///
    /// Without --all and --state the list has only requests that are neither done nor cancelled.
    List(Listed<PrivacyRequests>),
    /// Show a request: its progress, its counts, its export, its receipt and its audit entries
    Show(One),
    #[command(
        after_help = "An e-mail address is read from standard input, so that it is in no list of processes and no history."
    )]
    Request(Do<Request>),
    Retry(Do<Retry>),
    Cancel(Do<Cancel>),
    Decide(Do<Decide>),
    Confirm(Do<Confirm>),
    /// Record that exports are gone from a store that cannot be reached any more
    ///
    /// The command removes nothing, so make sure first that nobody has the exports. Use it when a
    /// disk was lost, or when you have removed the exports by hand from the former place of the
    /// store.
    ExportGone {
        #[arg(required = true, value_parser = words::id)]
        ids: Vec<Uuid>,
        #[command(flatten)]
        operator: Operator,
    },
    /// Rewrite the file of a SQLite database, so that nothing is left in it of what was erased
    ///
    /// A service does so by itself: at a quiet moment after an erasure, at most once a day and within
    /// three days. Nobody can write meanwhile, for about half a minute for each GiB: providers repeat
    /// their deliveries. It takes as much space again, twice: where temporary files are
    /// (SQLITE_TMPDIR, or /var/tmp) and beside the file.
    RewriteFile {
        #[command(flatten)]
        operator: Operator,
    },
    /// Write the key that a database has made for itself to a file, which you then set as
    /// PRIVACY_KEY_FILE
    ///
    /// The first service or command that runs with the key set deletes the copy in the database.
    /// Back the key up, but not beside the database.
    Key {
        /// The new file, which only its owner may read
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        operator: Operator,
    },
    /// Erase again what the journal of erasures says and this database does not know, because it was
    /// restored from an older backup
    ///
    /// Until then no process serves the database. The command may be stopped and started again, also
    /// while services run. Exit code 0: the database knows every erasure. 1: an erasure failed; mend it
    /// and run the command again. 3, with --dry-run: there is something to be erased again. 4: the
    /// journal is not as it was written; the text says how to mend it.
    Reapply(reapply::Arguments),
    /// Print the signed receipt of a request that is done, for the person who asked
    ///
    /// Keep the output of --json; `waybill privacy verify-receipt` and OpenSSL can verify it.
    Receipt(One),
    /// Check the signature of a receipt; exit code 1 if it is wrong or not made by this
    /// installation
    VerifyReceipt {
        /// The file with the output of `waybill privacy receipt --json`
        file: PathBuf,
        /// Also check that the request named this e-mail address
        #[arg(long)]
        email: Option<String>,
        /// Also check that the request named this telephone number
        #[arg(long)]
        phone: Option<String>,
    },
    /// Write out the export of a customers/data_request, which contains personal data
    ///
    /// The document is compared with the SHA-256 that is stored with the request, and the audit
    /// says that it was fetched. For somebody without access to this machine, make a link with
    /// POST /api/privacy/requests/{id}/export-link.
    Export {
        #[arg(value_parser = words::id)]
        id: Uuid,
        /// The new file, which only its owner may read. Without it the export goes to standard
        /// output
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        operator: Operator,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    if let Command::VerifyReceipt { file, email, phone } = command {
        let person = Person {
            id: None,
            email,
            phone,
        };
        return verify_receipt(settings, &file, &person).await;
    }
    let db = match command {
        Command::Reapply(_) => commands::open(settings, reapply::CONNECTIONS).await?,
        _ => commands::database(settings).await?,
    };
    let done = with_database(settings, &db, command).await;
    db.close().await;
    done
}

async fn with_database(settings: &Settings, db: &Db, command: Command) -> Result<()> {
    let clock = Clock::system();
    match command {
        Command::List(listed) => listed.print(db, &PrivacyRequests).await,
        Command::Show(One { id, json }) => {
            let history = privacy_requests::history(db, id).await?;
            let history = history.ok_or_else(|| unknown(id))?;
            table::show(json, &history, || describe(&history, clock.now()))
        }
        Command::Request(deed) => deed.run(settings, db).await,
        Command::Retry(deed) => deed.run(settings, db).await,
        Command::Cancel(deed) => deed.run(settings, db).await,
        Command::Decide(deed) => deed.run(settings, db).await,
        Command::Confirm(deed) => deed.run(settings, db).await,
        Command::ExportGone { ids, operator } => {
            let author = operator.author(settings, db).await?;
            for id in ids {
                privacy_requests::export_gone(db, author.by(clock.now()), id).await?;
                table::print(&format!("The export of {id} is listed as removed.\n"))?;
            }
            Ok(())
        }
        Command::RewriteFile { operator } => {
            if db.file_size().await?.is_none() {
                bail!("the database is a server's; its tables are cleared by `vacuum (full)`");
            }
            let author = operator.author(settings, db).await?;
            erasure::file::rewrite(db, author.by(clock.now())).await?;
            table::print("The file is rewritten; nothing is left in it of what was erased.\n")
        }
        Command::Key { output, operator } => take_key_out(db, &output, &operator.actor()).await,
        Command::Reapply(arguments) => reapply::run(settings, db, &arguments).await,
        Command::Receipt(One { id, json }) => receipt(db, id, json).await,
        Command::Export {
            id,
            output,
            operator,
        } => {
            let author = operator.author(settings, db).await?;
            export(settings, db, &author, id, output.as_deref()).await
        }
        Command::VerifyReceipt { .. } => Ok(()),
    }
}

/// The keys for hashes, receipts and the audit. Of the settings only those that begin with
/// `PRIVACY_` must be right.
pub async fn keys(settings: &Settings, db: &Db) -> Result<Keys> {
    let Privacy { key, .. } = Config::privacy(settings)?;
    Ok(privacy_keys::load(db, key.as_ref(), &Clock::system()).await?)
}

fn unknown(id: Uuid) -> anyhow::Error {
    anyhow!("there is no privacy request {id} here; `waybill privacy list --all` shows them")
}

/// The days until the deadline, rounded down to a tenth; below zero after the deadline.
fn left(request: &RequestEntry, now: Timestamp) -> String {
    const TENTH: i64 = 86_400_000 / 10;
    if request.finished_at.is_some() {
        return "-".to_owned();
    }
    let tenths = request.due_at.0.saturating_sub(now.0).div_euclid(TENTH);
    let sign = if tenths < 0 { "-" } else { "" };
    let tenths = tenths.unsigned_abs();
    format!("{sign}{}.{}", tenths / 10, tenths % 10)
}

fn describe(history: &History, now: Timestamp) -> String {
    let it = &history.entry;
    let mut facts = Table::new(["request", &it.id.to_string()]);
    let mut fact = |name: &str, value: String| facts.row([name.to_owned(), value]);
    fact("topic", it.topic.clone());
    fact("shop", it.shop.clone());
    fact("customer", or_none(it.customer_id));
    fact(
        "state",
        match it.code {
            Some(code) => format!("{} ({code})", it.state),
            None => it.state.clone(),
        },
    );
    fact("received", zone::time(it.received_at));
    fact(
        "due",
        match left(it, now).as_str() {
            "-" => zone::time(it.due_at),
            left => format!("{}, {left} days left", zone::time(it.due_at)),
        },
    );
    if it.finished_at.is_some() {
        fact("finished", or_none(it.finished_at.map(zone::time)));
    } else {
        fact("attempts", it.attempts.to_string());
        fact("next try", or_none(it.next_run_at.map(zone::time)));
        fact("last error", or_none(it.last_error.as_ref()));
    }
    for (name, at) in [
        ("warned at", it.warned_at),
        ("alarmed at", it.alarmed_at),
        ("overdue since", it.overdue_at),
    ] {
        if at.is_some() {
            fact(name, or_none(at.map(zone::time)));
        }
    }
    if !it.progress.is_null() {
        fact("counts", it.progress.to_string());
    }
    if let Some(export) = &it.export {
        fact("export", describe_export(export, now));
        fact("SHA-256", export.sha256.clone());
    }
    if it.receipt.is_some() {
        fact("receipt", format!("waybill privacy receipt {}", it.id));
    }
    let mut text = facts.render();
    text.push_str(&advice(it));
    text.push('\n');
    text.push_str(&Table::of::<Audit>(&history.audit, now).render());
    text
}

fn describe_export(export: &Export, now: Timestamp) -> String {
    let size = format!("{} bytes", export.bytes);
    let end = zone::time(export.expires_at);
    match export.removed_at {
        Some(at) => format!("{size}, removed at {}", zone::time(at)),
        None if export.problem.is_some() => {
            let problem = export.problem.as_deref().unwrap_or_default();
            format!("{size}, ended at {end}, not removed: {problem}")
        }
        None if export.expires_at <= now => format!("{size}, expired at {end}"),
        None => format!("{size}, until {end}"),
    }
}

/// Hints for the operator: what to know about the request, and what to do.
fn advice(it: &RequestEntry) -> String {
    let mut text = String::new();
    if let Some(other) = it.repeats {
        let _ = write!(
            text,
            "\nWARNING: its body is that of the earlier request {other}. The storefront may have \
             asked again;\nor somebody has sent a captured body again. Ask the storefront when in \
             doubt.\n"
        );
    }
    match (it.state.parse(), it.held_until) {
        (Ok(State::Held), Some(until)) => {
            if let Some(seen) = it.living_at {
                let _ = write!(
                    text,
                    "\nWARNING: the shop is in use: orders came shortly before the request or after it, as seen at {}.\n\
                     If its erasure is meant nevertheless: waybill privacy confirm {}\n",
                    zone::time(seen),
                    it.id
                );
            }
            let _ = write!(
                text,
                "\nIt is held until {}; then all of the shop is erased that was there when the request came.\n\
                 To prevent that: waybill privacy cancel {}\n",
                zone::time(until),
                it.id
            );
        }
        (Ok(State::Held), None) => {
            if let Some(held) = &it.held {
                text.push_str(&may_mean(it.id, held));
            } else {
                let _ = write!(
                    text,
                    "\nNothing is done until you say that it is meant; its deadline runs meanwhile.\nTo \
                     let it be erased: waybill privacy confirm {0}\nTo prevent that: waybill privacy cancel {0}\n",
                    it.id
                );
            }
        }
        (Ok(State::Failed), _) => {
            let _ = write!(
                text,
                "\nIt was given up. Mend what `last error` says, then: waybill privacy retry {}\n",
                it.id
            );
        }
        _ => {}
    }
    text
}

/// Lists whom a held request may mean besides the certain part, and the command that decides it.
fn may_mean(id: Uuid, held: &Held) -> String {
    let mut text = String::from(
        "\nWhat is certain is done. An address or a telephone number of the request stands here \
         too;\nwhether it is the same person, only somebody who asks them can say:\n",
    );
    for (customer, times) in &held.customers {
        let _ = writeln!(text, "  customer {customer}, {times} times");
    }
    for order in &held.orders {
        let _ = writeln!(text, "  order {order}, of no customer");
    }
    if held.is_cut {
        text.push_str("  and more: the address or number is one that very many have\n");
    }
    let _ = write!(
        text,
        "Its deadline goes on. To decide: waybill privacy decide {id} --include CUSTOMER, \
         --exclude CUSTOMER,\n--include-order ORDER, --exclude-order ORDER, --exclude-rest\n"
    );
    text
}

async fn receipt(db: &Db, id: Uuid, json: bool) -> Result<()> {
    let entry = privacy_requests::find(db, id).await?;
    let entry = entry.ok_or_else(|| unknown(id))?;
    let Some(document) = entry.receipt else {
        bail!(
            "request {id} is {}; a receipt is written when it is done",
            entry.state
        );
    };
    if json {
        return table::print_json(&document);
    }
    let receipt: Receipt = serde_json::from_value(document)?;
    table::print(&receipt.describe()?)
}

/// A receipt as `--json` prints it. The signature is over the bytes of `receipt`.
#[derive(Deserialize)]
struct Receipt {
    algorithm: String,
    public_key: String,
    signature: String,
    receipt: String,
}

impl Receipt {
    fn describe(&self) -> Result<String> {
        let says: Value = serde_json::from_str(&self.receipt)?;
        let mut facts = Table::new(["public key", &self.public_key]);
        facts.fact("signature", self.signature.clone());
        let Some(object) = says.as_object() else {
            bail!("the receipt is not a JSON object");
        };
        for (name, value) in object {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Null => "-".to_owned(),
                other => other.to_string(),
            };
            facts.row([name.clone(), value]);
        }
        Ok(facts.render())
    }

    /// The public key of the receipt, if the signature is right.
    fn signer(&self) -> Option<Vec<u8>> {
        let public = STANDARD.decode(&self.public_key).ok()?;
        let signature = STANDARD.decode(&self.signature).ok()?;
        let is_signed = self.algorithm == "Ed25519"
            && privacy::verify(&public, self.receipt.as_bytes(), &signature);
        is_signed.then_some(public)
    }
}

async fn take_key_out(db: &Db, output: &Path, actor: &str) -> Result<()> {
    let (text, keys) = privacy_keys::taken_out(db).await?;
    let mut file = create(output)?;
    let by = By {
        keys: &keys,
        actor,
        now: Clock::system().now(),
    };
    let mut tx = db.begin().await?;
    by.note(&mut tx, "privacy_key.taken_out", "privacy_key", json!({}))
        .await?;
    tx.commit().await?;
    writeln!(file, "{}", text.expose())?;
    file.sync_all()?;
    table::print(&format!(
        "The key is in {}. Set PRIVACY_KEY_FILE to it for every service and command, and back it \
         up, not beside the database.\n",
        output.display()
    ))
}

/// Checks that a receipt belongs to a request that named this address or number.
fn names(keys: &Keys, says: &Value, person: &Person) -> Result<()> {
    let request = says["request_id"].as_str().and_then(|id| id.parse().ok());
    let asked: Asked = serde_json::from_value(says["asked"].clone()).unwrap_or_default();
    let given = keys.asked(request.unwrap_or_default(), person);
    if person.phone.is_some() && given.phone.is_none() {
        bail!("the telephone number has too few digits to tell two people apart");
    }
    let pairs = [
        (given.email, asked.email, "e-mail address"),
        (given.phone, asked.phone, "telephone number"),
    ];
    for (given, asked, what) in pairs {
        if given.is_some() && given != asked {
            bail!("the receipt is right, but it is NOT of a request that named this {what}");
        }
    }
    Ok(())
}

async fn verify_receipt(settings: &Settings, file: &Path, person: &Person) -> Result<()> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let receipt: Receipt = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not what `waybill privacy receipt --json` prints",
            file.display()
        )
    })?;
    let Some(signer) = receipt.signer() else {
        bail!("the signature is WRONG: the receipt is not as it was signed");
    };
    let db = commands::database(settings).await?;
    let keys = keys(settings, &db).await;
    db.close().await;
    let keys = keys?;
    if keys.public() != signer {
        bail!(
            "the signature fits, but its public key is NOT this installation's: anyone can sign \
             with a key of their own. Verify it where it was issued"
        );
    }
    let says: Value = serde_json::from_str(&receipt.receipt)?;
    names(&keys, &says, person)?;
    table::print(&receipt.describe()?)?;
    if *person != Person::default() {
        table::print("\nThe receipt is of a request that named what was given.")?;
    }
    table::print("\nThe signature is right, and its public key is this installation's.\n")
}

async fn export(
    settings: &Settings,
    db: &Db,
    author: &Author,
    id: Uuid,
    output: Option<&Path>,
) -> Result<()> {
    let exports = Exports::new(&Config::privacy(settings)?.exports);
    let state = journal::look(db, &author.keys, &exports).await?;
    if !state.is_current() {
        bail!("no export goes out: {state}. {}", state.mend());
    }
    let mut file = output.map(create).transpose()?;
    let by = author.by(Clock::system().now());
    let fetched = operators::exports::fetch(db, by, &exports, id).await;
    let (export, document) = match (fetched, output) {
        (Ok(fetched), _) => fetched,
        (Err(error), None) => return Err(error.into()),
        (Err(error), Some(path)) => {
            // This command has just made the file, and it is still empty.
            let _ = std::fs::remove_file(path);
            return Err(error.into());
        }
    };
    let Some(file) = &mut file else {
        let document = String::from_utf8(document)?;
        return table::was_read(terminal::document(&document)).map(|_| ());
    };
    file.write_all(&document)?;
    file.sync_all()?;
    terminal::err(&format!(
        "{} bytes, SHA-256 {}: as they were written.\n",
        export.bytes, export.sha256
    ));
    Ok(())
}

/// Makes a new file. It fails if the file exists, because other users may be able to read an
/// existing one.
fn create(path: &Path) -> Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow!(
            "{} exists, and is not overwritten; name another file",
            path.display()
        ),
        _ => anyhow!("cannot create {}: {error}", path.display()),
    })
}

#[cfg(test)]
#[path = "../../tests/unit/commands/privacy.rs"]
mod tests;
