//! The notifications that systemd gets from the real processes (sd_notify(3)).

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::support::backend::{Backend, is_distributed};
use crate::support::process::{Process, free_port, settings};

/// A supervisor always listens: the kernel keeps ten notifications, and drops those that follow.
fn listen(path: &Path) -> UnboundedReceiver<String> {
    let socket = UnixDatagram::bind(path).unwrap();
    let (sender, notifications) = unbounded_channel();
    std::thread::spawn(move || {
        let mut text = [0; 64];
        while let Ok(length) = socket.recv(&mut text) {
            let text = String::from_utf8_lossy(&text[..length]).into_owned();
            let is_last = text == "STOPPING=1";
            if sender.send(text).is_err() || is_last {
                break;
            }
        }
    });
    notifications
}

async fn next(notifications: &mut UnboundedReceiver<String>) -> String {
    let next = tokio::time::timeout(Duration::from_mins(1), notifications.recv());
    next.await.expect("a notification comes").unwrap()
}

async fn is_notified(program: &str, arguments: &[&str], listens: bool) {
    let backend = Backend::create().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let mut notifications = listen(&path);
    let port = free_port();
    let mut settings = settings(&backend, port);
    let more = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "300000"),
    ];
    settings.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut process = Process::start(program, arguments, &settings);
    assert_eq!(next(&mut notifications).await, "READY=1", "{program}");
    if listens {
        let url = format!("http://127.0.0.1:{port}/readyz");
        let answer = reqwest::get(url).await;
        assert_eq!(answer.unwrap().status(), 200, "it is ready when it says so");
    }
    for _ in 0..5 {
        assert_eq!(next(&mut notifications).await, "WATCHDOG=1", "{program}");
    }
    assert!(process.terminate().await.success(), "{program}");
    let mut last = next(&mut notifications).await;
    while last == "WATCHDOG=1" {
        last = next(&mut notifications).await;
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
