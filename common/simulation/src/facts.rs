//! What is known of a schedule beside its rows: how often jobs misbehaved, which calls are under way, and which
//! invariant was broken first.

use domain::job::{MAX_UNFINISHED_ATTEMPTS, State};

use crate::actors::Part;
use crate::outside::Behaviour;
use crate::rows::{Kind, RefundState};
use crate::world::World;

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    job: usize,
    /// The fencing token of its claim.
    token: i64,
    process: usize,
    /// Its process was stopped meanwhile, or its clock was wrong: its claim may have ended.
    is_excused: bool,
}

#[derive(Debug, Default)]
pub struct Facts {
    /// The first invariant that was broken.
    pub broken: Option<String>,
    misbehaved: Vec<i64>,
    /// By job: how many of its runs were cut short by the end of their process, or were stopped.
    interrupted: Vec<i64>,
    calls: Vec<UnderWay>,
}

fn of(list: &mut Vec<i64>, job: usize) -> &mut i64 {
    if list.len() <= job {
        list.resize(job + 1, 0);
    }
    &mut list[job]
}

impl Facts {
    /// An invariant is broken. The first one counts.
    pub fn wrong(&mut self, what: &str) {
        self.broken.get_or_insert_with(|| what.to_owned());
    }

    pub fn misbehaved(&mut self, job: usize) -> &mut i64 {
        of(&mut self.misbehaved, job)
    }

    /// A call to a provider begins. Nobody else may be calling for the same job, unless that one's process was stopped.
    pub fn call_begins(&mut self, (job, token): (usize, i64), process: usize, is_excused: bool) {
        let twice = |it: &UnderWay| it.job == job && !it.is_excused && !is_excused;
        if self.calls.iter().any(twice) {
            self.wrong(&format!(
                "the provider is asked for job {job} twice at a time"
            ));
        }
        self.calls.push(UnderWay {
            job,
            token,
            process,
            is_excused,
        });
    }

    pub fn call_ends(&mut self, job: usize, token: i64) {
        let is_it = |it: &UnderWay| it.job == job && it.token == token;
        if let Some(at) = self.calls.iter().position(is_it) {
            self.calls.swap_remove(at);
        }
    }

    /// A run was counted and will not end in order.
    pub fn interrupt(&mut self, job: usize) {
        *of(&mut self.interrupted, job) += 1;
    }

    pub fn process_ended(&mut self, process: usize) {
        self.calls.retain(|it| it.process != process);
    }

    /// The process is stopped for a while, or gets a wrong clock.
    pub fn excuse(&mut self, process: usize) {
        for at in 0..self.calls.len() {
            if self.calls[at].process == process {
                self.calls[at].is_excused = true;
                self.interrupt(self.calls[at].job);
            }
        }
    }

    /// A process that has a call under way.
    pub fn caller(&self) -> Option<usize> {
        self.calls.last().map(|call| call.process)
    }

    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether a job may have been given up because its process ended too often. A claim whose commit lost its answer
    /// counts too, and is not known here.
    fn may_be_given_up(&mut self, job: usize) -> bool {
        *of(&mut self.interrupted, job) + 2 >= MAX_UNFINISHED_ATTEMPTS
    }
}

impl World {
    /// Whether nothing is left to be done.
    pub fn is_at_rest(&self) -> bool {
        self.broker.is_empty() && !self.facts.has_calls() && self.what_is_left().is_empty()
    }

    /// What is left to be done, for the one who reads why it does not come to rest.
    pub fn what_is_left(&self) -> String {
        let is_local = self.broker.is_local;
        if let Some(delivery) = self.deliveries.iter().position(|it| !it.is_answered) {
            return format!("delivery {delivery} is not answered");
        }
        if self
            .actors
            .iter()
            .any(|it| matches!(it.part, Part::Sender(_)))
        {
            return "a provider waits for an answer".to_owned();
        }
        if self.db.open().next().is_some() {
            return "a transaction is open".to_owned();
        }
        if let Some((id, job)) = self.db.jobs.all().find(|(_, job)| job.is_ready()) {
            return format!("job {id} is ready: {job:?}");
        }
        let published = self.db.broker_cursor.committed(0);
        let published = published.map_or(0, |row| row.position);
        for (id, event) in self.db.events.all() {
            if event.position.is_none() || !self.receiver.reader.has(id) {
                return format!("the reader has not got event {id}: {event:?}");
            }
            let is_published = event.position.is_some_and(|it| it <= published);
            if !is_published || !(is_local || self.receiver.queue.has(id)) {
                return format!("event {id} is not published: {event:?}");
            }
            let is_given_up = self.facts_of_webhook_given_up(event.order);
            if self.receiver.has_endpoint && !self.receiver.endpoint.has(id) && !is_given_up {
                return format!("the endpoint has not got event {id}: {event:?}");
            }
        }
        if let Some((id, row)) = self.db.outgoing_webhooks.all().next() {
            return format!("event {id} waits for the endpoint: {row:?}");
        }
        String::new()
    }

