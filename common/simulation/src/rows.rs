//! The rows of the tables, with the columns on which the pipeline's rules depend. Ids are the places of rows in their
//! table, and grow as the real ids do.

use domain::job::{Queue, State};
use domain::time::Timestamp;

/// The three kinds of jobs: a delivery, and the calls that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A delivery about an order.
    Delivery,
    /// The call that refunds an order's payment (`refunds/issue`).
    Refund,
    /// The call that sends an event to an endpoint again (`endpoints/send`).
    Webhook,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Delivery, Kind::Refund, Kind::Webhook];

    /// The queue whose retries the job has. The simulated broker has one queue for all kinds.
    pub fn queue(self) -> Queue {
        match self {
            Kind::Delivery => Queue::Orders,
            Kind::Refund => Queue::Payments,
            Kind::Webhook => Queue::Endpoints,
        }
    }

    /// `Kind::is_call`.
    pub fn is_call(self) -> bool {
        match self {
            Kind::Delivery => false,
            Kind::Refund | Kind::Webhook => true,
        }
    }
}

/// `jobs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub kind: Kind,
    /// The number of the delivery, which stands for its `external_id`.
    pub delivery: Option<usize>,
    pub order: usize,
    /// The event that a job of [`Kind::Webhook`] sends.
    pub event: usize,
    pub state: State,
    pub run_at: Timestamp,
    pub created_at: Timestamp,
    pub notified_at: Option<Timestamp>,
    pub deadline_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub attempts: i64,
    pub unfinished_attempts: i64,
    /// 0 where the column is null.
    pub claims: i64,
}

impl Job {
    /// A job that is due at once.
    pub fn new(kind: Kind, order: usize, now: Timestamp) -> Self {
        Job {
            kind,
            delivery: None,
            order,
            event: 0,
            state: State::Ready,
            run_at: now,
            created_at: now,
            notified_at: None,
            deadline_at: None,
            finished_at: None,
            attempts: 0,
            unfinished_attempts: 0,
            claims: 0,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// The condition `(run_at <= $1 or run_at = created_at)`.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.run_at <= now || self.run_at == self.created_at
    }
}

/// `webhook_ids`, by the number of the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub job: usize,
    pub expires_at: Timestamp,
}

/// The row of an order: the time of its newest event, and how many events it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub events_at: i64,
    pub events: u32,
}

/// The rows that a delivery writes about its order, apart from the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    pub job: usize,
}

/// `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time in the event's id; ids of the same time sort by their keys.
    pub id_at: Timestamp,
    /// From which job it follows.
    pub job: usize,
    pub order: usize,
    /// It is the order's first, second, .. event.
    pub number: u32,
    pub position: Option<i64>,
}

/// `event_head` and `broker_cursor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub position: i64,
}

/// `store::refunds::State`, without the states to which nobody comes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundState {
    Requested,
    Issued,
    Failed,
}

impl RefundState {
    pub fn as_str(self) -> &'static str {
        match self {
            RefundState::Requested => "requested",
            RefundState::Issued => "issued",
            RefundState::Failed => "failed",
        }
    }
}

/// `refunds`, by the number of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refund {
    pub state: RefundState,
    pub tried_at: Option<Timestamp>,
    pub key_number: Option<i64>,
}

/// `leases`, by the number of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub holder: u32,
    pub expires_at: Timestamp,
}

/// The names of the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseName {
    Sweep,
    Events,
    Webhooks,
}

/// `endpoints`: the one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub position: i64,
}

/// `outgoing_webhooks`, by the number of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub position: i64,
    pub order: usize,
    pub job: usize,
}
