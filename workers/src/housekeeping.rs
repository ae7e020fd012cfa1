//! What grows is cut: expired webhook ids and the bodies of jobs finished long ago, in
//! small transactions, every few minutes.

use std::sync::Arc;
use std::time::Duration;

use common::sql;
use common::store::{jobs, webhook_ids};
use tokio_util::sync::CancellationToken;

use crate::Worker;

const PAUSE: Duration = Duration::from_mins(5);
const CHUNK: u64 = 2000;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    loop {
        if let Err(error) = worker.tidy(&shutdown).await {
            tracing::warn!(%error, "housekeeping failed; trying again later");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

impl Worker {
    async fn tidy(&self, shutdown: &CancellationToken) -> sql::Result<()> {
        let db = &self.parts.db;
        let now = self.parts.clock.now();
        let limit = CHUNK.cast_signed();
        while !shutdown.is_cancelled()
            && webhook_ids::forget_expired(db, now, limit).await? >= CHUNK
        {}
        let old = now.minus(self.parts.config.job_retention);
        while !shutdown.is_cancelled() && jobs::cut_bodies(db, old, limit).await? >= CHUNK {}
        Ok(())
    }
}
