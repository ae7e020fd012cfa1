//! The faults of a schedule: how many there are, what they do, and when all of them are over.

use crate::actors::{Actor, Part};
use crate::database::Fate;
use crate::outside::Behaviour;
use crate::random::Random;
use crate::world::{NEVER, START, World, note};

/// Faults come with a step, one in so many times.
const ONCE_IN: usize = 24;
/// After this time there are no more faults.
const STORM: i64 = 20_000;

/// Until when something goes wrong, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    BrokerAway,
    NoQueue,
    DatabaseAway,
    Clock(usize),
}

#[derive(Debug)]
pub struct Faults {
    /// How many are still to come.
    pub left: u32,
    /// From when on nothing goes wrong any more, as far as it is known.
    over_at: i64,
    /// How long it may take to come to rest after that, in milliseconds.
    pub allowance: i64,
    under_way: Vec<(i64, Ends)>,
    next_answer_is_lost: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            left: 0,
            over_at: START,
            allowance: 20_000,
            under_way: Vec::new(),
            next_answer_is_lost: false,
        }
    }
}

impl Faults {
    pub fn are_over(&self) -> bool {
        self.left == 0 && self.under_way.is_empty()
    }

    /// When the next of them ends.
    pub fn ends_at(&self) -> i64 {
        self.under_way
            .iter()
            .map(|(at, _)| *at)
            .min()
            .unwrap_or(NEVER)
    }

    /// Until when everything must have come to rest.
    pub fn bound(&self) -> i64 {
        self.over_at + self.allowance
    }

    /// Something goes wrong until then.
    pub fn disturb(&mut self, until: i64) {
        self.over_at = self.over_at.max(until);
    }

    pub fn loses_answer(&mut self) -> bool {
        std::mem::take(&mut self.next_answer_is_lost)
    }

    fn until(&mut self, at: i64, what: Ends) {
        self.disturb(at);
        self.under_way.push((at, what));
    }
}

/// How much longer it may take to come to rest because a job misbehaves: its pauses, the restarts of processes, and the
/// claims that have to end by themselves, those of others in its process among them.
pub fn allowance(of: Behaviour, is_call: bool) -> i64 {
    match of {
        Behaviour::Succeeds | Behaviour::Refuses => 0,
        Behaviour::Fails(times) | Behaviour::Panics(times) => 15_000 * times,
        Behaviour::Kills(times) => {
            let times = times.min(domain::job::MAX_UNFINISHED_ATTEMPTS + 1);
            45_000 + times * if is_call { 45_000 } else { 10_000 }
        }
    }
}

impl World {
    /// Perhaps something goes wrong now.
    pub fn perhaps_fault(&mut self) {
        if self.faults.left == 0 {
            return;
        }
        if self.now > START + STORM {
            self.faults.left = 0;
        } else if self.random.once_in(ONCE_IN) {
            self.faults.left -= 1;
            self.fault();
            self.faults.disturb(self.now);
        }
    }

    fn fault(&mut self) {
        let process = 1 + self.random.below(self.processes.len() - 1);
        let short = self.random.between(50, 3_000);
        match self.random.below(15) {
            0..3 => self.kill(process, short),
            3 | 4 => self.freeze(process),
            5 => self.lose_connection(),
            6 | 7 => {
                let before = self.random.once_in(2);
                let fate = if before {
                    Fate::LostBefore
                } else {
                    Fate::LostAfter
                };
                note!(self, 0, "the next commit loses its answer: {fate:?}");
                self.db.next_fate = Some(fate);
            }
            8 => self.restart_broker(short),
            9 => self.disconnect(process),
            10 => self.delete_queue(short),
            11 => {
                note!(self, 0, "the database fails over");
                self.db.end_all();
                self.db.is_away = true;
                self.faults.until(self.now + short, Ends::DatabaseAway);
            }
            12 => self.set_clock(process),
            13 => self.trouble_outside(short),
            _ => {
                if self.random.once_in(2) {
                    self.faults.next_answer_is_lost = true;
                } else if !self.broker.is_local {
                    let nth = self.random.below(8);
                    note!(self, 0, "a message is there twice");
                    self.broker.duplicate(nth);
                }
            }
        }
    }

