//! A storm of which a part is never sent, a part comes a day late, and whose subscription ends in the middle: afterwards
//! everything is as if all had come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sandbox::storm::shuffle;
use serde_json::json;
use store::ledger;

use super::{RUN, World, delivery, order_at};
use crate::support::delivery::{Delivery, payment_at};
use crate::support::order::{deliver_in_step, fulfilment, naming_agreement, with};
use crate::support::payment::{charge, intent};
use crate::support::{Service, records};

/// The orders of the storm.
const ORDERS: i64 = 60;

/// What happens to an order, one thing after the other: a delivery of the storefront, or an event of the payment provider.
fn life(world: &World, id: i64) -> Vec<Happened> {
    let at = |minutes: u64| world.now().plus(Duration::from_mins(minutes));
    let name = naming_agreement(&format!("pact-{id}"));
    let order = |minutes: u64, financial: &str, fields| {
        let order = with(order_at(at(minutes), id, financial), &name);
        let created = json!({"created_at": world.now().to_string()});
        Happened::Order(with(with(order, &created), &fields))
    };
    let pact = format!("pact-{id}");
    let event = |minutes: u64, kind: &str, object| {
        let created = at(minutes).unix_seconds();
        let event = json!({
            "id": format!("evt_{id}_{kind}"), "object": "event", "api_version": "2026-10-28.endive",
            "created": created, "type": kind, "data": {"object": object},
        });
        Happened::Event(kind.to_owned(), event)
    };
    let payment = format!("pi_{id}");
    let paid = event(
        2,
        "payment_intent.succeeded",
        intent(&payment, "succeeded", 3000, Some(&pact)),
    );
    let mut life = vec![
        order(1, "pending", json!({})),
        paid,
        order(3, "paid", json!({})),
    ];
    match id % 3 {
        0 => {
            let refunded = charge(&payment, 3000, 3000);
            life.push(event(4, "charge.refunded", refunded));
            let cancelled = json!({"cancelled_at": at(5).to_string(), "cancel_reason": "customer"});
            life.push(order(5, "refunded", cancelled));
        }
        1 => {
            let shipped = json!({
                "fulfillment_status": "fulfilled",
                "fulfillments": [fulfilment(id, &["T1"], &[(1, 2), (2, 1)])],
            });
            life.push(order(5, "paid", shipped));
        }
        _ => {}
    }
    life
}

enum Happened {
    Order(serde_json::Value),
    Event(String, serde_json::Value),
}

impl Happened {
    fn at_provider(&self, world: &World) {
        match self {
            Happened::Order(order) => world.has(order),
            Happened::Event(kind, event) => {
                let id = event["id"].as_str().unwrap();
                let event = sandbox::Delivery::payment(kind, id, event.to_string());
                world.sandbox.payment().remember(event);
            }
        }
    }

    fn delivery(&self, world: &World) -> Delivery {
        match self {
            Happened::Order(order) => delivery(order),
            Happened::Event(_, event) => payment_at(world.now().unix_seconds(), event.to_string()),
        }
    }
}

