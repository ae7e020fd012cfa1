//! The broker: a durable queue with confirms, unacknowledged messages and redelivery, or the channel within one
//! process, which forgets everything with its process (`bus::local`).

use crate::rows::Kind;

/// How many jobs a message has at most. The product has 32; with few jobs there would be no two messages of a kind.
pub const MAX_JOBS_PER_MESSAGE: usize = 3;

/// How many messages may wait (`bus::ahead`); a job that comes at this moment may have half of that.
pub const ROOM: usize = 6;

/// After so many deliveries RabbitMQ gives a message up (`x-delivery-limit`).
const DELIVERY_LIMIT: u32 = 20;

#[derive(Clone, Debug)]
pub struct Message {
    pub number: u32,
    pub kind: Kind,
    pub jobs: Vec<usize>,
    pub redelivered: bool,
    deliveries: u32,
    /// The process that has sent it.
    from: usize,
    /// It is safe, and may be delivered.
    is_stored: bool,
    /// The process that has it and has not acknowledged it, and the number of this delivery.
    taken: Option<(usize, u32)>,
}

/// A message that a worker has.
#[derive(Clone, Debug)]
pub struct Taken {
    pub kind: Kind,
    pub jobs: Vec<usize>,
    pub redelivered: bool,
    delivery: u32,
}

/// A message that waits for its confirm.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    number: u32,
    restarts: u32,
    link: u32,
    is_returned: bool,
}

/// What the broker says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    Stored,
    /// No queue is bound for it.
    Returned,
    /// The connection was lost before the confirm.
    Lost,
}

#[derive(Debug, Default)]
pub struct Broker {
    messages: Vec<Message>,
    pub is_local: bool,
    pub is_away: bool,
    /// The queue was deleted, and is declared again later.
    pub has_no_queue: bool,
    restarts: u32,
    last: u32,
}

impl Broker {
    /// `Bus::is_up`.
    pub fn is_up(&self) -> bool {
        !self.is_away
    }

    /// `Bus::is_ready`: a job that comes at this moment may be sent.
    pub fn is_ready(&self) -> bool {
        self.is_up() && self.depth() < ROOM / 2
    }

    /// `Bus::is_ready_for_marked`.
    pub fn is_ready_for_marked(&self) -> bool {
        self.is_up() && self.depth() < ROOM
    }

    /// `Bus::depth`: how many messages wait.
    pub fn depth(&self) -> usize {
        let waiting = self.messages.iter();
        waiting
            .filter(|it| it.is_stored && it.taken.is_none())
            .count()
    }

    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The first half of `Bus::notify`: the message leaves. None when the broker cannot be reached.
    pub fn send(
        &mut self,
        (from, link): (usize, u32),
        kind: Kind,
        jobs: &[usize],
        again: bool,
    ) -> Option<Sent> {
        if self.is_away || (self.is_local && !self.is_ready_for_marked()) {
            return None;
        }
        self.last += 1;
        if !self.has_no_queue {
            self.messages.push(Message {
                number: self.last,
                kind,
                jobs: jobs.to_vec(),
                redelivered: again,
                deliveries: 0,
                from,
                is_stored: self.is_local,
                taken: None,
            });
        }
        Some(Sent {
            number: self.last,
            restarts: self.restarts,
            link,
            is_returned: self.has_no_queue,
        })
    }

    /// The second half of `Bus::notify`.
    pub fn confirm(&mut self, sent: &Sent, link: u32) -> Confirm {
        if sent.restarts != self.restarts || sent.link != link {
            return Confirm::Lost;
        }
        if sent.is_returned {
            return Confirm::Returned;
        }
        if let Some(message) = self.messages.iter_mut().find(|it| it.number == sent.number) {
            message.is_stored = true;
        }
        Confirm::Stored
    }

    pub fn has_message(&self) -> bool {
        !self.is_away && self.depth() > 0
    }

    /// `Listener::next`.
    pub fn take(&mut self, process: usize) -> Option<Taken> {
        if self.is_away {
            return None;
        }
        let waiting = |it: &Message| it.is_stored && it.taken.is_none();
        let at = self.messages.iter().position(waiting)?;
        self.last += 1;
        let delivery = self.last;
        let message = &mut self.messages[at];
        message.deliveries += 1;
        message.taken = Some((process, delivery));
        let taken = Taken {
            kind: message.kind,
            jobs: message.jobs.clone(),
            redelivered: message.redelivered,
            delivery,
        };
        if self.is_local {
            self.messages.remove(at);
        }
        Some(taken)
    }

    /// `Message::ack`. After its connection was lost, the message has come back to the queue already.
    pub fn ack(&mut self, taken: &Taken) {
        let is_it = |it: &Message| {
            it.taken
                .is_some_and(|(_, delivery)| delivery == taken.delivery)
        };
        self.messages.retain(|it| !is_it(it));
    }

    /// The connection of a process is lost: what it has not acknowledged is delivered again. `stays`: the broker has
    /// the messages whose confirm did not reach it.
    pub fn disconnect(&mut self, process: usize, stays: bool) {
        for message in &mut self.messages {
            message.is_stored |= message.from == process && stays;
        }
        let is_lost = |it: &Message| it.from == process && !it.is_stored;
        self.messages.retain(|it| !is_lost(it));
        self.give_back(|it| it.taken.is_some_and(|(by, _)| by == process));
    }

    fn give_back(&mut self, which: impl Fn(&Message) -> bool) {
        for message in self.messages.iter_mut().filter(|it| which(it)) {
            message.taken = None;
            message.redelivered = true;
        }
        self.messages
            .retain(|it| it.deliveries < DELIVERY_LIMIT || it.taken.is_some());
    }

    /// All connections are lost, and what was not safe yet.
    pub fn restart(&mut self) {
        self.restarts += 1;
        self.messages.retain(|it| it.is_stored);
        self.give_back(|it| it.taken.is_some());
    }

    /// The queue is deleted with all its messages.
    pub fn lose_all(&mut self) {
        self.messages.clear();
    }

    /// A message is there twice.
    pub fn duplicate(&mut self, nth: usize) {
        let stored: Vec<&Message> = self.messages.iter().filter(|it| it.is_stored).collect();
        if !stored.is_empty() {
            let message = stored[nth % stored.len()].clone();
            self.last += 1;
            self.messages.push(Message {
                number: self.last,
                taken: None,
                ..message
            });
        }
    }
}
