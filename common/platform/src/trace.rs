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

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[tokio::test]
    async fn what_is_done_within_a_trace_knows_it() {
        let context = TraceContext::parse(GIVEN);
        assert_eq!(current(), None);
        assert_eq!(within(context, async { current() }).await, context);
        assert_eq!(within(None, async { current() }).await, None);
    }
}
