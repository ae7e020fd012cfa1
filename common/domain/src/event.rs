//! The events that Waybill sends: what happened to an order, a payment, a checkout session, a
//! subscription or a privacy request, and what needs a person. The type of an event, its fields and what each of them
//! means stand here alone. The description of the API and docs/events.md are made of these
//! types, so the comments of variants and fields are the words that readers of both find there.
//! `UPDATE_DOCS=1 cargo test event_documents` writes the tables of the latter anew.
//!
//! An event holds ids and amounts, never personal data. Events are only written: those that an
//! older version stored are read as the JSON that they are, never into these types.

mod catalogue;
mod operator;
mod order;
mod pattern;
mod payment;
mod privacy;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::attention::Condition;

pub use self::catalogue::{EventField, EventType, catalogue};
pub use self::operator::OperatorEvent;
pub use self::order::{OrderEvent, OrderSummary, RequestedLine, RestockedLine, TrackedParcel};
pub use self::pattern::{NotAPattern, Pattern};
pub use self::payment::{CheckoutEvent, DisputedAmount, PaymentEvent, SubscriptionEvent};
pub use self::privacy::{PrivacyEvent, RequestDeadline};

/// Entries of a list in an event. A broker refuses a message that is too large.
pub const MOST_LISTED: usize = 1000;

/// What happened, and to what.
#[derive(Clone, Debug)]
pub enum Event {
    Order(OrderRef, OrderEvent),
    Payment(PaymentRef, PaymentEvent),
    Checkout(SessionRef, CheckoutEvent),
    Subscription(SubscriptionRef, SubscriptionEvent),
    Privacy(RequestRef, PrivacyEvent),
    Operator(ConditionRef, OperatorEvent),
}

/// The order that an event is about.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OrderRef {
    /// the storefront's id of the order
    pub order_id: String,
    /// the shop's domain
    pub shop: String,
}

/// The payment that an event is about.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PaymentRef {
    /// the payment provider's id of the payment
    pub payment_id: String,
}

/// The checkout session that an event is about.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionRef {
    /// the payment provider's id of the session
    pub session_id: String,
}

/// The subscription that an event is about.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SubscriptionRef {
    /// the payment provider's id of the subscription
    pub subscription_id: String,
}

/// The privacy request that an event is about.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RequestRef {
    /// the request's id
    pub request_id: String,
    /// the shop's domain
    pub shop: String,
}

/// The condition that an event is about.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ConditionRef {
    /// the name of the condition, as [observability.md](observability.md#what-needs-a-person) has it
    pub condition: String,
    /// which queue, source, endpoint, .. it is about: a word or an id; empty when it is about no one thing
    pub about: String,
}

/// An event's type, `order.created`, and the fields of its `data`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub kind: String,
    pub data: Value,
}

impl Event {
    pub fn of_order(shop: &str, order_id: i64, what: OrderEvent) -> Self {
        let order = OrderRef {
            order_id: order_id.to_string(),
            shop: shop.to_owned(),
        };
        Event::Order(order, what)
    }

    pub fn of_payment(id: &str, what: PaymentEvent) -> Self {
        let payment_id = id.to_owned();
        Event::Payment(PaymentRef { payment_id }, what)
    }

    pub fn of_checkout(id: &str, what: CheckoutEvent) -> Self {
        let session_id = id.to_owned();
        Event::Checkout(SessionRef { session_id }, what)
    }

    pub fn of_subscription(id: &str, what: SubscriptionEvent) -> Self {
        let subscription_id = id.to_owned();
        Event::Subscription(SubscriptionRef { subscription_id }, what)
    }

    pub fn of_request(shop: &str, id: &str, what: PrivacyEvent) -> Self {
        let request = RequestRef {
            request_id: id.to_string(),
            shop: shop.to_owned(),
        };
        Event::Privacy(request, what)
    }

    pub fn of_condition(condition: Condition, about: &str, what: OperatorEvent) -> Self {
        let condition = ConditionRef {
            condition: condition.into_str().to_owned(),
            about: about.to_owned(),
        };
        Event::Operator(condition, what)
    }

    /// The shop of an order or of a privacy request. What is the payment provider's is of none.
    pub fn shop(&self) -> Option<&str> {
        match self {
            Event::Order(order, _) => Some(&order.shop),
            Event::Privacy(request, _) => Some(&request.shop),
            Event::Payment(..)
            | Event::Checkout(..)
            | Event::Subscription(..)
            | Event::Operator(..) => None,
        }
    }

    /// The id of what it happened to.
    pub fn object_id(&self) -> &str {
        match self {
            Event::Order(order, _) => &order.order_id,
            Event::Payment(payment, _) => &payment.payment_id,
            Event::Checkout(session, _) => &session.session_id,
            Event::Subscription(subscription, _) => &subscription.subscription_id,
            Event::Privacy(request, _) => &request.request_id,
            Event::Operator(condition, _) => &condition.condition,
        }
    }

    /// The event as it is stored and sent.
    pub fn message(&self) -> Message {
        let (subject, mut message) = match self {
            Event::Order(order, what) => (json(order), message(what)),
            Event::Payment(payment, what) => (json(payment), message(what)),
            Event::Checkout(session, what) => (json(session), message(what)),
            Event::Subscription(subscription, what) => (json(subscription), message(what)),
            Event::Privacy(request, what) => (json(request), message(what)),
            Event::Operator(condition, what) => (json(condition), message(what)),
        };
        if let (Value::Object(data), Value::Object(subject)) = (&mut message.data, subject) {
            data.extend(subject);
        }
        message
    }
}

impl PrivacyEvent {
    /// Its own fields, without those of the request: what the audit keeps of it.
    pub fn details(&self) -> Value {
        message(self).data
    }
}

/// The types of events are enums that are tagged with their names, so that each name stands once.
fn message(what: &impl Serialize) -> Message {
    let mut tagged = json(what);
    let data = match tagged["data"].take() {
        Value::Null => Value::Object(serde_json::Map::new()),
        data => data,
    };
    let kind = tagged["type"].as_str().unwrap_or_default().to_owned();
    Message { kind, data }
}

/// Nothing in an event can fail to be JSON: its maps have texts for keys.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
