//! Events of one payment, and the histories that they make.

use domain::payment::record::Record;
use domain::payment::{Event, EventType};
use serde_json::json;

/// The facts that one event reports, independent of how events are read and merged.
#[derive(Clone, Debug)]
pub struct EventFacts {
    pub kind: EventType,
    pub created: i64,
    pub id: String,
    pub amount: i64,
    /// The amount that was received or refunded.
    pub moved: i64,
    /// The charge of the attempt that failed.
    pub charge: Option<&'static str>,
    pub agreement: Option<&'static str>,
    pub customer: Option<&'static str>,
    pub currency: &'static str,
}

impl EventFacts {
    fn new(kind: EventType, created: i64, id: &str, moved: i64) -> Self {
        EventFacts {
            kind,
            created,
            id: format!("evt_{id}"),
            amount: 1000,
            moved,
            charge: None,
            agreement: None,
            customer: None,
            currency: "USD",
        }
    }

    fn linked(self, agreement: Option<&'static str>, customer: Option<&'static str>) -> Self {
        EventFacts {
            agreement,
            customer,
            ..self
        }
    }

    pub fn record(&self) -> Record {
        let of = |kind| self.kind == kind;
        let succeeded = of(EventType::IntentSucceeded);
        let object = if of(EventType::ChargeRefunded) {
            json!({
                "id": "ch_9", "object": "charge", "payment_intent": "pi_7",
                "amount": self.amount, "amount_refunded": self.moved,
                "refunded": self.moved == self.amount,
                "currency": self.currency, "customer": self.customer,
                "metadata": {"pact_id": self.agreement},
            })
        } else {
            let status = match self.kind {
                EventType::IntentSucceeded => "succeeded",
                EventType::IntentCanceled => "canceled",
                _ => "requires_payment_method",
            };
            json!({
                "id": "pi_7", "object": "payment_intent", "status": status,
                "amount": self.amount, "amount_received": if succeeded { self.moved } else { 0 },
                "last_payment_error": {"code": "card_declined", "charge": self.charge},
                "currency": self.currency, "customer": self.customer,
                "metadata": {"pact_id": self.agreement},
            })
        };
        let body = json!({
            "id": self.id, "object": "event", "created": self.created,
            "type": self.kind.into_str(), "data": {"object": object},
        });
        let event = Event::read(body.to_string().as_bytes()).expect("an event");
        let (id, record) = Record::of(&event).expect("a payment");
        assert_eq!(id, "pi_7");
        record
    }
}

/// The life of a payment, in which three changes are reported by two events each.
pub fn life() -> Vec<EventFacts> {
    let failed = |created, id, charge| EventFacts {
        charge,
        ..EventFacts::new(EventType::IntentFailed, created, id, 0)
    };
    let succeeded = |created, id| EventFacts::new(EventType::IntentSucceeded, created, id, 1000);
    let refunded =
        |created, id, moved| EventFacts::new(EventType::ChargeRefunded, created, id, moved);
    vec![
        failed(1, "a", Some("ch_1")),
        failed(1, "b", Some("ch_1")),
        failed(2, "c", None),
        EventFacts::new(EventType::IntentCanceled, 3, "d", 0),
        succeeded(4, "e"),
        succeeded(4, "f").linked(Some("P"), Some("C")),
        refunded(5, "g", 300),
        refunded(5, "h", 300).linked(Some("P"), None),
        refunded(6, "i", 1000).linked(None, Some("C")),
    ]
}

/// What providers might also send: equal seconds, other agreements and customers, amounts that
/// grow and shrink, more refunded than received, another currency, an id that is used twice.
pub fn pool() -> Vec<EventFacts> {
    let mut pool = life();
    let kinds = [
        EventType::IntentFailed,
        EventType::IntentCanceled,
        EventType::IntentSucceeded,
        EventType::ChargeRefunded,
    ];
    // No other attempt comes between two events of one attempt.
    let links = [
        (2, None, None, None),
        (3, Some("ch_3"), Some("P"), None),
        (4, Some("ch_4"), None, Some("C")),
        (2, None, Some("P"), Some("D")),
        (3, Some("ch_3"), Some("Q"), Some("C")),
    ];
    for (index, (created, charge, agreement, customer)) in (0..).zip(links) {
        for kind in kinds {
            for moved in [0, 250 * index, 1000, 1200] {
                let id = format!("{}{index}{moved}", kind.into_str());
                let facts = EventFacts::new(kind, created, &id, moved).linked(agreement, customer);
                pool.push(EventFacts { charge, ..facts });
            }
        }
    }
    for kind in kinds {
        let euros = EventFacts::new(kind, 4, "euros", 400).linked(Some("P"), None);
        pool.push(EventFacts {
            currency: "EUR",
            ..euros
        });
        pool.push(EventFacts::new(kind, 4, "twice", 500).linked(Some("Q"), Some("D")));
        pool.push(EventFacts::new(kind, 4, "twice", 600).linked(Some("P"), Some("C")));
        pool.push(EventFacts {
            amount: i64::MAX,
            ..EventFacts::new(kind, 0, "all", i64::MAX)
        });
    }
    pool
}

/// Runs `check` on every history of 1 to `length` events out of `count`.
pub fn every_history(count: usize, length: usize, mut check: impl FnMut(&[usize])) -> usize {
    let mut histories = 0;
    for length in 1..=length {
        let mut history = vec![0; length];
        loop {
            check(&history);
            histories += 1;
            let Some(last) = history.iter().rposition(|index| index + 1 < count) else {
                break;
            };
            history[last] += 1;
            history[last + 1..].fill(0);
        }
    }
    histories
}

pub fn merge(a: &Record, b: &Record) -> Record {
    let mut merged = a.clone();
    merged.merge(b.clone());
    merged
}

pub fn recorded(pool: Vec<EventFacts>) -> Vec<(EventFacts, Record)> {
    let record = |facts: EventFacts| {
        let record = facts.record();
        (facts, record)
    };
    pool.into_iter().map(record).collect()
}
