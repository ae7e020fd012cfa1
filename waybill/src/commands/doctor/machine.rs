//! Checks of this machine: which ports it can reach, and how much room its disks have.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use config::Config;
use config::database::sqlite_file;
use providers::exports::ExportStore;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Finding;

const CONNECT: Duration = Duration::from_secs(2);
/// If a disk has less free room than this, in KiB, it is nearly full.
const LITTLE: u64 = 1024 * 1024;
const TOO_LITTLE: u64 = 100 * 1024;

/// Checks that something listens on this port. The error says what is wrong.
pub async fn connects(host: &str, port: u16) -> Result<(), String> {
    let host = host.trim_matches(['[', ']']);
    match timeout(CONNECT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(format!("nothing listens on {host}:{port}"))
        }
        Ok(Err(error)) => Err(format!("cannot reach {host}:{port}: {error}")),
        Err(_) => Err(format!("{host}:{port} does not answer")),
    }
}

/// Checks the free room of the disk on which this machine keeps data.
pub async fn disk(config: &Config) -> Vec<Finding> {
    let mut places: Vec<PathBuf> = sqlite_file(&config.database_url).into_iter().collect();
    if let ExportStore::Folder(folder) = &config.privacy.exports {
        places.push(folder.clone());
    }
    let looked = tokio::task::spawn_blocking(move || {
        let free = places.iter().filter_map(|place| free_kib(place));
        free.min()
    });
    let Ok(Some(free)) = looked.await else {
        return Vec::new();
    };
    let found = format!("{:.1} GiB free where data is kept", gib(free));
    let advice = "Make room, or move the data: when the disk is full nothing is accepted.";
    vec![if free < TOO_LITTLE {
        Finding::failed("disk", found, advice)
    } else if free < LITTLE {
        Finding::warning("disk", found, advice)
    } else {
        Finding::ok("disk", found)
    }]
}

fn gib(kib: u64) -> f64 {
    let mib = u32::try_from(kib / 1024).unwrap_or(u32::MAX);
    f64::from(mib) / 1024.0
}

/// The free room in KiB, as `df` (POSIX) reports it for the nearest folder that exists.
fn free_kib(place: &Path) -> Option<u64> {
    let place = std::path::absolute(place).ok()?;
    let there = place.ancestors().find(|place| place.exists())?;
    let mut df = Command::new("df");
    let said = df
        .arg("-Pk")
        .arg(there)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let free = said.lines().nth(1)?.split_whitespace().nth(3)?;
    free.parse().ok()
}
