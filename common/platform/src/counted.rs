//! Log lines about things that strangers can cause as often as they like. The first of a kind is
//! logged at once, and after that one line for each interval says how many more came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::task;

const INTERVAL: Duration = Duration::from_secs(10);

/// How many of each kind have come since the last line about it. Clones share the counts.
#[derive(Debug)]
pub struct Counted<K>(Arc<Mutex<BTreeMap<K, u64>>>);

impl<K> Default for Counted<K> {
    fn default() -> Self {
        Counted(Arc::default())
    }
}

impl<K: Copy + Ord + Send + 'static> Counted<K> {
    /// Counts one. True when none of its kind came during the last interval, and then the caller
    /// logs it.
    pub fn is_first(&self, kind: K) -> bool {
        let mut counts = lock(&self.0);
        match counts.get_mut(&kind) {
            Some(count) => {
                *count += 1;
                false
            }
            None => counts.insert(kind, 0).is_none(),
        }
    }

    /// Starts logging those that were only counted, at each interval and once more at the end.
    pub fn report(&self, shutdown: &CancellationToken, line: impl Fn(K, u64) + Send + 'static) {
        let counts = Arc::downgrade(&self.0);
        let shutdown = shutdown.clone();
        task::spawn("counted lines", async move {
            loop {
                let ends = tokio::select! {
                    () = tokio::time::sleep(INTERVAL) => false,
                    () = shutdown.cancelled() => true,
                };
                let Some(counts) = counts.upgrade() else {
                    return;
                };
                for (kind, count) in due(&mut lock(&counts)) {
                    line(kind, count);
                }
                if ends {
                    return;
                }
            }
        });
    }
}

/// Takes what came since the last time. A kind of which nothing came is forgotten, so its next
/// one counts as a first.
fn due<K: Copy + Ord>(counts: &mut BTreeMap<K, u64>) -> Vec<(K, u64)> {
    counts.retain(|_, count| *count > 0);
    let counted = counts.iter_mut();
    counted
        .map(|(kind, count)| (*kind, std::mem::take(count)))
        .collect()
}
