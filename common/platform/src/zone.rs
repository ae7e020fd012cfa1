//! Times as the person at a terminal reads and writes them: in the zone of the machine, which the
//! variable `TZ` may name, or in UTC if the person asks for that. Machines always get UTC
//! ([`Timestamp`]).
//!
//! The library chrono finds out how far the clocks of the zone are from UTC at an instant. It is
//! used for nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Local, Offset, TimeZone as _};
use domain::time::{Timestamp, Written};

const MINUTE: i64 = 60 * 1000;
const DAY: i64 = 24 * 60 * MINUTE;
/// The years 0 to 9999. Any other time is shown in UTC.
const YEARS: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// Whether the person has asked for UTC.
static IS_UTC: AtomicBool = AtomicBool::new(false);

/// Shows and reads all times of this process in UTC from now on.
pub fn use_utc() {
    IS_UTC.store(true, Ordering::Relaxed);
}

/// Whether times are shown in UTC because the person has asked for it.
pub fn is_utc() -> bool {
    IS_UTC.load(Ordering::Relaxed)
}

/// `2026-07-01T14:00:00.000+02:00`, or in UTC `2026-07-01T12:00:00.000Z`. Every command reads it
/// again as the same instant.
pub fn time(at: Timestamp) -> String {
    written(at, ahead_at(at))
}

/// `2026-07-01T14:00`.
pub fn minute(at: Timestamp) -> String {
    time(at).chars().take(16).collect()
}

/// `2026-07-01`.
pub fn day(at: Timestamp) -> String {
    time(at).chars().take(10).collect()
}

/// `14:00:00`.
pub fn time_of_day(at: Timestamp) -> String {
    time(at).chars().skip(11).take(8).collect()
}

/// The instant that the person means. Of a time that the clocks show twice it is the first. A time
/// that they pass over when they are put forward counts as if they had not been.
pub fn instant(text: Written) -> Timestamp {
    let wall = match text {
        Written::At(at) => return at,
        Written::OnTheWall(wall) => wall,
    };
    let shown = DateTime::from_timestamp_millis(wall.0).filter(|_| YEARS.contains(&wall.0));
    let Some(shown) = shown.filter(|_| !is_utc()) else {
        return wall;
    };
    let meant = Local.from_local_datetime(&shown.naive_utc()).earliest();
    meant.map_or_else(
        || Timestamp(wall.0 - ahead_at(Timestamp(wall.0 - DAY)) * MINUTE),
        |at| Timestamp(at.timestamp_millis()),
    )
}

/// The beginning of the day after this one, which has 23 or 25 hours where the clocks change.
pub fn next_day(begins: Timestamp) -> Timestamp {
    let next = day(begins.plus(Duration::from_hours(36)));
    next.parse().map_or(begins, instant)
}

/// How many minutes the clocks of the person are ahead of UTC.
fn ahead_at(at: Timestamp) -> i64 {
    let instant = DateTime::from_timestamp_millis(at.0).filter(|_| YEARS.contains(&at.0));
    let Some(instant) = instant.filter(|_| !is_utc()) else {
        return 0;
    };
    let offset = Local.offset_from_utc_datetime(&instant.naive_utc()).fix();
    i64::from(offset.local_minus_utc() / 60)
}

/// A time as clocks show it that are so many minutes ahead of UTC.
pub fn written(at: Timestamp, ahead: i64) -> String {
    if ahead == 0 {
        return at.to_string();
    }
    let wall = Timestamp(at.0.saturating_add(ahead * MINUTE)).to_string();
    let wall = wall.trim_end_matches('Z');
    let sign = if ahead < 0 { '-' } else { '+' };
    let (hours, minutes) = (ahead.abs() / 60, ahead.abs() % 60);
    format!("{wall}{sign}{hours:02}:{minutes:02}")
}
