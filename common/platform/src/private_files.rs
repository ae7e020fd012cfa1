//! Files and folders that only the user of the service can read, whatever the umask is.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

pub const FILE: u32 = 0o600;
pub const FOLDER: u32 = 0o700;

/// Makes a folder, and the folders above it that are missing.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER)
        .create(folder)
}

/// Makes an empty file if there is none.
pub fn make_file(file: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(FILE).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(|_| ()),
    }
}
