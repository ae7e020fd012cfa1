//! The trace within which something is done.

use domain::trace::TraceContext;
use platform::trace::{current, within};

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn what_is_done_within_a_trace_knows_it() {
    let context = TraceContext::parse(GIVEN);
    assert_eq!(current(), None);
    assert_eq!(within(context, async { current() }).await, context);
    assert_eq!(within(None, async { current() }).await, None);
}
