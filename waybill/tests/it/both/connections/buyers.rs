//! Buyers hear from their own shop: mails have the sender and the texts of its connection, and so have their pages.

use serde_json::json;

use super::{A, B, SECRET_A, SECRET_B, add, storefront, with_connections};
use crate::support::order::{body, deliver, naming_agreement, order_delivery, with};
use crate::support::payment::{declined, event};
use crate::support::smtp::SmtpServer;
use operators::connections::Wanted;

#[tokio::test(flavor = "multi_thread")]
async fn mails_and_pages_are_those_of_the_shop_s_connection() {
    let server = SmtpServer::start().await;
    let templates = tempfile::tempdir().unwrap();
    let of_b = templates.path().join("shop-b");
    std::fs::create_dir(&of_b).unwrap();
    let text = "Subject: From B\n\nOf {{order}}: {{reason}}\n";
    std::fs::write(of_b.join("payment_failed.txt"), text).unwrap();
    let service = with_connections()
        .manual_clock()
        .setting("SMTP_URL", &server.url())
        .setting("MAIL_FROM", "Shop <orders@shop.example>")
        .setting(
            "NOTIFICATION_TEMPLATES",
            &templates.path().display().to_string(),
        )
        .start()
        .await;
    let shop_b = Wanted {
        sender: Some("Mugs and more <orders@b.example>".to_owned()),
        ..storefront("shop-b", B, SECRET_B)
    };
    add(&service, [storefront("shop-a", A, SECRET_A), shop_b]).await;
    for (id, shop, secret) in [
        (1, A, Some(SECRET_A)),
        (2, B, Some(SECRET_B)),
        (3, "c.example", None),
    ] {
        let order = with(body(id, 0, "pending"), &naming_agreement(&format!("p{id}")));
        let delivery = order_delivery("orders/create", &order).of_shop(shop);
        let delivery = match secret {
            Some(secret) => delivery.signed_with(secret),
            None => delivery,
        };
        deliver(&service, &delivery).await;
        let mut failed = declined(&format!("pi_{id}"), 3000, 1, "insufficient_funds");
        failed["receipt_email"] = json!(format!("buyer-{id}@example.com"));
        failed["metadata"] = json!({"pact_id": format!("p{id}")});
        let failed = event(&service, "payment_intent.payment_failed", 1, &failed);
        deliver(&service, &failed).await;
    }
    let mut mails = server.received();
    mails.sort_by(|one, other| one.to.cmp(&other.to));
    let said = mails.iter().map(|it| {
        let header = |name| it.header(name).unwrap();
        format!("{}: {}: {}", it.from, header("From"), header("Subject"))
    });
    let of_settings = "orders@shop.example: Shop <orders@shop.example>: Your payment of 30.00 USD did not go through";
    let expected = [
        of_settings,
        "orders@b.example: \"Mugs and more\" <orders@b.example>: From B",
        of_settings,
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    let text = mails[1].body();
    assert!(
        text.contains("Of #2: There were not enough funds"),
        "{text}"
    );

    let page = async |path: &str| {
        service
            .get(path)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    };
    let of_b = page("/orders/2/track?shop=b.example").await;
    assert!(of_b.contains("<bdi>Mugs and more</bdi>"), "{of_b}");
    assert!(of_b.contains("<a href=\"mailto:orders@b.example\">orders@b.example</a>"));
    let of_a = page("/orders/1/track?shop=a.example").await;
    assert!(of_a.contains("<bdi>a.example</bdi>") && !of_a.contains("mailto:"));
    // Who guesses an id does not learn whose order it is.
    let unnamed = page("/orders/2/track").await;
    assert!(
        !unnamed.contains("b.example") && !unnamed.contains("Mugs"),
        "{unnamed}"
    );
    service.stop().await;
}
