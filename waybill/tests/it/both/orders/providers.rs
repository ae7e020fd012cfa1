//! The calls that orders make to the two providers. Each has its effect there only once, whatever
//! goes wrong meanwhile, and other work does not wait for a provider that does not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::job::{JobId, LEASE, State};
use domain::money::Currency;
use domain::time::Timestamp;
use sandbox::{Delivery as Webhook, Sandbox, Webhooks, sample};
use sandbox::{
    Fault, FaultInjector, Intent, Options as SandboxOptions, PAYMENT_KEY, STOREFRONT_TOKEN,
};
use serde_json::{Value, json};
use store::jobs;

use crate::support::delivery::{Delivery, SHOP};
use crate::support::operator;
use crate::support::order::{
    CAPTURED, TOPICS, body, cancelled, captured, deliver, events, kinds, naming_agreement,
    no_person_in_events_and_jobs, order_delivery, post_all, shown, times, with,
};
use crate::support::process::{Process, free_port, settings};
use crate::support::records;
use crate::support::{
    Options, PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, pause, service, within,
    without_pauses,
};

pub async fn sandbox() -> Sandbox {
    Sandbox::start(SandboxOptions::default()).await.unwrap()
}

pub fn with_storefront(options: Options, sandbox: &Sandbox, token: &str) -> Options {
    options
        .setting("STOREFRONT_API_URL", &sandbox.storefront_url())
        .setting("STOREFRONT_API_TOKEN", token)
}

pub fn with_payment(options: Options, sandbox: &Sandbox, key: &str) -> Options {
    options
        .setting("PAYMENT_API_URL", &sandbox.payment_url())
        .setting("PAYMENT_API_KEY", key)
}

/// A service that knows both providers.
pub fn with_both(sandbox: &Sandbox) -> Options {
    let options = with_storefront(service(), sandbox, STOREFRONT_TOKEN);
    with_payment(options, sandbox, PAYMENT_KEY)
}

/// The payment provider captures thirty dollars, `pi_<nth>`.
pub fn capture(sandbox: &Sandbox, nth: i64, agreement: &str) {
    sandbox.payment().add_intent(Intent {
        id: format!("pi_{nth}"),
        amount: CAPTURED,
        currency: Currency::parse("USD").unwrap(),
        pact_id: Some(agreement.to_owned()),
    });
}

pub fn now(service: &Service) -> Timestamp {
    service.clock().now()
}

/// An order that is cancelled, and its payment `pi_<id>`, which finds it by the order's id.
pub async fn cancel_with_payment(service: &Service, sandbox: &Sandbox, id: i64) {
    capture(sandbox, id, &id.to_string());
    let deliveries = [
        captured(now(service), id, &id.to_string()),
        order_delivery("orders/cancelled", &cancelled(id, 1, "paid")),
    ];
    post_all(service, &deliveries).await;
}

pub async fn refund(service: &Service, id: i64) -> Value {
    let key = service.api_key().await;
    let order = shown(service, &key, SHOP, id).await;
    let refunds = order["refunds"].as_array().unwrap();
    assert_eq!(refunds.len(), 1, "{refunds:?}");
    refunds[0].clone()
}

/// What the storefront has answered to the request for an order's fulfilment.
pub async fn at_storefront(service: &Service, id: i64) -> (String, Option<String>) {
    let orders = records::orders(service.db()).await;
    let (_, order) = orders.iter().find(|((_, it), _)| *it == id).unwrap();
    match &order.own.fulfillment.asked {
        Some(asked) => (asked.state.into_str().to_owned(), asked.id.clone()),
        None => (String::new(), None),
    }
}

/// Every idempotency key was used so often.
pub fn each_key(fault_injector: &FaultInjector, keys: usize, times: u32) {
    let by_key = fault_injector.requests_by_key();
    assert_eq!(by_key.len(), keys, "{by_key:?}");
    assert!(by_key.values().all(|it| *it == times), "{by_key:?}");
}

pub fn made(orders: impl IntoIterator<Item = i64>) -> BTreeMap<(String, i64), u32> {
    orders
        .into_iter()
        .map(|id| ((SHOP.to_owned(), id), 1))
        .collect()
}

pub fn given_back(payments: impl IntoIterator<Item = i64>) -> BTreeMap<String, u32> {
    payments
        .into_iter()
        .map(|nth| (format!("pi_{nth}"), 1))
        .collect()
}

