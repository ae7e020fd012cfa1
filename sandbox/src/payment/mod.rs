//! The stand-in for the payment provider: intents, refunds, checkout sessions and subscriptions,
//! over its API and on pages for people. Every change is reported in an event.
//!
//! The answer to an idempotency key is kept, even if it is a failure, and given again with the
//! header `Idempotent-Replayed`. The error that a parameter was wrong is not kept, so the client
//! can use the same key for the corrected request.

mod api;
mod basket;
mod billing;
mod call;
mod checkout;
mod counts;
mod currencies;
mod desk;
mod error;
mod events;
mod form;
mod generation;
mod intents;
mod invoices;
mod objects;
mod page;
mod sessions;
mod storm;
mod subscriptions;

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use axum::Router;
use domain::money::{Currency, Money};
use platform::clock::Clock;
use serde_json::Value;

pub use api::error;
pub use generation::Generation;
pub use storm::{Life, PaymentStorm, StormPayment};

use crate::delivery_faults::DeliveryFaults;
use crate::fault_injector::{FaultInjector, Provider};
use crate::lock;
use crate::subscriptions::Subscriptions;
use crate::webhook_sender::WebhookSender;
use crate::webhooks::Delivery;
use call::Kept;
use desk::Desk;
use intents::{Card, Record, State};
use invoices::{Invoice, Subscription};
use sessions::{Line, Session};

/// The stand-in for the payment provider. All clones share their state.
#[derive(Clone)]
pub struct Payment {
    /// The fault injector, which counts requests and plays faults.
    pub fault_injector: FaultInjector,
    pub subscriptions: Subscriptions,
    clock: Clock,
    webhook_sender: Option<WebhookSender>,
    url: Arc<str>,
    ledger: Arc<Mutex<Ledger>>,
}

/// A payment that a test adds to the stand-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// `pi_..`
    pub id: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// The agreement in its metadata. An intent that Waybill did not ask for has none.
    pub pact_id: Option<String>,
}

/// A price that checkout sessions may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// `price_..`
    pub id: String,
    /// The name of the article.
    pub name: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// The period of a subscription. `None`: the price is paid once.
    pub months: Option<u32>,
}

/// How many events are listed: the newest.
const MOST_EVENTS: usize = 20_000;

#[derive(Default)]
struct Ledger {
    /// What happened, in its sequence.
    events: VecDeque<Delivery>,
    generation: Generation,
    intents: BTreeMap<String, Record>,
    sessions: BTreeMap<String, Session>,
    subscriptions: BTreeMap<String, Subscription>,
    invoices: BTreeMap<String, Invoice>,
    prices: BTreeMap<String, Line>,
    answers: BTreeMap<String, Kept>,
    /// How many of the next requests fail in the middle of their work.
    breaks: u32,
    /// How many confirmations tried a charge, by idempotency key.
    confirms: BTreeMap<String, u32>,
    /// Sessions by the idempotency key that made them.
    sessions_made: BTreeMap<String, u32>,
}

impl Ledger {
    fn remember(&mut self, event: Delivery) {
        self.events.push_back(event);
        if self.events.len() > MOST_EVENTS {
            self.events.pop_front();
        }
    }
}

fn created(event: &Delivery) -> i64 {
    let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    body["created"].as_i64().unwrap_or_default()
}

/// The routes of the API and of the pages.
pub fn routes(payment: Payment) -> Router {
    api::routes(payment.clone()).merge(page::routes(payment))
}

impl Payment {
    /// `url` is the address of its API and pages.
    pub(crate) fn new(
        url: &str,
        generation: Generation,
        clock: Clock,
        webhook_sender: Option<WebhookSender>,
    ) -> Self {
        let ledger = Ledger {
            generation,
            ..Ledger::default()
        };
        Payment {
            fault_injector: FaultInjector::new(Provider::Payment),
            subscriptions: Subscriptions::default(),
            clock,
            webhook_sender,
            url: url.into(),
            ledger: Arc::new(Mutex::new(ledger)),
        }
    }

    /// Sets the shape of objects and events from now on.
    pub fn set_generation(&self, generation: Generation) {
        lock(&self.ledger).generation = generation;
    }

    /// Sets the delivery faults of events from now on. Without webhooks this has no effect.
    pub fn set_delivery_faults(&self, delivery_faults: DeliveryFaults) {
        if let Some(webhook_sender) = &self.webhook_sender {
            webhook_sender.set_delivery_faults(delivery_faults);
        }
    }

