//! Reads times as people and providers write them: ISO 8601 in its calendar forms, extended or
//! basic, and RFC 3339. A time without an offset is in UTC.

use std::ops::RangeInclusive;

use time::{Date, Month};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;

/// The instants of the years 0000 to 9999 in UTC, which are those that can be written.
const WRITABLE: RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;
/// The last of them.
pub(super) const LAST: i64 = *WRITABLE.end();

/// The Julian day of 1970-01-01.
const FIRST_DAY: i32 = 2_440_588;

/// The time that a text names.
#[derive(Clone, Copy)]
pub(super) struct Written {
    /// Milliseconds since 1970, with finer fractions cut off. For a whole day, its begin.
    pub millis: i64,
    pub is_day: bool,
    /// It says how far its clock is from UTC, so that it is the same instant everywhere.
    pub has_offset: bool,
}

/// `2027-01-31T12:00:00+01:00`, `20270131T110000Z`, `2027-01-31 11:00:00.25`, `2027-01-31`, ..
pub(super) fn read(text: &str) -> Option<Written> {
    let mut rest = Rest(text);
    let date = rest.date()?;
    let is_day = rest.0.is_empty();
    let mut millis = date;
    let mut has_offset = false;
    if !is_day {
        if !rest.skip(['T', 't', ' ']) {
            return None;
        }
        millis += rest.time()?;
        has_offset = !rest.0.is_empty();
        millis -= rest.offset()?;
    }
    let is_all = rest.0.is_empty() && WRITABLE.contains(&millis);
    is_all.then_some(Written {
        millis,
        is_day,
        has_offset,
    })
}

/// The part of the text that is not read yet.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// Reads a date and returns the begin of that day, in milliseconds since 1970.
    fn date(&mut self) -> Option<i64> {
        let year = self.number(4)?;
        let is_extended = self.skip(['-']);
        let month = self.number(2)?;
        if is_extended && !self.skip(['-']) {
            return None;
        }
        let day = self.number(2)?;
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        let year = i32::try_from(year).ok()?;
        let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
        Some(i64::from(date.to_julian_day() - FIRST_DAY) * DAY)
    }

    /// Reads a time of day and returns the milliseconds since the day began. A leap second counts
    /// as the last moment of the second before it.
    fn time(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        let is_extended = self.skip([':']);
        let minute = self.number(2)?;
        let has_seconds = if is_extended {
            self.skip([':'])
        } else {
            self.0.starts_with(|next: char| next.is_ascii_digit())
        };
        let (second, fraction) = if has_seconds {
            (self.number(2)?, self.fraction()?)
        } else {
            (0, 0)
        };
        let is_midnight = (hour, minute, second, fraction) == (24, 0, 0, 0);
        if (hour > 23 && !is_midnight) || minute > 59 || second > 60 {
            return None;
        }
        let second = match second {
            60 => MINUTE - 1,
            second => second * SECOND + fraction,
        };
        Some(hour * HOUR + minute * MINUTE + second)
    }

    /// Reads a fraction of a second and returns milliseconds. Zero when there is no fraction.
    fn fraction(&mut self) -> Option<i64> {
        if !self.skip(['.', ',']) {
            return Some(0);
        }
        let end = self.0.find(|next: char| !next.is_ascii_digit());
        let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        if digits.is_empty() {
            return None;
        }
        format!("{:0<3}", digits.get(..3).unwrap_or(digits))
            .parse()
            .ok()
    }

    /// Reads an offset and returns it in milliseconds. East of UTC is positive.
    fn offset(&mut self) -> Option<i64> {
        let is_apart = self.skip([' ']);
        if (self.0.is_empty() && !is_apart) || self.skip(['Z', 'z']) {
            return Some(0);
        }
        let sign = if self.skip(['+']) {
            1
        } else if self.skip(['-']) {
            -1
        } else {
            return None;
        };
        let hours = self.number(2)?;
        let minutes = if self.skip([':']) || !self.0.is_empty() {
            self.number(2)?
        } else {
            0
        };
        (hours <= 23 && minutes <= 59).then_some(sign * (hours * HOUR + minutes * MINUTE))
    }

    /// Reads a number of exactly this many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.0 = rest;
        number.parse().ok()
    }

    /// Skips one of these characters if it comes next.
    fn skip<const N: usize>(&mut self, any: [char; N]) -> bool {
        match self.0.strip_prefix(any) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }
}
