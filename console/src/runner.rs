//! Does the batches of operations that operators confirmed, in each process that serves the console. A lease
//! makes it one process at a time.

use std::sync::Arc;
use std::time::Duration;

use operators::operations::{Runner, Step};
use platform::task;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Console;

/// How often it looks whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);
/// How long it waits after an error.
const AFTER_ERROR: Duration = Duration::from_secs(5);

/// Runs until `shutdown`. A batch that has begun then is done.
pub fn start(console: &Arc<Console>, shutdown: &CancellationToken) -> JoinHandle<()> {
    let (console, shutdown) = (console.clone(), shutdown.clone());
    task::spawn("operations of the console", async move {
        let parts = &console.parts;
        let runner = Runner {
            db: &parts.db,
            bus: &parts.bus,
            clock: &parts.clock,
            keys: &parts.keys,
            holder: parts.clock.id(),
        };
        let mut has_worked = false;
        while !shutdown.is_cancelled() {
            let pause = match runner.step().await {
                Ok(Step::Idle) => LOOK,
                Ok(Step::Worked(pause)) => {
                    has_worked = true;
                    pause
                }
                Err(error) => {
                    tracing::warn!(%error, "a batch of an operation was not done; it is tried again");
                    AFTER_ERROR
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        if has_worked && let Err(error) = runner.release().await {
            tracing::debug!(%error, "the lease of operations ends by itself");
        }
    })
}
