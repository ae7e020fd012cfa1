//! `waybill backup` copies the database into one file while services use it, and `waybill restore` makes
//! a database of such a file. SQLite copies itself. For PostgreSQL its own `pg_dump` and `pg_restore` do
//! it, so such a backup can be restored without Waybill too.

mod postgres;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::database::{place, sqlite_file};
use config::{Config, Settings, on_this_machine};
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::{private_files, terminal};
use serde_json::json;
use store::sql;
use store::{backups, migrations, privacy_keys};
use tempfile::{NamedTempFile, TempDir, TempPath};
use tokio::time::Instant;

use crate::commands::{client, misused};
use crate::table;
use lists::shown::quoted;

/// The first bytes of a SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// The first bytes of a dump in the custom format of `pg_dump`.
const DUMP: &[u8] = b"PGDMP";

const LOOK: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub struct Backup {
    /// Where the backup goes: a file that is not there yet. Only its owner may read it
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Restore {
    /// A file that `waybill backup` made
    file: PathBuf,
}

pub async fn backup(settings: &Settings, arguments: &Backup) -> Result<()> {
    let url = Config::database_url(settings)?;
    let file = &arguments.file;
    if file.exists() {
        return Err(misused(format!(
            "{} is there already, and a backup overwrites nothing: give another name",
            file.display()
        )));
    }
    let began = Instant::now();
    let db = super::database(settings).await?;
    let key = privacy_keys::taken_out(&db).await;
    let began_at = Clock::system().now();
    db.close().await;
    let folder = folder_of(file);
    let partial = NamedTempFile::with_prefix_in(".waybill-backup-", folder);
    let partial = partial.with_context(|| format!("cannot write to {}", folder.display()))?;
    let copied = shown(partial.path(), async {
        if sqlite_file(&url).is_some() {
            let copied = sql::copy_sqlite(&url, partial.path()).await;
            copied.with_context(|| place(&url))
        } else {
            postgres::dump(&url, partial.path()).await
        }
    });
    copied.await?;
    check(partial.path()).await?;
    let bytes = keep(partial, file)?;
    report(arguments, &url, bytes, began.elapsed())?;
    if let Err(error) = note(settings, began_at).await {
        terminal::err(&format!(
            "warning: it cannot be noted in the database that this backup was made, so `waybill doctor` may ask for one: {error:#}\n"
        ));
    }
    if key.is_ok() {
        terminal::err(
            "warning: the database still has the key by which erased people are recognized, and so has \
             the backup. Take it out with `waybill privacy key --output FILE`, and keep it elsewhere.\n",
        );
    }
    Ok(())
}

async fn note(settings: &Settings, at: Timestamp) -> Result<()> {
    let db = super::database(settings).await?;
    let noted = backups::made(&db, at).await;
    db.close().await;
    Ok(noted?)
}

pub async fn restore(settings: &Settings, arguments: &Restore) -> Result<()> {
    let url = Config::database_url(settings)?;
    let file = &arguments.file;
    let is_sqlite = kind(file)?;
    if is_sqlite != sqlite_file(&url).is_some() {
        let (of, to) = if is_sqlite {
            ("SQLite", "PostgreSQL")
        } else {
            ("PostgreSQL", "SQLite")
        };
        return Err(misused(format!(
            "{} is a backup of {of}, and DATABASE_URL names a database of {to}; restore it into one of \
             {of}. `waybill copy` goes on from SQLite with PostgreSQL",
            file.display()
        )));
    }
    refuse_while_served(settings).await?;
    check(file).await?;
    if let Some(database) = sqlite_file(&url) {
        restore_sqlite(file, &database).await?;
    } else {
        postgres::restore(&url, file).await?;
    }
    table::print(&format!(
        "{} is restored from {}.\n\
         Who was erased after the backup is in it again: `waybill privacy reapply` erases them, and no \
         service serves the database before that.\n\
         What was accepted after the backup is not in it: start the services, run `waybill doctor`, and \
         let the providers send again what they sent since.\n",
        capitalized(&place(&url)),
        file.display()
    ))
}

/// The database is put in its place when all of it is there and it was looked into.
async fn restore_sqlite(file: &Path, database: &Path) -> Result<()> {
    if database.exists() {
        return Err(misused(format!(
            "there is a database {} already, and a restore overwrites nothing: move it away first",
            database.display()
        )));
    }
    let folder = folder_of(database);
    private_files::make_folder(folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let made = TempDir::with_prefix_in(".waybill-restore-", folder);
    let made = made.with_context(|| format!("cannot write to {}", folder.display()))?;
    let copy = made.path().join("waybill.db");
    private_files::make_file(&copy)?;
    shown(&copy, async {
        let copied = tokio::fs::copy(file, &copy).await;
        copied.with_context(|| format!("cannot copy {}", file.display()))
    })
    .await?;
    let url = format!("sqlite://{}", copy.display());
    fits(&url).await?;
    File::open(&copy)?.sync_all()?;
    let placed = TempPath::try_from_path(copy)?.persist_noclobber(database);
    placed.with_context(|| format!("cannot make {}", database.display()))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Fails for a database that this version cannot work with. One of an older version gets the migrations
/// that it lacks from the first service that starts.
async fn fits(url: &str) -> Result<()> {
    let db = sql::Db::open(url, 1).await?;
    let compared = migrations::compare(&db).await;
    db.close().await;
    let compared = compared?;
    match compared.lacks() {
        Some(lacks) if compared.applied == 0 || !compared.changed.is_empty() => bail!("{lacks}"),
        _ => Ok(()),
    }
}

/// Whether a backup is of SQLite; if not, it is of PostgreSQL.
fn kind(file: &Path) -> Result<bool> {
    let mut first = Vec::new();
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    opened.take(SQLITE.len() as u64).read_to_end(&mut first)?;
    if first.starts_with(SQLITE) {
        return Ok(true);
    }
    if first.starts_with(DUMP) {
        return Ok(false);
    }
    Err(misused(format!(
        "{} is no backup: it is neither a SQLite file nor a dump in the custom format of pg_dump",
        file.display()
    )))
}

/// Reads a whole backup, and fails if it is damaged.
async fn check(file: &Path) -> Result<()> {
    if !kind(file)? {
        return postgres::check(file).await;
    }
    let log = PathBuf::from(format!("{}-wal", file.display()));
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        bail!(
            "{} is a database in use and no backup: {} belongs to it. Make one with `waybill backup`",
            file.display(),
            log.display()
        );
    }
    match sql::check_sqlite(file).await {
        Ok(None) => Ok(()),
        Ok(Some(found)) => bail!("{} is damaged: {found}", file.display()),
        Err(error) => Err(error).with_context(|| format!("{} is damaged", file.display())),
    }
}

/// A service that runs would go on with the database that was there before.
async fn refuse_while_served(settings: &Settings) -> Result<()> {
    let address = on_this_machine(Config::listen_addr(settings)?);
    let asked = format!("http://{address}/livez");
    if client(&asked, DEADLINE)?.get(&asked).send().await.is_ok() {
        bail!("a service answers on {address}: stop it, and all others, before a restore");
    }
    Ok(())
}

/// Gives a backup its name, when it is on disk.
fn keep(partial: NamedTempFile, file: &Path) -> Result<u64> {
    // pg_dump may have made the file anew.
    let written = File::open(partial.path())?;
    written.sync_all()?;
    let bytes = written.metadata()?.len();
    let kept = partial.persist_noclobber(file);
    kept.with_context(|| format!("cannot make {}", file.display()))?;
    File::open(folder_of(file))?.sync_all()?;
    Ok(bytes)
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Does the work, and shows on a terminal how large the file has become.
async fn shown<T>(file: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                terminal::over("");
                return done;
            }
            () = tokio::time::sleep(LOOK) => {
                let bytes = fs::metadata(file).map_or(0, |file| file.len());
                terminal::over(&format!("{} written", size(bytes)));
            }
        }
    }
}

fn report(arguments: &Backup, url: &str, bytes: u64, took: Duration) -> Result<()> {
    let file = &arguments.file;
    let seconds = took.as_secs_f64();
    if arguments.json {
        let report =
            json!({"file": file, "bytes": bytes, "seconds": (seconds * 10.0).round() / 10.0});
        return table::print(&format!("{}\n", terminal::json(&report)?));
    }
    table::print(&format!(
        "{} is copied to {}, {} in {seconds:.1} s. It was read again and is whole.\n\
         Keep it no longer than the people in it may be kept. Try it: waybill restore {} \
         --database-url <an empty database>\n",
        capitalized(&place(url)),
        file.display(),
        size(bytes),
        quoted(&file.display().to_string()),
    ))
}

fn capitalized(place: &str) -> String {
    place.replacen("the ", "The ", 1)
}

/// A number of bytes as people read it.
fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        KIB..1_048_576 => format!("{} KiB", bytes / KIB),
        _ => format!("{} MiB", bytes / KIB / KIB),
    }
}
