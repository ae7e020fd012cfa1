//! Notifies workers of the jobs that were committed.

use std::collections::BTreeMap;

use bus::{Bus, JobRef, MAX_JOBS_PER_MESSAGE};
use domain::job::{JobId, Queue};
use futures_util::stream::{self, StreamExt};
use platform::crash_point::{self, Point};
use store::jobs;
use store::sql::Db;
use tokio::sync::mpsc;

use super::batches::BATCH;

/// How many messages may wait for the broker's confirm at a time.
const MESSAGES_AT_ONCE: usize = 32;

/// A committed job of which workers are to be notified.
pub(super) struct CommittedJob {
    pub(super) job_ref: JobRef,
    pub(super) queue: Queue,
    pub(super) kind: String,
}

/// A message about up to [`MAX_JOBS_PER_MESSAGE`] jobs of one queue and kind.
struct Message {
    queue: Queue,
    kind: String,
    job_refs: Vec<JobRef>,
}

/// Notifies workers of committed jobs. It puts as many jobs as possible into one message, and
/// sends several messages at a time.
pub(super) async fn notify(bus: Bus, db: Db, mut committed: mpsc::Receiver<CommittedJob>) {
    let mut waiting = Vec::new();
    while committed
        .recv_many(&mut waiting, MAX_JOBS_PER_MESSAGE * MESSAGES_AT_ONCE)
        .await
        > 0
    {
        let messages = into_messages(waiting.drain(..));
        let messages_sent = messages
            .into_iter()
            .map(|message| try_notify(&bus, message));
        let failed: Vec<JobId> = stream::iter(messages_sent)
            .buffer_unordered(MESSAGES_AT_ONCE)
            .concat()
            .await;
        clear_notified(&db, &failed).await;
    }
}

fn into_messages(jobs: impl Iterator<Item = CommittedJob>) -> Vec<Message> {
    let mut kinds: BTreeMap<(Queue, String), Vec<JobRef>> = BTreeMap::new();
    for job in jobs {
        let of_kind = kinds.entry((job.queue, job.kind)).or_default();
        of_kind.push(job.job_ref);
    }
    let mut messages = Vec::new();
    for ((queue, kind), job_refs) in kinds {
        for job_refs in job_refs.chunks(MAX_JOBS_PER_MESSAGE) {
            let (kind, job_refs) = (kind.clone(), job_refs.to_vec());
            messages.push(Message {
                queue,
                kind,
                job_refs,
            });
        }
    }
    messages
}

/// The jobs of which workers could not be notified.
async fn try_notify(bus: &Bus, message: Message) -> Vec<JobId> {
    let (queue, job_refs) = (message.queue, &message.job_refs);
    let ids = job_refs.iter().map(|job_ref| job_ref.job).collect();
    if !bus.is_ready_for_marked(queue) {
        return ids;
    }
    crash_point::reach(Point::IntakeNotify).await;
    match bus.notify(queue, &message.kind, job_refs).await {
        Ok(()) => {
            crash_point::reach(Point::IntakeNotified).await;
            Vec::new()
        }
        Err(_) => ids,
    }
}

/// Clears the time of the last notification of jobs whose message failed, so that the next sweep
/// notifies workers of them. If that fails too, the sweep finds the jobs a little later.
async fn clear_notified(db: &Db, ids: &[JobId]) {
    for ids in ids.chunks(BATCH) {
        tracing::debug!(
            jobs = ids.len(),
            "the bus did not take a message; the sweep will notify workers"
        );
        if let Err(error) = jobs::clear_notified(db, ids).await {
            tracing::debug!(%error, "could not mark jobs for the sweep");
            return;
        }
    }
}
