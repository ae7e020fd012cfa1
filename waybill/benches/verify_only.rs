//! Serves ingress with an intake that stores nothing: the yardstick of `scripts/bench`.
//! Settings come from flags and environment, as for `waybill-ingress`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use config::{Mode, Settings};
use platform::shutdown;
use process::{DatabaseConnections, Parts};
use tokio::net::TcpListener;

#[derive(Parser)]
struct Arguments {
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    #[command(flatten)]
    settings: Settings,
}

fn main() -> ExitCode {
    process::run(serve(Arguments::parse()))
}

async fn serve(arguments: Arguments) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let connections = DatabaseConnections {
        usual: 4,
        least: 4,
        apart: 0,
    };
    let parts = Parts::start(&arguments.settings, Mode::Development, connections).await?;
    let listener = TcpListener::bind(parts.config.listen_addr).await?;
    ingress::serve_verify_only(listener, parts, shutdown).await
}
