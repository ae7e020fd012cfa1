//! Posts the webhooks that changes in the stand-ins cause, in the background.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::delivery_faults::{DeliveryFaults, Held};
use crate::lock;
use crate::poster::{Poster, Report};
use crate::storm::SplitMix64;
use crate::webhooks::{Delivery, Sender};

/// The sender of webhooks. All clones share the deliveries that are under way.
#[derive(Clone)]
pub struct WebhookSender {
    pub poster: Poster,
    under_way: watch::Sender<usize>,
    report: Arc<Mutex<Report>>,
    held: Arc<Mutex<Held>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl WebhookSender {
    pub fn new(poster: Poster, stop: CancellationToken, tasks: TaskTracker) -> Self {
        WebhookSender {
            poster,
            under_way: watch::Sender::new(0),
            report: Arc::default(),
            held: Arc::default(),
            stop,
            tasks,
        }
    }

    /// Posts a delivery until it is accepted, refused or given up, or the sandbox stops. The
    /// delivery faults apply to events of the payment provider.
    pub fn send(&self, delivery: Delivery) {
        if delivery.sender == Sender::Storefront {
            return self.post(vec![delivery], Duration::ZERO);
        }
        let delivery_faults = self.poster.delivery_faults();
        let times = usize::try_from(delivery_faults.duplicates).unwrap_or(usize::MAX);
        let repeated = std::iter::repeat_n(delivery, times);
        let Some(shuffle) = delivery_faults.shuffle else {
            repeated.for_each(|delivery| self.post(vec![delivery], delivery_faults.delay));
            return;
        };
        let mut held = lock(&self.held);
        held.deliveries.extend(repeated);
        if held.deliveries.len() >= shuffle.hold {
            self.post(held.take(), delivery_faults.delay);
        }
    }

    /// Sets the delivery faults from now on. Events that the former delivery faults held back are
    /// posted.
    pub fn set_delivery_faults(&self, delivery_faults: DeliveryFaults) {
        self.release();
        let seed = delivery_faults.shuffle.map_or(0, |shuffle| shuffle.seed);
        lock(&self.held).chance = SplitMix64(seed);
        self.poster.set_delivery_faults(delivery_faults);
    }

    /// Posts the events that are held back.
    pub fn release(&self) {
        let held = lock(&self.held).take();
        if !held.is_empty() {
            self.post(held, self.poster.delivery_faults().delay);
        }
    }

    /// Posts deliveries one after the other.
    fn post(&self, deliveries: Vec<Delivery>, after: Duration) {
        let count = deliveries.len();
        self.under_way.send_modify(|under_way| *under_way += count);
        lock(&self.report).deliveries += u64::try_from(count).unwrap_or(u64::MAX);
        let webhook_sender = self.clone();
        let post = async move {
            let all = async {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                for delivery in &deliveries {
                    let heard = |attempt| lock(&webhook_sender.report).count(attempt);
                    webhook_sender.poster.post(delivery, heard).await;
                    webhook_sender
                        .under_way
                        .send_modify(|under_way| *under_way -= 1);
                }
            };
            webhook_sender.stop.run_until_cancelled(all).await;
        };
        platform::task::spawn("sandbox webhook", self.tasks.track_future(post));
    }

    /// Waits until all deliveries have ended. Events that are held back are posted first.
    pub async fn done(&self) {
        self.release();
        let mut under_way = self.under_way.subscribe();
        // This function holds the sender, so its channel is open.
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    pub fn view(&self) -> Value {
        let report = lock(&self.report);
        json!({
            "to": self.poster.webhooks.base_url,
            "shop": self.poster.webhooks.shop,
            "sent": report.deliveries,
            "under_way": *self.under_way.borrow(),
            "held": lock(&self.held).deliveries.len(),
            "delivery_faults": self.poster.delivery_faults().view(),
            "accepted": report.accepted,
            "duplicates": report.duplicates,
            "refused": report.refused,
            "answers": report.answers,
            "unanswered": report.unanswered,
        })
    }
}
