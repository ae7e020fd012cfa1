//! An endpoint of a merchant's own system, which takes webhooks or refuses them as a test wants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use store::events;
use store::sql::Db;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

/// What an endpoint does with a request instead of answering with a status.
pub const SLOW: u16 = 1;
pub const GARBAGE: u16 = 2;
/// It refuses every request about the first of the orders that `write` makes, and no other.
pub const FIRST_ORDER_REFUSED: u16 = 3;
pub const FIRST_ORDER: &str = "1000";
/// It refuses every request about every second order, and no other.
pub const EVERY_SECOND_REFUSED: u16 = 4;

/// It refuses the first event of each order when that comes for the first time, and nothing else.
pub const FIRST_EVENT_REFUSED_ONCE: u16 = 5;

/// It answers 429 and asks for a pause of so many seconds.
pub const BUSY: u16 = 6;
pub const BUSY_SECONDS: u64 = 4;

/// The ids of all events that are kept, in their sequence.
pub async fn event_ids(db: &Db) -> store::sql::Result<Vec<Uuid>> {
    let count = db.query("select count(*) as n from events").fetch_one();
    let count: i64 = count.await?.get("n")?;
    let all = events::after(db, 0, i64::MAX, i64::MAX).await?;
    assert!(
        i64::try_from(all.len()).unwrap() >= count,
        "{} of {count} are read",
        all.len()
    );
    Ok(all.into_iter().map(|event| event.id).collect())
}

/// A webhook as it came.
#[derive(Clone)]
pub struct Received {
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn event(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn id(&self) -> Uuid {
        self.headers["webhook-id"].parse().unwrap()
    }
}

/// An endpoint that answers as it is told.
#[derive(Clone)]
pub struct StandIn {
    pub url: String,
    status: Arc<AtomicU16>,
    /// What it has accepted.
    accepted: Arc<Mutex<Vec<Received>>>,
    /// How many requests it got.
    requests: Arc<Mutex<usize>>,
    /// What it has refused.
    pub refused: Arc<Mutex<BTreeSet<Uuid>>>,
}

impl StandIn {
    pub async fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stand_in = StandIn {
            url: format!("http://{}/hook", listener.local_addr().unwrap()),
            status: Arc::new(AtomicU16::new(status)),
            accepted: Arc::default(),
            requests: Arc::default(),
            refused: Arc::default(),
        };
        let serving = stand_in.clone();
        platform::task::spawn("endpoint", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                platform::task::spawn("connection", async move { serving.serve(stream).await });
            }
        });
        stand_in
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut read = Vec::new();
        loop {
            let Some(end) = read.windows(4).position(|it| it == b"\r\n\r\n") else {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
                continue;
            };
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let headers: HashMap<String, String> = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers["content-length"].parse().unwrap();
            while read.len() < end + 4 + length {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let body = String::from_utf8(read[end + 4..end + 4 + length].to_vec()).unwrap();
            read.drain(..end + 4 + length);
            let received = Received { headers, body };
            if !self.answer(received, &mut stream).await {
                return;
            }
        }
    }

    /// False when the connection is to be closed.
    async fn answer(&self, received: Received, stream: &mut TcpStream) -> bool {
        *self.requests.lock().unwrap() += 1;
        let status = match self.status.load(Ordering::SeqCst) {
            GARBAGE => {
                // Whether it arrives makes no difference.
                let _ = stream.write_all(b"\x16\x03\x01 what?\r\n\r\n").await;
                return false;
            }
            SLOW => {
                tokio::time::sleep(Duration::from_millis(700)).await;
                200
            }
            FIRST_ORDER_REFUSED if received.event()["object_id"] == FIRST_ORDER => 500,
            FIRST_ORDER_REFUSED => 200,
            FIRST_EVENT_REFUSED_ONCE => {
                let is_first = received.event()["type"] == "order.created";
                let mut refused = self.refused.lock().unwrap();
                if is_first && refused.insert(received.id()) {
                    500
                } else {
                    200
                }
            }
            EVERY_SECOND_REFUSED => {
                let event = received.event();
                let order: u64 = event["object_id"].as_str().unwrap().parse().unwrap();
                if order % 2 == 1 { 500 } else { 200 }
            }
            BUSY => 429,
            status => status,
        };
        let wait = match status {
            429 => format!("retry-after: {BUSY_SECONDS}\r\n"),
            _ => String::new(),
        };
        if status < 300 {
            self.accepted.lock().unwrap().push(received);
        }
        let answer = format!(
            "HTTP/1.1 {status} X\r\n{wait}location: {}\r\ncontent-length: 4\r\n\r\nbody",
            self.url
        );
        stream.write_all(answer.as_bytes()).await.is_ok()
    }

    pub fn is(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    pub fn accepted(&self) -> Vec<Received> {
        self.accepted.lock().unwrap().clone()
    }

    pub fn ids(&self) -> Vec<Uuid> {
        self.accepted().iter().map(Received::id).collect()
    }

    pub fn requests(&self) -> usize {
        *self.requests.lock().unwrap()
    }

    pub fn has_all(&self, written: &[Uuid]) -> bool {
        let ids: BTreeSet<Uuid> = self.ids().into_iter().collect();
        written.iter().all(|id| ids.contains(id))
    }

    /// Once repeats are dropped, the events of each object came in their sequence, as far as they are kept.
    pub async fn in_order(&self, db: &Db) {
        let ids = event_ids(db).await.unwrap();
        let places: HashMap<Uuid, usize> = ids.into_iter().zip(0..).collect();
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<(String, String), usize> = BTreeMap::new();
        for received in self.accepted() {
            let Some(place) = places.get(&received.id()) else {
                continue;
            };
            if seen.insert(received.id()) {
                let event = received.event();
                let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                let object = (text("shop"), text("object_id"));
                let before = last.insert(object.clone(), *place);
                assert!(before.is_none_or(|before| before < *place), "{object:?}");
            }
        }
    }
}
