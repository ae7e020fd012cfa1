//! The events of the payment provider, in the shape of a generation of its API. An event's id is
//! made from its type, its object, and how often such an event has happened to the object, so the
//! same event always has the same id.

use domain::time::Timestamp;
use serde_json::{Map, Value, json};

use super::Generation;
use super::intents::Record;
use super::invoices::{Invoice, Subscription};
use super::sessions::Session;
use super::{objects, sessions};
use crate::sample::{self, mix};
use crate::webhooks::Delivery;

/// The shape of events, and the time at which they are made.
#[derive(Clone, Copy)]
pub struct EventBuilder {
    pub generation: Generation,
    pub now: Timestamp,
}

impl EventBuilder {
    pub fn intent_succeeded(self, record: &Record) -> Delivery {
        self.event(
            "payment_intent.succeeded",
            &record.id,
            0,
            &self.intent(record),
        )
    }

    pub fn intent_failed(self, record: &Record) -> Delivery {
        let object = self.intent(record);
        let kind = "payment_intent.payment_failed";
        self.event(kind, &record.id, record.charges, &object)
    }

    pub fn intent_canceled(self, record: &Record) -> Delivery {
        self.event(
            "payment_intent.canceled",
            &record.id,
            0,
            &self.intent(record),
        )
    }

    /// The event of the last refund, which had this amount.
    pub fn charge_refunded(self, record: &Record, amount: i64) -> Delivery {
        let mut data = object(objects::latest_charge(record, self.generation));
        data["previous_attributes"] = json!({
            "amount_refunded": record.refunded - amount,
            "refunded": false,
        });
        let nth = u64::from(record.refund_count());
        self.event("charge.refunded", &record.id, nth, &data)
    }

    pub fn session_completed(self, session: &Session) -> Delivery {
        self.session("checkout.session.completed", session)
    }

    pub fn session_expired(self, session: &Session) -> Delivery {
        self.session("checkout.session.expired", session)
    }

    pub fn invoice_paid(
        self,
        invoice: &Invoice,
        subscription: &Subscription,
        record: &Record,
    ) -> Delivery {
        let object = object(invoice.object(subscription, record, self.generation));
        self.event("invoice.payment_succeeded", &invoice.id, 0, &object)
    }

    fn session(self, kind: &str, session: &Session) -> Delivery {
        let object = object(sessions::object(session, None, self.now));
        self.event(kind, &session.id, 0, &object)
    }

    fn intent(self, record: &Record) -> Value {
        object(objects::intent(record, self.generation))
    }

    /// The `nth` event of its kind about a subject.
    fn event(self, kind: &str, subject: &str, nth: u64, data: &Value) -> Delivery {
        let seed = mix(subject, nth);
        let version = self.generation.api_version();
        let event = sample::event(kind, seed, self.now.unix_seconds(), version, data);
        let id = event["id"].as_str().unwrap_or_default();
        Delivery::payment(kind, id, format!("{event:#}"))
    }
}

fn object(object: Value) -> Value {
    Value::Object(Map::from_iter([("object".to_owned(), object)]))
}
