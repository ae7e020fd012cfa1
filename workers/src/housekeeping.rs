//! Removes old data in small transactions. Every few minutes it removes expired webhook ids, the
//! bodies and attempts of jobs that finished long ago, old notifications and events, answers to checkouts, and
//! logins and sessions that are over. Every minute it removes tokens of logins and checks the deadlines of
//! privacy requests. If a step fails, it is tried again in a later round, and the other steps run
//! all the same.

use std::sync::Arc;
use std::time::Duration;

use domain::job::{JobId, Queue};
use domain::time::Timestamp;
use store::audit::{self, By};
use store::broker;
use store::sql;
use store::{
    checkouts, confirmed_tokens, console_sessions, deliveries, device_code_requests, device_codes,
    erasure, events, job_attempts, leases, measures, notifications, reconciliations,
    refused_deliveries, users, webhook_ids,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Worker;
use crate::handlers::privacy::export;

const PAUSE: Duration = Duration::from_mins(1);
/// The first of this many rounds runs all steps.
const ROUNDS: usize = 5;
/// How many rows one transaction removes. On SQLite nobody else can write meanwhile.
const CHUNK: u64 = 500;
/// How far back a process that has just started looks for erasures of an earlier process.
const LOOKED_BACK: Duration = Duration::from_hours(1);
/// A transaction that began before an erasure keeps what it may still read. None of ours is open for
/// so long, so what is cleared after this time is clear.
const TRANSACTIONS_END: Duration = Duration::from_secs(150);
/// The pause between two times that a server's pages are cleared is so many times as long as it took.
const CLEARING_REST: u32 = 10;
/// One process clears them for all; one that was killed keeps the others waiting for so long.
const LEASE: &str = "clearing";
const LEASE_TIME: Duration = Duration::from_mins(1);
/// How long a login that is over is kept, so that a poll about it gets another answer than one
/// about an unknown code.
const LOGIN_KEPT: Duration = Duration::from_hours(1);

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let mut clearing = Clearing {
        holder: worker.parts.clock.id(),
        cleared: None,
        rested: Duration::ZERO,
    };
    for round in (0..ROUNDS).cycle() {
        // The failed step has been logged already.
        let _ = worker.tidy(round == 0, &shutdown).await;
        if worker.queue == Queue::Privacy {
            let clear = worker.clear_server(&mut clearing);
            shutdown.run_until_cancelled(clear).await;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// How far a server's pages are cleared.
struct Clearing {
    holder: Uuid,
    /// What the audit says up to this entry.
    cleared: Option<i64>,
    /// The clearing does not begin before then.
    rested: Duration,
}

/// The steps of a round. They are independent of each other, so all run even if one fails.
struct Round<'a> {
    shutdown: &'a CancellationToken,
    /// The first failure.
    failed: sql::Result<()>,
}

impl Round<'_> {
    async fn step(&mut self, what: &'static str, step: impl Future<Output = sql::Result<()>>) {
        if self.shutdown.is_cancelled() {
            return;
        }
        let Err(error) = step.await else { return };
        tracing::warn!(%error, what, "a step of housekeeping failed; trying again later");
        if self.failed.is_ok() {
            self.failed = Err(error);
        }
    }

    /// Repeats a step that removes a limited number of rows, until nothing is left to remove.
    async fn chunks<F>(&mut self, what: &'static str, step: impl Fn() -> F)
    where
        F: Future<Output = sql::Result<u64>>,
    {
        let shutdown = self.shutdown;
        let all = async {
            while !shutdown.is_cancelled() && step().await? >= CHUNK {}
            Ok(())
        };
        self.step(what, all).await;
    }
}

impl Worker {
    /// Runs one round with all steps. If a step fails, the others still run, and then the round
    /// fails.
    pub async fn keep_house(&self) -> sql::Result<()> {
        Box::pin(self.tidy(true, &CancellationToken::new())).await
    }

    /// Vacuums the tables of a PostgreSQL server if something was erased since the last time, so
    /// that the erased text leaves its pages.
    async fn clear_server(&self, clearing: &mut Clearing) {
        let clock = &self.parts.clock;
        if clock.elapsed() < clearing.rested {
            return;
        }
        let (begun, now) = (clock.elapsed(), clock.now());
        let cleared = self.clear_since(clearing, now).await;
        let took = clock.elapsed().saturating_sub(begun);
        clearing.rested = clock.elapsed() + took * CLEARING_REST;
        if let Err(error) = cleared {
            tracing::warn!(%error, "tables are not cleared of what was erased; trying again later");
        }
    }

    async fn clear_since(&self, clearing: &mut Clearing, now: Timestamp) -> sql::Result<()> {
        let db = &self.parts.db;
        let since = match clearing.cleared {
            Some(since) => since,
            // What was erased shortly before a process ended counts too.
            None => erasure::entry_before(db, now.minus(LOOKED_BACK)).await?,
        };
        let until = erasure::entry_before(db, now.minus(TRANSACTIONS_END)).await?;
        if erasure::first_since(db, since).await?.is_some() {
            let ends = now.plus(LEASE_TIME);
            if !leases::take(db, LEASE, clearing.holder, now, ends).await? {
                return Ok(());
            }
            let cleared = erasure::clear(db).await;
            leases::release(db, LEASE, clearing.holder).await?;
            cleared?;
        }
        clearing.cleared = Some(since.max(until));
        Ok(())
    }

    async fn remove_exports(&self) {
        let exports = &self.providers.exports;
        if let Err(error) = export::look_at_store(&self.parts, exports).await {
            let error = format!("{error:#}");
            tracing::warn!(error, "the store of exports cannot be looked at");
        }
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
        let mut round = Round {
            shutdown,
            failed: Ok(()),
        };
        round.step("deadlines", self.send_deadline_notices()).await;
        let tokens = device_codes::forget_tokens(db, now);
        round.step("tokens of logins", tokens).await;
        if everything {
            self.cut(&mut round, now).await;
        }
        round.failed
    }

    async fn cut(&self, round: &mut Round<'_>, now: Timestamp) {
        let db = &self.parts.db;
        let config = &self.parts.config;
        let most = CHUNK.cast_signed();
        let ids = || webhook_ids::forget_expired(db, now, most);
        round.chunks("webhook ids", ids).await;
        let old = now.minus(config.job_retention);
        let shutdown = round.shutdown;
        let bodies = async {
            let mut next = Some(JobId::nil());
            while let Some(after) = next.filter(|_| !shutdown.is_cancelled()) {
                next = deliveries::cut_bodies(db, old, after, most).await?;
            }
            Ok(())
        };
        round.step("bodies of jobs", bodies).await;
        let attempts = || job_attempts::forget(db, old, most);
        round.chunks("attempts of jobs", attempts).await;
        let old = now.minus(config.notification_retention);
        let reported = || notifications::forget(db, old, most);
        round.chunks("notifications", reported).await;
        let old = now.minus(config.event_retention);
        let published = || async move {
            // An event that the broker does not have yet is kept.
            events::forget(db, old, broker::not_owed(db).await?, most).await
        };
        round.chunks("events", published).await;
        let old = now.minus(checkouts::KEPT);
        let answers = || checkouts::forget(db, old, most);
        round.chunks("answers to checkouts", answers).await;
        if self.queue == Queue::Privacy && !round.shutdown.is_cancelled() {
            // Only the workers of the privacy queue need the export store.
            self.remove_exports().await;
            let keys = &self.parts.keys;
            let rewrite = async {
                let begun = self.parts.clock.elapsed();
                if erasure::file::rewrite_in_time(db, keys, now).await? {
                    let took = self.parts.clock.elapsed().saturating_sub(begun);
                    tracing::info!(
                        ?took,
                        "the database's file was rewritten without what was erased"
                    );
                }
                Ok(())
            };
            round.step("what was erased, in the file", rewrite).await;
        }
        let old = now.minus(refused_deliveries::KEPT);
        let refused = refused_deliveries::forget(db, old);
        round.step("refused deliveries", refused).await;
        let old = now.minus(reconciliations::KEPT);
        let found = || reconciliations::forget(db, old, most);
        round.chunks("what reconciliation found", found).await;
        round.step("measures", measures::roll_up(db, now)).await;
        let old = now.minus(LOGIN_KEPT);
        let logins = || device_codes::forget(db, old, now);
        round.chunks("logins", logins).await;
        let begun = || device_code_requests::forget(db, old);
        round.chunks("beginnings of logins", begun).await;
        let confirmed = || confirmed_tokens::forget(db, now, most);
        round.chunks("confirmed tokens", confirmed).await;
        let by = By {
            keys: &self.parts.keys,
            actor: audit::WORKER,
            now,
        };
        let unseen = || users::forget_unseen(db, by, most);
        round.chunks("people who were not seen", unseen).await;
        let ended = || console_sessions::forget(db, now, most);
        round.chunks("sessions of the console", ended).await;
    }
}
