//! Tests of what is private in `src/endpoints.rs`.

use super::*;

#[test]
fn an_endpoint_says_in_seconds_or_by_its_own_clock_how_long_to_wait() {
    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let wait = |after: &'static str, date: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, after.parse().unwrap());
        if let Some(date) = date {
            headers.insert(DATE, date.parse().unwrap());
        }
        retry_after(&headers).map(|wait| wait.as_secs())
    };
    assert_eq!(wait("120", None), Some(120));
    assert_eq!(wait("99999999999999999999999", None), Some(3600));
    assert_eq!(wait("Sun, 06 Nov 1994 08:51:37 GMT", Some(NOW)), Some(120));
    assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT", Some(NOW)), Some(0));
    assert_eq!(wait("Sat, 06 Nov 2094 08:00:00 GMT", Some(NOW)), Some(3600));
    assert_eq!(wait("Sun, 06 Nov 1994 08:51:37 GMT", None), None);
    for nonsense in ["", "-1", "1.5", "soon"] {
        assert_eq!(wait(nonsense, Some(NOW)), None, "{nonsense}");
    }
}
