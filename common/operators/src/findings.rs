//! Findings: what `waybill doctor` and the console say about the settings, the database and the processes,
//! each with what to do about it. What is here asks the database and this machine at most, and changes nothing.

pub mod clock;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use config::Config;
use config::database::sqlite_file;
use config::protections::{PROTECTIONS, Protection, State};
use domain::attention::Condition;
use domain::redact::redact;
use domain::time::{Timestamp, age};
use providers::exports::ExportStore;
use providers::is_loopback;
use qr::OddSize;
use serde::Serialize;
use store::endpoints::Endpoint;
use store::leases::{self, WEBHOOKS};
use store::sql::{self, Access, Db, HeldBack, Oldest};
use store::{backups, deliveries, shapes};

/// A transaction that is older than this, or behind so many others, makes queries over jobs slow.
const OLD: Duration = Duration::from_mins(5);
const MANY_SINCE: i64 = 100_000;

/// If a disk has less free room than this, in KiB, it is nearly full.
const LITTLE: u64 = 1024 * 1024;
const TOO_LITTLE: u64 = 100 * 1024;

/// A writer of events commits right after it has written them.
const LONG_HELD: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    Warning,
    Failed,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub level: Level,
    pub found: String,
    /// What the operator should do. `None` if the check is ok.
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, found, None)
    }

    pub fn warning(check: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self::new(check, Level::Warning, found, Some(advice))
    }

    pub fn failed(check: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self::new(check, Level::Failed, found, Some(advice))
    }

    fn new(
        check: &'static str,
        level: Level,
        found: impl Into<String>,
        advice: Option<&str>,
    ) -> Self {
        Finding {
            check,
            level,
            found: redact(&found.into()).into_owned(),
            advice: advice.map(ToOwned::to_owned),
        }
    }
}

/// What the settings weaken, or what they make of no use.
pub fn settings(config: &Config) -> Vec<Finding> {
    let protections = PROTECTIONS.iter();
    protections
        .filter_map(|protection| judge(protection, config))
        .chain(public_address(config))
        .chain(pictures(config))
        .collect()
}

fn judge(protection: &Protection, config: &Config) -> Option<Finding> {
    let Protection {
        name,
        setting,
        open,
        advice,
        ..
    } = protection;
    let advice = format!("{setting}: {advice}");
    match protection.state(config) {
        State::Unused => None,
        State::On => Some(Finding::ok(name, "on")),
        State::Off(places) if places.is_empty() => {
            Some(Finding::warning(name, format!("off: {open}"), &advice))
        }
        State::Off(places) => {
            let found = format!("off ({places}): {open}");
            Some(Finding::warning(name, found, &advice))
        }
    }
}

/// Whether the links that people get lead to this machine alone.
fn public_address(config: &Config) -> Option<Finding> {
    let is_meant = config.development || !is_loopback(&config.public_url);
    (!is_meant).then(|| {
        Finding::warning(
            "public address",
            format!(
                "{}: QR codes, links in mails and links to exports lead everybody to their own \
                 machine",
                config.public_url
            ),
            "Set PUBLIC_URL to the https:// address at which people reach the service.",
        )
    })
}

/// How old a delivery may be that is in no backup.
const BACKED_UP: Duration = Duration::from_hours(7 * 24);
/// Whoever has made none for so long with PostgreSQL does it in another way.
const IN_ANOTHER_WAY: Duration = Duration::from_hours(30 * 24);

/// Whether there is a backup of what came. `None`: the database is PostgreSQL, which has means of its own, and `waybill
/// backup` is not in use.
pub async fn backup(db: &Db, config: &Config, now: Timestamp) -> sql::Result<Option<Finding>> {
    const CHECK: &str = "backup";
    let last = backups::last(db).await?;
    let is_in_use = last.is_some_and(|last| now.since(last) < IN_ANOTHER_WAY);
    if !is_in_use && sqlite_file(&config.database_url).is_none() {
        return Ok(None);
    }
    let found = match last {
        Some(at) => format!("the last one is {} old", age(now, at)),
        None => "none was made with `waybill backup`".to_owned(),
    };
    let first = deliveries::first_after(db, last.unwrap_or(Timestamp(0))).await?;
    let is_old = first.is_some_and(|first| now.since(first) > BACKED_UP);
    Ok(Some(if is_old {
        Finding::warning(CHECK, found, Condition::BackupOld.row().mend)
    } else {
        Finding::ok(CHECK, found)
    }))
}

