//! Which of the conditions that need a person hold now ([`domain::attention`]), as far as the database, the settings and
//! this machine's disk say it; and what operators acknowledge. Every question has an index and an end, so a look costs the
//! same however many jobs there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use config::{Config, Outlet};
use domain::attention::{Condition, Found, State};
use domain::connection::DEFAULT;
use domain::job::Source;
use domain::time::{Timestamp, age};
use domain::{endpoint, privacy};
use serde_json::json;
use store::attention::{self, Attention};
use store::audit::By;
use store::deliveries::{self, Sender};
use store::held::{self, Reason};
use store::jobs::{self, ended};
use store::privacy_requests::{self, RequestEntry};
use store::refused_deliveries::{self, Refused};
use store::sql::{self, Db};
use store::{backlog, connections, endpoints, reconciliations};

use crate::findings::{self, Level};

/// At most so many of one condition are reported one by one.
const LISTED: i64 = 20;
/// The kinds of dead jobs are read from so many of the newest of each queue.
const LOOKED_AT: i64 = 1000;
const MOST_REQUESTS: i64 = 100;
/// At most so many connections are reported as silent.
const MOST_CONNECTIONS: i64 = 100;
/// How long a queue stands still, and how long events wait for the broker.
const STILL: Duration = Duration::from_mins(5);
const EVENTS_STILL: Duration = Duration::from_mins(2);
const BEHIND: i64 = 1000;
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);
/// So many refused deliveries in a day, while none is accepted, are no chance.
const ALL_REFUSED: i64 = 20;
/// So many wrong signatures in an hour are no chance.
const SIGNATURES: i64 = 60;
/// The same hours brought more than so many before.
const USUAL: i64 = 30;
/// The hours without a delivery that are too many, by how many came before.
const SILENT_HOURS: [u64; 3] = [1, 3, 12];

/// Who sends deliveries.
const SENDERS: [Source; 2] = [Source::Storefront, Source::Payment];

#[derive(Default)]
struct Look(Vec<Found>);

impl Look {
    fn add(&mut self, condition: Condition, about: impl Into<String>, details: impl Into<String>) {
        self.0.push(Found {
            condition,
            about: about.into(),
            details: details.into(),
        });
    }
}

/// The conditions that hold now. `known` are those that were found before.
pub async fn look(
    db: &Db,
    config: &Config,
    known: &[Attention],
    now: Timestamp,
) -> sql::Result<Vec<Found>> {
    let mut look = Look::default();
    look.database(db, now).await?;
    look.work(db, config, now).await?;
    look.deliveries(db, known, now).await?;
    look.orders(db).await?;
    look.endpoints(db, now).await?;
    look.privacy(db, now).await?;
    let finding = findings::disk(config).await;
    if let Some(finding) = finding.filter(|it| it.level != Level::Ok) {
        look.add(Condition::DiskFull, "", finding.found);
    }
    let finding = findings::backup(db, config, now).await?;
    if let Some(finding) = finding.filter(|it| it.level != Level::Ok) {
        look.add(Condition::BackupOld, "", finding.found);
    }
    Ok(look.0)
}

impl Look {
    async fn database(&mut self, db: &Db, now: Timestamp) -> sql::Result<()> {
        let theirs = db.server().await?.clock;
        let findings = findings::server(db, theirs, now).await?;
        for it in findings.into_iter().filter(|it| it.level != Level::Ok) {
            self.add(Condition::DatabaseHindered, it.check, it.found);
        }
        Ok(())
    }

