//! What never came is taken once, wherever the process dies that asks the provider for it.

use std::time::Duration;

use sandbox::Fault;
use serde_json::json;
use store::sql::Db;

use super::table::{Area, targets};
use super::world::World;
use crate::both::reconciliation::{order_at, webhook};
use crate::support::delivery::SHOP;
use crate::support::payment::intent;
use crate::support::storm::count;
use crate::support::{looked, within};

/// A round begins every fifteen seconds, and a provider that could not be asked is asked again after a minute.
const LONGEST: Duration = Duration::from_secs(110);
/// Longer than anything is on its way.
const LONG_AGO: Duration = Duration::from_mins(3);

/// Lets the next process compare everything.
const FROM_THEN_ON: &str = "update reconciliations
    set next_at = 0, since = 0, confirmed_until = 1000000000000, run_until = null, page = null, revision = revision + 1";

#[tokio::test(flavor = "multi_thread")]
async fn what_never_came_is_taken_once_wherever_its_process_dies() {
    let more = [("STOREFRONT_SHOPS", SHOP), ("RECONCILE_MINUTES", "15")];
    let mut world = World::new(Area::Reconciliations, &more).await;
    let mut all = targets(Area::Reconciliations);
    // The rows are made by the first process.
    all.sort_by_key(|target| target.of != "store::reconciliations::begin");
    let mut lost = 0;
    for target in all {
        lost += 1;
        happen(&world, lost);
        world.change("delete from leases").await;
        world.change(FROM_THEN_ON).await;
        let storefront = world.sandbox.storefront().fault_injector.clone();
        let payment = world.sandbox.payment().fault_injector.clone();
        if target.of == "workers::reconcile::save" {
            storefront.fail(Fault::Status(500));
            payment.fail(Fault::Status(500));
        }
        world.crash_at_start(&target).await;
        storefront.clear_faults();
        payment.clear_faults();
    }
    world.change("delete from leases").await;
    let process = world.start("");
    // Until now no process lived until it asked the payment provider.
    within(LONGEST, "both are compared", async || {
        count(&world.db, "select count(*) as n from reconciliations").await == 2
    })
    .await;
    world.change(FROM_THEN_ON).await;
    let is_found = looked(LONGEST, async || {
        // Each side is counted alone, because one could lack what the other has twice.
        let orders = "select count(*) as n from reconciled_deliveries where source = 'storefront'";
        let payments = "select count(*) as n from reconciled_deliveries where source = 'payment'";
        let ready = "select count(*) as n from jobs where state = 'ready'";
        count(&world.db, orders).await >= lost
            && count(&world.db, payments).await >= lost
            && count(&world.db, ready).await == 0
    })
    .await;
    assert!(is_found, "{lost} of each: {:#?}", left(&world.db).await);
    drop(process);
    world.change("delete from leases").await;
    let _process = world.finish().await;
    for once in [
        "select count(*) as n from orders",
        "select count(*) as n from payments",
        "select count(*) as n from events where kind = 'order.created'",
        "select count(*) as n from deliveries where source = 'storefront'",
        "select count(*) as n from deliveries where source = 'payment'",
        "select count(*) as n from reconciled_deliveries where source = 'payment'",
    ] {
        assert_eq!(count(&world.db, once).await, lost, "{once}");
    }
    world.db.close().await;
}

/// How far each comparison is, and which jobs are not done.
async fn left(db: &Db) -> Vec<String> {
    let rows = db.query(
        "select source || ' next ' || next_at || ' found ' || found || ' ' || coalesce(last_error, '') as it
         from reconciliations
         union all
         select kind || ' attempts ' || attempts || ' due ' || run_at || ' ' || coalesce(last_error, '') as it
         from jobs where state = 'ready'",
    );
    rows.all(|row| row.get("it")).await.unwrap()
}

/// An order and a payment of which no webhook is sent.
fn happen(world: &World, nth: i64) {
    let at = world.clock.now().minus(LONG_AGO);
    let order = order_at(at, nth, "pending");
    world.sandbox.storefront().remember(&webhook(&order));
    let object = intent(
        &format!("pi_{nth}"),
        "succeeded",
        3000,
        Some(&nth.to_string()),
    );
    let kind = "payment_intent.succeeded";
    let id = format!("evt_{nth}");
    let event = json!({
        "id": id, "object": "event", "type": kind, "created": at.unix_seconds(), "data": {"object": object},
    });
    let event = sandbox::Delivery::payment(kind, &id, event.to_string());
    world.sandbox.payment().remember(event);
}
