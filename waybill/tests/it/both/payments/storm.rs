//! A storm of payments and their orders to real processes, which are killed one after the other.
//! The books balance, each payment is released at most once, each refund is made once in Waybill
//! and at the provider, and every order ends in its right state.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::money::Money;
use platform::clock::Clock;
use sandbox::{Delivery, Fault, Life, Options, PAYMENT_KEY, PaymentStorm, Poster, Sandbox};
use sandbox::{StormPayment, Webhooks, storm};
use serde_json::{Value, json};
use store::sql::Db;
use store::{ledger, orders};

use crate::support::backend::Backend;
use crate::support::order::{at, body, naming_agreement, with};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::storm::{Kills, LONGEST_TAIL, Workers, count};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, within};

const PAYMENTS: u64 = 1000;

/// The order of the payment with this number.
fn order(nth: usize) -> i64 {
    1_000_000 + i64::try_from(nth).unwrap()
}

fn shop(nth: usize) -> String {
    format!("shop-{}.example", nth % 7)
}

/// Every fourth of the payments that just succeed is for an order that is cancelled.
fn is_cancelled(nth: usize, payment: &StormPayment) -> bool {
    payment.life == Life::Succeeded && nth.is_multiple_of(4)
}

/// For as much as its payment, whose agreement it names.
fn order_body(nth: usize, payment: &StormPayment, second: u32) -> Value {
    let intent = &payment.intent;
    let money = Money {
        minor: intent.amount,
        currency: intent.currency,
    };
    let fields = json!({
        "currency": intent.currency.to_string(),
        "total_price": money.to_string(),
        "subtotal_price": money.to_string(),
        "total_tax": null,
        "total_outstanding": money.to_string(),
    });
    let body = with(body(order(nth), second, "pending"), &fields);
    with(body, &naming_agreement(intent.pact_id.as_deref().unwrap()))
}

/// The orders' deliveries, each once to three times, shuffled.
fn order_deliveries(payments: &[StormPayment]) -> Vec<Delivery> {
    let mut bodies = Vec::new();
    for (nth, payment) in payments.iter().enumerate() {
        let body = order_body(nth, payment, 0).to_string();
        bodies.push((format!("orders/create {}", shop(nth)), body));
        if is_cancelled(nth, payment) {
            let gone = json!({"cancelled_at": at(9), "cancel_reason": "customer"});
            let body = with(order_body(nth, payment, 9), &gone).to_string();
            bodies.push((format!("orders/cancelled {}", shop(nth)), body));
        }
    }
    let mut deliveries = storm::shuffled(bodies, 1..=3, 2, "");
    for delivery in &mut deliveries {
        let (topic, shop) = delivery.topic.split_once(' ').unwrap();
        let (topic, shop) = (topic.to_owned(), shop.to_owned());
        let body = delivery.body.clone();
        *delivery = Delivery::storefront(&topic, &delivery.id, &shop, body);
    }
    deliveries
}

