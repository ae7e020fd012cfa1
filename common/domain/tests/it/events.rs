//! Events as they are stored and sent, and the sequence of one object's events.

use domain::event::{
    CheckoutEvent, Event, OrderEvent, OrderSummary, PaymentEvent, PrivacyEvent, RequestDeadline,
    RequestedLine, SubscriptionEvent,
};
use domain::time::Timestamp;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// The type of an event and its data, byte by byte.
fn sent(event: &Event) -> (String, String) {
    let message = event.message();
    (message.kind, message.data.to_string())
}

fn assert_sent(event: &Event, kind: &str, data: &str) {
    assert_eq!(sent(event), (kind.to_owned(), data.to_owned()));
}

#[test]
fn the_json_of_an_event_is_that_of_every_version_before() {
    let order = |what| Event::of_order("shop.example", 17, what);
    assert_sent(
        &order(OrderEvent::Fulfilled),
        "order.fulfilled",
        r#"{"order_id":"17","shop":"shop.example"}"#,
    );
    assert_sent(
        &order(OrderEvent::Paid(OrderSummary {
            currency: Some("EUR".into()),
            total_price: Some("19.90".into()),
            financial_status: Some("paid".into()),
            fulfillment_status: None,
        })),
        "order.paid",
        r#"{"currency":"EUR","financial_status":"paid","fulfillment_status":null,"order_id":"17","shop":"shop.example","total_price":"19.90"}"#,
    );
    let line = RequestedLine {
        line_id: "1".into(),
        variant_id: None,
        sku: Some("MUG".into()),
        fulfillment_service: Some("manual".into()),
        quantity: Some(2),
    };
    assert_sent(
        &order(OrderEvent::FulfillmentRequested {
            cycle: "1".into(),
            lines: vec![line],
        }),
        "order.fulfillment_requested",
        r#"{"cycle":"1","lines":[{"fulfillment_service":"manual","line_id":"1","quantity":2,"sku":"MUG","variant_id":null}],"order_id":"17","shop":"shop.example"}"#,
    );
    let canceled = PaymentEvent::Canceled {
        pact_id: None,
        canceled_at: NOW,
    };
    assert_sent(
        &Event::of_payment("pi_1", canceled),
        "payment.canceled",
        r#"{"canceled_at":"2027-01-15T08:00:00.000Z","pact_id":null,"payment_id":"pi_1"}"#,
    );
    let settled = CheckoutEvent::Settled {
        mode: Some("payment".into()),
        payment_status: Some("paid".into()),
        amount: Some("19.90".into()),
        currency: Some("EUR".into()),
        payment_id: Some("pi_1".into()),
        subscription_id: None,
        pact_id: None,
    };
    assert_sent(
        &Event::of_checkout("cs_1", settled),
        "checkout.settled",
        r#"{"amount":"19.90","currency":"EUR","mode":"payment","pact_id":null,"payment_id":"pi_1","payment_status":"paid","session_id":"cs_1","subscription_id":null}"#,
    );
    let extended = SubscriptionEvent::Extended {
        customer_id: None,
        pact_id: None,
        period_end: NOW,
        grace_until: NOW,
    };
    assert_sent(
        &Event::of_subscription("sub_1", extended),
        "subscription.extended",
        r#"{"customer_id":null,"grace_until":"2027-01-15T08:00:00.000Z","pact_id":null,"period_end":"2027-01-15T08:00:00.000Z","subscription_id":"sub_1"}"#,
    );
}

#[test]
fn the_audit_keeps_what_an_event_says_beside_its_request() {
    let what = PrivacyEvent::DeadlineNear(RequestDeadline {
        topic: "shop/redact".into(),
        code: "COMMERCE_007",
        due_at: NOW,
    });
    assert_eq!(
        what.details().to_string(),
        r#"{"code":"COMMERCE_007","due_at":"2027-01-15T08:00:00.000Z","topic":"shop/redact"}"#
    );
    assert_sent(
        &Event::of_request("shop.example", "r1", what),
        "privacy.deadline_near",
        r#"{"code":"COMMERCE_007","due_at":"2027-01-15T08:00:00.000Z","request_id":"r1","shop":"shop.example","topic":"shop/redact"}"#,
    );
}
