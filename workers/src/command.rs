//! The command line of the worker binaries, which differ only in their queue.

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser};
use config::{Mode, Settings};
use domain::job::Queue;
use platform::shutdown;
use process::{Connections, Parts, supervisor};

use crate::{Endpoint, Worker};

#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many messages (of up to 32 jobs) this process handles at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    #[command(flatten)]
    settings: Settings,
}

/// Runs a worker binary for a queue until it is asked to stop.
pub fn main(queue: Queue) -> ExitCode {
    let command = Arguments::command()
        .name(format!("waybill-{queue}"))
        .about(format!("Works on Waybill's {queue} queue"))
        .after_help(
            "Start as many as you like, on as many machines: a job is done once. SIGTERM lets the jobs \
             under way finish.",
        );
    let matches = Settings::explained(command).get_matches();
    match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => process::run(work(queue, arguments)),
        Err(error) => error.exit(),
    }
}

async fn work(queue: Queue, arguments: Arguments) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let tasks = u32::from(arguments.concurrency);
    let connections = Connections {
        usual: tasks + 3,
        least: tasks + 2,
        apart: 0,
    };
    let parts = Parts::start(&arguments.settings, Mode::Production, connections).await?;
    parts.warn_without_broker();
    let worker = Worker::new(parts.clone(), queue, arguments.concurrency);
    let endpoint = match parts.config.worker_listen_addr {
        Some(address) => Some(Endpoint::open(&worker, address, shutdown.clone()).await?),
        None => None,
    };
    let listening = arguments.settings.supervisor();
    supervisor::notify(listening, worker.liveness(), &shutdown);
    crate::run(worker, shutdown).await?;
    if let Some(endpoint) = endpoint {
        endpoint.close().await;
    }
    parts.close().await;
    Ok(())
}