/// The one job of a kind, if there is one: its state, attempts and last error.
pub async fn job(service: &Service, kind: &str) -> (String, i64, String) {
    let row = service
        .db()
        .query("select state, attempts, last_error from jobs where kind = $1")
        .bind(kind)
        .fetch_optional();
    let Some(row) = row.await.unwrap() else {
        return Default::default();
    };
    let error: Option<String> = row.get("last_error").unwrap();
    let (state, attempts) = (row.get("state").unwrap(), row.get("attempts").unwrap());
    (state, attempts, error.unwrap_or_default())
}

pub const FULFILLMENT: &str = "fulfillments/request";

pub const REFUND: &str = "refunds/issue";

const CONFIRM: &str = "topics/confirm";

/// A body from which the keys of the three statuses were cut.
fn silent(id: i64, second: u32) -> Value {
    let mut body = body(id, second, "paid");
    let keys = ["financial_status", "fulfillment_status", "cancelled_at"];
    let fields = body.as_object_mut().unwrap();
    fields.retain(|key, _| !keys.contains(&key.as_str()));
    body
}

/// How an order stands at the storefront from now on.
fn stands(sandbox: &Sandbox, order: &Value) {
    let webhook = Webhook::storefront("orders/updated", "w", SHOP, order.to_string());
    sandbox.storefront().remember(&webhook);
}

/// The fulfilment's state, and how many refunds there are.
pub async fn state(service: &Service, id: i64) -> (String, usize) {
    let key = service.api_key().await;
    let order = shown(service, &key, SHOP, id).await;
    let state = order["fulfillment"]["state"].as_str().unwrap().to_owned();
    (state, order["refunds"].as_array().unwrap().len())
}

/// Order, topic and how often it was refuted, of `waybill orders repeated`.
async fn refuted(service: &Service) -> Vec<(i64, String, i64)> {
    let listed = operator::items(service, &["orders", "repeated"]).await;
    let mut refuted: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|body| {
            let topic = body["topic"].as_str().unwrap().to_owned();
            (
                body["order_id"].as_i64().unwrap(),
                topic,
                body["refuted"].as_i64().unwrap(),
            )
        })
        .collect();
    refuted.sort();
    refuted
}

#[tokio::test]
async fn what_a_topic_alone_says_counts_once_the_storefront_says_the_same() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    let fulfilled = with(
        body(3, 1, "paid"),
        &json!({"fulfillment_status": "fulfilled"}),
    );
    let cases = [
        (
            1,
            "orders/cancelled",
            cancelled(1, 1, "paid"),
            ("cancelled", 1),
        ),
        (2, "orders/paid", body(2, 1, "paid"), ("requested", 0)),
        (3, "orders/fulfilled", fulfilled, ("fulfilled", 0)),
    ];
    for (id, topic, order, (said, refunds)) in cases {
        stands(&sandbox, &order);
        deliver(&service, &order_delivery(topic, &silent(id, 1))).await;
        assert_eq!(
            state(&service, id).await,
            (said.to_owned(), refunds),
            "{topic}"
        );
        // The same again, under another id: asked again, and nothing happens twice.
        let before = kinds(service.db(), SHOP, id).await;
        deliver(
            &service,
            &order_delivery(topic, &silent(id, 1)).id(&format!("again-{id}")),
        )
        .await;
        assert_eq!(kinds(service.db(), SHOP, id).await, before, "{topic}");
    }
    assert_eq!(refuted(&service).await, []);
    assert_eq!(sandbox.storefront().created(), made([2]));
    assert_eq!(service.jobs(State::Dead).await, 0);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn what_the_storefront_does_not_confirm_moves_neither_money_nor_goods_and_is_listed() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    // There it is pending, and nothing else; and of the fourth it has never heard.
    let topics = ["orders/cancelled", "orders/paid", "orders/fulfilled"];
    for (id, topic) in (1..).zip(topics) {
        stands(&sandbox, &body(id, 2, "pending"));
        deliver(&service, &order_delivery(topic, &silent(id, 1))).await;
        assert_eq!(
            state(&service, id).await,
            ("initiated".to_owned(), 0),
            "{topic}"
        );
    }
    deliver(&service, &order_delivery("orders/cancelled", &silent(4, 1))).await;
    assert_eq!(state(&service, 4).await, ("initiated".to_owned(), 0));
    let listed = (1..).zip(topics.into_iter().chain(["orders/cancelled"]));
    let listed: Vec<_> = listed
        .map(|(id, topic)| (id, topic.to_owned(), 1))
        .collect();
    assert_eq!(refuted(&service).await, listed);
    assert_eq!(sandbox.storefront().created(), made([]));
    assert_eq!(service.jobs(State::Dead).await, 0);
    // A body that says it needs no question.
    deliver(
        &service,
        &order_delivery("orders/cancelled", &cancelled(1, 3, "pending")),
    )
    .await;
    assert_eq!(state(&service, 1).await, ("cancelled".to_owned(), 0));
    service.stop().await;
}

