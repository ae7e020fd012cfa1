//! The bus within one process: a bounded line of messages for each queue. In a test it can stand between several processes
//! ([`Bus::apart`](super::Bus::apart)). Then it outlives them as a broker does: what one of them had and did not acknowledge
//! comes again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use platform::lock::lock;
use tokio::sync::Notify;

use super::ahead::{Ahead, Room};
use super::{Answer, JobRef, Message, Published, nth};
use domain::envelope::Envelope;
use domain::job::{JobId, Queue};
use domain::trace::TraceContext;

/// How many messages may wait in a line. Further jobs wait in the database until there is room.
const CAPACITY: usize = 256;

/// What stands in for a broker's exchange of events, and says whether there is a broker at this moment.
pub trait Exchange: Send + Sync {
    fn is_up(&self) -> bool;
    /// An event is sent. True: all queues that are bound have it.
    fn takes(&self, event: &Envelope) -> bool;
}

#[derive(Clone)]
pub struct Local {
    lines: [Arc<Line>; 4],
    ahead: Arc<[Ahead; 4]>,
    exchange: Option<Arc<dyn Exchange>>,
}

/// The messages that wait.
#[derive(Default)]
struct Line {
    messages: Mutex<VecDeque<Queued>>,
    /// Notified when there is another message. All who wait look, because one of them may stand still.
    added: Notify,
}

struct Queued {
    jobs: Vec<JobId>,
    redelivered: bool,
    context: Option<TraceContext>,
}

impl Line {}

/// A message that comes again if it is dropped without an acknowledgement.
pub struct Unanswered {
    line: Arc<Line>,
    message: Option<Queued>,
}

impl Unanswered {
    pub fn ack(&mut self) {
        self.message = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            lock(&self.line.messages).push_front(message);
            self.line.added.notify_waiters();
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Local {
            lines: Queue::ALL.map(|_| Arc::default()),
            ahead: Arc::new(Queue::ALL.map(|_| Ahead::default())),
            exchange: None,
        }
    }
}

impl Local {
    pub fn apart(exchange: Arc<dyn Exchange>) -> Self {
        Local {
            exchange: Some(exchange),
            ..Local::default()
        }
    }

    /// The same for another process, which counts by itself what it has sent.
    #[must_use]
    pub fn beside(&self) -> Self {
        Local {
            ahead: Arc::new(Queue::ALL.map(|_| Ahead::default())),
            ..self.clone()
        }
    }

    pub fn is_apart(&self) -> bool {
        self.exchange.is_some()
    }

    pub fn is_up(&self) -> bool {
        self.exchange.as_ref().is_none_or(|it| it.is_up())
    }

    fn ahead(&self, queue: Queue) -> &Ahead {
        &self.ahead[nth(queue)]
    }

    pub fn has_room(&self, queue: Queue) -> Room {
        self.ahead(queue).room_at(self.depth(queue))
    }

    pub fn notify(
        &self,
        queue: Queue,
        jobs: &[JobRef],
        context: Option<TraceContext>,
        redelivered: bool,
    ) -> Result<()> {
        let jobs = jobs.iter().map(|job_ref| job_ref.job).collect();
        let line = &self.lines[nth(queue)];
        let mut messages = lock(&line.messages);
        if messages.len() >= CAPACITY || !self.is_up() {
            bail!("the bus takes no messages");
        }
        messages.push_back(Queued {
            jobs,
            redelivered,
            context,
        });
        drop(messages);
        line.added.notify_waiters();
        self.ahead(queue).sent();
        Ok(())
    }

    /// Without a broker, events are read from the database, so they are already published.
    pub fn publish_events(&self, events: &[&Envelope]) -> Published {
        let takes = |event: &&&Envelope| self.exchange.as_ref().is_none_or(|it| it.takes(event));
        let confirmed: Vec<_> = events.iter().filter(takes).map(|event| event.id).collect();
        let is_any_refused = confirmed.len() < events.len();
        Published {
            confirmed,
            failure: is_any_refused.then(|| anyhow::anyhow!("an event was not confirmed")),
        }
    }

    pub fn room(&self, queue: Queue) -> u32 {
        self.ahead(queue).looked(self.depth(queue))
    }

    pub fn depth(&self, queue: Queue) -> u32 {
        u32::try_from(lock(&self.lines[nth(queue)].messages).len()).unwrap_or(u32::MAX)
    }

    pub fn listen(&self, queue: Queue) -> Listener {
        Listener {
            line: self.lines[nth(queue)].clone(),
            is_apart: self.is_apart(),
        }
    }
}

#[derive(Clone)]
pub struct Listener {
    line: Arc<Line>,
    is_apart: bool,
}

impl Listener {
    pub async fn next(&self) -> Option<Message> {
        loop {
            let mut added = std::pin::pin!(self.line.added.notified());
            added.as_mut().enable();
            let message = lock(&self.line.messages).pop_front();
            if let Some(message) = message {
                return Some(self.message(message));
            }
            added.await;
        }
    }

    fn message(&self, message: Queued) -> Message {
        let Queued {
            jobs,
            redelivered,
            context,
        } = message;
        let again = self.is_apart.then(|| Queued {
            jobs: jobs.clone(),
            redelivered: true,
            context,
        });
        Message {
            jobs,
            redelivered,
            context,
            answer: Answer::Local(Unanswered {
                line: self.line.clone(),
                message: again,
            }),
        }
    }
}
