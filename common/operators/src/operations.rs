//! Operations: an operator has all dead jobs of a filter run again or discarded, and it goes on without them.
//!
//! - Which jobs those are is fixed when it is confirmed: the filter, and the time until which they died. A
//!   job that dies again meanwhile died later, so the set only shrinks.
//! - It begins [`GRACE`] later, so that it can be undone. It is done in batches by one process at a time, which
//!   holds a lease. A batch's jobs, the operation's cursor and counts, and the entry in the audit are one
//!   transaction, which is only committed if nobody else has moved the cursor. So each job is changed once,
//!   also when a process dies or loses its lease.

use std::time::Duration;

use bus::{Bus, MAX_JOBS_PER_MESSAGE};
use domain::privacy::Keys;
use domain::time::Timestamp;
use platform::clock::Clock;
use serde_json::json;
use store::audit::By;
use store::bulk_operations::{self, Operation, State};
use store::jobs::ended::{self, Cursor, Filter, Kinds};
use store::jobs::operate::{self, Action};
use store::leases;
use store::sql::{self, Db};
use uuid::Uuid;

use crate::jobs;

/// How long after it was confirmed an operation begins.
pub const GRACE: Duration = Duration::from_secs(10);
/// How many dead jobs are looked through to count those of an operation before it begins.
pub const MOST: i64 = store::jobs::LOOKED_THROUGH;
/// How long a process may need for a batch before another one takes over.
pub const LEASE: Duration = Duration::from_secs(30);
/// The highest rate.
pub const FASTEST: i64 = 10_000;

/// How many jobs a second, if nobody says otherwise.
pub fn usual_rate(action: Action) -> i64 {
    match action {
        Action::Requeue => 50,
        Action::Discard => FASTEST,
    }
}

/// The dead jobs that died until some time.
pub fn until(filter: &Filter, died_until: Timestamp) -> Filter {
    Filter {
        until: Timestamp(died_until.0.saturating_add(1)),
        ..filter.clone()
    }
}

/// How many jobs were counted.
pub fn counted(found: &Kinds) -> i64 {
    found.kinds.iter().map(|kind| kind.jobs).sum()
}

/// Confirms an operation. False when one with this id was confirmed before.
pub async fn confirm(
    db: &Db,
    by: By<'_>,
    id: Uuid,
    action: Action,
    filter: &Filter,
    died_until: Timestamp,
    rate: i64,
) -> sql::Result<bool> {
    let kinds = ended::of_kinds(db, &until(filter, died_until), MOST).await?;
    let new = bulk_operations::NewOperation {
        id,
        action,
        filter,
        died_until,
        rate: rate.clamp(1, FASTEST),
        found: (!kinds.is_cut).then(|| counted(&kinds)),
        begins_at: by.now.plus(GRACE),
    };
    bulk_operations::confirm(db, by, new).await
}

/// What is needed to do operations.
pub struct Runner<'a> {
    pub db: &'a Db,
    pub bus: &'a Bus,
    pub clock: &'a Clock,
    pub keys: &'a Keys,
    /// The process.
    pub holder: Uuid,
}

/// What came of a look for something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to do, or another process does it.
    Idle,
    /// A batch was done, or an operation ended. The next batch may follow after this time.
    Worked(Duration),
}

impl Runner<'_> {
    /// Does one batch of the first operation that is due.
    pub async fn step(&self) -> sql::Result<Step> {
        let now = self.clock.now();
        let Some(operation) = bulk_operations::due(self.db, now).await? else {
            return Ok(Step::Idle);
        };
        let until = now.plus(LEASE);
        if !leases::take(self.db, leases::OPERATIONS, self.holder, now, until).await? {
            return Ok(Step::Idle);
        }
        let id = operation.id;
        let worked = self.batch(operation).await;
        if let Err(error) = &worked {
            // It is shown beside the progress. If it cannot be stored, the log has it.
            let _ = bulk_operations::note_error(self.db, id, &error.to_string()).await;
        }
        worked.map(Step::Worked)
    }

    /// Gives up the lease, when this process ends.
    pub async fn release(&self) -> sql::Result<()> {
        leases::release(self.db, leases::OPERATIONS, self.holder).await
    }

    async fn batch(&self, seen: Operation) -> sql::Result<Duration> {
        let (db, filter, action) = (self.db, seen.filter(), seen.action);
        let mut after = seen.clone();
        after.state = State::Running;
        if after.found.is_none() {
            let kinds = ended::of_kinds(db, &filter, i64::MAX).await?;
            after.found = Some(counted(&kinds));
        }
        // Four batches a second keep the rate even, and it is stopped soon.
        let most = i64::try_from(MAX_JOBS_PER_MESSAGE).unwrap_or(i64::MAX);
        let size = (seen.rate / 4).clamp(1, most);
        let batch = ended::after(db, &filter, seen.cursor, size).await?;
        let Some(last) = batch.last() else {
            return self.finish(&seen, after).await;
        };
        after.cursor = Some(Cursor::of(last));
        let looked = batch.len();
        let (batch, refused) = jobs::admitted(db, action, batch).await?;
        let by = By {
            keys: self.keys,
            actor: &seen.actor,
            now: self.clock.now(),
        };
        let will_notify = self.bus.is_up();
        let mut tx = db.begin().await?;
        if !bulk_operations::lock(&mut tx, &seen).await? {
            tx.rollback().await?;
            return Ok(Duration::ZERO);
        }
        let taken = operate::take(&mut tx, by.now, action, &batch, will_notify).await?;
        after.done += number(taken.len());
        after.passed_over += number(batch.len() - taken.len());
        after.refused += number(refused.len());
        bulk_operations::save(&mut tx, &after).await?;
        if !taken.is_empty() {
            operate::note(&mut tx, by, action, seen.id, &taken).await?;
        }
        tx.commit().await?;
        if action == Action::Requeue {
            jobs::notify(db, self.bus, &taken).await?;
        }
        let rate = u32::try_from(seen.rate).unwrap_or(u32::MAX).max(1);
        Ok(Duration::from_secs(1) * u32::try_from(looked).unwrap_or(u32::MAX) / rate)
    }

    /// Nothing is left. Who was found and is not among those that were seen was changed by somebody else.
    async fn finish(&self, seen: &Operation, mut after: Operation) -> sql::Result<Duration> {
        let now = self.clock.now();
        let others = after.found.unwrap_or_default() - after.done - after.refused;
        after.passed_over = after.passed_over.max(others);
        after.state = State::Done;
        after.finished_at = Some(now);
        let by = By {
            keys: self.keys,
            actor: &seen.actor,
            now,
        };
        let mut tx = self.db.begin().await?;
        if !bulk_operations::lock(&mut tx, seen).await? {
            tx.rollback().await?;
            return Ok(Duration::ZERO);
        }
        bulk_operations::save(&mut tx, &after).await?;
        let details = json!({
            "done": after.done,
            "passed_over": after.passed_over,
            "refused": after.refused,
        });
        by.note(&mut tx, "operation.finished", seen.id, details)
            .await?;
        tx.commit().await?;
        if seen.action == Action::Requeue {
            jobs::forget_dead_letters(self.db, self.bus).await?;
        }
        leases::release(self.db, leases::OPERATIONS, self.holder).await?;
        Ok(Duration::ZERO)
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
