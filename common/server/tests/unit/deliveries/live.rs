//! Tests of what is private in `src/deliveries/live.rs`.

use super::*;

#[test]
fn a_look_that_took_long_is_followed_by_a_long_pause() {
    let pause = |took| pause_after(Duration::from_millis(took), Duration::from_millis(200));
    assert_eq!(pause(0), Duration::from_millis(200));
    assert_eq!(pause(4), Duration::from_millis(200));
    assert_eq!(pause(10), Duration::from_millis(500));
    assert_eq!(pause(5_000), LONGEST_PAUSE);
}

#[tokio::test]
async fn who_is_slow_misses_messages_and_hears_that_and_nobody_waits_for_it() {
    let live = Live::default();
    let (mut slow, mut quick) = (live.listen(), live.listen());
    for number in 0..BEHIND as u64 + 7 {
        live.messages.send(Message::PassedOver(number)).unwrap();
        assert_eq!(quick.next().await, Some(Message::PassedOver(number)));
    }
    assert_eq!(
        slow.next().await,
        Some(Message::PassedOver(7)),
        "so many it has missed"
    );
    assert_eq!(
        slow.next().await,
        Some(Message::PassedOver(7)),
        "the oldest that is left"
    );
    live.ended.cancel();
    assert_eq!(quick.next().await, None);
}
