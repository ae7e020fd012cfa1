//! Notices that a provider has changed the shape of its bodies (`domain::shape`). What is usual for a shop's deliveries is
//! read once and then known here, so a usual body costs no statement. What is new is written before the
//! delivery is worked on, so it is known even if the process dies; more of the same is counted, and written every two
//! seconds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use domain::job::{Job, JobId, Kind, Source};
use domain::json::{Problem, Unreadable};
use domain::privacy::SubjectKey;
use domain::shape::{News, Noted, Usual};
use domain::time::Timestamp;
use platform::lock::lock;
use process::Parts;
use store::shapes::{self, Addition, Key, State};
use store::{sql, tombstones};
use tokio::time::timeout;
use uuid::Uuid;

use crate::handlers::{Prepared, Task};

const PAUSE: Duration = Duration::from_secs(2);
/// How long a delivery waits for it at most.
const DEADLINE: Duration = Duration::from_secs(1);
/// So many are known at most. Beyond that all are read again.
const MOST: usize = 100_000;

/// The body of a job.
pub struct Seen {
    job: JobId,
    key: Key,
    noted: Noted,
}

impl Seen {
    /// `None` for one that is read again.
    pub fn of(Prepared { job, task }: &Prepared) -> Option<Self> {
        if job.attempts > 0 || job.unfinished_attempts > 0 {
            return None;
        }
        let (shop, noted) = match task {
            Task::Order(task) => (job.shop.as_deref(), &task.noted),
            Task::Payment(task) => (task.account.as_deref(), task.noted.as_ref()?),
        };
        Some(Seen::new(job, shop, noted.clone()))
    }

    /// One that cannot be read because of a member.
    pub fn unreadable(job: &Job, error: &anyhow::Error) -> Option<Self> {
        let flows::Error::Unreadable(Unreadable::Field { field, problem }) =
            error.downcast_ref()?
        else {
            return None;
        };
        // A body of another resource says nothing of this one.
        if *problem == Problem::Foreign {
            return None;
        }
        let noted = Noted {
            unread: vec![field],
            ..Noted::default()
        };
        Some(Seen::new(job, job.shop.as_deref(), noted))
    }

    fn new(job: &Job, shop: Option<&str>, noted: Noted) -> Self {
        let source = match job.kind {
            Kind::Payment(_) => Source::Payment,
            _ => Source::Storefront,
        };
        let key = Key {
            source,
            shop: shop.unwrap_or_default().to_owned(),
            kind: job.kind.into_str(),
        };
        Seen {
            job: job.id,
            key,
            noted,
        }
    }
}

/// The shapes that this process knows.
#[derive(Default)]
pub struct Shapes(Mutex<Known>);

#[derive(Default)]
struct Known {
    usual: HashMap<Key, Usual>,
    unwritten: BTreeMap<Row, Unwritten>,
    written_at: Option<Timestamp>,
}

type Row = (Key, &'static str, State);

/// What bodies say, at a first look.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// Nothing new.
    Usual,
    /// More of what is known to have changed.
    Known,
    /// A sender that is not known here, or what is new here, and other processes may know.
    First,
}

/// What is not written yet of a member.
#[derive(Clone, Copy)]
struct Unwritten {
    deliveries: i64,
    /// The latest delivery.
    job: JobId,
    first_at: Timestamp,
    last_at: Timestamp,
}

impl Shapes {
    /// Takes the bodies of a message. What cannot be written in time is written later. Where the database does not say in time
    /// what is usual, these bodies are passed over, because no delivery may wait for long or fail because of it.
    pub async fn notice(&self, parts: &Parts, seen: &[Seen]) {
        let now = parts.clock.now();
        let noticed = async {
            match self.look(seen, now) {
                Look::Usual => return Ok(()),
                Look::Known => {}
                Look::First => self.read(parts, seen).await?,
            }
            if self.learn(seen, now) {
                self.write(parts).await?;
            }
            sql::Result::Ok(())
        };
        match timeout(DEADLINE, noticed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the shapes of bodies are noted later"),
            Err(_) => tracing::debug!("the shapes of bodies are noted later"),
        }
    }

    /// Writes what is not written yet, at the end of the process.
    pub async fn flush(&self, parts: &Parts) {
        if let Err(error) = self.write(parts).await {
            tracing::debug!(%error, "some shapes of bodies were not counted");
        }
    }

    /// What these bodies say, without a statement.
    fn look(&self, seen: &[Seen], now: Timestamp) -> Look {
        let known = lock(&self.0);
        let of = |it: &Seen| {
            let Some(usual) = known.usual.get(&it.key) else {
                return Look::First;
            };
            match usual.news(&it.noted, now) {
                None => Look::Usual,
                Some(news) if usual.is_first(&news) => Look::First,
                Some(_) => Look::Known,
            }
        };
        seen.iter().map(of).max().unwrap_or(Look::Usual)
    }

