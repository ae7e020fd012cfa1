//! What an API lists gives the same order as the webhook of the same state. The answers are from the providers' own packages
//! and documents.

use std::time::Duration;

use domain::connection::STOREFRONT_PATH;
use domain::signature::sign_storefront;
use platform::clock::Clock;
use sandbox::{Delivery as Listed, STOREFRONT_TOKEN, WOOCOMMERCE_TOKEN};
use serde_json::Value;

use super::{RUN, World, sandbox_at};
use crate::both::connections::{self, add, storefront, with_connections};
use crate::support::delivery::{Delivery, shopify};
use crate::support::order::{deliver, shown};
use crate::support::{START, STOREFRONT_SECRET};

const SHOP: &str = "real.example";
const SHOPIFY: &str = include_str!("../../../fixtures/api/shopify.orders.json");
const WOOCOMMERCE: &str = include_str!("../../../fixtures/api/woocommerce.orders.json");

async fn world(provider: &str) -> World {
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let service = with_connections().clock(&clock);
    let service = service
        .setting("RECONCILE_MINUTES", "15")
        .setting("PUBLIC_URL", "https://waybill.example");
    let service = service.start().await;
    let token = if provider == "shopify" {
        STOREFRONT_TOKEN
    } else {
        WOOCOMMERCE_TOKEN
    };
    let mut wanted = storefront("real", SHOP, STOREFRONT_SECRET);
    wanted.provider = provider.to_owned();
    wanted.api = Some(connections::api(sandbox.storefront_url(), token));
    add(&service, [wanted]).await;
    World::of(service, sandbox).await
}

/// The webhook of an order.
fn woocommerce(body: String) -> Delivery {
    let signature = sign_storefront(STOREFRONT_SECRET, body.as_bytes());
    let headers = [
        ("Content-Type", "application/json"),
        ("X-WC-Webhook-Source", "https://real.example/"),
        ("X-WC-Webhook-Topic", "order.updated"),
        ("X-WC-Webhook-Signature", &signature),
        ("X-WC-Webhook-Delivery-ID", "a-webhook"),
    ];
    Delivery {
        path: STOREFRONT_PATH,
        headers: headers
            .map(|(name, value)| (name, value.as_bytes().to_vec()))
            .to_vec(),
        body: body.into_bytes(),
    }
}

/// The orders of a shop as the service shows them, however they came.
async fn orders(world: &World, ids: &[i64]) -> Vec<Value> {
    let key = world.service.api_key().await;
    let mut orders = Vec::new();
    for id in ids {
        let mut order = shown(&world.service, &key, SHOP, *id).await;
        // Each service has codes of its own.
        order["tracking"]["url"] = Value::Null;
        orders.push(order);
    }
    orders
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_api_lists_gives_the_same_order_as_its_webhook() {
    let of_shopify: Value = serde_json::from_str(SHOPIFY).unwrap();
    let of_woocommerce: Value = serde_json::from_str(WOOCOMMERCE).unwrap();
    for (provider, listed) in [
        ("shopify", &of_shopify["orders"]),
        ("woocommerce", &of_woocommerce),
    ] {
        let listed = listed.as_array().unwrap();
        let ids: Vec<i64> = listed.iter().map(|it| it["id"].as_i64().unwrap()).collect();
        let by_webhook = world(provider).await;
        by_webhook.pass(RUN);
        for order in listed {
            let body = order.to_string();
            let delivery = if provider == "shopify" {
                shopify("orders/updated", SHOP, "a-webhook", body)
            } else {
                woocommerce(body)
            };
            deliver(&by_webhook.service, &delivery).await;
        }
        let mut by_api = world(provider).await;
        for order in listed {
            let listed = Listed::storefront("orders/updated", "a-webhook", SHOP, order.to_string());
            by_api.sandbox.storefront().remember(&listed);
        }
        let since = by_api.now().minus(Duration::from_hours(24 * 366 * 30));
        let by = connections::by(&by_api.service);
        let asked = operators::reconciliation::ask(by_api.service.db(), by, None, Some(since));
        asked.await.unwrap();
        by_api.run_later().await;
        assert_eq!(by_api.found().await.len(), ids.len(), "{provider}");
        assert_eq!(
            orders(&by_api, &ids).await,
            orders(&by_webhook, &ids).await,
            "{provider}"
        );
        by_webhook.stop().await;
        by_api.stop().await;
    }
}