/// How often each event was sent, by object and kind.
async fn event_counts(db: &Db) -> BTreeMap<(String, String), i64> {
    let rows = db
        .query("select object_id, kind, count(*) as times from events group by object_id, kind")
        .fetch_all();
    let rows = rows.await.unwrap();
    rows.iter()
        .map(|row| {
            let key = (row.get("object_id").unwrap(), row.get("kind").unwrap());
            (key, row.get("times").unwrap())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_a_thousand_payments_survive_a_storm_with_a_worker_killed_every_two_seconds() {
    let backend = Backend::create().await;
    let port = free_port();
    let webhooks = Webhooks {
        base_url: format!("http://127.0.0.1:{port}"),
        storefront_secret: STOREFRONT_SECRET.to_owned(),
        payment_secret: PAYMENT_SECRET.to_owned(),
        shop: String::new(),
    };
    let options = Options {
        webhooks: Some(webhooks.clone()),
        ..Options::default()
    };
    let sandbox = Sandbox::start(options).await.unwrap();
    let clock = Clock::system();
    let mut settings = settings(&backend, port);
    settings.push(("PAYMENT_API_URL".into(), sandbox.payment_url()));
    settings.push(("PAYMENT_API_KEY".into(), PAYMENT_KEY.into()));
    let _ingress = Process::start("waybill-ingress", &[], &settings);
    is_ready(port).await;
    let names = ["waybill-payments", "waybill-payments", "waybill-orders"];
    let mut workers = Workers::start(settings, &names);
    let poster = Poster::new(webhooks, clock.clone()).unwrap();
    let db = Db::open(&backend.database_url, 2).await.unwrap();

    let plan = PaymentStorm {
        payments: PAYMENTS,
        ..PaymentStorm::default()
    };
    let payments = plan.payments();
    let mut deliveries = sandbox.payment().add_storm(&plan);
    deliveries.extend(order_deliveries(&payments));
    storm::shuffle(&mut deliveries, 3);
    // The provider takes a moment, so that some workers are killed while they ask.
    let moment = Fault::Slow(Duration::from_millis(100));
    sandbox.payment().fault_injector.fail(moment);
    let kills = Kills::default();
    // Retries of payments that failed are deferred until their success is known, and
    // what sessions sold waits for an hour for the storefront's orders, which come sooner.
    let ready = "select count(*) as n from jobs
                 where state = 'ready' and kind <> 'payments/end_wait'";
    let posting = async {
        let report = kills.post(&poster, &deliveries, 3).await;
        within(LONGEST_TAIL, "all is worked on", async || {
            count(&db, ready).await == 0
        })
        .await;
        kills.end();
        report
    };
    let (report, ()) = tokio::join!(posting, workers.kill_until_over(&kills));
    let kills = kills.count();
    assert!(kills >= 3, "each worker was killed: {kills} kills");
    assert_eq!((report.refused, report.given_up), (0, 0), "{report:?}");
    // What the sandbox reported of our refunds has come too.
    sandbox.webhooks_done().await;
    within(LONGEST_TAIL, "no job is left", async || {
        count(&db, ready).await == 0
    })
    .await;
    let dead = db
        .query("select kind, attempts, last_error from jobs where state = 'dead'")
        .all::<_, Vec<(String, i64, Option<String>)>>(|row| {
            Ok((
                row.get("kind")?,
                row.get("attempts")?,
                row.get("last_error")?,
            ))
        });
    assert_eq!(dead.await.unwrap(), []);
    eprintln!("{} deliveries, {kills} kills", deliveries.len());

    let books = ledger::verify(&db).await.unwrap();
    assert!(
        books.is_balanced(),
        "{:?} {:?}",
        books.wrong,
        books.unbalanced
    );
    assert_eq!(books.payments, PAYMENTS);
    let held = books
        .balances
        .iter()
        .find(|it| it.account == "held" && it.minor != 0);
    assert_eq!(held, None, "every payment has an agreement");

    let accounts: BTreeMap<String, i64> = ledger::balances(&db, "", "released:", 10_000)
        .await
        .unwrap()
        .into_iter()
        .map(|it| (it.account, it.minor))
        .collect();
    let event_counts = event_counts(&db).await;
    let event_counts = |id: &str, kind: &str| {
        let key = (id.to_owned(), kind.to_owned());
        event_counts.get(&key).copied().unwrap_or(0)
    };
    let captures = sandbox.payment().captures();
    let refunds = sandbox.payment().refunds();
    for (nth, payment) in payments.iter().enumerate() {
        let intent = &payment.intent;
        let (id, life) = (intent.id.as_str(), payment.life);
        let cancelled = is_cancelled(nth, payment);
        let is_paid = life != Life::Canceled;
        let state = match life {
            Life::Canceled => "canceled",
            Life::Refunded => "refunded",
            _ if cancelled => "refunded",
            _ => "succeeded",
        };
        let row = store::payments::find(&db, id).await.unwrap().unwrap();
        assert_eq!(row.state, state, "{id} {life:?}");
        let back = if cancelled {
            intent.amount
        } else {
            payment.refunded
        };
        let received = if is_paid { intent.amount } else { 0 };
        assert_eq!(
            (row.received_minor, row.refunded_minor),
            (received, back),
            "{id}"
        );
        // Nothing is left to be released of one whose refunds were known first.
        let released = event_counts(id, "payment.funds_released");
        if life == Life::Refunded {
            assert!(released <= 1, "{id}");
        } else {
            assert_eq!(released, i64::from(is_paid), "{id}");
        }
        assert_eq!(
            event_counts(id, "payment.succeeded"),
            i64::from(is_paid),
            "{id}"
        );
        assert_eq!(
            event_counts(id, "payment.canceled"),
            i64::from(!is_paid),
            "{id}"
        );
        let agreement = intent.pact_id.as_deref().unwrap();
        let released = accounts.get(&format!("released:{agreement}")).copied();
        assert_eq!(released.unwrap_or(0), received - back, "{id}");

        // At the provider.
        let at_provider = refunds.get(id).copied().unwrap_or(0);
        let expected = match life {
            Life::Refunded => 2,
            _ => u32::from(cancelled),
        };
        assert_eq!(at_provider, expected, "{id} {life:?}");
        assert_eq!(sandbox.payment().refunded(id), back, "{id}");
        assert_eq!(captures.get(id).copied().unwrap_or(0), u32::from(is_paid));

        // The order.
        let (shop, order_id) = (shop(nth), order(nth));
        let found = orders::find(&db, order_id, Some(vec![shop])).await.unwrap();
        let orders::OrderLookup::One(order) = found else {
            panic!("order {order_id} is there");
        };
        let (financial, fulfillment) = match life {
            Life::Canceled => ("pending", "cancelled"),
            Life::Refunded => ("refunded", "cancelled"),
            _ if cancelled => ("refunded", "cancelled"),
            _ => ("paid", "requested"),
        };
        let status = order.financial_status.as_deref();
        assert_eq!(status, Some(financial), "{id} {life:?}");
        let is = order.fulfillment.as_ref().map(|it| it.state.as_str());
        assert_eq!(is, Some(fulfillment), "{id} {life:?}");
        let object = order_id.to_string();
        let paid = event_counts(&object, "order.paid");
        assert_eq!(paid, i64::from(is_paid), "{id} {life:?}");
        let gone = i64::from(cancelled || life == Life::Canceled);
        assert_eq!(
            event_counts(&object, "order.cancelled"),
            gone,
            "{id} {life:?}"
        );
        let requested = event_counts(&object, "order.fulfillment_requested");
        if fulfillment == "requested" {
            assert_eq!(requested, 1, "{id} {life:?}");
        } else {
            assert!(requested <= 1, "{id} {life:?}");
        }
        let issued = event_counts(&object, "order.refund_issued");
        assert_eq!(issued, i64::from(cancelled), "{id} {life:?}");
    }
    // What sessions made before the storefront's orders were known is called off.
    let placeholders = "select count(*) as n from orders
                     where shop = 'checkout' and cancelled_at is null";
    assert_eq!(count(&db, placeholders).await, 0);
    let retries = "select count(*) as n from payment_retries where state <> 'stopped'";
    assert_eq!(count(&db, retries).await, 0);
    db.close().await;
    sandbox.stop().await;
}
