//! Stopping in order: the first SIGTERM or Ctrl-C lets the work that is under way finish. The
//! second one ends the process at once, and so does a deadline.

use std::process;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::task;

/// The time from the first signal to the end of the process.
const DEADLINE: Duration = Duration::from_secs(10);

/// A token that is cancelled by the first signal.
pub fn on_signal() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    task::spawn("signals", async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping: finishing what is under way");
        token.cancel();
        tokio::select! {
            () = either(&mut terminate, &mut interrupt) => {
                tracing::warn!("stopping at once");
                process::exit(1);
            }
            () = tokio::time::sleep(DEADLINE) => {
                tracing::error!("work did not finish in time; what is left will be done after a start");
                process::exit(1);
            }
        }
    });
    Ok(shutdown)
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
