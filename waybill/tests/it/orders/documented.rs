//! The sample bodies of the storefronts' documentation come to what a merchant would sign, in whichever sequence and
//! however often they come.

use domain::job::State;
use domain::signature::sign_storefront;
use serde_json::{Value, json};

use crate::support::delivery::{Delivery, shopify};
use crate::support::order::{post_all, shown, with};
use crate::support::samples::{check, of_domain, rows, sample};
use crate::support::{STOREFRONT_SECRET, Service, service};

/// One body and the shop that sends it.
struct Sent {
    shop: String,
    body: Value,
}

fn of_shopify(nth: &str, topic: &str, sent: &Sent) -> Delivery {
    shopify(topic, &sent.shop, nth, sent.body.to_string())
}

/// The same as WooCommerce posts it.
fn woocommerce(nth: &str, topic: &str, sent: &Sent) -> Delivery {
    let body = sent.body.to_string().into_bytes();
    let (resource, event) = topic.split_once('.').unwrap();
    Delivery {
        path: "/api/webhooks/storefront",
        headers: vec![
            ("Content-Type", b"application/json".to_vec()),
            (
                "X-WC-Webhook-Signature",
                sign_storefront(STOREFRONT_SECRET, &body).into(),
            ),
            ("X-WC-Webhook-Topic", topic.into()),
            ("X-WC-Webhook-Resource", resource.into()),
            ("X-WC-Webhook-Event", event.into()),
            (
                "X-WC-Webhook-Source",
                format!("https://{}/", sent.shop).into(),
            ),
            ("X-WC-Webhook-ID", b"12".to_vec()),
            ("X-WC-Webhook-Delivery-ID", nth.into()),
        ],
        body,
    }
}

/// Amounts and states that matter to a merchant, as the API shows them.
fn end(order: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let list = |key: &str, of: fn(&Value) -> String| {
        let items: Vec<String> = order[key].as_array().unwrap().iter().map(of).collect();
        if items.is_empty() {
            "-".to_owned()
        } else {
            items.join(" ")
        }
    };
    [
        text(&order["fulfillment"]["state"]),
        text(&order["financial_status"]),
        format!(
            "{} {}",
            text(&order["total_price"]),
            text(&order["currency"])
        ),
        text(&order["owed"]),
        list("line_items", |line| line["to_ship"].to_string()),
        list("refunds", |refund| {
            format!(
                "{} {}",
                refund["state"].as_str().unwrap(),
                refund["amount"].as_str().unwrap_or("-")
            )
        }),
        list("restocked", |line| line["quantity"].to_string()),
        text(&order["held"]),
        list("unread", |field| field.as_str().unwrap().to_owned()),
    ]
    .join(" | ")
}

/// Sends each body twice under ids of their own, in this sequence or backwards, and once more under an id that was used.
async fn send(
    service: &Service,
    bodies: &[Sent],
    is_backwards: bool,
    topics: [&str; 2],
    delivery: impl Fn(&str, &str, &Sent) -> Delivery,
) {
    let mut each: Vec<(usize, &Sent)> = bodies.iter().enumerate().collect();
    let mut topics = topics;
    if is_backwards {
        each.reverse();
        topics.reverse();
    }
    for (time, topic) in topics.iter().enumerate() {
        for (nth, sent) in &each {
            let delivery = delivery(&format!("{nth}-{time}"), topic, sent);
            post_all(service, std::slice::from_ref(&delivery)).await;
            assert_eq!(
                service.post(&delivery).await.status(),
                200,
                "it came before"
            );
        }
    }
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
}

async fn of(provider: &str) -> Service {
    service()
        .setting("STOREFRONT_PROVIDER", provider)
        .start()
        .await
}

fn body_of(name: &str) -> Value {
    match name.strip_prefix("domain/") {
        Some(name) => of_domain(name),
        None => sample(name),
    }
}

/// Each sample of a table in a shop of its own.
fn alone(table: &str) -> Vec<Sent> {
    let rows = rows(table).into_iter().enumerate();
    rows.map(|(nth, row)| Sent {
        shop: format!("shop-{nth}.example"),
        body: body_of(row[0]),
    })
    .collect()
}

async fn ends(service: &Service, table: &str, sent: &[Sent]) -> Vec<String> {
    let key = service.api_key().await;
    let mut ends = Vec::new();
    for (row, sent) in rows(table).iter().zip(sent) {
        let order = shown(service, &key, &sent.shop, sent.body["id"].as_i64().unwrap()).await;
        ends.push(format!("{} | {}", row[0], end(&order)));
    }
    ends
}

