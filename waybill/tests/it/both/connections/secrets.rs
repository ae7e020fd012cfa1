//! A secret that is bound to a shop proves the shop: whatever else is claimed has no effect.

use serde_json::json;
use store::refused_deliveries;

use super::{A, B, SECRET_A, SECRET_B, add, storefront, with_connections};
use crate::support::Service;
use crate::support::delivery::Delivery;
use crate::support::order::{body, order_delivery, with};
use crate::support::records;

const AT_A: &str = "/api/webhooks/storefront/shop-a";
const AT_B: &str = "/api/webhooks/storefront/shop-b";
const AT_DEFAULT: &str = "/api/webhooks/storefront/default";
const AT_NOBODY: &str = "/api/webhooks/storefront/nobody";
const SHOP_HEADER: &str = "X-Storefront-Shop-Domain";

async fn two_shops() -> Service {
    let service = with_connections().start().await;
    let shops = [
        storefront("shop-a", A, SECRET_A),
        storefront("shop-b", B, SECRET_B),
    ];
    add(&service, shops).await;
    service
}

fn order(id: i64) -> Delivery {
    let id_of_delivery = format!("delivery {id}");
    order_delivery("orders/create", &body(id, 1, "pending"))
        .header("X-Storefront-Webhook-Id", id_of_delivery)
}

fn erasure(shop: &str) -> Delivery {
    let body = json!({
        "shop_domain": shop, "customer": {"id": 77, "email": "canary@example.com"}, "orders_to_redact": [1],
    });
    order_delivery("customers/redact", &body)
}

