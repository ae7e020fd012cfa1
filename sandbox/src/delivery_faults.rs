//! The delivery faults of the payment provider. By default there are none. They imitate what the
//! real provider does now and then: it repeats events, sends them in another sequence or late, or
//! adds further signatures.

use std::time::Duration;

use domain::signature::sign_payment;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::storm::SplitMix64;
use crate::webhooks::Delivery;

#[derive(Clone, PartialEq, Eq)]
pub struct DeliveryFaults {
    /// How often each event is posted, each time with the same id.
    pub duplicates: u32,
    pub shuffle: Option<Shuffle>,
    /// How long after the change the event is posted.
    pub delay: Duration,
    /// The signature header has a wrong `v1` before the right one.
    pub wrong_signature: bool,
    /// The signature header has a `v1` made with this secret after the right one, as it is while a
    /// secret is rotated.
    pub old_secret: Option<String>,
}

/// Events are held back until this many wait, and are then posted one after the other in another
/// sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// The seed of the random sequence.
    pub seed: u64,
    /// How many events are held back before they are posted. Repeats count too.
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
        // The signed text begins with the time, and the header has the time only once.
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

    /// This Debug does not show the old secret.
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

/// The deliveries that are held back.
#[derive(Default)]
pub struct Held {
    pub deliveries: Vec<Delivery>,
    pub chance: SplitMix64,
}

impl Held {
    /// Takes all deliveries that are held back, in another sequence if there is one.
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
