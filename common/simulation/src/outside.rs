//! The world outside: providers that post deliveries until they are answered, a payment provider that is asked for
//! refunds, and the merchant's own systems that get events.

use crate::actors::{Machine, Next, Part};
use crate::database::{Result, TxId};
use crate::world::{NEVER, Process, Request, World, note};

/// How the runs of a job go, before it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Succeeds,
    /// It fails so many times, in the middle of its work.
    Fails(i64),
    /// It panics so many times.
    Panics(i64),
    /// It ends its process so many times.
    Kills(i64),
    /// It can never succeed, and says so.
    Refuses,
}

impl Behaviour {
    pub fn times(self) -> i64 {
        match self {
            Behaviour::Succeeds => 0,
            Behaviour::Fails(times) | Behaviour::Panics(times) | Behaviour::Kills(times) => times,
            Behaviour::Refuses => i64::MAX,
        }
    }

    /// Whether the job ends dead whatever happens.
    pub fn is_hopeless(self) -> bool {
        match self {
            Behaviour::Refuses => true,
            Behaviour::Kills(times) => times > domain::job::MAX_UNFINISHED_ATTEMPTS,
            Behaviour::Succeeds | Behaviour::Fails(_) | Behaviour::Panics(_) => false,
        }
    }
}

/// A delivery of a provider.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub order: usize,
    /// The order is cancelled, so its payment is to be refunded.
    pub cancels: bool,
    pub behaviour: Behaviour,
    /// It was answered that it is accepted.
    pub is_answered: bool,
}

/// What ingress answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200
    Accepted,
    /// 409
    Duplicate,
    /// 503
    Unavailable,
}

/// How long a provider waits for an answer, and ingress for the verdict (`intake::ANSWER_DEADLINE`).
const ANSWER_DEADLINE: i64 = 1_300;

/// Posts one delivery until it is answered, and sometimes again.
#[derive(Debug)]
pub struct Sender {
    pub delivery: usize,
    /// How many more times it is sent although it was answered.
    pub repeats: u32,
    attempt: u32,
    is_waiting: bool,
    answer: Option<Answer>,
}

impl Sender {
    pub fn new(delivery: usize, repeats: u32) -> Self {
        Sender {
            delivery,
            repeats,
            attempt: 0,
            is_waiting: false,
            answer: None,
        }
    }

    /// Whether somebody still waits for the answer to this try.
    pub fn waits_for(&self, attempt: u32) -> bool {
        self.is_waiting && self.attempt == attempt && self.answer.is_none()
    }

    pub fn give(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    fn post(&mut self, world: &mut World) -> Next {
        let process = world.ingresses[world.random.below(world.ingresses.len())];
        let pause = world.random.between(50, 1_500);
        let is_reached = world.processes[process].is_up;
        note!(
            world,
            0,
            "delivery {} is posted to {}",
            self.delivery,
            world.processes[process].name
        );
        if !is_reached {
            return Next::After(pause);
        }
        self.attempt += 1;
        self.is_waiting = true;
        self.answer = None;
        let job = world.db.jobs.reserve();
        let created_at = world.clock(process);
        let sender = world.current;
        world.processes[process].requests.push(Request {
            delivery: self.delivery,
            sender,
            attempt: self.attempt,
            job,
            created_at,
        });
        Next::After(ANSWER_DEADLINE)
    }
}

impl Machine for Sender {
    fn step(&mut self, _: &mut Option<TxId>, _: usize, world: &mut World) -> Result<Next> {
        if !self.is_waiting {
            return Ok(self.post(world));
        }
        self.is_waiting = false;
        match self.answer.take() {
            Some(Answer::Accepted | Answer::Duplicate) if self.repeats == 0 => Ok(Next::End),
            Some(Answer::Accepted | Answer::Duplicate) => {
                self.repeats -= 1;
                Ok(Next::After(world.random.between(0, 400)))
            }
            Some(Answer::Unavailable) | None => Ok(Next::After(world.random.between(50, 1_500))),
        }
    }

    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        100
    }

    fn reborn(&self) -> Option<Part> {
        None
    }

    fn has_work(&self, _: &Process, _: &World) -> bool {
        self.is_waiting && self.answer.is_some()
    }
}

/// What a provider is asked, and who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub number: u32,
    pub order: usize,
    /// The idempotency key: the job, and the number of the key. `None`: asked without a key.
    pub key: Option<(usize, i64)>,
    /// When it arrives, which may be after the one who asked has given up.
    pub arrives_at: i64,
}

/// What the payment provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Refunded,
    Failed,
    /// The failure that it keeps under the key (`CallFailure::Stored`).
    KeptFailure,
}

/// The payment provider's account of refunds. It makes another refund of the same payment if it is asked under another
/// key, as it does for a part of a payment.
#[derive(Debug, Default)]
pub struct PaymentProvider {
    pub on_their_way: Vec<Asked>,
    /// Each refund that was made: the order, and the key.
    pub refunds: Vec<(usize, Option<(usize, i64)>)>,
    /// The keys under which it keeps a failure, and answers with it ever after.
    failures: Vec<(usize, i64)>,
    /// The requests that were answered.
    pub answered: Vec<(u32, Reply)>,
    pub slow_until: i64,
    pub failing_until: i64,
    last: u32,
}

impl PaymentProvider {
    pub fn ask(&mut self, order: usize, key: Option<(usize, i64)>, arrives_at: i64) -> u32 {
        self.last += 1;
        self.on_their_way.push(Asked {
            number: self.last,
            order,
            key,
            arrives_at,
        });
        self.last
    }

    pub fn has_refund(&self, order: usize) -> bool {
        self.refunds.iter().any(|(of, _)| *of == order)
    }

