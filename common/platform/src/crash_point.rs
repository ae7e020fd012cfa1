//! Points at which a debug build ends as if it had been killed, when a test asks for it.
//!
//! There are two kinds. Every transaction has three, with no word in its code: after its first write, before
//! its commit, and after it. Such a point is named by its [`Moment`] and the file and line at which the
//! transaction begins. What happens outside of transactions, such as a message to the bus, an
//! acknowledgement or a call, has points of its own in the table [`POINTS`].
//!
//! `WAYBILL_CRASH_AT` names one of them, `called` or `commit@workers/src/run.rs:133`, and
//! `WAYBILL_CRASH_NTH` says which time it is reached. The process then aborts: nothing is unwound,
//! flushed or said to anyone. A release build has none of this, neither code nor names.
//!
//! A test that runs everything in one thread may have a [`Director`] instead. It is asked at each of these points,
//! before each transaction, before the call of a job, and when the work of a job is done. It lets the one who came
//! there go on, wait, fail, or never go on.

/// Makes [`Point`], and of the same rows the table that tests and documents read.
macro_rules! points {
    ($($point:ident $name:literal $meaning:literal)*) => {
        /// A point outside of the transactions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($point),*
        }

        /// Each point, its name, and what was done when it is reached.
        #[cfg(debug_assertions)]
        pub const POINTS: &[(Point, &str, &str)] = &[$((Point::$point, $name, $meaning)),*];
    };
}

points! {
    Answer "answer" "A delivery is stored or known, and is not answered."
    IntakeNotify "intake-notify" "Deliveries are stored and answered, and no worker is notified."
    IntakeNotified "intake-notified" "The bus has taken the message about new deliveries."
    SweepNotify "sweep-notify" "The sweep has marked jobs as notified, and sends their message."
    SweepNotified "sweep-notified" "The bus has taken a message of the sweep."
    FollowUpNotify "follow-up-notify" "A job has made further jobs, and no worker is notified of them."
    FollowUpNotified "follow-up-notified" "The bus has taken the message about further jobs."
    Ack "ack" "All jobs of a message are ended or claimed, and it is not acknowledged."
    Acked "acked" "A message is acknowledged."
    DeadLetter "dead-letter" "A job is dead, and the broker does not show it."
    DeadLettered "dead-lettered" "The broker shows a dead job."
    Call "call" "A call is claimed, and not made."
    Called "called" "A call is made, and its answer is not recorded."
    Publish "publish" "Events are committed, and not sent to the broker."
    Published "published" "The broker has confirmed events, and the cursor has not passed them."
    WebhookSend "webhook-send" "An event has its turn at an endpoint, and is not sent."
    WebhookSent "webhook-sent" "An endpoint has answered, and its cursor is not moved."
    ExportWrite "export-write" "An export is announced, and no file is written."
    ExportWritten "export-written" "The files of an export are written, and it is not recorded."
    ExportRemove "export-remove" "An export has ended, and its files are there."
    ExportRemoved "export-removed" "The files of an export are gone, and that is not noted."
    JournalWrite "journal-write" "An erasure has its number in the journal, and no entry there."
    JournalWritten "journal-written" "The journal has the entry of an erasure, and the database does not know it."
    CodeGiven "code-given" "The identity provider has given a device code, and it is not stored."
    TokenAsk "token-ask" "A poll has its turn, and the identity provider is not asked."
    TokenGiven "token-given" "The identity provider has given a token, and it is not stored."
    CheckoutAsk "checkout-ask" "A checkout is stored, and the payment provider is not asked for its page."
    CheckoutAsked "checkout-asked" "The payment provider has made a page, and it is not stored."
    Migrate "migrate" "A database is about to be migrated."
    Migrated "migrated" "A database is migrated, and nothing is served."
    AttentionNotify "attention-notify" "Operators are to be notified of a condition, and the mail is not sent."
    AttentionNotified "attention-notified" "Operators are notified of a condition, and that is not noted."
    ReconcileAsked "reconcile-asked" "A provider has said what changed, and nothing of it is stored."
    ReconcileStored "reconcile-stored" "What never came is stored, with how far the provider was compared."
}

/// A moment of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the first statement that writes.
    Write,
    Commit,
    Committed,
}

#[cfg(debug_assertions)]
impl Moment {
    pub const ALL: [Self; 3] = [Self::Write, Self::Commit, Self::Committed];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Commit => "commit",
            Self::Committed => "committed",
        }
    }
}

#[cfg(debug_assertions)]
pub use armed::{
    Director, Reached, Step, Task, Transaction, call, director, put_director, reach, work,
};
#[cfg(not(debug_assertions))]
pub use unarmed::{Transaction, call, reach, work};