    /// A process is stopped and goes on later, sometimes after the end of its leases, or of a claim that it has.
    fn freeze(&mut self, process: usize) {
        let (process, time) = match self.random.below(4) {
            0 | 1 => (process, self.random.between(50, 2_000)),
            2 => (
                self.sends_webhooks().unwrap_or(process),
                self.random.between(11_000, 20_000),
            ),
            _ => (
                self.facts.caller().unwrap_or(process),
                self.random.between(35_000, 39_000),
            ),
        };
        note!(self, process, "is stopped for {time} ms");
        let until = self.now + time;
        self.processes[process].frozen_until = until;
        self.facts.excuse(process);
        self.faults.disturb(until);
    }

    /// The process that sends a wave of webhooks at this moment.
    fn sends_webhooks(&self) -> Option<usize> {
        let sends =
            |it: &&Actor| matches!(&it.part, Part::Sending(sending) if sending.is_under_way());
        self.actors.iter().find(sends).map(|it| it.process)
    }

    fn lose_connection(&mut self) {
        let open: Vec<_> = self.db.open().collect();
        if !open.is_empty() {
            let tx = open[self.random.below(open.len())];
            note!(self, 0, "the connection of transaction {tx} is lost");
            self.db.rollback(tx);
        }
    }

    fn restart_broker(&mut self, time: i64) {
        if self.broker.is_local {
            return;
        }
        note!(self, 0, "the broker is restarted");
        self.broker.restart();
        self.broker.is_away = true;
        self.faults.until(self.now + time, Ends::BrokerAway);
    }

    fn disconnect(&mut self, process: usize) {
        if self.broker.is_local {
            return;
        }
        note!(self, process, "loses its connection to the broker");
        let stays = self.random.once_in(2);
        self.broker.disconnect(process, stays);
        self.processes[process].link += 1;
    }

    fn delete_queue(&mut self, time: i64) {
        if self.broker.is_local {
            return;
        }
        note!(self, 0, "the queue is deleted");
        self.broker.lose_all();
        if self.random.once_in(2) {
            self.broker.has_no_queue = true;
            self.faults.until(self.now + time, Ends::NoQueue);
        }
    }

    /// The clock of a process is wrong for a while.
    fn set_clock(&mut self, process: usize) {
        let ahead = self.random.between(-90_000, 90_000);
        note!(self, process, "has a clock that is {ahead} ms ahead");
        self.processes[process].ahead = ahead;
        self.facts.excuse(process);
        let time = self.random.between(2_000, 10_000);
        self.faults.until(self.now + time, Ends::Clock(process));
        // What was written with a time in the future is due when that time comes.
        self.faults.disturb(self.now + time + ahead.abs());
    }

    fn trouble_outside(&mut self, short: i64) {
        let time = if self.random.once_in(2) {
            short
        } else {
            self.random.between(5_000, 40_000)
        };
        let until = self.now + time;
        match self.random.below(4) {
            0 => {
                note!(self, 0, "a queue of events refuses some for {short} ms");
                self.receiver.queue_refuses_until = self.now + short;
            }
            1 => {
                note!(self, 0, "the payment provider is slow for {time} ms");
                self.payments.slow_until = until;
            }
            2 => {
                note!(self, 0, "the payment provider fails for {short} ms");
                self.payments.failing_until = self.now + short;
            }
            _ => {
                note!(self, 0, "the endpoint accepts nothing for {short} ms");
                self.receiver.refuses_until = self.now + short;
            }
        }
        self.faults.disturb(until);
    }

    /// Ends what has gone wrong long enough.
    pub fn end_faults(&mut self) {
        if self.faults.ends_at() > self.now {
            return;
        }
        let under_way = std::mem::take(&mut self.faults.under_way);
        for (at, what) in under_way {
            if at > self.now {
                self.faults.under_way.push((at, what));
                continue;
            }
            match what {
                Ends::BrokerAway => self.broker.is_away = false,
                Ends::NoQueue => self.broker.has_no_queue = false,
                Ends::DatabaseAway => self.db.is_away = false,
                Ends::Clock(process) => self.processes[process].ahead = 0,
            }
            note!(self, 0, "it is over: {what:?}");
        }
    }
}

/// How many faults a schedule has: often none or one, so that it is seen which of them did what.
pub fn how_many(random: &mut Random) -> u32 {
    [0, 1, 1, 2, 3, 4][random.below(6)]
}
