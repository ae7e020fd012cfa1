//! Tests of what is private in `src/webhooks.rs`.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_accepts_nothing_is_tried_more_and_more_rarely() {
    let away = Some(Timestamp(0));
    assert!(!Rest::goes_on(None, away), "nothing was tried yet");
    let mut rest = Rest::default();
    let mut pauses = Vec::new();
    for _ in 0..11 {
        rest.begin(Duration::ZERO);
        assert!(Rest::goes_on(Some(&rest), away));
        assert!(!Rest::goes_on(Some(&rest), None), "it has accepted one");
        let begun = Instant::now();
        tokio::time::sleep_until(rest.until).await;
        assert!(!Rest::goes_on(Some(&rest), away));
        pauses.push(begun.elapsed().as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    rest.begin(Duration::from_hours(1));
    assert_eq!(rest.until - Instant::now(), Duration::from_hours(1));
    // One that accepts others is left alone too, because it asks for it.
    let asked_for = Rest::asked_for(Duration::from_secs(5));
    assert!(Rest::goes_on(Some(&asked_for), None));
    tokio::time::sleep_until(asked_for.until).await;
    assert!(!Rest::goes_on(Some(&asked_for), None));
}