    /// Posts the events that are held back to be shuffled.
    pub fn release(&self) {
        if let Some(webhook_sender) = &self.webhook_sender {
            webhook_sender.release();
        }
    }

    /// Makes a captured intent. An intent that exists already stays as it is.
    pub fn add_intent(&self, intent: Intent) {
        self.at_desk(|desk| {
            let mut record = Record::of(&intent, desk.now);
            // The bank never declines a good card.
            let _ = record.charge(Card::Good);
            desk.ledger.intents.entry(intent.id).or_insert(record);
        });
    }

    /// Adds a price, in place of one with the same id.
    pub fn add_price(&self, price: Price) {
        let (minor, currency) = (price.amount, price.currency);
        let line = Line {
            name: price.name,
            price: Money { minor, currency },
            quantity: 1,
            months: price.months,
        };
        lock(&self.ledger).prices.insert(price.id, line);
    }

    /// Posts the event `payment_intent.succeeded` of an intent. Returns `false` if there is no
    /// such paid intent, or no address to post to.
    pub fn post_succeeded(&self, intent_id: &str) -> bool {
        self.at_desk(|desk| {
            let record = desk.ledger.intents.get(intent_id);
            let Some(record) = record.filter(|record| record.state == State::Succeeded) else {
                return false;
            };
            let event = desk.event_builder().intent_succeeded(record);
            desk.events.push(event);
            self.webhook_sender.is_some()
        })
    }

    /// Lets the next requests that change something fail with a 500 in the middle of their work.
    /// This answer is kept for their keys, unlike an injected fault, which happens before the
    /// request reaches the provider.
    pub fn break_next(&self, times: u32) {
        lock(&self.ledger).breaks = times;
    }

    /// Lets the bank pay an intent that is `processing`. Returns `false` if there is no such
    /// intent.
    pub fn settle(&self, intent_id: &str) -> bool {
        self.at_desk(|desk| desk.settle(intent_id)).is_ok()
    }

    /// Bills the next period of a subscription, with its usual length if none is given. Returns
    /// the invoice's id, or the error.
    pub fn bill(&self, subscription: &str, months: Option<u32>) -> Result<String, String> {
        let billed = self.at_desk(|desk| desk.bill(subscription, months));
        billed.map_err(|error| error.message().to_owned())
    }

    /// Carries out work on the state under its lock, and then sends the events of this work.
    fn at_desk<T>(&self, work: impl FnOnce(&mut Desk) -> T) -> T {
        let mut desk = Desk {
            ledger: lock(&self.ledger),
            clock: &self.clock,
            now: self.clock.now(),
            url: &self.url,
            events: Vec::new(),
        };
        let done = work(&mut desk);
        let events: Vec<Delivery> = desk.events.drain(..).collect();
        for event in &events {
            desk.ledger.remember(event.clone());
        }
        drop(desk);
        if let Some(webhook_sender) = &self.webhook_sender {
            for event in events {
                webhook_sender.send(event);
            }
        }
        done
    }

    /// The time as the header `Date` has it.
    fn date(&self) -> String {
        self.clock.now().to_http_date()
    }

    /// Lists an event that a test has made.
    pub fn remember(&self, event: Delivery) {
        lock(&self.ledger).remember(event);
    }

    /// The events of a period after another one, the newest first, and whether there are more. None when there is no such
    /// other event.
    fn events(
        &self,
        period: &RangeInclusive<i64>,
        after: Option<&str>,
        limit: usize,
    ) -> Option<(Vec<Value>, bool)> {
        let ledger = lock(&self.ledger);
        let mut listed: Vec<(i64, &Delivery)> = ledger
            .events
            .iter()
            .map(|event| (created(event), event))
            .filter(|(at, _)| period.contains(at))
            .collect();
        // What happened in one second comes in the sequence in which it happened.
        listed.reverse();
        listed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        if let Some(after) = after {
            let place = listed.iter().position(|(_, event)| event.id == after)?;
            listed.drain(..=place);
        }
        let is_more = listed.len() > limit;
        let bodies = listed.into_iter().take(limit);
        let bodies = bodies.filter_map(|(_, event)| serde_json::from_str(&event.body).ok());
        Some((bodies.collect(), is_more))
    }
}
