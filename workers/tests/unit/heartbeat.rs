//! Tests of what is private in `src/heartbeat.rs`.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_worker_lives_while_all_its_tasks_do_and_the_sweep_goes_round() {
    let heartbeat = Arc::new(Heartbeat::new(2));
    let one = heartbeat.at_work();
    assert!(!heartbeat.is_alive(), "one of two");
    let other = heartbeat.at_work();
    assert!(heartbeat.is_alive());
    drop(other);
    assert!(!heartbeat.is_alive(), "the other has ended");
    let _other = heartbeat.at_work();
    tokio::time::advance(LONGEST_STEP).await;
    assert!(!heartbeat.is_alive(), "the sweep stands still");
    heartbeat.touch();
    assert!(heartbeat.is_alive());
    drop(one);
}
