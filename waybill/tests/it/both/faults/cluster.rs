//! A cluster of three RabbitMQ servers, which are the test's own, and of which one or two are gone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::job::{Queue, State};
use futures_util::{StreamExt as _, stream};
use store::jobs;
use store::sql::Db;
use tokio::time::Instant;

use super::failover::{Product, one_effect_each};
use crate::support::backend::Backend;
use crate::support::cluster::Cluster;
use crate::support::{pause, within};

/// How long it may take until a delivery is processed after a server was killed. Measured: five seconds.
const SOON: Duration = Duration::from_secs(40);

/// How long it takes until a delivery that comes now is processed.
async fn processed(product: &Product, db: &Db, seed: u64) -> Duration {
    let begun = Instant::now();
    product.accepts(seed..seed + 1).await;
    let id = format!("w-{seed}");
    within(SOON, "work goes on", async || {
        let done = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                    where external_id = $1 and state = 'done'";
        let done = db.query(done).bind(id.as_str()).fetch_one().await.unwrap();
        done.get::<i64>("n").unwrap() == 1
    })
    .await;
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_a_cluster_of_brokers_loses_each_server_and_then_its_majority() {
    /// Far from the seeds of the load.
    const PROBES: u64 = 1_000_000;
    const WITHOUT_MAJORITY: i64 = 30;
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let backend = Backend::create().await;
    let url = backend.database_url.clone();
    let product = Product::on(backend, &[("AMQP_URL", &cluster.url)]).await;
    let db = Db::open(&url, 2).await.unwrap();
    let mut accepted = BTreeSet::from([PROBES]);
    let usual = processed(&product, &db, PROBES).await;
    // The broker writes that there is a queue to disk a moment after it has said so.
    pause(Duration::from_secs(3)).await;

    let is_enough = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    let seeds = std::iter::from_fn(|| {
        let goes_on = !is_enough.load(Ordering::SeqCst);
        goes_on.then(|| next.fetch_add(1, Ordering::SeqCst))
    });
    // The broker is none of intake's concern, so every delivery is accepted at once.
    let load = stream::iter(seeds)
        .map(async |seed| {
            product.accepts(seed..seed + 1).await;
            pause(Duration::from_millis(100)).await;
        })
        .buffer_unordered(4)
        .count();
    let killing = async {
        let mut times = Vec::new();
        for (probe, server) in (PROBES + 1..).zip(["1", "2", "3"]) {
            cluster.services(&["cluster-kill", server]).await;
            times.push(processed(&product, &db, probe).await);
            accepted.insert(probe);
            cluster.services(&["cluster-start", server]).await;
        }
        is_enough.store(true, Ordering::SeqCst);
        times
    };
    let (count, times) = tokio::join!(load, killing);
    eprintln!("{count} deliveries; processed after {usual:?}, with a server killed {times:?}");
    accepted.extend(0..next.into_inner());
    one_effect_each(&url, &accepted).await;

    cluster.services(&["cluster-kill", "1", "2"]).await;
    let first = PROBES + 100;
    let seeds = first..first + WITHOUT_MAJORITY.cast_unsigned();
    product.accepts(seeds.clone()).await;
    accepted.extend(seeds);
    product.doctor_says("2 of 3 servers are away").await;
    pause(Duration::from_secs(2)).await;
    let waiting = jobs::count(&db, Queue::Orders, State::Ready).await.unwrap();
    assert_eq!(
        waiting, WITHOUT_MAJORITY,
        "nothing is lost, and nothing runs"
    );
    let begun = Instant::now();
    cluster.services(&["cluster-start", "1", "2"]).await;
    let up = begun.elapsed();
    one_effect_each(&url, &accepted).await;
    eprintln!(
        "the majority is back after {up:?}, all is done after {:?}",
        begun.elapsed()
    );
    db.close().await;
    product.stop().await;
}