/// The sample | the order's fulfilment | its financial status | its total | what is owed | units to ship by line | refunds |
/// units back in stock by line | why somebody must look at it | what cannot be read.
const SHOPIFY: &str = "
storefront/2026-07/order.authorized | initiated | authorized | 598.94 USD | 0.00 | 0 0 0 | - | - | - | -
storefront/2026-07/order.pending | initiated | pending | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2026-07/order.partially_paid | initiated | partially_paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2026-07/order.paid | requested | paid | 238.47 EUR | 0.00 | 3 | - | - | - | -
storefront/2026-07/order.paid_of_several_lines | requested | paid | 270.37 USD | 0.00 | 1 1 2 | - | - | - | -
storefront/2026-07/order.paid_and_outstanding | initiated | paid | 181.09 USD | 0.00 | 0 | - | - | paid_and_outstanding | -
storefront/2026-07/order.fulfilled | fulfilled | paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2026-07/order.fulfilled_without_shipment | fulfilled | paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2026-07/order.partially_refunded | requested | partially_refunded | 598.94 USD | 0.00 | 0 1 0 | - | - | - | -
storefront/2026-07/order.cancelled_and_partially_refunded | cancelled | partially_refunded | 598.94 USD | 199.65 | 0 0 0 | recorded 199.65 | 1 1 1 | - | -
storefront/2026-07/order.cancelled_and_refunded | cancelled | refunded | 598.94 USD | 0.00 | 0 0 0 | already_refunded 10.00 | - | - | -
storefront/2026-07/order.cancelled_and_refunded_twice | cancelled | refunded | 598.94 USD | 0.00 | 0 0 0 | already_refunded 110.00 | 1 1 | - | -
storefront/2024-04/order.paid | requested | paid | 238.47 EUR | 0.00 | 3 | - | - | - | -
storefront/2024-04/order.partially_paid | initiated | partially_paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2024-04/order.fulfilled | fulfilled | paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2024-04/order.partially_refunded | requested | partially_refunded | 598.94 USD | 0.00 | 0 1 0 | - | - | - | -
storefront/2024-04/order.refunded | cancelled | refunded | 598.94 USD | 0.00 | 0 0 0 | - | - | - | -
storefront/2022-04/order.paid | requested | paid | 238.47 EUR | 0.00 | 3 | - | - | - | -
storefront/2022-04/order.partially_paid | initiated | partially_paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2022-04/order.fulfilled | fulfilled | paid | 199.00 USD | 0.00 | 0 | - | - | - | -
storefront/2022-04/order.partially_refunded | requested | partially_refunded | 598.94 USD | 0.00 | 0 1 0 | - | - | - | -
domain/storefront/orders_any_topic.2023-07 | cancelled | voided | 388.00 USD | 0.00 | 0 0 | - | 1 1 | - | -
domain/storefront/orders_any_topic.2024-04 | cancelled | voided | 388.00 USD | 0.00 | 0 0 | - | 1 1 | - | -
domain/storefront/orders_any_topic.2025-10 | cancelled | voided | 359.97 USD | 0.00 | 0 0 0 | - | 1 1 1 | - | -
domain/storefront/orders_any_topic.2026-07 | cancelled | voided | 404.95 USD | 0.00 | 0 0 0 0 0 | - | 1 1 1 1 1 | - | -
domain/storefront/orders_create_and_paid.draft_order_no_customer_no_address.2023-01 | requested | paid | 2629.95 USD | 0.00 | 1 | - | - | - | -
domain/storefront/orders_cancelled.refunded_with_refund.2023-01 | cancelled | refunded | 1806.38 USD | 0.00 | 0 0 | already_refunded 1806.38 | - | - | -
";

#[tokio::test]
async fn the_documented_orders_of_shopify_end_as_the_table_says() {
    for is_backwards in [false, true] {
        let service = of("shopify").await;
        let sent = alone(SHOPIFY);
        let topics = ["orders/create", "orders/updated"];
        send(&service, &sent, is_backwards, topics, of_shopify).await;
        check(&ends(&service, SHOPIFY, &sent).await, SHOPIFY);
        service.stop().await;
    }
}

