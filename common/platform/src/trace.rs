//! The trace that the present work is a part of. Calls to providers carry it.

use domain::trace::TraceContext;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Runs a future as a part of a trace, so that the calls to providers that it makes carry the
/// trace.
pub async fn within<F: Future>(context: Option<TraceContext>, future: F) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, future).await,
        None => future.await,
    }
}

/// The trace that [`within`] set, if there is one.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok()
}
