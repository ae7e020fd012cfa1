//! The start of a process: migrations, keys, what is done first, and what is removed from time to time.

use domain::job::{Queue, Source, State};
use domain::time::Timestamp;
use store::jobs::NewJob;

use super::table::{Area, targets};
use super::world::World;
use crate::support::backend::Backend;
use crate::support::job;
use crate::support::storm::count;

/// The body of a job that was done then is not kept any more.
const LONG_AGO: Timestamp = Timestamp(1_000_000_000_000);

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_while_it_starts_is_started_again_and_serves() {
    let mut world = World::on(Backend::create().await, Area::Starts, &[]).await;
    for target in targets(Area::Starts) {
        let requests = "select count(*) as n from privacy_requests";
        if target.of == "workers::deadlines::send_notice" && count(&world.db, requests).await == 0 {
            // A request whose deadline is near, and which waits for something else.
            world.recover().await;
            let request = ["privacy", "request", "--shop", "shop.example"];
            world
                .command(&[&request[..], &["--customer", "5"]].concat())
                .await;
            let later = "update jobs set run_at = created_at + 3600000";
            world.change(later).await;
            let near = "update privacy_requests set due_at = received_at + 1000";
            world.change(near).await;
        }
        if target.of == "store::deliveries::cut_bodies" {
            let id = world.clock.id_at(LONG_AGO);
            let old = job::ready(
                id,
                Queue::Orders,
                Source::Storefront,
                "orders/create",
                LONG_AGO,
            );
            let state = State::Done;
            job::insert(&world.db, &[NewJob { state, ..old }]).await;
        }
        world.crash_at_start(&target).await;
    }
    world.change("update jobs set run_at = created_at").await;
    let _process = world.finish().await;
    assert_eq!(
        count(&world.db, "select count(*) as n from privacy_keys").await,
        1
    );
    let notices =
        "select kind from events where kind like 'privacy.%' group by kind having count(*) > 1";
    let kept = "select count(*) as n from deliveries where body is not null and created_at = 1000000000000";
    assert_eq!(count(&world.db, kept).await, 0);
    let repeated = world.db.query(notices).fetch_all().await.unwrap();
    assert!(repeated.is_empty(), "each notice is sent once");
    world.db.close().await;
}
