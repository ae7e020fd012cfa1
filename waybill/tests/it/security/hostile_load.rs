//! Two thousand strangers of every kind attack at once, and a provider's signed deliveries are
//! accepted meanwhile as if the strangers were not there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::support::backend::{Backend, environment};
use crate::support::delivery::order;
use crate::support::hostile::Kind;
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::scrape::{parse, scrape};
use crate::support::{eventually, pause};

const STRANGERS: usize = 2000;

/// The number of addresses that they come from: each has less than its share of the connections.
const ADDRESSES: usize = 40;

/// What the slowest delivery of a second may take at rest without being called slow: below it a
/// machine that does other things too decides.
const NOISE: Duration = Duration::from_millis(40);

/// Until connections are open and caches warm nothing is measured.
const BEGINNING: Duration = Duration::from_secs(1);

/// All that bodies may take, heads and answers of all strangers, and the process itself.
const MEMORY_MIB: u64 = 256;

/// How long it lasts; a minute with HOSTILE_SECONDS=60.
fn length() -> Duration {
    let seconds = environment("HOSTILE_SECONDS");
    let seconds = seconds.map_or(6, |text| text.parse().expect("HOSTILE_SECONDS is a number"));
    Duration::from_secs(seconds)
}

/// Posts twenty-five deliveries a second, whether the ones before are answered or not. On a thread of its own, beside what the strangers do in this process.
async fn deliver(port: u16, first: u64, lasting: Duration) -> Delivered {
    let apart = tokio::task::spawn_blocking(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(deliver_here(port, first, lasting))
    });
    apart.await.unwrap()
}

async fn deliver_here(port: u16, first: u64, lasting: Duration) -> Delivered {
    let client = reqwest::Client::new();
    let mut ticks = interval(Duration::from_millis(40));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut posts = JoinSet::new();
    let begun = Instant::now();
    let mut seed = first;
    while begun.elapsed() < lasting + BEGINNING {
        ticks.tick().await;
        let is_measured = begun.elapsed() > BEGINNING;
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        let mut request = client
            .post(format!("http://127.0.0.1:{port}{}", delivery.path))
            .body(delivery.body);
        for (name, value) in delivery.headers {
            request = request.header(name, value);
        }
        let second = begun.elapsed().as_secs();
        posts.spawn(async move {
            let begun = Instant::now();
            let status = request.send().await.map(|answer| answer.status().as_u16());
            let measured = is_measured.then(|| (second, begun.elapsed()));
            (status.unwrap_or(0), measured)
        });
        seed += 1;
    }
    let answers = posts.join_all().await;
    let took = answers.iter().filter_map(|(_, measured)| *measured);
    let refused = answers.iter().filter(|(status, _)| *status != 200).count();
    Delivered {
        took: took.collect(),
        refused,
    }
}

struct Delivered {
    /// In which second each was sent, and how long it took.
    took: Vec<(u64, Duration)>,
    /// Answered with anything but 200, or not at all.
    refused: usize,
}

impl Delivered {
    /// How long the slowest delivery of a second took, in the middle one of all seconds. A disk
    /// that stands still for a moment makes one second slow, strangers who are in the way make
    /// all of them slow.
    fn slowest_of_a_second(&self) -> Duration {
        let mut slowest = BTreeMap::<u64, Duration>::new();
        for (second, took) in &self.took {
            let known = slowest.entry(*second).or_default();
            *known = (*known).max(*took);
        }
        let mut slowest: Vec<Duration> = slowest.into_values().collect();
        slowest.sort();
        slowest[slowest.len() / 2]
    }
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
    // Alone: what workers do with the deliveries would be measured too.
    let process = Process::start("waybill-ingress", &[], &settings);
    is_ready(port).await;
    let at_rest = deliver(port, 1000, Duration::from_secs(4)).await;
    assert_eq!(at_rest.refused, 0);
    let at_rest = at_rest.slowest_of_a_second();

    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let mut strangers = JoinSet::new();
    for number in 0..STRANGERS {
        let kind = Kind::ALL[number % Kind::ALL.len()];
        let last = u8::try_from(number / Kind::ALL.len() % ADDRESSES + 10).unwrap();
        strangers.spawn(kind.go_on([127, 0, 1, last], address));
        pause(Duration::from_millis(2)).await;
    }
    eventually("the strangers are there", async || {
        metric(port, "waybill_connections").await > 1000.0
    })
    .await;
    pause(Duration::from_secs(2)).await;
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
    let (delivered, memory) = tokio::join!(deliver(port, 10_000, lasting), watched);
    let open = metric(port, "waybill_connections").await;
    let refused = metric(port, "waybill_deliveries_refused_total").await;
    strangers.shutdown().await;

    let (meanwhile, of) = (delivered.slowest_of_a_second(), delivered.took.len());
    println!(
        "slowest of a second at rest {at_rest:?}, meanwhile {meanwhile:?} of {of} deliveries, {} of them refused; \
         {memory} MiB; {open} connections open, {refused} deliveries of strangers refused",
        delivered.refused
    );
    assert_eq!(delivered.refused, 0, "signed deliveries were refused");
    assert!(of > 100, "{of} deliveries");
    let bound = 2 * at_rest.max(NOISE);
    let seconds = delivered.took;
    assert!(
        meanwhile <= bound,
        "the slowest of a second took {meanwhile:?}, at rest {at_rest:?}: {seconds:?}"
    );
    assert!(memory <= MEMORY_MIB, "{memory} MiB");
    // Most have been cut by then, and come again later.
    assert!(open > 200.0, "{open} connections were open at the end");
    assert!(refused > 300.0, "{refused} deliveries were refused");
}
