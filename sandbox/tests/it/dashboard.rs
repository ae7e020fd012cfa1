//! The dashboard: payments with their state, refunds and cancellations.

use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{MUG, client, intent, open, payment_get, press, sandbox, start};

#[tokio::test]
async fn a_payment_is_refunded_in_part_and_then_in_full() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().add_intent(intent("pi_<1>", 1999));
    let url = format!("{}/dashboard", sandbox.payment_url());
    let page = || async {
        client()
            .get(&url)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    };
    let first = page().await;
    assert!(
        first.contains("19.99 USD") && first.contains("pi_&#60;1&#62;"),
        "{first}"
    );
    assert!(
        first.contains("pact_id: pact_1") && first.contains(">paid<"),
        "{first}"
    );
    for (amount, wrong) in [
        ("20", "greater than"),
        ("0", "no amount"),
        ("5.001", "no amount"),
        ("<b>", "&#60;b&#62;"),
    ] {
        let refused = press(
            &format!("{url}/refund"),
            &format!("intent=pi_<1>&amount={amount}"),
        )
        .await;
        assert_eq!(refused.status(), 400);
        let reported = refused.text().await.unwrap();
        assert!(
            reported.contains("Nothing was done") && reported.contains(wrong),
            "{reported}"
        );
    }
    for (amount, state) in [("5.50", "paid, 5.50 USD refunded"), ("", ">refunded<")] {
        let done = press(
            &format!("{url}/refund"),
            &format!("intent=pi_<1>&amount={amount}"),
        )
        .await;
        assert_eq!(done.status(), 303);
        assert_eq!(done.headers()["Location"], "/payment/dashboard");
        sandbox.webhooks_done().await;
        let now = page().await;
        assert!(now.contains(state), "{now}");
    }
    assert_eq!(sandbox.payment().refund_amounts("pi_<1>"), [550, 1449]);
    let taken = receiver.taken();
    let refunded: Vec<_> = taken
        .iter()
        .map(|event| &event.body["data"]["object"]["amount_refunded"])
        .collect();
    assert_eq!(refunded, [&json!(550), &json!(1999)]);
    assert!(!page().await.contains("<form"));
}

#[tokio::test]
async fn an_open_payment_is_canceled_and_its_session_expires() {
    let sandbox = sandbox().await;
    let session = open(&sandbox, MUG).await;
    let id = session["payment_intent"].as_str().unwrap();
    let url = format!("{}/dashboard", sandbox.payment_url());
    let page = client().get(&url).send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(page.contains("× Enamel mug"), "{page}");
    let cancel = async || press(&format!("{url}/cancel"), &format!("intent={id}")).await;
    assert_eq!(cancel().await.status().as_u16(), 303);
    let path = format!("checkout/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!(payment_get(&sandbox, &path).await.1["status"], "expired");
    assert_eq!(cancel().await.status(), 400);
    let unknown = press(&format!("{url}/cancel"), "intent=pi_none").await;
    assert!(
        unknown
            .text()
            .await
            .unwrap()
            .contains("No such payment_intent")
    );
}
