//! Deliveries of one order that are worked on at the same time.

use std::collections::BTreeSet;

use domain::job::State;
use serde_json::json;

use crate::support::delivery::{Delivery, SHOP};
use crate::support::order::{
    TOPICS, body, cancelled, captured, deliver, fulfilment, kinds, naming_agreement,
    order_delivery, post_all, shown, times, with,
};
use crate::support::{START, Service, eventually, service};

/// A cancelled order and its payment come at the same time, each in a transaction that does
/// not see the other's.
async fn come_at_the_same_time(service: &Service, id: i64) {
    let name = format!("p{id}");
    // The order's transaction stops before its end, where it reports what it has done.
    let mut held = service.db().begin().await.unwrap();
    let lock = held.query("lock table events in exclusive mode");
    lock.execute().await.unwrap();
    let claiming = with(cancelled(id, 1, "paid"), &naming_agreement(&name));
    post_all(service, &[order_delivery("orders/cancelled", &claiming)]).await;
    let order_waits = "select count(*) as n from pg_stat_activity
                       where wait_event_type = 'Lock' and datname = current_database()
                         and query like '%insert into events%'";
    eventually("the order waits", async || {
        service.count(order_waits).await == 1
    })
    .await;
    post_all(service, &[captured(START, id, &name)]).await;
    let payment_waits = "select count(*) as n from pg_stat_activity
                         where wait_event_type = 'Lock' and datname = current_database()
                           and query like '%insert into agreements%'";
    eventually("the payment waits for it, or has not noticed", async || {
        service.count(payment_waits).await == 1 || service.jobs(State::Ready).await == 1
    })
    .await;
    held.rollback().await.unwrap();
    service.settled().await;
    let key = service.api_key().await;
    let order = shown(service, &key, SHOP, id).await;
    assert_eq!(order["refunds"][0]["payment_id"], format!("pi_{id}"));
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_payment_is_linked_to_an_order_that_is_reported_at_that_moment() {
    let service = service().manual_clock().start().await;
    come_at_the_same_time(&service, 7).await;
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_payment_is_linked_to_a_known_order_that_learns_of_its_agreement_at_that_moment() {
    let service = service().manual_clock().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(7, 0, "paid")),
    )
    .await;
    come_at_the_same_time(&service, 7).await;
    service.stop().await;
}

#[tokio::test]
async fn many_versions_of_an_order_that_wait_together_end_in_one_right_state() {
    let mut service = service().without_workers().start().await;
    let mut deliveries = Vec::new();
    for id in 1..=4 {
        for second in 0..50 {
            let nth = usize::try_from(second).unwrap();
            let shipped = json!({
                "name": format!("#{id}.{second}"),
                "fulfillments": [fulfilment(70, &[&format!("T-{second}")], &[(1, 1)])],
            });
            let status = ["pending", "authorized", "paid"][(nth + 1) % 3];
            let mut version = with(body(id, second, status), &shipped);
            if id % 2 == 0 && second == 17 {
                version = with(cancelled(id, 17, "paid"), &shipped);
            }
            let topic = if second % 5 == 0 {
                TOPICS[nth / 5 % 5]
            } else {
                "orders/updated"
            };
            let place = (nth * 37 + usize::try_from(id).unwrap() * 11) % 200;
            let delivery = order_delivery(topic, &version).id(&format!("w-{id}-{second}"));
            deliveries.push((place, delivery));
        }
    }
    deliveries.sort_by_key(|(place, _)| *place);
    let deliveries: Vec<Delivery> = deliveries.into_iter().map(|(_, it)| it).collect();
    post_all(&service, &deliveries).await;
    service.start_workers();
    service.settled().await;
    assert_eq!(service.jobs(State::Done).await, 200);
    let key = service.api_key().await;
    for id in 1..=4 {
        let order = shown(&service, &key, SHOP, id).await;
        let state = if id % 2 == 0 {
            "cancelled"
        } else {
            "requested"
        };
        assert_eq!(order["fulfillment"]["state"], state);
        assert_eq!(order["name"], format!("#{id}.49"));
        assert_eq!(order["financial_status"], "paid");
        let parcels = order["shipments"][0]["parcels"].as_array().unwrap();
        let numbers: BTreeSet<&str> = parcels
            .iter()
            .filter_map(|parcel| parcel["tracking_number"].as_str())
            .collect();
        assert_eq!(numbers, BTreeSet::from(["T-49"]));
        let kinds = kinds(service.db(), SHOP, id).await;
        assert_eq!(times(&kinds, "order.created"), 1);
        // Each came again only after a newer version had taken it back.
        assert!(times(&kinds, "order.paid") >= 1);
        let requested = times(&kinds, "order.fulfillment_requested");
        let called_off = times(&kinds, "order.fulfillment_cancelled");
        assert_eq!(requested - called_off, usize::from(id % 2 == 1));
        assert_eq!(times(&kinds, "order.cancelled"), usize::from(id % 2 == 0));
    }
    assert_eq!(
        ledger_sums(&service).await,
        [(2, 1, 1), (2, 2, 1), (4, 1, 1), (4, 2, 1)]
    );
    service.stop().await;
}

async fn ledger_sums(service: &Service) -> Vec<(i64, i64, i64)> {
    let rows = service
        .db()
        .query(
            "select order_id, line_id, cast(sum(quantity) as bigint) as units
             from inventory_movements group by order_id, line_id order by order_id, line_id",
        )
        .fetch_all();
    let rows = rows.await.unwrap();
    rows.iter()
        .map(|row| {
            let get = (row.get("order_id"), row.get("line_id"), row.get("units"));
            (get.0.unwrap(), get.1.unwrap(), get.2.unwrap())
        })
        .collect()
}
