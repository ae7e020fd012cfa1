//! What the pages of the console show, and what they never show.

use std::collections::BTreeSet;

use domain::api_key::Role;
use domain::order::FinancialStatus;
use serde_json::{Value, json};

use crate::support::console::{Console, LISTS, Session, role};
use crate::support::delivery::{SHOP, storefront};
use crate::support::order::{at, body, captured, deliver, order_delivery, post_all, with};
use crate::support::records::change_orders;
use crate::support::{Service, eventually, service};

async fn signed_in(service: &mut Service) -> (Console, Session) {
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    (console, session)
}

async fn json(console: &Console, session: &Session, path: &str) -> Vec<Value> {
    let text = console.shown(session, path).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["items"].as_array().unwrap().clone()
}

/// An order that was made, paid by the storefront's word and by a payment, under the agreement `agreement-7`.
async fn an_order_lives(service: &Service) {
    let attributes = json!({"note_attributes": [{"name": "pact_id", "value": "pact-7"}]});
    let made = with(body(5_000_000_000_000_700, 0, "pending"), &attributes);
    let made = with(made, &json!({"name": "#1007"}));
    let paid = with(
        made.clone(),
        &json!({"financial_status": "paid", "updated_at": at(9)}),
    );
    deliver(service, &order_delivery("orders/create", &made).id("w-1")).await;
    deliver(service, &order_delivery("orders/paid", &paid).id("w-2")).await;
    deliver(service, &captured(service.clock().now(), 7, "pact-7")).await;
}