#[tokio::test]
async fn a_deletion_counts_when_the_storefront_has_the_order_no_more() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).manual_clock().start().await;
    for id in [1, 2] {
        let order = body(id, 1, "pending");
        deliver(&service, &order_delivery("orders/create", &order)).await;
    }
    stands(&sandbox, &body(1, 1, "pending"));
    for id in [1, 2] {
        let deleted = json!({"id": id});
        deliver(&service, &order_delivery("orders/delete", &deleted)).await;
    }
    assert_eq!(state(&service, 1).await.0, "initiated");
    assert_eq!(state(&service, 2).await.0, "cancelled");
    assert_eq!(
        refuted(&service).await,
        [(1, "orders/delete".to_owned(), 1)]
    );
    service.stop().await;
}

#[tokio::test]
async fn a_question_waits_for_a_storefront_that_is_behind_or_does_not_answer() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).manual_clock().start().await;
    stands(&sandbox, &body(1, 1, "paid"));
    post_all(
        &service,
        &[order_delivery("orders/cancelled", &silent(1, 5))],
    )
    .await;
    eventually("the first answer is too old", async || {
        let (state, attempts, error) = job(&service, CONFIRM).await;
        state == "ready" && attempts == 1 && error.contains("behind its webhooks")
    })
    .await;
    assert_eq!(state(&service, 1).await.1, 0);
    sandbox.storefront().fault_injector.fail(Fault::Status(503));
    service.clock().advance(Duration::from_secs(10));
    let asked_again = eventually("the second gets none", async || {
        let (state, attempts, error) = job(&service, CONFIRM).await;
        state == "ready" && attempts >= 2 && error.contains("503")
    });
    without_pauses(service.clock(), asked_again).await;
    sandbox.storefront().fault_injector.clear_faults();
    stands(&sandbox, &cancelled(1, 5, "paid"));
    eventually("it counts in the end", async || {
        service.pass(Duration::from_mins(1)).await;
        state(&service, 1).await == ("cancelled".to_owned(), 1)
    })
    .await;
    assert_eq!(refuted(&service).await, []);
    service.stop().await;
}

