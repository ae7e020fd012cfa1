//! The intake of privacy requests. The headers with topic and shop are not signed, so a body is
//! accepted only under its own topic and shop.

use std::collections::HashMap;
use std::time::Duration;

use domain::job::State;
use domain::time::Timestamp;
use futures_util::future::join_all;
use sandbox::sample;
use serde_json::{Value, json};
use store::audit;
use store::privacy_requests::{self, Filter};
use store::refused_deliveries;
use store::sql::Row;

use crate::support::delivery::{Delivery, SHOP, order, storefront};
use crate::support::order::{deliver, post_all};
use crate::support::requests::{entry, posted, request, waybill};
use crate::support::{START, Service, eventually, service};

const TOPICS: [&str; 3] = ["customers/data_request", "customers/redact", "shop/redact"];

const OTHER_TOPIC: &str = r#"{"detail":"Request body is not one of this privacy topic"}"#;
const OTHER_SHOP: &str =
    r#"{"detail":"X-Storefront-Shop-Domain is not the shop_domain of the body"}"#;

async fn requests(service: &Service) -> usize {
    let all = privacy_requests::list(service.db(), &Filter::default(), 1000).await;
    all.unwrap().len()
}

/// How often intake has refused a delivery for this reason.
async fn refused(service: &Service, reason: &str) -> u64 {
    let metrics = service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let label = format!("reason=\"{reason}\"");
    let counted = metrics
        .lines()
        .filter(|line| line.starts_with("waybill_deliveries_refused_total"))
        .filter(|line| line.contains(&label))
        .filter_map(|line| line.rsplit(' ').next());
    counted.map(|n| n.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn a_body_is_taken_under_its_own_topic_alone() {
    let service = service().manual_clock().without_workers().start().await;
    let before = refused(&service, "privacy").await;
    for topic in TOPICS {
        for other in TOPICS.into_iter().filter(|other| *other != topic) {
            let body = sample::storefront(other, 1, START.0).unwrap();
            let confused = storefront(topic, body).of_shop(sample::shop());
            let answer = service.answer(&confused).await;
            assert_eq!(answer, (422, OTHER_TOPIC.into()), "{other} as {topic}");
        }
        for event in ["orders/create", "orders/cancelled"] {
            let body = sample::storefront(event, 1, START.0).unwrap();
            let mut body: Value = serde_json::from_str(&body).unwrap();
            let confused = storefront(topic, body.to_string()).of_shop(sample::shop());
            let answer = service.answer(&confused).await;
            assert_eq!(answer, (422, OTHER_TOPIC.into()), "{event} as {topic}");
            body["shop_domain"] = sample::shop().into();
            let confused = storefront(topic, body.to_string()).of_shop(sample::shop());
            let answer = service.answer(&confused).await;
            assert_eq!(answer, (422, OTHER_TOPIC.into()), "{event} as {topic}");
        }
    }
    assert_eq!(refused(&service, "privacy").await, before + 18);
    assert_eq!(service.jobs(State::Ready).await, 0);
    assert_eq!(requests(&service).await, 0);
    for topic in TOPICS {
        posted(&service, &request(topic, 1)).await;
    }
    assert_eq!(requests(&service).await, 3);
    service.stop().await;
}

#[tokio::test]
async fn a_body_is_taken_from_its_own_shop_alone() {
    let service = service().manual_clock().without_workers().start().await;
    for topic in TOPICS {
        let stolen = request(topic, 1).of_shop(SHOP);
        assert_eq!(service.answer(&stolen).await, (422, OTHER_SHOP.into()));
        // Capitals are the same shop, and a header that is missing says nothing else.
        let id = posted(
            &service,
            &request(topic, 1).of_shop("Waybill-Sandbox.Example"),
        )
        .await;
        assert_eq!(entry(&service, id).await.shop, sample::shop());
        let unsaid = request(topic, 2).without("X-Storefront-Shop-Domain");
        let id = posted(&service, &unsaid).await;
        assert_eq!(entry(&service, id).await.shop, sample::shop());
        let body = sample::storefront(topic, 1, START.0).unwrap();
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body.as_object_mut().unwrap().remove("shop_domain");
        let nobody = storefront(topic, body.to_string()).of_shop(sample::shop());
        assert_eq!(service.answer(&nobody).await, (422, OTHER_TOPIC.into()));
    }
    eventually("somebody hears of it", async || {
        let all = refused_deliveries::summary(service.db(), Timestamp(0)).await;
        let mut all = all.unwrap().into_iter();
        all.any(|it| it.reason == "privacy" && it.advice.contains("waybill privacy request"))
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn the_samples_that_a_provider_documents_are_taken_and_ask_for_nothing() {
    const PLACEHOLDER: &str = "{shop}.myshopify.com";
    let service = service()
        .setting("STOREFRONT_SHOPS", SHOP)
        .manual_clock()
        .start()
        .await;
    let customer = json!({"id": 191_167, "email": "john@example.com", "phone": "555-625-1199"});
    let bodies = [
        json!({
            "shop_id": 954_889, "shop_domain": PLACEHOLDER, "orders_requested": [299_938, 280_263],
            "customer": customer, "data_request": {"id": 9999},
        }),
        json!({
            "shop_id": 954_889, "shop_domain": PLACEHOLDER, "customer": customer,
            "orders_to_redact": [299_938, 280_263],
        }),
        json!({"shop_id": 954_889, "shop_domain": PLACEHOLDER}),
    ];
    for (topic, body) in TOPICS.into_iter().zip(&bodies) {
        let sample = storefront(topic, body.to_string());
        for delivery in [
            sample.clone(),
            sample.clone().of_shop(PLACEHOLDER),
            sample.without("X-Storefront-Shop-Domain"),
        ] {
            assert_eq!(service.answer(&delivery).await.0, 200, "{topic}");
        }
    }
    assert_eq!(requests(&service).await, 0);
    let kept = "select count(*) as n from jobs where state = 'done' and deadline_at is null
                and last_error like '%placeholder%'";
    assert_eq!(service.count(kept).await, 9);
    let bodies = "select count(*) as n from deliveries where length(body) > 0";
    assert_eq!(
        service.count(bodies).await,
        0,
        "a sample's person is not kept"
    );
    // Another text in braces is no placeholder, and no shop either.
    let other = storefront("orders/create", "{}").of_shop("{other}.example");
    assert_eq!(service.answer(&other).await.0, 422);
    service.stop().await;
}

#[tokio::test]
async fn a_request_of_a_shop_that_is_not_listed_is_refused_whatever_its_header_says() {
    let service = service()
        .setting("STOREFRONT_SHOPS", SHOP)
        .manual_clock()
        .without_workers()
        .start()
        .await;
    for topic in TOPICS {
        let unsaid = request(topic, 1).without("X-Storefront-Shop-Domain");
        assert_eq!(service.answer(&unsaid).await.0, 422);
        assert_eq!(service.answer(&request(topic, 1)).await.0, 422);
    }
    assert_eq!(requests(&service).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_customer_who_is_known_by_an_address_alone_may_ask() {
    let service = service().manual_clock().without_workers().start().await;
    let bodies = [
        (
            "customers/data_request",
            r#"{"shop_id":7,"shop_domain":"shop.example","orders_requested":[],
                "customer":{"email":"ann@example.com"},"data_request":{"id":3}}"#,
        ),
        (
            "customers/redact",
            r#"{"shop_id":7,"shop_domain":"shop.example","orders_to_redact":[],
                "customer":{"id":null,"email":"ann@example.com","phone":null}}"#,
        ),
    ];
    for (topic, body) in bodies {
        let id = posted(&service, &storefront(topic, body)).await;
        let entry = entry(&service, id).await;
        assert_eq!(
            (entry.customer_id, entry.state.as_str()),
            (None, "received")
        );
        let row = service
            .db()
            .query("select email_key from privacy_requests where id = $1")
            .bind(id)
            .fetch_one();
        let key = |row: &Row| row.get::<Option<uuid::Uuid>>("email_key").unwrap();
        assert!(key(&row.await.unwrap()).is_some(), "by its hash");
    }
    for nobody in [
        r#"{"shop_domain":"shop.example","orders_to_redact":[],"customer":{}}"#,
        r#"{"shop_domain":"shop.example","orders_to_redact":[],"customer":{"email":null}}"#,
        r#"{"shop_domain":"shop.example","orders_to_redact":[],"customer":null}"#,
        r#"{"shop_domain":"shop.example","customer":{"id":1}}"#,
    ] {
        let answer = service
            .answer(&storefront("customers/redact", nobody))
            .await;
        assert_eq!(answer, (422, OTHER_TOPIC.into()), "{nobody}");
    }
    service.stop().await;
}

#[tokio::test]
async fn the_same_body_under_a_new_id_is_taken_and_flagged() {
    let service = service().manual_clock().without_workers().start().await;
    for topic in TOPICS {
        let first = posted(&service, &request(topic, 1).id(&format!("{topic}-1"))).await;
        let duplicate = request(topic, 1).id(&format!("{topic}-1"));
        assert_eq!(service.answer(&duplicate).await.0, 409);
        service.clock().advance(Duration::from_secs(1));
        let again = posted(&service, &request(topic, 1).id(&format!("{topic}-2"))).await;
        let third = posted(&service, &request(topic, 1)).await;
        assert_eq!(entry(&service, first).await.repeats, None);
        assert_eq!(entry(&service, again).await.repeats, Some(first));
        assert_eq!(entry(&service, third).await.repeats, Some(first));
        if topic != "shop/redact" {
            let other = posted(&service, &request(topic, 2)).await;
            assert_eq!(entry(&service, other).await.repeats, None);
        }
        let metrics = service.get("/metrics").send().await.unwrap();
        let counted = format!("waybill_privacy_requests_repeated_total{{topic=\"{topic}\"}} 2");
        let metrics = metrics.text().await.unwrap();
        assert!(metrics.contains(&counted), "{counted} in\n{metrics}");
    }
    service.stop().await;
}

#[tokio::test]
async fn bodies_that_come_at_once_repeat_the_first_of_them() {
    let service = service().manual_clock().without_workers().start().await;
    let mut all = Vec::new();
    for seed in 1..=3 {
        all.extend((0..20).map(|_| request("customers/redact", seed)));
    }
    post_all(&service, &all).await;
    let listed = privacy_requests::list(service.db(), &Filter::default(), 1000).await;
    let listed = listed.unwrap();
    assert_eq!(listed.len(), 60);
    let mut repeated = HashMap::new();
    for entry in &listed {
        if let Some(first) = entry.repeats {
            *repeated.entry(first).or_insert(0) += 1;
        }
    }
    let counted: Vec<i32> = repeated.values().copied().collect();
    assert_eq!(counted, [19; 3], "each repeats the first of its body");
    assert!(repeated.keys().all(|first| {
        let first = listed.iter().find(|it| it.id == *first).unwrap();
        first.repeats.is_none()
    }));
    let chain = audit::verify(service.db(), &service.parts.keys).await;
    let chain = chain.unwrap();
    assert!(chain.broken.is_none(), "{:?}", chain.broken);
    assert_eq!(chain.entries, 60);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn no_other_delivery_waits_for_the_audit_as_a_privacy_request_does() {
    let service = service().without_workers().start().await;
    posted(&service, &request("customers/redact", 1)).await;
    let mut holder = service.db().begin().await.unwrap();
    let head = holder.query("select number from audit_head where id = 1 for update");
    head.fetch_one().await.unwrap();
    let orders: Vec<Delivery> = (1..=20).map(|seed| order("orders/create", seed)).collect();
    let requests: Vec<Delivery> = (2..=21)
        .map(|seed| request("customers/redact", seed))
        .collect();
    let of_requests = requests.iter().map(|request| service.answer_once(request));
    let ((), refused) = tokio::join!(post_all(&service, &orders), join_all(of_requests));
    let statuses: Vec<u16> = refused.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [503; 20], "they are sent again");
    holder.rollback().await.unwrap();
    post_all(&service, &requests).await;
    service.stop().await;
}

#[tokio::test]
async fn the_erasure_of_a_shop_is_held_and_a_customers_request_is_not() {
    let service = service().manual_clock().without_workers().start().await;
    let hour = Timestamp(START.0 + 3_600_000);
    let month = Timestamp(START.0 + 30 * 24 * 3_600_000);
    for topic in TOPICS {
        let id = posted(&service, &request(topic, 1)).await;
        let entry = entry(&service, id).await;
        let is_held = topic == "shop/redact";
        assert_eq!(entry.state, if is_held { "held" } else { "received" });
        assert_eq!(entry.held_until, is_held.then_some(hour));
        assert_eq!(entry.next_run_at, Some(if is_held { hour } else { START }));
        assert_eq!(entry.due_at, month);
    }
    let jobs =
        "select count(*) as n from jobs where kind = 'shop/redact' and notified_at is not null";
    assert_eq!(service.count(jobs).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn the_erasure_of_a_shop_that_came_with_a_known_id_is_known_and_held_when_it_is_requeued() {
    let service = service().manual_clock().start().await;
    deliver(&service, &order("orders/create", 1).id("w-1")).await;
    let body = json!({"shop_id": 1, "shop_domain": SHOP}).to_string();
    let erasure = storefront("shop/redact", body).id("w-1");
    assert_eq!(service.answer(&erasure).await.0, 409);
    let all = privacy_requests::list(service.db(), &Filter::default(), 10).await;
    let [request] = &all.unwrap()[..] else {
        panic!("one request");
    };
    let requeued = waybill(&service, &[], &["dead", "requeue", "--all", "--yes"]).await;
    assert!(requeued.status.success(), "{requeued:?}");
    let error = "select coalesce(last_error, '') as error from jobs where kind = 'shop/redact'";
    eventually("the worker has seen that it is held", async || {
        let row = service.db().query(error).fetch_one().await.unwrap();
        row.get::<String>("error").unwrap().contains("held")
    })
    .await;
    let entry = entry(&service, request.id).await;
    let hour = Timestamp(START.0 + 3_600_000);
    assert_eq!((&*entry.state, entry.held_until), ("held", Some(hour)));
    assert_eq!(
        service.count("select count(*) as n from orders").await,
        1,
        "nothing is erased"
    );
    service.stop().await;
}

#[tokio::test]
async fn without_a_hold_the_erasure_of_a_shop_is_due_at_once() {
    let service = service()
        .setting("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let id = posted(&service, &request("shop/redact", 1)).await;
    let entry = entry(&service, id).await;
    assert_eq!((entry.state.as_str(), entry.held_until), ("received", None));
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_privacy_topic_opens_no_request() {
    let service = service().manual_clock().without_workers().start().await;
    for topic in ["orders/create", "customers/create"] {
        let body = sample::storefront("orders/create", 1, START.0).unwrap();
        assert_eq!(service.answer(&storefront(topic, body)).await.0, 200);
    }
    assert_eq!(requests(&service).await, 0);
    let entries = "select count(*) as n from audit";
    assert_eq!(service.count(entries).await, 0);
    service.stop().await;
}
