//! Two thousand strangers at once, of every kind, and a provider whose signed deliveries are taken
//! meanwhile as if they were not there.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::support::backend::{Backend, environment, is_distributed};
use crate::support::delivery::order;
use crate::support::hostile::Kind;
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::scrape::{parse, scrape};
use crate::support::{eventually, pause};

const STRANGERS: usize = 2000;

/// Of how many addresses they come: each has less than its share of the connections.
const ADDRESSES: usize = 40;

/// What a delivery may take at rest without being called slow: below it a machine that does
/// other things too decides.
const NOISE: Duration = Duration::from_millis(40);

/// All that bodies may take, heads and answers of all strangers, and the process itself.
const MEMORY_MIB: u64 = 256;

/// How long it lasts; a minute with HOSTILE_SECONDS=60.
fn length() -> Duration {
    let seconds = environment("HOSTILE_SECONDS");
    let seconds = seconds.map_or(10, |text| {
        text.parse().expect("HOSTILE_SECONDS is a number")
    });
    Duration::from_secs(seconds)
}

/// Posts fifty deliveries a second, whether the ones before are answered or not; how long each
/// took, the longest last.
async fn deliver(port: u16, first: u64, lasting: Duration) -> Vec<Duration> {
    let client = reqwest::Client::new();
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut posts = JoinSet::new();
    let begun = Instant::now();
    let mut seed = first;
    while begun.elapsed() < lasting {
        ticks.tick().await;
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        let mut request = client
            .post(format!("http://127.0.0.1:{port}{}", delivery.path))
            .body(delivery.body);
        for (name, value) in delivery.headers {
            request = request.header(name, value);
        }
        posts.spawn(async move {
            let begun = Instant::now();
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "delivery {seed}");
            begun.elapsed()
        });
        seed += 1;
    }
    let mut took = posts.join_all().await;
    took.sort();
    took
}

fn p99(took: &[Duration]) -> Duration {
    took[took.len() * 99 / 100]
}

/// The value of a metric, all its labels together.
async fn metric(port: u16, name: &str) -> f64 {
    let families = parse(&scrape(port).await);
    let samples = families.get(name).map(|family| &family.samples);
    let values = samples.into_iter().flatten().map(|sample| sample.value);
    values.sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_two_thousand_strangers_keep_no_signed_delivery_out() {
    server::raise_file_limit();
    let backend = Backend::create().await;
    let port = free_port();
    let mut settings = settings(&backend, port);
    settings.retain(|(name, _)| name != "STOREFRONT_RATE_PER_SECOND");
    settings.push(("STOREFRONT_RATE_PER_SECOND".into(), "100".into()));
    let process = if is_distributed() {
        Process::start("waybill-ingress", &[], &settings)
    } else {
        Process::start("waybill", &["serve"], &settings)
    };
    is_ready(port).await;
    deliver(port, 0, Duration::from_secs(1)).await;
    let at_rest = p99(&deliver(port, 1000, Duration::from_secs(6)).await);

    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let mut strangers = JoinSet::new();
    for number in 0..STRANGERS {
        let kind = Kind::ALL[number % Kind::ALL.len()];
        let last = u8::try_from(number / Kind::ALL.len() % ADDRESSES + 10).unwrap();
        strangers.spawn(kind.go_on([127, 0, 1, last], address));
    }
    eventually("the strangers are there", async || {
        metric(port, "waybill_connections").await > 1200.0
    })
    .await;
    let lasting = length();
    let watched = async {
        let begun = Instant::now();
        let mut most = 0;
        while begun.elapsed() < lasting {
            most = most.max(process.resident_mib());
            pause(Duration::from_millis(500)).await;
        }
        most
    };
    let (took, memory) = tokio::join!(deliver(port, 10_000, lasting), watched);
    let open = metric(port, "waybill_connections").await;
    let refused = metric(port, "waybill_deliveries_refused_total").await;
    strangers.shutdown().await;

    let meanwhile = p99(&took);
    println!(
        "p99 at rest {at_rest:?}, meanwhile {meanwhile:?} of {} deliveries; {memory} MiB; \
         {open} connections open, {refused} deliveries refused",
        took.len()
    );
    assert!(took.len() > 100, "{} deliveries", took.len());
    let bound = 2 * at_rest.max(NOISE);
    assert!(meanwhile <= bound, "p99 {meanwhile:?}, at rest {at_rest:?}");
    assert!(memory <= MEMORY_MIB, "{memory} MiB");
    assert!(open > 800.0, "{open} connections were open at the end");
    assert!(refused > 1000.0, "{refused} deliveries were refused");
}
