//! The one way to start a background task. A task has a name. If it panics, that is logged under
//! its name instead of being lost with its join handle. The message of the panic is logged by the
//! hook of [`crate::logs`].
//!
//! In a debug build, a test may direct the tasks of its thread (`crash_point::Director`).

use std::future::Future;
use std::panic::AssertUnwindSafe;
#[cfg(debug_assertions)]
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use tokio::task::{JoinHandle, JoinSet};

#[cfg(debug_assertions)]
use crate::crash_point;
use crate::trace;

/// Runs `future` in the background until it ends.
#[expect(clippy::disallowed_methods, reason = "this is spawn's one home")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let task = async move {
        if AssertUnwindSafe(future).catch_unwind().await.is_err() {
            tracing::error!(task = name, "a task ended in a panic");
        }
    };
    #[cfg(debug_assertions)]
    if let Some(director) = crash_point::director() {
        return tokio::spawn(director.adopt(name, Box::pin(task)));
    }
    tokio::spawn(task)
}

/// Runs `future` in the background as one of a set, until it ends or the set is dropped.
pub fn spawn_in<F>(set: &mut JoinSet<()>, name: &'static str, future: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    #[cfg(debug_assertions)]
    if let Some(director) = crash_point::director() {
        set.spawn(director.adopt(name, Box::pin(future)));
        return;
    }
    let _ = name;
    set.spawn(future);
}

/// Waits for work that other threads do. Where a test directs the tasks of this thread, it stands still meanwhile, so that
/// the sequence of all tasks does not depend on how fast the others are.
#[cfg(debug_assertions)]
pub async fn elsewhere<F: Future>(work: F) -> F::Output {
    let mut work = std::pin::pin!(tokio::task::unconstrained(work));
    std::future::poll_fn(|context| {
        if crash_point::director().is_none() {
            return work.as_mut().poll(context);
        }
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        let mut parked = Context::from_waker(&waker);
        loop {
            if let done @ Poll::Ready(_) = work.as_mut().poll(&mut parked) {
                return done;
            }
            std::thread::park();
        }
    })
    .await
}

#[cfg(not(debug_assertions))]
pub const fn elsewhere<F: Future>(work: F) -> F {
    work
}

/// A thread that stands still until it is woken.
#[cfg(debug_assertions)]
struct Parked(std::thread::Thread);

#[cfg(debug_assertions)]
impl std::task::Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
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
