//! Files on this machine that hold people's data. Only the user of the service may read them,
//! whatever the umask, and they are in folders that nobody else can look into.
//!
//! Waybill creates all files and folders with these permissions. When a service starts, it narrows
//! the permissions of files that an older version made or that somebody widened. If it cannot,
//! because a file belongs to another user, the service does not start. A folder is narrowed only
//! if everything in it is Waybill's. If it holds other files too, somebody has chosen a shared
//! folder, so only Waybill's files in it are narrowed.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use uuid::Uuid;

use crate::{Config, database};
use platform::private_files::{FILE, FOLDER};
use providers::exports::ExportStore;

/// The permission bits of all users except the owner.
const OTHERS: u32 = 0o077;
/// The endings of the names of SQLite's files, and of the file that gives writers their turn.
const ENDINGS: &[&str] = &["", "-wal", "-shm", "-journal", "-turn"];
/// Other entries that may be beside the database: the folder with pictures of QR codes, and the
/// one that a file system keeps at its root.
const BESIDE: &[&str] = &["qr", "lost+found"];

/// Narrows the permissions of the files and folders of this service that other users can reach. It
/// fails if a file cannot be narrowed.
pub fn narrow(config: &Config) -> Result<()> {
    for it in wide(config) {
        let path = it.path.display();
        let narrowed = std::fs::set_permissions(&it.path, Permissions::from_mode(it.right()));
        match narrowed {
            Ok(()) => {
                tracing::info!(%path, "was open to other users of this machine, and is closed now");
            }
            // The root folder of a volume may belong to the user who mounted it.
            Err(error) if it.is_folder && error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "{path} can be read by other users of this machine, and this user may not \
                         change its permissions: give it to the user of the service (chown), or \
                         run chmod 600"
                    )
                });
            }
        }
    }
    Ok(())
}

/// A file or folder that other users of this machine can reach.
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

/// The files and folders with this service's data that other users can reach.
pub fn wide(config: &Config) -> Vec<Wide> {
    let mut found = Vec::new();
    let exports = match &config.privacy.exports {
        ExportStore::Folder(folder) => std::path::absolute(folder).ok(),
        ExportStore::S3(_) => None,
    };
    let database = database::sqlite_file(&config.database_url);
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

/// The folder of exports has a folder for each request, whose name is its id, and in it a folder for each
/// run that wrote an export.
fn of_exports(exports: &Path, found: &mut Vec<Wide>) {
    let is_export = |entry: &Path| {
        let name = entry.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name == "lost+found" || Uuid::try_parse(name).is_ok())
    };
    look_at_folder(exports, is_export, found);
    let ours = entries(exports).into_iter();
    for of_request in ours.filter(|entry| is_export(entry) && entry.is_dir()) {
        look_at(&of_request, found);
        for of_run in entries(&of_request) {
            look_at(&of_run, found);
            for file in entries(&of_run) {
                look_at(&file, found);
            }
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

/// Adds the path to `found` if other users can reach it. A path that does not exist, or whose
/// permissions cannot be read, is skipped.
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
