//! Times are written and read again.

use domain::time::{NotATime, Timestamp};

#[test]
fn whatever_is_read_can_be_written_and_read_again() {
    for text in ["9999-12-31", "9999-12-31T23:59:59.999Z", "0000-01-01"] {
        for at in [text.parse().unwrap(), Timestamp::end_of(text).unwrap()] {
            assert_eq!(at.to_string().parse(), Ok(at), "{text}");
        }
    }
    for text in [
        "9999-12-31T23:30:00-01:00",
        "9999-12-31T24:00:00Z",
        "0000-01-01T00:30:00+01:00",
    ] {
        assert_eq!(text.parse::<Timestamp>(), Err(NotATime), "{text}");
    }
}