    pub fn answer_to(&self, number: u32) -> Option<Reply> {
        let answer = self.answered.iter().find(|(of, _)| *of == number);
        answer.map(|(_, reply)| *reply)
    }

    /// Does what it is asked. `keeps`: if it fails, it keeps that under the key.
    fn refund(&mut self, asked: Asked, now: i64, keeps: bool) -> Reply {
        if let Some(key) = asked.key {
            if self.failures.contains(&key) {
                return Reply::KeptFailure;
            }
            if self.refunds.iter().any(|(_, of)| *of == Some(key)) {
                return Reply::Refunded;
            }
        }
        if self.failing_until > now {
            self.failures.extend(asked.key.filter(|_| keeps));
            return Reply::Failed;
        }
        self.refunds.push((asked.order, asked.key));
        Reply::Refunded
    }
}

/// Does what arrives at the payment provider.
#[derive(Debug)]
pub struct Payments;

impl Machine for Payments {
    fn step(&mut self, _: &mut Option<TxId>, _: usize, world: &mut World) -> Result<Next> {
        let now = world.now;
        let payments = &mut world.payments;
        let arrived = payments
            .on_their_way
            .iter()
            .position(|it| it.arrives_at <= now);
        if let Some(at) = arrived {
            let asked = payments.on_their_way.swap_remove(at);
            let keeps = world.random.once_in(2);
            let reply = payments.refund(asked, now, keeps);
            payments.answered.push((asked.number, reply));
            note!(
                world,
                0,
                "the payment provider is asked to refund order {} under {:?}: {reply:?}",
                asked.order,
                asked.key
            );
            world.check_refunds(asked.order);
        }
        let next = world
            .payments
            .on_their_way
            .iter()
            .map(|it| it.arrives_at)
            .min();
        Ok(next.map_or(Next::Idle, |at| Next::After((at - now).max(0))))
    }

    fn fail(&mut self, _: usize, _: &mut World) -> i64 {
        NEVER
    }

    fn reborn(&self) -> Option<Part> {
        None
    }

    fn has_work(&self, _: &Process, world: &World) -> bool {
        let mut asked = world.payments.on_their_way.iter();
        asked.any(|it| it.arrives_at <= world.now)
    }
}

/// What somebody has seen who follows events and drops what comes again.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How many events of each order came, which must be the first ones in their sequence.
    orders: Vec<u32>,
    events: Vec<usize>,
}

impl Seen {
    /// An event comes. False when it is out of its sequence.
    pub fn comes(&mut self, event: usize, order: usize, number: u32) -> bool {
        if self.events.contains(&event) {
            return true;
        }
        self.events.push(event);
        while self.orders.len() <= order {
            self.orders.push(0);
        }
        self.orders[order] += 1;
        self.orders[order] == number
    }

    pub fn has(&self, event: usize) -> bool {
        self.events.contains(&event)
    }
}

/// The merchant's own systems: a queue bound to the exchange of events, a reader of the API, and an endpoint.
#[derive(Debug, Default)]
pub struct Receiver {
    pub queue: Seen,
    pub reader: Seen,
    pub endpoint: Seen,
    /// A queue that is bound to the exchange of events refuses some of them until then.
    pub queue_refuses_until: i64,
    /// The endpoint accepts nothing until then.
    pub refuses_until: i64,
    /// The endpoint is there.
    pub has_endpoint: bool,
}

impl World {
    /// A verdict reaches the one who waits for it, if somebody does and the answer is not lost on its way. An answer
    /// that says "accepted" must be true at this moment.
    pub fn answer(&mut self, process: usize, request: &Request, answer: Answer) {
        let Part::Sender(sender) = &mut self.actors[request.sender].part else {
            return;
        };
        if !sender.waits_for(request.attempt) {
            return;
        }
        if self.faults.loses_answer() {
            note!(
                self,
                process,
                "the answer to delivery {} is lost",
                request.delivery
            );
            return;
        }
        sender.give(answer);
        note!(
            self,
            process,
            "answers delivery {} with {answer:?}",
            request.delivery
        );
        if answer == Answer::Unavailable {
            return;
        }
        self.deliveries[request.delivery].is_answered = true;
        let remembered = self.db.webhook_ids.committed(request.delivery);
        let job = remembered.and_then(|row| self.db.jobs.committed(row.job));
        if job.is_none() {
            self.facts.wrong(&format!(
                "delivery {} was answered with {answer:?}, and its job is not committed (I1)",
                request.delivery
            ));
        }
    }

    /// The payment of an order is refunded once.
    fn check_refunds(&mut self, order: usize) {
        let refunds = self.payments.refunds.iter();
        if refunds.filter(|(of, _)| *of == order).count() > 1 {
            self.facts
                .wrong(&format!("order {order} was refunded twice (I2)"));
        }
    }

    /// An event comes to one of the merchant's systems.
    pub fn event_comes(&mut self, to: &str, event: usize) {
        let Some(row) = self.db.events.committed(event) else {
            self.facts
                .wrong(&format!("{to} got event {event}, which is not committed"));
            return;
        };
        let seen = match to {
            "the queue" => &mut self.receiver.queue,
            "the reader" => &mut self.receiver.reader,
            _ => &mut self.receiver.endpoint,
        };
        let is_in_sequence = seen.comes(event, row.order, row.number);
        note!(
            self,
            0,
            "{to} gets event {event}, number {} of order {}",
            row.number,
            row.order
        );
        if !is_in_sequence {
            self.facts.wrong(&format!(
                "{to} got event {event}, number {} of order {}, out of its sequence",
                row.number, row.order
            ));
        }
    }
}
