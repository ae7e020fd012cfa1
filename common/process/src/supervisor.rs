//! Notifies a supervisor such as systemd of the state of the process (sd_notify(3)): that it has begun
//! its work, that its tasks still run, and that it stops. Without a supervisor that asks for it, nothing
//! is sent.
//!
//! Whether the tasks run is what `/livez` answers, and not `/readyz`: a restart brings back a task
//! that has ended, and it does not bring back a database.

use std::future::pending;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use config::Supervisor;
use platform::task;
use tokio_util::sync::CancellationToken;

/// How many notifications are sent within the time after which the supervisor takes action.
const SHARE: u32 = 3;

/// Says that the process has begun its work, and from then on that it is alive as long as
/// `is_alive` says so, until `shutdown`.
pub fn notify(
    supervisor: Option<&Supervisor>,
    is_alive: impl Fn() -> bool + Send + 'static,
    shutdown: &CancellationToken,
) {
    let Some(supervisor) = supervisor else {
        return;
    };
    let socket = match Socket::connect(Path::new(&supervisor.socket)) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, "NOTIFY_SOCKET: the supervisor cannot be notified");
            return;
        }
    };
    socket.send("READY=1");
    let pause = supervisor.watchdog.map(|time| time / SHARE);
    let shutdown = shutdown.clone();
    task::spawn("supervisor", async move {
        while !shutdown.is_cancelled() {
            if pause.is_some() && is_alive() {
                socket.send("WATCHDOG=1");
            }
            let next = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = next => {}
                () = shutdown.cancelled() => {}
            }
        }
        socket.send("STOPPING=1");
    });
}

struct Socket(UnixDatagram);

impl Socket {
    fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A supervisor that does not read must not hold up a task. The crate sd-notify would wait for it for ever.
        socket.set_nonblocking(true)?;
        socket.connect(path)?;
        Ok(Socket(socket))
    }

    fn send(&self, state: &str) {
        if let Err(error) = self.0.send(state.as_bytes()) {
            tracing::warn!(%error, state, "the supervisor was not notified");
        }
    }
}
