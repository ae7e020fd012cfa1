//! Checks of the database: whether it answers, which schema it has, and which jobs and requests
//! wait in it.

use std::iter;
use std::path::{self, PathBuf};

use config::Config;
use config::database::sqlite_file;
use domain::endpoint;
use domain::job::Source;
use domain::redact::redact;
use domain::time::Timestamp;
use operators::findings;
use platform::clock::Clock;
use platform::zone;
use reqwest::Url;
use store::backlog::{self, Line};
use store::deliveries;
use store::endpoints::{self, Endpoint};
use store::migrations::{self, Compared};
use store::refused_deliveries::{set, why};
use store::sql::{self, Db};
use store::{privacy_requests, refused_deliveries};

use super::{Finding, machine};
use lists::age;

const DAY: std::time::Duration = std::time::Duration::from_hours(24);

pub async fn look(config: &Config) -> Vec<Finding> {
    let url = &config.database_url;
    if let Some(file) = sqlite_file(url)
        && !file.exists()
    {
        return vec![Finding::warning(
            "database",
            format!("{} does not exist yet", whole(file).display()),
            "`waybill` makes it when it starts; if there should be one, check DATABASE_URL and \
             the folder you are in.",
        )];
    }
    if let Err(finding) = listens(url).await {
        return vec![finding];
    }
    let db = match Db::open(url, 2).await {
        Ok(db) => db,
        Err(error) => return vec![unreachable(&error)],
    };
    let findings = with(&db, config).await;
    db.close().await;
    findings.unwrap_or_else(|error| vec![unreachable(&error)])
}

/// The path from the root, because a relative one does not say which folder was looked in.
fn whole(file: PathBuf) -> PathBuf {
    path::absolute(&file).unwrap_or(file)
}

async fn with(db: &Db, config: &Config) -> sql::Result<Vec<Finding>> {
    let server = db.server().await?;
    let now = Clock::system().now();
    let millis = server.round_trip.as_secs_f64() * 1000.0;
    let place = redact(&config.database_url).into_owned();
    let found = format!("{} at {place}, answers in {millis:.1} ms", server.version);
    let mut findings = vec![
        if server.round_trip > std::time::Duration::from_millis(50) {
            let advice = "Every delivery waits for it: move the processes closer to the database.";
            Finding::warning("database", found, advice)
        } else {
            Finding::ok("database", found)
        },
    ];
    findings.extend(findings::read_only(db.access().await?));
    findings.extend(findings::server(db, server.clock, now).await?);
    let compared = match migrations::compare(db).await {
        Ok(compared) => compared,
        Err(error) => {
            let advice = "Let the user of DATABASE_URL read the tables.";
            findings.push(Finding::failed("schema", error.to_string(), advice));
            return Ok(findings);
        }
    };
    let is_whole = compared.missing.is_empty();
    findings.push(schema(&compared));
    if is_whole {
        findings.extend(findings::workers(db, config, now).await?);
        findings.push(deliveries(db, now).await?);
        findings.push(findings::shapes(db, now).await?);
        findings.extend(findings::backup(db, config, now).await?);
        findings.extend(work(db, now).await?);
        findings.push(refused(db, now).await?);
        findings.extend(webhooks(db, now).await?);
        findings.extend(privacy(db, now).await?);
    }
    Ok(findings)
}

fn schema(compared: &Compared) -> Finding {
    let list = |versions: &[i64]| {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        versions.join(", ")
    };
    if compared.is_unreleased() {
        return Finding::failed(
            "schema",
            "it was made by a version of Waybill from before its first release",
            "Nothing starts on it, and nothing can bring it up to date. Set DATABASE_URL to a new \
             database.",
        );
    }
    if !compared.changed.is_empty() {
        return Finding::failed(
            "schema",
            format!(
                "migrations {} were changed after they were applied",
                list(&compared.changed)
            ),
            "Nothing starts on it. Use the binary that made this database, or another database.",
        );
    }
    if !compared.missing.is_empty() {
        return Finding::warning(
            "schema",
            format!("migrations {} are missing", list(&compared.missing)),
            "`waybill migrate` applies them, and so does every service when it starts.",
        );
    }
    if !compared.newer.is_empty() {
        return Finding::warning(
            "schema",
            format!(
                "a newer version of Waybill has migrated it (migrations {})",
                list(&compared.newer)
            ),
            "In the middle of an upgrade that is as it should be; otherwise bring this binary up \
             to date.",
        );
    }
    Finding::ok(
        "schema",
        format!("migrations applied: {}", compared.applied),
    )
}

