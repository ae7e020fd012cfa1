//! `waybill worker`: the process that works on one queue.

use anyhow::Result;
use config::{Mode, Settings};
use domain::job::Queue;
use platform::{shutdown, task};
use process::{DatabaseConnections, Parts, supervisor};
use workers::{Port, Worker};

use lists::words;

#[derive(clap::Args)]
pub struct Arguments {
    /// The queue on which it works
    #[arg(value_name = "QUEUE", value_parser = words::queue())]
    queue: Queue,
    /// How many messages (of up to 64 jobs) this process handles at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let tasks = u32::from(arguments.concurrency);
    let connections = DatabaseConnections {
        usual: tasks + 3,
        least: tasks + 2,
        apart: 0,
    };
    let parts = Parts::start(settings, Mode::Worker(arguments.queue), connections).await?;
    parts.warn_without_broker();
    let worker = Worker::new(parts.clone(), arguments.queue, arguments.concurrency);
    let port = match parts.config.worker_listen_addr {
        Some(address) => Some(Port::open(&worker, address, shutdown.clone()).await?),
        None => None,
    };
    supervisor::notify(settings.supervisor(), worker.liveness(), &shutdown);
    let attention = workers::attention::run(parts.clone(), shutdown.clone());
    let attention = task::spawn("attention", attention);
    let reconcile = workers::reconcile::run(parts.clone(), shutdown.clone());
    let reconcile = task::spawn("reconcile", reconcile);
    workers::run(worker, shutdown).await?;
    let _ = attention.await;
    let _ = reconcile.await;
    if let Some(port) = port {
        port.close().await;
    }
    parts.close().await;
    Ok(())
}
