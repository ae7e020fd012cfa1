//! A job: one accepted delivery, or one piece of internal work, as a row that ends
//! `done` or `dead`. Here are its states and, in one table, when a failed one runs again.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::time::Timestamp;
use crate::trace::TraceContext;

pub type JobId = Uuid;

/// The worker a job belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    Orders,
    Payments,
    Privacy,
}

impl Queue {
    pub const ALL: [Queue; 3] = [Queue::Orders, Queue::Payments, Queue::Privacy];

    pub fn as_str(self) -> &'static str {
        match self {
            Queue::Orders => "orders",
            Queue::Payments => "payments",
            Queue::Privacy => "privacy",
        }
    }
}

/// Where a job came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    Storefront,
    Payment,
    /// Work that other jobs asked for.
    Internal,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Storefront => "storefront",
            Source::Payment => "payment",
            Source::Internal => "internal",
        }
    }

    /// The worker for a storefront topic or a payment event type, in the provider's
    /// spelling; `None` for those Waybill only keeps.
    pub fn queue(self, kind: &str) -> Option<Queue> {
        match (self, kind) {
            (
                Source::Storefront,
                "orders/create" | "orders/updated" | "orders/paid" | "orders/fulfilled"
                | "orders/cancelled",
            ) => Some(Queue::Orders),
            (Source::Storefront, "customers/data_request" | "customers/redact" | "shop/redact") => {
                Some(Queue::Privacy)
            }
            (
                Source::Payment,
                "payment_intent.succeeded"
                | "payment_intent.payment_failed"
                | "payment_intent.canceled"
                | "charge.refunded"
                | "checkout.session.completed"
                | "invoice.payment_succeeded",
            ) => Some(Queue::Payments),
            _ => None,
        }
    }

    /// The queue that a kind without a worker is filed under.
    pub fn home(self) -> Queue {
        match self {
            Source::Storefront | Source::Internal => Queue::Orders,
            Source::Payment => Queue::Payments,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    Done,
    Dead,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Done => "done",
            State::Dead => "dead",
        }
    }
}

/// A text that is not one of an enum's names.
#[derive(Debug, thiserror::Error)]
#[error("is not one of {0}")]
pub struct Unknown(&'static str);

impl FromStr for Queue {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        Queue::ALL
            .into_iter()
            .find(|queue| queue.as_str() == text)
            .ok_or(Unknown("orders, payments, privacy"))
    }
}

impl FromStr for State {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        [State::Ready, State::Done, State::Dead]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(Unknown("ready, done, dead"))
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A job that a worker may run.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: JobId,
    pub queue: Queue,
    /// The topic or event type, as the provider spells it.
    pub kind: String,
    /// The shop domain of the delivery, when it had one.
    pub shop: Option<String>,
    pub body: Bytes,
    /// Orderly runs that failed.
    pub attempts: i64,
    /// Runs in a row that ended with the process instead of an answer.
    pub unfinished_attempts: i64,
    pub deadline_at: Option<Timestamp>,
    /// The request id that brought it, when the client named one; of internal work the id of the
    /// request that it follows from.
    pub trace: Option<String>,
    /// What it came with, from a client or the job that made it.
    pub traceparent: Option<TraceContext>,
    pub created_at: Timestamp,
}

impl Job {
    /// Its place in the trace that it came with, or in one that begins with it.
    pub fn context(&self) -> TraceContext {
        match self.traceparent {
            Some(parent) => parent.child(self.id),
            None => TraceContext::begin(self.id),
        }
    }

    /// The id of the request that all began with.
    pub fn request_id(&self) -> Cow<'_, str> {
        match &self.trace {
            Some(given) => Cow::Borrowed(given),
            None => Cow::Owned(self.id.to_string()),
        }
    }
}

/// A job whose runs ended its process this often in a row is dead (faults, C6).
pub const MAX_UNFINISHED_ATTEMPTS: i64 = 5;

/// What happens to a job after its `attempts`-th failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    RetryAt(Timestamp),
    Dead,
}

