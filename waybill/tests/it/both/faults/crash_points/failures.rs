//! Work that fails, is deferred or is lost, and the sweep that finds it again.

use std::time::Duration;

use sandbox::{Delivery, Fault};
use serde_json::json;

use super::table::{Area, Target, targets};
use super::world::{Providers, World};
use crate::support::order::{body, with};
use crate::support::pause;
use crate::support::storm::count;

/// An order of its own, paid: its fulfilment is requested.
fn order(nth: usize) -> Delivery {
    let id = i64::try_from(5000 + nth).unwrap();
    let body = body(id, 1, "paid").to_string();
    Delivery::storefront("orders/paid", &format!("w-{nth}"), "shop.example", body)
}

/// One that no version can read.
fn unreadable(nth: usize) -> Delivery {
    let id = i64::try_from(5000 + nth).unwrap();
    let body = with(body(id, 1, "paid"), &json!({"order_id": 7})).to_string();
    Delivery::storefront(
        "orders/paid",
        &format!("w-{nth}-spoilt"),
        "shop.example",
        body,
    )
}

/// Leaves jobs that a process died with, at a point before or within their work.
async fn leave(world: &mut World, name: &str, delivery: &Delivery) {
    let target = targets(Area::Deliveries)
        .into_iter()
        .find(|target| target.name == name);
    let providers = world.providers.clone();
    let delivery = delivery.clone();
    world
        .crash(&target.unwrap(), async move {
            post(&providers, &delivery).await;
        })
        .await;
}

async fn post(providers: &Providers, delivery: &Delivery) {
    providers.post(std::slice::from_ref(delivery)).await;
}

/// What fails, until [`mend`].
async fn prepare(world: &mut World, target: &Target, delivery: &Delivery) {
    match target.of.as_str() {
        "workers::run::begin_attempt" | "workers::run::run_one_isolated" => {
            leave(world, "commit of workers::run::commit_batch", delivery).await;
        }
        "store::jobs::wait_after" => {
            leave(world, "commit of workers::run::commit_batch", delivery).await;
            let ended = "update jobs set unfinished_attempts = 1 where state = 'ready'";
            world.change(ended).await;
        }
        "sweep-notify" | "sweep-notified" | "workers::sweep::notify_waiting" => {
            leave(world, "intake-notify", delivery).await;
            world
                .change("update jobs set notified_at = null where state = 'ready'")
                .await;
        }
        "workers::sweep::notify_lost" => {
            leave(world, "intake-notify", delivery).await;
            world
                .change("update jobs set notified_at = 1 where state = 'ready'")
                .await;
        }
        // A kind that only a newer version knows.
        "store::jobs::clear_notified" => {
            leave(world, "intake-notify", delivery).await;
            let rename = "update jobs set notified_at = 1, kind = 'orders/new' where state = 'ready' and kind = 'orders/paid'";
            world.change(rename).await;
        }
        "workers::run::commit_with_savepoints" => {
            world
                .change("alter table orders rename to orders_elsewhere")
                .await;
        }
        "workers::call::defer_claimed" => {
            world
                .sandbox
                .storefront()
                .fault_injector
                .fail(Fault::Status(401));
        }
        "workers::handlers::webhooks::call" => {
            world.endpoint.is(500);
            let mut process = world.start("");
            world.is_ready().await;
            post(&world.providers, delivery).await;
            let refused =
                "select count(*) as n from jobs where queue = 'endpoints' and state = 'ready'";
            crate::support::eventually("the endpoint has refused", async || {
                count(&world.db, refused).await > 0
            })
            .await;
            process.kill();
            // Those behind it wait for years, until it is accepted.
            world
                .change(
                    "update jobs set run_at = 1, notified_at = null
                     where queue = 'endpoints' and state = 'ready'
                       and run_at < created_at + 86400000",
                )
                .await;
        }
        "workers::pauses::without_paused" => {
            world
                .command(&["pauses", "begin", "queue", "orders", "--for", "1h"])
                .await;
        }
        "store::pauses::wake" => {
            world
                .command(&["pauses", "begin", "queue", "orders", "--for", "1h"])
                .await;
            let mut process = world.start("");
            world.is_ready().await;
            post(&world.providers, delivery).await;
            let deferred = "select count(*) as n from jobs where state = 'ready' and last_error like '%is paused until%'";
            crate::support::eventually("the order is deferred", async || {
                count(&world.db, deferred).await > 0
            })
            .await;
            process.kill();
            world.command(&["pauses", "end", "queue", "orders"]).await;
        }
        _ => {}
    }
}