    /// Whether a webhook about this order is dead, which may be right: then later ones of the order came all the same.
    fn facts_of_webhook_given_up(&self, order: usize) -> bool {
        let mut jobs = self.db.jobs.all();
        jobs.any(|(_, it)| it.kind == Kind::Webhook && it.order == order && it.state == State::Dead)
    }

    /// The invariants that hold when everything has come to rest.
    pub fn check_at_rest(&mut self) {
        for delivery in 0..self.deliveries.len() {
            self.check_delivery(delivery);
        }
        self.check_calls();
        self.check_events();
    }

    /// Accepted exactly once, and its effect exactly once, unless the job can never succeed (I2, I3).
    fn check_delivery(&mut self, delivery: usize) {
        let jobs = self
            .db
            .jobs
            .all()
            .filter(|(_, it)| it.delivery == Some(delivery));
        let jobs: Vec<_> = jobs.collect();
        let [(id, job)] = jobs[..] else {
            let many = jobs.len();
            self.facts.wrong(&format!(
                "delivery {delivery} was accepted, and became {many} jobs (I1)"
            ));
            return;
        };
        let effects = self.db.effects.all().filter(|(_, it)| it.job == id).count();
        let events = self.db.events.all().filter(|(_, it)| it.job == id).count();
        let behaviour = self.deliveries[delivery].behaviour;
        let expected = usize::from(job.state == State::Done);
        if (effects, events) != (expected, expected) {
            self.facts.wrong(&format!(
                "job {id} of delivery {delivery} is {}, and has {effects} effects and {events} events (I2)",
                job.state
            ));
        }
        self.check_end(id, job.state, behaviour);
    }

    fn check_end(&mut self, id: usize, state: State, behaviour: Behaviour) {
        let may_be_dead = behaviour.is_hopeless() || self.facts.may_be_given_up(id);
        if state == State::Dead && !may_be_dead {
            self.facts
                .wrong(&format!("job {id} is dead, and could have been done (I3)"));
        }
    }

    fn check_calls(&mut self) {
        let refunds: Vec<_> = self.db.refunds.all().collect();
        for (order, refund) in refunds {
            let is_made = self.payments.has_refund(order);
            if refund.state == RefundState::Issued && !is_made {
                self.facts.wrong(&format!(
                    "order {order} counts as refunded, and is not (I2)"
                ));
            }
            if refund.state == RefundState::Requested {
                self.facts
                    .wrong(&format!("nobody refunds order {order} any more (I3)"));
            }
        }
        let calls: Vec<_> = self
            .db
            .jobs
            .all()
            .filter(|(_, it)| it.kind.is_call())
            .collect();
        for (id, job) in calls {
            let behaviour = self.behaviour_of_call(job.kind, job.order);
            self.check_end(id, job.state, behaviour);
        }
    }

    /// The events of each order are numbered without a gap, in the sequence of their ids and of their positions.
    fn check_events(&mut self) {
        let mut events: Vec<_> = self.db.events.all().collect();
        events.sort_by_key(|(id, event)| (event.order, event.id_at, *id));
        for pair in events.windows(2) {
            let [(_, first), (_, second)] = pair else {
                continue;
            };
            let is_next = second.number == first.number + 1 && second.position > first.position;
            if first.order == second.order && !is_next {
                let order = first.order;
                self.facts.wrong(&format!(
                    "the events of order {order} are not in their sequence"
                ));
            }
        }
    }
}
