//! Two accounts of a payment provider have nothing to do with each other: neither their payments, nor their people.

use domain::privacy::Topic;
use domain::signature::sign_payment;
use sandbox::{PAYMENT_KEY, Sandbox};
use serde_json::{Value, json};

use super::{A, B, SECRET_A, SECRET_B, add, api, payments, storefront, with_connections};
use crate::both::orders::providers::capture;
use crate::support::delivery::Delivery;
use crate::support::order::{body, cancelled, order_delivery, post_all, shown};
use crate::support::payment::{event, intent};
use crate::support::{Service, eventually};

const PAY_A: &str = "the signing secret of account a";
const PAY_B: &str = "the signing secret of account b";

/// Two shops, each with a payment provider's account of its own.
async fn two_accounts() -> (Service, Sandbox) {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let service = with_connections().start().await;
    let account = |name: &str, secret: &str| {
        let mut wanted = payments(name, secret);
        wanted.account = Some(format!("acct_{name}"));
        wanted.api = Some(api(sandbox.payment_url(), PAYMENT_KEY));
        wanted
    };
    let shop = |name: &str, shop: &str, secret: &str, payments: &str| {
        let mut wanted = storefront(name, shop, secret);
        wanted.payments = Some(payments.to_owned());
        wanted
    };
    let all = [
        account("pay-a", PAY_A),
        account("pay-b", PAY_B),
        shop("shop-a", A, SECRET_A, "pay-a"),
        shop("shop-b", B, SECRET_B, "pay-b"),
    ];
    add(&service, all).await;
    (service, sandbox)
}

fn order(shop: &str, id: i64) -> Delivery {
    let secret = if shop == A { SECRET_A } else { SECRET_B };
    let delivery = order_delivery("orders/create", &body(id, 1, "pending"));
    delivery.of_shop(shop).signed_with(secret)
}

/// An event of an account, at its own address or at the common one, where the account says which connection it is.
fn paid(service: &Service, account: &str, intent: &Value, is_at_own: bool) -> Delivery {
    let mut delivery = event(service, "payment_intent.succeeded", 1, intent);
    let mut body: Value = serde_json::from_slice(&delivery.body).unwrap();
    if !is_at_own {
        body["account"] = json!(format!("acct_{account}"));
    }
    body["id"] = json!(format!("{}_{account}", body["id"].as_str().unwrap()));
    delivery.body = body.to_string().into_bytes();
    let (secret, path) = match account {
        "pay-a" => (PAY_A, "/api/webhooks/payment/pay-a"),
        _ => (PAY_B, "/api/webhooks/payment/pay-b"),
    };
    let now = service.clock().now().unix_seconds();
    let signature = sign_payment(secret, now, &delivery.body);
    let delivery = delivery.header("Payment-Signature", signature);
    if is_at_own {
        delivery.at(path)
    } else {
        delivery
    }
}

