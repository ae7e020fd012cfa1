//! Reading events for the holders of API keys: pages of them in their sequence, and word of new
//! ones for whoever waits.
//!
//! One task of the process looks whether there are new events, and only while somebody waits.
//! Those who wait are counted, of each key and in all, because each holds a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::api_key::Shops;
use domain::envelope::Envelope;
use domain::event::Pattern;
use platform::lock::lock;
use platform::task;
use store::event_head;
use store::events::{self, Placed};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::App;
use crate::database::step;
use crate::error::Error;

/// The pause between two looks for new events.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The most readers of one key, and of a process, that wait at a time.
pub(crate) const MOST_OF_KEY: usize = 16;
pub(crate) const MOST: usize = 512;
/// Events looked at with one statement, and statements of one page: a page costs no more when
/// nearly nothing fits its filter.
const CHUNK: i64 = 1000;
const CHUNKS: usize = 10;
/// Events whose bodies are read with one statement.
const BODIES: usize = 50;
/// A page ends early when its events have so many bytes together.
const PAGE_BYTES: usize = 1024 * 1024;

/// Which events are read.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Any of these.
    pub kinds: Vec<Pattern>,
    pub shop: Option<String>,
    pub object_id: Option<String>,
    /// The shops of the key. What belongs to no shop is open to keys of all shops alone.
    pub shops: Shops,
}

impl Filter {
    fn fits(&self, event: &Placed) -> bool {
        let is_open = match &event.shop {
            Some(shop) => self.shops.have(shop),
            None => self.shops.0.is_none(),
        };
        is_open
            && self
                .shop
                .as_ref()
                .is_none_or(|shop| event.shop.as_ref() == Some(shop))
            && self
                .object_id
                .as_ref()
                .is_none_or(|id| *id == event.object_id)
            && self.kinds.iter().any(|kind| kind.fits(&event.kind))
    }
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest event that is kept.
    Oldest,
    /// After this event.
    After(Uuid),
    /// The reader begins with what happens from now on.
    Latest,
}

/// What one look has found.
pub struct Found {
    pub events: Vec<Envelope>,
    /// There may be more already.
    pub is_more: bool,
}

/// Somebody who reads events in their sequence.
#[derive(Clone)]
pub struct Reader {
    filter: Filter,
    /// All up to here was looked at.
    position: i64,
    /// The id of the event there, by which the reader goes on the next time.
    cursor: Option<Uuid>,
}

impl Reader {
    pub async fn begin(app: &App, start: Start, filter: Filter) -> Result<Self, Error> {
        let db = &app.db;
        let (position, cursor) = match start {
            Start::Oldest => (0, None),
            Start::After(id) => (step(events::position_of(db, id)).await?, Some(id)),
            Start::Latest => {
                let head = step(event_head::newest_after(db, app.waiting.head())).await?;
                let last = step(events::last(db, head)).await?;
                (head, last.map(|event| event.id))
            }
        };
        Ok(Reader {
            filter,
            position,
            cursor,
        })
    }

    pub fn cursor(&self) -> Option<Uuid> {
        self.cursor
    }

    /// The next events that fit, at most `limit`.
    pub async fn page(&mut self, app: &App, limit: usize) -> Result<Found, Error> {
        let (mut found, mut is_more) = self.look(app, limit).await?;
        let mut events = Vec::new();
        let mut bytes = 0;
        while !found.is_empty() {
            let rest = found.split_off(found.len().min(BODIES));
            let ids = found.iter().map(|event| event.id).collect();
            let read = step(events::by_ids(&app.db, ids)).await?;
            bytes += read
                .iter()
                .map(|event| event.data.get().len())
                .sum::<usize>();
            events.extend(read);
            if let (Some(last), true) = (found.last(), bytes >= PAGE_BYTES && !rest.is_empty()) {
                self.went_to(last);
                is_more = true;
                break;
            }
            found = rest;
        }
        Ok(Found { events, is_more })
    }

    /// How far it may read. After the server was replaced by one that lacks the last commits, positions may come again
    /// that were read: then the reader goes on after the event that it has seen, or earlier.
    async fn head(&mut self, app: &App) -> Result<i64, Error> {
        let known = self.position.max(app.waiting.head());
        let head = step(event_head::newest_after(&app.db, known)).await?;
        if head < self.position {
            self.position = match self.cursor {
                Some(id) => step(events::position_of(&app.db, id)).await?,
                None => head,
            };
        }
        Ok(head)
    }

