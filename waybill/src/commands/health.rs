//! `waybill health` asks the service that listens on `LISTEN_ADDR` of this machine, or the worker
//! on `WORKER_LISTEN_ADDR`, whether it is ready.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{Config, Settings, on_this_machine};

use crate::table;

pub async fn run(settings: &Settings, worker: bool) -> Result<()> {
    let address: SocketAddr = if worker {
        Config::worker_listen_addr(settings)?
            .context("WORKER_LISTEN_ADDR is not set, so no worker listens")?
    } else {
        Config::listen_addr(settings)?
    };
    let url = format!("http://{}/readyz", on_this_machine(address));
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(3))
        .build()?;
    let answer = client
        .get(&url)
        .send()
        .await
        .with_context(|| format!("nothing answers on {url}"))?;
    let status = answer.status();
    let body = answer.text().await?;
    table::print(&format!("{body}\n"))?;
    if !status.is_success() {
        bail!("the service is not ready ({status})");
    }
    Ok(())
}
