//! The notifications that systemd gets from the real processes (sd_notify(3)).

use std::time::Duration;

use tokio::net::UnixDatagram;

use crate::support::backend::{Backend, is_distributed};
use crate::support::process::{Process, free_port, settings};

async fn next(socket: &UnixDatagram) -> String {
    let mut text = [0; 64];
    let received = tokio::time::timeout(Duration::from_mins(1), socket.recv(&mut text));
    let length = received.await.expect("a notification comes").unwrap();
    String::from_utf8_lossy(&text[..length]).into_owned()
}

async fn is_notified(program: &str, arguments: &[&str], listens: bool) {
    let backend = Backend::create().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let port = free_port();
    let mut settings = settings(&backend, port);
    let more = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "300000"),
    ];
    settings.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut process = Process::start(program, arguments, &settings);
    assert_eq!(next(&socket).await, "READY=1", "{program}");
    if listens {
        let url = format!("http://127.0.0.1:{port}/readyz");
        let answer = reqwest::get(url).await;
        assert_eq!(answer.unwrap().status(), 200, "it is ready when it says so");
    }
    for _ in 0..5 {
        assert_eq!(next(&socket).await, "WATCHDOG=1", "{program}");
    }
    assert!(process.terminate().await.success(), "{program}");
    let mut last = next(&socket).await;
    while last == "WATCHDOG=1" {
        last = next(&socket).await;
    }
    assert_eq!(last, "STOPPING=1", "{program}");
}

#[tokio::test]
async fn a_supervisor_is_notified_that_a_process_works_that_it_lives_and_that_it_stops() {
    if is_distributed() {
        is_notified("waybill-ingress", &[], true).await;
        is_notified("waybill-orders", &[], false).await;
    } else {
        is_notified("waybill", &["serve"], true).await;
    }
}

/// A variable that was inherited from a supervisor of another process does no harm.
#[tokio::test]
async fn a_supervisor_that_does_not_listen_is_passed_over() {
    let backend = Backend::create().await;
    let port = free_port();
    let mut settings = settings(&backend, port);
    settings.push(("NOTIFY_SOCKET".into(), "/nowhere/notify".into()));
    let (program, arguments) = if is_distributed() {
        ("waybill-ingress", [].as_slice())
    } else {
        ("waybill", ["serve"].as_slice())
    };
    let mut process = Process::start(program, arguments, &settings);
    crate::support::process::is_ready(port).await;
    assert!(process.terminate().await.success());
}
