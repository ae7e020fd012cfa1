//! Reads the dead letters, and removes those of jobs that are no longer dead.
//!
//! Messages are read and held back. Those that are not removed go back into the queue: they may
//! belong to another installation that shares the broker, or somebody else may have sent them. (A
//! quorum queue of RabbitMQ 4 drops a message that was returned 20 times. The job that it names
//! stays in its database.)

use anyhow::{Context, Result};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions};
use lapin::{Channel, Connection};

use crate::decode;
use domain::job::JobId;

/// The content of the dead-letter queue. Nobody else sees it while this value exists.
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
            // A message that is not a list of ids names no job, and stays.
            let ids = decode(&message.delivery.data).unwrap_or_default();
            notes.push((message.delivery, ids));
        }
        Ok(DeadLetters { channel, notes })
    }

    /// The jobs that the messages name.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.notes.iter().flat_map(|(_, ids)| ids.iter().copied())
    }

    /// Removes the messages whose jobs all satisfy `over`. The others go back into the queue.
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
