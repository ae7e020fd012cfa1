//! People whose data consists of canaries, and the search for these. In everything that a person
//! sends, each personal field has a text by which the person can be recognized wherever the text
//! is found: `cnry-00421-city`, or the telephone number `+155577700421707`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use store::sql::Db;

use super::backend::{Backend, is_distributed, statement};

/// A canary of this person.
pub fn word(person: usize, field: &str) -> String {
    format!("cnry-{person:05}-{field}")
}

pub fn email(person: usize) -> String {
    format!("Cnry-{person:05}-Mail@example.com")
}

/// As the storefront writes it.
pub fn phone(person: usize) -> String {
    format!("+1555777{person:05}707")
}

/// The same as a person writes it.
pub fn spaced_phone(person: usize) -> String {
    format!("+1 (555) 777-{person:05}-707")
}

/// A storefront's address; `of` tells two of a person's apart.
pub fn address(person: usize, of: &str) -> Value {
    let word = |field: &str| word(person, &format!("{of}-{field}"));
    json!({
        "first_name": word("first"), "last_name": word("last"), "name": word("name"),
        "company": word("company"), "address1": word("street"), "address2": word("door"),
        "city": word("city"), "province": word("province"), "province_code": word("code"),
        "country": word("country"), "zip": word("zip"), "phone": phone(person),
        "latitude": word("latitude"), "longitude": word("longitude"),
    })
}

/// The payment provider's address.
pub fn billing_details(person: usize) -> Value {
    json!({
        "name": word(person, "payer"), "email": email(person), "phone": phone(person),
        "address": {
            "line1": word(person, "line1"), "line2": word(person, "line2"),
            "city": word(person, "payer-city"), "state": word(person, "payer-state"),
            "postal_code": word(person, "payer-zip"), "country": word(person, "payer-country"),
        },
    })
}

/// The canaries of a search, by person; of each one place where it was found.
pub type Found = BTreeMap<usize, String>;

/// The people of whom a canary is in these bytes.
pub fn scan(place: &str, bytes: &[u8], found: &mut Found) {
    for at in 0..bytes.len() {
        // A letter in lower case, a digit as it is.
        let person = match bytes[at] | 0x20 {
            b'c' => after(bytes, at, b"cnry-", b"-"),
            b'1' => after(bytes, at, b"1555777", b"707"),
            b'7' => after(bytes, at, b"777-", b"-707"),
            _ => None,
        };
        if let Some(person) = person {
            found.entry(person).or_insert_with(|| {
                let around = &bytes[at.saturating_sub(60)..bytes.len().min(at + 60)];
                format!("{place}: {}", String::from_utf8_lossy(around))
            });
        }
    }
}

/// The five digits between these texts.
fn after(bytes: &[u8], at: usize, before: &[u8], behind: &[u8]) -> Option<usize> {
    let rest = &bytes[at..];
    let head = rest.get(..before.len())?;
    let digits = rest.get(before.len()..before.len() + 5)?;
    let tail = rest.get(before.len() + 5..before.len() + 5 + behind.len())?;
    if !head.eq_ignore_ascii_case(before) || tail != behind {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The same of text in which bytes are in hex after `\x`, as PostgreSQL writes them.
fn scan_hex(place: &str, text: &[u8], found: &mut Found) {
    let mut rest = text;
    while let Some(at) = position(rest, b"\\x") {
        rest = &rest[at + 2..];
        let end = rest.iter().position(|byte| !byte.is_ascii_hexdigit());
        let (run, next) = rest.split_at(end.unwrap_or(rest.len()));
        if let Ok(bytes) = hex::decode(run) {
            scan(place, &bytes, found);
        }
        rest = next;
    }
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Every file below a folder, or the one file.
pub fn scan_files(path: &Path, found: &mut Found) {
    for file in files(path) {
        // A server may have removed it meanwhile.
        let Ok(bytes) = std::fs::read(&file) else {
            continue;
        };
        let place = file.display().to_string();
        scan(&place, place.as_bytes(), found);
        scan(&place, &bytes, found);
    }
}

/// The files below a folder, at any depth; of a file the file itself, of nothing none.
pub fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok);
    entries.flat_map(|entry| files(&entry.path())).collect()
}

/// Every row of every table. PostgreSQL's dump shows them, and none that was deleted. SQLite
/// copies them into a new file, which is searched byte by byte. Both may be in use.
pub async fn scan_database(backend: &Backend, found: &mut Found) {
    if is_distributed() {
        let dump = Command::new("pg_dump")
            .arg(&backend.database_url)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&dump.stderr);
        assert!(dump.status.success(), "pg_dump: {complaint}");
        scan("dump", &dump.stdout, found);
        scan_hex("dump, bytes", &dump.stdout, found);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    vacuum(backend, &format!("vacuum into '{}'", copy.display())).await;
    scan_files(&copy, found);
}

/// What lies in the space between the rows of a page counts too, be it as small as it may.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    All,
    /// But not in a page of deliveries where no row fits any more (docs/retention.md).
    ThatRowsFitIn,
}