/// A change of the shape of deliveries is shown as long as they come.
const CHANGED: Duration = Duration::from_hours(24);

/// What has changed of the shape of deliveries: of which topic or type and member, and in other words how.
pub async fn changed(db: &Db, now: Timestamp) -> sql::Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for it in shapes::changed(db, now.minus(CHANGED), now).await? {
        let name = format!("{} {}", it.kind, it.member);
        let version = it.api_version.map(|it| format!(", API version {it}"));
        let version = version.unwrap_or_default();
        let of = counted(it.senders, "shop or account", "shops or accounts");
        let number = counted(it.deliveries, "delivery", "deliveries");
        let details = format!("it {} in {number} of {of}{version}", it.state.in_words());
        match found.last_mut() {
            Some((last, all)) if *last == name => *all = format!("{all}; {details}"),
            _ => found.push((name, details)),
        }
    }
    Ok(found)
}

fn counted(number: i64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Whether deliveries are as they always were.
pub async fn shapes(db: &Db, now: Timestamp) -> sql::Result<Finding> {
    const CHECK: &str = "shape of bodies";
    let changed = changed(db, now).await?;
    if changed.is_empty() {
        return Ok(Finding::ok(CHECK, "as they always were"));
    }
    let changed = changed.iter().map(|(name, how)| format!("{name}: {how}"));
    let found = changed.collect::<Vec<_>>().join("; ");
    let advice = Condition::DeliveriesChanged.row().mend;
    Ok(Finding::warning(CHECK, found, advice))
}

fn pictures(config: &Config) -> Option<Finding> {
    let odd = config.qr.odd_size()?;
    let advice = match odd {
        OddSize::Unreadable(_) => "Set QR_BOX_SIZE to 3 or more; 10 is the default.",
        OddSize::Huge(_) => {
            "Set QR_BOX_SIZE to 10 and QR_BORDER to 4, which are the defaults. For print ask for SVG, which has any size."
        }
    };
    Some(Finding::warning("QR codes", odd.to_string(), advice))
}

/// Checks of the database's server: whether commits wait, its clock, and what keeps it from clearing up.
pub async fn server(
    db: &Db,
    theirs: Option<Timestamp>,
    now: Timestamp,
) -> sql::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let waiting = db.waiting_for_standby().await?;
    if waiting > 0 {
        let found = format!("{waiting} commits wait for a standby, and webhooks are answered 503");
        let advice = "Bring the standby back, or take it out of synchronous_standby_names: then the \
                      next failover may lose what was answered 200. Processes go on by themselves.";
        findings.push(Finding::failed("database", found, advice));
    }
    let held_back = db.events_held_back().await?;
    findings.extend(
        held_back
            .filter(|it| it.age > LONG_HELD)
            .map(events_held_back),
    );
    findings.extend(theirs.map(|at| clock::compare("database clock", "the database's", at, now)));
    findings.extend(
        db.oldest_transaction()
            .await?
            .map(|it| transaction(&it, now)),
    );
    Ok(findings)
}

/// Readers of events go no further than the first transaction that has written some and has not ended.
fn events_held_back(held: HeldBack) -> Finding {
    let HeldBack { process, age } = held;
    let found = format!(
        "process {process} of the database has written events and has not ended for {} s; nobody gets later ones",
        age.as_secs()
    );
    let advice = format!(
        "If commits wait for a standby, bring it back. Otherwise a process of Waybill has stopped: the server ends \
         its session after two minutes, and `select pg_terminate_backend({process})` ends it now."
    );
    Finding::warning("events", found, &advice)
}

