//! The one way to start a background task: it has a name, and if it panics that is logged
//! under its name instead of being lost with its join handle. What the panic said is logged
//! by the hook of [`crate::logs`].

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

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
