//! A storm of deliveries to real processes, which are killed one after the other. Every order ends
//! in its right state, and each effect happens once in Waybill and at the providers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::money::Currency;
use platform::clock::Clock;
use sandbox::{Delivery, Fault, Intent, Options, Poster};
use sandbox::{Sandbox, Webhooks, storm};
use serde_json::{Value, json};
use store::sql::Db;

use crate::support::backend::Backend;
use crate::support::order::{
    CAPTURED, Rows, body, cancelled, captured, fulfilment, naming_agreement, rows, with,
};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::storm::{Kills, LONGEST_TAIL, Workers, count};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, within};

const ORDERS: usize = 1000;

/// Orders have the same id, each in a shop of its own: so their rows can be compared.
pub const ORDER: i64 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// It is paid and stays so: one request, whatever comes first.
    Paid,
    /// It is fulfilled too: one request, or none when that is known first.
    Fulfilled,
    /// It is cancelled and its payment given back: one refund; at most one request before.
    Cancelled,
}

impl Family {
    pub fn of(order: usize) -> Self {
        match order % 4 {
            0 => Family::Paid,
            1 => Family::Fulfilled,
            _ => Family::Cancelled,
        }
    }

    /// Topic and body of each event of an order's life.
    fn life(self, order: usize) -> Vec<(&'static str, Value)> {
        let shipped = json!({
            "fulfillment_status": "fulfilled",
            "fulfillments": [fulfilment(70, &["T-1", "T-2"], &[(1, 2), (2, 1)])],
        });
        let last = match self {
            Family::Paid => (
                "orders/updated",
                with(body(ORDER, 5, "paid"), &json!({"name": "#last"})),
            ),
            Family::Fulfilled => ("orders/fulfilled", with(body(ORDER, 5, "paid"), &shipped)),
            Family::Cancelled => ("orders/cancelled", cancelled(ORDER, 5, "refunded")),
        };
        let mut life = vec![
            ("orders/create", body(ORDER, 1, "pending")),
            ("orders/updated", body(ORDER, 2, "authorized")),
            ("orders/paid", body(ORDER, 3, "paid")),
            (
                "orders/updated",
                with(body(ORDER, 4, "paid"), &json!({"name": "#changed"})),
            ),
            last,
        ];
        if self == Family::Cancelled {
            for (_, body) in &mut life {
                *body = with(body.take(), &naming_agreement(&pact_id_of(order)));
            }
        }
        life
    }
}

pub fn shop(order: usize) -> String {
    format!("shop-{order}.example")
}

pub fn pact_id_of(order: usize) -> String {
    format!("pact_{order}")
}

pub fn payment_of(order: usize) -> String {
    format!("pi_{order}")
}

/// All events of the orders, each once to three times, every third under two ids; shuffled. The ids follow
/// from the seed.
pub fn deliveries(
    orders: impl IntoIterator<Item = usize>,
    seed: u64,
    clock: &Clock,
) -> Vec<Delivery> {
    let mut bodies = Vec::new();
    for order in orders {
        let family = Family::of(order);
        for (nth, (topic, body)) in family.life(order).into_iter().enumerate() {
            let times = 1 + usize::from((order + nth) % 3 == 0);
            for _ in 0..times {
                bodies.push((format!("{topic} {}", shop(order)), body.to_string()));
            }
        }
        if family == Family::Cancelled {
            let nth = i64::try_from(order).unwrap();
            let event = captured(clock.now(), nth, &pact_id_of(order));
            let event = String::from_utf8(event.body).unwrap();
            bodies.push((format!("payment_intent.succeeded evt_{order}"), event));
        }
    }
    let mut deliveries = storm::shuffled(bodies, 1..=3, seed, "");
    for delivery in &mut deliveries {
        let (topic, of) = delivery.topic.split_once(' ').unwrap();
        let (topic, of) = (topic.to_owned(), of.to_owned());
        *delivery = if topic.starts_with("orders/") {
            Delivery::storefront(&topic, &delivery.id, &of, delivery.body.clone())
        } else {
            Delivery::payment(&topic, &of, delivery.body.clone())
        };
    }
    deliveries
}

/// Events by shop and kind.
async fn event_counts(db: &Db) -> BTreeMap<(String, String), i64> {
    let rows = db
        .query(
            "select shop, kind, count(*) as times from events
             where shop is not null group by shop, kind",
        )
        .fetch_all();
    let rows = rows.await.unwrap();
    rows.iter()
        .map(|row| {
            let key = (row.get("shop").unwrap(), row.get("kind").unwrap());
            (key, row.get("times").unwrap())
        })
        .collect()
}

