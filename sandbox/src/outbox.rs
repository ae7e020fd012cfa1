//! The webhooks that follow from what was done here, posted in the background.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lock;
use crate::poster::{Poster, Report};
use crate::webhooks::Delivery;

/// Clones share what is under way.
#[derive(Clone)]
pub struct Outbox {
    pub poster: Poster,
    under_way: watch::Sender<usize>,
    report: Arc<Mutex<Report>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Outbox {
    pub fn new(poster: Poster, stop: CancellationToken, tasks: TaskTracker) -> Self {
        Outbox {
            poster,
            under_way: watch::Sender::new(0),
            report: Arc::default(),
            stop,
            tasks,
        }
    }

    /// Posts it until it is taken, refused or given up, or the sandbox stops.
    pub fn send(&self, delivery: Delivery) {
        self.under_way.send_modify(|count| *count += 1);
        lock(&self.report).deliveries += 1;
        let outbox = self.clone();
        let post = async move {
            let heard = |attempt| lock(&outbox.report).count(attempt);
            let post = outbox.poster.post(&delivery, heard);
            outbox.stop.run_until_cancelled(post).await;
            outbox.under_way.send_modify(|count| *count -= 1);
        };
        common::task::spawn("sandbox webhook", self.tasks.track_future(post));
    }

    pub async fn done(&self) {
        let mut under_way = self.under_way.subscribe();
        // The sender is ours, so it is not gone.
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    pub fn view(&self) -> Value {
        let report = lock(&self.report);
        json!({
            "to": self.poster.webhooks.base_url,
            "shop": self.poster.webhooks.shop,
            "sent": report.deliveries,
            "under_way": *self.under_way.borrow(),
            "accepted": report.accepted,
            "duplicates": report.duplicates,
            "refused": report.refused,
            "answers": report.answers,
            "unanswered": report.unanswered,
        })
    }
}
