//! `store::jobs`.

use domain::job::State;
use domain::time::Timestamp;

use crate::database::{Database, Result, TxId, lock};
use crate::rows::Job;

/// `jobs::insert`.
pub fn insert(db: &mut Database, tx: TxId, new: &[(usize, Job)]) -> Result<()> {
    db.statement(tx)?;
    for (id, job) in new {
        db.jobs.write(tx, *id, Some(*job));
    }
    Ok(())
}

/// `jobs::ready`.
pub fn ready(db: &Database, ids: &[usize], now: Timestamp) -> Result<Vec<(usize, Job)>> {
    db.reading()?;
    let mut jobs: Vec<(usize, Job)> = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(job) = db.jobs.committed(*id)
            && job.is_ready()
            && job.is_due(now)
        {
            jobs.push((*id, job));
        }
    }
    jobs.sort_unstable_by_key(|(id, _)| *id);
    jobs.dedup_by_key(|(id, _)| *id);
    Ok(jobs)
}

/// `jobs::finish`, which skips what is locked. `guarded`: only jobs that are still ready.
pub fn finish(
    db: &mut Database,
    tx: TxId,
    ids: &[usize],
    now: Timestamp,
    guarded: bool,
) -> Result<Vec<usize>> {
    db.statement(tx)?;
    let mut finished = Vec::with_capacity(ids.len());
    for id in ids {
        if db.jobs.locked_by_other(tx, *id).is_none()
            && let Some(job) = db.jobs.seen(tx, *id)
            && (job.is_ready() || !guarded)
        {
            db.jobs.write(tx, *id, Some(done(job, now)));
            finished.push(*id);
        }
    }
    Ok(finished)
}

fn done(job: Job, now: Timestamp) -> Job {
    Job {
        state: State::Done,
        finished_at: Some(now),
        unfinished_attempts: 0,
        ..job
    }
}

/// Changes the row of a job that is still ready, and waits for its lock. False when it is not.
fn change(
    db: &mut Database,
    tx: TxId,
    id: usize,
    fits: impl Fn(&Job) -> bool,
    to: impl Fn(Job) -> Job,
) -> Result<bool> {
    db.statement(tx)?;
    lock!(db, jobs, tx, id);
    let job = db.jobs.seen(tx, id).filter(fits);
    let Some(job) = job else { return Ok(false) };
    db.jobs.write(tx, id, Some(to(job)));
    Ok(true)
}

/// `jobs::finish_claimed`. `fenced`: only with the fencing token of the last claim.
pub fn finish_claimed(
    db: &mut Database,
    tx: TxId,
    id: usize,
    claim: i64,
    now: Timestamp,
    fenced: bool,
) -> Result<bool> {
    let fits = |job: &Job| job.is_ready() && (job.claims == claim || !fenced);
    change(db, tx, id, fits, |job| done(job, now))
}

/// `jobs::has_claim`.
pub fn has_claim(db: &mut Database, tx: TxId, id: usize, claim: i64) -> Result<bool> {
    let fits = |job: &Job| job.is_ready() && job.claims == claim;
    change(db, tx, id, fits, |job| job)
}

/// `jobs::retry`.
pub fn retry(
    db: &mut Database,
    tx: TxId,
    id: usize,
    attempts: i64,
    run_at: Timestamp,
    deadline_at: Option<Timestamp>,
) -> Result<bool> {
    change(db, tx, id, Job::is_ready, |job| Job {
        attempts,
        run_at,
        deadline_at,
        notified_at: None,
        unfinished_attempts: 0,
        ..job
    })
}

/// `jobs::dead_letter`.
pub fn dead_letter(
    db: &mut Database,
    tx: TxId,
    id: usize,
    attempts: i64,
    now: Timestamp,
) -> Result<bool> {
    change(db, tx, id, Job::is_ready, |job| Job {
        state: State::Dead,
        attempts,
        finished_at: Some(now),
        unfinished_attempts: 0,
        ..job
    })
}

