//! What was done here, counted: a merchant that asks twice must not get twice as much.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::intents::Record;
use super::{Ledger, Payment};
use crate::lock;

impl Payment {
    /// Charges that took the amount, by intent; those without any are not in it.
    pub fn captures(&self) -> BTreeMap<String, u32> {
        let captures = |record: &Record| record.captures;
        lock(&self.ledger).count(captures)
    }

    /// Refunds made, by intent; those without any are not in it.
    pub fn refunds(&self) -> BTreeMap<String, u32> {
        lock(&self.ledger).count(Record::refund_count)
    }

    /// The refunds of an intent in minor units, in the order in which they were made.
    pub fn refund_amounts(&self, intent_id: &str) -> Vec<i64> {
        let ledger = lock(&self.ledger);
        let refunds = ledger.intents.get(intent_id).into_iter();
        let refunds = refunds.flat_map(|record| &record.refunds);
        refunds
            .filter_map(|refund| refund["amount"].as_i64())
            .collect()
    }

    /// What was refunded of an intent, in minor units.
    pub fn refunded(&self, intent_id: &str) -> i64 {
        let ledger = lock(&self.ledger);
        let record = ledger.intents.get(intent_id);
        record.map_or(0, |record| record.refunded)
    }

    /// Confirmations over the API that tried a charge, by `Idempotency-Key`; those without one
    /// are under an empty key.
    pub fn confirms_by_key(&self) -> BTreeMap<String, u32> {
        lock(&self.ledger).confirms.clone()
    }

    /// Checkout sessions made over the API, by `Idempotency-Key`; those without one are under
    /// an empty key.
    pub fn sessions_by_key(&self) -> BTreeMap<String, u32> {
        lock(&self.ledger).sessions_made.clone()
    }

    pub(crate) fn view(&self) -> Value {
        let mut view = self.fault_injector.view();
        let now = self.clock.now();
        let ledger = lock(&self.ledger);
        let intents = ledger.intents.values().map(|record| {
            json!({
                "id": record.id,
                "amount": record.money.minor,
                "currency": record.money.currency.as_str(),
                "status": record.state.name(),
                "captures": record.captures,
                "refunds": record.refund_count(),
                "refunded": record.refunded,
            })
        });
        view["intents"] = intents.collect();
        let sessions = ledger.sessions.values().map(|session| {
            let status = session.status_at(now).name();
            json!({"id": session.id, "status": status, "payment_intent": session.intent})
        });
        view["sessions"] = sessions.collect();
        view["subscriptions"] = ledger.subscriptions.keys().cloned().collect();
        view["confirms_by_key"] = json!(ledger.confirms);
        view["sessions_by_key"] = json!(ledger.sessions_made);
        view["generation"] = json!(ledger.generation);
        view
    }
}

impl Ledger {
    /// A count of each intent that is not 0.
    fn count(&self, of: impl Fn(&Record) -> u32) -> BTreeMap<String, u32> {
        let counts = self.intents.values();
        let counts = counts.map(|record| (record.id.clone(), of(record)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
