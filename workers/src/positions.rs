//! Gives events their positions soon after their commit, so that readers see them
//! (`store::event_head`). Every process does it, by one of its workers: the one that finds events
//! without a position first places them, and several at once wait for each other's row. A process
//! looks when it has committed something itself, and once a second for what others have.

use std::sync::Arc;
use std::time::Duration;

use platform::backoff::Backoff;
use store::event_head;
use tokio_util::sync::CancellationToken;

use crate::Worker;

/// The pause between two looks, and by how much it is longer unless this process commits something.
const PAUSE: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Events of one transaction.
const BATCH: i64 = 500;

pub async fn run(worker: Arc<Worker>, shutdown: CancellationToken) {
    let placing = worker.shared.placing.lock();
    let Some(_placing) = shutdown.run_until_cancelled(placing).await else {
        return;
    };
    let outlet = worker.parts.config.outlet();
    let mut backoff = Backoff::new(PAUSE, LONGEST_PAUSE);
    let mut is_failing = false;
    while !shutdown.is_cancelled() {
        let (pause, rest) = match event_head::place(&worker.parts.db, BATCH, outlet).await {
            Ok(placed) => {
                is_failing = false;
                backoff.reset();
                if !placed.is_empty() {
                    worker.shared.placed.notify_one();
                }
                for event in &placed {
                    let bus = &worker.parts.bus;
                    bus.record_readable(&event.kind, event.traceparent);
                }
                if placed.len() as u64 >= BATCH.cast_unsigned() {
                    (Duration::ZERO, Duration::ZERO)
                } else {
                    (PAUSE, REST)
                }
            }
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "events get no position, so nobody can read them; trying again");
                }
                is_failing = true;
                (backoff.next_pause(), Duration::ZERO)
            }
        };
        let next = async {
            tokio::time::sleep(pause).await;
            let _ = tokio::time::timeout(rest, worker.shared.events.notified()).await;
        };
        tokio::select! {
            biased;
            () = next => {}
            () = shutdown.cancelled() => {}
        }
    }
}