/// A row of deliveries takes more.
const SMALLEST_ROW: usize = 68;

/// The bytes of the database's own files as they lie, be they in use or not: SQLite's with its log,
/// a server's with its indexes, with what is kept beside the rows, and with its catalog.
pub async fn scan_database_files(backend: &Backend, gaps: Gaps, found: &mut Found) {
    if is_distributed() {
        scan_server_files(backend, gaps, found).await;
        return;
    }
    let path = backend.database_url.trim_start_matches("sqlite://");
    // The log is read before the file, because the service empties it into the file at any moment.
    for suffix in ["-wal", "", "-shm"] {
        scan_files(Path::new(&format!("{path}{suffix}")), found);
    }
}

/// The server itself reads its files, wherever they are.
async fn scan_server_files(backend: &Backend, gaps: Gaps, found: &mut Found) {
    let db = Db::open(&backend.database_url, 1).await.unwrap();
    // What it has in memory goes into the files first.
    let written = db.query("checkpoint").execute().await;
    written.expect("the tests' user must be a superuser of the server, to read its files");
    let deliveries = db.query(
        "select pg_relation_filepath(oid) as rows, pg_relation_filepath(reltoastrelid) as bodies
         from pg_class where oid = to_regclass('deliveries')",
    );
    let deliveries = deliveries.fetch_one().await.unwrap();
    let deliveries: [String; 2] = ["rows", "bodies"].map(|of| deliveries.get(of).unwrap());
    let files = db.query(
        "select 'base/' || oid || '/' || name as path
         from pg_database, pg_ls_dir('base/' || oid) as name
         where datname = current_database()",
    );
    let files = files.fetch_all().await.unwrap();
    assert!(files.len() > 300, "{} files", files.len());
    for file in &files {
        let path: String = file.get("path").unwrap();
        let read = db.query("select pg_read_binary_file($1, 0, 1000000000, true) as bytes");
        let read = read.bind(path.as_str()).fetch_one().await.unwrap();
        // It may have been removed meanwhile.
        let bytes: Option<Vec<u8>> = read.get("bytes").unwrap();
        let mut bytes = bytes.unwrap_or_default();
        if deliveries.contains(&path) && gaps == Gaps::ThatRowsFitIn {
            bytes.chunks_mut(8192).for_each(forget_small_gap);
        }
        scan(&path, &bytes, found);
    }
    db.close().await;
}

/// Takes out of a page what lies between the list of its rows and the rows, where no row fits in.
fn forget_small_gap(page: &mut [u8]) {
    let number = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
    let (begin, end) = (number(12), number(14));
    if begin < end && end - begin < SMALLEST_ROW {
        page[begin..end].fill(0);
    }
}

/// Keeps large bodies as they are: PostgreSQL would compress them, and hide them from the search.
pub async fn compress_nothing(backend: &Backend) {
    if is_distributed() {
        let db = Db::open(&backend.database_url, 1).await.unwrap();
        let alter = "alter table deliveries alter column body set storage external";
        db.query(alter).execute().await.unwrap();
        db.close().await;
    }
}

async fn vacuum(backend: &Backend, how: &str) {
    let db = Db::open(&backend.database_url, 1).await.unwrap();
    // Outside a transaction are the readers alone, which are told not to write.
    let sql = format!("pragma query_only = off; {how}; pragma wal_checkpoint(truncate)");
    db.query(statement(sql)).execute().await.unwrap();
    db.close().await;
}

/// Where the broker of `scripts/services` keeps its messages. None: it is another one.
pub fn broker_folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let state = services_folder().unwrap_or_else(|| root.join("target/services"));
    let home = std::fs::read_to_string(state.join("rabbitmq/home")).ok()?;
    Some(PathBuf::from(home.trim())).filter(|home| home.is_dir())
}

#[expect(
    clippy::disallowed_methods,
    reason = "scripts/services reads it from there too"
)]
fn services_folder() -> Option<PathBuf> {
    std::env::var_os("WAYBILL_SERVICES_DIR").map(PathBuf::from)
}
