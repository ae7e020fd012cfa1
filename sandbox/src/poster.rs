//! Posts deliveries as a provider does: again and again until they are accepted.
//!
//! After 429, any 5xx, no connection or no answer a delivery is posted again, with pauses that
//! double up to a minute and are not shorter than `Retry-After` says. 2xx and 409 count as
//! success, and any other status as a failure that no retry changes.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use futures_util::StreamExt;
use futures_util::stream;
use platform::backoff::Backoff;
use platform::clock::Clock;
use reqwest::header::RETRY_AFTER;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::delivery_faults::DeliveryFaults;
use crate::webhooks::{Delivery, Webhooks};

/// How long the providers wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How many requests may be under way. Further deliveries wait.
const AT_ONCE: usize = 256;
/// How many attempts are made; they take about 20 minutes when nothing answers.
const ATTEMPTS: u32 = 30;

/// Posts signed deliveries to one installation of Waybill.
#[derive(Clone)]
pub struct Poster {
    pub webhooks: Webhooks,
    clock: Clock,
    client: reqwest::Client,
    turns: Arc<Semaphore>,
    delivery_faults: Arc<Mutex<DeliveryFaults>>,
}

/// How the posted deliveries ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub deliveries: u64,
    /// How many deliveries ended with 2xx.
    pub accepted: u64,
    /// How many deliveries ended with 409.
    pub duplicates: u64,
    /// How many deliveries ended with a status that no retry changes.
    pub refused: u64,
    /// How many deliveries were not accepted after all attempts.
    pub given_up: u64,
    /// How often each status was answered, answers before a retry included.
    pub answers: BTreeMap<u16, u64>,
    /// How many attempts got no answer.
    pub unanswered: u64,
}

/// How one attempt ended.
#[derive(Clone, Copy)]
pub enum Attempt {
    Answered(u16),
    TryAgain(u16, Option<Duration>),
    Unanswered,
}

impl Poster {
    pub fn new(webhooks: Webhooks, clock: Clock) -> Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .no_proxy()
            .build()?;
        Ok(Poster {
            webhooks,
            clock,
            client,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            delivery_faults: Arc::default(),
        })
    }

    /// Signs with those delivery faults that are about signatures.
    pub fn set_delivery_faults(&self, delivery_faults: DeliveryFaults) {
        *crate::lock(&self.delivery_faults) = delivery_faults;
    }

    pub(crate) fn delivery_faults(&self) -> DeliveryFaults {
        crate::lock(&self.delivery_faults).clone()
    }

    /// Posts all deliveries, `at_once` at a time. `progress` is called with the number of those
    /// that have ended.
    pub async fn post_all(
        &self,
        deliveries: &[Delivery],
        concurrency: usize,
        progress: impl Fn(usize),
    ) -> Report {
        let ended = AtomicUsize::new(0);
        let report = Mutex::new(Report::default());
        let report = &report;
        stream::iter(deliveries)
            .for_each_concurrent(concurrency.max(1), |delivery| {
                let (ended, progress) = (&ended, &progress);
                async move {
                    self.post(delivery, |attempt| crate::lock(report).count(attempt))
                        .await;
                    progress(ended.fetch_add(1, Ordering::Relaxed) + 1);
                }
            })
            .await;
        let mut report = crate::lock(report).clone();
        report.deliveries = u64::try_from(deliveries.len()).unwrap_or(u64::MAX);
        report.given_up = report.deliveries - report.accepted - report.duplicates - report.refused;
        report
    }

    /// Posts one delivery until it ends. `heard` is called after every attempt.
    pub async fn post(&self, delivery: &Delivery, heard: impl Fn(Attempt)) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for _ in 0..ATTEMPTS {
            let attempt = self.attempt(delivery).await;
            heard(attempt);
            let asked = match attempt {
                Attempt::Answered(_) => return,
                Attempt::TryAgain(_, asked) => asked,
                Attempt::Unanswered => None,
            };
            let asked = asked.unwrap_or_default();
            let pause = backoff.next_pause();
            tokio::time::sleep(asked.max(pause).min(LONGEST_PAUSE)).await;
        }
        let Delivery { topic, id, .. } = delivery;
        tracing::warn!(%topic, %id, "gave up posting a webhook");
    }

    async fn attempt(&self, delivery: &Delivery) -> Attempt {
        let _turn = self.turns.acquire().await;
        let base_url = self.webhooks.base_url.trim_end_matches('/');
        let url = format!("{base_url}{}", delivery.path());
        let mut request = self
            .client
            .post(url)
            .body(delivery.body.as_bytes().to_vec());
        let headers = delivery.signed(&self.webhooks, self.clock.now(), &self.delivery_faults());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let Ok(answer) = request.send().await else {
            return Attempt::Unanswered;
        };
        let status = answer.status();
        let asked = answer.headers().get(RETRY_AFTER);
        let asked = asked.and_then(|value| value.to_str().ok()?.parse().ok());
        let asked = asked.map(Duration::from_secs);
        // The answer is read to its end, so that the connection can be used again.
        let _ = answer.bytes().await;
        if status == 429 || status.is_server_error() {
            return Attempt::TryAgain(status.as_u16(), asked);
        }
        Attempt::Answered(status.as_u16())
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, more: Report) {
        self.deliveries += more.deliveries;
        self.accepted += more.accepted;
        self.duplicates += more.duplicates;
        self.refused += more.refused;
        self.given_up += more.given_up;
        for (status, times) in more.answers {
            *self.answers.entry(status).or_default() += times;
        }
        self.unanswered += more.unanswered;
    }
}

impl Report {
    pub(crate) fn count(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Unanswered => {
                self.unanswered += 1;
                return;
            }
            Attempt::Answered(200..300) => self.accepted += 1,
            Attempt::Answered(409) => self.duplicates += 1,
            Attempt::Answered(_) => self.refused += 1,
            Attempt::TryAgain(..) => {}
        }
        if let Attempt::Answered(status) | Attempt::TryAgain(status, _) = attempt {
            *self.answers.entry(status).or_default() += 1;
        }
    }
}
