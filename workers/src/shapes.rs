//! Notices that a provider has changed the shape of its bodies (`domain::shape`). What is usual for a shop's deliveries is
//! read once and then known here, so a usual body costs no statement. What is new is written before the
//! delivery is worked on, so it is known even if the process dies; more of the same is counted, and written every other
//! second.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use domain::job::{Job, JobId, Kind, Source};
use domain::json::Unreadable;
use domain::shape::{News, Noted, Usual};
use platform::lock::lock;
use process::Parts;
use store::shapes::{self, Addition, Key, State};
use store::sql;

use crate::handlers::{Prepared, Task};

const PAUSE: Duration = Duration::from_secs(2);
/// So many are known at most. Beyond that all are read again.
const MOST: usize = 100_000;

/// The body of a job.
pub struct Seen {
    job: JobId,
    key: Key,
    noted: Noted,
}

impl Seen {
    pub fn of(Prepared { job, task }: &Prepared) -> Option<Self> {
        let (shop, noted) = match task {
            Task::Order(task) => (job.shop.as_deref(), &task.noted),
            Task::Payment(task) => (task.account.as_deref(), task.noted.as_ref()?),
        };
        Some(Seen::new(job, shop, noted.clone()))
    }

    /// One that cannot be read because of a member.
    pub fn unreadable(job: &Job, error: &anyhow::Error) -> Option<Self> {
        let flows::Error::Unreadable(Unreadable::Field { field, .. }) = error.downcast_ref()?
        else {
            return None;
        };
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
    unwritten: BTreeMap<(Key, &'static str, State), Unwritten>,
    /// By the clock's `elapsed`.
    written_at: Option<Duration>,
}

/// What is not written yet of a member.
#[derive(Clone, Copy)]
struct Unwritten {
    deliveries: i64,
    /// The latest delivery.
    job: JobId,
}

impl Shapes {
    /// Takes the bodies of a message. What cannot be read or written now is counted with the next message: no
    /// delivery waits for it.
    pub async fn notice(&self, parts: &Parts, seen: &[Seen]) {
        let noticed = async {
            self.read(parts, seen).await?;
            if self.learn(seen, parts.clock.elapsed()) {
                self.write(parts).await?;
            }
            sql::Result::Ok(())
        };
        if let Err(error) = noticed.await {
            tracing::debug!(%error, "the shapes of bodies are noted later");
        }
    }

    /// Reads what is usual for those that are not known here.
    async fn read(&self, parts: &Parts, seen: &[Seen]) -> sql::Result<()> {
        let mut missing: BTreeMap<(&'static str, &'static str), (Source, BTreeSet<String>)> =
            BTreeMap::new();
        {
            let known = lock(&self.0);
            for Seen { key, .. } in seen {
                if !known.usual.contains_key(key) {
                    let of_kind = missing.entry((key.source.into_str(), key.kind));
                    let (_, shops) = of_kind.or_insert((key.source, BTreeSet::new()));
                    shops.insert(key.shop.clone());
                }
            }
        }
        for ((_, kind), (source, shops)) in missing {
            let shops = shops.into_iter().collect();
            let read = shapes::usual(&parts.db, source, kind, shops).await?;
            let mut known = lock(&self.0);
            if known.usual.len() > MOST {
                known.usual.clear();
            }
            for (shop, usual) in read {
                known.usual.insert(Key { source, shop, kind }, usual);
            }
        }
        Ok(())
    }

    /// Learns from bodies, and says whether it is time to write.
    fn learn(&self, seen: &[Seen], now: Duration) -> bool {
        let mut known = lock(&self.0);
        let mut is_first = false;
        for Seen { job, key, noted } in seen {
            let Some(news) = known.usual.get(key).and_then(|usual| usual.news(noted)) else {
                continue;
            };
            if let Some(usual) = known.usual.get_mut(key) {
                is_first |= usual.learn(&news);
            }
            known.note(*job, key, &news);
        }
        let is_time = known.written_at.is_none_or(|at| now > at + PAUSE);
        is_first || (is_time && !known.unwritten.is_empty())
    }

    /// Writes what is not written yet.
    async fn write(&self, parts: &Parts) -> sql::Result<()> {
        let unwritten = {
            let mut known = lock(&self.0);
            known.written_at = Some(parts.clock.elapsed());
            std::mem::take(&mut known.unwritten)
        };
        let written = write(parts, &unwritten).await;
        if written.is_err() {
            let mut known = lock(&self.0);
            for (key, it) in unwritten {
                known.unwritten.entry(key).or_insert(it);
            }
            // What is usual is read again, because nobody knows what was written.
            known.usual.clear();
        }
        written
    }
}

impl Known {
    fn note(&mut self, job: JobId, key: &Key, news: &News) {
        let always = news.always.iter().map(|it| (it.into_str(), State::Always));
        let sometimes = news.sometimes.iter();
        let sometimes = sometimes.map(|it| (it.into_str(), State::Sometimes));
        let changes = news.changes.iter();
        let changes = changes.map(|(name, change)| (*name, State::Changed(*change)));
        for (member, state) in always.chain(sometimes).chain(changes) {
            let counted = self.unwritten.entry((key.clone(), member, state));
            let counted = counted.or_insert(Unwritten { deliveries: 0, job });
            if let State::Changed(change) = state {
                counted.deliveries += 1;
                counted.job = job;
                metrics::counter!(
                    "waybill_deliveries_changed_total",
                    "kind" => key.kind, "member" => member, "change" => change.into_str()
                )
                .increment(1);
            }
        }
    }
}

async fn write(
    parts: &Parts,
    unwritten: &BTreeMap<(Key, &'static str, State), Unwritten>,
) -> sql::Result<()> {
    let changed = unwritten.values().filter(|it| it.deliveries > 0);
    let jobs: BTreeSet<JobId> = changed.map(|it| it.job).collect();
    let versions = shapes::api_versions(&parts.db, jobs.into_iter().collect()).await?;
    let additions: Vec<Addition<'_>> = unwritten
        .iter()
        .map(|((key, member, state), it)| Addition {
            key,
            member,
            state: *state,
            api_version: versions.get(&it.job).cloned(),
            deliveries: it.deliveries,
        })
        .collect();
    let mut tx = parts.db.begin().await?;
    shapes::add(&mut tx, &additions, parts.clock.now()).await?;
    tx.commit().await
}
