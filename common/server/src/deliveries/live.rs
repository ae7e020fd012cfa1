//! One look at what arrives, for all who watch in this process: the streams of clients, the console's
//! live view, and the process's own terminal. While nobody watches, nothing is looked at.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::job::JobId;
use platform::clock::Clock;
use platform::lock::lock;
use platform::task;
use store::sql::{self, Db};
use tokio::sync::{Notify, Semaphore, broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Follower, Message, PATIENCE};

/// How many messages a listener may be behind.
const BEHIND: usize = 2048;
/// The pause after a look that failed before there was one that did not.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// When a look takes long, as it does while the processors are busy, the pause after it is this many times
/// as long, up to a limit. So those who watch cost the intake at most a fiftieth of one processor.
const SHARE: u32 = 50;
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How many deliveries that somebody saw as waiting are remembered until the next look.
const MOST_SEEN: usize = 2000;

/// Where everybody in the process hears of deliveries. Clones are the same place.
#[derive(Clone)]
pub struct Live {
    messages: broadcast::Sender<Message>,
    looks: Arc<watch::Sender<u64>>,
    /// Deliveries that somebody was shown and that had not ended, with their attempts.
    waiting: Arc<Mutex<Vec<(JobId, i64)>>>,
    /// Notified when somebody begins to listen, and when somebody waits for the next look.
    wanted: Arc<Notify>,
    ended: CancellationToken,
}

impl Default for Live {
    fn default() -> Self {
        Live {
            messages: broadcast::Sender::new(BEHIND),
            looks: Arc::new(watch::Sender::new(0)),
            waiting: Arc::default(),
            wanted: Arc::default(),
            ended: CancellationToken::new(),
        }
    }
}

impl Live {
    /// Hears of what arrives from now on; see [`Listener::ready`].
    pub fn listen(&self) -> Listener {
        let messages = self.messages.subscribe();
        self.wanted.notify_one();
        Listener {
            looks: self.looks.subscribe(),
            wanted: self.wanted.clone(),
            messages,
            ended: self.ended.clone(),
        }
    }

    /// Makes all who listen hear what becomes of a delivery that somebody was shown and that had not
    /// ended.
    pub fn follow(&self, delivery: JobId, attempts: i64) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < MOST_SEEN {
            waiting.push((delivery, attempts));
        }
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
        if let Some(follower) = follower {
            let waiting = std::mem::take(&mut *lock(&self.waiting));
            for (delivery, attempts) in waiting {
                follower.follow(delivery, attempts);
            }
            for message in follower.look().await? {
                // The last listener may have just gone.
                let _ = self.messages.send(message);
            }
        } else {
            *follower = Some(Follower::begin(db, clock, PATIENCE).await?);
        }
        self.looks.send_modify(|looks| *looks += 1);
        Ok(())
    }

    /// Looks for deliveries while somebody listens, until shutdown. Each look takes one of the `turns`,
    /// where others read through the same connections.
    pub fn look_for_new(
        &self,
        db: &Db,
        clock: &Clock,
        pause: Duration,
        turns: Option<Arc<Semaphore>>,
        shutdown: &CancellationToken,
    ) {
        let (live, db, clock, shutdown) =
            (self.clone(), db.clone(), clock.clone(), shutdown.clone());
        task::spawn("deliveries for those who listen", async move {
            let mut follower = None;
            let mut took = Duration::ZERO;
            loop {
                let is_heard = live.is_heard();
                if !is_heard {
                    follower = None;
                }
                let pause = if follower.is_some() {
                    pause_after(took, pause)
                } else {
                    TRY_AGAIN
                };
                tokio::select! {
                    () = tokio::time::sleep(pause), if is_heard => {}
                    // Whoever has just come is not kept waiting by a long pause.
                    () = live.wanted.notified() => {}
                    () = shutdown.cancelled() => break,
                }
                if !live.is_heard() {
                    continue;
                }
                let look = async {
                    // A semaphore that is never closed.
                    let _turn = match &turns {
                        Some(turns) => turns.acquire().await.ok(),
                        None => None,
                    };
                    let begun = Instant::now();
                    let looked = live.look(&mut follower, &db, &clock).await;
                    (looked, begun.elapsed())
                };
                let Some((looked, elapsed)) = shutdown.run_until_cancelled(look).await else {
                    break;
                };
                took = elapsed;
                match looked {
                    Ok(()) => {}
                    Err(error) => {
                        tracing::debug!(%error, "those who listen to deliveries hear of them later");
                    }
                }
            }
            live.ended.cancel();
        });
    }
}

fn pause_after(took: Duration, shortest: Duration) -> Duration {
    shortest.max(LONGEST_PAUSE.min(took * SHARE))
}

/// Somebody who listens.
pub struct Listener {
    messages: broadcast::Receiver<Message>,
    looks: watch::Receiver<u64>,
    wanted: Arc<Notify>,
    ended: CancellationToken,
}

impl Listener {
    /// Waits until everything will be heard that arrives from then on.
    pub async fn ready(&mut self) {
        self.looks.mark_unchanged();
        self.wanted.notify_one();
        if self.looks.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The next message. A listener that is too slow hears how many it has missed. `None`: the process
    /// ends.
    pub async fn next(&mut self) -> Option<Message> {
        let message = self.ended.run_until_cancelled(self.messages.recv()).await?;
        match message {
            Ok(message) => Some(message),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Message::PassedOver(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/deliveries/live.rs"]
mod tests;
