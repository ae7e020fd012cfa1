//! `waybill connect` says what to paste and to set, and waits for the first delivery.

use std::sync::Arc;

use domain::signature::sign_storefront;
use serde_json::Value;

use crate::support::backend::Backend;
use crate::support::delivery::{Delivery, SHOP, order};
use crate::support::process::{Lines, command, output, settings};
use crate::support::{STOREFRONT_SECRET, Service, service};

/// The settings of the service on this backend, as its operator has them.
fn operators(service: &Service) -> Vec<(String, String)> {
    let port = service.url.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut settings = settings(&service.backend, port);
    settings.push(("STOREFRONT_SHOPS".into(), SHOP.into()));
    settings
}

/// A delivery of Shopify.
fn shopify() -> Delivery {
    let body = br#"{"id":1,"email":"canary-person@example.com"}"#.to_vec();
    let hmac = sign_storefront(STOREFRONT_SECRET, &body);
    Delivery {
        path: "/api/webhooks/storefront",
        headers: vec![
            ("X-Shopify-Topic", b"orders/create".to_vec()),
            ("X-Shopify-Hmac-Sha256", hmac.into()),
            ("X-Shopify-Shop-Domain", SHOP.into()),
        ],
        body,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_says_why_a_delivery_is_refused_and_then_which_one_has_come() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend).await;
    let mut connecting = Lines::start(&["connect", "shopify"], &operators(&service));
    let url = connecting.until("URL to paste").await;
    let expected = format!("{}/api/webhooks/storefront", service.url);
    assert!(url.ends_with(&expected), "{url}");
    connecting.until("orders/fulfilled").await;
    let provider = connecting.until("STOREFRONT_PROVIDER").await;
    assert_eq!(provider, "  NOT SET  STOREFRONT_PROVIDER=shopify");
    connecting.until("STOREFRONT_PROVIDER is generic").await;
    connecting.says("Waiting up to 600 s").await;

    assert_eq!(service.answer(&shopify()).await.0, 401);
    let refused = connecting.until("  refused with 401").await;
    assert!(
        refused.contains(&format!("orders/create of {SHOP}")),
        "{refused}"
    );
    assert!(
        refused.contains("signature missing, but x-shopify-hmac-sha256 came"),
        "{refused}"
    );
    assert!(
        refused.contains("set STOREFRONT_PROVIDER=shopify"),
        "{refused}"
    );

    assert_eq!(service.answer(&order("orders/paid", 1)).await.0, 200);
    let accepted = connecting.until("accepted").await;
    assert!(
        accepted.contains(&format!("orders/paid of {SHOP}")),
        "{accepted}"
    );
    let (code, rest, _) = connecting.end().await;
    assert_eq!(code, Some(0));
    assert!(rest[0].contains("waybill jobs show "), "{rest:?}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_whether_nothing_came_or_all_was_refused() {
    let backend = Arc::new(Backend::create().await);
    let service = service().without_workers().start_on(backend).await;
    let own = operators(&service);
    let (code, _, err) = Lines::start(&["connect", "generic", "--timeout", "1s"], &own)
        .end()
        .await;
    assert_eq!(code, Some(3), "{err:?}");
    assert!(
        err.iter()
            .any(|line| line.starts_with("Nothing came within 1 s")),
        "{err:?}"
    );

    let mut refused = Lines::start(&["connect", "generic", "--timeout", "12s", "--json"], &own);
    refused.says("Waiting").await;
    assert_eq!(service.answer(&shopify()).await.0, 401);
    let (code, out, err) = refused.end().await;
    assert_eq!(code, Some(4), "{out:?} {err:?}");
    let guide: Value = serde_json::from_str(&out[0]).unwrap();
    assert_eq!(
        (&guide["provider"], &guide["source"]),
        (&"generic".into(), &"storefront".into())
    );
    let line: Value = serde_json::from_str(&out[1]).unwrap();
    assert_eq!(line["refused"]["advice"], "STOREFRONT_PROVIDER=shopify");
    assert!(!out.concat().contains("canary"), "{out:?}");

    // A delivery of the other provider is not the one that is waited for.
    let mut other = Lines::start(&["connect", "stripe"], &own);
    other.says("Waiting").await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    let posted_to_the_wrong_path = Delivery {
        path: "/api/webhooks/payment",
        ..shopify()
    };
    assert_eq!(service.answer(&posted_to_the_wrong_path).await.0, 401);
    let line = other.until("  refused").await;
    assert!(
        line.contains("the storefront posts to /api/webhooks/storefront"),
        "{line}"
    );
    other.interrupt();
    let (code, out, err) = other.end().await;
    assert_eq!(
        (code, out.len(), err.len()),
        (Some(130), 0, 0),
        "quietly: {out:?} {err:?}"
    );
    service.stop().await;
}

#[test]
fn without_waiting_it_needs_no_service_and_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut connect = command(
        "waybill",
        &[
            ("LISTEN_ADDR", "127.0.0.1:9"),
            ("PAYMENT_WEBHOOK_SECRET", "whsec_canary-secret"),
            ("STOREFRONT_WEBHOOK_SECRET", "another-canary-secret"),
        ],
    );
    connect.current_dir(folder.path());
    connect.args(["connect", "stripe", "--no-wait", "--json"]);
    let said = output(connect);
    assert!(said.status.success(), "{said:?}");
    let guide: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(guide["url"], "http://127.0.0.1:9/api/webhooks/payment");
    let topics = guide["topics"].as_array().unwrap();
    assert!(topics.contains(&"charge.refunded".into()), "{guide}");
    let secret = guide["settings"].as_array().unwrap().iter();
    let secret = secret
        .filter(|it| it["name"] == "PAYMENT_WEBHOOK_SECRET")
        .collect::<Vec<_>>();
    assert_eq!(secret[0]["is_set"], true, "{guide}");
    assert!(!guide.to_string().contains("canary"), "{guide}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let unknown = output({
        let mut connect = command("waybill", &[]);
        connect.args(["connect", "shopware", "--no-wait"]);
        connect
    });
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        said.contains("woocommerce") && said.contains("stripe"),
        "{said}"
    );
    let wrong = output({
        let mut connect = command("waybill", &[]);
        connect.args(["connect", "shopify", "--payment", "--no-wait"]);
        connect
    });
    assert_eq!(wrong.status.code(), Some(2));
}
