//! What is known of the installation beside its jobs, by the checks of `waybill doctor` that ask the database at
//! most. It is looked up again after ten seconds, however many pages show it.

use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use operators::findings::{self, Finding, Level};
use store::endpoints::Endpoint;
use store::sql;
use tokio::sync::Mutex;

use crate::access::Visit;

const KEPT: Duration = Duration::from_secs(10);

/// What was found, without what is as it should be.
#[derive(Debug, Default)]
pub struct Findings {
    /// Findings about the database and the processes.
    pub now: Vec<Finding>,
    /// Findings about the settings, which change only when the process starts again.
    pub settings: Vec<Finding>,
}

#[derive(Default)]
pub struct Known(Mutex<Option<(Timestamp, Arc<Findings>)>>);

impl Known {
    /// Who comes while somebody else looks waits for what that finds.
    pub async fn findings<R>(
        &self,
        visit: &Visit<R>,
        endpoints: &[Endpoint],
    ) -> sql::Result<Arc<Findings>> {
        let mut known = self.0.lock().await;
        let now = visit.now();
        if let Some((at, findings)) = known.as_ref()
            && *at <= now
            && now.since(*at) < KEPT
        {
            return Ok(findings.clone());
        }
        let findings = Arc::new(look(visit, endpoints).await?);
        *known = Some((now, findings.clone()));
        Ok(findings)
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
