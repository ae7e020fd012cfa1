//! A shop's best day, on the defaults of its provider: nothing of it is refused, and no other shop waits for it.
//! `SALE_SECONDS=180` makes it one of 5,000 orders in three minutes.

use std::time::Duration;

use domain::job::State;
use futures_util::future::join;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::both::faults::backlog::{PROMISED, waited};
use crate::support::backend::environment;
use crate::support::delivery::{Delivery, shopify};
use crate::support::order::body;
use crate::support::{Service, pause, service};

const BUSY: &str = "busy.example";
const OTHER: &str = "other.example";
const TOPICS: [&str; 3] = ["orders/create", "orders/updated", "orders/paid"];

async fn started() -> Service {
    let service = service().without("STOREFRONT_RATE_PER_SECOND");
    let service = service.setting("STOREFRONT_PROVIDER", "shopify");
    let service = service.setting("STOREFRONT_SHOPS", &format!("{BUSY},{OTHER}"));
    service.start().await
}

fn order(shop: &str, topic: &str, id: i64) -> Delivery {
    let second = 1 + TOPICS
        .iter()
        .position(|it| *it == topic)
        .unwrap_or_default();
    let body = body(id, u32::try_from(second).unwrap(), "paid");
    shopify(topic, shop, &format!("{topic} {id}"), body.to_string())
}

/// Sends in a task of its own; the status of the answer.
fn sent(service: &Service, delivery: &Delivery) -> impl Future<Output = u16> + use<> {
    let request = service.request(delivery);
    let (sender, answer) = tokio::sync::oneshot::channel();
    platform::task::spawn("sender", async move {
        let status = request.send().await.map_or(0, |it| it.status().as_u16());
        let _ = sender.send(status);
    });
    async move { answer.await.unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_nobody_waits_for_a_sale_and_nothing_of_it_is_refused() {
    let seconds = environment("SALE_SECONDS");
    let seconds = seconds.map_or(6, |it| it.parse().expect("SALE_SECONDS is a number"));
    let service = started().await;
    // Each second 28 orders, of each three deliveries, and each of these twice: 168 deliveries.
    let mut ticks = interval(Duration::from_secs(1) / 28);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (begun, mut answers, mut waits) = (Instant::now(), Vec::new(), Vec::new());
    let orders = seconds * 28;
    for id in 1..=orders {
        ticks.tick().await;
        for topic in TOPICS {
            let delivery = order(BUSY, topic, id);
            answers.extend([sent(&service, &delivery), sent(&service, &delivery)]);
        }
        if id % 28 == 14 {
            waits.push(waited(&service, &order(OTHER, "orders/paid", id)).await);
        }
    }
    let deliveries = answers.len();
    let mut refused = Vec::new();
    for answer in answers {
        refused.extend(Some(answer.await).filter(|status| *status != 200));
    }
    let took = begun.elapsed();
    assert_eq!(refused, [0; 0]);
    waits.sort_unstable();
    let (middle, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    platform::terminal::err(&format!(
        "{deliveries} deliveries of {orders} orders in {took:.1?}; an order of another shop waited {middle:.0?}, at most \
         {longest:.0?}\n"
    ));
    assert!(longest < PROMISED, "{waits:?}");
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    assert_eq!(service.jobs(State::Done).await, orders * 3 + seconds);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_nobody_waits_for_a_shop_that_sends_more_than_its_share() {
    const SENT: i64 = 6000;
    const AT_ONCE: usize = 200;
    let service = started().await;
    let begun = Instant::now();
    let requests: Vec<_> = (1..=SENT)
        .map(|id| service.request(&order(BUSY, "orders/create", id)))
        .collect();
    let all = stream::iter(requests)
        .map(async |request| request.send().await.unwrap().status().as_u16())
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<u16>>();
    let others = async {
        let mut waits = Vec::new();
        for id in 1..=5 {
            pause(Duration::from_millis(300)).await;
            waits.push(waited(&service, &order(OTHER, "orders/paid", id)).await);
        }
        waits
    };
    let (all, mut waits) = join(all, others).await;
    let mut accepted = 0;
    for status in all {
        match status {
            200 => accepted += 1,
            _ => assert!(status == 429 || status == 503, "{status}"),
        }
    }
    let took = begun.elapsed();
    // docs/security.md: 250 a second, and ten seconds' worth at once.
    let share = 2500 + 250 * (i64::try_from(took.as_secs()).unwrap() + 1);
    waits.sort_unstable();
    platform::terminal::err(&format!(
        "{accepted} of {SENT} taken in {took:.1?}; an order of another shop waited {:.0?}, at most {:.0?}\n",
        waits[2], waits[4]
    ));
    assert!(
        accepted <= share && accepted > 2000,
        "{accepted}, and its share is {share}"
    );
    assert!(waits[3] < PROMISED && waits[4] < PROMISED * 2, "{waits:?}");
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}
