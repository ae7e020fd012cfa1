//! What a seed stands for: an installation, deliveries, how their jobs behave, and how many faults there are.

use crate::actors::call::PendingCalls;
use crate::actors::ingress::{Notifier, Writer};
use crate::actors::outbox::{Placer, Publisher, Reader};
use crate::actors::sweep::Sweep;
use crate::actors::webhooks::Sending;
use crate::actors::worker::Task;
use crate::actors::{Actor, Part};
use crate::faults::{allowance, how_many};
use crate::outside::{Behaviour, Delivery, Payments, Sender};
use crate::random::Random;
use crate::rows::{Endpoint, Kind};
use crate::rules::Rules;
use crate::world::{OUTSIDE, Process, START, World};

/// What came of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub steps: u32,
    /// How much simulated time passed, in milliseconds.
    pub lasted: i64,
    /// The first invariant that was broken.
    pub broken: Option<String>,
    /// What happened, with [`replay`].
    pub timeline: Vec<String>,
}

/// Runs the schedule of a seed.
pub fn run(seed: u64, rules: Rules) -> Outcome {
    outcome(World::of(seed, rules))
}

/// The same with a timeline.
pub fn replay(seed: u64, rules: Rules) -> Outcome {
    let mut world = World::of(seed, rules);
    world.timeline = Some(world.introduced());
    outcome(world)
}

fn outcome(mut world: World) -> Outcome {
    world.run();
    Outcome {
        steps: world.steps,
        lasted: world.now - START,
        broken: world.facts.broken.take(),
        timeline: world.timeline.take().unwrap_or_default(),
    }
}

fn behaviour(random: &mut Random, is_call: bool) -> Behaviour {
    match random.below(if is_call { 16 } else { 20 }) {
        0 | 1 => Behaviour::Fails(random.between(1, 3)),
        2 => Behaviour::Panics(random.between(1, 2)),
        3 if random.once_in(2) => Behaviour::Kills(random.between(1, 2)),
        3 => Behaviour::Kills(i64::MAX),
        4 => Behaviour::Refuses,
        _ => Behaviour::Succeeds,
    }
}

impl World {
    fn of(seed: u64, rules: Rules) -> World {
        let mut world = World::new(seed, rules);
        let is_embedded = world.random.once_in(5);
        world.broker.is_local = is_embedded;
        world.db.has_one_writer = is_embedded;
        world.add_outside();
        if is_embedded {
            world.add_process("waybill");
            world.add_ingress(1);
            world.add_worker(1);
        } else {
            for nth in 1..=world.random.between(1, 2) {
                let process = world.add_process(&format!("ingress {nth}"));
                world.add_ingress(process);
            }
            for nth in 1..=world.random.between(1, 2) {
                let process = world.add_process(&format!("worker {nth}"));
                world.add_worker(process);
            }
        }
        world.faults.left = how_many(&mut world.random);
        if world.faults.left > 0 {
            world.faults.allowance += 100_000;
        }
        world
    }

    fn add_outside(&mut self) {
        let orders = 1 + self.random.below(3);
        for order in 0..orders {
            let of_call = behaviour(&mut self.random, true);
            self.faults.allowance += allowance(of_call, true);
            self.calls.push(of_call);
            self.db.orders.reserve_to(order + 1);
        }
        for delivery in 0..=self.random.below(6) {
            let behaviour = behaviour(&mut self.random, false);
            self.faults.allowance += allowance(behaviour, false);
            self.deliveries.push(Delivery {
                order: self.random.below(orders),
                cancels: self.random.once_in(3),
                behaviour,
                is_answered: false,
            });
            self.add_sender(delivery);
            if self.random.once_in(4) {
                self.add_sender(delivery);
            }
        }
        self.add(OUTSIDE, Part::Payments(Payments));
        self.add(OUTSIDE, Part::Reader(Reader::default()));
        if self.random.once_in(2) {
            self.receiver.has_endpoint = true;
            self.db.endpoints.put(0, Endpoint { position: 0 });
        }
    }

    fn add_sender(&mut self, delivery: usize) {
        let repeats = u32::from(self.random.once_in(5));
        self.add(OUTSIDE, Part::Sender(Sender::new(delivery, repeats)));
        // Most deliveries come close together, so that they share batches and messages.
        let spread = if self.random.once_in(3) { 1_000 } else { 5 };
        let at = START + self.random.between(0, spread);
        if let Some(sender) = self.actors.last_mut() {
            sender.at = at;
        }
    }

    fn add(&mut self, process: usize, part: Part) {
        let actor = Actor {
            may_be_replaced: false,
            ..Actor::new(process, START, part)
        };
        self.actors.push(actor);
    }

    fn add_process(&mut self, name: &str) -> usize {
        self.processes.push(Process {
            name: name.to_owned(),
            is_up: true,
            started_at: START,
            ..Process::default()
        });
        self.processes.len() - 1
    }

    fn add_ingress(&mut self, process: usize) {
        self.ingresses.push(process);
        self.add(process, Part::Writer(Writer::default()));
        if !self.db.has_one_writer {
            self.add(process, Part::Writer(Writer::default()));
        }
        self.add(process, Part::Notifier(Notifier::default()));
    }

    fn add_worker(&mut self, process: usize) {
        let holder = u32::try_from(process).unwrap_or_default();
        for _ in 0..self.random.between(1, 2) {
            self.add(process, Part::Task(Task::default()));
        }
        self.add(process, Part::PendingCalls(PendingCalls));
        self.add(process, Part::Sweep(Sweep::new(holder)));
        self.add(process, Part::Placer(Placer));
        if !self.broker.is_local {
            self.add(process, Part::Publisher(Publisher::new(holder)));
        }
        if self.receiver.has_endpoint {
            self.add(process, Part::Sending(Sending::new(holder)));
        }
    }

    /// How the call of a kind about an order behaves.
    pub fn behaviour_of_call(&self, kind: Kind, order: usize) -> Behaviour {
        match kind {
            Kind::Refund => self.calls[order],
            Kind::Webhook | Kind::Delivery => Behaviour::Succeeds,
        }
    }

    fn introduced(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let names: Vec<&str> = self
            .processes
            .iter()
            .skip(1)
            .map(|it| it.name.as_str())
            .collect();
        lines.push(format!(
            "processes: {}; faults: {}",
            names.join(", "),
            self.faults.left
        ));
        for (number, it) in self.deliveries.iter().enumerate() {
            let cancels = if it.cancels { ", which it cancels" } else { "" };
            let (order, behaviour) = (it.order, it.behaviour);
            lines.push(format!(
                "delivery {number} is about order {order}{cancels}: {behaviour:?}"
            ));
        }
        lines.push(format!("the refunds of the orders: {:?}", self.calls));
        lines
    }
}
