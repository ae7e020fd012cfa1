//! A provider that changes the shape of its bodies is noticed at the first delivery, and what is usual is never reported.

use std::time::Duration;

use domain::attention::Condition;
use operators::attention::look;
use operators::findings;
use serde_json::{Value, json};

use crate::support::delivery::{Delivery, payment_at};
use crate::support::order::{body, captured, deliver, order_delivery, with};
use crate::support::{Service, service};

const DAY: Duration = Duration::from_hours(24);

/// What is noticed now, as what it is about and how it has changed.
async fn noticed(service: &Service) -> Vec<(String, String)> {
    let now = service.clock().now();
    let found = look(service.db(), &service.parts.config, &[], now);
    let changed = found.await.unwrap().into_iter();
    changed
        .filter(|it| it.condition == Condition::DeliveriesChanged)
        .map(|it| (it.about, it.details))
        .collect()
}

async fn about(service: &Service) -> Vec<String> {
    noticed(service).await.into_iter().map(|it| it.0).collect()
}

fn updated(body: &Value) -> Delivery {
    order_delivery("orders/updated", body).also("X-Storefront-API-Version", "2026-10")
}

fn without(mut body: Value, member: &str) -> Value {
    body.as_object_mut().unwrap().remove(member).unwrap();
    body
}

#[tokio::test]
async fn a_member_that_was_always_there_is_missed_at_the_first_delivery_that_lacks_it() {
    let service = service().manual_clock().start().await;
    deliver(&service, &updated(&body(1, 1, "pending"))).await;
    deliver(&service, &updated(&body(2, 1, "paid"))).await;
    assert!(noticed(&service).await.is_empty());
    let cut = without(body(1, 2, "paid"), "total_price");
    deliver(&service, &updated(&cut)).await;
    let expected = (
        "orders/updated total_price".to_owned(),
        "it is missing in 1 delivery of 1 shop or account, API version 2026-10".to_owned(),
    );
    assert_eq!(noticed(&service).await, [expected]);
    let doctor = findings::shapes(service.db(), service.clock().now());
    let doctor = doctor.await.unwrap().found;
    let said = "orders/updated total_price: it is missing in 1 delivery";
    assert!(doctor.contains(said), "{doctor}");

    // A process that begins now misses it as well. What is known already is counted every two seconds.
    service.clock().advance(Duration::from_secs(3));
    let second = service_beside(&service).await;
    let cut = without(body(3, 1, "paid"), "total_price");
    second.work(&updated(&cut)).await;
    let (_, details) = noticed(&service).await.remove(0);
    assert!(details.contains("in 2 deliveries of 1 shop"), "{details}");
    second.0.stop().await;

    // Another topic and another shop never had it.
    let of_other = updated(&without(body(4, 1, "paid"), "total_price")).of_shop("other.example");
    deliver(&service, &of_other).await;
    let create = without(body(5, 1, "paid"), "total_price");
    deliver(&service, &order_delivery("orders/create", &create)).await;
    // And the provider calls this one optional.
    let guest = without(body(6, 1, "paid"), "customer");
    deliver(&service, &updated(&guest)).await;
    assert_eq!(about(&service).await, ["orders/updated total_price"]);

    service.clock().advance(DAY * 2);
    assert!(noticed(&service).await.is_empty(), "no more of them come");
    service.stop().await;
}

struct Beside(Service);

async fn service_beside(first: &Service) -> Beside {
    let clock = first.clock().clone();
    Beside(service().clock(&clock).start_beside(first).await)
}

impl Beside {
    async fn work(&self, delivery: &Delivery) {
        deliver(&self.0, delivery).await;
    }
}