#[tokio::test]
async fn a_paid_order_is_requested_at_the_storefront_once_whichever_topics_say_so() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    // Order 1 to 5: each topic is the first to say it, then all the others do, and again.
    for turn in 0..10 {
        let mut deliveries = Vec::new();
        for id in 1..=5_usize {
            let topic = TOPICS[(id + turn) % 5];
            let order = body(i64::try_from(id).unwrap(), 1, "paid");
            deliveries.push(order_delivery(topic, &order).id(&format!("w-{id}-{turn}")));
        }
        post_all(&service, &deliveries).await;
        service.settled().await;
    }
    assert_eq!(sandbox.storefront().created(), made(1..=5));
    each_key(&sandbox.storefront().fault_injector, 5, 1);
    for id in 1..=5 {
        let (state, at_provider) = at_storefront(&service, id).await;
        assert_eq!(state, "created");
        assert!(at_provider.is_some());
        let kinds = kinds(service.db(), SHOP, id).await;
        assert_eq!(times(&kinds, "order.fulfillment_requested"), 1);
    }
    assert_eq!(service.jobs(State::Dead).await, 0);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn a_paid_order_ends_fulfilled_with_tracking_when_the_storefront_ships_it() {
    let (options, url) = service().listening().await;
    let sandbox = Sandbox::start(SandboxOptions {
        webhooks: Some(Webhooks {
            base_url: url,
            storefront_secret: STOREFRONT_SECRET.to_owned(),
            payment_secret: PAYMENT_SECRET.to_owned(),
            shop: SHOP.to_owned(),
        }),
        ..SandboxOptions::default()
    });
    let sandbox = sandbox.await.unwrap();
    let service = with_storefront(options, &sandbox, STOREFRONT_TOKEN)
        .start()
        .await;
    let at = now(&service);
    let deliveries: Vec<Webhook> = ["orders/paid", "orders/create", "orders/updated"]
        .iter()
        .map(|topic| {
            let body = sample::storefront(topic, 7, at.0).unwrap();
            Webhook::storefront(topic, &format!("w-{topic}"), SHOP, body)
        })
        .collect();
    let order: Value = serde_json::from_str(&deliveries[0].body).unwrap();
    let id = order["id"].as_i64().unwrap();
    let report = sandbox.post(&deliveries, 1).await.unwrap();
    assert_eq!(report.accepted, 3);
    eventually("the order is fulfilled", async || {
        let fulfilled = "select count(*) as n from orders where state = 'fulfilled'";
        service.count(fulfilled).await == 1
    })
    .await;
    service.settled().await;
    sandbox.webhooks_done().await;
    let key = service.api_key().await;
    let shown = shown(&service, &key, SHOP, id).await;
    assert_eq!(shown["fulfillment"]["state"], "fulfilled");
    assert_eq!(shown["financial_status"], "paid");
    let shipment = &shown["shipments"][0];
    assert_eq!(shipment["carrier"], "Sample Post");
    let number = shipment["parcels"][0]["tracking_number"].as_str().unwrap();
    assert!(number.starts_with("WB"), "{number}");
    let (state, at_provider) = at_storefront(&service, id).await;
    assert_eq!(state, "created");
    assert_eq!(
        at_provider,
        Some(shipment["id"].to_string()),
        "the same fulfilment"
    );
    let kinds = kinds(service.db(), SHOP, id).await;
    for kind in [
        "order.fulfillment_requested",
        "order.fulfilled",
        "order.tracking_updated",
    ] {
        assert_eq!(times(&kinds, kind), 1, "{kind}");
    }
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn an_order_that_is_closed_at_the_storefront_already_needs_no_fulfilment() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    sandbox.storefront().close(SHOP, 7);
    deliver(
        &service,
        &order_delivery("orders/paid", &body(7, 1, "paid")),
    )
    .await;
    assert_eq!(
        at_storefront(&service, 7).await,
        ("not_needed".to_owned(), None)
    );
    assert_eq!(sandbox.storefront().created(), BTreeMap::new());
    assert_eq!(
        sandbox.storefront().fault_injector.requests(),
        1,
        "it was looked at"
    );
    service.stop().await;
}

