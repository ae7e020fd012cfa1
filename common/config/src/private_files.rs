//! Files on this machine that hold people's data: for the user of the service alone, whatever the
//! umask, in folders that nobody else can look into.
//!
//! What is made is made so. What an older version made, or somebody widened, is narrowed when a
//! service starts; a file that belongs to another user, and cannot be, ends the start. A folder
//! is narrowed when all in it is Waybill's: one that holds other things too is somebody's choice,
//! and the files in it are closed.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use uuid::Uuid;

use crate::Config;
use platform::private_files::{FILE, FOLDER};
use providers::exports::ExportStore;
use store::sql;

/// What others may do.
const OTHERS: u32 = 0o077;
/// SQLite's own files end so, and the one of [`sql::Turn`].
const ENDINGS: &[&str] = &["", "-wal", "-shm", "-journal", "-turn"];
/// Beside the database: pictures of QR codes, and what a file system keeps at its root.
const BESIDE: &[&str] = &["qr", "lost+found"];

/// Closes to others what is there of this service's data.
pub fn narrow(config: &Config) -> Result<()> {
    for it in wide(config) {
        let path = it.path.display();
        let narrowed = std::fs::set_permissions(&it.path, Permissions::from_mode(it.right()));
        match narrowed {
            Ok(()) => {
                tracing::info!(%path, "was open to other users of this machine, and is closed now");
            }
            // A volume's root may belong to whoever mounted it.
            Err(error) if it.is_folder && error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "{path} can be read by other users of this machine, and cannot be closed \
                         to them by this one: give it to the user of the service (chown), or say \
                         chmod 600"
                    )
                });
            }
        }
    }
    Ok(())
}

/// A file or folder that others can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wide {
    pub path: PathBuf,
    pub mode: u32,
    is_folder: bool,
}

impl Wide {
    fn right(&self) -> u32 {
        if self.is_folder { FOLDER } else { FILE }
    }
}

/// All that is there of this service's data and that others can reach.
pub fn wide(config: &Config) -> Vec<Wide> {
    let mut found = Vec::new();
    let exports = match &config.privacy.exports {
        ExportStore::Folder(folder) => std::path::absolute(folder).ok(),
        ExportStore::S3(_) => None,
    };
    let database = sql::sqlite_file(&config.database_url);
    if let Some(database) = database.and_then(|file| std::path::absolute(file).ok()) {
        of_database(&database, exports.as_deref(), &mut found);
    }
    if let Some(exports) = &exports {
        of_exports(exports, &mut found);
    }
    found
}

fn of_database(database: &Path, exports: Option<&Path>, found: &mut Vec<Wide>) {
    let Some(name) = database.file_name() else {
        return;
    };
    let names: Vec<_> = ENDINGS
        .iter()
        .map(|ending| {
            let mut name = name.to_owned();
            name.push(ending);
            name
        })
        .collect();
    let is_ours = |entry: &Path| {
        let name = entry.file_name().unwrap_or_default();
        names.iter().any(|it| it == name)
            || BESIDE.iter().any(|it| *it == name)
            || exports.is_some_and(|exports| exports == entry)
    };
    if let Some(folder) = database.parent() {
        look_at_folder(folder, is_ours, found);
    }
    for name in &names {
        look_at(&database.with_file_name(name), found);
    }
}

/// The folder of exports has a folder for each, which is named by its request.
fn of_exports(exports: &Path, found: &mut Vec<Wide>) {
    let is_export = |entry: &Path| {
        let name = entry.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name == "lost+found" || Uuid::try_parse(name).is_ok())
    };
    look_at_folder(exports, is_export, found);
    let ours = entries(exports).into_iter();
    for export in ours.filter(|entry| is_export(entry) && entry.is_dir()) {
        look_at_folder(&export, |_| true, found);
        for file in entries(&export) {
            look_at(&file, found);
        }
    }
}

fn look_at_folder(folder: &Path, is_ours: impl Fn(&Path) -> bool, found: &mut Vec<Wide>) {
    if entries(folder).iter().all(|entry| is_ours(entry)) {
        look_at(folder, found);
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// What is not there, or cannot be looked at, is open to nobody through us.
fn look_at(path: &Path, found: &mut Vec<Wide>) {
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        found.push(Wide {
            path: path.to_owned(),
            mode,
            is_folder: metadata.is_dir(),
        });
    }
}
