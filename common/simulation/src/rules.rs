//! The rules that can be made wrong, one at a time, to show that the simulation notices it. Without a wrong rule the
//! model does what the product does.

/// A rule that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    AnswerBeforeCommit,
    NotifyBeforeCommit,
    DedupeOutsideTheTransaction,
    DuplicateBeforeTheFirstIsCommitted,
    UnsortedBatch,
    AckBeforeCommit,
    JobThatEndsTwice,
    NoSavepoint,
    NoIsolation,
    AttemptCountedInItsRun,
    ReturnedMessageIgnored,
    SweepOff,
    SweepWithoutWhatWasLost,
    LeaseThatNeverEnds,
    LeaseTooShort,
    AnswerWithoutFencing,
    FailureWithoutFencing,
    RefundWithoutKey,
    KeyOfEachTry,
    SameKeyAfterAKeptFailure,
    EventCursorById,
    PublishedBeforeTheConfirm,
    EventsOfAnObjectTogether,
    WaveWithoutCursor,
    WaitingEventsOvertaken,
    DueOnlyByTheOwnClock,
}

impl Wrong {
    pub const ALL: [Wrong; 26] = [
        Wrong::AnswerBeforeCommit,
        Wrong::NotifyBeforeCommit,
        Wrong::DedupeOutsideTheTransaction,
        Wrong::DuplicateBeforeTheFirstIsCommitted,
        Wrong::UnsortedBatch,
        Wrong::AckBeforeCommit,
        Wrong::JobThatEndsTwice,
        Wrong::NoSavepoint,
        Wrong::NoIsolation,
        Wrong::AttemptCountedInItsRun,
        Wrong::ReturnedMessageIgnored,
        Wrong::SweepOff,
        Wrong::SweepWithoutWhatWasLost,
        Wrong::LeaseThatNeverEnds,
        Wrong::LeaseTooShort,
        Wrong::AnswerWithoutFencing,
        Wrong::FailureWithoutFencing,
        Wrong::RefundWithoutKey,
        Wrong::KeyOfEachTry,
        Wrong::SameKeyAfterAKeptFailure,
        Wrong::EventCursorById,
        Wrong::PublishedBeforeTheConfirm,
        Wrong::EventsOfAnObjectTogether,
        Wrong::WaveWithoutCursor,
        Wrong::WaitingEventsOvertaken,
        Wrong::DueOnlyByTheOwnClock,
    ];

    /// The name in the table of seeds and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::AnswerBeforeCommit => "answer-before-commit",
            Wrong::NotifyBeforeCommit => "notify-before-commit",
            Wrong::DedupeOutsideTheTransaction => "dedupe-outside-the-transaction",
            Wrong::DuplicateBeforeTheFirstIsCommitted => "duplicate-before-the-first-is-committed",
            Wrong::UnsortedBatch => "unsorted-batch",
            Wrong::AckBeforeCommit => "ack-before-commit",
            Wrong::JobThatEndsTwice => "a-job-that-ends-twice",
            Wrong::NoSavepoint => "no-savepoint",
            Wrong::NoIsolation => "no-isolation",
            Wrong::AttemptCountedInItsRun => "attempt-counted-in-its-run",
            Wrong::ReturnedMessageIgnored => "returned-message-ignored",
            Wrong::SweepOff => "sweep-off",
            Wrong::SweepWithoutWhatWasLost => "sweep-without-what-was-lost",
            Wrong::LeaseThatNeverEnds => "lease-that-never-ends",
            Wrong::LeaseTooShort => "lease-too-short",
            Wrong::AnswerWithoutFencing => "answer-without-fencing",
            Wrong::FailureWithoutFencing => "failure-without-fencing",
            Wrong::RefundWithoutKey => "refund-without-key",
            Wrong::KeyOfEachTry => "key-of-each-try",
            Wrong::SameKeyAfterAKeptFailure => "same-key-after-a-kept-failure",
            Wrong::EventCursorById => "event-cursor-by-id",
            Wrong::PublishedBeforeTheConfirm => "published-before-the-confirm",
            Wrong::EventsOfAnObjectTogether => "events-of-an-object-together",
            Wrong::WaveWithoutCursor => "wave-without-cursor",
            Wrong::WaitingEventsOvertaken => "waiting-events-overtaken",
            Wrong::DueOnlyByTheOwnClock => "due-only-by-the-own-clock",
        }
    }

    pub fn named(name: &str) -> Option<Wrong> {
        Wrong::ALL.into_iter().find(|wrong| wrong.name() == name)
    }
}

/// All rules, of which at most one is wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules(pub Option<Wrong>);

impl Rules {
    pub fn is(self, wrong: Wrong) -> bool {
        self.0 == Some(wrong)
    }

    pub fn is_not(self, wrong: Wrong) -> bool {
        !self.is(wrong)
    }
}
