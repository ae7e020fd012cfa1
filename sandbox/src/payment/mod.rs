//! The payment provider: intents that were paid, and the refunds of them.
//!
//! An answer is kept by its idempotency key when it had an effect; a refusal is not, so the
//! same request may succeed later.

mod api;
mod objects;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::clock::Clock;
use common::money::Currency;
use serde_json::{Value, json};

pub use api::{error, routes};

use crate::gate::{Gate, Provider};
use crate::lock;
use crate::outbox::Outbox;

/// Clones share their state.
#[derive(Clone)]
pub struct Payment {
    /// Counts requests, and makes them fail.
    pub gate: Gate,
    clock: Clock,
    outbox: Option<Outbox>,
    ledger: Arc<Mutex<Ledger>>,
}

/// A payment to be known here.
#[derive(Clone, Debug)]
pub struct Intent {
    /// `pi_..`
    pub id: String,
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// For its metadata; an intent that Waybill did not ask for has none.
    pub pact_id: Option<String>,
}

#[derive(Default)]
struct Ledger {
    intents: BTreeMap<String, Captured>,
    /// What was asked and answered by idempotency key.
    answers: BTreeMap<String, (Parameters, Value)>,
}

/// An intent whose amount was taken.
struct Captured {
    intent: Intent,
    /// Unix seconds.
    created: i64,
    refunds: Vec<Value>,
    refunded: i64,
}

/// The pairs of a form, sorted.
type Parameters = Vec<(String, String)>;

/// The refund that a request asks for.
struct Wish {
    intent: String,
    /// All that is left, when it is not given.
    amount: Option<i64>,
    reason: Option<String>,
    metadata: BTreeMap<String, String>,
}

/// Why nothing was refunded.
enum Refusal {
    UnknownIntent,
    NothingLeft,
    TooMuch {
        left: i64,
    },
    /// The key was used with other parameters.
    KeyReused,
}

enum Answer {
    New(Value),
    Again(Value),
}

impl Payment {
    pub(crate) fn new(clock: Clock, outbox: Option<Outbox>) -> Self {
        Payment {
            gate: Gate::new(Provider::Payment),
            clock,
            outbox,
            ledger: Arc::default(),
        }
    }

    /// Makes a captured intent. One that is there already stays as it is.
    pub fn add_intent(&self, intent: Intent) {
        let captured = Captured {
            created: self.clock.now().unix_seconds(),
            refunds: Vec::new(),
            refunded: 0,
            intent,
        };
        let intents = &mut lock(&self.ledger).intents;
        intents
            .entry(captured.intent.id.clone())
            .or_insert(captured);
    }

    /// Posts the event `payment_intent.succeeded` of an intent. False when the intent is
    /// unknown, or there is nowhere to post to.
    pub fn post_succeeded(&self, intent_id: &str) -> bool {
        let ledger = lock(&self.ledger);
        let Some((captured, outbox)) = ledger.intents.get(intent_id).zip(self.outbox.as_ref())
        else {
            return false;
        };
        outbox.send(objects::succeeded(captured, self.clock.now()));
        true
    }

    /// Refunds made, by intent; those without any are not in it.
    pub fn refunds(&self) -> BTreeMap<String, u32> {
        let ledger = lock(&self.ledger);
        let refunded = ledger.intents.iter();
        let refunded = refunded.filter(|(_, captured)| !captured.refunds.is_empty());
        refunded
            .map(|(id, captured)| (id.clone(), captured.count()))
            .collect()
    }

    /// What was refunded of an intent, in minor units.
    pub fn refunded(&self, intent_id: &str) -> i64 {
        let ledger = lock(&self.ledger);
        let captured = ledger.intents.get(intent_id);
        captured.map_or(0, |captured| captured.refunded)
    }

    pub(crate) fn view(&self) -> Value {
        let mut view = self.gate.view();
        let ledger = lock(&self.ledger);
        let intents = ledger.intents.values().map(|captured| {
            json!({
                "id": captured.intent.id,
                "amount": captured.intent.amount,
                "currency": captured.intent.currency.as_str(),
                "refunds": captured.count(),
                "refunded": captured.refunded,
            })
        });
        view["intents"] = intents.collect();
        view
    }

    fn intent(&self, id: &str) -> Option<Value> {
        let ledger = lock(&self.ledger);
        ledger.intents.get(id).map(objects::intent)
    }

    /// Refunds, or answers what the same key was answered before.
    fn refund(&self, wish: &Wish, key: Option<(&str, Parameters)>) -> Result<Answer, Refusal> {
        let mut ledger = lock(&self.ledger);
        let Ledger { intents, answers } = &mut *ledger;
        if let Some((key, parameters)) = &key
            && let Some((asked, refund)) = answers.get(*key)
        {
            let same = asked == parameters;
            return same
                .then(|| Answer::Again(refund.clone()))
                .ok_or(Refusal::KeyReused);
        }
        let captured = intents.get_mut(&wish.intent);
        let captured = captured.ok_or(Refusal::UnknownIntent)?;
        let left = captured.intent.amount - captured.refunded;
        let amount = wish.amount.unwrap_or(left);
        if left == 0 {
            return Err(Refusal::NothingLeft);
        }
        if amount > left {
            return Err(Refusal::TooMuch { left });
        }
        let now = self.clock.now();
        let refund = objects::refund(captured, wish, amount, now);
        captured.refunded += amount;
        captured.refunds.push(refund.clone());
        if let Some((key, parameters)) = key {
            answers.insert(key.to_owned(), (parameters, refund.clone()));
        }
        if let Some(outbox) = &self.outbox {
            outbox.send(objects::charge_refunded(captured, amount, now));
        }
        Ok(Answer::New(refund))
    }
}

impl Captured {
    /// How many refunds there are.
    fn count(&self) -> u32 {
        u32::try_from(self.refunds.len()).unwrap_or(u32::MAX)
    }
}
