//! A storm over ten connections of three providers. In the middle of it secrets are rotated, a connection is paused, and
//! another one removed. Nothing is lost or done twice, and the books of each account balance.

use std::time::Duration;

use domain::signature::{sign_payment, sign_storefront};
use operators::connections::{Rotation, remove, rotate};
use operators::pauses;
use sandbox::{PAYMENT_KEY, Sandbox, storm};
use serde_json::Value;
use store::ledger;

use super::{add, api, by, knows, means, payments, storefront, with_connections};
use crate::both::orders::providers::capture;
use crate::support::delivery::{Delivery, shopify};
use crate::support::order::{CAPTURED, body, cancelled, naming_agreement, order_delivery, with};
use crate::support::payment::{event, intent};
use crate::support::{Service, eventually};
use domain::pause::Target;

const SHOPS: usize = 8;
const ORDERS: i64 = 6;
const PATHS: [&str; SHOPS] = [
    "/api/webhooks/storefront/shop-0",
    "/api/webhooks/storefront/shop-1",
    "/api/webhooks/storefront/shop-2",
    "/api/webhooks/storefront/shop-3",
    "/api/webhooks/storefront/shop-4",
    "/api/webhooks/storefront/shop-5",
    "/api/webhooks/storefront/shop-6",
    "/api/webhooks/storefront/shop-7",
];
const PAY: [&str; 2] = ["/api/webhooks/payment/pay-0", "/api/webhooks/payment/pay-1"];

/// Which of the two accounts is paid at a shop. All shops have orders of the same ids.
fn account_of(shop: usize) -> usize {
    shop % 2
}

fn domain_of(shop: usize) -> String {
    format!("s{shop}.example")
}

fn secret_of(name: &str, turn: u32) -> String {
    format!("secret {turn} of {name}")
}

/// The id of a payment. Both accounts have payments of the same ids.
fn payment(shop: usize, order: i64) -> i64 {
    i64::try_from(shop / 2).unwrap() * 100 + order
}

fn agreement(shop: usize, order: i64) -> String {
    format!("agreement-{}", payment(shop, order))
}

/// What each order has: it is paid, and every third one is cancelled.
fn is_cancelled(order: i64) -> bool {
    order % 3 == 0
}

/// A delivery of a shop or an account before it is signed: at whose address, topic, id and body.
#[derive(Clone)]
struct Unsigned {
    shop: Option<usize>,
    account: usize,
    topic: &'static str,
    id: String,
    body: Value,
}

fn all(service: &Service) -> Vec<Unsigned> {
    let mut all = Vec::new();
    for shop in 0..SHOPS {
        for order in 1..=ORDERS {
            let of_shop = |topic, version: i64, body: Value| Unsigned {
                shop: Some(shop),
                account: account_of(shop),
                topic,
                id: format!("d-{shop}-{order}-{version}"),
                body: with(body, &naming_agreement(&agreement(shop, order))),
            };
            all.push(of_shop("orders/create", 1, body(order, 1, "pending")));
            all.push(of_shop("orders/updated", 2, body(order, 2, "authorized")));
            if is_cancelled(order) {
                all.push(of_shop(
                    "orders/cancelled",
                    3,
                    cancelled(order, 3, "refunded"),
                ));
            }
            let id = payment(shop, order);
            let paid = intent(
                &format!("pi_{id}"),
                "succeeded",
                CAPTURED,
                Some(&agreement(shop, order)),
            );
            let paid = event(service, "payment_intent.succeeded", id, &paid);
            all.push(Unsigned {
                shop: None,
                account: account_of(shop),
                topic: "",
                id: String::new(),
                body: serde_json::from_slice(&paid.body).unwrap(),
            });
        }
    }
    all
}

fn signed(service: &Service, it: &Unsigned, turn: u32) -> Delivery {
    let text = it.body.to_string();
    let Some(shop) = it.shop else {
        let now = service.clock().now().unix_seconds();
        let secret = secret_of(&format!("pay-{}", it.account), turn);
        let signature = sign_payment(&secret, now, text.as_bytes());
        let header = if it.account == 0 {
            "Stripe-Signature"
        } else {
            "Payment-Signature"
        };
        return Delivery {
            path: PAY[it.account],
            headers: vec![
                ("Content-Type", b"application/json".to_vec()),
                (header, signature.into()),
            ],
            body: text.into_bytes(),
        };
    };
    let (secret, domain) = (secret_of(&format!("shop-{shop}"), turn), domain_of(shop));
    let delivery = if shop < SHOPS / 2 {
        let signature = sign_storefront(&secret, text.as_bytes());
        shopify(it.topic, &domain, &it.id, text).header("X-Shopify-Hmac-Sha256", signature)
    } else {
        let delivery = order_delivery(it.topic, &it.body).of_shop(&domain);
        delivery
            .header("X-Storefront-Webhook-Id", it.id.clone())
            .signed_with(&secret)
    };
    delivery.at(PATHS[shop])
}

