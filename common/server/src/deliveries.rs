//! Deliveries as they arrive and what becomes of each, for people who watch: `waybill listen`,
//! `waybill connect`, the terminal of `waybill`, `GET /api/deliveries/stream`, and the console.
//!
//! All is read from the database, so it makes no difference which process took a delivery, and intake
//! does nothing for those who watch. A look reads the ids of the newest jobs by the primary key. It
//! remembers the ids that it has seen, because ids are made when a request begins and become visible
//! when its batch is committed, which need not be in the same sequence. What is read is bounded, however
//! much arrives: who watches a flood is told that deliveries were passed over. Nothing is said of bodies,
//! customers and errors.

mod filter;
mod live;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use domain::job::{JobId, Kind, State};
use domain::time::Timestamp;
use platform::clock::Clock;
use serde::{Deserialize, Serialize};
use store::events::{first_id, time_of};
use store::jobs::arrived::{self, Arrived};
use store::refused_deliveries::{self, Refused, hour};
use store::sql::{self, Db};
use tokio::time::Instant;
use uuid::Uuid;

pub use filter::fits;
pub use live::{Listener, Live};

/// The pause between two looks at the database.
pub const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a line waits for the end of its delivery, before it says that the delivery waits.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The longest time between the time in a delivery's id and the commit that makes it visible. It takes
/// at most the deadlines of a body and of a batch, twelve seconds; the rest is for clocks that differ.
const LATE: Duration = Duration::from_secs(30);
/// How many ids a look reads, and how many new deliveries it shows.
const WINDOW: usize = 2000;
const MOST_SHOWN: usize = 500;
/// How many deliveries that have not ended are looked at again.
const MOST_OPEN: usize = 1000;
/// Both while more arrive than can be shown. Nobody reads faster, and the processor is needed for the intake.
const MOST_OF_A_FLOOD: usize = 100;
/// Deliveries that were shown as waiting, and what was refused, are looked at in one of so many looks.
/// What was refused is written every other second.
const SELDOM: u32 = 5;
const AN_HOUR: Duration = Duration::from_hours(1);

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its effects are committed.
    Done,
    /// It was accepted, and nothing can be made of its body.
    NotUnderstood,
    /// It was accepted, and nothing is done with its topic or type.
    Kept,
    /// It was accepted, and no worker has run it yet.
    Waiting,
    /// A worker has failed with it and will try again.
    Retrying,
    /// It was given up.
    Dead,
    /// An operator has discarded it.
    Discarded,
    /// It was not accepted.
    Refused,
}

/// What is shown of a delivery, or of several that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// None of deliveries that were refused.
    pub job: Option<JobId>,
    /// `storefront` or `payment`.
    pub source: String,
    pub topic: Option<String>,
    pub shop: Option<String>,
    /// The connection by which it came; absent for the one that the settings make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The order's, the payment's, ..
    pub object_id: Option<String>,
    pub delivery_id: Option<String>,
    /// The HTTP status of the answer to the provider.
    pub status: i64,
    pub outcome: Outcome,
    /// How often it was tried in vain.
    pub attempts: i64,
    /// How many were refused; else 1.
    pub deliveries: i64,
    pub received_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The time from its arrival to its end.
    pub milliseconds: Option<i64>,
    /// Why it was refused, as the metrics and `waybill refused` call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is wrong with its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// It has the signature's header of this other profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The setting that would have taken it, or what else to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// What a look has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Line(Box<Line>),
    /// At least so many more deliveries arrived, which are not shown.
    PassedOver(u64),
}

impl Message {
    pub fn of(line: Line) -> Self {
        Message::Line(Box::new(line))
    }
}

impl Line {
    /// A delivery as it is now.
    pub fn now(delivery: &Arrived) -> Self {
        Line::of(delivery, end(delivery).unwrap_or_else(|| open(delivery)))
    }

    /// Whether nothing further becomes of it by itself.
    pub fn is_ended(&self) -> bool {
        !matches!(self.outcome, Outcome::Waiting | Outcome::Retrying)
    }

