//! The only place that reads the clock or makes random ids.
//!
//! Everything that depends on time takes a [`Clock`], so that a test can set it
//! and move it; nothing else in the workspace may call `SystemTime::now`.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

use domain::time::Timestamp;

/// The system's clock, or one that a test moves by hand. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    manual: Option<Arc<AtomicI64>>,
}

impl Clock {
    pub fn system() -> Self {
        Clock { manual: None }
    }

    /// A clock that stands at `start` until it is moved.
    pub fn manual(start: Timestamp) -> Self {
        Clock {
            manual: Some(Arc::new(AtomicI64::new(start.0))),
        }
    }

    pub fn now(&self) -> Timestamp {
        match &self.manual {
            Some(millis) => Timestamp(millis.load(Ordering::SeqCst)),
            None => system_now(),
        }
    }

    /// Time passed since some fixed moment. Unlike [`Clock::now`] it never jumps when the
    /// system's time is set, so limits are counted with it.
    pub fn elapsed(&self) -> Duration {
        match &self.manual {
            Some(_) => self.now().since(Timestamp(0)),
            None => system_elapsed(),
        }
    }

    /// Moves a manual clock on; the system's clock stays as it is.
    pub fn advance(&self, by: Duration) {
        if let Some(millis) = &self.manual {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// A new UUID version 7 (RFC 9562): ids made later sort after earlier ones.
    pub fn id(&self) -> Uuid {
        self.id_at(self.now())
    }

    /// A new UUID version 7 of a given time, for ids that must sort after an earlier one.
    pub fn id_at(&self, at: Timestamp) -> Uuid {
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

    /// A number in `0.0..1.0` that spreads retries; always 0.5 on a manual clock.
    pub fn jitter(&self) -> f64 {
        if self.manual.is_some() {
            return 0.5;
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