/// An order's rows without what is its own: the names of its payment.
fn alike(rows: &Rows, order: usize) -> Rows {
    let line = |line: &String| {
        let tokens = line.split(' ').map(|token| match token {
            _ if token == format!("pact_id={}", pact_id_of(order)) => "pact_id=its",
            _ if token == format!("payment_id={}", payment_of(order)) => "payment_id=its",
            token => token,
        });
        tokens.collect::<Vec<_>>().join(" ")
    };
    let record = |line: &String| {
        let (id, record) = line.split_once(' ').unwrap();
        let mut record = serde_json::from_str(record).unwrap();
        without_own(&mut record, order);
        format!("{id} {record}")
    };
    let rows = rows.iter().map(|(table, lines)| match *table {
        "records" => (*table, lines.iter().map(record).collect()),
        _ => (*table, lines.iter().map(line).collect()),
    });
    rows.collect()
}

/// The same of an order's record. When seconds are equal the bodies' hashes decide, and the names are in
/// the bodies.
fn without_own(value: &mut Value, order: usize) {
    match value {
        Value::Object(members) => {
            members.remove("tie");
            members.values_mut().for_each(|it| without_own(it, order));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| without_own(it, order)),
        Value::String(text) if *text == pact_id_of(order) => "its".clone_into(text),
        _ => {}
    }
}

/// Adds the payments that will be given back to the payment provider's stand-in.
pub fn know_payments(sandbox: &Sandbox, orders: &[usize]) {
    let cancelled = orders.iter().copied();
    for order in cancelled.filter(|order| Family::of(*order) == Family::Cancelled) {
        sandbox.payment().add_intent(Intent {
            id: payment_of(order),
            amount: CAPTURED,
            currency: Currency::parse("USD").unwrap(),
            pact_id: Some(pact_id_of(order)),
        });
    }
}

/// The lives of these orders, each event once and in its place. One is of each family.
pub fn lives(orders: &[usize; 3], clock: &Clock) -> Vec<Delivery> {
    let mut lives = Vec::new();
    for order in orders {
        for (nth, (topic, body)) in Family::of(*order).life(*order).iter().enumerate() {
            let id = format!("w-{order}-{nth}");
            lives.push(Delivery::storefront(
                topic,
                &id,
                &shop(*order),
                body.to_string(),
            ));
        }
    }
    let nth = i64::try_from(orders[2]).unwrap();
    let event = captured(clock.now(), nth, &pact_id_of(orders[2]));
    let event = String::from_utf8(event.body).unwrap();
    lives.push(Delivery::payment(
        "payment_intent.succeeded",
        &format!("evt_{nth}"),
        event,
    ));
    lives
}

/// What was accepted is done, once: these deliveries, and no others.
pub async fn are_conserved(db: &Db, posted: &[Delivery]) {
    let ids: BTreeSet<&str> = posted.iter().map(|it| it.id.as_str()).collect();
    let ids = i64::try_from(ids.len()).unwrap();
    assert_eq!(
        count(db, "select count(*) as n from webhook_ids").await,
        ids
    );
    let done = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                where state = 'done' and source <> 'internal'";
    assert_eq!(count(db, done).await, ids);
    assert_eq!(
        count(db, "select count(*) as n from jobs where state <> 'done'").await,
        0
    );
}