    async fn work(&mut self, db: &Db, config: &Config, now: Timestamp) -> sql::Result<()> {
        for line in backlog::queues(db, now).await? {
            let since = line.due_since.filter(|since| now.since(*since) > STILL);
            if let Some(since) = since {
                let details = format!("{} due, the oldest for {}", line.due, age(now, since));
                self.add(Condition::QueueStandsStill, line.queue.into_str(), details);
            }
        }
        let mut dead: Vec<(String, i64)> = Vec::new();
        for group in ended::causes(db, LOOKED_AT).await? {
            match dead.iter_mut().find(|(kind, _)| *kind == group.kind) {
                Some((_, jobs)) => *jobs += group.jobs,
                None => dead.push((group.kind, group.jobs)),
            }
        }
        for (kind, jobs) in dead {
            self.add(Condition::JobsDead, kind, format!("{jobs} dead"));
        }
        if config.outlet() == Outlet::Broker {
            let waiting = backlog::events(db).await?;
            if waiting
                .since
                .is_some_and(|since| now.since(since) > EVENTS_STILL)
            {
                let details = format!("{} wait", waiting.waiting);
                self.add(Condition::EventsStandStill, "", details);
            }
        }
        Ok(())
    }

    async fn deliveries(
        &mut self,
        db: &Db,
        known: &[Attention],
        now: Timestamp,
    ) -> sql::Result<()> {
        let summary = refused_deliveries::summary(db, now.minus(DAY)).await?;
        let hour = refused_deliveries::of_hour(db, now).await?;
        let named = summary
            .iter()
            .filter_map(|it| sender(&it.source, &it.connection));
        let senders: BTreeSet<Sender> = named.chain(SENDERS.map(of_settings)).collect();
        for sender in senders {
            let name = sender.to_string();
            let is_its = |source: &str, connection: &str| {
                source == sender.source.into_str()
                    && connection == sender.connection.as_deref().unwrap_or_default()
            };
            let its = || {
                summary
                    .iter()
                    .filter(|it| is_its(&it.source, &it.connection))
            };
            let over = its().filter(|it| it.reason == "rate");
            if over.clone().any(|it| now.since(it.last_at) < HOUR) {
                let number: i64 = over.map(|it| it.deliveries).sum();
                let details = format!("{number} in the last day");
                self.add(Condition::DeliveriesOverRate, &name, details);
            }
            let wrong = |it: &&Refused| {
                is_its(&it.source, &it.connection)
                    && it.reason == "signature"
                    && it.signature != "missing"
            };
            let wrong: i64 = hour.iter().filter(wrong).map(|it| it.deliveries).sum();
            if wrong >= SIGNATURES {
                let details = format!("{wrong} in this hour");
                self.add(Condition::SignaturesRefused, &name, details);
            }
            // Strangers who sign nothing do not count, unless they sign as another profile does.
            let signed = its().filter(|it| {
                let is_signed = it.signature != "missing" || !it.header.is_empty();
                is_signed && !matches!(&*it.reason, "unavailable" | "share")
            });
            let refused: i64 = signed.map(|it| it.deliveries).sum();
            let all = refused >= ALL_REFUSED
                && deliveries::is_silent(db, &sender, now.minus(DAY)).await? == Some(true);
            if all {
                let details = format!("{refused} in the last day");
                self.add(Condition::DeliveriesAllRefused, &name, details);
            }
        }
        for (sender, hours) in silent(db, known, now).await? {
            let details = format!("none in {hours} hours");
            self.add(Condition::NothingCame, sender.to_string(), details);
        }
        let mut missed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let counted = reconciliations::count(db, now.minus(DAY)).await?;
        for it in counted.into_iter().filter(|it| it.cause.is_missed()) {
            let sender = reconciled(it.source.as_str(), &it.connection);
            let details = format!("{} in the last day: {}", it.deliveries, it.cause.in_words());
            missed.entry(sender).or_default().push(details);
        }
        for (sender, details) in missed {
            self.add(Condition::DeliveriesMissed, sender, details.join("; "));
        }
        for it in reconciliations::failing(db, now.minus(HOUR), LISTED).await? {
            let sender = reconciled(&it.source, &it.connection);
            let details = it.last_error.unwrap_or_default();
            self.add(Condition::ReconciliationFails, sender, details);
        }
        let mut wrong_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for it in reconciliations::not_subscribed(db, MOST_CONNECTIONS).await? {
            let sender = reconciled(&it.source, &it.connection);
            let wrong = it.subscriptions_error.unwrap_or_default();
            let details = format!("{} {wrong}", it.shop).trim_start().to_owned();
            wrong_of.entry(sender).or_default().push(details);
        }
        for (sender, shops) in wrong_of {
            let more = shops.len() - 1;
            let mut details = shops.into_iter().next().unwrap_or_default();
            if more > 0 {
                let _ = write!(details, "; and {more} shops more");
            }
            self.add(Condition::SubscriptionsWrong, sender, details);
        }
        for (source, number) in jobs::noted(db, now.minus(HOUR), LOOKED_AT).await? {
            let details = format!("{number} in the last hour");
            self.add(Condition::DeliveriesNotUnderstood, source, details);
        }
        for (name, details) in findings::changed(db, now).await? {
            self.add(Condition::DeliveriesChanged, name, details);
        }
        Ok(())
    }

