//! `waybill ingress`: the process that accepts webhooks and answers the commerce API.

use anyhow::{Context, Result};
use config::{Config, Mode, Settings};
use platform::shutdown;
use process::{DatabaseConnections, Parts, supervisor};
use tokio_util::task::TaskTracker;

/// Enough for the batches of the intake, the API and the pages.
const CONNECTIONS: DatabaseConnections = DatabaseConnections {
    usual: 10,
    least: ingress::intake::CONNECTIONS + 3,
    apart: ingress::intake::CONNECTIONS,
};

pub async fn run(settings: &Settings) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let has_console = Config::console(settings)?.address().is_some();
    let connections = if has_console {
        CONNECTIONS.and(console::READERS)
    } else {
        CONNECTIONS
    };
    let parts = Parts::start(settings, Mode::Production, connections).await?;
    parts.warn_without_broker();
    let address = parts.config.listen_addr;
    let listener = server::listen(address)
        .with_context(|| format!("LISTEN_ADDR: cannot listen on {address}"))?;
    let console = match parts.config.console.address() {
        Some(address) => Some(console::listen(&parts, address).await?),
        None => None,
    };
    ingress::announce(&parts.config);
    let serving = TaskTracker::new();
    if let Some(console) = console {
        console.start(&serving, &shutdown);
    }
    serving.close();
    // It is alive as long as its tasks get a turn.
    supervisor::notify(settings.supervisor(), || true, &shutdown);
    ingress::serve(listener, parts.clone(), shutdown).await?;
    serving.wait().await;
    parts.close().await;
    Ok(())
}
