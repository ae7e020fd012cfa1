//! What grows is cut: expired webhook ids, the bodies of jobs finished long ago, in small
//! transactions, and logins that are over, every few minutes; tokens of logins every minute.

use std::sync::Arc;
use std::time::Duration;

use common::sql;
use common::store::{device_code_requests, device_codes, jobs, webhook_ids};
use tokio_util::sync::CancellationToken;

use crate::Worker;

const PAUSE: Duration = Duration::from_mins(1);
/// Of so many rounds the first cuts everything.
const ROUNDS: usize = 5;
const CHUNK: u64 = 2000;
/// A login that is over is still told apart from one that never was.
const LOGIN_KEPT: Duration = Duration::from_hours(1);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    for round in (0..ROUNDS).cycle() {
        if let Err(error) = worker.tidy(round == 0, &shutdown).await {
            tracing::warn!(%error, "housekeeping failed; trying again later");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

impl Worker {
    async fn tidy(&self, everything: bool, shutdown: &CancellationToken) -> sql::Result<()> {
        let db = &self.parts.db;
        let now = self.parts.clock.now();
        device_codes::forget_tokens(db, now).await?;
        if !everything {
            return Ok(());
        }
        let limit = CHUNK.cast_signed();
        while !shutdown.is_cancelled()
            && webhook_ids::forget_expired(db, now, limit).await? >= CHUNK
        {}
        let old = now.minus(self.parts.config.job_retention);
        while !shutdown.is_cancelled() && jobs::cut_bodies(db, old, limit).await? >= CHUNK {}
        device_codes::forget(db, now.minus(LOGIN_KEPT), now).await?;
        device_code_requests::forget(db, now.minus(LOGIN_KEPT)).await?;
        Ok(())
    }
}
