//! The only place that reads the clock or makes random ids.
//!
//! Everything that depends on time takes a [`Clock`], so that a test can set and move it. Nothing
//! else in the workspace may call `SystemTime::now`. Pauses that are part of the program's
//! behaviour use [`Clock::sleep`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use uuid::Uuid;

use domain::time::Timestamp;

use crate::lock::lock;

/// The system's clock, or one that a test moves by hand. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    manual: Option<Arc<Manual>>,
    #[cfg(debug_assertions)]
    paused: Option<Arc<Paused>>,
}

/// A clock that goes with the paused time of a test's runtime, and makes the same ids each time.
#[cfg(debug_assertions)]
#[derive(Debug)]
struct Paused {
    start: Timestamp,
    begun: tokio::time::Instant,
    /// By how many milliseconds it is wrong.
    ahead: AtomicI64,
    chance: Arc<AtomicU64>,
}

#[cfg(debug_assertions)]
impl Paused {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::SeqCst);
        let now = self.start.plus(self.begun.elapsed());
        Timestamp(now.0 + ahead)
    }

    /// The next number of a sequence that depends on the seed alone (`SplitMix64`).
    fn chance(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = self.chance.fetch_add(STEP, Ordering::SeqCst);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn id_at(&self, at: Timestamp) -> Uuid {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.chance().to_le_bytes());
        let millis = u64::try_from(at.0).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
struct Manual {
    millis: AtomicI64,
    /// By how much [`Clock::elapsed`] is ahead, and by how much more with each look at it.
    ahead: AtomicU64,
    each_look: AtomicU64,
    /// When those who sleep by this clock wake, the earliest first.
    wakes: Mutex<BTreeMap<(Timestamp, u64), oneshot::Sender<()>>>,
    sleeps: AtomicU64,
}

impl Manual {
    fn now(&self) -> Timestamp {
        Timestamp(self.millis.load(Ordering::SeqCst))
    }

    fn look(&self) -> Duration {
        let more = self.each_look.load(Ordering::SeqCst);
        Duration::from_millis(self.ahead.fetch_add(more, Ordering::SeqCst))
    }

    /// Wakes everyone who sleeps until this instant or an earlier one.
    fn wake(&self) {
        let mut wakes = lock(&self.wakes);
        while let Some(first) = wakes.first_entry()
            && first.key().0 <= self.now()
        {
            // A receiver that was dropped has given up sleeping.
            let _ = first.remove().send(());
        }
    }

    async fn sleep(&self, until: Timestamp) {
        let (waker, woken) = oneshot::channel();
        let nth = self.sleeps.fetch_add(1, Ordering::SeqCst);
        lock(&self.wakes).insert((until, nth), waker);
        // The clock may have been moved in between.
        self.wake();
        let _ = woken.await;
    }
}

impl Clock {
    pub fn system() -> Self {
        Clock::default()
    }

    /// A clock that stands at `start`, and goes on with the time of the test's runtime. What it makes up depends on
    /// the seed alone.
    #[cfg(debug_assertions)]
    pub fn paused(start: Timestamp, seed: u64) -> Self {
        let paused = Paused {
            start,
            begun: tokio::time::Instant::now(),
            ahead: AtomicI64::new(0),
            chance: Arc::new(AtomicU64::new(seed)),
        };
        Clock {
            paused: Some(Arc::new(paused)),
            ..Clock::default()
        }
    }

    /// The clock of another host, which is wrong by so many milliseconds. It never makes the ids of this one.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn elsewhere(&self, ahead: i64) -> Self {
        let paused = self.paused.as_ref().map(|here| Paused {
            start: here.start,
            begun: here.begun,
            ahead: AtomicI64::new(ahead),
            chance: here.chance.clone(),
        });
        Clock {
            paused: paused.map(Arc::new),
            ..Clock::default()
        }
    }

    /// From now on the clock of [`Clock::elsewhere`] is wrong by so many milliseconds.
    #[cfg(debug_assertions)]
    pub fn set_ahead(&self, ahead: i64) {
        if let Some(paused) = &self.paused {
            paused.ahead.store(ahead, Ordering::SeqCst);
        }
    }

    /// A clock that stands at `start` until it is moved.
    pub fn manual(start: Timestamp) -> Self {
        let manual = Manual {
            millis: AtomicI64::new(start.0),
            ..Manual::default()
        };
        Clock {
            manual: Some(Arc::new(manual)),
            ..Clock::default()
        }
    }

    pub fn now(&self) -> Timestamp {
        #[cfg(debug_assertions)]
        if let Some(paused) = &self.paused {
            return paused.now();
        }
        match &self.manual {
            Some(manual) => manual.now(),
            None => system_now(),
        }
    }

    /// The time since some fixed moment. Unlike [`Clock::now`] it never jumps when the system's
    /// time is set, so limits are counted with it.
    pub fn elapsed(&self) -> Duration {
        #[cfg(debug_assertions)]
        if let Some(paused) = &self.paused {
            return paused.begun.elapsed();
        }
        match &self.manual {
            Some(manual) => self.now().since(Timestamp(0)) + manual.look(),
            None => system_elapsed(),
        }
    }

    /// Moves a manual clock forward. The system's clock does not change.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.manual {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            manual.millis.fetch_add(by, Ordering::SeqCst);
            manual.wake();
        }
    }

    /// From now on whoever measures by a manual clock how long something takes finds that much time
    /// between two looks at [`Clock::elapsed`], while [`Clock::now`] stands still. The system's clock does
    /// not change.
    pub fn pass_with_each_look(&self, time: Duration) {
        if let Some(manual) = &self.manual {
            let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            manual.each_look.store(millis, Ordering::SeqCst);
        }
    }

    /// Waits for a time by this clock. With a manual clock, that is until the clock was moved
    /// that far.
    ///
    /// It is for pauses that are part of the program's behaviour, such as the one before a call
    /// is tried again. The deadline of a socket or a database is real time, whatever the clock
    /// says.
    pub async fn sleep(&self, duration: Duration) {
        match &self.manual {
            Some(manual) => manual.sleep(manual.now().plus(duration)).await,
            None => tokio::time::sleep(duration).await,
        }
    }

    /// How long until the next sleeper of a manual clock wakes. `None` when nobody sleeps, and
    /// for the system's clock.
    pub fn until_next_wake(&self) -> Option<Duration> {
        let manual = self.manual.as_ref()?;
        let mut wakes = lock(&manual.wakes);
        wakes.retain(|_, waker| !waker.is_closed());
        let ((at, _), _) = wakes.first_key_value()?;
        Some(at.since(manual.now()))
    }

    /// A new UUID version 7 (RFC 9562). Ids that are made later sort after earlier ones.
    pub fn id(&self) -> Uuid {
        self.id_at(self.now())
    }

    /// A new UUID version 7 with the given time.
    pub fn id_at(&self, at: Timestamp) -> Uuid {
        #[cfg(debug_assertions)]
        if let Some(paused) = &self.paused {
            return paused.id_at(at);
        }
        let seconds = u64::try_from(at.unix_seconds()).unwrap_or(0);
        let nanos = u32::try_from(at.0.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
        Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanos))
    }

    /// A new API key: `wb_` and 32 bytes from the system's random source, in hex.
    pub fn api_key(&self) -> String {
        format!("wb_{}", hex::encode(self.secret()))
    }

    /// 32 bytes from the system's random source.
    pub fn secret(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system has a random source");
        bytes
    }

    /// The real time, to the nanosecond, even where a test has set the clock: for spans, whose reader
    /// compares them with those of other systems.
    #[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
    pub fn real() -> SystemTime {
        SystemTime::now()
    }

    /// A random id for a span.
    pub fn span_id() -> u64 {
        getrandom::u64().unwrap_or(1).max(1)
    }

    /// A number in `0.0..1.0` that spreads retries; always 0.5 on a manual clock.
    pub fn jitter(&self) -> f64 {
        if self.manual.is_some() {
            return 0.5;
        }
        #[cfg(debug_assertions)]
        if let Some(paused) = &self.paused {
            return f64::from(u16::try_from(paused.chance() >> 48).unwrap_or(0)) / 65_536.0;
        }
        f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
fn system_elapsed() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
fn system_now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
