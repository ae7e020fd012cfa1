//! `store::jobs::missed`, without the turns of the shops: when more jobs wait than are taken, the oldest are taken.

use domain::time::Timestamp;

use crate::database::{Database, Result, TxId};
use crate::rows::{Job, Kind};

fn waits(job: &Job, kind: Kind, now: Timestamp) -> bool {
    job.is_ready() && job.notified_at.is_none() && job.kind == kind && job.run_at <= now
}

/// What a look finds: the kinds that wait, and when workers were notified of the ready jobs, first and last.
pub struct Look {
    pub kinds: Vec<Kind>,
    pub notified: Option<(Timestamp, Timestamp)>,
}

/// `missed::look`.
pub fn look(db: &Database, now: Timestamp) -> Result<Look> {
    db.reading()?;
    let (mut kinds, mut notified) = ([false; 3], None);
    for (_, job) in db.jobs.all().filter(|(_, job)| job.is_ready()) {
        kinds[job.kind as usize] |= waits(&job, job.kind, now);
        notified = match (notified, job.notified_at) {
            (Some((first, last)), Some(at)) => Some((at.min(first), at.max(last))),
            (None, Some(at)) => Some((at, at)),
            (range, None) => range,
        };
    }
    let kinds = Kind::ALL.into_iter().filter(|kind| kinds[*kind as usize]);
    Ok(Look {
        kinds: kinds.collect(),
        notified,
    })
}

/// `missed::take`: at most `limit` jobs, marked as notified.
pub fn take(
    db: &mut Database,
    tx: TxId,
    kind: Kind,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<usize>> {
    db.statement(tx)?;
    let due = db
        .jobs
        .all_seen(tx)
        .filter(|(_, job)| waits(job, kind, now));
    let mut due: Vec<(Timestamp, usize)> = due.map(|(id, job)| (job.run_at, id)).collect();
    due.sort_unstable();
    due.truncate(limit);
    let mut taken = Vec::with_capacity(due.len());
    for (_, id) in due {
        // `mark` skips what is locked.
        if db.jobs.locked_by_other(tx, id).is_none()
            && let Some(job) = db.jobs.seen(tx, id)
        {
            let notified_at = Some(now);
            db.jobs.write(tx, id, Some(Job { notified_at, ..job }));
            taken.push(id);
        }
    }
    Ok(taken)
}

/// A job whose message was lost, and when workers were notified of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub id: usize,
    pub kind: Kind,
    pub notified_at: Timestamp,
}

/// `missed::take_lost`.
pub fn take_lost(
    db: &mut Database,
    tx: TxId,
    before: Timestamp,
    future: Timestamp,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Lost>> {
    db.statement(tx)?;
    let mut lost = Vec::new();
    for (id, job) in db.jobs.all_seen(tx) {
        if let Some(notified_at) = job.notified_at
            && job.is_ready()
            && (notified_at < before || notified_at > future)
            && job.run_at <= before
            && db.jobs.locked_by_other(tx, id).is_none()
        {
            let kind = job.kind;
            lost.push(Lost {
                id,
                kind,
                notified_at,
            });
        }
    }
    lost.sort_by_key(|lost| lost.notified_at);
    lost.truncate(limit);
    for lost in &lost {
        if let Some(job) = db.jobs.seen(tx, lost.id) {
            let notified_at = Some(now);
            db.jobs.write(tx, lost.id, Some(Job { notified_at, ..job }));
        }
    }
    Ok(lost)
}
