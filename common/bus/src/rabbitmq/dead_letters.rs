//! Looking at the dead letters, and taking away those that are true no more.
//!
//! They are read and held back, and what is not taken away goes back into the queue: the notes of
//! another installation that shares the broker, and what somebody else has sent. (A quorum queue
//! of RabbitMQ 4 gives a message up that has been returned 20 times; the job that it names is in
//! its database all the same.)

use anyhow::{Context, Result};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions};
use lapin::{Channel, Connection};

use crate::decode;
use domain::job::JobId;

/// What the queue of dead letters shows, while nobody else sees it.
pub struct DeadLetters {
    channel: Channel,
    notes: Vec<(Delivery, Vec<JobId>)>,
}

impl DeadLetters {
    pub(super) async fn read(connection: &Connection, queue: &str) -> Result<Self> {
        let channel = connection.create_channel().await?;
        let mut notes = Vec::new();
        let options = BasicGetOptions::default();
        while let Some(message) = channel.basic_get(queue.into(), options).await? {
            // One that is no list of ids names no job, and stays.
            let ids = decode(&message.delivery.data).unwrap_or_default();
            notes.push((message.delivery, ids));
        }
        Ok(DeadLetters { channel, notes })
    }

    /// The jobs that they name.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.notes.iter().flat_map(|(_, ids)| ids.iter().copied())
    }

    /// Takes those away whose jobs are all `over`; the others go back.
    pub async fn forget(self, over: impl Fn(JobId) -> bool) -> Result<()> {
        for (note, ids) in self.notes {
            if !ids.is_empty() && ids.into_iter().all(&over) {
                note.acker.ack(BasicAckOptions::default()).await?;
            } else {
                let back = BasicNackOptions {
                    requeue: true,
                    ..BasicNackOptions::default()
                };
                note.acker.nack(back).await?;
            }
        }
        let closed = self.channel.close(200, "done".into()).await;
        closed.context("closing the channel")
    }
}
