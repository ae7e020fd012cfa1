//! `ingress::intake`: the batch writer, of which two are under way at a time, and the notifier.

use std::time::Duration;

use super::{Machine, Next, Part};
use crate::Wrong;
use crate::broker::{MAX_JOBS_PER_MESSAGE, Sent};
use crate::database::{Result, Stop, TxId};
use crate::outside::Answer;
use crate::rows::{Job, Kind};
use crate::tables::{jobs, webhook_ids};
use crate::world::{Process, Request, World, note};

/// How many deliveries a batch has at most, and how many are enough for a second batch beside the first
/// (`intake::BATCH` and `intake::ENOUGH`, which are 256 and 32).
const BATCH: usize = 4;
const ENOUGH: usize = 2;
/// `intake::STORE_DEADLINE`.
const STORE_DEADLINE: i64 = 1_000;
/// How many dead connections a batch tries (`intake::MOST_DEAD`, which is 20).
const MOST_DEAD: u32 = 3;
/// `WEBHOOK_DEDUPE_TTL_SECONDS`.
const TTL: Duration = Duration::from_hours(72);

/// `BatchWriter`.
#[derive(Debug, Default)]
pub struct Writer {
    batch: Vec<Request>,
    /// `NewJob::notified_at` of each, as the batch decides it.
    is_notified: bool,
    fresh: Vec<usize>,
    /// How many ids of the statement are written. Another transaction may come between two rows of it.
    written: usize,
    begun_at: i64,
    tries: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Begin,
    Remember,
    /// Only with the wrong rule: ids in a transaction of their own.
    CommitIds,
    BeginJobs,
    Insert,
    Commit,
    Answer,
}

impl Writer {
    /// `collect`: takes what waits, if no batch is under way or enough waits for another one.
    fn take(&mut self, process: usize, world: &mut World) -> Next {
        let waiting = std::mem::take(&mut world.processes[process].requests);
        let closed = |it: &Request| !matches!(&world.actors[it.sender].part, Part::Sender(sender) if sender.waits_for(it.attempt));
        // A request that no longer waits has been answered with 503.
        let mut waiting: Vec<Request> = waiting.into_iter().filter(|it| !closed(it)).collect();
        let rest = waiting.split_off(waiting.len().min(BATCH));
        let is_ready = world.broker.is_ready();
        let process = &mut world.processes[process];
        process.requests = rest;
        if waiting.is_empty() {
            return Next::Idle;
        }
        process.batches += 1;
        *self = Writer {
            batch: waiting,
            is_notified: is_ready,
            begun_at: world.now,
            stage: Stage::Begin,
            ..Writer::default()
        };
        Next::Soon
    }

    /// `first_of_each_id`: sorted, and each id once.
    fn claims(&self, world: &World) -> Vec<webhook_ids::Claim> {
        let mut claims: Vec<webhook_ids::Claim> = Vec::with_capacity(self.batch.len());
        for request in &self.batch {
            if claims.iter().all(|it| it.delivery != request.delivery) {
                claims.push(webhook_ids::Claim {
                    delivery: request.delivery,
                    job: request.job,
                });
            }
        }
        if world.rules.is_not(Wrong::UnsortedBatch) {
            claims.sort_unstable();
        }
        claims
    }

    /// `webhook_ids::remember` in `write`. True when all ids are written.
    fn remember(&mut self, tx: TxId, process: usize, world: &mut World) -> Result<bool> {
        let claims = self.claims(world);
        let now = world.clock(process);
        let waits = world
            .rules
            .is_not(Wrong::DuplicateBeforeTheFirstIsCommitted);
        let next = &claims[self.written..=self.written];
        let fresh = webhook_ids::remember(&mut world.db, tx, next, now, TTL, waits)?;
        note!(
            world,
            process,
            "remembers {next:?} in transaction {tx}; new is {fresh:?}"
        );
        self.fresh.extend(fresh);
        self.written += 1;
        Ok(self.written == claims.len())
    }

    /// `jobs::insert` in `write`.
    fn insert(&mut self, tx: TxId, process: usize, world: &mut World) -> Result<()> {
        let notified_at = self.is_notified.then_some(world.clock(process));
        let mut new = Vec::with_capacity(self.fresh.len());
        for request in &self.batch {
            if self.fresh.contains(&request.job) {
                let order = world.deliveries[request.delivery].order;
                let job = Job {
                    delivery: Some(request.delivery),
                    notified_at,
                    ..Job::new(Kind::Delivery, order, request.created_at)
                };
                new.push((request.job, job));
            }
        }
        jobs::insert(&mut world.db, tx, &new)
    }

    /// The committed jobs go to the notifier.
    fn hand_over(&self, process: usize, world: &mut World) {
        if self.is_notified {
            let jobs = self.fresh.iter().map(|job| (*job, Kind::Delivery));
            world.processes[process].committed.extend(jobs);
        }
    }

    /// `BatchWriter::answer`.
    fn answer(&self, process: usize, world: &mut World) {
        for request in &self.batch {
            let is_new = self.fresh.contains(&request.job);
            let verdict = if is_new {
                Answer::Accepted
            } else {
                Answer::Duplicate
            };
            world.answer(process, request, verdict);
        }
    }

