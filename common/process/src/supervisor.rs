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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    const WATCHDOG: Duration = Duration::from_mins(1);

    /// The notifications that have come since the last look.
    fn received(socket: &UnixDatagram) -> Vec<String> {
        let mut received = Vec::new();
        let mut text = [0; 64];
        while let Ok(length) = socket.recv(&mut text) {
            received.push(String::from_utf8_lossy(&text[..length]).into_owned());
        }
        received
    }

    /// Lets time pass, and tasks run in it.
    async fn pass(time: Duration) {
        tokio::time::sleep(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervisor_hears_nothing_of_a_process_that_is_no_longer_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let supervisor = Supervisor {
            socket: path.into_os_string(),
            watchdog: Some(WATCHDOG),
        };
        let alive = Arc::new(AtomicBool::new(true));
        let shutdown = CancellationToken::new();
        let is_alive = alive.clone();
        notify(
            Some(&supervisor),
            move || is_alive.load(Ordering::Relaxed),
            &shutdown,
        );
        assert_eq!(received(&socket), ["READY=1"]);
        pass(WATCHDOG * 2 + Duration::from_secs(1)).await;
        let often = received(&socket);
        assert_eq!(often.len(), 7, "three times a minute, and at the start");
        assert!(often.iter().all(|it| it == "WATCHDOG=1"), "{often:?}");
        alive.store(false, Ordering::Relaxed);
        pass(WATCHDOG * 10).await;
        assert!(received(&socket).is_empty());
        shutdown.cancel();
        pass(Duration::from_secs(1)).await;
        assert_eq!(received(&socket), ["STOPPING=1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervisor_that_does_not_care_hears_only_of_the_start_and_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let supervisor = Supervisor {
            socket: path.into_os_string(),
            watchdog: None,
        };
        let shutdown = CancellationToken::new();
        notify(Some(&supervisor), || true, &shutdown);
        pass(WATCHDOG).await;
        shutdown.cancel();
        pass(Duration::from_secs(1)).await;
        assert_eq!(received(&socket), ["READY=1", "STOPPING=1"]);
    }
}
