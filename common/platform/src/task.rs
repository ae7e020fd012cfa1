//! The one way to start a background task. A task has a name. If it panics, that is logged under
//! its name instead of being lost with its join handle. The message of the panic is logged by the
//! hook of [`crate::logs`].

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::trace;

/// Runs `future` in the background until it ends.
#[expect(clippy::disallowed_methods, reason = "this is spawn's one home")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        if AssertUnwindSafe(future).catch_unwind().await.is_err() {
            tracing::error!(task = name, "a task ended in a panic");
        }
    })
}

/// Runs `future` to its end, even if the caller is dropped before that. None when it panicked.
pub async fn finish<F>(name: &'static str, future: F) -> Option<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let (done, result) = tokio::sync::oneshot::channel();
    let future = trace::within(trace::current(), future);
    spawn(name, async move {
        // The caller may be gone.
        let _ = done.send(future.await);
    });
    result.await.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
}
