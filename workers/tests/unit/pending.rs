//! Tests of what is private in `src/pending.rs`.

use super::*;

#[test]
fn each_waits_once_and_the_first_one_is_taken_first() {
    let pending = Pending::new(3);
    let ids: Vec<JobId> = (0..5).map(|_| JobId::now_v7()).collect();
    assert!(pending.add(ids[..2].iter().copied()).is_empty());
    assert_eq!(pending.add(ids.clone()), ids[3..], "there are three places");
    assert_eq!((pending.len(), pending.places()), (3, 0));
    assert_eq!(pending.take(2), ids[..2]);
    assert!(pending.add(ids[..1].iter().copied()).is_empty());
    assert_eq!(pending.take(10), [ids[2], ids[0]]);
    assert!(pending.take(1).is_empty());
}

#[tokio::test]
async fn whoever_waits_for_the_next_one_is_notified_of_it() {
    let pending = Pending::new(1);
    let mut any = std::pin::pin!(pending.any());
    assert!(futures_util::poll!(&mut any).is_pending());
    pending.add([JobId::now_v7()]);
    assert!(futures_util::poll!(&mut any).is_ready());
}