    fn of(delivery: &Arrived, outcome: Outcome) -> Self {
        let took = delivery
            .finished_at
            .map(|at| at.since(delivery.created_at).as_millis());
        Line {
            job: Some(delivery.id),
            source: delivery.source.into_str().to_owned(),
            topic: Some(delivery.kind.clone()),
            shop: delivery.shop.clone(),
            connection: delivery.connection.clone(),
            object_id: delivery.object_id.clone(),
            delivery_id: delivery.external_id.clone(),
            status: 200,
            outcome,
            attempts: delivery.attempts,
            deliveries: 1,
            received_at: delivery.created_at,
            finished_at: delivery.finished_at,
            milliseconds: took.and_then(|took| i64::try_from(took).ok()),
            reason: None,
            signature: None,
            header: None,
            advice: None,
        }
    }

    fn refused(row: &Refused, deliveries: i64) -> Self {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Line {
            job: None,
            source: row.source.clone(),
            topic: row.topic.clone(),
            shop: row.shop.clone(),
            connection: given(&row.connection),
            object_id: None,
            delivery_id: None,
            status: row.status,
            outcome: Outcome::Refused,
            attempts: 0,
            deliveries,
            received_at: row.last_at,
            finished_at: None,
            milliseconds: None,
            reason: given(&row.reason),
            signature: given(&row.signature),
            header: given(&row.header),
            advice: given(&row.advice),
        }
    }
}

/// How a delivery has ended; `None` if it has not.
fn end(delivery: &Arrived) -> Option<Outcome> {
    let is_handled = Kind::of(delivery.source, &delivery.kind).is_some();
    match delivery.state {
        State::Ready => None,
        State::Dead => Some(Outcome::Dead),
        State::Done if delivery.is_discarded => Some(Outcome::Discarded),
        State::Done if delivery.is_noted => Some(Outcome::NotUnderstood),
        State::Done if !is_handled => Some(Outcome::Kept),
        State::Done => Some(Outcome::Done),
    }
}

/// What is said of a delivery that has not ended.
fn open(delivery: &Arrived) -> Outcome {
    if delivery.attempts > 0 {
        Outcome::Retrying
    } else {
        Outcome::Waiting
    }
}

/// Somebody who looks at what has arrived since the last look.
pub struct Follower {
    db: Db,
    clock: Clock,
    patience: Duration,
    looks: u32,
    /// Jobs with an id up to here are not looked at any more.
    floor: JobId,
    /// The others that there were at the last look.
    seen: HashSet<JobId>,
    /// Deliveries that have not ended.
    open: BTreeMap<JobId, Open>,
    /// How many were refused, by hour and reason.
    refused: HashMap<Reason, i64>,
}

struct Open {
    since: Instant,
    attempts: i64,
    /// A line has said that it waits.
    is_shown: bool,
}

/// The key of a row of `refused_deliveries`.
#[derive(PartialEq, Eq, Hash)]
struct Reason {
    hour: i64,
    words: [String; 6],
}

impl Reason {
    fn of(row: &Refused) -> Self {
        let words = [
            &row.source,
            &row.profile,
            &row.reason,
            &row.signature,
            &row.header,
            &row.advice,
        ];
        Reason {
            hour: hour(row.last_at),
            words: words.map(Clone::clone),
        }
    }
}

impl Follower {
    /// Shows what arrives from now on. A delivery that does not end within `patience` gets a line that
    /// says so, and another one when it has ended.
    pub async fn begin(db: &Db, clock: &Clock, patience: Duration) -> sql::Result<Self> {
        let mut follower = Follower {
            db: db.clone(),
            clock: clock.clone(),
            patience,
            looks: 0,
            floor: Uuid::nil(),
            seen: HashSet::new(),
            open: BTreeMap::new(),
            refused: HashMap::new(),
        };
        let newest = arrived::latest(db, Uuid::nil(), 1).await?;
        follower.raise_floor(&newest);
        let there = arrived::latest(db, follower.floor, WINDOW).await?;
        follower.see(there);
        let refused = follower.refused_lately().await?;
        follower.count(&refused);
        Ok(follower)
    }