/// Vacuum clears away no row that a transaction which is still open might see.
fn transaction(oldest: &Oldest, now: Timestamp) -> Finding {
    const CHECK: &str = "oldest transaction";
    let Oldest {
        process,
        whose,
        age: began,
        transactions,
    } = oldest;
    let session = process.map_or_else(String::new, |id| format!("process {id}, "));
    let since = began.map_or_else(String::new, |ago| {
        format!(" began {} ago,", age(now, now.minus(ago)))
    });
    let found = format!("{session}{whose}:{since} {transactions} transactions ago");
    if began.is_none_or(|ago| ago < OLD) && *transactions < MANY_SINCE {
        return Finding::ok(CHECK, found);
    }
    let end = match process {
        Some(id) => format!("`select pg_terminate_backend({id})` ends it"),
        None => "`rollback prepared` ends it".to_owned(),
    };
    let advice = format!(
        "While it is open nothing that has changed since is cleared away, so looking for jobs gets slower \
         and tables grow. If nobody needs it, {end}. Give roles of people and reports an \
         idle_in_transaction_session_timeout, as Waybill's own sessions have it."
    );
    Finding::warning(
        CHECK,
        format!("{found}; it keeps vacuum from its work"),
        &advice,
    )
}

/// While it takes no writes, deliveries are answered 503.
pub fn read_only(access: Access) -> Option<Finding> {
    let (found, advice) = match access {
        Access::Writes => return None,
        Access::ReadOnly => (
            "it is read-only, so webhooks are answered 503 and jobs wait",
            "Is its disk full, or is a switch to another server under way? Otherwise set \
             default_transaction_read_only to off, of the server, the database or the role. \
             Processes then go on by themselves.",
        ),
        Access::Standby => (
            "it is a standby and read-only, so webhooks are answered 503 and jobs wait",
            "Let the address in DATABASE_URL lead to the primary, or promote this server if the \
             primary is gone. Processes then go on by themselves.",
        ),
    };
    Some(Finding::failed("database", found, advice))
}

/// Checks that a worker runs. With a broker one of the workers always holds the lease to publish
/// events. Without a broker nobody takes this lease, so there is no such check.
pub async fn workers(db: &Db, config: &Config, now: Timestamp) -> sql::Result<Option<Finding>> {
    if config.amqp_url.is_none() {
        return Ok(None);
    }
    if leases::any_held(db, now).await? {
        let found = "at least one process is working";
        return Ok(Some(Finding::ok("workers", found)));
    }
    Ok(Some(Finding::warning(
        "workers",
        "none has been heard of for some seconds",
        "Start `waybill serve`, or `waybill-orders`, `waybill-payments` and `waybill-privacy`; \
         deliveries wait until then.",
    )))
}

/// Checks that somebody sends to the endpoints of webhooks, if there are any.
pub async fn senders(
    db: &Db,
    endpoints: &[Endpoint],
    now: Timestamp,
) -> sql::Result<Option<Finding>> {
    if endpoints.iter().all(Endpoint::is_broker) || leases::is_held(db, WEBHOOKS, now, now).await? {
        return Ok(None);
    }
    Ok(Some(Finding::failed(
        "webhooks",
        "there are endpoints, and no process sends to them",
        "Start `waybill serve` or `waybill-endpoints`.",
    )))
}

/// Checks the free room of the disk on which this machine keeps data. `None`: it keeps none, or `df` does not say.
pub async fn disk(config: &Config) -> Option<Finding> {
    let mut places: Vec<PathBuf> = sqlite_file(&config.database_url).into_iter().collect();
    if let ExportStore::Folder(folder) = &config.privacy.exports {
        places.push(folder.clone());
    }
    let looked = tokio::task::spawn_blocking(move || {
        let free = places.iter().filter_map(|place| free_kib(place));
        free.min()
    });
    let free = looked.await.ok().flatten()?;
    let found = format!("{:.1} GiB free where data is kept", gib(free));
    let advice = Condition::DiskFull.row().mend;
    Some(if free < TOO_LITTLE {
        Finding::failed("disk", found, advice)
    } else if free < LITTLE {
        Finding::warning("disk", found, advice)
    } else {
        Finding::ok("disk", found)
    })
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

#[cfg(test)]
#[path = "../tests/unit/findings.rs"]
mod tests;
