//! The payment provider's books beside ours, as a merchant compares them for a day.

use sandbox::PAYMENT_KEY;
use serde_json::{Value, json};

use crate::both::orders::providers::{capture, sandbox, with_payment};
use crate::support::operator::{ran, refused, waybill};
use crate::support::order::{captured, deliver};
use crate::support::process::run;
use crate::support::service;

#[tokio::test(flavor = "multi_thread")]
async fn each_difference_to_the_books_of_the_provider_is_listed_by_payment() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    // The first is booked, the second never came, and of the third what went back never came.
    for nth in 1..=3 {
        capture(&sandbox, nth, &format!("pact-{nth}"));
    }
    for nth in [1, 3] {
        deliver(
            &service,
            &captured(service.clock().now(), nth, &format!("pact-{nth}")),
        )
        .await;
    }
    let today = service.clock().now().to_string();
    let today = today.split('T').next().unwrap().to_owned();
    let books = ["reconcile", "--utc", "--books", &today, "--json"];
    let compared = async || {
        let output = ran(&service, &books).await;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), said)
    };
    let second = json!({
        "payment": "pi_2", "currency": "USD",
        "captured": {"provider": "30.00", "booked": "0.00"},
        "refunded": {"provider": "0.00", "booked": "0.00"},
    });
    let (code, said) = compared().await;
    assert_eq!(
        (code, &said["payments"], &said["differences"]),
        (Some(1), &json!(3), &json!([second]))
    );
    let refund = reqwest::Client::new()
        .post(format!("{}/v1/refunds", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .header("Idempotency-Key", "by-hand")
        .body("payment_intent=pi_3&amount=1200")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .send()
        .await
        .unwrap();
    assert_eq!(refund.status(), 200);
    let third = json!({
        "payment": "pi_3", "currency": "USD",
        "captured": {"provider": "30.00", "booked": "30.00"},
        "refunded": {"provider": "12.00", "booked": "0.00"},
    });
    let (_, said) = compared().await;
    assert_eq!(said["differences"], json!([second, third]));
    // What is booked, and what nobody there knows.
    let unknown = captured(service.clock().now(), 900, "pact-900");
    deliver(&service, &unknown).await;
    let (_, said) = compared().await;
    let ninth = json!({
        "payment": "pi_900", "currency": "USD",
        "captured": {"provider": "0.00", "booked": "30.00"},
        "refunded": {"provider": "0.00", "booked": "0.00"},
    });
    assert_eq!(
        (&said["payments"], &said["differences"]),
        (&json!(4), &json!([second, third, ninth]))
    );
    // On a day on which nothing moved the books agree.
    let output = ran(&service, &["reconcile", "--utc", "--books", "2020-01-31"]).await;
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "0 payments moved, and the books agree.\n");
    let (code, said) = refused(
        &service,
        &["reconcile", "--books", &today, "--connection", "nobody"],
    )
    .await;
    assert!(code == 1 && said.contains("nobody"), "{said}");
    // More than a page.
    for nth in 4..=130 {
        capture(&sandbox, nth, &format!("pact-{nth}"));
    }
    let (_, said) = compared().await;
    assert_eq!(
        (
            &said["payments"],
            said["differences"].as_array().unwrap().len()
        ),
        (&json!(131), 130)
    );
    let text = run(waybill(
        &service,
        &["reconcile", "--utc", "--books", &today],
    ))
    .await;
    let error = String::from_utf8(text.stderr).unwrap();
    assert!(error.contains("130 of 131 payments differ"), "{error}");
    service.stop().await;
    sandbox.stop().await;
}
