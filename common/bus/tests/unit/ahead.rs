//! Tests of what is private in `src/ahead.rs`.

use super::*;

const LOOK: Duration = Duration::from_millis(100);

/// The limit after workers that take so many messages a second were looked at for a while, each time
/// when the queue had been filled.
fn settled(per_second: u32) -> u32 {
    let each = per_second / 10;
    let (mut before, mut depth) = (FEWEST, 0_u32);
    for _ in 0..50 {
        let filled = depth.max(before);
        let taken = each.min(filled);
        depth = filled - taken;
        before = limit(before, depth, taken, LOOK);
    }
    before
}

#[test]
fn the_limit_follows_the_speed_of_the_workers() {
    assert_eq!(settled(0), FEWEST);
    assert_eq!(settled(10), FEWEST);
    assert!((45..=55).contains(&settled(100)), "{}", settled(100));
    assert!((140..=160).contains(&settled(300)), "{}", settled(300));
    assert_eq!(settled(100_000), MOST);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_since_the_last_look_counts_as_waiting() {
    let ahead = Ahead::default();
    assert_eq!(ahead.room(), Room::Enough);
    assert!(!ahead.is_watched(), "nothing can wait");
    for _ in 0..FEWEST / 2 {
        assert!(matches!(ahead.room(), Room::Little | Room::Enough));
        ahead.sent();
    }
    assert_eq!(ahead.room(), Room::Kept);
    assert!(ahead.is_watched());
    tokio::time::advance(LOOK).await;
    assert_eq!(ahead.looked(FEWEST / 2), FEWEST / 2, "for what waits");
    assert_eq!(ahead.room(), Room::Kept);
    assert!(ahead.is_watched());
    tokio::time::advance(LOOK).await;
    assert!(ahead.looked(0) >= FEWEST);
    assert_eq!(ahead.room(), Room::Enough);
}
