//! What happens often is reported together.

use std::time::Duration;

use platform::counted::Counted;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn the_first_is_reported_at_once_and_the_others_together() {
    let counted = Counted::default();
    let shutdown = CancellationToken::new();
    let (sender, mut reported) = unbounded_channel();
    counted.report(&shutdown, move |kind, count| {
        sender.send((kind, count)).unwrap();
    });
    let mut lines = async || {
        tokio::time::sleep(Duration::from_secs(11)).await;
        std::iter::from_fn(|| reported.try_recv().ok()).collect::<Vec<_>>()
    };
    assert!(counted.is_first("a"));
    assert!(!counted.is_first("a"));
    assert!(!counted.is_first("a"));
    assert!(counted.is_first("b"));
    assert_eq!(lines().await, [("a", 2)]);
    assert!(counted.is_first("b"), "none of it came before");
    assert!(!counted.is_first("a"), "it goes on");
    assert_eq!(lines().await, [("a", 1)]);
    assert_eq!(lines().await, []);
    assert!(counted.is_first("a"));
    assert!(!counted.is_first("a"));
    shutdown.cancel();
    assert_eq!(lines().await, [("a", 1)], "at the end too");
}
