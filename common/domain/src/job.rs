//! A job: one accepted delivery, or one piece of internal work, as a row that ends `done` or
//! `dead`. This file has the states of a job and the one table that decides when a failed job
//! runs again.

mod kind;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::names::{Unknown, unlisted};
use crate::time::Timestamp;
use crate::trace::TraceContext;

pub use self::kind::{Exhausted, Internal, Kind, Row, Work};

pub type JobId = Uuid;

/// The queue of a job, which decides the worker that runs it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<Queue>)]
pub enum Queue {
    Orders,
    Payments,
    Privacy,
    Endpoints,
}

impl Queue {
    pub const ALL: [Queue; 4] = *Queue::VARIANTS.as_array().unwrap();
}

/// Where a job came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Source {
    Storefront,
    Payment,
    /// Work that another job asked for.
    Internal,
}

impl Source {
    /// The queue under which a kind without a worker is stored.
    pub fn home(self) -> Queue {
        match self {
            Source::Storefront | Source::Internal => Queue::Orders,
            Source::Payment => Queue::Payments,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<State>)]
pub enum State {
    Ready,
    Done,
    Dead,
}

impl State {
    pub const ALL: [State; 3] = *State::VARIANTS.as_array().unwrap();
}

/// A job that a worker may run.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: JobId,
    pub kind: Kind,
    /// The shop domain of the delivery, when it had one.
    pub shop: Option<String>,
    /// The connection by which it came, or that the work is for. `None`: the one that the settings make.
    pub connection: Option<String>,
    pub body: Bytes,
    /// How many runs ended in order and failed.
    pub attempts: i64,
    /// How many runs in a row were counted and did not end, because their process went away.
    pub unfinished_attempts: i64,
    pub deadline_at: Option<Timestamp>,
    /// The id of the request that brought the job, if the client named one. For internal work,
    /// the id of the request that it follows from.
    pub trace: Option<String>,
    /// The trace context that came with the job, from a client or from the job that made it.
    pub traceparent: Option<TraceContext>,
    pub created_at: Timestamp,
    /// The run that is under way, while its span is recorded. `None`: nobody records it.
    pub run: Option<Run>,
}

/// A run of a job of which a span is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The run's own span. What the run does and makes follows from it.
    pub context: TraceContext,
    /// The span of the message that brought the job.
    pub message: Option<TraceContext>,
    pub begun_at: SystemTime,
}

impl Job {
    /// The place in its trace of what the job does now: the span of its run, if that is recorded. Else
    /// it is the job's own place in the trace that came with it, or in a new trace that begins with
    /// the job.
    pub fn context(&self) -> TraceContext {
        if let Some(run) = &self.run {
            return run.context;
        }
        match self.traceparent {
            Some(parent) => parent.child(self.id),
            None => TraceContext::begin(self.id),
        }
    }

    /// The id of the request with which everything began.
    pub fn request_id(&self) -> Cow<'_, str> {
        match &self.trace {
            Some(given) => Cow::Borrowed(given),
            None => Cow::Owned(self.id.to_string()),
        }
    }
}

/// How long a claim lasts: longer than any call takes.
pub const LEASE: Duration = Duration::from_secs(35);

/// A job with this many unfinished attempts in a row is dead-lettered (docs/reliability.md, C6).
pub const MAX_UNFINISHED_ATTEMPTS: i64 = 5;

/// How long a job waits when so many runs in a row have ended their process: 2 s, 4 s, 8 s, 16 s. So a job that ends
/// its process does not end the next one at once, and a job beside it, or one of a process that is killed again and
/// again for another reason, has time to succeed.
pub fn pause_after(unfinished_attempts: i64) -> Duration {
    let doubled = u32::try_from(unfinished_attempts).unwrap_or_default();
    Duration::from_secs(1 << doubled.min(4))
}

/// What happens to a job after a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    RetryAt(Timestamp),
    Dead,
}

/// How often and at what intervals the failed jobs of a queue run again. [`policy`] is the only
/// place that decides this.
struct Policy {
    first: Duration,
    cap: Duration,
    /// The most runs that may fail. `None` means that the job is tried until its deadline.
    attempts: Option<i64>,
    /// For jobs that come without a deadline: how long after its first failure a job is tried.
    period: Option<Duration>,
}

fn policy(queue: Queue) -> Policy {
    match queue {
        Queue::Orders | Queue::Payments => Policy {
            first: Duration::from_secs(1),
            cap: Duration::from_hours(1),
            attempts: Some(12),
            period: None,
        },
        Queue::Privacy => Policy {
            first: Duration::from_mins(1),
            cap: Duration::from_hours(6),
            attempts: None,
            period: None,
        },
        // Given up by time and not by count, because an endpoint that works again makes waiting jobs
        // due, and each such run that fails would use up one of a count.
        Queue::Endpoints => Policy {
            first: Duration::from_secs(5),
            cap: Duration::from_hours(1),
            attempts: None,
            period: Some(Duration::from_hours(3 * 24)),
        },
    }
}

/// How long before its deadline a job with a deadline is tried for the last time.
pub const LAST_TRY: Duration = Duration::from_mins(10);
/// When less than this is left until the deadline, pauses are at most [`PRESSING_CAP`].
const PRESSING: Duration = Duration::from_hours(5 * 24);
const PRESSING_CAP: Duration = Duration::from_hours(1);

/// The pause after the `attempt`-th failure, counted from 1. It doubles from the queue's first
/// pause up to its cap, and is changed by up to a fifth in either direction with `jitter`, a
/// number in `0.0..1.0`.
pub fn delay(queue: Queue, attempt: i64, jitter: f64) -> Duration {
    let policy = policy(queue);
    let doublings = u32::try_from(attempt.saturating_sub(1).clamp(0, 31)).unwrap_or(31);
    let pause = policy.first.saturating_mul(1 << doublings).min(policy.cap);
    pause
        .mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
        .min(policy.cap)
}

/// The time until which a job is tried that has failed for the `attempts`-th time. `deadline`: what was decided
/// before. The period of a job that is requeued begins anew, because its attempts do.
pub fn deadline(
    queue: Queue,
    attempts: i64,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    match policy(queue).period {
        Some(period) if attempts <= 1 || deadline.is_none() => Some(now.plus(period)),
        _ => deadline,
    }
}

/// What happens to a job after its `attempts`-th failure.
pub fn next(
    queue: Queue,
    attempts: i64,
    now: Timestamp,
    deadline: Option<Timestamp>,
    jitter: f64,
) -> Next {
    if policy(queue).attempts.is_some_and(|most| attempts >= most) {
        return Next::Dead;
    }
    let run_at = now.plus(delay(queue, attempts, jitter));
    let Some(deadline) = deadline else {
        return Next::RetryAt(run_at);
    };
    let last = deadline.minus(LAST_TRY);
    if now >= last {
        return Next::Dead;
    }
    // At the latest an hour from now once the deadline presses; before that, at the latest an
    // hour after it begins to press.
    let pressing = deadline.minus(PRESSING).max(now).plus(PRESSING_CAP);
    Next::RetryAt(run_at.min(pressing).min(last))
}