/// Posts as a provider does: once more, when the answer is none.
async fn post(service: &Service, deliveries: &[Unsigned], turn: u32) {
    for part in deliveries.chunks(8) {
        let answers = part.iter().map(async |it| {
            let (status, text) = service.answer(&signed(service, it, turn)).await;
            assert!(matches!(status, 200 | 409), "{} {status} {text}", it.id);
        });
        futures_util::future::join_all(answers).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_over_ten_connections_loses_and_doubles_nothing() {
    let sandboxes = [
        Sandbox::start(sandbox::Options::default()).await.unwrap(),
        Sandbox::start(sandbox::Options::default()).await.unwrap(),
    ];
    let service = with_connections().start().await;
    let mut connections = Vec::new();
    for (nth, sandbox) in sandboxes.iter().enumerate() {
        let name = format!("pay-{nth}");
        let mut account = payments(&name, &secret_of(&name, 0));
        account.provider = if nth == 0 { "stripe" } else { "generic" }.to_owned();
        account.api = Some(api(sandbox.payment_url(), PAYMENT_KEY));
        connections.push(account);
    }
    for shop in 0..SHOPS {
        let name = format!("shop-{shop}");
        let mut connection = storefront(&name, &domain_of(shop), &secret_of(&name, 0));
        connection.provider = if shop < SHOPS / 2 {
            "shopify"
        } else {
            "generic"
        }
        .to_owned();
        connection.payments = Some(format!("pay-{}", account_of(shop)));
        connections.push(connection);
        for order in (1..=ORDERS).filter(|order| is_cancelled(*order)) {
            capture(
                &sandboxes[account_of(shop)],
                payment(shop, order),
                &agreement(shop, order),
            );
        }
    }
    add(&service, connections).await;

    // Each delivery comes twice, in any sequence, in three parts.
    let all = all(&service);
    let numbered: Vec<(String, String)> = (0..all.len())
        .map(|nth| (nth.to_string(), String::new()))
        .collect();
    let shuffled = storm::shuffled(numbered, 2..=2, 42, "");
    let shuffled: Vec<Unsigned> = shuffled
        .iter()
        .map(|it| all[it.topic.parse::<usize>().unwrap()].clone())
        .collect();
    let part = shuffled.len() / 3;
    let (first, rest) = shuffled.split_at(part);
    let (second, third) = rest.split_at(part);
    // The last connection has sent all that it has before it is removed, and its work waits.
    let removed = Some(SHOPS - 1);
    let (of_removed, third): (Vec<Unsigned>, Vec<Unsigned>) =
        third.iter().cloned().partition(|it| it.shop == removed);

    post(&service, first, 0).await;
    let until = service.clock().now().plus(Duration::from_hours(1));
    for name in ["shop-2", "shop-7", "pay-1"] {
        let target = Target::Connection(name.to_owned());
        let id = service.clock().id();
        assert!(
            pauses::begin(service.db(), by(&service), id, target, until)
                .await
                .unwrap()
        );
    }
    post(&service, second, 0).await;
    post(&service, &of_removed, 0).await;
    for name in (0..SHOPS)
        .map(|nth| format!("shop-{nth}"))
        .chain(["pay-0".to_owned(), "pay-1".to_owned()])
    {
        let new = Rotation {
            secret: Some(secret_of(&name, 1)),
            overlap: Duration::from_hours(1),
            ..Rotation::default()
        };
        rotate(service.db(), by(&service), &means(&service), &name, new)
            .await
            .unwrap();
    }
    remove(service.db(), by(&service), "shop-7").await.unwrap();
    eventually("the removal is known", async || !knows(&service, "shop-7")).await;
    let (by_former, by_new) = third.split_at(third.len() / 2);
    post(&service, by_former, 0).await;
    post(&service, by_new, 1).await;
    for name in ["shop-2", "shop-7", "pay-1"] {
        let target = Target::Connection(name.to_owned());
        assert!(
            pauses::end(service.db(), by(&service), &target)
                .await
                .unwrap()
        );
    }
    service.settled().await;

    let count = async |sql| service.count(sql).await;
    let unfinished = "select count(*) as n from jobs where state <> 'done'";
    eventually("all is done", async || count(unfinished).await == 0).await;
    let came = "select count(*) as n from deliveries where source <> 'internal'";
    assert_eq!(count(came).await, i64::try_from(all.len()).unwrap());
    let shops = i64::try_from(SHOPS).unwrap();
    let cancelled_of_each = ORDERS / 3;
    assert_eq!(
        count("select count(*) as n from orders").await,
        shops * ORDERS
    );
    let cancelled = "select count(*) as n from orders where state = 'cancelled'";
    assert_eq!(count(cancelled).await, shops * cancelled_of_each);
    let requested = "select count(*) as n from orders where state = 'requested'";
    assert_eq!(count(requested).await, shops * (ORDERS - cancelled_of_each));
    let given_back = "select count(*) as n from refunds where state = 'issued'";
    assert_eq!(count(given_back).await, shops * cancelled_of_each);
    let each = shops / 2;
    for (nth, sandbox) in sandboxes.iter().enumerate() {
        let refunds = sandbox.payment().refunds();
        assert_eq!(
            refunds.len(),
            usize::try_from(each * cancelled_of_each).unwrap()
        );
        assert!(refunds.values().all(|times| *times == 1), "{refunds:?}");
        let name = format!("pay-{nth}");
        let balances = ledger::balances(service.db(), &name, "", 1000)
            .await
            .unwrap();
        assert_eq!(balances.iter().map(|it| it.minor).sum::<i64>(), 0);
        let provider = balances.iter().find(|it| it.account == "provider").unwrap();
        assert_eq!(
            provider.minor.abs(),
            each * ORDERS * CAPTURED,
            "{balances:?}"
        );
    }
    let of_default = ledger::balances(service.db(), "default", "", 10)
        .await
        .unwrap();
    assert_eq!(of_default, []);
    let books = ledger::verify(service.db()).await.unwrap();
    assert!(books.is_balanced(), "{books:?}");
    service.stop().await;
}
