//! Records that a newer version wrote, and records that cannot be read.

use std::slice;

use domain::job::State;
use serde_json::{Value, json};

use crate::support::order::{body, fulfilment, order_delivery, post_all, with};
use crate::support::payment::{declined, event, intent, session};
use crate::support::records;
use crate::support::{Service, eventually, service};

/// The text of the failure of the one job that failed.
async fn failure(service: &Service) -> String {
    let sql = "select last_error from jobs where last_error is not null";
    let rows = service.db().query(sql).fetch_all().await.unwrap();
    assert_eq!(rows.len(), 1);
    rows[0].get("last_error").unwrap()
}

/// An order of a customer of their own.
fn order(id: i64, second: u32, email: &str) -> Value {
    let customer = json!({"customer": {"id": 7000 + id, "email": email}});
    with(body(id, second, "paid"), &customer)
}

const CUSTOMERS: &str = "customers where id = 7001";

#[tokio::test]
async fn a_customer_of_whom_nothing_is_new_is_not_written() {
    let service = service().start().await;
    let created = order_delivery("orders/create", &order(1, 1, "ada@example.com"));
    post_all(&service, &[created.clone().id("1")]).await;
    service.drained().await;
    service
        .execute("update customers set updated_at = 1 where id = 7001")
        .await;
    post_all(&service, &[created.id("2")]).await;
    service.drained().await;
    let untouched = "select count(*) as n from customers where updated_at = 1";
    assert_eq!(service.count(untouched).await, 1);
    let newer = order_delivery("orders/updated", &order(1, 2, "augusta@example.com"));
    let older = order_delivery("orders/updated", &order(1, 0, "byron@example.com"));
    post_all(&service, &[newer.id("3"), older.id("4")]).await;
    service.drained().await;
    let emails = records::values(service.db(), CUSTOMERS, "email").await;
    assert_eq!(emails, ["augusta@example.com"]);
    let found = "select count(*) as n from customers
                 where email_key = 'augusta@example.com' and updated_at > 1 and created_at > 1";
    assert_eq!(service.count(found).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn what_a_newer_version_wrote_stays_when_this_one_writes() {
    let service = service().start().await;
    let created = order_delivery("orders/create", &order(1, 1, "ada@example.com"));
    post_all(&service, &[created.id("1")]).await;
    service.drained().await;
    let unknown = r#""of_tomorrow":{"b":[1, 2.50],"a":1e400}"#;
    let db = service.db();
    records::edit(db, CUSTOMERS, |text| {
        text.replacen('{', &format!("{{{unknown},"), 1)
    })
    .await;
    let updated = order_delivery("orders/updated", &order(1, 2, "augusta@example.com"));
    post_all(&service, &[updated.id("2")]).await;
    service.drained().await;
    let [text] = &records::texts(db, CUSTOMERS).await[..] else {
        panic!("one customer");
    };
    assert!(text.contains("augusta@example.com"), "{text}");
    assert!(text.ends_with(&format!(",{unknown}}}")), "{text}");
    service.stop().await;
}

#[tokio::test]
async fn what_a_newer_version_wrote_of_a_payment_and_its_session_stays_too() {
    let service = service().start().await;
    let sold = json!({"payment_intent": "pi_1", "metadata": {"pact_id": "p1"}});
    let round = |nth: i64, kind: &str, payment: &Value, status: &str| {
        [
            event(&service, kind, nth, payment),
            event(
                &service,
                "checkout.session.completed",
                nth,
                &session("cs_1", status, 500, &sold),
            ),
        ]
    };
    let failed = declined("pi_1", 500, 1, "insufficient_funds");
    let first = round(1, "payment_intent.payment_failed", &failed, "unpaid");
    post_all(&service, &first).await;
    service.settled().await;
    let unknown = r#""of_tomorrow":"Zm9v\u0041""#;
    let tables = ["payments", "checkout_sessions"];
    for table in tables {
        let add = |text: &str| format!("{},{unknown}}}", text.strip_suffix('}').unwrap());
        records::edit(service.db(), table, add).await;
    }
    let paid = intent("pi_1", "succeeded", 500, Some("p1"));
    post_all(
        &service,
        &round(2, "payment_intent.succeeded", &paid, "paid"),
    )
    .await;
    service.settled().await;
    for (table, news) in tables.into_iter().zip([r#""received":500"#, r#""paid""#]) {
        let [text] = &records::texts(service.db(), table).await[..] else {
            panic!("one row in {table}");
        };
        assert!(text.contains(news) && text.contains(unknown), "{text}");
    }
    service.stop().await;
}

/// What cannot be read stops its own job: it fails with a text that says which record it is and nothing of
/// what is in it, and nothing is written over it. The other jobs of the message go on.
async fn stops_its_own_job(record: &'static str, why: &str, state: State) {
    let service = service().start().await;
    let created = [1, 2].map(|id| {
        let body = order(id, 1, "ada@example.com");
        order_delivery("orders/create", &body).id(&format!("1-{id}"))
    });
    post_all(&service, &created).await;
    service.drained().await;
    let db = service.db();
    records::edit(db, CUSTOMERS, |_| record.to_owned()).await;
    let updated = [1, 2].map(|id| {
        let body = order(id, 2, "augusta@example.com");
        order_delivery("orders/updated", &body).id(&format!("2-{id}"))
    });
    post_all(&service, &updated).await;
    eventually("the other job is done", async || {
        let emails = records::values(db, "customers where id = 7002", "email").await;
        emails == ["augusta@example.com"]
    })
    .await;
    let failed = "select count(*) as n from jobs where last_error is not null";
    eventually("its job has failed", async || {
        service.count(failed).await == 1
    })
    .await;
    assert_eq!(service.jobs(state).await, 1);
    let failure = failure(&service).await;
    let expected = format!(
        "the record of shop.example 7001 in customers cannot be read: {why}; nothing was changed"
    );
    assert!(failure.ends_with(&expected), "{failure}");
    assert_eq!(records::texts(db, CUSTOMERS).await, [record]);
    service.stop().await;
}

#[tokio::test]
async fn a_damaged_record_stops_its_own_job_for_good_and_is_never_overwritten() {
    let why =
        "it is damaged at line 1, column 34, so restore its row from a backup and requeue its job";
    stops_its_own_job(r#"{"schema":1,"email":{"at":"canary"}}"#, why, State::Dead).await;
}

#[tokio::test]
async fn a_record_of_a_newer_schema_waits_for_a_newer_version_and_is_never_overwritten() {
    let why = "it has schema 2, and this version knows 1, so a newer version must read it";
    stops_its_own_job(r#"{"schema":2,"email":"canary"}"#, why, State::Ready).await;
}

/// 2,000 lines and 200 parcels are kept. What would grow beyond all measure stays as it was, its job says why, and the
/// jobs of other orders go on.
#[tokio::test]
async fn a_large_record_is_kept_and_one_that_would_be_too_large_is_said() {
    let service = service().start().await;
    let lines: Vec<Value> = (1..=2000)
        .map(|id| json!({"id": id, "title": "Linen apron", "quantity": 2, "price": "1.00"}))
        .collect();
    let numbers: Vec<String> = (1..=200).map(|nth| format!("1Z{nth}")).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let of_1 = |second: u32, shipped: &[Value]| {
        let fields = json!({"line_items": lines, "fulfillments": shipped});
        let large = with(body(1, second, "paid"), &fields);
        order_delivery("orders/updated", &large).id(&format!("1-{second}"))
    };
    let parcels = fulfilment(1, &numbers, &[(1, 2)]);
    post_all(&service, &[of_1(1, slice::from_ref(&parcels))]).await;
    service.drained().await;
    let key = service.api_key().await;
    let order = service.get("/api/commerce/orders/1").bearer_auth(key);
    let order: Value = order.send().await.unwrap().json().await.unwrap();
    assert_eq!(order["line_items"].as_array().unwrap().len(), 2000);
    let shown = order["shipments"][0]["parcels"].as_array().unwrap();
    assert_eq!(shown.len(), 200);

    for nth in 2..=6 {
        let mut shipped = fulfilment(i64::from(nth), &[], &[]);
        shipped["status"] = "x".repeat(1_700_000).into();
        let other = order_delivery("orders/create", &body(i64::from(nth), 1, "paid"));
        let both = [of_1(nth, &[shipped]), other.id(&format!("2-{nth}"))];
        post_all(&service, &both).await;
        service.settled().await;
    }
    assert_eq!(service.jobs(State::Dead).await, 1);
    assert_eq!(service.count("select count(*) as n from orders").await, 6);
    let [record] = &records::texts(service.db(), "orders where id = 1").await[..] else {
        panic!("one order");
    };
    assert!(record.len() < 8 << 20, "{}", record.len());
    let failure = failure(&service).await;
    let said = "the record of shop.example 1 in orders would have ";
    assert!(failure.contains(said), "{failure}");
    service.stop().await;
}
