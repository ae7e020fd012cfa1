//! The pages on which an order is paid for: what they ask for, and when they ask for nothing.

use domain::order::record::{Cancellation, Record};
use serde_json::json;

use super::{change, deliver, order, shown};
use crate::support::delivery::SHOP;
use crate::support::order::{body, order_delivery, with};
use crate::support::payment::{event, intent};
use crate::support::{self, Service, service};

type Changed = Box<dyn Fn(&mut Record)>;

#[tokio::test]
async fn the_amount_to_pay_is_the_orders_and_never_the_links() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    let due = "<dd class=\"amount\">403.00 USD</dd>";
    let notice = "class=\"notice\"";
    for path in [
        "/pay/7",
        "/pay/7?amount=403.00&currency=USD",
        "/pay/7?amount=403&currency=usd",
    ] {
        let page = shown(&service, path).await;
        assert!(
            page.contains(due) && !page.contains(notice),
            "{path}: {page}"
        );
        assert!(page.contains("Pay through the shop’s own checkout"));
    }
    for (query, asks) in [
        ("amount=500.00&currency=USD", "asks for 500.00 USD;"),
        ("amount=403.00&currency=EUR", "asks for 403.00 EUR;"),
        ("amount=0.01&currency=USD", "asks for 0.01 USD;"),
        ("amount=500&currency=JPY", "asks for 500 JPY;"),
        (
            "amount=%3Cscript%3E&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=403.00&currency=%22%3E%3Cb%3E",
            "asks for an amount that cannot be read;",
        ),
        ("amount=403.00", "asks for an amount that cannot be read;"),
        ("currency=USD", "asks for an amount that cannot be read;"),
        (
            "amount=-403.00&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=403.001&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=403.00&amount=1.00&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=9999999999999999999999&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=%FF%00&currency=USD",
            "asks for an amount that cannot be read;",
        ),
    ] {
        let page = shown(&service, &format!("/pay/7?{query}")).await;
        let warning = format!(
            "The link you followed {asks} the amount due for this order is 403.00 USD. Pay no \
             more than 403.00 USD."
        );
        assert!(
            page.contains(&warning) && page.contains(notice),
            "{query}: {page}"
        );
        assert!(page.contains(due), "{query}: {page}");
        for echo in ["<script", "&#60;", "<b>", "-403", "403.001", "99999"] {
            assert!(!page.contains(echo), "{echo} of {query} in {page}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_payment_page_of_a_settled_order_says_why_nothing_is_due() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    let nothing = "<h2>Nothing to pay</h2>";
    let ask = "<h2>Ask the shop before you pay</h2>";
    let says = |status: &'static str| {
        Box::new(move |order: &mut Record| {
            order.financial.value = Some(status.to_owned().into());
        })
    };
    let changes: [(Changed, &str, &str); 12] = [
        (
            Box::new(|order| order.outstanding.value = Some(300)),
            "<dd class=\"amount\">3.00 USD</dd>",
            "Not paid yet",
        ),
        (
            says("partially_paid"),
            "<dd class=\"amount\">3.00 USD</dd>",
            "Partly paid",
        ),
        (
            Box::new(|order| order.outstanding.value = None),
            ask,
            "not known here",
        ),
        (
            says("expired"),
            "<dd class=\"amount\">403.00 USD</dd>",
            "Not paid in time",
        ),
        (
            says("invented"),
            "<dd class=\"amount\">403.00 USD</dd>",
            "Not known",
        ),
        (
            Box::new(|order| order.settled.canceled_at = Some(1)),
            ask,
            "Will not be shipped",
        ),
        (says("authorized"), nothing, "the shop will collect it"),
        (says("paid"), nothing, "has been paid"),
        (
            says("partially_refunded"),
            nothing,
            "part of the money was given back",
        ),
        (
            says("refunded"),
            nothing,
            "The money for this order was given back",
        ),
        (says("voided"), nothing, "called off"),
        (
            Box::new(|order| {
                order.cancelled = Some(Cancellation {
                    at: 1,
                    reason: None,
                });
            }),
            nothing,
            "This order was cancelled",
        ),
    ];
    for (changed, heading, reported) in changes {
        change(&service, changed).await;
        let page = shown(&service, "/pay/7").await;
        assert!(
            page.contains(heading) && page.contains(reported),
            "{reported}: {page}"
        );
    }
    let page = shown(&service, "/pay/7?amount=403.00&currency=USD").await;
    let warning = "asks for 403.00 USD; nothing is due for this order. Do not pay it.";
    assert!(page.contains(warning), "{page}");
    service.stop().await;
}

/// An order of 100 dollars of which the storefront says how much is paid and how much is left.
async fn partly_paid(service: &Service, second: u32, status: &str, outstanding: &str) {
    let fields = json!({
        "total_price": "100.00", "total_outstanding": outstanding,
        "note_attributes": [{"name": "pact_id", "value": "p1"}],
    });
    let body = with(body(41, second, status), &fields);
    support::order::deliver(service, &order_delivery("orders/updated", &body)).await;
}

async fn pays(service: &Service, id: &str, cents: i64, currency: &str) {
    let mut paid = intent(id, "succeeded", cents, Some("p1"));
    paid["currency"] = json!(currency);
    let paid = event(service, "payment_intent.succeeded", 1, &paid);
    support::order::deliver(service, &paid).await;
}

#[tokio::test]
async fn the_page_asks_for_no_more_than_what_no_payment_has_brought() {
    let service = service().start().await;
    let due = |amount: &str| format!("<dd class=\"amount\">{amount} USD</dd>");
    let is_due = async |amount: &str, when: &str| {
        let page = shown(&service, "/pay/41").await;
        assert!(page.contains(&due(amount)), "{when}: {page}");
    };
    partly_paid(&service, 1, "pending", "100.00").await;
    is_due("100.00", "nothing is paid").await;
    pays(&service, "pi_1", 4000, "usd").await;
    is_due("60.00", "the storefront does not know of the payment").await;
    partly_paid(&service, 2, "partially_paid", "60.00").await;
    is_due("60.00", "it knows of it").await;
    pays(&service, "pi_2", 3000, "usd").await;
    is_due("30.00", "it knows of the first alone").await;
    partly_paid(&service, 3, "partially_paid", "20.00").await;
    is_due("20.00", "it knows of another that is not ours").await;
    let link = "/pay/41?amount=60.00&currency=USD";
    let page = shown(&service, link).await;
    assert!(page.contains("Pay no more than 20.00 USD."), "{page}");
    pays(&service, "pi_3", 100, "eur").await;
    let page = shown(&service, "/pay/41").await;
    let ask = "<h2>Ask the shop before you pay</h2>";
    assert!(page.contains(ask), "one is in another currency: {page}");
    service.stop().await;
}