    /// Reads what is usual for the senders of these bodies.
    async fn read(&self, parts: &Parts, seen: &[Seen]) -> sql::Result<()> {
        let mut kinds: BTreeMap<&'static str, (Source, BTreeSet<String>)> = BTreeMap::new();
        for Seen { key, .. } in seen {
            let of_kind = kinds.entry(key.kind);
            let (_, shops) = of_kind.or_insert((key.source, BTreeSet::new()));
            shops.insert(key.shop.clone());
        }
        {
            let mut known = lock(&self.0);
            if known.usual.len() > MOST {
                known.usual.clear();
            }
        }
        for (kind, (source, shops)) in kinds {
            let shops = shops.into_iter().collect();
            let read = shapes::usual(&parts.db, source, kind, shops).await?;
            let mut known = lock(&self.0);
            for (shop, usual) in read {
                let key = Key { source, shop, kind };
                known.usual.entry(key).or_default().merge(usual);
            }
        }
        Ok(())
    }

    /// Learns from bodies, and says whether it is time to write.
    fn learn(&self, seen: &[Seen], now: Timestamp) -> bool {
        let mut known = lock(&self.0);
        let Known {
            usual,
            unwritten,
            written_at,
        } = &mut *known;
        let mut is_first = false;
        for Seen { job, key, noted } in seen {
            let usual = usual.entry(key.clone()).or_default();
            let Some(news) = usual.news(noted, now) else {
                continue;
            };
            is_first |= usual.is_first(&news);
            usual.learn(&news, now);
            note(unwritten, (*job, now), key, &news);
        }
        let is_time = written_at.is_none_or(|at| now > at.plus(PAUSE));
        is_first || (is_time && !unwritten.is_empty())
    }

    /// Writes what is not written yet.
    async fn write(&self, parts: &Parts) -> sql::Result<()> {
        let unwritten = {
            let mut known = lock(&self.0);
            known.written_at = Some(parts.clock.now());
            std::mem::take(&mut known.unwritten)
        };
        if unwritten.is_empty() {
            return Ok(());
        }
        // It is put back when the deadline passes, too.
        let mut kept = Kept {
            shapes: self,
            unwritten,
        };
        write(parts, &kept.unwritten).await?;
        kept.unwritten.clear();
        Ok(())
    }
}

/// What is put back unless it was written.
struct Kept<'a> {
    shapes: &'a Shapes,
    unwritten: BTreeMap<Row, Unwritten>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let mut known = lock(&self.shapes.0);
        for (row, it) in std::mem::take(&mut self.unwritten) {
            let newer = known.unwritten.entry(row).or_insert(Unwritten {
                deliveries: 0,
                ..it
            });
            newer.deliveries += it.deliveries;
            newer.first_at = it.first_at;
        }
    }
}

fn note(
    unwritten: &mut BTreeMap<Row, Unwritten>,
    (job, now): (JobId, Timestamp),
    key: &Key,
    news: &News,
) {
    let always = news.always.iter().map(|it| (it.into_str(), State::Always));
    let sometimes = news.sometimes.iter();
    let sometimes = sometimes.map(|it| (it.into_str(), State::Sometimes));
    let changes = news.changes.iter();
    let changes = changes.map(|(name, change)| (*name, State::Changed(*change)));
    for (member, state) in always.chain(sometimes).chain(changes) {
        let counted = unwritten.entry((key.clone(), member, state));
        let counted = counted.or_insert(Unwritten {
            deliveries: 0,
            job,
            first_at: now,
            last_at: now,
        });
        if let State::Changed(change) = state {
            counted.deliveries += 1;
            (counted.job, counted.last_at) = (job, now);
            metrics::counter!(
                "waybill_deliveries_changed_total",
                "kind" => key.kind, "member" => member, "change" => change.into_str()
            )
            .increment(1);
        }
    }
}

/// Writes these, but for shops that were erased.
async fn write(parts: &Parts, unwritten: &BTreeMap<Row, Unwritten>) -> sql::Result<()> {
    let changed = unwritten.values().filter(|it| it.deliveries > 0);
    let jobs: BTreeSet<JobId> = changed.map(|it| it.job).collect();
    let versions = shapes::api_versions(&parts.db, jobs.into_iter().collect()).await?;
    let tombstone = |key: &Key| {
        let is_shop = key.source == Source::Storefront && !key.shop.is_empty();
        let subject = is_shop.then(|| parts.keys.subject(&key.shop, SubjectKey::Shop));
        subject.flatten()
    };
    let mut subjects: BTreeMap<&str, BTreeSet<Uuid>> = BTreeMap::new();
    for (key, ..) in unwritten.keys() {
        if let Some(subject) = tombstone(key) {
            subjects.entry(&key.shop).or_default().insert(subject);
        }
    }
    let mut tx = parts.db.begin().await?;
    let erased = tombstones::check(&mut tx, &subjects).await?;
    let is_erased = |key: &Key| tombstone(key).is_some_and(|it| erased.contains_key(&it));
    let rows = unwritten.iter().filter(|((key, ..), _)| !is_erased(key));
    let additions: Vec<Addition<'_>> = rows
        .map(|((key, member, state), it)| Addition {
            key,
            member,
            state: *state,
            api_version: versions.get(&it.job).cloned(),
            deliveries: it.deliveries,
            first_at: it.first_at,
            last_at: it.last_at,
        })
        .collect();
    shapes::add(&mut tx, &additions).await?;
    tx.commit().await
}
