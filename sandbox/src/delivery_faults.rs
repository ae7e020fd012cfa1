//! How the payment provider delivers its events. The good ones, which are the usual, and those
//! that the real one shows now and then: repeats, another order, delay, several signatures.

use std::time::Duration;

use domain::signature::sign_payment;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::storm::SplitMix64;
use crate::webhooks::Delivery;

#[derive(Clone, PartialEq, Eq)]
pub struct DeliveryFaults {
    /// How often each event is posted, every time under its one id.
    pub duplicates: u32,
    pub shuffle: Option<Shuffle>,
    /// How long after what happened it is posted.
    pub delay: Duration,
    /// The signature header has a `v1` that is of no secret before the right one.
    pub wrong_signature: bool,
    /// The signature header has a `v1` of this secret after the right one, as while a secret
    /// is replaced.
    pub old_secret: Option<String>,
}

/// Events are held back until so many wait, then posted one after the other in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Of chance.
    pub seed: u64,
    /// Repeats count too.
    pub hold: usize,
}

impl Default for DeliveryFaults {
    fn default() -> Self {
        DeliveryFaults {
            duplicates: 1,
            shuffle: None,
            delay: Duration::ZERO,
            wrong_signature: false,
            old_secret: None,
        }
    }
}

impl DeliveryFaults {
    /// The value of `Payment-Signature`.
    pub(crate) fn signature(&self, secret: &str, now: Timestamp, body: &[u8]) -> String {
        let seconds = now.unix_seconds();
        let signed = |secret: &str| sign_payment(secret, seconds, body);
        // What is signed begins with the time, which comes once.
        let also = |secret: &str| match signed(secret).split_once(',') {
            Some((_, v1)) => format!(",{v1}"),
            None => String::new(),
        };
        let mut signature = if self.wrong_signature {
            signed("nobody's secret") + &also(secret)
        } else {
            signed(secret)
        };
        if let Some(old) = &self.old_secret {
            signature += &also(old);
        }
        signature
    }

    /// The old secret stays out of it.
    pub(crate) fn view(&self) -> Value {
        let shuffle = self.shuffle.as_ref();
        json!({
            "duplicates": self.duplicates,
            "shuffle": shuffle.map(|it| json!({"seed": it.seed, "hold": it.hold})),
            "delay_ms": self.delay.as_millis(),
            "wrong_signature": self.wrong_signature,
            "old_secret": self.old_secret.is_some(),
        })
    }
}

/// Deliveries that are held back.
#[derive(Default)]
pub struct Held {
    pub deliveries: Vec<Delivery>,
    pub chance: SplitMix64,
}

impl Held {
    /// All that is held, in another order when there is one.
    pub fn take(&mut self) -> Vec<Delivery> {
        let mut taken = std::mem::take(&mut self.deliveries);
        let before: Vec<_> = taken.iter().map(|delivery| delivery.id.clone()).collect();
        self.chance.shuffle(&mut taken);
        if taken.iter().map(|delivery| &delivery.id).eq(&before) && !taken.is_empty() {
            let next = taken.iter().position(|delivery| delivery.id != before[0]);
            taken.rotate_left(next.unwrap_or_default());
        }
        taken
    }
}