#[tokio::test]
async fn items_added_while_the_storefront_answers_are_requested_there_too() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    let storefront = sandbox.storefront();
    // Its open units are read, and it makes the fulfilment at once and says so late.
    let fault_injector = &storefront.fault_injector;
    fault_injector.fail_next(1, Fault::Slow(Duration::ZERO));
    fault_injector.fail_next(1, Fault::Slow(Duration::from_millis(4500)));
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(7, 1, "paid")),
    )
    .await;
    eventually("the storefront has made a fulfilment", async || {
        storefront.created() == made([7])
    })
    .await;
    // So the request for what is added waits until the first one is answered.
    let paused = ["pauses", "begin", "provider", "storefront", "--for", "1h"];
    operator::said(&service, &paused).await;
    // Workers look for pauses each second.
    pause(Duration::from_millis(1200)).await;
    storefront.open(SHOP, 7);
    let mut added = body(7, 2, "paid");
    let lines = added["line_items"].as_array_mut().unwrap();
    lines.push(json!({"id": 3, "title": "Jug", "quantity": 1, "price": "0.00"}));
    deliver_without_waiting(&service, &order_delivery("orders/updated", &added)).await;
    let asked = "select count(*) as n from jobs where kind = 'fulfillments/request'";
    eventually("the added item is requested", async || {
        service.count(asked).await == 2
    })
    .await;
    let done = "select count(*) as n from jobs
        where kind = 'fulfillments/request' and state = 'done'";
    assert_eq!(
        service.count(done).await,
        0,
        "the first answer is not there yet"
    );
    eventually("the first request is answered", async || {
        service.count(done).await == 1
    })
    .await;
    operator::said(&service, &["pauses", "end", "provider", "storefront"]).await;
    service.settled().await;
    let twice = BTreeMap::from([((SHOP.to_owned(), 7), 2)]);
    assert_eq!(storefront.created(), twice);
    assert_eq!(at_storefront(&service, 7).await.0, "created");
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_cancelled_order_gives_its_payment_back_once_in_every_order_of_what_is_reported() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    // Odd ones are found by the order's id, even ones by its agreement.
    let pact_id_of = |id: i64| match id % 2 {
        0 => format!("pact_{id}"),
        _ => id.to_string(),
    };
    let delivery = |id: i64, which: usize| -> Delivery {
        let note = match id % 2 {
            0 => naming_agreement(&pact_id_of(id)),
            _ => json!({}),
        };
        match which {
            0 => order_delivery("orders/paid", &with(body(id, 1, "paid"), &note)),
            1 => order_delivery("orders/cancelled", &with(cancelled(id, 2, "paid"), &note)),
            _ => captured(now(&service), id, &pact_id_of(id)),
        }
    };
    for id in 1..=12 {
        capture(&sandbox, id, &pact_id_of(id));
    }
    for step in 0..6 {
        let mut deliveries = Vec::new();
        for id in 1..=12_usize {
            // After the third they come again.
            let which = orders[(id - 1) / 2][step % 3];
            deliveries.push(delivery(i64::try_from(id).unwrap(), which));
        }
        post_all(&service, &deliveries).await;
        service.settled().await;
    }
    assert_eq!(sandbox.payment().refunds(), given_back(1..=12));
    each_key(&sandbox.payment().fault_injector, 12, 1);
    for id in 1..=12 {
        assert_eq!(sandbox.payment().refunded(&format!("pi_{id}")), CAPTURED);
        let refund = refund(&service, id).await;
        assert_eq!(refund["state"], "issued", "order {id}");
        assert_eq!(refund["payment_id"], format!("pi_{id}"));
        assert_eq!(refund["amount"], "30.00");
        let refund_id = refund["refund_id"].as_str().unwrap();
        assert!(refund_id.starts_with("re_"), "{refund_id}");
        let events = events(service.db(), SHOP, id).await;
        let of = |kind: &str| -> Vec<(usize, Value)> {
            let events = events.iter().enumerate();
            events
                .filter(|(_, (it, _))| it == kind)
                .map(|(place, (_, body))| (place, body.clone()))
                .collect()
        };
        let (asked, issued) = (of("order.refund_requested"), of("order.refund_issued"));
        assert_eq!(
            (asked.len(), issued.len()),
            (1, 1),
            "order {id}: {events:?}"
        );
        assert!(asked[0].0 < issued[0].0, "order {id}");
        assert_eq!(
            issued[0].1,
            json!({
                "payment_id": format!("pi_{id}"), "amount": "30.00", "currency": "USD",
                "refund_id": refund_id, "already_refunded": false,
                "shop": SHOP, "order_id": id.to_string(),
            })
        );
    }
    assert_eq!(service.jobs(State::Dead).await, 0);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn an_order_with_several_payments_gives_each_of_them_back() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    for nth in 1..=3 {
        capture(&sandbox, nth, "7");
    }
    deliver(&service, &captured(now(&service), 1, "7")).await;
    deliver(
        &service,
        &order_delivery(
            "orders/cancelled",
            &with(cancelled(7, 1, "paid"), &json!({"total_price": "90.00"})),
        ),
    )
    .await;
    deliver(&service, &captured(now(&service), 2, "7")).await;
    deliver(&service, &captured(now(&service), 3, "7")).await;
    assert_eq!(sandbox.payment().refunds(), given_back(1..=3));
    let issued = "select count(*) as n from refunds where state = 'issued'";
    assert_eq!(service.count(issued).await, 3);
    service.stop().await;
}

