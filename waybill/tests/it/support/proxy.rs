//! A TCP proxy that fails in the ways in which networks and servers fail.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::backend::Backend;

const PASS: u8 = 0;
const REFUSE: u8 = 1;
const SWALLOW: u8 = 2;
const CUT_COMMITS: u8 = 3;

/// Stands between the service and a server named by a URL.
pub struct Proxy {
    pub url: String,
    /// Where new connections lead.
    server: Arc<Mutex<String>>,
    mode: Arc<AtomicU8>,
    cut: watch::Sender<u64>,
    /// What was said on each connection that was broken at a commit.
    lost: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// A proxy to the host of `url`; its own `url` differs in host and port only.
    pub async fn to(url: &str) -> Self {
        let (before, host, after) = parts(url);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Proxy {
            url: format!("{before}{address}{after}"),
            server: Arc::new(Mutex::new(host.to_owned())),
            mode: Arc::new(AtomicU8::new(PASS)),
            cut: watch::Sender::new(0),
            lost: Arc::default(),
        };
        let (mode, cut) = (proxy.mode.clone(), proxy.cut.clone());
        let lost = proxy.lost.clone();
        let server = proxy.server.clone();
        platform::task::spawn("proxy", async move {
            while let Ok((client, _)) = listener.accept().await {
                let host = server.lock().unwrap().clone();
                let pass = pass(client, host, mode.clone(), cut.subscribe(), lost.clone());
                platform::task::spawn("proxied connection", pass);
            }
        });
        proxy
    }

    /// Breaks every connection and refuses new ones: a server that was killed.
    pub fn kill(&self) {
        self.mode.store(REFUSE, Ordering::SeqCst);
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Breaks every connection; new ones are taken and never answered: a black hole.
    pub fn swallow(&self) {
        self.mode.store(SWALLOW, Ordering::SeqCst);
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Breaks every connection once; new ones pass.
    pub fn interrupt(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Lets the server commit, and breaks the connection before it can say so.
    pub fn cut_commits(&self) {
        self.mode.store(CUT_COMMITS, Ordering::SeqCst);
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// How many of these commits were of what has this in its text, in small letters.
    pub fn lost_commits(&self, of: &str) -> usize {
        let lost = self.lost.lock().unwrap();
        lost.iter().filter(|said| said.contains(of)).count()
    }

    pub fn restore(&self) {
        self.mode.store(PASS, Ordering::SeqCst);
    }

    /// New connections lead to the host of `url`. Those that there are stay as they are.
    pub fn lead_to(&self, url: &str) {
        let (_, host, _) = parts(url);
        host.clone_into(&mut self.server.lock().unwrap());
    }
}

/// What a URL has before its host and port, these two, and what follows.
fn parts(url: &str) -> (&str, &str, &str) {
    let start = url.find("://").expect("a URL has a scheme") + 3;
    let end = url[start..]
        .find(['/', '?'])
        .map_or(url.len(), |end| start + end);
    let start = url[..end].rfind('@').map_or(start, |at| at + 1);
    (&url[..start], &url[start..end], &url[end..])
}

/// A backend whose broker stands behind a proxy.
pub async fn to_broker() -> (Arc<Backend>, Proxy) {
    let backend = Arc::new(Backend::create().await);
    let proxy = Proxy::to(backend.amqp_url.as_ref().expect("there is a broker")).await;
    (backend, proxy)
}

/// A backend whose database server stands behind a proxy.
pub async fn to_database() -> (Arc<Backend>, Proxy) {
    let backend = Arc::new(Backend::create().await);
    let proxy = Proxy::to(&backend.database_url).await;
    (backend, proxy)
}

async fn pass(
    mut client: TcpStream,
    host: String,
    mode: Arc<AtomicU8>,
    mut cut: watch::Receiver<u64>,
    lost: Arc<Mutex<Vec<String>>>,
) {
    cut.mark_unchanged();
    match mode.load(Ordering::SeqCst) {
        REFUSE => {}
        SWALLOW => {
            let mut void = [0; 1024];
            tokio::select! {
                () = async { while client.read(&mut void).await.is_ok_and(|read| read > 0) {} } => {}
                _ = cut.changed() => {}
            }
        }
        mode => {
            let Ok(mut server) = TcpStream::connect(host).await else {
                let _ = client.shutdown().await;
                return;
            };
            let through = async {
                if mode == CUT_COMMITS {
                    if let Ok(Some(said)) = pass_until_commit(&mut client, &mut server).await {
                        lost.lock().unwrap().push(said);
                    }
                } else {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            };
            tokio::select! {
                () = through => {}
                _ = cut.changed() => {}
            }
        }
    }
}

/// Ends when the server has committed something that was written, and before it can say so. It commits with the command, and
/// after a statement outside of a transaction. Returns what the client has said, or nothing when one of them has ended
/// before.
async fn pass_until_commit(
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> io::Result<Option<String>> {
    const WRITES: [&[u8]; 4] = [b"insert into", b"update ", b"delete from", b"commit\0"];
    // A command is complete, and the server is ready for the next one, outside of a transaction.
    const COMPLETE: &[u8] = b"C\0\0\0";
    const READY: &[u8] = b"Z\0\0\0\x05I";
    let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|it| it == part);
    let (mut up, mut down) = ([0; 4096], [0; 4096]);
    let (mut asked, mut answer) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let said = &up[..read?];
                if said.is_empty() {
                    return Ok(None);
                }
                asked.extend(said.to_ascii_lowercase());
                answer.clear();
                server.write_all(said).await?;
            }
            read = server.read(&mut down) => {
                let said = &down[..read?];
                answer.extend_from_slice(said);
                if said.is_empty() {
                    return Ok(None);
                }
                let is_complete = has(&answer, COMPLETE) && answer.ends_with(READY);
                if is_complete && WRITES.iter().any(|it| has(&asked, it)) {
                    return Ok(Some(String::from_utf8_lossy(&asked).into_owned()));
                }
                client.write_all(said).await?;
            }
        }
    }
}
