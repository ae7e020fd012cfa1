//! Storms: many deliveries, most of them repeated, in a random sequence that depends only on a
//! seed.
//!
//! The seed decides every webhook id, how often each delivery comes, and the sequence. So a run
//! that found a defect can be repeated exactly.

use std::ops::RangeInclusive;

use domain::time::Timestamp;
use uuid::{Builder, Uuid};

use crate::sample;
use crate::webhooks::Delivery;

/// A storm of sample orders. Each order comes in every topic, each delivery is repeated under the
/// same webhook id, and all are shuffled.
#[derive(Clone, Debug)]
pub struct Storm {
    pub orders: u64,
    /// The seed of the first order. The others have the seeds after it.
    pub first_seed: u64,
    /// The storefront topics. A topic without a sample is left out.
    pub topics: Vec<String>,
    /// The least and the greatest number of times that each delivery is sent.
    pub repeat: RangeInclusive<u32>,
    /// The seed of the random numbers.
    pub seed: u64,
    pub shop: String,
}

impl Default for Storm {
    fn default() -> Self {
        Storm {
            orders: 100,
            first_seed: 1,
            topics: sample::LIFE.map(|topic| topic.into_str().to_owned()).into(),
            repeat: 1..=3,
            seed: 1,
            shop: sample::shop().to_owned(),
        }
    }
}

impl Storm {
    /// The deliveries of the storm. The orders in them were made just before `now`.
    pub fn deliveries(&self, now: Timestamp) -> Vec<Delivery> {
        let seeds = (0..self.orders).map(|nth| self.first_seed.wrapping_add(nth));
        let bodies = seeds.flat_map(|seed| {
            let topics = self.topics.iter();
            topics.filter_map(move |topic| {
                let body = sample::storefront(topic, seed, now.0)?;
                Some((topic.clone(), sample::marked(body)))
            })
        });
        shuffled(bodies, self.repeat.clone(), self.seed, &self.shop)
    }
}

/// A storm of given topics and bodies.
pub fn shuffled(
    bodies: impl IntoIterator<Item = (String, String)>,
    repeat: RangeInclusive<u32>,
    seed: u64,
    shop: &str,
) -> Vec<Delivery> {
    let mut chance = SplitMix64(seed);
    let mut deliveries = Vec::new();
    for (topic, body) in bodies {
        let id = chance.id().to_string();
        let delivery = Delivery::storefront(&topic, &id, shop, body);
        let times = chance.within(&repeat);
        deliveries.extend((0..times).map(|_| delivery.clone()));
    }
    chance.shuffle(&mut deliveries);
    deliveries
}

/// Shuffles items in a sequence that a seed decides.
pub fn shuffle<T>(items: &mut [T], seed: u64) {
    SplitMix64(seed).shuffle(items);
}

/// Sebastiano Vigna's generator SplitMix64. It is small, and good enough for shuffling.
#[derive(Default)]
pub(crate) struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn within(&mut self, range: &RangeInclusive<u32>) -> u64 {
        let (least, most) = (u64::from(*range.start()), u64::from(*range.end()));
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Shuffles with the algorithm of Fisher and Yates, from the end.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.index(end + 1));
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut noise = self.0;
        noise = (noise ^ (noise >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        noise = (noise ^ (noise >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        noise ^ (noise >> 31)
    }

    /// A random number below a limit. The limit is small compared with 2^64, so the bias is small
    /// too.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a length");
        usize::try_from(self.below(limit)).expect("below a length")
    }

    fn id(&mut self) -> Uuid {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}
