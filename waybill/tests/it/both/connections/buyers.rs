//! Buyers hear from their own shop: mails have the sender and the texts of its connection, and so have their pages.

use serde_json::json;

use super::{A, B, SECRET_A, SECRET_B, add, by, storefront, with_connections};
use crate::support::eventually;
use crate::support::order::{body, deliver, naming_agreement, order_delivery, with};
use crate::support::payment::{declined, event};
use crate::support::smtp::SmtpServer;
use operators::connections::{self, Changes, Refused, Wanted};

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
        changes: Changes {
            sender: Some("Mugs and more <orders@b.example>".to_owned()),
            ..Changes::default()
        },
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
    // What is said of the shop itself counts more, and a process knows it without a restart.
    let change = async |changes: Changes| {
        connections::change(service.db(), by(&service), "shop-b", &changes).await
    };
    let branding = Changes {
        display_name: Some("Becher & mehr".to_owned()),
        contact: Some("https://b.example/hilfe".to_owned()),
        language: Some("de".to_owned()),
        logo: Some("https://cdn.b.example/logo.svg".to_owned()),
        ..Changes::default()
    };
    change(branding).await.unwrap();
    eventually("the page is that of the shop", async || {
        page("/orders/2/track?shop=b.example")
            .await
            .contains("<bdi>Becher &#38; mehr</bdi>")
    })
    .await;
    let asked = service.get("/orders/2/track?shop=b.example");
    let answer = asked.send().await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(
        (header("content-language"), header("vary")),
        ("de".to_owned(), "accept-language".to_owned())
    );
    assert!(header("content-security-policy").contains("; img-src https://cdn.b.example; "));
    let of_b = answer.text().await.unwrap();
    for part in [
        "<html lang=\"de\">",
        "<h1>Bestellung <bdi>#2</bdi></h1>",
        "src=\"https://cdn.b.example/logo.svg\"",
        "href=\"https://b.example/hilfe\">Den Shop fragen</a>",
        "Noch nicht bezahlt",
    ] {
        assert!(of_b.contains(part), "{part}: {of_b}");
    }
    // A buyer whose own language there are texts in reads that one.
    let french = service.get("/orders/2/track?shop=b.example");
    let french = french.header("accept-language", "fr-CH, fr;q=0.9, en;q=0.8");
    let french = french.send().await.unwrap().text().await.unwrap();
    assert!(
        french.contains("<h1>Commande <bdi>#2</bdi></h1>"),
        "{french}"
    );
    let missing = service
        .get("/orders/404/track")
        .header("accept-language", "es");
    let missing = missing.send().await.unwrap();
    assert_eq!(missing.status(), 404);
    assert_eq!(missing.headers()["content-language"], "es");
    assert!(
        missing
            .text()
            .await
            .unwrap()
            .contains("<h1>Pedido no encontrado</h1>")
    );
    // What cannot be shown is refused, and an empty text takes a value away.
    for wrong in [
        Changes {
            logo: Some("http://b.example/logo.svg".to_owned()),
            ..Changes::default()
        },
        Changes {
            contact: Some("nobody".to_owned()),
            ..Changes::default()
        },
        Changes {
            language: Some("it".to_owned()),
            ..Changes::default()
        },
        Changes {
            sender: Some("nobody".to_owned()),
            ..Changes::default()
        },
    ] {
        assert!(change(wrong.clone()).await.is_err(), "{wrong:?}");
    }
    let empty = || Some(String::new());
    let nothing = Changes {
        display_name: empty(),
        contact: empty(),
        language: empty(),
        logo: empty(),
        ..Changes::default()
    };
    let plain = change(nothing).await.unwrap();
    assert!(plain.branding.is_empty() && plain.sender.is_some());
    let rate = Changes {
        rate: Some(1),
        ..Changes::default()
    };
    let unknown = connections::change(service.db(), by(&service), "nobody", &rate);
    assert!(matches!(unknown.await, Err(Refused::Unknown)));
    // Who guesses an id does not learn whose order it is.
    let unnamed = page("/orders/2/track").await;
    assert!(
        !unnamed.contains("b.example") && !unnamed.contains("Mugs"),
        "{unnamed}"
    );
    service.stop().await;
}