#[tokio::test]
async fn the_documented_versions_of_one_order_end_as_the_newest_says() {
    let newest = "storefront/2026-07/order.cancelled_and_partially_refunded";
    let rows = rows(SHOPIFY);
    let of_one: Vec<&str> = rows
        .iter()
        .map(|row| row[0])
        .filter(|name| name.contains("/2026-07/") && sample(name)["id"] == sample(newest)["id"])
        .collect();
    assert_eq!(of_one.len(), 5);
    let shop = "one.example".to_owned();
    let sent = |name: &&str| Sent {
        shop: shop.clone(),
        body: sample(name),
    };
    let sent: Vec<Sent> = of_one.iter().map(sent).collect();
    let expected = rows
        .iter()
        .find(|row| row[0] == newest)
        .unwrap()
        .join(" | ");
    for is_backwards in [false, true] {
        let service = of("shopify").await;
        let topics = ["orders/create", "orders/updated"];
        send(&service, &sent, is_backwards, topics, of_shopify).await;
        check(&ends(&service, newest, &sent).await, &expected);
        service.stop().await;
    }
}

/// Shopify sends refunds and fulfilments under topics of their own too. The order has them in its own next version.
#[tokio::test]
async fn the_documented_refunds_and_fulfilments_of_shopify_are_kept_and_change_no_order() {
    let service = of("shopify").await;
    let order = "domain/storefront/orders_any_topic.2026-07";
    let sent = |name: &str| Sent {
        shop: "shop.example".to_owned(),
        body: body_of(name),
    };
    let topics = ["orders/create", "orders/updated"];
    send(&service, &[sent(order)], false, topics, of_shopify).await;
    for (name, topics) in [
        ("refunds_create", ["refunds/create", "refunds/create"]),
        (
            "fulfillments_create",
            ["fulfillments/create", "fulfillments/update"],
        ),
        ("orders_edited", ["orders/edited", "orders/edited"]),
    ] {
        let sent = sent(&format!("domain/storefront/{name}.2026-07"));
        let named = |nth: &str, topic: &str, sent: &Sent| {
            shopify(
                topic,
                &sent.shop,
                &format!("{topic}-{nth}"),
                sent.body.to_string(),
            )
        };
        send(&service, &[sent], false, topics, named).await;
    }
    let expected: Vec<String> = SHOPIFY
        .lines()
        .filter(|row| row.starts_with(order))
        .map(str::to_owned)
        .collect();
    check(&ends(&service, order, &[sent(order)]).await, &expected[0]);
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    service.stop().await;
}

const WOOCOMMERCE: &str = "
woocommerce/v1/order.pending | initiated | pending | 70.85 USD | 0.00 | 0 0 0 | - | - | - | -
woocommerce/v1/order.processing | requested | paid | 37.95 USD | 0.00 | 2 1 | - | - | - | -
woocommerce/v1/order.created_by_batch | requested | paid | 63.00 USD | 0.00 | 1 1 | - | - | - | -
woocommerce/v1/order.listed | requested | paid | 14.00 USD | 0.00 | 2 | - | - | - | -
woocommerce/v1/order.completed | fulfilled | paid | 37.95 USD | 0.00 | 0 0 | - | - | - | -
woocommerce/v2/order.pending | initiated | pending | 62.25 USD | 0.00 | 0 0 0 | - | - | - | -
woocommerce/v2/order.processing | requested | paid | 29.35 USD | 0.00 | 2 1 | - | - | - | -
woocommerce/v2/order.created_by_batch | requested | paid | 54.40 USD | 0.00 | 1 1 | - | - | - | -
woocommerce/v2/order.completed | fulfilled | paid | 29.35 USD | 0.00 | 0 0 | - | - | - | -
woocommerce/v2/order.completed_and_refunded_in_part | fulfilled | partially_refunded | 39.00 USD | 0.00 | 0 0 | - | - | - | -
woocommerce/v3/order.pending | initiated | pending | 62.25 USD | 0.00 | 0 0 0 | - | - | - | -
woocommerce/v3/order.processing | requested | paid | 29.35 USD | 0.00 | 2 1 | - | - | - | -
woocommerce/v3/order.created_by_batch | requested | paid | 54.40 USD | 0.00 | 1 1 | - | - | - | -
woocommerce/v3/order.completed | fulfilled | paid | 29.35 USD | 0.00 | 0 0 | - | - | - | -
woocommerce/v3/order.completed_and_refunded_in_part | fulfilled | partially_refunded | 39.00 USD | 0.00 | 0 0 | - | - | - | -
";

