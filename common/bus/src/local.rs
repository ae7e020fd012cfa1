//! The bus within one process: a bounded channel for each queue.

use std::sync::Arc;

use anyhow::{Result, bail};
use tokio::sync::{Mutex, mpsc};

use super::ahead::{Ahead, Room};
use super::{Answer, JobRef, Message, nth};
use domain::job::{JobId, Queue};
use domain::trace::TraceContext;

/// How many messages may wait in a channel. Further jobs wait in the database until there is
/// room.
const CAPACITY: usize = 256;

#[derive(Clone)]
pub struct Local {
    channels: Arc<[Channel; 4]>,
}

struct Channel {
    sender: mpsc::Sender<Queued>,
    receiver: Arc<Mutex<mpsc::Receiver<Queued>>>,
    ahead: Ahead,
}

struct Queued {
    jobs: Vec<JobId>,
    redelivered: bool,
    context: Option<TraceContext>,
}

impl Default for Local {
    fn default() -> Self {
        let channel = || {
            let (sender, receiver) = mpsc::channel(CAPACITY);
            let receiver = Arc::new(Mutex::new(receiver));
            Channel {
                sender,
                receiver,
                ahead: Ahead::default(),
            }
        };
        Local {
            channels: Arc::new(Queue::ALL.map(|_| channel())),
        }
    }
}

impl Local {
    fn channel(&self, queue: Queue) -> &Channel {
        &self.channels[nth(queue)]
    }

    pub fn has_room(&self, queue: Queue) -> Room {
        self.channel(queue).ahead.room_at(self.depth(queue))
    }

    pub fn notify(
        &self,
        queue: Queue,
        jobs: &[JobRef],
        context: Option<TraceContext>,
        redelivered: bool,
    ) -> Result<()> {
        let jobs = jobs.iter().map(|job_ref| job_ref.job).collect();
        let channel = self.channel(queue);
        let sent = channel.sender.try_send(Queued {
            jobs,
            redelivered,
            context,
        });
        if sent.is_err() {
            bail!("the channel is full");
        }
        channel.ahead.sent();
        Ok(())
    }

    pub fn room(&self, queue: Queue) -> u32 {
        self.channel(queue).ahead.looked(self.depth(queue))
    }

    pub fn depth(&self, queue: Queue) -> u32 {
        let sender = &self.channel(queue).sender;
        u32::try_from(CAPACITY - sender.capacity()).unwrap_or(u32::MAX)
    }

    pub fn listen(&self, queue: Queue) -> Listener {
        Listener {
            receiver: self.channel(queue).receiver.clone(),
        }
    }
}

#[derive(Clone)]
pub struct Listener {
    receiver: Arc<Mutex<mpsc::Receiver<Queued>>>,
}

impl Listener {
    pub async fn next(&self) -> Option<Message> {
        let message = self.receiver.lock().await.recv().await?;
        Some(Message {
            jobs: message.jobs,
            redelivered: message.redelivered,
            context: message.context,
            answer: Answer::Local,
        })
    }
}
