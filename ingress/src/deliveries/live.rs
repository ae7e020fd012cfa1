//! One look at what arrives, for all who watch in this process: the streams of clients and the process's
//! own terminal. While nobody watches, nothing is looked at.

use std::sync::Arc;
use std::time::Duration;

use platform::clock::Clock;
use platform::task;
use store::sql::{self, Db};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Follower, LOOK_AGAIN, Message, PATIENCE};
use crate::App;
use crate::error::Error;
use crate::events::{Place, Waiting};

/// How many messages a listener may be behind.
const BEHIND: usize = 2048;
/// The pause while nobody listens.
const IDLE: Duration = Duration::from_millis(100);

/// Where everybody in the process hears of deliveries. Clones are the same place.
#[derive(Clone)]
pub struct Live {
    messages: broadcast::Sender<Message>,
    looks: Arc<watch::Sender<u64>>,
    clients: Arc<Waiting>,
}

impl Default for Live {
    fn default() -> Self {
        Live {
            messages: broadcast::Sender::new(BEHIND),
            looks: Arc::new(watch::Sender::new(0)),
            clients: Arc::default(),
        }
    }
}

impl Live {
    /// Hears of what arrives from now on; see [`Listener::ready`].
    pub fn listen(&self) -> Listener {
        let messages = self.messages.subscribe();
        Listener {
            looks: self.looks.subscribe(),
            messages,
        }
    }

    /// Lets a client listen, unless too many do.
    pub fn admit(&self, key: Uuid) -> Result<Place, Error> {
        self.clients.admit(key)
    }

    fn is_heard(&self) -> bool {
        self.messages.receiver_count() > 0
    }

    /// Looks once, and says to all what was found.
    async fn look(
        &self,
        follower: &mut Option<Follower>,
        db: &Db,
        clock: &Clock,
    ) -> sql::Result<()> {
        match follower {
            None => *follower = Some(Follower::begin(db, clock, PATIENCE).await?),
            Some(follower) => {
                for message in follower.look().await? {
                    // The last listener may have just gone.
                    let _ = self.messages.send(message);
                }
            }
        }
        self.looks.send_modify(|looks| *looks += 1);
        Ok(())
    }
}

/// Somebody who listens.
pub struct Listener {
    messages: broadcast::Receiver<Message>,
    looks: watch::Receiver<u64>,
}

impl Listener {
    /// Waits until everything will be heard that arrives from then on.
    pub async fn ready(&mut self) {
        self.looks.mark_unchanged();
        if self.looks.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The next message. A listener that is too slow hears how many it has missed. `None`: the process
    /// ends.
    pub async fn next(&mut self) -> Option<Message> {
        match self.messages.recv().await {
            Ok(message) => Some(message),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Message::PassedOver(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Looks for deliveries while somebody listens, until shutdown.
pub fn look_for_new(app: &Arc<App>, shutdown: &CancellationToken) {
    let app = Arc::downgrade(app);
    let shutdown = shutdown.clone();
    task::spawn("deliveries for those who listen", async move {
        let mut follower = None;
        loop {
            let pause = if follower.is_some() { LOOK_AGAIN } else { IDLE };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => return,
            }
            let Some(app) = app.upgrade() else { return };
            if !app.live.is_heard() {
                follower = None;
                continue;
            }
            if let Err(error) = app.live.look(&mut follower, &app.db, &app.clock).await {
                tracing::debug!(%error, "those who listen to deliveries hear of them later");
            }
        }
    });
}
