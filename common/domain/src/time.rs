//! An instant, and how it is written, stored and read.

mod iso8601;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

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
    /// The instant at this whole number of seconds since 1970.
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

    /// The same form.
    pub fn to_http_date(self) -> String {
        let instant = OffsetDateTime::from_unix_timestamp(self.unix_seconds()).ok();
        let text = instant.and_then(|instant| instant.format(&Rfc2822).ok());
        text.unwrap_or_default().replace("+0000", "GMT")
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

    /// The instant at which something ends that lasts until this time. If the text is a day, it
    /// is the end of that day in UTC.
    pub fn end_of(text: &str) -> Result<Self, NotATime> {
        let written = iso8601::read(text).ok_or(NotATime)?;
        let whole = if written.is_day { iso8601::DAY } else { 0 };
        Ok(Timestamp((written.millis + whole).min(iso8601::LAST)))
    }

    /// The time for a sentence that people read, `15 January 2027, 08:00 UTC`. It names the zone,
    /// because nobody knows where the reader is.
    pub fn in_words(self) -> String {
        let month = |month: u8| {
            time::Month::try_from(month).map_or_else(|_| String::new(), |it| it.to_string())
        };
        match self.parts() {
            Some((year, number, day, time)) => {
                format!("{day} {} {year}, {time} UTC", month(number))
            }
            None => self.to_string(),
        }
    }

    /// Its year, its month from 1, its day and `08:00`, in UTC. None of a time that no calendar has.
    pub fn parts(self) -> Option<(i32, u8, u8, String)> {
        let at = OffsetDateTime::from_unix_timestamp(self.unix_seconds()).ok()?;
        let time = format!("{:02}:{:02}", at.hour(), at.minute());
        Some((at.year(), at.month().into(), at.day(), time))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// How long ago the given time was, in the largest unit that fits.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.since(then).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
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

/// Reads an instant in any form of ISO 8601, such as `2027-01-31T12:00:00Z`, or the begin of a
/// day in UTC, `2027-01-31`. A time without an offset is in UTC.
impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let written = iso8601::read(text).ok_or(NotATime)?;
        Ok(Timestamp(written.millis))
    }
}

/// A time as a person wrote it, for readers that know in which zone the person is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It has an offset, so it is the same instant everywhere.
    At(Timestamp),
    /// It has none: what a clock on the wall shows, as if that clock were in UTC. A day means its
    /// beginning.
    OnTheWall(Timestamp),
}

impl FromStr for Written {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let written = iso8601::read(text).ok_or(NotATime)?;
        let at = Timestamp(written.millis);
        Ok(if written.has_offset {
            Written::At(at)
        } else {
            Written::OnTheWall(at)
        })
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

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