#[tokio::test]
async fn one_page_shows_all_that_happened_to_an_order() {
    let mut service = service().start().await;
    an_order_lives(&service).await;
    let (console, session) = signed_in(&mut service).await;
    let path = "/orders/5000000000000700?shop=shop.example";
    let page = console.shown(&session, path).await;
    for expected in [
        "#1007",
        "5000000000000700",
        "30.00 USD",
        "orders/create",
        "orders/paid",
        "delivery w-1",
        "delivery w-2",
        "payment_intent.succeeded",
        "order.created",
        "order.paid",
        "What happened",
        "Books",
        "pi_7",
        "Mug",
        "waybill orders show 5000000000000700",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let by_name = console.shown(&session, "/orders/%231007").await;
    assert!(by_name.contains("orders/paid"), "{by_name}");
    let steps = json(&console, &session, &format!("{path}&format=json")).await;
    let made = steps
        .iter()
        .find(|it| it["what"] == "orders/create")
        .unwrap();
    let event = steps
        .iter()
        .find(|it| it["what"] == "order.created")
        .unwrap();
    assert_eq!(
        made["trace"], event["trace"],
        "the event followed from the delivery"
    );
    assert_eq!(made["outcome"], "done");
    let payment = console.shown(&session, "/payments/pi_7").await;
    assert!(
        payment.contains("30.00 USD") && payment.contains("Books"),
        "{payment}"
    );
    assert_eq!(console.page(&session, "/orders/404").await.0, 404);
    assert_eq!(console.page(&session, "/jobs/404").await.0, 404);
    assert_eq!(console.page(&session, "/payments/pi_404").await.0, 404);
    service.stop().await;
}

#[tokio::test]
async fn nothing_needs_anybody_when_all_is_well_and_what_does_is_named_with_its_mend() {
    let mut service = service().start().await;
    an_order_lives(&service).await;
    // Somebody must decide about an order that is paid in part.
    change_orders(service.db(), "orders", |order| {
        order.settled.status = Some(FinancialStatus::Paid);
    })
    .await;
    let (console, session) = signed_in(&mut service).await;
    let page = console.shown(&session, "/").await;
    assert!(page.contains("All is well"), "{page}");
    assert_eq!(
        json(&console, &session, "/?format=json").await,
        Vec::<Value>::new()
    );
    service
        .execute(
            "update jobs set state = 'dead', last_error = 'order 12 at line 3: no amount',
                    finished_at = created_at
             where kind = 'orders/paid'",
        )
        .await;
    let mut wrong = storefront("orders/create", "{}");
    wrong = wrong.header(
        "X-Storefront-Hmac-Sha256",
        "bm90IHRoZSBzaWduYXR1cmUgb2YgdGhpcyBib2R5IGE=",
    );
    assert_eq!(service.answer(&wrong).await.0, 401);
    eventually("the refusal is written", async || {
        let rows = "select count(*) as n from refused_deliveries";
        service.count(rows).await == 1
    })
    .await;
    let items = json(&console, &session, "/?format=json").await;
    let of = |what: &str| {
        items
            .iter()
            .find(|it| it["what"].as_str().unwrap().contains(what))
    };
    let dead = of("Dead: orders/paid").unwrap();
    assert_eq!(dead["count"], "1 job");
    assert_eq!(dead["why"], "order 12 at line 3: no amount");
    assert_eq!(dead["command"], "waybill dead requeue --kind 'orders/paid'");
    let refused = of("Refused").unwrap();
    assert!(
        refused["why"].as_str().unwrap().starts_with("signature"),
        "{refused}"
    );
    assert_eq!(refused["command"], "waybill refused summary");
    let page = console.shown(&session, "/").await;
    assert!(
        !page.contains("All is well") && page.contains("waybill dead requeue"),
        "{page}"
    );
    let dead = json(&console, &session, "/dead?format=json").await;
    assert_eq!(dead[0]["last_error"], "order 12 at line 3: no amount");
    let refused = json(&console, &session, "/refused?format=json").await;
    assert_eq!(refused[0]["status"], 401);
    service.stop().await;
}

#[tokio::test]
async fn deliveries_are_listed_by_filter_and_page_by_page_as_page_json_and_csv() {
    let mut service = service().start().await;
    let mut all = Vec::new();
    for id in 1..=120 {
        let topic = if id % 4 == 0 {
            "orders/create"
        } else {
            "orders/updated"
        };
        all.push(order_delivery(topic, &body(id, 0, "pending")).id(&format!("w-{id}")));
    }
    post_all(&service, &all).await;
    service.settled().await;
    let (console, session) = signed_in(&mut service).await;
    let mut path = "/deliveries?format=json".to_owned();
    let mut seen = BTreeSet::new();
    let mut pages = 0;
    loop {
        let answer: Value = serde_json::from_str(&console.shown(&session, &path).await).unwrap();
        pages += 1;
        for item in answer["items"].as_array().unwrap() {
            assert!(
                seen.insert(item["delivery_id"].as_str().unwrap().to_owned()),
                "{item}"
            );
            assert_eq!(item["outcome"], "done");
        }
        match answer["next"].as_str() {
            Some(next) => path = format!("/deliveries?format=json&after={next}"),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (120, 3));
    let made = "/deliveries?topic=orders%2FCREATE&shop=Shop.Example&source=storefront&state=done";
    assert_eq!(
        json(&console, &session, &format!("{made}&format=json"))
            .await
            .len(),
        30
    );
    let none = json(&console, &session, "/deliveries?state=dead&format=json").await;
    assert!(none.is_empty());
    let csv = console.shown(&session, &format!("{made}&format=csv")).await;
    assert_eq!(csv.lines().count(), 31);
    assert!(
        csv.starts_with("arrived,topic,outcome,took,about,shop,delivery,job\r\n"),
        "{csv}"
    );
    let page = console.shown(&session, "/deliveries").await;
    assert!(
        page.contains("Next page") && page.contains("orders/updated"),
        "{page}"
    );
    let (status, _) = console.page(&session, "/deliveries?after=nothing").await;
    assert_eq!(status, 400);
    service.stop().await;
}

#[tokio::test]
async fn dead_jobs_of_one_moment_are_each_on_one_page() {
    let mut service = service().without_workers().start().await;
    let all: Vec<_> = (1..=120)
        .map(|id| order_delivery("orders/create", &body(id, 0, "pending")))
        .collect();
    post_all(&service, &all).await;
    service
        .execute("update jobs set state = 'dead', last_error = 'none', finished_at = 1800000000000")
        .await;
    let (console, session) = signed_in(&mut service).await;
    let mut path = "/dead?format=json".to_owned();
    let mut seen = BTreeSet::new();
    loop {
        let answer: Value = serde_json::from_str(&console.shown(&session, &path).await).unwrap();
        for item in answer["items"].as_array().unwrap() {
            assert!(
                seen.insert(item["id"].as_str().unwrap().to_owned()),
                "{item}"
            );
        }
        match answer["next"].as_str() {
            Some(next) => path = format!("/dead?format=json&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 120);
    service.stop().await;
}

#[tokio::test]
async fn no_page_of_the_console_says_who_a_person_is() {
    let mut service = service().start().await;
    an_order_lives(&service).await;
    let request = json!({
        "shop_id": 1, "shop_domain": SHOP, "orders_requested": [5_000_000_000_000_700_i64],
        "customer": {"id": 77, "email": "canary@example.com", "phone": "+12025550123"},
        "data_request": {"id": 9},
    });
    deliver(
        &service,
        &storefront("customers/data_request", request.to_string()),
    )
    .await;
    let (console, session) = signed_in(&mut service).await;
    let mut paths: Vec<String> = LISTS.map(str::to_owned).into();
    let more = [
        "/orders/5000000000000700?",
        "/payments/pi_7?",
        "/customers/77?shop=shop.example",
    ];
    paths.extend(more.map(str::to_owned));
    paths.push("/privacy?all=yes".to_owned());
    let jobs = service
        .db()
        .query("select id from jobs")
        .fetch_all()
        .await
        .unwrap();
    for job in jobs {
        let id: uuid::Uuid = job.get("id").unwrap();
        paths.push(format!("/jobs/{id}"));
    }
    assert!(paths.len() > 14, "{paths:?}");
    for path in paths {
        let query = if path.contains('?') { "&" } else { "?" };
        for form in ["", "format=json", "format=csv"] {
            let page = console
                .shown(&session, &format!("{path}{query}{form}"))
                .await;
            let page = page.to_lowercase();
            for trace in ["canary", "2025550123", "@example"] {
                assert!(!page.contains(trace), "{trace} in {path} {form}: {page}");
            }
        }
    }
    service.stop().await;
}
