//! Events as they are sent: what is read is written the same, and nothing of it is lost. And traces, which go with them.

use domain::envelope::Envelope;
use domain::trace::TraceContext;

use super::input::{Input, text};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(4) {
        trace(text(input.rest()));
    } else {
        envelope(input.rest());
    }
}

fn envelope(given: &[u8]) {
    let Ok(envelope) = serde_json::from_slice::<Envelope>(given) else {
        return;
    };
    let written = serde_json::to_string(&envelope).expect("an event is JSON");
    let again: Envelope =
        serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again.id, envelope.id);
    assert_eq!(again.created_at, envelope.created_at);
    assert_eq!(
        (&again.kind, &again.shop, &again.object_id),
        (&envelope.kind, &envelope.shop, &envelope.object_id)
    );
    assert_eq!(again.data.get(), envelope.data.get());
    assert_eq!(serde_json::to_string(&again).expect("JSON"), written);
}

fn trace(given: &str) {
    let Some(context) = TraceContext::parse(given) else {
        return;
    };
    let written = context.to_string();
    assert_eq!(TraceContext::parse(&written), Some(context));
    assert_eq!(given.get(3..52), written.get(3..52));
    assert_eq!(context.sampled(true).sampled(context.is_sampled()), context);
    assert_ne!(context.with_span(0).span_id(), 0);
    assert_eq!(
        context.child(context.trace_id().uuid()).trace_id(),
        context.trace_id()
    );
}
