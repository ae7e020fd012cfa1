//! What operators do to jobs, from the command line and from the console: which jobs an action may be done
//! to, and how workers hear of it.

use std::collections::BTreeMap;

use bus::Bus;
use domain::job::{JobId, Queue, State};
use store::jobs::ended::Ended;
use store::jobs::operate::{self, Action, Refusal};
use store::jobs::{self, Summary};
use store::sql::{self, Db};

/// Why a job is not one that has ended in the wanted state.
#[derive(Debug, thiserror::Error)]
pub enum NotEnded {
    #[error("is of another version")]
    Foreign,
    #[error("was discarded, and is never run again")]
    Discarded,
    #[error("is ready: it waits for its turn, and its tries are not used up")]
    Ready,
    #[error(
        "is done; only a dead one is meant here. A finished delivery is run again with \
         `waybill jobs requeue`"
    )]
    Done,
    #[error("is dead; `waybill dead requeue` runs it again")]
    Dead,
    #[error(
        "has no body any more: bodies of finished jobs are kept for JOB_RETENTION_DAYS. Let the provider \
         send the delivery again"
    )]
    NoBody,
}

/// The job as one that has ended in this state.
pub fn as_ended(job: &Summary, wanted: State) -> Result<Ended, NotEnded> {
    let (Ok(state), Ok(queue)) = (job.state.parse::<State>(), job.queue.parse::<Queue>()) else {
        return Err(NotEnded::Foreign);
    };
    match (state, wanted) {
        _ if job.discarded_at.is_some() => Err(NotEnded::Discarded),
        (State::Ready, _) => Err(NotEnded::Ready),
        (State::Done, State::Dead) => Err(NotEnded::Done),
        (State::Dead, State::Done) => Err(NotEnded::Dead),
        (State::Done, _) if job.body_bytes.is_none() && queue != Queue::Privacy => {
            Err(NotEnded::NoBody)
        }
        _ => Ok(Ended {
            id: job.id,
            queue,
            kind: job.kind.clone(),
            source: job.source.clone(),
            shop: job.shop.clone(),
            state,
            created_at: job.created_at,
            finished_at: job.finished_at.unwrap_or(job.created_at),
        }),
    }
}

/// A job to which the action must not be done.
pub type Refused = (Ended, Refusal);

/// Separates the jobs to which the action may be done from those to which it must not.
pub async fn admitted(
    db: &Db,
    action: Action,
    jobs: Vec<Ended>,
) -> sql::Result<(Vec<Ended>, Vec<Refused>)> {
    let duties = match action {
        Action::Discard => operate::duties(db, &jobs).await?,
        Action::Requeue => Vec::new(),
    };
    let (mut admitted, mut refused) = (Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        let duty = duties.contains(&job.id).then_some(Refusal::Duty);
        match duty.or_else(|| operate::refusal(&job, action)) {
            None => admitted.push(job),
            Some(refusal) => refused.push((job, refusal)),
        }
    }
    Ok((admitted, refused))
}

/// Notifies workers of jobs that were marked as notified in the transaction that made them ready. Jobs
/// whose notification the bus does not take are left to the sweep.
pub async fn notify(db: &Db, bus: &Bus, jobs: &[&Ended]) -> sql::Result<()> {
    let mut messages: BTreeMap<(Queue, &str), Vec<JobId>> = BTreeMap::new();
    for job in jobs {
        let message = messages.entry((job.queue, &job.kind)).or_default();
        message.push(job.id);
    }
    for ((queue, kind), ids) in messages {
        notify_of(db, bus, queue, kind, &ids).await?;
    }
    Ok(())
}

/// The same for jobs of one kind.
pub async fn notify_of(
    db: &Db,
    bus: &Bus,
    queue: Queue,
    kind: &str,
    ids: &[JobId],
) -> sql::Result<()> {
    // With no room in the queue the jobs wait for the sweep, like those of everybody else.
    let is_sent = bus.is_ready_for_marked(queue) && bus.notify_ids(queue, kind, ids).await.is_ok();
    if !is_sent {
        jobs::clear_notified(db, ids).await?;
    }
    Ok(())
}

/// Removes the ids of this database's jobs from the broker's dead-letter queue, when none of them is dead
/// any more. Messages with other ids stay, because another database may share the broker by mistake. If
/// this fails, only old ids stay on the queue, and nothing reads them.
pub async fn forget_dead_letters(db: &Db, bus: &Bus) -> sql::Result<()> {
    if bus.is_local() || !bus.is_up() {
        return Ok(());
    }
    if jobs::is_any_dead(db).await? {
        return Ok(());
    }
    if let Ok(Some(letters)) = bus.dead_letters().await {
        let ids: Vec<JobId> = letters.jobs().collect();
        let over = jobs::not_dead(db, &ids).await?;
        let _ = letters.forget(|id| over.contains(&id)).await;
    }
    Ok(())
}
