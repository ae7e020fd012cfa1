//! Which signing secrets of the providers are set, and with which a delivery was verified last.

use domain::api_key::Role;
use domain::signature::sign_storefront;
use serde_json::Value;
use store::measures::MINUTE;

use crate::support::console::role;
use crate::support::delivery::order;
use crate::support::operator::{parsed, waybill};
use crate::support::process::run;
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, eventually, service};

const NEW: &str = "a new secret of the storefront";

#[tokio::test]
async fn a_secret_says_when_it_verified_last_and_which_secret_it_is_stays_unsaid() {
    let both = format!("{NEW},{STOREFRONT_SECRET}");
    let service = service().without_workers().manual_clock();
    let mut service = service
        .setting("STOREFRONT_WEBHOOK_SECRET", &both)
        .start()
        .await;
    let measures = service.parts.measures.clone();
    measures.write_regularly(service.db(), service.clock());
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    let rows = async || -> Vec<Value> {
        let text = console.shown(&session, "/secrets?format=json").await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["items"].as_array().unwrap().clone()
    };
    let places: Vec<_> = rows()
        .await
        .iter()
        .map(|row| {
            assert!(row["verified_at"].is_null(), "{row}");
            (row["source"].clone(), row["place"].clone())
        })
        .collect();
    let expected = [("storefront", 0), ("storefront", 1), ("payment", 0)];
    assert_eq!(
        places,
        expected.map(|(provider, place)| (provider.into(), place.into()))
    );

    // The provider still signs with the former one.
    let begun = service.clock().now();
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    service.clock().advance(MINUTE);
    eventually("it is written", async || {
        rows().await[1]["verified_at"] == begun.to_string()
    })
    .await;
    assert!(rows().await[0]["verified_at"].is_null());

    // And then with the new one.
    let changed = service.clock().now();
    let mut delivery = order("orders/create", 2);
    let signature = sign_storefront(NEW, &delivery.body);
    delivery = delivery.header("X-Storefront-Hmac-Sha256", signature);
    assert_eq!(service.answer(&delivery).await.0, 200);
    // What is forged verifies with none.
    let forged = order("orders/create", 3);
    let forged = forged.header(
        "X-Storefront-Hmac-Sha256",
        sign_storefront("guessed secret", b""),
    );
    assert_eq!(service.answer(&forged).await.0, 401);
    service.clock().advance(MINUTE);
    eventually("it is written", async || {
        rows().await[0]["verified_at"] == changed.to_string()
    })
    .await;
    let rows = rows().await;
    assert_eq!(rows[1]["verified_at"], begun.to_string());
    assert!(rows[2]["verified_at"].is_null());
    let fingerprints = rows.iter().map(|row| row["fingerprint"].as_str().unwrap());
    let fingerprints: Vec<&str> = fingerprints.collect();
    assert!(fingerprints.iter().all(|it| it.len() == 8), "{rows:?}");
    assert_ne!(fingerprints[0], fingerprints[1]);

    // The command has its secrets from its own settings: only the former one of these.
    let listed = async |arguments: &[&str]| {
        let mut command = waybill(&service, arguments);
        command.env("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
        command.env("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
        run(command).await
    };
    let table = listed(&["secrets", "list"]).await;
    let listed = parsed(&listed(&["secrets", "list", "--json"]).await)["items"].take();
    assert_eq!(listed[0]["source"], "storefront");
    assert_eq!(listed[0]["fingerprint"], fingerprints[1]);
    assert_eq!(listed[0]["verified_at"], begun.to_string());
    let table = String::from_utf8(table.stdout).unwrap();
    let page = console.shown(&session, "/secrets").await;
    for text in [&table, &page] {
        assert!(text.contains(fingerprints[1]), "{text}");
        assert!(!text.contains(NEW), "{text}");
        assert!(!text.contains(STOREFRONT_SECRET), "{text}");
    }
    service.stop().await;
}
