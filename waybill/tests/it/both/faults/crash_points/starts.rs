//! The start of a process: migrations, keys, what is done first, and what is removed from time to time.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::job::{Queue, Source, State};
use domain::time::Timestamp;
use store::jobs::NewJob;

use super::table::{Area, targets};
use super::world::World;
use crate::support::backend::Backend;
use crate::support::job;
use crate::support::smtp::SmtpServer;
use crate::support::storm::count;
use crate::support::within;

const LONGEST: Duration = Duration::from_mins(1);
/// The body of a job that was done then is not kept any more.
const LONG_AGO: Timestamp = Timestamp(1_000_000_000_000);

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_while_it_starts_is_started_again_and_serves() {
    let server = SmtpServer::start().await;
    let mail = [
        ("SMTP_URL", &*server.url()),
        ("MAIL_FROM", "shop@shop.example"),
        ("OPERATORS_MAIL", "ops@shop.example"),
    ];
    let mut world = World::on(Backend::create().await, Area::Starts, &mail).await;
    let mut dead = 0;
    let mut all = targets(Area::Starts);
    // They need a process that has begun its work, and other points the first start of all.
    all.sort_by_key(|target| ["attention-notify", "attention-notified"].contains(&&*target.of));
    for target in all {
        let requests = "select count(*) as n from privacy_requests";
        if target.of == "workers::deadlines::send_notice" && count(&world.db, requests).await == 0 {
            // A request whose deadline is near, and which waits for something else.
            world.recover().await;
            let request = ["privacy", "request", "--shop", "shop.example"];
            world
                .command(&[&request[..], &["--customer", "5", "--yes"]].concat())
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
        if ["attention-notify", "workers::attention::change"].contains(&&*target.of) {
            dead += 1;
            dies(&world, dead).await;
        }
        if ["attention-notify", "attention-notified"].contains(&&*target.of)
            || target.of.contains("::attention::")
        {
            // The process before it has died, and its lease runs out.
            world.change("delete from leases").await;
        }
        world.crash_at_start(&target).await;
        if [
            "attention-notified",
            "committed of workers::attention::change",
        ]
        .contains(&&*target.name)
        {
            are_notified(&world).await;
        }
        if target.name == "committed of workers::attention::change" {
            dead += 1;
            dies(&world, dead).await;
        }
    }
    for number in 1..=dead {
        let mails = server.received().into_iter();
        let of_it = mails.filter(|it| it.body().contains(&format!("A test/{number} job is dead")));
        let ids: BTreeSet<_> = of_it.map(|it| it.header("Message-ID")).collect();
        assert_eq!(ids.len(), 1, "test/{number} is in one mail");
    }
    let notified = "select count(*) as n from events where kind = 'operator.attention' and body like '%test/%'";
    assert_eq!(count(&world.db, notified).await, dead);
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

/// A job of a kind of its own is dead, of which operators are to be notified.
async fn dies(world: &World, number: i64) {
    let new = job::ready(
        world.clock.id(),
        Queue::Orders,
        Source::Internal,
        &format!("test/{number}"),
        world.clock.now(),
    );
    let state = State::Dead;
    job::insert(&world.db, &[NewJob { state, ..new }]).await;
}

/// Lets a process notify operators.
async fn are_notified(world: &World) {
    world.change("delete from leases").await;
    let mut process = world.start("");
    let waiting = "select count(*) as n from attention where notified = 0";
    within(LONGEST, "operators are notified", async || {
        count(&world.db, waiting).await == 0
    })
    .await;
    process.kill();
}
