//! Counts of what the stand-in did. Tests check with them that asking twice had an effect only
//! once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::intents::Record;
use super::{Ledger, Payment};
use crate::lock;

impl Payment {
    /// How many charges of each intent took the amount. Intents without such a charge are left
    /// out.
    pub fn captures(&self) -> BTreeMap<String, u32> {
        let captures = |record: &Record| record.captures;
        lock(&self.ledger).count(captures)
    }

    /// How many refunds of each intent were made. Intents without a refund are left out.
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

    /// How much of an intent was refunded, in minor units.
    pub fn refunded(&self, intent_id: &str) -> i64 {
        let ledger = lock(&self.ledger);
        let record = ledger.intents.get(intent_id);
        record.map_or(0, |record| record.refunded)
    }

    /// How many confirmations over the API tried a charge, by `Idempotency-Key`. Those without a
    /// key are under an empty key.
    pub fn confirms_by_key(&self) -> BTreeMap<String, u32> {
        lock(&self.ledger).confirms.clone()
    }

    /// How many checkout sessions were made over the API, by `Idempotency-Key`. Those without a
    /// key are under an empty key.
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
    /// A count for each intent, without those that are 0.
    fn count(&self, of: impl Fn(&Record) -> u32) -> BTreeMap<String, u32> {
        let counts = self.intents.values();
        let counts = counts.map(|record| (record.id.clone(), of(record)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
