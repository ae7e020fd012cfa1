//! Storms of payments: the events of many payments, all shuffled and most of them repeated. A seed
//! decides the whole storm, and each payment's own seed decides what happens to it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use domain::time::Timestamp;

use super::events::EventBuilder;
use super::intents::{Card, Decline, Record};
use super::objects::Wish;
use super::sessions::{LIFETIME, Line, Mode, Session, Status};
use super::{Generation, Intent, Payment};
use crate::sample::{self, Purchase};
use crate::storm::SplitMix64;
use crate::webhooks::Delivery;

#[derive(Clone, Debug)]
pub struct PaymentStorm {
    pub payments: u64,
    /// The seed of the first payment. The others have the seeds after it.
    pub first_seed: u64,
    /// The lives of the payments. They are assigned in turn, seed by seed.
    pub lives: Vec<Life>,
    /// The generations of the API. The next one is used after each round of all lives.
    pub generations: Vec<Generation>,
    /// The least and the greatest number of times that each event is sent.
    pub repeat: RangeInclusive<u32>,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// What happens to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    Succeeded,
    FailedThenSucceeded,
    Canceled,
    /// It is paid, refunded in part, and then refunded in full.
    Refunded,
    /// It is paid in a checkout session.
    Checkout,
}

/// One payment of a storm, with the state that Waybill must have of it after all its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StormPayment {
    pub intent: Intent,
    pub life: Life,
    pub generation: Generation,
    /// The checkout session in which it was paid.
    pub session: Option<String>,
    /// The refunded amount in minor units.
    pub refunded: i64,
    /// The ids of its events, the oldest first.
    pub events: Vec<String>,
}

/// A payment after everything has happened to it, with its events.
struct Lived {
    life: Life,
    generation: Generation,
    record: Record,
    session: Option<Session>,
    events: Vec<Delivery>,
}

impl Life {
    pub const ALL: [Self; 5] = [
        Self::Succeeded,
        Self::FailedThenSucceeded,
        Self::Canceled,
        Self::Refunded,
        Self::Checkout,
    ];
}

impl Default for PaymentStorm {
    fn default() -> Self {
        PaymentStorm {
            payments: 100,
            first_seed: 1,
            lives: Life::ALL.to_vec(),
            generations: Generation::ALL.to_vec(),
            repeat: 1..=3,
            seed: 1,
        }
    }
}

impl PaymentStorm {
    /// The deliveries of the storm. Its payments were made just before `now`.
    pub fn deliveries(&self, now: Timestamp) -> Vec<Delivery> {
        let events = self.lived(now).flat_map(|lived| lived.events);
        let mut chance = SplitMix64(self.seed);
        let mut deliveries = Vec::new();
        for event in events {
            let times = chance.within(&self.repeat);
            deliveries.extend((0..times).map(|_| event.clone()));
        }
        chance.shuffle(&mut deliveries);
        deliveries
    }

    /// The payments with the states that they must have in the end.
    pub fn payments(&self) -> Vec<StormPayment> {
        self.lived(Timestamp(0)).map(StormPayment::of).collect()
    }

    fn lived(&self, now: Timestamp) -> impl Iterator<Item = Lived> {
        let seeds = (0..self.payments).map(|nth| self.first_seed.wrapping_add(nth));
        seeds.filter_map(move |seed| {
            let lives = u64::try_from(self.lives.len()).ok()?;
            let life = turn(&self.lives, seed)?;
            let generation = turn(&self.generations, seed.checked_div(lives)?)?;
            Some(Lived::of(seed, life, generation, now))
        })
    }
}

impl Payment {
    /// Adds the payments of a storm in their final states, so that they can be read and refunded,
    /// and returns the deliveries of the storm. A payment that exists already stays as it is.
    pub fn add_storm(&self, storm: &PaymentStorm) -> Vec<Delivery> {
        self.at_desk(|desk| {
            for Lived {
                record, session, ..
            } in storm.lived(desk.now)
            {
                let (intents, sessions) = {
                    let ledger = &mut *desk.ledger;
                    (&mut ledger.intents, &mut ledger.sessions)
                };
                intents.entry(record.id.clone()).or_insert(record);
                if let Some(session) = session {
                    sessions.entry(session.id.clone()).or_insert(session);
                }
            }
            storm.deliveries(desk.now)
        })
    }
}

