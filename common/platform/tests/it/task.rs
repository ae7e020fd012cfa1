//! Work that must be finished.

use std::time::Duration;

use platform::task::finish;

#[tokio::test(start_paused = true)]
async fn what_must_be_finished_is_finished_when_its_caller_goes_away() {
    let (done, result) = tokio::sync::oneshot::channel();
    let work = finish("work", async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        done.send(()).expect("the test waits");
    });
    let gone = tokio::time::timeout(Duration::from_secs(1), work).await;
    assert!(gone.is_err());
    assert_eq!(result.await, Ok(()));
}

#[tokio::test]
async fn a_panic_is_no_answer() {
    assert_eq!(
        finish("work", async { panic!("as expected") }).await,
        None::<()>
    );
}