#[tokio::test]
async fn what_the_provider_had_given_back_already_is_not_an_error() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    capture(&sandbox, 7, "7");
    let by_hand = reqwest::Client::new()
        .post(format!("{}/v1/refunds", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .form(&[("payment_intent", "pi_7")]);
    assert_eq!(by_hand.send().await.unwrap().status(), 200);
    cancel_with_payment(&service, &sandbox, 7).await;
    service.settled().await;
    assert_eq!(refund(&service, 7).await["state"], "already_refunded");
    assert_eq!(
        job(&service, REFUND).await,
        ("done".to_owned(), 0, String::new())
    );
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        2,
        "asked once, and once by hand"
    );
    assert_eq!(sandbox.payment().refunds(), given_back([7]));
    let events = events(service.db(), SHOP, 7).await;
    let (kind, reported) = events.last().unwrap();
    assert_eq!(kind, "order.refund_issued");
    assert_eq!(reported["already_refunded"], true);
    service.stop().await;
}

pub async fn deliver_without_waiting(service: &Service, delivery: &Delivery) {
    post_all(service, std::slice::from_ref(delivery)).await;
}

/// A refund is asked for, which fails, and another process claims its job before the next try. The job, and until
/// when the claim lasts.
async fn claimed_by_another(service: &Service, sandbox: &Sandbox) -> (JobId, Timestamp) {
    let fault_injector = &sandbox.payment().fault_injector;
    fault_injector.fail(Fault::Status(500));
    cancel_with_payment(service, sandbox, 7).await;
    eventually("it is tried", async || fault_injector.requests() == 1).await;
    // As a process that finds that the claim has ended.
    let (ended, until) = (now(service).plus(LEASE), now(service).plus(2 * LEASE));
    let mut tx = service.db().begin().await.unwrap();
    let row = tx.query("select id from jobs where kind = $1").bind(REFUND);
    let ids: [JobId; 1] = [row.fetch_one().await.unwrap().get("id").unwrap()];
    let claimed = jobs::claim(&mut tx, &ids, ended, until).await.unwrap();
    assert_eq!(claimed[0].token, 2);
    tx.commit().await.unwrap();
    (ids[0], until)
}

#[tokio::test]
async fn a_call_whose_job_was_claimed_by_another_process_meanwhile_changes_nothing() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).manual_clock().start().await;
    let (id, until) = claimed_by_another(&service, &sandbox).await;
    let fault_injector = &sandbox.payment().fault_injector;
    for (tries, seconds) in (2..).zip([1, 2, 4]) {
        eventually("it waits", async || {
            service.clock().until_next_wake() == Some(Duration::from_secs(seconds))
        })
        .await;
        service.clock().advance(Duration::from_secs(seconds));
        eventually("it is tried", async || fault_injector.requests() == tries).await;
    }
    pause(Duration::from_millis(300)).await;
    assert_eq!(
        job(&service, REFUND).await,
        ("ready".to_owned(), 0, String::new())
    );
    let row = service.db().query("select run_at from jobs where id = $1");
    let row = row.bind(id).fetch_one().await.unwrap();
    assert_eq!(row.get::<i64>("run_at").unwrap(), until.0);
    service.stop().await;
}

#[tokio::test]
async fn the_answer_to_a_call_whose_job_was_claimed_by_another_process_is_not_written() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).manual_clock().start().await;
    let _ = claimed_by_another(&service, &sandbox).await;
    let fault_injector = &sandbox.payment().fault_injector;
    fault_injector.clear_faults();
    eventually("it waits", async || {
        service.clock().until_next_wake() == Some(Duration::from_secs(1))
    })
    .await;
    service.clock().advance(Duration::from_secs(1));
    eventually("it is answered", async || fault_injector.requests() == 2).await;
    pause(Duration::from_millis(300)).await;
    assert_eq!(
        job(&service, REFUND).await,
        ("ready".to_owned(), 0, String::new())
    );
    assert_eq!(refund(&service, 7).await["state"], "requested");
    // The other process does not live either. The next run finds the refund at the provider.
    service.clock().advance(2 * LEASE);
    service.settled().await;
    assert_eq!(refund(&service, 7).await["state"], "issued");
    each_key(fault_injector, 1, 2);
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.refund_issued"), 1);
    service.stop().await;
}