    /// Goes on until so many were found or all was looked at; whether there may be more.
    async fn look(&mut self, app: &App, limit: usize) -> Result<(Vec<Placed>, bool), Error> {
        let head = self.head(app).await?;
        if let Some(id) = self.filter.object_id.clone() {
            let all = events::placed_of_object(&app.db, &id, self.position, head);
            let mut all = step(all).await?;
            all.retain(|event| self.filter.fits(event));
            let is_more = all.len() > limit;
            all.truncate(limit);
            if let Some(last) = all.last() {
                self.went_to(last);
            }
            return Ok((all, is_more));
        }
        let mut found = Vec::new();
        for _ in 0..CHUNKS {
            let next = events::placed_after(&app.db, self.position, head, CHUNK);
            let next = step(next).await?;
            let is_last = next.len() < usize::try_from(CHUNK).unwrap_or(usize::MAX);
            for event in next {
                self.went_to(&event);
                if self.filter.fits(&event) {
                    found.push(event);
                }
                if found.len() == limit {
                    return Ok((found, true));
                }
            }
            if is_last {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }

    fn went_to(&mut self, event: &Placed) {
        (self.position, self.cursor) = (event.position, Some(event.id));
    }
}

/// The readers that wait for events in this process.
pub struct Waiting {
    newest: watch::Sender<i64>,
    of_keys: Arc<Mutex<HashMap<Uuid, usize>>>,
    /// Notified when somebody begins to wait.
    arrived: Arc<Notify>,
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting {
            newest: watch::Sender::new(0),
            of_keys: Arc::default(),
            arrived: Arc::default(),
        }
    }
}

impl Waiting {
    /// The head that was last found while somebody waited.
    fn head(&self) -> i64 {
        *self.newest.borrow()
    }

    /// Lets the holder of a key wait, unless too many do.
    pub fn admit(&self, key: Uuid) -> Result<Place, Error> {
        let mut of_keys = lock(&self.of_keys);
        let all: usize = of_keys.values().sum();
        let of_key = of_keys.entry(key).or_default();
        if *of_key >= MOST_OF_KEY || all >= MOST {
            return Err(Error::TooManyWait);
        }
        *of_key += 1;
        metrics::gauge!("waybill_event_readers").increment(1);
        let newest = self.newest.subscribe();
        self.arrived.notify_one();
        Ok(Place {
            key,
            of_keys: self.of_keys.clone(),
            newest,
        })
    }
}

/// A place among those who wait, given back when it is dropped.
pub struct Place {
    key: Uuid,
    of_keys: Arc<Mutex<HashMap<Uuid, usize>>>,
    newest: watch::Receiver<i64>,
}

impl Place {
    /// From now on only later events count as new.
    pub fn look(&mut self) {
        self.newest.mark_unchanged();
    }

    /// Waits until there are events that were not there at the last look.
    pub async fn wait(&mut self) {
        if self.newest.changed().await.is_err() {
            // The process ends, and says so in another way.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut of_keys = lock(&self.of_keys);
        if let Some(of_key) = of_keys.get_mut(&self.key) {
            *of_key -= 1;
            if *of_key == 0 {
                of_keys.remove(&self.key);
            }
        }
        metrics::gauge!("waybill_event_readers").decrement(1);
    }
}

/// Looks for new events while somebody waits for them, until shutdown.
pub fn look_for_new(app: &Arc<App>, shutdown: &CancellationToken) {
    let arrived = app.waiting.arrived.clone();
    let app = Arc::downgrade(app);
    let shutdown = shutdown.clone();
    // Shown before the first one waits.
    metrics::gauge!("waybill_event_readers").increment(0);
    task::spawn("new events", async move {
        let mut is_any = false;
        loop {
            let pause = async {
                if is_any {
                    tokio::time::sleep(LOOK_AGAIN).await;
                } else {
                    arrived.notified().await;
                }
            };
            if shutdown.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let Some(app) = app.upgrade() else { return };
            let newest = &app.waiting.newest;
            is_any = newest.receiver_count() > 0;
            if !is_any {
                continue;
            }
            // A failure is reported to whoever reads next.
            let known = app.waiting.head();
            if let Ok(head) = event_head::newest_after(&app.db, known).await {
                newest.send_if_modified(|known| std::mem::replace(known, head) != head);
            }
        }
    });
}