#[cfg(debug_assertions)]
mod armed {
    use std::cell::RefCell;
    use std::io;
    use std::panic::Location;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, LazyLock};

    use super::{Moment, POINTS, Point};

    /// The point at which this process ends.
    struct Chosen {
        name: String,
        /// Where the transaction of this moment begins.
        place: Option<String>,
        /// How many times it is still passed.
        left: AtomicU64,
    }

    static CHOSEN: LazyLock<Option<Chosen>> = LazyLock::new(|| {
        let given = environment("WAYBILL_CRASH_AT")?;
        let (name, place) = match given.split_once('@') {
            Some((name, place)) => (name, Some(place)),
            None => (&*given, None),
        };
        let nth = environment("WAYBILL_CRASH_NTH").and_then(|nth| nth.parse().ok());
        Some(Chosen {
            name: name.to_owned(),
            place: place.map(ToOwned::to_owned),
            left: AtomicU64::new(nth.unwrap_or(1)),
        })
    });

    #[expect(
        clippy::disallowed_methods,
        reason = "no setting: it is for tests of debug builds, and chooses where a process ends"
    )]
    fn environment(name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    impl Chosen {
        fn pass(&self) {
            if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                std::process::abort();
            }
        }
    }

    /// What somebody has reached.
    #[derive(Clone, Copy, Debug)]
    pub enum Reached {
        Point(Point),
        /// A transaction is about to begin, by the code at this place.
        Begin(&'static Location<'static>),
        Moment(Moment, &'static Location<'static>),
        /// The call of the job with this id is about to be made, by the one who has this fencing token.
        Call(u128, i64),
        /// The work of the job with this id is done, and nothing of it is committed.
        Work(u128),
    }

    /// Whoever has reached something goes on when this ends, and fails with its error.
    pub type Step = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;
    pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A test that decides who goes on.
    pub trait Director: Send + Sync {
        fn reach(&self, reached: Reached) -> Step;
        /// A task is about to begin. What is returned runs in its place.
        fn adopt(&self, name: &'static str, task: Task) -> Task;
    }

    thread_local! {
        static DIRECTOR: RefCell<Option<Arc<dyn Director>>> = const { RefCell::new(None) };
    }

    /// From now on, whatever runs in this thread is directed.
    pub fn put_director(director: Option<Arc<dyn Director>>) {
        DIRECTOR.set(director);
    }

    pub fn director() -> Option<Arc<dyn Director>> {
        DIRECTOR.with_borrow(Clone::clone)
    }

    async fn directed(reached: Reached) -> io::Result<()> {
        let step = director().map(|it| it.reach(reached));
        match step {
            Some(step) => step.await,
            None => Ok(()),
        }
    }

    /// Ends the process here if this point was chosen.
    pub async fn reach(point: Point) {
        let _ = directed(Reached::Point(point)).await;
        let Some(chosen) = &*CHOSEN else { return };
        let is_chosen = |(it, name, _): &(Point, &str, &str)| *it == point && *name == chosen.name;
        if chosen.place.is_none() && POINTS.iter().any(is_chosen) {
            chosen.pass();
        }
    }

    /// To be called before the call of this job is made. An error fails the job.
    pub async fn call(job: u128, claim: i64) -> io::Result<()> {
        directed(Reached::Call(job, claim)).await
    }

    /// To be called when the work of this job is done, before it is committed. An error fails the job.
    pub async fn work(job: u128) -> io::Result<()> {
        directed(Reached::Work(job)).await
    }

    /// The points of one transaction.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Transaction {
        place: Option<&'static Location<'static>>,
        has_written: bool,
    }

    impl Transaction {
        /// The moment at which a transaction begins in the caller's caller.
        #[track_caller]
        pub fn begun_here() -> Self {
            Transaction {
                place: Some(Location::caller()),
                has_written: false,
            }
        }

        /// Before the transaction begins.
        pub async fn begins(self) -> io::Result<()> {
            match self.place {
                Some(place) => directed(Reached::Begin(place)).await,
                None => Ok(()),
            }
        }

        /// After a statement. Those that only read are not counted.
        pub async fn ran(&mut self, sql: &str) -> io::Result<()> {
            if self.has_written || sql.trim_start().starts_with("select") {
                return Ok(());
            }
            self.has_written = true;
            self.reach(Moment::Write).await
        }

        /// An error means that the connection is lost.
        pub async fn reach(self, moment: Moment) -> io::Result<()> {
            let Some(place) = self.place else {
                return Ok(());
            };
            directed(Reached::Moment(moment, place)).await?;
            let Some(chosen) = &*CHOSEN else {
                return Ok(());
            };
            let is_here = |it: &String| *it == format!("{}:{}", place.file(), place.line());
            if chosen.name == moment.name() && chosen.place.as_ref().is_some_and(is_here) {
                chosen.pass();
            }
            Ok(())
        }
    }
}

#[cfg(not(debug_assertions))]
mod unarmed {
    use std::future::{Ready, ready};
    use std::io;

    use super::{Moment, Point};

    #[inline]
    pub fn reach(_: Point) -> Ready<()> {
        ready(())
    }

    #[inline]
    pub fn call(_: u128, _: i64) -> Ready<io::Result<()>> {
        ready(Ok(()))
    }

    #[inline]
    pub fn work(_: u128) -> Ready<io::Result<()>> {
        ready(Ok(()))
    }

    #[derive(Clone, Copy, Debug, Default)]
    pub struct Transaction;

    impl Transaction {
        #[inline]
        pub const fn begun_here() -> Self {
            Transaction
        }

        #[inline]
        pub fn begins(self) -> Ready<io::Result<()>> {
            ready(Ok(()))
        }

        #[inline]
        pub fn ran(&mut self, _: &str) -> Ready<io::Result<()>> {
            ready(Ok(()))
        }

        #[inline]
        pub fn reach(self, _: Moment) -> Ready<io::Result<()>> {
            ready(Ok(()))
        }
    }
}
