//! What a supervisor hears.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::Supervisor;
use process::supervisor::notify;
use tokio_util::sync::CancellationToken;

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
