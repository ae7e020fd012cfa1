//! What grows is cut, in small transactions: every few minutes expired webhook ids, the bodies
//! of jobs finished long ago, old notifications and events, answers to checkouts, and logins that
//! are over; tokens of logins every minute. As often, the deadlines of privacy requests are looked at.

use std::sync::Arc;
use std::time::Duration;

use common::job::Queue;
use common::sql;
use common::store::{
    checkouts, device_code_requests, device_codes, events, jobs, notifications, webhook_ids,
};
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::handlers::privacy::export;

const PAUSE: Duration = Duration::from_mins(1);
/// Of so many rounds the first cuts everything.
const ROUNDS: usize = 5;
const CHUNK: u64 = 2000;
/// As long as a caller may ask again with the same idempotency key.
const CHECKOUT_KEPT: Duration = Duration::from_hours(24);
/// A login that is over is still told apart from one that never was.
const LOGIN_KEPT: Duration = Duration::from_hours(1);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    for round in (0..ROUNDS).cycle() {
        if let Err(error) = worker.tell_deadlines().await {
            tracing::warn!(%error, "deadlines were not looked at; trying again later");
        }
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
    /// A round that does everything, once.
    pub async fn keep_house(&self) -> sql::Result<()> {
        self.tell_deadlines().await?;
        self.tidy(true, &CancellationToken::new()).await
    }

    async fn remove_exports(&self) {
        if let Err(error) = export::remove_expired(&self.parts, &self.providers.exports).await {
            let error = format!("{error:#}");
            tracing::warn!(
                error,
                "exports that have expired are not removed; trying again later"
            );
        }
    }

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
        let config = &self.parts.config;
        let old = now.minus(config.job_retention);
        while !shutdown.is_cancelled() && jobs::cut_bodies(db, old, limit).await? >= CHUNK {}
        let old = now.minus(config.notification_retention);
        while !shutdown.is_cancelled() && notifications::forget(db, old, limit).await? >= CHUNK {}
        let old = now.minus(config.event_retention);
        while !shutdown.is_cancelled() && events::forget_published(db, old, limit).await? >= CHUNK {
        }
        let old = now.minus(CHECKOUT_KEPT);
        while !shutdown.is_cancelled() && checkouts::forget(db, old, limit).await? >= CHUNK {}
        if self.queue == Queue::Privacy {
            // Its workers alone need the store.
            self.remove_exports().await;
        }
        device_codes::forget(db, now.minus(LOGIN_KEPT), now).await?;
        device_code_requests::forget(db, now.minus(LOGIN_KEPT)).await?;
        Ok(())
    }
}