impl Lived {
    fn of(seed: u64, life: Life, generation: Generation, now: Timestamp) -> Self {
        let purchase = sample::purchase(seed);
        let at = |seconds_ago: i64| Timestamp(now.0 - seconds_ago * 1000);
        let event_builder = |seconds_ago| EventBuilder {
            generation,
            now: at(seconds_ago),
        };
        let mut record = Record::of(&purchase.intent(), at(60));
        record.customer = Some(purchase.customer.clone());
        record.receipt_email = Some(purchase.email.clone());
        let mut session = None;
        let mut events = Vec::new();
        match life {
            Life::Canceled => {
                record.cancel(Some("requested_by_customer"), at(40));
                events.push(event_builder(40).intent_canceled(&record));
            }
            Life::FailedThenSucceeded => {
                let _ = record.charge(Card::Bad(Decline::InsufficientFunds));
                events.push(event_builder(50).intent_failed(&record));
            }
            Life::Checkout => {
                let paid = purchase.session(at(60));
                record.session = Some(paid.id.clone());
                events.push(event_builder(40).session_completed(&paid));
                session = Some(paid);
            }
            Life::Succeeded | Life::Refunded => {}
        }
        if life != Life::Canceled {
            let _ = record.charge(Card::Good);
            events.push(event_builder(40).intent_succeeded(&record));
        }
        if life == Life::Refunded {
            let part = record.money.minor / 3;
            for (amount, seconds_ago) in [(part, 30), (record.money.minor - part, 20)] {
                let wish = purchase.refund(amount);
                record.refund(&wish, amount, at(seconds_ago));
                events.push(event_builder(seconds_ago).charge_refunded(&record, amount));
            }
        }
        Lived {
            life,
            generation,
            record,
            session,
            events,
        }
    }
}

impl StormPayment {
    fn of(lived: Lived) -> Self {
        let record = lived.record;
        StormPayment {
            intent: Intent {
                amount: record.money.minor,
                currency: record.money.currency,
                pact_id: record.metadata.get("pact_id").cloned(),
                id: record.id,
            },
            life: lived.life,
            generation: lived.generation,
            session: lived.session.map(|session| session.id),
            refunded: record.refunded,
            events: lived.events.into_iter().map(|event| event.id).collect(),
        }
    }
}

impl Purchase {
    fn intent(&self) -> Intent {
        Intent {
            id: self.intent.clone(),
            amount: self.total.minor,
            currency: self.total.currency,
            pact_id: Some(self.agreement.clone()),
        }
    }

    fn refund(&self, amount: i64) -> Wish {
        Wish {
            intent: self.intent.clone(),
            amount: Some(amount),
            reason: None,
            metadata: BTreeMap::new(),
        }
    }

    /// The completed checkout session of the payment.
    fn session(&self, created: Timestamp) -> Session {
        let line = Line {
            name: "Goods".to_owned(),
            price: self.total,
            quantity: 1,
            months: None,
        };
        Session {
            id: self.session.clone(),
            lines: vec![line],
            total: self.total,
            success_url: format!("https://{}/thanks", sample::shop()),
            cancel_url: None,
            client_reference_id: None,
            customer: Some(self.customer.clone()),
            customer_email: Some(self.email.clone()),
            metadata: BTreeMap::from([("pact_id".to_owned(), self.agreement.clone())]),
            created: created.unix_seconds(),
            expires_at: created.unix_seconds() + LIFETIME,
            intent: self.intent.clone(),
            mode: Mode::Payment,
            status: Status::Complete,
        }
    }
}

/// One of a few values, taken in turn.
fn turn<T: Copy>(of: &[T], nth: u64) -> Option<T> {
    let count = u64::try_from(of.len()).ok()?;
    let index = nth.checked_rem(count)?;
    of.get(usize::try_from(index).ok()?).copied()
}