/// Checks of the endpoints, if there are any.
async fn webhooks(db: &Db, now: Timestamp) -> sql::Result<Vec<Finding>> {
    const CHECK: &str = "webhooks";
    let endpoints = endpoints::list(db).await?;
    if endpoints.is_empty() {
        return Ok(Vec::new());
    }
    let all = endpoints.len();
    let is_down =
        |it: &&Endpoint| matches!(it.state, endpoint::State::Failing | endpoint::State::Gone);
    let down = endpoints.iter().filter(is_down).count();
    let away = endpoints
        .iter()
        .filter(|it| it.failing_since.is_some())
        .count();
    let state = if down > 0 {
        Finding::failed(
            CHECK,
            format!("{down} of {all} endpoints are paused because they accepted nothing"),
            "`waybill endpoints list` shows them. Mend them, then run `waybill endpoints resume`.",
        )
    } else if away > 0 {
        Finding::warning(
            CHECK,
            format!("{away} of {all} endpoints did not accept the last event"),
            "`waybill endpoints show` says why. Waybill tries again.",
        )
    } else {
        Finding::ok(CHECK, format!("{all} endpoints"))
    };
    let nobody = findings::senders(db, &endpoints, now).await?;
    Ok([state].into_iter().chain(nobody).collect())
}

/// When the last delivery of each provider came.
async fn deliveries(db: &Db, now: Timestamp) -> sql::Result<Finding> {
    let latest = deliveries::latest(db).await?;
    let of = |source: Source| {
        let mut all = latest.iter();
        let found = all.find(|(name, _)| name == source.into_str());
        match found {
            Some((_, at)) => format!("{} {} ago", source.into_str(), age::text(now, *at)),
            None => format!("{} none lately", source.into_str()),
        }
    };
    let found = format!("{}, {}", of(Source::Storefront), of(Source::Payment));
    Ok(Finding::ok("last delivery", found))
}

/// Checks of waiting jobs and of dead jobs.
async fn work(db: &Db, now: Timestamp) -> sql::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let lines = backlog::queues(db, now).await?;
    let of_queue = |line: &Line| line.due_since.map(|since| (since, line.queue));
    let oldest = lines.iter().filter_map(of_queue).min();
    let waiting: Vec<i64> = lines.iter().map(|line| line.due).collect();
    let waiting = counted(&waiting);
    let dead: Vec<i64> = lines.iter().map(|line| line.dead).collect();
    findings.push(match oldest {
        Some((since, queue)) if now.since(since) > backlog::LONG => Finding::failed(
            "waiting jobs",
            format!(
                "{waiting}, the oldest due for {} in the queue {queue}",
                age::text(now, since)
            ),
            "Is a worker of this queue running, and does its log complain? `waybill jobs list \
             --state ready` shows them.",
        ),
        _ => Finding::ok("waiting jobs", format!("{waiting}, none of them long")),
    });
    findings.push(match dead.iter().sum() {
        0_i64 => Finding::ok("dead jobs", "none"),
        _ => Finding::warning(
            "dead jobs",
            counted(&dead),
            "`waybill dead summary` says what they died of.",
        ),
    });
    Ok(findings)
}

/// The sum of the jobs of all queues, of which no more than [`backlog::MOST`] of each are counted.
fn counted(jobs: &[i64]) -> String {
    let all: i64 = jobs.iter().sum();
    if jobs.iter().any(|jobs| *jobs >= backlog::MOST) {
        format!("{all} or more")
    } else {
        all.to_string()
    }
}

