//! Times in the zone of this machine.

use domain::time::{Timestamp, Written};
use platform::zone::{day, instant, minute, next_day, time, written};

#[test]
fn a_time_is_written_with_the_distance_from_utc_and_read_again_as_the_same() {
    let at: Timestamp = "2026-07-01T23:30:00.250Z".parse().unwrap();
    for (ahead, expected) in [
        (0, "2026-07-01T23:30:00.250Z"),
        (120, "2026-07-02T01:30:00.250+02:00"),
        (-210, "2026-07-01T20:00:00.250-03:30"),
    ] {
        let text = written(at, ahead);
        assert_eq!(text, expected);
        assert_eq!(text.parse(), Ok(Written::At(at)));
        assert_eq!(text.parse(), Ok(at));
    }
}

#[test]
fn whatever_zone_this_machine_is_in_what_it_shows_is_what_it_reads() {
    for at in [1_800_000_000_000, 1_784_000_000_123] {
        let at = Timestamp(at);
        assert_eq!(time(at).parse(), Ok(at));
        let minute: Written = minute(at).parse().unwrap();
        assert!(matches!(minute, Written::OnTheWall(_)), "{minute:?}");
        assert_eq!(instant(minute), Timestamp(at.0 - at.0 % 60_000));
    }
    let [first, last] = ["0000-01-01", "9999-12-31T23:59:59.999Z"].map(|it| it.parse().unwrap());
    for odd in [Timestamp(i64::MIN), Timestamp(i64::MAX), first, last] {
        assert!(!time(odd).is_empty());
        instant(Written::OnTheWall(odd));
    }
}

#[test]
fn a_day_ends_where_the_next_one_begins_however_many_hours_that_are() {
    let mut begins = instant("2026-01-01".parse().unwrap());
    for _ in 0..400 {
        let next = next_day(begins);
        let hours = next.since(begins).as_secs() / 3600;
        assert!((23..=25).contains(&hours), "{hours}");
        assert_ne!(day(next), day(begins));
        assert_eq!(day(Timestamp(next.0 - 1)), day(begins));
        begins = next;
    }
}