async fn mend(world: &World, target: &Target) {
    match target.of.as_str() {
        "workers::run::commit_with_savepoints" => {
            world
                .change("alter table orders_elsewhere rename to orders")
                .await;
        }
        "store::jobs::clear_notified" => {
            world
                .change("update jobs set kind = 'orders/paid' where kind = 'orders/new'")
                .await;
        }
        "workers::call::defer" | "workers::call::defer_claimed" => {
            world.sandbox.storefront().fault_injector.clear_faults();
        }
        "workers::handlers::webhooks::call" => world.endpoint.is(200),
        "workers::pauses::without_paused" => {
            world.command(&["pauses", "end", "queue", "orders"]).await;
        }
        _ => {}
    }
    // Whatever waits for another try need not wait for long.
    world
        .change(
            "update jobs set run_at = 1
             where state = 'ready' and run_at > created_at and run_at < created_at + 86400000",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_what_failed_or_was_lost_is_done_once_wherever_its_process_dies() {
    let mut world = World::new(Area::Failures, &[]).await;
    let url = world.endpoint.url.clone();
    world.command(&["endpoints", "add", &url]).await;
    let mut spoilt = 0;
    for (nth, target) in targets(Area::Failures).iter().enumerate() {
        let dies = ["workers::run::record", "dead-letter", "dead-lettered"];
        let is_spoilt = dies.contains(&target.of.as_str());
        let mut wave = vec![order(100 * nth)];
        if is_spoilt {
            wave.push(unreadable(100 * nth));
            spoilt += 1;
        }
        prepare(&mut world, target, &wave[0]).await;
        world.posted.extend(wave.clone());
        let providers = world.providers.clone();
        world
            .crash(target, async {
                providers.post(&wave).await;
            })
            .await;
        mend(&world, target).await;
        world.recover_sometimes().await;
    }
    let _process = world.finish().await;
    are_right(&world, spoilt).await;
    world.db.close().await;
}

/// Each of the orders but the spoilt ones has all its effects once.
async fn are_right(world: &World, spoilt: i64) {
    let posted = i64::try_from(world.posted.len()).unwrap();
    assert_eq!(
        count(&world.db, "select count(*) as n from webhook_ids").await,
        posted
    );
    let done = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                where state = 'done' and source <> 'internal'";
    assert_eq!(count(&world.db, done).await, posted - spoilt);
    let dead = "select count(*) as n from jobs where state = 'dead'";
    let found = world.jobs("dead").await;
    assert_eq!(count(&world.db, dead).await, spoilt, "dead:\n{found}");
    let orders = posted - spoilt;
    for counted in [
        "select count(*) as n from orders",
        "select count(*) as n from orders where state = 'requested'",
        "select count(*) as n from events where kind = 'order.created'",
        "select count(*) as n from events where kind = 'order.paid'",
        "select count(*) as n from events where kind = 'order.fulfillment_requested'",
    ] {
        assert_eq!(count(&world.db, counted).await, orders, "{counted}");
    }
    let created = world.sandbox.storefront().created();
    assert!(created.values().all(|times| *times == 1), "{created:?}");
    assert_eq!(i64::try_from(created.len()).unwrap(), orders);
    world.endpoint.in_order(&world.db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_call_to_a_silent_provider_waits_wherever_its_process_dies() {
    let mut world = World::new(Area::Deferrals, &[]).await;
    for (nth, target) in targets(Area::Deferrals).iter().enumerate() {
        // The first call finds the provider silent, and the next ones are deferred at once.
        let wave: Vec<Delivery> = (0..2).map(|more| order(100 * nth + more)).collect();
        world
            .sandbox
            .storefront()
            .fault_injector
            .fail(Fault::Status(500));
        world.posted.extend(wave.clone());
        let (providers, sandbox) = (world.providers.clone(), world.sandbox.storefront().clone());
        let before = sandbox.fault_injector.requests();
        world
            .crash(target, async {
                post(&providers, &wave[0]).await;
                // A call is given up after four tries.
                while sandbox.fault_injector.requests() < before + 4 {
                    pause(Duration::from_millis(50)).await;
                }
                post(&providers, &wave[1]).await;
            })
            .await;
        mend(&world, target).await;
        world.recover_sometimes().await;
    }
    let _process = world.finish().await;
    are_right(&world, 0).await;
    world.db.close().await;
}
