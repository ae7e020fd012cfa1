//! Tests of what is private in `src/commands/listen.rs`.

use domain::time::Timestamp;
use uuid::Uuid;

use super::*;

fn line(outcome: Outcome) -> Line {
    Line {
        job: Some(Uuid::from_u128(7)),
        source: "storefront".to_owned(),
        topic: Some("orders/create".to_owned()),
        shop: Some("shop.example".to_owned()),
        connection: None,
        object_id: Some("820982911946154".to_owned()),
        delivery_id: None,
        status: 200,
        outcome,
        attempts: 2,
        deliveries: 1,
        received_at: Timestamp(1_800_000_000_000),
        finished_at: None,
        milliseconds: Some(12),
        reason: None,
        signature: None,
        header: None,
        advice: None,
    }
}

#[test]
fn a_line_fits_a_terminal_of_eighty_columns() {
    let done = text(&Message::of(line(Outcome::Done)));
    assert_eq!(
        done,
        "08:00:00  200     orders/create         820982911946154       12  done\n"
    );
    let refused = Line {
        status: 401,
        deliveries: 3,
        milliseconds: None,
        reason: Some("signature".to_owned()),
        signature: Some("missing".to_owned()),
        header: Some("x-shopify-hmac-sha256".to_owned()),
        advice: Some("STOREFRONT_PROVIDER=shopify".to_owned()),
        ..line(Outcome::Refused)
    };
    let refused = text(&Message::of(refused));
    assert!(refused.contains("401") && refused.contains("refused 3x"));
    let more: Vec<&str> = refused.lines().skip(1).map(str::trim).collect();
    assert_eq!(
        more,
        [
            "signature missing, but x-shopify-hmac-sha256 came",
            "-> set STOREFRONT_PROVIDER=shopify"
        ]
    );
    assert!(refused.lines().all(|line| line.len() <= 80), "{refused}");
    for outcome in [
        Outcome::NotUnderstood,
        Outcome::Kept,
        Outcome::Waiting,
        Outcome::Retrying,
        Outcome::Dead,
        Outcome::Discarded,
    ] {
        let text = text(&Message::of(line(outcome)));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}

#[test]
fn a_text_of_a_stranger_commands_no_terminal() {
    let hostile = Line {
        topic: Some("\u{1b}[2J\n08:00:00  200".to_owned()),
        ..line(Outcome::Done)
    };
    let shown = text(&Message::of(hostile));
    assert_eq!(shown.lines().count(), 1, "{shown:?}");
    assert!(!shown.contains('\u{1b}'));
}

#[test]
fn what_the_stream_sends_is_what_was_sent() {
    let sent = line(Outcome::Retrying);
    let json = serde_json::to_string(&sent).unwrap();
    let read = message(&format!("event: delivery\ndata: {json}\n\n"));
    assert_eq!(read, Some(Message::of(sent)));
    let passed_over = message("event: passed_over\ndata: {\"deliveries\":7}\n\n");
    assert_eq!(passed_over, Some(Message::PassedOver(7)));
    for other in [
        ": a comment\n\n",
        "retry: 2000\n\n",
        "event: new\ndata: {}\n\n",
    ] {
        assert_eq!(message(other), None, "{other}");
    }
}