/// The dead job of a kind after one request, with its error.
pub async fn refused(service: &Service, fault_injector: &FaultInjector, kind: &str) -> String {
    eventually("it is refused", async || {
        job(service, kind).await.0 == "dead"
    })
    .await;
    let (_, attempts, error) = job(service, kind).await;
    assert_eq!(attempts, 1);
    assert_eq!(fault_injector.requests(), 1, "asking again would not help");
    for secret in [
        STOREFRONT_TOKEN,
        PAYMENT_KEY,
        "wrong-token",
        "asked to fail",
        "Invalid API",
    ] {
        assert!(!error.contains(secret), "{error}");
    }
    let kept = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                where state = 'dead' and body is not null";
    assert_eq!(service.count(kept).await, 1, "it can be run again");
    error
}

#[tokio::test]
async fn a_refund_that_failed_is_issued_when_its_job_is_run_again() {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, PAYMENT_KEY).start().await;
    sandbox
        .payment()
        .fault_injector
        .fail_next(1, Fault::Status(400));
    cancel_with_payment(&service, &sandbox, 7).await;
    eventually("it is refused", async || {
        service.jobs(State::Dead).await == 1
    })
    .await;
    let dead = service
        .db()
        .query("select id from jobs where state = 'dead'");
    let dead: JobId = dead.fetch_one().await.unwrap().get("id").unwrap();
    let mut tx = service.db().begin().await.unwrap();
    assert!(jobs::requeue(&mut tx, dead, now(&service)).await.unwrap());
    assert!(!jobs::requeue(&mut tx, dead, now(&service)).await.unwrap());
    tx.commit().await.unwrap();
    service.settled().await;
    assert_eq!(refund(&service, 7).await["state"], "issued");
    assert_eq!(sandbox.payment().refunds(), given_back([7]));
    each_key(&sandbox.payment().fault_injector, 2, 1);
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert!(kinds.ends_with(&["order.refund_failed".into(), "order.refund_issued".into()]));
    service.stop().await;
}