#[tokio::test]
async fn the_documented_orders_of_woocommerce_end_as_the_table_says() {
    for is_backwards in [false, true] {
        let service = of("woocommerce").await;
        let sent = alone(WOOCOMMERCE);
        let topics = ["order.created", "order.updated"];
        send(&service, &sent, is_backwards, topics, woocommerce).await;
        check(&ends(&service, WOOCOMMERCE, &sent).await, WOOCOMMERCE);
        service.stop().await;
    }
}

/// WooCommerce has no topic for refunds: it sends the order again, which lists them so. The money that went back is below
/// zero there, and later than what the sample of the order was.
fn with_refunds(order: &Value, refunds: &[&Value], status: &str) -> Value {
    let listed = |refund: &&Value| {
        let total = format!("-{}", refund["amount"].as_str().unwrap());
        json!({"id": refund["id"], "reason": refund["reason"], "total": total})
    };
    let listed: Vec<Value> = refunds.iter().map(listed).collect();
    let mut order = with(order.clone(), &json!({"refunds": listed, "status": status}));
    for name in ["date_modified", "date_modified_gmt"] {
        if order.get(name).is_some() {
            order[name] = json!("2018-01-01T00:00:00");
        }
    }
    order
}

/// The order and its refunds | the rest as above.
const REFUNDED: &str = "
v1 one refund | requested | partially_refunded | 37.95 USD | 0.00 | 2 1 | - | - | - | -
v1 two refunds, completed | fulfilled | partially_refunded | 37.95 USD | 0.00 | 0 0 | - | - | - | -
v1 refunded | cancelled | refunded | 37.95 USD | 0.00 | 0 0 | - | - | - | -
v1 cancelled | cancelled | partially_refunded | 37.95 USD | 27.95 | 0 0 | recorded 27.95 | 2 1 | - | -
v2 one refund | requested | partially_refunded | 29.35 USD | 0.00 | 2 1 | - | - | - | -
v2 two refunds, completed | fulfilled | partially_refunded | 29.35 USD | 0.00 | 0 0 | - | - | - | -
v2 refunded | cancelled | refunded | 29.35 USD | 0.00 | 0 0 | - | - | - | -
v2 cancelled | cancelled | partially_refunded | 29.35 USD | 19.35 | 0 0 | recorded 19.35 | 2 1 | - | -
v3 one refund | requested | partially_refunded | 29.35 USD | 0.00 | 2 1 | - | - | - | -
v3 two refunds, completed | fulfilled | partially_refunded | 29.35 USD | 0.00 | 0 0 | - | - | - | -
v3 refunded | cancelled | refunded | 29.35 USD | 0.00 | 0 0 | - | - | - | -
v3 cancelled | cancelled | partially_refunded | 29.35 USD | 19.35 | 0 0 | recorded 19.35 | 2 1 | - | -
";

#[tokio::test]
async fn the_documented_refunds_of_woocommerce_end_as_the_table_says() {
    let mut bodies = Vec::new();
    for version in ["v1", "v2", "v3"] {
        let named = |name: &str| sample(&format!("woocommerce/{version}/{name}"));
        let [order, completed] = ["order.processing", "order.completed"].map(named);
        let [one, other] = ["refund", "refund.of_a_line"].map(named);
        // The first version's own sample has a date of completion while it is still processed.
        let open = with(order.clone(), &json!({"date_completed": null}));
        for (first, then) in [
            (&order, with_refunds(&order, &[&one], "processing")),
            (
                &order,
                with_refunds(&completed, &[&one, &other], "completed"),
            ),
            (&open, with_refunds(&open, &[&one], "refunded")),
            (&open, with_refunds(&open, &[&one], "cancelled")),
        ] {
            bodies.push((first.clone(), then));
        }
    }
    let mut sent = Vec::new();
    for (nth, (first, then)) in bodies.into_iter().enumerate() {
        for body in [first, then] {
            sent.push(Sent {
                shop: format!("shop-{nth}.example"),
                body,
            });
        }
    }
    let of_orders: Vec<Sent> = sent
        .iter()
        .step_by(2)
        .map(|it| Sent {
            shop: it.shop.clone(),
            body: it.body.clone(),
        })
        .collect();
    for is_backwards in [false, true] {
        let service = of("woocommerce").await;
        let topics = ["order.created", "order.updated"];
        send(&service, &sent, is_backwards, topics, woocommerce).await;
        check(&ends(&service, REFUNDED, &of_orders).await, REFUNDED);
        service.stop().await;
    }
}