/// `jobs::wake`.
pub fn wake(db: &mut Database, tx: TxId, id: usize, now: Timestamp) -> Result<bool> {
    change(db, tx, id, Job::is_ready, |job| Job {
        run_at: now,
        notified_at: None,
        attempts: 0,
        unfinished_attempts: 0,
        ..job
    })
}

/// `jobs::requeue`.
pub fn requeue(db: &mut Database, tx: TxId, id: usize, now: Timestamp) -> Result<bool> {
    let is_dead = |job: &Job| job.state == State::Dead;
    change(db, tx, id, is_dead, |job| Job {
        state: State::Ready,
        attempts: 0,
        unfinished_attempts: 0,
        run_at: now,
        notified_at: None,
        finished_at: None,
        ..job
    })
}

/// `jobs::release`.
pub fn release(db: &mut Database, tx: TxId, id: usize, run_at: Timestamp) -> Result<bool> {
    change(db, tx, id, Job::is_ready, |job| Job {
        run_at,
        notified_at: None,
        ..job
    })
}

/// `jobs::begin_attempt`.
pub fn begin_attempt(db: &mut Database, tx: TxId, id: usize) -> Result<Option<i64>> {
    let counted = change(db, tx, id, Job::is_ready, |job| Job {
        unfinished_attempts: job.unfinished_attempts + 1,
        ..job
    })?;
    let job = db.jobs.seen(tx, id).filter(|_| counted);
    Ok(job.map(|job| job.unfinished_attempts))
}

/// `jobs::Claimed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub id: usize,
    pub token: i64,
    pub runs: i64,
}

/// Changes those of the jobs that are ready and due and that nobody has locked.
fn change_due(
    db: &mut Database,
    tx: TxId,
    ids: &[usize],
    now: Timestamp,
    to: impl Fn(Job) -> Job,
) -> Result<Vec<(usize, Job)>> {
    db.statement(tx)?;
    let mut changed = Vec::with_capacity(ids.len());
    for id in ids {
        if db.jobs.locked_by_other(tx, *id).is_none()
            && let Some(job) = db.jobs.seen(tx, *id)
            && job.is_ready()
            && job.is_due(now)
        {
            let job = to(job);
            db.jobs.write(tx, *id, Some(job));
            changed.push((*id, job));
        }
    }
    Ok(changed)
}

/// `jobs::claim`.
pub fn claim(
    db: &mut Database,
    tx: TxId,
    ids: &[usize],
    now: Timestamp,
    until: Timestamp,
) -> Result<Vec<Claimed>> {
    let claimed = change_due(db, tx, ids, now, |job| Job {
        run_at: until,
        notified_at: None,
        unfinished_attempts: job.unfinished_attempts + 1,
        claims: job.claims + 1,
        ..job
    })?;
    let claimed = claimed.into_iter().map(|(id, job)| Claimed {
        id,
        token: job.claims,
        runs: job.unfinished_attempts,
    });
    Ok(claimed.collect())
}

/// `jobs::defer`.
pub fn defer(
    db: &mut Database,
    tx: TxId,
    ids: &[usize],
    now: Timestamp,
    run_at: Timestamp,
) -> Result<()> {
    change_due(db, tx, ids, now, |job| Job {
        run_at,
        notified_at: None,
        ..job
    })?;
    Ok(())
}

/// `jobs::defer_claimed`.
pub fn defer_claimed(
    db: &mut Database,
    tx: TxId,
    claimed: Claimed,
    until: Timestamp,
    run_at: Timestamp,
) -> Result<bool> {
    let fits = |job: &Job| job.is_ready() && job.claims == claimed.token;
    change(db, tx, claimed.id, fits, |job| Job {
        run_at: if job.run_at == until {
            run_at
        } else {
            job.run_at
        },
        notified_at: None,
        unfinished_attempts: 0,
        ..job
    })
}

/// `jobs::clear_notified`.
pub fn clear_notified(db: &mut Database, tx: TxId, ids: &[usize]) -> Result<()> {
    for id in ids {
        change(db, tx, *id, Job::is_ready, |job| Job {
            notified_at: None,
            ..job
        })?;
    }
    Ok(())
}
