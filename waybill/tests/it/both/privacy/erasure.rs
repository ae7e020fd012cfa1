//! `customers/redact`: which data it finds, which data stays, and that no later delivery brings a
//! person back (docs/reliability.md, I4 and C13).

use std::time::Duration;

use domain::job::{Queue, Source, State};
use domain::privacy::Decided;
use serde_json::{Value, json};
use store::jobs::NewJob;
use store::privacy_requests::By;
use store::{audit, ledger, privacy_requests};
use uuid::Uuid;

use crate::support::backend::{is_distributed, statement};
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::job;
use crate::support::order::{at, body, deliver, naming_agreement, order_delivery, post_all, with};
use crate::support::payment::{charge, event, intent, invoice, session};
use crate::support::records;
use crate::support::requests::{decide, entry, posted};
use crate::support::{Service, eventually, pause, service};

/// What every personal field of an order has in it.
const CANARY: &str = "anary";

fn redact(customer: &Value, orders: &[i64]) -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, "orders_to_redact": orders,
    });
    storefront("customers/redact", body.to_string())
}

/// The columns in which this text is found, whatever its capitals.
pub async fn places(service: &Service, text: &str) -> Vec<String> {
    let sql = if is_distributed() {
        "select cast(table_name as text) as name, cast(column_name as text) as field,
                cast(case when data_type = 'bytea' then 1 else 0 end as bigint) as is_bytes
         from information_schema.columns where table_schema = current_schema()"
    } else {
        "select m.name as name, p.name as field, 0 as is_bytes
         from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table'"
    };
    let mut found = Vec::new();
    for row in service.db().query(sql).fetch_all().await.unwrap() {
        let (table, field): (String, String) =
            (row.get("name").unwrap(), row.get("field").unwrap());
        let is_bytes = row.get::<i64>("is_bytes").unwrap_or(0) == 1;
        let value = if is_bytes {
            format!("encode({field}, 'escape')")
        } else {
            format!("cast({field} as text)")
        };
        let bytes = if is_distributed() {
            format!("encode(convert_to({value}, 'UTF8'), 'hex')")
        } else {
            format!("hex({value})")
        };
        let like = text.to_lowercase();
        let sql =
            format!("select {bytes} as bytes from {table} where lower({value}) like '%{like}%'");
        let rows = service.db().query(statement(sql)).fetch_all().await;
        let mut values = rows.unwrap().into_iter().map(|row| {
            let bytes = hex::decode(row.get::<String>("bytes").unwrap()).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        if values.any(|value| without_base64(&value).to_lowercase().contains(&like)) {
            found.push(format!("{table}.{field}"));
        }
    }
    found.sort();
    found
}

/// The same without what is Base64 of a hash or of something longer, which may have any short word in it by chance.
fn without_base64(value: &str) -> String {
    const HASH: usize = 43;
    let is_base64 = |c: &u8| c.is_ascii_alphanumeric() || b"+/-_=".contains(c);
    let runs = value
        .as_bytes()
        .chunk_by(|a, b| is_base64(a) == is_base64(b));
    let by_chance = |run: &&[u8]| {
        run.len() >= HASH
            && run.iter().any(u8::is_ascii_uppercase)
            && run.iter().any(u8::is_ascii_lowercase)
            && run.iter().any(u8::is_ascii_digit)
    };
    let rest: Vec<u8> = runs
        .filter(|run| !by_chance(run))
        .flatten()
        .copied()
        .collect();
    String::from_utf8_lossy(&rest).into_owned()
}

#[test]
fn a_word_in_base64_is_there_by_chance_and_elsewhere_it_is_not() {
    let hash = "Zm9vYmFyannZm9vYmFyZm9vYmFyZm9vYmFyZm9vYmFy0";
    let text = format!(r#"{{"hash":"{hash}","email":"Ann@example.com"}}"#);
    assert_eq!(
        without_base64(&text),
        r#"{"hash":"","email":"Ann@example.com"}"#
    );
    let long = "ann/".repeat(20);
    assert_eq!(without_base64(&long), long);
}

async fn request(service: &Service) -> privacy_requests::RequestEntry {
    let all = privacy_requests::Filter::default();
    let mut requests = privacy_requests::list(service.db(), &all, 10)
        .await
        .unwrap();
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

/// An order, and then its payment, the charge, a session and an invoice.
async fn buy(service: &Service) {
    let order = with(body(1, 1, "paid"), &naming_agreement("p1"));
    deliver(service, &order_delivery("orders/create", &order).id("1")).await;
    post_all(service, &payments(service)).await;
    service.settled().await;
}

fn payments(service: &Service) -> Vec<Delivery> {
    let bought = json!({"payment_intent": "pi_1", "metadata": {"pact_id": "p1"},
                        "subscription": "sub_1", "client_reference_id": "Canary"});
    vec![
        event(
            service,
            "payment_intent.succeeded",
            1,
            &intent("pi_1", "succeeded", 3000, Some("p1")),
        ),
        event(service, "charge.refunded", 2, &charge("pi_1", 3000, 500)),
        event(
            service,
            "checkout.session.completed",
            3,
            &session("cs_1", "paid", 3000, &bought),
        ),
        event(
            service,
            "invoice.payment_succeeded",
            4,
            &invoice("in_1", "sub_1", 900, 30),
        ),
    ]
}

async fn all_is_erased(service: &Service) {
    service.settled().await;
    assert_eq!(places(service, CANARY).await, Vec::<String>::new());
    assert_eq!(places(service, "2025550123").await, Vec::<String>::new());
}

/// Bodies of payments cannot be changed until [`allow_changes`].
async fn refuse_changes(service: &Service) {
    let refusals: &[&str] = if is_distributed() {
        &[
            "create function refuse() returns trigger language plpgsql as
             'begin raise exception ''refused''; end'",
            "create trigger refused before update of body on deliveries for each row
             when (old.source = 'payment') execute function refuse()",
        ]
    } else {
        &[
            "create trigger refused before update of body on deliveries for each row
           when old.source = 'payment' begin select raise(abort, 'refused'); end",
        ]
    };
    for sql in refusals {
        service.execute(sql).await;
    }
}

async fn allow_changes(service: &Service) {
    let drop = if is_distributed() {
        "drop trigger refused on deliveries"
    } else {
        "drop trigger refused"
    };
    service.execute(drop).await;
}

#[tokio::test]
async fn bodies_that_a_run_found_and_did_not_erase_are_erased_by_the_next_run() {
    let service = service().manual_clock().start().await;
    buy(&service).await;
    refuse_changes(&service).await;
    let redaction = redact(&json!({"id": 77}), &[1]);
    assert_eq!(service.answer(&redaction).await.0, 200);
    // A run that knows more than the one before begins its scan again. The third knows what the
    // second did, and goes on where that one says that it was.
    let failed = "select count(*) as n from jobs where kind = 'customers/redact' and attempts > 2";
    eventually("the erasure fails three times in the middle", async || {
        service.pass(Duration::from_mins(1)).await;
        service.count(failed).await == 1
    })
    .await;
    assert!(!places(&service, CANARY).await.is_empty());
    allow_changes(&service).await;
    eventually("nothing is left", async || {
        service.pass(Duration::from_mins(1)).await;
        places(&service, CANARY).await.is_empty()
    })
    .await;
    all_is_erased(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn a_customer_is_found_by_id_and_by_an_address_once_an_operator_says_who_it_is() {
    for customer in [
        json!({"id": 77}),
        json!({"email": " Canary@Example.com"}),
        json!({"phone": "+1 (202) 555-0123"}),
    ] {
        let service = service().start().await;
        buy(&service).await;
        let before = places(&service, CANARY).await;
        assert!(before.len() >= 9, "{before:?}");
        deliver(&service, &redact(&customer, &[])).await;
        if customer["id"].is_null() {
            let entry = request(&service).await;
            assert_eq!(entry.state, "held", "{customer}");
            let held = entry.held.unwrap();
            assert_eq!(held.customers.keys().collect::<Vec<_>>(), [&77]);
            let said = Decided {
                customers: [77].into(),
                ..Decided::default()
            };
            decide(&service, entry.id, &said).await;
        }
        all_is_erased(&service).await;
        let entry = request(&service).await;
        assert_eq!(entry.state, "done");
        let counts = &entry.progress;
        assert_eq!(
            (&counts["customers"], &counts["orders"], &counts["payments"]),
            (&json!(1), &json!(1), &json!(1)),
            "{customer}: {counts}"
        );
        assert_eq!(counts["checkout_sessions"], 1);
        assert_eq!(counts["jobs"], 5, "{customer}");
        let books = ledger::verify(service.db()).await.unwrap();
        assert!(books.is_balanced(), "{books:?}");
        service.stop().await;
    }
}

#[tokio::test]
async fn amounts_ids_and_states_stay() {
    let service = service().start().await;
    let key = service.api_key().await;
    buy(&service).await;
    let path = format!("/api/commerce/orders/1?shop={SHOP}");
    let order = async || {
        let answer = service.get(&path).bearer_auth(&key).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    let before = order().await;
    deliver(&service, &redact(&json!({"id": 77}), &[])).await;
    assert_eq!(order().await, before);
    let trail = audit::verify(service.db(), &service.parts.keys)
        .await
        .unwrap();
    assert!(trail.broken.is_none() && trail.entries >= 2, "{trail:?}");
    let entry = request(&service).await;
    assert!(entry.receipt.is_some());
    service.stop().await;
}

#[tokio::test]
async fn bodies_of_jobs_that_are_ready_dead_or_done_lose_the_person_and_still_run() {
    let service = service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "pending")).id("1"),
    )
    .await;
    let unreadable = with(body(2, 1, "pending"), &json!({"order_id": 7}));
    deliver(
        &service,
        &order_delivery("orders/create", &unreadable).id("2"),
    )
    .await;
    assert_eq!(service.jobs(State::Dead).await, 1);
    // Ready, and not due before long.
    service
        .execute(
            "update jobs set state = 'ready', finished_at = null, run_at = run_at + 99999999
             where id in (select id from deliveries where external_id = '1')",
        )
        .await;
    let before = places(&service, CANARY).await;
    assert!(before.contains(&"deliveries.body".to_owned()));
    post_all(&service, &[redact(&json!({"id": 77}), &[])]).await;
    eventually("it is done", async || {
        request(&service).await.state == "done"
    })
    .await;
    assert_eq!(places(&service, CANARY).await, Vec::<String>::new());
    let left = "select count(*) as n from deliveries where body is not null";
    assert_eq!(service.count(left).await, 2, "what is worked on is left");
    service
        .execute(
            "update jobs set run_at = created_at, notified_at = null
             where id in (select id from deliveries where external_id = '1')",
        )
        .await;
    service.settled().await;
    let orders = records::orders(service.db()).await;
    let (_, order) = orders.iter().find(|((_, id), _)| *id == 1).unwrap();
    assert_eq!(order.lines.value.len(), 2);
    service.stop().await;
}

#[tokio::test]
async fn whatever_comes_late_again_or_first_does_not_bring_a_person_back() {
    let service = service().start().await;
    // Nothing has come yet: one order is named, the other is known by its customer alone.
    deliver(&service, &redact(&json!({"id": 77}), &[5])).await;
    let anonymous = with(body(5, 1, "paid"), &json!({"customer": null}));
    post_all(&service, &payments(&service)).await;
    buy(&service).await;
    post_all(
        &service,
        &[order_delivery("orders/create", &anonymous).id("5")],
    )
    .await;
    all_is_erased(&service).await;
    let again = with(body(1, 9, "paid"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/updated", &again).id("9")).await;
    let refunded = charge("pi_1", 3000, 900);
    deliver(&service, &event(&service, "charge.refunded", 9, &refunded)).await;
    let later = invoice("in_2", "sub_1", 900, 60);
    deliver(
        &service,
        &event(&service, "invoice.payment_succeeded", 9, &later),
    )
    .await;
    // It fails, and would keep its body.
    let unreadable = with(body(1, 10, "paid"), &json!({"order_id": 7}));
    deliver(
        &service,
        &order_delivery("orders/updated", &unreadable).id("10"),
    )
    .await;
    assert_eq!(service.jobs(State::Dead).await, 1);
    all_is_erased(&service).await;
    let orders =
        "select count(*) as n from orders where shop = 'shop.example' and redacted_at is not null";
    assert_eq!(service.count(orders).await, 2, "and they are stored");
    service.stop().await;
}

/// It says whose it is by an e-mail, and the request names a customer: only the order, which both
/// are in, leads from one to the other.
#[tokio::test]
async fn a_payment_that_only_an_order_still_waiting_leads_to_is_erased_with_it() {
    let mut service = service().without_workers().start().await;
    let order = with(body(1, 1, "paid"), &naming_agreement("p1"));
    post_all(&service, &[order_delivery("orders/create", &order).id("1")]).await;
    service
        .execute(
            "update jobs set run_at = run_at + 99999999, notified_at = null
             where id in (select id from deliveries where external_id = '1')",
        )
        .await;
    service.start_workers();
    let paid = intent("pi_1", "succeeded", 3000, Some("p1"));
    let paid = event(&service, "payment_intent.succeeded", 1, &paid);
    post_all(&service, &[paid]).await;
    let payers = "select count(*) as n from payments where email_key is not null";
    eventually("the payment is stored", async || {
        service.count(payers).await == 1
    })
    .await;
    let redaction = redact(&json!({"id": 77}), &[]);
    post_all(&service, &[redaction]).await;
    eventually("it is done", async || {
        request(&service).await.state == "done"
    })
    .await;
    service
        .execute(
            "update jobs set run_at = created_at, notified_at = null
             where id in (select id from deliveries where external_id = '1')",
        )
        .await;
    all_is_erased(&service).await;
    let orders = "select count(*) as n from orders where redacted_at is not null";
    assert_eq!(service.count(orders).await, 1);
    service.stop().await;
}

/// Finished events with nothing in them, but for the first and the last.
pub async fn insert_events(service: &Service, count: usize) {
    let now = service.clock().now();
    let body = |nth: usize| match nth {
        0 => r#"{"data":{"object":{"receipt_email":"canary@example.com"}}}"#,
        nth if nth + 1 == count => r#"{"data":{"object":{"to":"canary@example.com"}}}"#,
        _ => "{}",
    };
    let event = |nth| NewJob {
        body: body(nth).into(),
        state: State::Done,
        ..job::ready(
            service.clock().id(),
            Queue::Payments,
            Source::Payment,
            "charge.refunded",
            now,
        )
    };
    job::insert(service.db(), &(0..count).map(event).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_scan_of_many_jobs_goes_on_in_the_next_run_and_misses_none() {
    let service = service().manual_clock().start().await;
    insert_events(&service, 12_000).await;
    let redaction = redact(&json!({"email": "canary@example.com"}), &[]);
    // A run scans four pages of jobs.
    service.clock().pass_with_each_look(Duration::from_secs(5));
    post_all(&service, &[redaction]).await;
    let left_off = "select count(*) as n from jobs
                    where last_error = 'a part is done; it goes on' and attempts = 0";
    eventually("a run was left off", async || {
        service.count(left_off).await == 1
    })
    .await;
    eventually("it is done", async || {
        request(&service).await.state == "done"
    })
    .await;
    assert_eq!(request(&service).await.progress["jobs"], 2);
    assert_eq!(places(&service, CANARY).await, Vec::<String>::new());
    service.stop().await;
}

/// Notes something else of the request than the run that is under way has read, as a run does that has taken over because
/// the one before was believed to be dead.
pub async fn overtake(service: &Service, change: impl FnOnce(&mut Value)) {
    let claimed = "select count(*) as n from jobs where queue = 'privacy' and claims is not null";
    eventually("a run is under way", async || {
        service.count(claimed).await == 1
    })
    .await;
    let id = request(service).await.id;
    let mut tx = service.db().begin().await.unwrap();
    privacy_requests::state(&mut tx, id).await.unwrap();
    // Whatever run is under way has read what is noted, and waits to note more.
    pause(Duration::from_millis(500)).await;
    let mut noted = request(service).await.progress;
    change(&mut noted);
    privacy_requests::note_progress(&mut tx, id, &noted)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn what_another_run_has_counted_is_not_written_over() {
    let service = service().manual_clock().start().await;
    insert_events(&service, 12_000).await;
    service.clock().pass_with_each_look(Duration::from_secs(5));
    let redaction = redact(&json!({"email": "canary@example.com"}), &[]);
    post_all(&service, &[redaction]).await;
    eventually("a run has noted how far it is", async || {
        request(&service).await.progress.is_object()
    })
    .await;
    overtake(&service, |noted| {
        noted["jobs"] = json!(noted["jobs"].as_u64().unwrap() + 1000);
    })
    .await;
    eventually("it is done", async || {
        request(&service).await.state == "done"
    })
    .await;
    assert_eq!(request(&service).await.progress["jobs"], 1002);
    assert_eq!(places(&service, CANARY).await, Vec::<String>::new());
    service.stop().await;
}

#[tokio::test]
async fn who_comes_back_is_a_new_customer() {
    let service = service().manual_clock().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "paid")).id("1"),
    )
    .await;
    deliver(&service, &redact(&json!({"id": 77}), &[])).await;
    assert_eq!(places(&service, CANARY).await, Vec::<String>::new());
    service.clock().advance(Duration::from_hours(48));
    let back = json!({
        "created_at": "2027-01-17T08:00:00Z", "updated_at": "2027-01-17T08:00:00Z",
        "customer": {"id": 78, "email": "canary@example.com", "first_name": "Canary"},
    });
    deliver(
        &service,
        &order_delivery("orders/create", &with(body(2, 1, "paid"), &back)).id("2"),
    )
    .await;
    let found = places(&service, CANARY).await;
    for place in ["customers.record", "orders.record", "deliveries.body"] {
        assert!(found.contains(&place.to_owned()), "{place}: {found:?}");
    }
    let erased = "select count(*) as n from orders where email_key is null";
    assert_eq!(service.count(erased).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn another_customer_and_another_shop_keep_everything() {
    let service = service().start().await;
    let other = json!({
        "email": "parrot@example.com", "phone": "+12025550199",
        "customer": {"id": 78, "email": "parrot@example.com", "first_name": "Parrot"},
        "shipping_address": {"first_name": "Parrot"},
    });
    let elsewhere = with(body(1, 1, "paid"), &naming_agreement("p9"));
    let paid = intent("pi_9", "succeeded", 3000, Some("p9"));
    post_all(
        &service,
        &[
            order_delivery("orders/create", &with(body(2, 1, "paid"), &other)).id("2"),
            order_delivery("orders/create", &elsewhere)
                .of_shop("other.example")
                .id("3"),
            event(&service, "payment_intent.succeeded", 1, &paid),
        ],
    )
    .await;
    buy(&service).await;
    deliver(
        &service,
        &redact(&json!({"id": 77, "email": "canary@example.com"}), &[]),
    )
    .await;
    let parrots = places(&service, "arrot").await;
    for place in ["customers.record", "orders.record", "deliveries.body"] {
        assert!(parrots.contains(&place.to_owned()), "{place}: {parrots:?}");
    }
    let kept = "select count(*) as n from orders
                where shop = 'other.example' and email_key is not null and phone_key is not null";
    assert_eq!(service.count(kept).await, 1);
    let orders = records::orders(service.db()).await;
    let (_, kept) = orders
        .iter()
        .find(|((shop, _), _)| shop == "other.example")
        .unwrap();
    assert!(kept.addresses.value.shipping.is_some());
    let paid = "select count(*) as n from payments where email_key is not null";
    assert_eq!(service.count(paid).await, 1, "the other shop's");
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_comes_again_is_known_as_such_and_harmless() {
    let service = service().start().await;
    buy(&service).await;
    let request = redact(&json!({"id": 77}), &[]);
    deliver(&service, &request.clone().id("a")).await;
    deliver(&service, &request.id("b")).await;
    let all = privacy_requests::Filter::default();
    let requests = privacy_requests::list(service.db(), &all, 10)
        .await
        .unwrap();
    let [first, second] = requests.as_slice() else {
        panic!("two requests");
    };
    assert_eq!(second.repeats, Some(first.id), "the same body came again");
    assert_eq!(first.progress["orders"], 1);
    assert_eq!(first.progress["payments"], 1);
    assert_eq!(second.progress["payments"], 0, "nothing was left");
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_was_captured_and_comes_again_erases_nothing_that_came_since() {
    let service = service().manual_clock().start().await;
    let request = redact(&json!({"id": 77}), &[]);
    let order = |id: i64| {
        with(
            body(id, 1, "paid"),
            &json!({"created_at": service.clock().now()}),
        )
    };
    deliver(
        &service,
        &order_delivery("orders/create", &order(1)).id("1"),
    )
    .await;
    deliver(&service, &request.clone().id("a")).await;
    assert_eq!(places(&service, CANARY).await, Vec::<String>::new());
    service.clock().advance(Duration::from_hours(48));
    deliver(
        &service,
        &order_delivery("orders/create", &order(2)).id("2"),
    )
    .await;
    let before = places(&service, CANARY).await;
    assert!(before.contains(&"orders.record".to_owned()), "{before:?}");

    let ids = ["b", "c"].map(|id| request.clone().id(id));
    let [cancelled, confirmed] = [
        posted(&service, &ids[0]).await,
        posted(&service, &ids[1]).await,
    ];
    for id in [cancelled, confirmed] {
        eventually("it waits for an operator", async || {
            entry(&service, id).await.waits()
        })
        .await;
    }
    assert_eq!(places(&service, CANARY).await, before);
    let by = By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    };
    privacy_requests::cancel(service.db(), by, cancelled)
        .await
        .unwrap();
    privacy_requests::confirm(service.db(), by, confirmed, Duration::from_hours(1))
        .await
        .unwrap();
    eventually("it is done", async || {
        entry(&service, confirmed).await.state == "done"
    })
    .await;
    assert_eq!(places(&service, CANARY).await, Vec::<String>::new());
    assert_eq!(entry(&service, cancelled).await.state, "cancelled");
    service.stop().await;
}

#[tokio::test]
async fn orders_that_are_being_written_while_their_customer_is_erased_are_erased_too() {
    let service = service().start().await;
    let order = |id: i64| order_delivery("orders/create", &body(id, 1, "paid")).id(&id.to_string());
    let orders: Vec<Delivery> = (1..=200).map(order).collect();
    let (first, second) = orders.split_at(100);
    post_all(&service, first).await;
    let mut rest = second.to_vec();
    rest.push(redact(&json!({"id": 77}), &[]));
    rest.rotate_right(50);
    post_all(&service, &rest).await;
    all_is_erased(&service).await;
    let orders = "select count(*) as n from orders where redacted_at is not null";
    eventually("each is marked", async || {
        service.count(orders).await == 200
    })
    .await;
    let id: Uuid = request(&service).await.id;
    let trail = audit::list(service.db(), Some(&id.to_string()), 0, 10)
        .await
        .unwrap();
    let actions: Vec<&str> = trail.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["request.received", "customer.erased"]);
    assert!(
        at(1).starts_with("2027"),
        "orders are older than the request"
    );
    service.stop().await;
}

#[tokio::test]
async fn who_only_mentions_somebody_erased_keeps_their_own() {
    let service = service().start().await;
    deliver(
        &service,
        &redact(&json!({"id": 77, "phone": "+12025550123"}), &[]),
    )
    .await;
    // Made before, of another customer, and sent to the one who is erased.
    let gift = json!({
        "created_at": "2025-01-15T07:00:00Z", "email": "parrot@example.com", "phone": null,
        "customer": {"id": 78, "email": "parrot@example.com", "first_name": "Parrot"},
        "shipping_address": {"first_name": "Parrot", "phone": "+1 202 555 0123"},
        "note": null,
    });
    deliver(
        &service,
        &order_delivery("orders/create", &with(body(1, 1, "paid"), &gift)).id("1"),
    )
    .await;
    let found = places(&service, "arrot").await;
    for place in ["customers.record", "orders.email_key", "orders.record"] {
        assert!(found.contains(&place.to_owned()), "{place}: {found:?}");
    }
    assert!(
        !found.contains(&"deliveries.body".to_owned()),
        "the body is cut"
    );
    let erased = "select count(*) as n from orders where redacted_at is not null";
    assert_eq!(service.count(erased).await, 0);
    service.stop().await;
}
