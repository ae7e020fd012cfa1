//! Ages as people write and read them, `90s`, `10m`, `2h`, `7d`, and moments, which are given as an
//! age or as a time. All commands with `--since` and `--before` take the same forms.

use std::time::Duration;

use domain::time::{Timestamp, Written};
use platform::zone;

/// How long ago a time was.
pub use domain::time::age as text;

const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];

pub fn parse(text: &str) -> Result<Duration, String> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let number = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    match (number.parse::<u32>(), unit) {
        (Ok(number), Some((_, seconds))) => Ok(Duration::from_secs(u64::from(number) * seconds)),
        _ => Err("it must be an age like 90s, 10m, 2h or 7d".to_owned()),
    }
}

/// A moment as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Ago(Duration),
    At(Written),
}

impl Moment {
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::Ago(age) => now.minus(age),
            Moment::At(written) => zone::instant(written),
        }
    }
}

/// Reads a moment: an age, which is counted back from now; a time; or a day, which means its
/// beginning. A day, and a time without an offset, are in the zone in which times are shown.
pub fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(written) = text.parse() {
        return Ok(Moment::At(written));
    }
    let ago = parse(text).map(Moment::Ago);
    ago.map_err(|problem| format!("{problem}, or a time like 2027-01-31T12:00:00Z"))
}
