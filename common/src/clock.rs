//! The only place that reads the clock or makes random ids.
//!
//! Everything that depends on time takes a [`Clock`], so that a test can set it
//! and move it; nothing else in the workspace may call `SystemTime::now`.

mod iso8601;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};
use uuid::Uuid;

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, utoipa::ToSchema)]
#[schema(
    value_type = String,
    format = DateTime,
    description = "RFC 3339 in UTC, with milliseconds.",
    example = "2026-11-20T14:24:45.002Z"
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Whole seconds since 1970, rounded down.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(1000))
    }

    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The `Date` of an HTTP answer (RFC 9110, 5.6.7), `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let text = text.trim().replace("GMT", "+0000");
        let instant = OffsetDateTime::parse(&text, &Rfc2822).ok()?;
        Some(Timestamp::from_unix_seconds(instant.unix_timestamp()))
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(millis))
    }

    /// What lasts until the instant of this text; until a day: to the end of it, in UTC.
    pub fn end_of(text: &str) -> Result<Self, NotATime> {
        let written = iso8601::read(text).ok_or(NotATime)?;
        let whole = if written.is_day { iso8601::DAY } else { 0 };
        Ok(Timestamp(written.millis + whole))
    }

    /// In a sentence for people, `15 January 2027, 08:00 UTC`. Where the reader is nobody knows,
    /// so the zone is named.
    pub fn in_words(self) -> String {
        match OffsetDateTime::from_unix_timestamp(self.unix_seconds()) {
            Ok(at) => format!(
                "{} {} {}, {:02}:{:02} UTC",
                at.day(),
                at.month(),
                at.year(),
                at.hour(),
                at.minute()
            ),
            Err(_) => self.to_string(),
        }
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC with milliseconds, `2026-07-01T12:00:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp(self.unix_seconds())
            .ok()
            .and_then(|instant| instant.format(&Rfc3339).ok());
        match text {
            Some(text) => write!(
                f,
                "{}.{:03}Z",
                text.trim_end_matches('Z'),
                self.0.rem_euclid(1000)
            ),
            None => write!(f, "{}ms", self.0),
        }
    }
}

/// An instant in any form of ISO 8601, `2027-01-31T12:00:00Z`, or a day in UTC, `2027-01-31`: its
/// begin. Without an offset a time is in UTC.
impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let written = iso8601::read(text).ok_or(NotATime)?;
        Ok(Timestamp(written.millis))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be a day like 2027-01-31, or a time like 2027-01-31T12:00:00Z")]
pub struct NotATime;

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

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
