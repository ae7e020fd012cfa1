//! The order of one object's events.

use crate::time::Timestamp;

/// How many events a message can write of one object, and more: the times that its row sets
/// aside for them.
const RESERVED: i64 = 31;

/// The time in the id of the newest event of an object, `events_at` of its row. The time of each
/// further event is later, so the ids of one object's events sort as they happened, whatever the
/// clocks of two hosts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastEvent(Timestamp);

impl LastEvent {
    /// The time for an object that has no such row.
    pub fn none() -> Self {
        LastEvent(Timestamp(0))
    }

    /// The time for a new object, whose events come after its row.
    pub fn before(now: Timestamp) -> Self {
        LastEvent(now)
    }

    pub fn from_millis(millis: i64) -> Self {
        LastEvent(Timestamp(millis))
    }

    pub fn millis(self) -> i64 {
        self.0.0
    }

    /// Moves on to the time of the next event, which happens now, and returns it.
    pub fn next(&mut self, now: Timestamp) -> Timestamp {
        self.0 = Timestamp(now.0.max(self.0.0 + 1));
        self.0
    }

    /// What a row holds that is written before the events of its message are known: no event of
    /// another message can have a time that these may still have.
    #[must_use]
    pub fn reserve(self) -> Self {
        LastEvent(Timestamp(self.0.0 + RESERVED))
    }
}