/// What was refused in the last day. Strangers who sign nothing are no reason to look at it.
async fn refused(db: &Db, now: Timestamp) -> sql::Result<Finding> {
    const CHECK: &str = "refused deliveries";
    let summary = refused_deliveries::summary(db, now.minus(DAY)).await?;
    let all: i64 = summary.iter().map(|it| it.deliveries).sum();
    let mendable: Vec<_> = summary.iter().filter(|it| !it.advice.is_empty()).collect();
    let Some(most) = mendable.first() else {
        let found = match all {
            0 => "none in the last day".to_owned(),
            all => {
                format!("{all} in the last day, none with a signature that a setting would take")
            }
        };
        return Ok(Finding::ok(CHECK, found));
    };
    let reasons = mendable.iter().map(|it| {
        let header = match it.header.as_str() {
            "" => String::new(),
            header => format!(" but {header}"),
        };
        let space = if it.connection.is_empty() { "" } else { " " };
        format!(
            "{} of {}{space}{}: {}{header}",
            it.deliveries,
            it.source,
            it.connection,
            why(&it.reason, &it.signature)
        )
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let advice = format!(
        "Most of them: {}. `waybill refused list` shows them.",
        set(&most.advice)
    );
    Ok(Finding::warning(
        CHECK,
        format!("{all} in the last day, because: {reasons}"),
        &advice,
    ))
}

async fn privacy(db: &Db, now: Timestamp) -> sql::Result<Vec<Finding>> {
    let (open, nearest) = privacy_requests::open_deadlines(db).await?;
    let in_state = async |state| {
        let filter = privacy_requests::Filter {
            state: Some(state),
            ..privacy_requests::Filter::default()
        };
        privacy_requests::list(db, &filter, 1000).await
    };
    let failed = in_state(domain::privacy::State::Failed).await?.len();
    let held = in_state(domain::privacy::State::Held).await?;
    let advice =
        "`waybill privacy list` shows them and why; mend it, then `waybill privacy retry`.";
    let found = match nearest {
        None => return Ok(vec![Finding::ok("privacy requests", "none is open")]),
        Some(due) if due <= now => {
            format!(
                "{open} open, {failed} failed, one overdue for {}",
                age::text(now, due)
            )
        }
        Some(due) => format!(
            "{open} open, {failed} failed, the nearest deadline in {}",
            age::text(due, now)
        ),
    };
    let erasures = held.iter().filter(|it| it.is_held_erasure());
    let in_use = erasures.clone().filter(|it| it.living_at.is_some());
    let held = match erasures.clone().filter_map(|it| it.held_until).min() {
        _ if erasures.clone().next().is_none() => None,
        Some(at) => Some(format!(", the first begins at {}", zone::time(at))),
        None => Some(String::new()),
    };
    let held = held.map(|begins| {
        let (all, in_use) = (erasures.count(), in_use.count());
        Finding::warning(
            "held erasures",
            format!("{all} held, {in_use} of shops that are in use{begins}"),
            "`waybill privacy list --state held` shows them; `waybill privacy confirm` what is meant, and \
             `waybill privacy cancel` what is not.",
        )
    });
    let is_overdue = nearest.is_some_and(|due| due <= now);
    let presses = nearest.is_some_and(|due| due.since(now) < domain::privacy::ALARM);
    let deadlines = if is_overdue || failed > 0 {
        Finding::failed("privacy requests", found, advice)
    } else if presses {
        Finding::warning("privacy requests", found, advice)
    } else {
        Finding::ok("privacy requests", found)
    };
    Ok(iter::once(deadlines).chain(held).collect())
}

/// Tries the port first, because a failed connection of the pool would not say why it failed.
async fn listens(url: &str) -> Result<(), Finding> {
    let Ok(url) = Url::parse(url) else {
        return Ok(());
    };
    let Some(host) = url.host_str().filter(|_| url.scheme() != "sqlite") else {
        return Ok(());
    };
    let port = url.port().unwrap_or(5432);
    let advice = "Is PostgreSQL running there, and may this machine reach it? Check DATABASE_URL.";
    machine::connects(host, port)
        .await
        .map_err(|problem| Finding::failed("database", problem, advice))
}

fn unreachable(error: &sql::Error) -> Finding {
    let advice = "Check user, password and name of the database in DATABASE_URL, and its log.";
    Finding::failed("database", format!("cannot be used: {error}"), advice)
}