/// When a queue's failed jobs run again. This table is the only place that knows.
struct Policy {
    first: Duration,
    cap: Duration,
    /// `None`: until the job's deadline.
    attempts: Option<i64>,
}

fn policy(queue: Queue) -> Policy {
    match queue {
        Queue::Orders | Queue::Payments => Policy {
            first: Duration::from_secs(1),
            cap: Duration::from_hours(1),
            attempts: Some(12),
        },
        Queue::Privacy => Policy {
            first: Duration::from_mins(1),
            cap: Duration::from_hours(6),
            attempts: None,
        },
    }
}

/// The last try of a job with a deadline starts this long before it.
const LAST_TRY: Duration = Duration::from_mins(10);
/// When so little is left until the deadline, pauses are no longer than an hour.
const PRESSING: Duration = Duration::from_hours(5 * 24);
const PRESSING_CAP: Duration = Duration::from_hours(1);

/// The pause after the `attempt`-th failure (from 1): doubling from the queue's first to
/// its cap, spread by a fifth either way with `jitter` in `0.0..1.0`.
pub fn delay(queue: Queue, attempt: i64, jitter: f64) -> Duration {
    let policy = policy(queue);
    let doublings = u32::try_from(attempt.saturating_sub(1).clamp(0, 31)).unwrap_or(31);
    let pause = policy.first.saturating_mul(1 << doublings).min(policy.cap);
    pause
        .mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
        .min(policy.cap)
}

/// What becomes of a job after its `attempts`-th failure.
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
    // Once it presses, and not later than an hour after it has begun to.
    let pressing = deadline.minus(PRESSING).max(now).plus(PRESSING_CAP);
    Next::RetryAt(run_at.min(pressing).min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_800_000_000_000);

    #[test]
    fn orders_are_tried_twelve_times_with_doubling_pauses_up_to_an_hour() {
        let pauses: Vec<u64> = (1..=13)
            .map(|attempt| delay(Queue::Orders, attempt, 0.5).as_secs())
            .collect();
        assert_eq!(
            pauses,
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600]
        );
        let eleventh = next(Queue::Orders, 11, START, None, 0.5);
        assert_eq!(
            eleventh,
            Next::RetryAt(START.plus(Duration::from_secs(1024)))
        );
        assert_eq!(next(Queue::Orders, 12, START, None, 0.5), Next::Dead);
    }

    #[test]
    fn jitter_spreads_a_pause_by_a_fifth_either_way() {
        assert_eq!(delay(Queue::Orders, 1, 0.0), Duration::from_millis(800));
        assert_eq!(delay(Queue::Orders, 1, 1.0), Duration::from_millis(1200));
    }

    #[test]
    fn privacy_work_is_tried_until_its_deadline_and_the_last_try_is_before_it() {
        let deadline = START.plus(Duration::from_hours(30 * 24));
        let mut now = START;
        let mut attempts = 0;
        let last = loop {
            attempts += 1;
            match next(Queue::Privacy, attempts, now, Some(deadline), 1.0) {
                Next::RetryAt(run_at) => {
                    assert!(run_at > now && run_at < deadline);
                    now = run_at;
                }
                Next::Dead => break now,
            }
        };
        assert_eq!(last, deadline.minus(LAST_TRY));
        assert!(attempts > 100 + 120, "six-hourly, then hourly tries");
    }

    #[test]
    fn in_the_last_five_days_privacy_work_is_tried_every_hour() {
        let deadline = START.plus(Duration::from_hours(30 * 24));
        let pause = |now: Timestamp| match next(Queue::Privacy, 50, now, Some(deadline), 0.5) {
            Next::RetryAt(run_at) => run_at.since(now),
            Next::Dead => Duration::ZERO,
        };
        let hours = |hours| deadline.minus(Duration::from_hours(hours));
        assert_eq!(pause(hours(20 * 24)), Duration::from_hours(6));
        assert_eq!(pause(hours(5 * 24 + 1)), Duration::from_hours(2));
        assert_eq!(pause(hours(5 * 24)), Duration::from_hours(1));
        assert_eq!(pause(hours(2)), Duration::from_hours(1));
        assert_eq!(pause(hours(1)), Duration::from_mins(50));
    }
}
