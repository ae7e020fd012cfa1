//! Times: what is read can be written and read again, and the end of a day is after its begin.

use std::time::Duration;

use domain::time::{Timestamp, Written, age};

use super::input::{Input, text};

const DAY: i64 = 24 * 60 * 60 * 1000;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 8 {
        0 => number(input.number(), input.number()),
        1 => http(text(input.rest())),
        _ => read(text(input.rest())),
    }
}

fn read(given: &str) {
    let Ok(at) = given.parse::<Timestamp>() else {
        assert!(given.parse::<Written>().is_err() && Timestamp::end_of(given).is_err());
        return;
    };
    let written = at.to_string();
    assert_eq!(written.parse(), Ok(at), "{written}");
    match given.parse::<Written>() {
        Ok(Written::At(other) | Written::OnTheWall(other)) => assert_eq!(other, at),
        Err(error) => panic!("it is a time for one reader alone: {error:?}"),
    }
    let end = Timestamp::end_of(given).expect("a time").0 - at.0;
    // The last day that can be written ends with its last millisecond.
    let is_last = end == DAY - 1 && written.starts_with("9999-12-31");
    assert!(end == 0 || (at.0.rem_euclid(DAY) == 0 && (end == DAY || is_last)));
    assert!(!at.in_words().is_empty());
}

fn http(given: &str) {
    if let Some(at) = Timestamp::from_http_date(given) {
        assert_eq!(at.0 % 1000, 0);
        assert_eq!(at.to_string().parse(), Ok(at));
    }
}

fn number(millis: i64, other: i64) {
    let (at, other) = (Timestamp(millis), Timestamp(other));
    let written = at.to_string();
    assert!(written.ends_with('Z') || written == format!("{millis}ms"));
    if let Ok(read) = written.parse::<Timestamp>() {
        assert_eq!(read, at);
    }
    assert!(!at.in_words().is_empty() && !age(at, other).is_empty());
    assert!(at.since(other) == Duration::ZERO || other.since(at) == Duration::ZERO);
    let apart = at.since(other);
    assert!(other.plus(apart) >= at.min(other) && at.minus(apart) <= at);
    assert_eq!(
        Timestamp::from_unix_seconds(at.unix_seconds())
            .0
            .div_euclid(1000),
        at.unix_seconds()
    );
}
