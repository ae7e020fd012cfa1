//! What is known of the installation beside its jobs, by the checks of `waybill doctor` that ask the database at
//! most, and the numbers of the menu. Each is looked up again after ten seconds, however many pages show it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use operators::findings::{self, Finding, Level};
use store::endpoints::Endpoint;
use store::sql;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::access::Visit;
use crate::pages::now;

const KEPT: Duration = Duration::from_secs(10);
/// How long a page waits for the numbers of its menu.
const LOOKED: Duration = Duration::from_secs(2);

/// What was found, without what is as it should be.
#[derive(Debug, Default)]
pub struct Findings {
    /// Findings about the database and the processes.
    pub now: Vec<Finding>,
    /// Findings about the settings, which change only when the process starts again.
    pub settings: Vec<Finding>,
}

/// How much waits at a page of the menu, by its address.
pub type Counts = BTreeMap<&'static str, Count>;

/// A number, and whether counting stopped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub number: i64,
    pub is_cut: bool,
}

/// What was found, and when.
struct Kept<T>(Mutex<Option<(Timestamp, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    /// What is known, or what this look finds. Who comes while somebody else looks waits for what that finds.
    async fn or<E>(
        &self,
        now: Timestamp,
        look: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        let mut known = self.0.lock().await;
        if let Some((at, found)) = known.as_ref()
            && *at <= now
            && now.since(*at) < KEPT
        {
            return Ok(found.clone());
        }
        let found = Arc::new(look.await?);
        *known = Some((now, found.clone()));
        Ok(found)
    }
}

#[derive(Default)]
pub struct Known {
    findings: Kept<Findings>,
    counts: Kept<Counts>,
    /// The last ones that were known.
    before: Mutex<Arc<Counts>>,
}

impl Known {
    pub async fn findings<R>(
        &self,
        visit: &Visit<R>,
        endpoints: &[Endpoint],
    ) -> sql::Result<Arc<Findings>> {
        self.findings.or(visit.now(), look(visit, endpoints)).await
    }

    /// The numbers of the menu. Those that cannot be read soon stay as they were.
    pub async fn counts<R>(&self, visit: &Visit<R>) -> Arc<Counts> {
        let before = self.before.lock().await.clone();
        let look = async {
            let looked = timeout(LOOKED, Box::pin(now::look(visit))).await;
            Ok::<_, Infallible>(looked.map_or_else(|_| (*before).clone(), |it| it.counts))
        };
        let Ok(counts) = self.counts.or(visit.now(), look).await;
        self.before.lock().await.clone_from(&counts);
        counts
    }

    /// Somebody has changed something, so the numbers are looked up again by the next page.
    pub async fn forget_counts(&self) {
        *self.counts.0.lock().await = None;
    }
}

async fn look<R>(visit: &Visit<R>, endpoints: &[Endpoint]) -> sql::Result<Findings> {
    let (db, now) = (visit.db(), visit.now());
    let mut found = Vec::new();
    found.extend(visit.access().await.and_then(findings::read_only));
    let theirs = db.server().await?.clock;
    found.extend(findings::server(db, theirs, visit.now()).await?);
    found.extend(findings::workers(db, visit.config(), now).await?);
    found.extend(findings::senders(db, endpoints, now).await?);
    // It looks at files.
    let config = visit.config().clone();
    let settings = tokio::task::spawn_blocking(move || findings::settings(&config));
    let bad = |all: Vec<Finding>| {
        let all = all.into_iter();
        all.filter(|it| it.level != Level::Ok).collect()
    };
    Ok(Findings {
        now: bad(found),
        settings: bad(settings.await.unwrap_or_default()),
    })
}