/// Each of the orders is as the model of its family, and each effect was made once, here and at the providers.
pub async fn are_right(db: &Db, sandbox: &Sandbox, all: &[usize], models: [usize; 3]) {
    // The one right state of each.
    let orders = i64::try_from(all.len()).unwrap();
    let placed = "select count(*) as n from orders where shop like 'shop-%'";
    assert_eq!(count(db, placed).await, orders);
    let gives_back: Vec<usize> = all
        .iter()
        .copied()
        .filter(|order| Family::of(*order) == Family::Cancelled)
        .collect();
    let rows = rows(db).await;
    let right = models.map(|order| alike(&rows[&shop(order)], order));
    let state = |rows: &Rows, state: &str| rows["orders"][0].contains(&format!(" state={state}"));
    assert!(state(&right[0], "requested") && state(&right[1], "fulfilled"));
    assert!(state(&right[2], "cancelled") && right[2]["refunds"][0].contains("state=issued"));
    assert_eq!(right[2]["inventory_movements"], ["7 1 2", "7 2 1"]);
    for order in all {
        let right = match Family::of(*order) {
            Family::Paid => &right[0],
            Family::Fulfilled => &right[1],
            Family::Cancelled => &right[2],
        };
        assert_eq!(&alike(&rows[&shop(*order)], *order), right, "order {order}");
    }

    // Each effect once, here and there.
    let event_counts = event_counts(db).await;
    let created = sandbox.storefront().created();
    for order in all {
        let shop = shop(*order);
        let family = Family::of(*order);
        let event_counts = |kind: &str| {
            event_counts
                .get(&(shop.clone(), kind.to_owned()))
                .copied()
                .unwrap_or(0)
        };
        let is = |is: Family| i64::from(family == is);
        let requested = event_counts("order.fulfillment_requested");
        let at_provider = i64::from(created.get(&(shop.clone(), ORDER)).copied().unwrap_or(0));
        assert!(
            at_provider <= requested && requested <= 1,
            "{shop}: {at_provider} of {requested}"
        );
        if family == Family::Paid {
            assert_eq!((requested, at_provider), (1, 1), "{shop}");
        }
        for (kind, times) in [
            ("order.created", 1),
            ("order.paid", 1),
            ("order.cancelled", is(Family::Cancelled)),
            ("order.inventory_restocked", is(Family::Cancelled)),
            ("order.refund_requested", is(Family::Cancelled)),
            ("order.refund_issued", is(Family::Cancelled)),
            ("order.refund_failed", 0),
        ] {
            assert_eq!(event_counts(kind), times, "{kind} of {shop}, {family:?}");
        }
    }
    let movements = "select count(*) as n from inventory_movements";
    let cancelled = i64::try_from(gives_back.len()).unwrap();
    assert_eq!(count(db, movements).await, 2 * cancelled);
    let given_back: BTreeMap<String, u32> = gives_back
        .iter()
        .map(|order| (payment_of(*order), 1))
        .collect();
    assert_eq!(sandbox.payment().refunds(), given_back);
    for order in &gives_back {
        assert_eq!(sandbox.payment().refunded(&payment_of(*order)), CAPTURED);
    }
    let calls = "select count(*) as n from jobs where kind = 'fulfillments/request'";
    let requests: i64 = event_counts
        .iter()
        .filter(|((_, kind), _)| kind == "order.fulfillment_requested")
        .map(|(_, times)| times)
        .sum();
    assert_eq!(count(db, calls).await, requests);
    let calls = "select count(*) as n from jobs where kind = 'refunds/issue'";
    assert_eq!(count(db, calls).await, cancelled);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_a_thousand_orders_survive_a_storm_with_a_worker_killed_every_two_seconds() {
    let backend = Backend::create().await;
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let clock = Clock::system();
    let port = free_port();
    let mut settings = settings(&backend, port);
    settings.extend(sandbox.settings());
    let _ingress = Process::start("waybill-ingress", &[], &settings);
    is_ready(port).await;
    let mut workers = Workers::start(
        settings,
        &[
            "waybill-orders",
            "waybill-orders",
            "waybill-orders",
            "waybill-payments",
        ],
    );
    let webhooks = Webhooks {
        base_url: format!("http://127.0.0.1:{port}"),
        storefront_secret: STOREFRONT_SECRET.to_owned(),
        payment_secret: PAYMENT_SECRET.to_owned(),
        shop: String::new(),
    };
    let poster = Poster::new(webhooks, clock.clone()).unwrap();
    let db = Db::open(&backend.database_url, 2).await.unwrap();

    // One order of each family in a calm, its life in order: what is right.
    let models = [ORDERS, ORDERS + 1, ORDERS + 2];
    let all: Vec<usize> = (0..ORDERS).chain(models).collect();
    know_payments(&sandbox, &all);
    let calm = lives(&models, &clock);
    let ready = "select count(*) as n from jobs where state = 'ready'";
    for delivery in &calm {
        let report = poster
            .post_all(std::slice::from_ref(delivery), 1, |_| {})
            .await;
        assert_eq!(report.accepted, 1);
        within(LONGEST_TAIL, "it is worked on", async || {
            count(&db, ready).await == 0
        })
        .await;
    }

    // The providers take a moment, so that some are killed while they ask.
    let moment = Fault::Slow(Duration::from_millis(100));
    sandbox.storefront().fault_injector.fail(moment);
    sandbox.payment().fault_injector.fail(moment);
    let storm = deliveries(0..ORDERS, 1, &clock);
    let kills = Kills::default();
    let posting = async {
        let report = kills.post(&poster, &storm, 4).await;
        let waiting = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
             where state = 'ready' and source <> 'internal'";
        within(LONGEST_TAIL, "all deliveries are worked on", async || {
            count(&db, waiting).await == 0
        })
        .await;
        kills.end();
        report
    };
    let (report, ()) = tokio::join!(posting, workers.kill_until_over(&kills));
    let kills = kills.count();
    assert!(kills >= 4, "each worker was killed: {kills} kills");
    assert_eq!((report.refused, report.given_up), (0, 0), "{report:?}");
    within(LONGEST_TAIL, "no job is left", async || {
        count(&db, ready).await == 0
    })
    .await;

    let posted: Vec<Delivery> = storm.into_iter().chain(calm).collect();
    are_conserved(&db, &posted).await;
    are_right(&db, &sandbox, &all, models).await;
    let given_back = all
        .iter()
        .filter(|order| Family::of(**order) == Family::Cancelled);
    let by_key = sandbox.payment().fault_injector.requests_by_key();
    assert_eq!(by_key.len(), given_back.count(), "a key a refund");
    db.close().await;
}
