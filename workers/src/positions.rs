//! Gives events their positions soon after their commit, so that readers see them
//! (`store::event_head`). Every worker does it: the one that finds events without a position first
//! places them, and several at once wait for each other's row.

use std::sync::Arc;
use std::time::Duration;

use platform::backoff::Backoff;
use store::event_head;
use tokio_util::sync::CancellationToken;

use crate::Worker;

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Events of one transaction.
const BATCH: i64 = 500;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let mut backoff = Backoff::new(PAUSE, LONGEST_PAUSE);
    let mut is_failing = false;
    while !shutdown.is_cancelled() {
        let pause = match event_head::place(&worker.parts.db, BATCH).await {
            Ok(placed) => {
                is_failing = false;
                backoff.reset();
                if placed >= BATCH.cast_unsigned() {
                    Duration::ZERO
                } else {
                    // Spread, so that the workers of a process look one after the other.
                    PAUSE.mul_f64(0.5 + worker.parts.clock.jitter())
                }
            }
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "events get no position, so nobody can read them; trying again");
                }
                is_failing = true;
                backoff.next_pause()
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => {}
        }
    }
}
