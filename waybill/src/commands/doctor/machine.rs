//! Checks which ports this machine can reach.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT: Duration = Duration::from_secs(2);

/// Checks that something listens on this port. The error says what is wrong.
pub async fn connects(host: &str, port: u16) -> Result<(), String> {
    let host = host.trim_matches(['[', ']']);
    match timeout(CONNECT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(format!("nothing listens on {host}:{port}"))
        }
        Ok(Err(error)) => Err(format!("cannot reach {host}:{port}: {error}")),
        Err(_) => Err(format!("{host}:{port} does not answer")),
    }
}