/// What is left in the end: the records of orders and payments, without what only says when Waybill heard of them, and
/// which versions it heard of (`was_paid`: the storefront's API has the newest version alone); the books; and which
/// events each object had, but those that only a state in between leads to: what was fulfilled or cancelled before it
/// was found has never been requested, and money that went back before it was found has never been released.
async fn state(
    service: &Service,
) -> (
    Vec<String>,
    Vec<String>,
    BTreeMap<String, i64>,
    BTreeSet<(String, String)>,
) {
    let orders = records::records(service.db(), "orders").await;
    let orders = orders.into_iter().map(|mut order| {
        for own in ["own", "settled", "code", "was_paid"] {
            order.as_object_mut().unwrap().remove(own);
        }
        order["version"]["tie"] = json!(order["version"]["tie"].as_i64().unwrap() >> 32);
        order.to_string()
    });
    let payments = records::records(service.db(), "payments").await;
    let payments = payments
        .into_iter()
        .map(|payment| payment["received"].to_string());
    let books = ledger::verify(service.db()).await.unwrap();
    assert!(books.wrong.is_empty(), "{:?}", books.wrong);
    let balances = books.balances.into_iter();
    let balances = balances
        .map(|it| (format!("{} {}", it.account, it.currency), it.minor))
        .collect();
    let events = service
        .db()
        .query(
            "select kind, object_id from events
             where kind not in ('order.updated', 'order.fulfillment_requested', 'order.fulfillment_cancelled',
                                'payment.funds_released')
             order by object_id, kind",
        );
    let events = events.fetch_all().await.unwrap();
    let events = events
        .iter()
        .map(|it| (it.get("object_id").unwrap(), it.get("kind").unwrap()));
    (
        orders.collect(),
        payments.collect(),
        balances,
        events.collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_with_losses_ends_as_one_without() {
    let mut world = World::start().await;
    let whole = World::start().await;
    let lives: Vec<Vec<Happened>> = (1..=ORDERS).map(|id| life(&world, id)).collect();
    let all: usize = lives.iter().map(Vec::len).sum();
    // Which are lost, and which come a day late.
    let mut chance: Vec<usize> = (0..all).collect();
    shuffle(&mut chance, 7);
    let lost: BTreeSet<usize> = chance.drain(..all / 20).collect();
    let late: BTreeSet<usize> = chance.drain(..all / 50).collect();
    world.pass(Duration::from_mins(6));
    whole.pass(Duration::from_mins(6));
    let (mut number, mut sent, mut later) = (0, Vec::new(), Vec::new());
    let mut complete = Vec::new();
    for (nth, life) in lives.iter().enumerate() {
        let mut of_life = Vec::new();
        for happened in life {
            happened.at_provider(&world);
            number += 1;
            // In the middle nobody is subscribed to orders.
            let is_gone = (20..30).contains(&nth) && matches!(happened, Happened::Order(_));
            if late.contains(&number) {
                later.push(happened.delivery(&world));
            } else if !lost.contains(&number) && !is_gone {
                of_life.push(happened.delivery(&world));
            }
        }
        sent.push(of_life);
        complete.push(
            life.iter()
                .map(|it| it.delivery(&whole))
                .collect::<Vec<_>>(),
        );
    }
    deliver_in_step(&world.service, &sent).await;
    deliver_in_step(&whole.service, &complete).await;
    assert_ne!(state(&world.service).await, state(&whole.service).await);
    world.pass(RUN);
    world.reconciled().await;
    let found = world.found().await.len();
    assert!(found >= 10, "{found}");
    // The late ones change nothing any more.
    world.pass(Duration::from_hours(24));
    for late in &mut later {
        if late.path.ends_with("payment") {
            *late = payment_at(world.now().unix_seconds(), late.body.clone());
        }
    }
    deliver_in_step(&world.service, &[later]).await;
    world.reconciled().await;
    assert_eq!(world.found().await.len(), found);
    let (got, wanted) = (state(&world.service).await, state(&whole.service).await);
    for (got, wanted) in got.0.iter().zip(&wanted.0) {
        assert_eq!(got, wanted);
    }
    assert_eq!(got.0.len(), wanted.0.len());
    assert_eq!(got.1, wanted.1);
    assert_eq!(got.2, wanted.2);
    assert_eq!(got.3, wanted.3);
    let twice = "select object_id from events where kind in ('order.created', 'order.fulfillment_requested')
                 group by object_id, kind having count(*) > 1";
    assert!(
        world
            .service
            .db()
            .query(twice)
            .fetch_all()
            .await
            .unwrap()
            .is_empty()
    );
    let made = world.sandbox.storefront().created();
    assert!(made.values().all(|times| *times == 1), "{made:?}");

    world.stop().await;
    whole.stop().await;
}