#[tokio::test]
async fn while_a_provider_hangs_other_orders_are_worked_on_and_those_that_ask_are_deferred() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    sandbox.storefront().fault_injector.fail(Fault::Timeout);
    let waited = async |what: &'static str, counted: &'static str, expected: i64| {
        let posted = now(&service);
        eventually(what, async || service.count(counted).await == expected).await;
        let took = now(&service).since(posted);
        assert!(took < Duration::from_secs(8), "{what}: {took:?}");
    };
    let requested = "select count(*) as n from orders where state = 'requested'";
    // More than may ask at a time, the first in messages of their own.
    for id in 1..=8 {
        deliver_without_waiting(
            &service,
            &order_delivery("orders/paid", &body(id, 1, "paid")),
        )
        .await;
        waited("a paid order is worked on", requested, id).await;
    }
    let others: Vec<Delivery> = (9..=200)
        .map(|id| order_delivery("orders/paid", &body(id, 1, "paid")))
        .collect();
    post_all(&service, &others).await;
    waited("the paid orders are worked on", requested, 200).await;
    for id in 1..=30 {
        deliver_without_waiting(
            &service,
            &order_delivery("orders/create", &body(1000 + id, 1, "pending")),
        )
        .await;
        let stored = "select count(*) as n from orders where id > 1000";
        waited("another order is worked on", stored, id).await;
        pause(Duration::from_millis(100)).await;
    }
    let failed = "select cast(sum(attempts) as bigint) as n from jobs";
    assert_eq!(
        service.count(failed).await,
        0,
        "deferred or under way: not failed"
    );
    let asked = sandbox.storefront().fault_injector.requests();
    assert!(asked < 200, "{asked} requests: not all at a time");
    sandbox.storefront().fault_injector.clear_faults();
    service.settled().await;
    assert_eq!(sandbox.storefront().created(), made(1..=200));
    assert_eq!(service.count(failed).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_worker_that_stops_while_a_provider_hangs_leaves_the_call_to_the_next() {
    let sandbox = sandbox().await;
    let mut service = with_both(&sandbox).start().await;
    let fault_injector = &sandbox.storefront().fault_injector;
    fault_injector.fail(Fault::Timeout);
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(7, 1, "paid")),
    )
    .await;
    eventually("it asks", async || fault_injector.requests() > 0).await;
    let stated_at = now(&service);
    service.halt().await;
    let took = now(&service).since(stated_at);
    assert!(
        took < Duration::from_secs(10),
        "{took:?}, of the ten it has"
    );
    fault_injector.clear_faults();
    let next = with_both(&sandbox).start_beside(&service).await;
    let left =
        "select unfinished_attempts + attempts as n from jobs where kind = 'fulfillments/request'";
    assert_eq!(next.count(left).await, 0, "neither failed nor lost");
    let restarted_at = now(&next);
    next.settled().await;
    let took = now(&next).since(restarted_at);
    assert!(
        took < Duration::from_secs(15),
        "{took:?}: it was not claimed any more"
    );
    assert_eq!(sandbox.storefront().created(), made([7]));
    assert_eq!(at_storefront(&next, 7).await.0, "created");
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_a_worker_killed_between_a_providers_effect_and_its_own_commit_does_it_once() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).without_workers().start().await;
    let mut settings = settings(&service.backend, free_port());
    settings.extend(sandbox.settings());
    let start =
        || ["waybill-orders", "waybill-payments"].map(|it| Process::start(it, &[], &settings));
    let [mut orders, mut payments] = start();
    let (storefront, payment) = (sandbox.storefront(), sandbox.payment());
    // Each is killed as soon as its own effect is seen, before the answer that comes late.
    payment
        .fault_injector
        .fail_next(1, Fault::Slow(Duration::from_secs(4)));
    cancel_with_payment(&service, &sandbox, 2).await;
    eventually("the payment is given back", async || {
        payment.refunds() == given_back([2])
    })
    .await;
    payments.kill();
    storefront
        .fault_injector
        .fail_next(1, Fault::Slow(Duration::ZERO));
    storefront
        .fault_injector
        .fail_next(1, Fault::Slow(Duration::from_secs(4)));
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(1, 1, "paid")),
    )
    .await;
    eventually("the fulfilment is made", async || {
        storefront.created() == made([1])
    })
    .await;
    orders.kill();
    let calls = "select count(*) as n from jobs
                 where kind in ('refunds/issue', 'fulfillments/request') and state = 'ready'";
    assert_eq!(service.count(calls).await, 2, "and nobody knows");
    let _again = start();
    within(Duration::from_mins(2), "the claims run out", async || {
        service.awaited().await == 0
    })
    .await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    assert_eq!(storefront.created(), made([1]));
    assert_eq!(payment.refunds(), given_back([2]));
    assert_eq!(payment.refunded("pi_2"), CAPTURED);
    // Whoever asks again looks first for what there is.
    each_key(&payment.fault_injector, 1, 1);
    assert_eq!(refund(&service, 2).await["state"], "issued");
    assert_eq!(at_storefront(&service, 1).await.0, "not_needed");
    service.stop().await;
}

#[tokio::test]
async fn nobody_is_asked_for_an_order_that_was_cancelled_meanwhile() {
    let sandbox = sandbox().await;
    // Nobody listens there yet.
    let url = format!("http://127.0.0.1:{}/storefront", free_port());
    let options = with_payment(service(), &sandbox, PAYMENT_KEY)
        .setting("STOREFRONT_API_URL", &url)
        .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN);
    let service = options.manual_clock().start().await;
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(7, 1, "paid")),
    )
    .await;
    let failed = eventually("the call has failed", async || {
        let failed = "select count(*) as n from jobs where attempts > 0";
        service.count(failed).await == 1
    });
    without_pauses(service.clock(), failed).await;
    let (_, _, error) = job(&service, FULFILLMENT).await;
    assert!(error.contains("cannot be reached"), "{error}");
    // It is back, and the order is cancelled before the next try.
    deliver_without_waiting(
        &service,
        &order_delivery("orders/cancelled", &cancelled(7, 2, "paid")),
    )
    .await;
    eventually("it is cancelled", async || {
        let cancelled = "select count(*) as n from orders where state = 'cancelled'";
        service.count(cancelled).await == 1
    })
    .await;
    let listen = url
        .trim_start_matches("http://")
        .trim_end_matches("/storefront");
    let storefront = Sandbox::start(SandboxOptions {
        listen: listen.parse().unwrap(),
        ..SandboxOptions::default()
    });
    let storefront = storefront.await.unwrap();
    service.clock().advance(Duration::from_mins(1));
    service.settled().await;
    assert_eq!(storefront.storefront().fault_injector.requests(), 0);
    assert_eq!(job(&service, FULFILLMENT).await.0, "done");
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}