async fn orders(service: &Service) -> Vec<(String, i64)> {
    service.settled().await;
    let orders = records::orders(service.db()).await;
    orders.into_iter().map(|(key, _)| key).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_proves_its_own_shop_at_both_addresses() {
    let service = two_shops().await;
    for (id, delivery) in [
        (1, order(1).of_shop(A).signed_with(SECRET_A)),
        (2, order(2).of_shop(A).signed_with(SECRET_A).at(AT_A)),
        // Without the header it is the only shop of the connection.
        (
            3,
            order(3).without(SHOP_HEADER).signed_with(SECRET_A).at(AT_A),
        ),
        (4, order(4).of_shop(B).signed_with(SECRET_B)),
        (5, order(5).of_shop("c.example")),
        (6, order(6).of_shop("c.example").at(AT_DEFAULT)),
    ] {
        assert_eq!(service.answer(&delivery).await.0, 200, "{id}");
    }
    let of = |shop: &str, id: i64| (shop.to_owned(), id);
    let expected = [
        of(A, 1),
        of(A, 2),
        of(A, 3),
        of(B, 4),
        of("c.example", 5),
        of("c.example", 6),
    ];
    assert_eq!(orders(&service).await, expected);
    let by_connection = "select count(*) as n from deliveries where connection = 'shop-a'";
    assert_eq!(service.count(by_connection).await, 3);
    let by_default =
        "select count(*) as n from deliveries where connection is null and source = 'storefront'";
    assert_eq!(service.count(by_default).await, 2);
    // The same id at both shops is two deliveries, and a repetition is one.
    let again = order(1).of_shop(A).signed_with(SECRET_A);
    assert_eq!(service.answer(&again).await.0, 409);
    let of_b = order(1).of_shop(B).signed_with(SECRET_B);
    assert_eq!(service.answer(&of_b).await.0, 200);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_another_secret_claims_is_refused_and_listed_and_changes_nothing() {
    let service = two_shops().await;
    let known = order(1).of_shop(A).signed_with(SECRET_A);
    assert_eq!(service.answer(&known).await.0, 200);
    service.settled().await;
    let before = records::orders(service.db()).await;
    let cancelled = || {
        let fields =
            json!({"updated_at": "2027-01-15T08:00:00Z", "cancelled_at": "2027-01-15T08:00:00Z"});
        order_delivery("orders/cancelled", &with(body(1, 1, "pending"), &fields))
    };
    for (what, delivery, status) in [
        (
            "the other shop's name in the header",
            cancelled().of_shop(A).signed_with(SECRET_B),
            401,
        ),
        (
            "the same at one's own address",
            cancelled().of_shop(A).signed_with(SECRET_B).at(AT_B),
            422,
        ),
        (
            "the other one's address",
            cancelled().of_shop(A).signed_with(SECRET_B).at(AT_A),
            401,
        ),
        ("the secret of the settings", cancelled().of_shop(A), 422),
        (
            "the same at the address of the settings",
            cancelled().of_shop(A).at(AT_DEFAULT),
            422,
        ),
        (
            "the same at the shop's own address",
            cancelled().of_shop(A).at(AT_A),
            401,
        ),
        (
            "a bound secret at the address of the settings",
            cancelled().of_shop(A).signed_with(SECRET_A).at(AT_DEFAULT),
            401,
        ),
        (
            "an unknown shop",
            cancelled()
                .of_shop("c.example")
                .signed_with(SECRET_A)
                .at(AT_A),
            422,
        ),
        (
            "a body of the other shop",
            erasure(A).of_shop(B).signed_with(SECRET_B),
            422,
        ),
        (
            "the same without the header",
            erasure(A)
                .without(SHOP_HEADER)
                .signed_with(SECRET_B)
                .at(AT_B),
            422,
        ),
        (
            "a body of a bound shop by the settings' secret",
            erasure(A).without(SHOP_HEADER),
            422,
        ),
        ("no connection", cancelled().of_shop(A).at(AT_NOBODY), 404),
    ] {
        assert_eq!(service.answer(&delivery).await.0, status, "{what}");
    }
    // Without the header a delivery is of the shop that has the order, but of no shop with a connection.
    let nameless = cancelled().without(SHOP_HEADER);
    assert_eq!(service.answer(&nameless).await.0, 200);
    service.settled().await;
    let after = records::orders(service.db()).await;
    let of_a = |all: &[((String, i64), _)]| all.iter().filter(|((shop, _), _)| shop == A).count();
    assert_eq!(of_a(&after), 1);
    assert!(after[1] == before[0], "the order of shop a is as it was");
    assert_eq!(after[0].0, (String::new(), 1));
    let requests = "select count(*) as n from privacy_requests";
    assert_eq!(service.count(requests).await, 0);
    let listed = async || {
        let since = domain::time::Timestamp(0);
        let refused = refused_deliveries::list(service.db(), "", since, 100)
            .await
            .unwrap();
        let of = |connection: &str, status: i64| {
            let found = refused
                .iter()
                .filter(|it| it.connection == connection && it.status == status);
            found.map(|it| it.deliveries).sum::<i64>()
        };
        [
            of("shop-a", 401),
            of("shop-a", 422),
            of("shop-b", 422),
            of("", 401),
            of("", 422),
            of("", 404),
        ]
    };
    crate::support::eventually("what was refused is listed", async || {
        listed().await == [3, 1, 3, 1, 3, 1]
    })
    .await;
    service.stop().await;
}

/// Shopify's names of the headers at one shop, those of the specification at the other, and WooCommerce at a third, in one process.
#[tokio::test(flavor = "multi_thread")]
async fn several_providers_are_connected_side_by_side() {
    use crate::support::delivery::shopify;
    use domain::signature::sign_storefront;
    let service = with_connections().start().await;
    let mut of_shopify = storefront("mugs", "mugs.myshopify.com", SECRET_A);
    of_shopify.provider = "shopify".to_owned();
    let mut of_woocommerce = storefront("aprons", "aprons.example/shop", SECRET_B);
    of_woocommerce.provider = "woocommerce".to_owned();
    add(&service, [of_shopify, of_woocommerce]).await;
    let text = body(1, 1, "pending").to_string();
    let mugs = shopify("orders/create", "mugs.myshopify.com", "id 1", text.clone());
    let mugs = mugs.header(
        "X-Shopify-Hmac-Sha256",
        sign_storefront(SECRET_A, text.as_bytes()),
    );
    // A profile's answer to a repetition counts by connection.
    assert_eq!(service.answer(&mugs).await.0, 200);
    assert_eq!(service.answer(&mugs).await.0, 200);
    let text = json!({
        "id": 2, "number": "2", "status": "pending", "currency": "USD", "total": "10.00",
        "date_created_gmt": "2027-01-15T07:00:00", "date_modified_gmt": "2027-01-15T07:00:01",
        "line_items": [{"id": 1, "name": "Apron", "quantity": 1, "total": "10.00"}],
    })
    .to_string();
    let aprons = Delivery {
        path: "/api/webhooks/storefront",
        headers: vec![
            ("X-WC-Webhook-Topic", b"order.created".to_vec()),
            (
                "X-WC-Webhook-Source",
                b"https://aprons.example/shop/".to_vec(),
            ),
            ("X-WC-Webhook-Delivery-ID", b"d1".to_vec()),
            (
                "X-WC-Webhook-Signature",
                sign_storefront(SECRET_B, text.as_bytes()).into(),
            ),
        ],
        body: text.into(),
    };
    assert_eq!(service.answer(&aprons).await.0, 200);
    let generic = order(3).of_shop("c.example");
    assert_eq!(service.answer(&generic).await.0, 200);
    assert_eq!(service.answer(&generic).await.0, 409);
    let shops: Vec<String> = orders(&service)
        .await
        .into_iter()
        .map(|(shop, _)| shop)
        .collect();
    assert_eq!(
        shops,
        ["aprons.example/shop", "c.example", "mugs.myshopify.com"]
    );
    // Its ids count up, so the pages of its orders open by the links alone that were made for them.
    let page = async |path: &str| service.get(path).send().await.unwrap().status().as_u16();
    assert_eq!(page("/orders/2/track").await, 404);
    assert_eq!(page("/orders/3/track").await, 200);
    service.stop().await;
}