    /// What has arrived or ended since the last look. After an error nothing is lost: the next look
    /// finds it.
    pub async fn look(&mut self) -> sql::Result<Vec<Message>> {
        let latest = arrived::latest(&self.db, self.floor, WINDOW).await?;
        let new: Vec<JobId> = latest
            .iter()
            .filter(|id| !self.seen.contains(*id))
            .copied()
            .collect();
        // More may have come in between than the look has read.
        let is_cut = latest.len() == WINDOW && new.len() == WINDOW;
        let (most_shown, most_open) = if new.len() > MOST_SHOWN {
            (MOST_OF_A_FLOOD, MOST_OF_A_FLOOD)
        } else {
            (MOST_SHOWN, MOST_OPEN)
        };
        let shown = &new[..new.len().min(most_shown)];
        let mut passed_over = (new.len() - shown.len()) as u64;
        if is_cut {
            passed_over = passed_over.max(1);
        }
        let is_seldom = self.looks.is_multiple_of(SELDOM);
        let open = self.open.iter().rev().take(most_open);
        let mut asked: Vec<JobId> = open
            .filter(|(_, open)| is_seldom || !open.is_shown)
            .map(|(id, _)| *id)
            .collect();
        asked.extend(shown);
        let found = arrived::of(&self.db, &asked).await?;
        let refused = if is_seldom {
            self.refused_lately().await?
        } else {
            Vec::new()
        };
        // From here on nothing fails.
        self.looks = self.looks.wrapping_add(1);
        self.see(latest);
        let known: HashSet<JobId> = found.iter().map(|delivery| delivery.id).collect();
        // Work of our own, and what was deleted.
        for id in asked.iter().filter(|id| !known.contains(*id)) {
            self.open.remove(id);
        }
        let mut messages: Vec<Message> = Vec::new();
        if passed_over > 0 {
            messages.push(Message::PassedOver(passed_over));
        }
        let lines = found.iter().filter_map(|delivery| self.line(delivery));
        messages.extend(lines.map(Message::of));
        if is_seldom {
            messages.extend(self.count(&refused).into_iter().map(Message::of));
        }
        while self.open.len() > most_open {
            self.open.pop_first();
        }
        Ok(messages)
    }

    /// Says what becomes of a delivery that had not ended when somebody was shown it.
    pub fn follow(&mut self, delivery: JobId, attempts: i64) {
        self.open.entry(delivery).or_insert_with(|| Open {
            since: Instant::now(),
            attempts,
            is_shown: true,
        });
    }

    /// Remembers the jobs of a look, newest first, as seen.
    fn see(&mut self, latest: Vec<JobId>) {
        self.raise_floor(&latest);
        if latest.len() == WINDOW
            && let Some(oldest) = latest.last()
        {
            self.floor = self.floor.max(*oldest);
        }
        self.seen = latest.into_iter().collect();
    }

    /// What is older than any request that can still become visible is not looked at any more. The newest
    /// id counts where our own clock is ahead of it.
    fn raise_floor(&mut self, latest: &[JobId]) {
        if let Some(newest) = latest.first() {
            let by = self.clock.now().min(time_of(*newest));
            self.floor = self.floor.max(first_id(by.minus(LATE)));
        }
    }

    /// The line about a delivery, when there is something new to say.
    fn line(&mut self, delivery: &Arrived) -> Option<Line> {
        if let Some(end) = end(delivery) {
            self.open.remove(&delivery.id);
            return Some(Line::of(delivery, end));
        }
        let open = self.open.entry(delivery.id).or_insert_with(|| Open {
            since: Instant::now(),
            attempts: 0,
            is_shown: false,
        });
        let has_failed = delivery.attempts > open.attempts;
        // An operator can requeue it with all of its tries.
        open.attempts = delivery.attempts;
        let is_late = !open.is_shown && open.since.elapsed() >= self.patience;
        if !has_failed && !is_late {
            return None;
        }
        open.is_shown = true;
        Some(Line::of(delivery, self::open(delivery)))
    }

    /// What was refused in this hour and the one before.
    async fn refused_lately(&self) -> sql::Result<Vec<Refused>> {
        let since = self.clock.now().minus(AN_HOUR);
        refused_deliveries::of_hour(&self.db, since).await
    }

    /// Counts what was refused; a line for each reason for which more were than before.
    fn count(&mut self, rows: &[Refused]) -> Vec<Line> {
        let mut counted = HashMap::new();
        let mut lines = Vec::new();
        for row in rows {
            let reason = Reason::of(row);
            let before = self.refused.get(&reason).copied().unwrap_or_default();
            if row.deliveries > before {
                lines.push(Line::refused(row, row.deliveries - before));
            }
            counted.insert(reason, row.deliveries);
        }
        self.refused = counted;
        lines
    }
}