#[tokio::test]
async fn another_type_and_a_status_that_nobody_knows_are_noticed_from_the_first_delivery_on() {
    let service = service().manual_clock().start().await;
    let odd = with(
        body(1, 1, "settled_elsewhere"),
        &json!({"total_outstanding": {"amount": "1.00"}}),
    );
    deliver(&service, &updated(&odd)).await;
    let mut payment: Value = json!({
        "id": "evt_1", "object": "event", "type": "charge.dispute.updated", "created": 1_800_000_000,
        "api_version": "2026-10-28.endive", "account": "acct_1",
        "data": {"object": {"id": "dp_1", "object": "dispute", "amount": 100, "currency": "usd",
                            "payment_intent": "pi_1", "status": "appealed"}},
    });
    let sent = |event: &Value| payment_at(service.clock().now().unix_seconds(), event.to_string());
    deliver(&service, &sent(&payment)).await;
    assert_eq!(
        noticed(&service).await,
        [
            (
                "orders/updated financial_status",
                "has a value that is not known"
            ),
            ("orders/updated total_outstanding", "cannot be read"),
        ]
        .map(|(about, how)| {
            let details =
                format!("it {how} in 1 delivery of 1 shop or account, API version 2026-10");
            (about.to_owned(), details)
        }),
        "an event of somebody else's account has no effect"
    );
    payment["id"] = json!("evt_2");
    payment.as_object_mut().unwrap().remove("account");
    deliver(&service, &sent(&payment)).await;
    assert_eq!(
        about(&service).await[0],
        "charge.dispute.updated data.object.status"
    );

    // What cannot be worked on at all is dead, and its member is named all the same.
    let now = service.clock().now();
    deliver(&service, &captured(now, 1, "p-1")).await;
    payment["id"] = json!("evt_3");
    payment["data"]["object"]["amount"] = json!({"value": 100});
    deliver(&service, &sent(&payment)).await;
    assert!(
        about(&service)
            .await
            .contains(&"charge.dispute.updated data.object.amount".to_owned())
    );
    let rows =
        "select count(*) as n from shapes where member like '%settled%' or state like '%settled%'";
    assert_eq!(service.count(rows).await, 0, "a value is kept");
    service.stop().await;
}

#[tokio::test]
async fn after_a_week_the_new_shape_is_the_usual_one() {
    let service = service().manual_clock().start().await;
    deliver(&service, &updated(&body(1, 1, "paid"))).await;
    let mut second = 2;
    let mut cut = async |days: u32| {
        service.clock().advance(DAY * days);
        second += 1;
        let body = without(body(2, second, "paid"), "financial_status");
        deliver(&service, &updated(&body)).await;
        about(&service).await.len()
    };
    assert_eq!(cut(0).await, 1);
    assert_eq!(cut(6).await, 1);
    assert_eq!(cut(2).await, 0);
    assert_eq!(cut(30).await, 0);
    let counted = "select deliveries as n from shapes where state = 'missing'";
    assert_eq!(service.count(counted).await, 2, "no more are counted");
    service.stop().await;
}

#[tokio::test]
async fn a_shop_that_is_erased_takes_along_what_its_deliveries_were_like_and_it_does_not_come_back()
{
    let service = service()
        .setting("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0")
        .start()
        .await;
    let of = |shop: &str, id: i64| updated(&body(id, 1, "paid")).of_shop(shop);
    deliver(&service, &of("gone.example", 1)).await;
    deliver(&service, &of("stays.example", 1)).await;
    let of_gone = "select count(*) as n from shapes where shop = 'gone.example'";
    let of_other = "select count(*) as n from shapes where shop = 'stays.example'";
    assert!(service.count(of_gone).await > 5);
    let request = json!({"shop_id": 1, "shop_domain": "gone.example"});
    let request = order_delivery("shop/redact", &request).of_shop("gone.example");
    deliver(&service, &request).await;
    let done = "select count(*) as n from privacy_requests where state = 'done'";
    assert_eq!(service.count(done).await, 1);
    assert_eq!(service.count(of_gone).await, 0);
    // A process that knows nothing of the shop works on what comes late.
    let second = crate::support::service().start_beside(&service).await;
    deliver(&second, &of("gone.example", 2)).await;
    deliver(&service, &of("gone.example", 3)).await;
    assert_eq!(service.count(of_gone).await, 0);
    assert!(service.count(of_other).await > 5);
    second.stop().await;
    service.stop().await;
}
