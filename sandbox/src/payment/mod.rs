//! The payment provider: intents, refunds, checkout sessions and subscriptions, over its API
//! and on pages for people; every change is reported in an event.
//!
//! An answer is kept by its idempotency key, be it a failure, and given again with the header
//! `Idempotent-Replayed`. That a parameter was wrong is not kept, so the same key may then be used
//! for what was meant.

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

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use domain::money::{Currency, Money};
use platform::clock::Clock;

pub use api::error;
pub use generation::Generation;
pub use storm::{Life, PaymentStorm, StormPayment};

use crate::delivery_faults::DeliveryFaults;
use crate::fault_injector::{FaultInjector, Provider};
use crate::lock;
use crate::webhook_sender::WebhookSender;
use call::Kept;
use desk::Desk;
use intents::{Card, Record, State};
use invoices::{Invoice, Subscription};
use sessions::{Line, Session};

/// Clones share their state.
#[derive(Clone)]
pub struct Payment {
    /// Counts requests, and makes them fail.
    pub fault_injector: FaultInjector,
    clock: Clock,
    webhook_sender: Option<WebhookSender>,
    url: Arc<str>,
    ledger: Arc<Mutex<Ledger>>,
}

/// A payment to be known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// `pi_..`
    pub id: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// For its metadata; an intent that Waybill did not ask for has none.
    pub pact_id: Option<String>,
}

/// A price that checkout sessions may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// `price_..`
    pub id: String,
    /// What is bought for it.
    pub name: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// The period of a subscription; None: paid once.
    pub months: Option<u32>,
}

#[derive(Default)]
struct Ledger {
    generation: Generation,
    intents: BTreeMap<String, Record>,
    sessions: BTreeMap<String, Session>,
    subscriptions: BTreeMap<String, Subscription>,
    invoices: BTreeMap<String, Invoice>,
    prices: BTreeMap<String, Line>,
    answers: BTreeMap<String, Kept>,
    /// So many of the next requests fail in the middle of the work.
    breaks: u32,
    /// Confirmations that tried a charge, by idempotency key.
    confirms: BTreeMap<String, u32>,
    /// Sessions by the idempotency key that made them.
    sessions_made: BTreeMap<String, u32>,
}

/// The API and the pages.
pub fn routes(payment: Payment) -> Router {
    api::routes(payment.clone()).merge(page::routes(payment))
}

impl Payment {
    /// `url` is where its API and pages are.
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
            clock,
            webhook_sender,
            url: url.into(),
            ledger: Arc::new(Mutex::new(ledger)),
        }
    }

    /// The shape of objects and events from now on.
    pub fn set_generation(&self, generation: Generation) {
        lock(&self.ledger).generation = generation;
    }

    /// How events are delivered from now on. Without webhooks there is nothing to deliver.
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

    /// Makes a captured intent. One that is there already stays as it is.
    pub fn add_intent(&self, intent: Intent) {
        self.at_desk(|desk| {
            let mut record = Record::of(&intent, desk.now);
            // A good card is never declined.
            let _ = record.charge(Card::Good);
            desk.ledger.intents.entry(intent.id).or_insert(record);
        });
    }

    /// Makes a price known, in place of one with the same id.
    pub fn add_price(&self, price: Price) {
        let Price {
            id,
            name,
            amount,
            currency,
            months,
        } = price;
        let line = Line {
            name,
            price: Money {
                minor: amount,
                currency,
            },
            quantity: 1,
            months,
        };
        lock(&self.ledger).prices.insert(id, line);
    }

    /// Posts the event `payment_intent.succeeded` of an intent. False when there is no such
    /// intent that was paid, or nowhere to post to.
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

    /// The next requests that change something end in a 500 of the provider's own, which is kept
    /// as the answer to their keys; unlike an injected fault, which is before it.
    pub fn break_next(&self, times: u32) {
        lock(&self.ledger).breaks = times;
    }

    /// The bank pays an intent that is `processing`. False when there is no such intent.
    pub fn settle(&self, intent_id: &str) -> bool {
        self.at_desk(|desk| desk.settle(intent_id)).is_ok()
    }

    /// Bills the next period of a subscription, of its usual length when none is given.
    /// Returns the invoice's id, or what is wrong.
    pub fn bill(&self, subscription: &str, months: Option<u32>) -> Result<String, String> {
        let billed = self.at_desk(|desk| desk.bill(subscription, months));
        billed.map_err(|error| error.message().to_owned())
    }

    /// Does a piece of work on the ledger, then sends its events.
    fn at_desk<T>(&self, work: impl FnOnce(&mut Desk) -> T) -> T {
        let mut desk = Desk {
            ledger: lock(&self.ledger),
            clock: &self.clock,
            now: self.clock.now(),
            url: &self.url,
            events: Vec::new(),
        };
        let done = work(&mut desk);
        if let Some(webhook_sender) = &self.webhook_sender {
            desk.events
                .drain(..)
                .for_each(|event| webhook_sender.send(event));
        }
        done
    }
}
