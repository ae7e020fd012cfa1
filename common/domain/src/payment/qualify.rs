//! The ids of an event as they count within its connection (`crate::connection`). Ids of what belongs to one object
//! alone, such as its refunds and its items, stay as they are.

use super::{
    Charge, Dispute, Event, Intent, Invoice, InvoicePayment, Metadata, Object, Refund, Session,
    Subscription,
};
use crate::connection::qualify;

impl Event {
    /// Gives every id, and the agreement, the name of the connection that brought the event.
    pub fn qualify(&mut self, connection: &str) {
        for id in self.object.ids() {
            qualify(connection, id);
        }
    }
}

impl Object {
    fn ids(&mut self) -> impl Iterator<Item = &mut String> {
        let ids: Vec<Option<&mut String>> = match self {
            Object::Intent(Intent {
                id,
                customer,
                charge,
                invoice,
                error,
                metadata: Metadata { pact_id, .. },
                ..
            }) => {
                let of_error = error.as_mut().and_then(|error| error.charge.as_mut());
                vec![
                    Some(id),
                    customer.as_mut(),
                    charge.as_mut(),
                    invoice.as_mut(),
                    of_error,
                    pact_id.as_mut(),
                ]
            }
            Object::Charge(Charge {
                id,
                payment_intent,
                customer,
                invoice,
                metadata: Metadata { pact_id, .. },
                ..
            }) => vec![
                Some(id),
                payment_intent.as_mut(),
                customer.as_mut(),
                invoice.as_mut(),
                pact_id.as_mut(),
            ],
            Object::Refund(Refund { payment_id, .. })
            | Object::Dispute(Dispute { payment_id, .. }) => {
                vec![payment_id.as_mut()]
            }
            Object::Session(Session {
                id,
                payment_intent,
                subscription,
                invoice,
                customer,
                metadata: Metadata { pact_id, .. },
                ..
            }) => vec![
                Some(id),
                payment_intent.as_mut(),
                subscription.as_mut(),
                invoice.as_mut(),
                customer.as_mut(),
                pact_id.as_mut(),
            ],
            Object::Invoice(Invoice {
                id,
                subscription,
                customer,
                pact_id,
                charge,
                payment_intent,
                ..
            }) => vec![
                Some(id),
                subscription.as_mut(),
                customer.as_mut(),
                pact_id.as_mut(),
                charge.as_mut(),
                payment_intent.as_mut(),
            ],
            Object::InvoicePayment(InvoicePayment {
                invoice,
                payment_id,
            }) => {
                vec![Some(invoice), payment_id.as_mut()]
            }
            Object::Subscription(Subscription {
                id,
                customer,
                pact_id,
                ..
            }) => vec![Some(id), customer.as_mut(), pact_id.as_mut()],
        };
        ids.into_iter().flatten()
    }
}
