//! The header `traceparent` and the ids that are made here.

use domain::redact::redact;
use domain::trace::{self, TraceContext, TraceId};
use uuid::Uuid;

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_header_comes_out_as_it_went_in() {
    let context = TraceContext::parse(GIVEN).unwrap();
    assert_eq!(context.to_string(), GIVEN);
    assert_eq!(
        context.trace_id().to_string(),
        "0af7651916cd43dd8448eb211c80319c"
    );
}

#[test]
fn what_is_not_to_the_letter_is_no_header() {
    for wrong in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "FF-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-ñaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
    ] {
        assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_later_version_is_read_as_far_as_this_one_goes() {
    for later in [
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes",
    ] {
        assert_eq!(TraceContext::parse(later).unwrap().to_string(), GIVEN);
    }
}

#[test]
fn flags_that_have_no_meaning_are_cleared() {
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fd";
    assert_eq!(TraceContext::parse(given).unwrap().to_string(), GIVEN);
}

#[test]
fn a_trace_that_begins_here_has_the_id_of_its_first_job() {
    let id = Uuid::from_u128(0x01a1_f957_0358_77c2_b0f7_57af_41d2_2cc2);
    let context = TraceContext::begin(id);
    assert_eq!(
        context.to_string(),
        "00-01a1f957035877c2b0f757af41d22cc2-b0f757af41d22cc2-00"
    );
    assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
    let child = TraceContext::parse(GIVEN).unwrap().child(id);
    assert_eq!(
        child.to_string(),
        "00-0af7651916cd43dd8448eb211c80319c-b0f757af41d22cc2-01"
    );
}

#[test]
fn the_flag_sampled_is_set_and_cleared_and_the_others_stay() {
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03";
    let context = TraceContext::parse(given).unwrap();
    assert!(context.is_sampled());
    let cleared = context.sampled(false);
    assert!(!cleared.is_sampled());
    assert!(cleared.to_string().ends_with("-02"));
    assert_eq!(cleared.sampled(true), context);
    let other = context.with_span(0xb7);
    assert_eq!(
        (other.trace_id(), other.span_id()),
        (context.trace_id(), 0xb7)
    );
    assert_eq!(context.with_span(0).span_id(), 1);
}

/// By their form alone some of these would be taken as a telephone number or a digest.
#[test]
fn no_trace_id_is_redacted_in_a_log_line() {
    let mut number: u128 = 1;
    for _ in 0..20_000 {
        number = number.wrapping_mul(0x2545_F491_4F6C_DD1D_2545_F491_4F6C_DD1D) ^ (number >> 7);
        let text = TraceId::of(Uuid::from_u128(number)).to_string();
        assert_eq!(redact(&text), text);
    }
}

#[test]
fn a_context_is_stored_in_25_bytes_and_read_again() {
    let context = TraceContext::parse(GIVEN).unwrap();
    let bytes = trace::column(Some(context)).unwrap();
    assert_eq!(bytes.len(), 25);
    assert_eq!(&bytes[..16], context.trace_id().bytes());
    assert_eq!(
        bytes[16..],
        [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31, 1]
    );
    assert_eq!(trace::stored(Some(bytes.clone())), Some(context));
    assert_eq!(trace::stored(Some(bytes[..24].to_vec())), None);
    assert_eq!(trace::stored(None), None);
    assert_eq!(trace::column(None), None);
}