async fn state(service: &Service, shop: &str, id: i64) -> String {
    let key = service.api_key().await;
    let order = shown(service, &key, shop, id).await;
    order["fulfillment"]["state"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_one_account_settles_nothing_of_the_other() {
    let (service, _sandbox) = two_accounts().await;
    post_all(&service, &[order(A, 1), order(B, 1), order(B, 2)]).await;
    service.settled().await;
    for is_at_own in [true, false] {
        // The same id of payment at both accounts, and the id of an order that both shops have.
        let id = format!("pi_{is_at_own}");
        let of_a = intent(&id, "succeeded", 3000, Some("1"));
        let of_b = intent(
            &id,
            "succeeded",
            3000,
            Some(if is_at_own { "1" } else { "2" }),
        );
        post_all(&service, &[paid(&service, "pay-a", &of_a, is_at_own)]).await;
        service.settled().await;
        assert_eq!(state(&service, A, 1).await, "requested");
        assert_eq!(
            state(&service, B, if is_at_own { 1 } else { 2 }).await,
            "initiated"
        );
        post_all(&service, &[paid(&service, "pay-b", &of_b, is_at_own)]).await;
        service.settled().await;
        assert_eq!(
            state(&service, B, if is_at_own { 1 } else { 2 }).await,
            "requested"
        );
    }
    // Account a names an order that only the other shop has.
    post_all(&service, &[order(B, 3)]).await;
    let foreign = intent("pi_foreign", "succeeded", 3000, Some("3"));
    post_all(&service, &[paid(&service, "pay-a", &foreign, true)]).await;
    service.settled().await;
    assert_eq!(state(&service, B, 3).await, "initiated");
    let rows = "select count(*) as n from payments";
    assert_eq!(service.count(rows).await, 5);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_proved_by_its_own_secret() {
    let (service, _sandbox) = two_accounts().await;
    let of_a = intent("pi_1", "succeeded", 3000, Some("1"));
    let named = paid(&service, "pay-a", &of_a, false);
    // Signed by the other account, at either address.
    let now = service.clock().now().unix_seconds();
    let by_b = || {
        named
            .clone()
            .header("Payment-Signature", sign_payment(PAY_B, now, &named.body))
    };
    assert_eq!(service.answer(&by_b()).await.0, 401);
    assert_eq!(
        service
            .answer(&by_b().at("/api/webhooks/payment/pay-b"))
            .await
            .0,
        422
    );
    let by_settings = crate::support::delivery::payment_at(now, named.body.clone());
    assert_eq!(service.answer(&by_settings).await.0, 422);
    assert_eq!(service.answer(&named).await.0, 200);
    assert_eq!(
        service
            .answer(&named.at("/api/webhooks/payment/none"))
            .await
            .0,
        404
    );
    service.settled().await;
    assert_eq!(service.count("select count(*) as n from payments").await, 1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_is_asked_of_the_account_that_was_paid_and_by_its_own_id() {
    let (service, sandbox) = two_accounts().await;
    capture(&sandbox, 7, "7");
    let of_a = intent("pi_7", "succeeded", 3000, Some("7"));
    post_all(
        &service,
        &[order(A, 7), paid(&service, "pay-a", &of_a, true)],
    )
    .await;
    service.settled().await;
    let cancelled = order_delivery("orders/cancelled", &cancelled(7, 2, "paid"));
    post_all(&service, &[cancelled.of_shop(A).signed_with(SECRET_A)]).await;
    eventually("the payment is given back", async || {
        sandbox.payment().refunds() == [("pi_7".to_owned(), 1)].into()
    })
    .await;
    service.settled().await;
    let of_connection = "select count(*) as n from deliveries where kind = 'refunds/issue' and connection = 'pay-a'";
    assert_eq!(service.count(of_connection).await, 1);
    service.stop().await;
}

/// The same buyer at both shops: an erasure at one of them leaves the other's payments as they are, and what comes later.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_at_one_shop_leaves_the_same_buyer_at_the_other() {
    let (service, _sandbox) = two_accounts().await;
    let (of_a, of_b) = (
        intent("pi_1", "succeeded", 3000, Some("1")),
        intent("pi_1", "succeeded", 3000, Some("1")),
    );
    let deliveries = [
        order(A, 1),
        order(B, 1),
        paid(&service, "pay-a", &of_a, true),
        paid(&service, "pay-b", &of_b, true),
        // Only the address says whose these are.
        paid(
            &service,
            "pay-a",
            &intent("pi_3", "succeeded", 500, None),
            true,
        ),
        paid(
            &service,
            "pay-b",
            &intent("pi_3", "succeeded", 500, None),
            true,
        ),
    ];
    post_all(&service, &deliveries).await;
    service.settled().await;
    let body = json!({
        "shop_domain": A, "customer": {"id": 77, "email": "canary@example.com"}, "orders_to_redact": [1],
    });
    let topic = Topic::Redact.into_str();
    let request = order_delivery(topic, &body)
        .of_shop(A)
        .signed_with(SECRET_A);
    post_all(&service, &[request]).await;
    service.settled().await;
    let done = "select count(*) as n from privacy_requests where state = 'done'";
    assert_eq!(service.count(done).await, 1);
    let with_person = async |id: &'static str| {
        let row = service
            .db()
            .query("select email_key from payments where id = $1")
            .bind(id);
        let row = row.fetch_one().await.unwrap();
        row.get::<Option<String>>("email_key").unwrap().is_some()
    };
    assert!(!with_person("pi_1@pay-a").await);
    assert!(with_person("pi_1@pay-b").await);
    assert!(!with_person("pi_3@pay-a").await);
    assert!(with_person("pi_3@pay-b").await);
    // What comes later of each.
    let later = |account| {
        paid(
            &service,
            account,
            &intent("pi_2", "succeeded", 500, None),
            true,
        )
    };
    post_all(&service, &[later("pay-b")]).await;
    service.settled().await;
    assert!(with_person("pi_2@pay-b").await);
    service.stop().await;
}
