//! What stands between a client and a service with a manual clock, so that time passes five times as fast for both: the
//! client gets a fifth of the interval, and the clock is moved five times as far as real time goes.

use std::sync::{Arc, Mutex};

use memchr::memmem;
use platform::clock::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

const FASTER: u32 = 5;
const INTERVAL: &[u8] = b"\"interval\":5";
const SHORTER: &[u8] = b"\"interval\":1";

/// It listens before the service runs, which must know this address as its own.
pub struct Front {
    pub url: String,
    listener: TcpListener,
}

/// A front that leads to a service.
#[derive(Clone)]
pub struct Passing {
    service: String,
    clock: Clock,
    /// When the clock was moved last.
    moved_at: Arc<Mutex<Instant>>,
    polls: Arc<Mutex<Vec<String>>>,
}

impl Front {
    pub async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Front { url, listener }
    }

    pub fn lead_to(self, service: &str, clock: &Clock) -> Passing {
        let passing = Passing {
            service: service.trim_start_matches("http://").to_owned(),
            clock: clock.clone(),
            moved_at: Arc::new(Mutex::new(Instant::now())),
            polls: Arc::default(),
        };
        let serving = passing.clone();
        platform::task::spawn("front", async move {
            while let Ok((stream, _)) = self.listener.accept().await {
                let serving = serving.clone();
                platform::task::spawn("connection", async move { serving.serve(stream).await });
            }
        });
        passing
    }
}

impl Passing {
    /// The statuses of the answers to polls.
    pub fn polls(&self) -> Vec<String> {
        self.polls.lock().unwrap().clone()
    }

    /// One request of a connection, which is then closed.
    async fn serve(&self, mut client: TcpStream) {
        let Some((head, body)) = request(&mut client).await else {
            return;
        };
        self.move_clock();
        let mut service = TcpStream::connect(&self.service).await.unwrap();
        service.write_all(head.as_bytes()).await.unwrap();
        service.write_all(&body).await.unwrap();
        let mut answer = Vec::new();
        service.read_to_end(&mut answer).await.unwrap();
        if let Some(at) = memmem::find(&answer, INTERVAL) {
            answer[at..at + SHORTER.len()].copy_from_slice(SHORTER);
        }
        if head.starts_with("POST /auth/device/token ") {
            // HTTP/1.1 200 OK
            let status = String::from_utf8_lossy(&answer[9..12]);
            self.polls.lock().unwrap().push(status.into_owned());
        }
        // Whether or not the client is still there.
        let _ = client.write_all(&answer).await;
        let _ = client.shutdown().await;
    }

    fn move_clock(&self) {
        let mut moved_at = self.moved_at.lock().unwrap();
        self.clock.advance(moved_at.elapsed() * FASTER);
        *moved_at = Instant::now();
    }
}

/// The head of a request, which lets the service close the connection after its answer, and the body.
async fn request(client: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let end = loop {
        match memmem::find(&read, b"\r\n\r\n") {
            Some(end) => break end,
            None if client.read_buf(&mut read).await.ok()? == 0 => return None,
            None => {}
        }
    };
    let mut body = read.split_off(end + 4);
    let (mut head, mut length) = (String::new(), 0);
    for line in String::from_utf8(read).unwrap().trim_end().lines() {
        match line.split_once(": ") {
            Some((name, _)) if name.eq_ignore_ascii_case("connection") => continue,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            _ => {}
        }
        head += line;
        head += "\r\n";
    }
    while body.len() < length {
        if client.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some((head + "connection: close\r\n\r\n", body))
}