    fn end(&mut self, process: usize, world: &mut World) -> Next {
        world.processes[process].batches -= 1;
        *self = Writer::default();
        Next::Soon
    }
}

impl Machine for Writer {
    fn step(&mut self, tx: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        if self.stage != Stage::Idle && world.now > self.begun_at + STORE_DEADLINE {
            return Err(Stop::Lost);
        }
        let dedupe_apart = world.rules.is(Wrong::DedupeOutsideTheTransaction);
        match (self.stage, *tx) {
            (Stage::Idle, _) => return Ok(self.take(process, world)),
            (Stage::Begin, _) => {
                *tx = Some(world.db.begin()?);
                self.written = 0;
                self.fresh.clear();
                self.stage = Stage::Remember;
            }
            (Stage::Remember, Some(open)) => {
                if !self.remember(open, process, world)? {
                    return Ok(Next::Soon);
                }
                if world.rules.is(Wrong::AnswerBeforeCommit) {
                    self.answer(process, world);
                }
                if world.rules.is(Wrong::NotifyBeforeCommit) {
                    self.hand_over(process, world);
                }
                self.stage = if dedupe_apart {
                    Stage::CommitIds
                } else {
                    Stage::Insert
                };
            }
            (Stage::CommitIds, Some(open)) => {
                *tx = None;
                world.db.commit(open)?;
                self.stage = Stage::BeginJobs;
            }
            (Stage::BeginJobs, _) => {
                *tx = Some(world.db.begin()?);
                self.stage = Stage::Insert;
            }
            (Stage::Insert, Some(open)) => {
                self.insert(open, process, world)?;
                self.stage = Stage::Commit;
            }
            (Stage::Commit, Some(open)) => {
                *tx = None;
                world.db.commit(open)?;
                note!(world, process, "commits jobs {:?}", self.fresh);
                self.stage = Stage::Answer;
            }
            (Stage::Answer, _) => {
                self.answer(process, world);
                if world.rules.is_not(Wrong::NotifyBeforeCommit) {
                    self.hand_over(process, world);
                }
                return Ok(self.end(process, world));
            }
            (_, None) => return Err(Stop::Lost),
        }
        Ok(Next::Soon)
    }

    /// `commit_with_retry`: before the commit the batch is stored on another connection. In the commit, or when it took
    /// too long, its outcome is not known, and all get 503.
    fn fail(&mut self, process: usize, world: &mut World) -> i64 {
        let is_in_commit = matches!(self.stage, Stage::Commit | Stage::CommitIds);
        let is_in_time = world.now < self.begun_at + STORE_DEADLINE;
        self.tries += 1;
        if !is_in_commit && is_in_time && self.tries < MOST_DEAD {
            self.stage = Stage::Begin;
            return 0;
        }
        for request in &self.batch {
            world.answer(process, request, Answer::Unavailable);
        }
        self.end(process, world);
        0
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Writer(Writer::default()))
    }

    fn has_work(&self, process: &Process, _: &World) -> bool {
        let waiting = process.requests.len();
        self.stage == Stage::Idle && waiting > 0 && (process.batches == 0 || waiting >= ENOUGH)
    }

    fn patience(&self) -> i64 {
        STORE_DEADLINE
    }

    /// Two batches never wait for each other's locks in a circle (C11).
    fn deadlocked(&self, world: &mut World) {
        world
            .facts
            .wrong("two batches of intake wait for each other (C11)");
    }
}

/// `intake::notify`.
#[derive(Debug, Default)]
pub struct Notifier {
    jobs: Vec<usize>,
    sent: Option<Sent>,
    is_clearing: bool,
}

impl Machine for Notifier {
    fn step(&mut self, _: &mut Option<TxId>, process: usize, world: &mut World) -> Result<Next> {
        if self.is_clearing {
            // `jobs::clear_notified`. If it fails, the sweep finds the jobs a little later.
            world.single(|db, tx| jobs::clear_notified(db, tx, &self.jobs))?;
            self.is_clearing = false;
            return Ok(Next::Soon);
        }
        if let Some(sent) = self.sent.take() {
            self.is_clearing = !world.confirm(process, &sent);
            return Ok(Next::Soon);
        }
        let committed = &mut world.processes[process].committed;
        if committed.is_empty() {
            return Ok(Next::Idle);
        }
        let most = MAX_JOBS_PER_MESSAGE.min(committed.len());
        self.jobs = committed.drain(..most).map(|(job, _)| job).collect();
        // `try_notify`.
        if world.broker.is_ready_for_marked() {
            self.sent = world.send(process, Kind::Delivery, &self.jobs, false);
        }
        self.is_clearing = self.sent.is_none();
        Ok(Next::Soon)
    }

    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        *self = Notifier::default();
        0
    }

    fn reborn(&self) -> Option<Part> {
        Some(Part::Notifier(Notifier::default()))
    }

    fn has_work(&self, process: &Process, _: &World) -> bool {
        self.sent.is_none() && !self.is_clearing && !process.committed.is_empty()
    }
}