    async fn orders(&mut self, db: &Db) -> sql::Result<()> {
        for (condition, reason) in [
            (Condition::RefundFailed, Reason::RefundFailed),
            (Condition::PaymentDisputed, Reason::Disputed),
        ] {
            for it in held::for_reason(db, reason, LISTED).await? {
                let amount = it.amount.zip(it.currency);
                let amount = amount.map(|(amount, currency)| format!("{amount} {currency}"));
                self.add(condition, it.order_id, amount.unwrap_or_default());
            }
        }
        Ok(())
    }

    async fn endpoints(&mut self, db: &Db, now: Timestamp) -> sql::Result<()> {
        let all = endpoints::list(db).await?;
        for it in &all {
            if matches!(it.state, endpoint::State::Failing | endpoint::State::Gone) {
                let details = format!("{}, {} failed attempts", it.state.into_str(), it.failures);
                self.add(Condition::EndpointPaused, it.id, details);
            }
        }
        if findings::senders(db, &all, now).await?.is_some() {
            self.add(Condition::WebhooksNotSent, "", "");
        }
        let behind = endpoints::behind(db).await?;
        if behind > BEHIND {
            let details = format!("{behind} events behind");
            self.add(Condition::WebhooksBehind, "", details);
        }
        Ok(())
    }

    async fn privacy(&mut self, db: &Db, now: Timestamp) -> sql::Result<()> {
        let open = privacy_requests::Filter {
            open: true,
            ..privacy_requests::Filter::default()
        };
        let open = privacy_requests::list(db, &open, MOST_REQUESTS).await?;
        for it in &open {
            self.request(it, now);
        }
        let (_, first) = privacy_requests::open_deadlines(db).await?;
        let near = [
            (Condition::PrivacyDeadlineNear, privacy::WARNING),
            (Condition::PrivacyDeadlinePressing, privacy::ALARM),
        ];
        for (condition, length) in near {
            if let Some(due) = first.filter(|due| *due < now.plus(length)) {
                let details = format!("the nearest deadline is {}", due.in_words());
                self.add(condition, "", details);
            }
        }
        Ok(())
    }

    fn request(&mut self, it: &RequestEntry, now: Timestamp) {
        let deadline = format!("its deadline is {}", it.due_at.in_words());
        if it.state == privacy::State::Failed.into_str() {
            self.add(Condition::PrivacyRequestFailed, it.id, deadline);
        } else if it.topic == privacy::Topic::ShopRedact.into_str() {
            let begins = match it.held_until {
                Some(at) if at > now => format!("it begins {}", at.in_words()),
                Some(_) => "it has begun".to_owned(),
                None if it.waits() => format!("it waits for `waybill privacy confirm`; {deadline}"),
                None => deadline,
            };
            self.add(Condition::ShopErasureNear, it.id, begins);
        } else if it.state == privacy::State::Held.into_str() {
            self.add(Condition::PrivacyRequestHeld, it.id, deadline);
        }
    }
}

/// A sender, by the connection that was compared.
fn reconciled(source: &str, connection: &str) -> String {
    let name = if connection == DEFAULT {
        ""
    } else {
        connection
    };
    sender(source, name).map_or_else(String::new, |it| it.to_string())
}

/// The connection that the settings make with this side.
fn of_settings(source: Source) -> Sender {
    Sender {
        source,
        connection: None,
    }
}

fn sender(source: &str, connection: &str) -> Option<Sender> {
    Some(Sender {
        source: source.parse().ok()?,
        connection: Some(connection.to_owned()).filter(|name| !name.is_empty()),
    })
}

/// From whom nothing came for how many hours, if that is too long for what came in the same hours a week ago, and a day or
/// two weeks ago. Once it is, it stays so until something comes, or the connection is removed.
async fn silent(
    db: &Db,
    known: &[Attention],
    now: Timestamp,
) -> sql::Result<BTreeMap<Sender, u64>> {
    let mut silent = BTreeMap::new();
    let mut known_before = BTreeSet::new();
    let is_known =
        |it: &&Attention| it.condition == Condition::NothingCame && it.state == State::Begun;
    for before in known.iter().filter(is_known) {
        let (source, name) = before.about.split_once(' ').unwrap_or((&before.about, ""));
        let Some(sender) = sender(source, name) else {
            continue;
        };
        let is_removed = match &sender.connection {
            Some(name) => !connections::is_standing(db, name).await?,
            None => has_given_away(db, sender.source, before.since).await?,
        };
        let came =
            deliveries::is_silent(db, &sender, before.since.minus(HOUR)).await? == Some(false);
        if !is_removed && !came {
            let hours = now.since(before.since).as_secs() / 3600 + 1;
            silent.insert(sender.clone(), hours);
        }
        known_before.insert(sender);
    }
    for source in SENDERS {
        let sender = of_settings(source);
        if known_before.contains(&sender) || has_given_away(db, source, now).await? {
            continue;
        }
        if let Some(hours) = silent_hours(db, &sender, now).await? {
            silent.insert(sender, hours);
        }
    }
    for hours in SILENT_HOURS {
        let period = Duration::from_hours(hours);
        let usual = [WEEK, DAY, 2 * WEEK].map(|ago| {
            let until = now.minus(ago);
            (until.minus(period), until)
        });
        let since = now.minus(period);
        let found =
            deliveries::silent_connections(db, since, usual, (USUAL, MOST_CONNECTIONS)).await?;
        for sender in found.into_iter().filter(|it| !known_before.contains(it)) {
            silent.entry(sender).or_insert(hours);
        }
    }
    Ok(silent)
}

/// Whether a connection was added since the hours to which those before this time are compared. What came by the one that
/// the settings make may come by that one now, so less of it is no silence.
async fn has_given_away(db: &Db, source: Source, at: Timestamp) -> sql::Result<bool> {
    let last = connections::last_added(db, source).await?;
    Ok(last.is_some_and(|added| added > at.minus(2 * WEEK + DAY)))
}

/// The same of the connection that the settings make.
async fn silent_hours(db: &Db, sender: &Sender, now: Timestamp) -> sql::Result<Option<u64>> {
    for hours in SILENT_HOURS {
        let period = Duration::from_hours(hours);
        if deliveries::is_silent(db, sender, now.minus(period)).await? != Some(true) {
            break;
        }
        let usual = async |ago: Duration| {
            let until = now.minus(ago);
            let came = deliveries::came(db, sender.source, (until.minus(period), until), USUAL + 1);
            Ok::<bool, sql::Error>(came.await? > USUAL)
        };
        if usual(WEEK).await? && (usual(DAY).await? || usual(2 * WEEK).await?) {
            return Ok(Some(hours));
        }
    }
    Ok(None)
}

/// Notes that an operator knows of a condition that has begun until this time, with an entry in the audit. False when none
/// has, or somebody has acknowledged it before.
pub async fn acknowledge(
    db: &Db,
    by: By<'_>,
    condition: Condition,
    until: Timestamp,
) -> sql::Result<bool> {
    let mut tx = db.begin().await?;
    let acknowledged = attention::acknowledge(&mut tx, condition, until, by.actor).await?;
    if acknowledged > 0 {
        let details = json!({ "number": acknowledged });
        let name = condition.into_str();
        by.note(&mut tx, "attention.acknowledged", name, details)
            .await?;
    }
    tx.commit().await?;
    Ok(acknowledged > 0)
}
