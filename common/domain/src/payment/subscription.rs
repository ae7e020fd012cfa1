//! What all paid invoices of a subscription come to: until when it is paid. Invoices come in any
//! sequence, any number of times and several at once. Merging keeps the greatest value of each
//! field, so an invoice never shortens a subscription.

use super::record::Part;
use super::{Event, Object};
use crate::record::{Rest, newest};

#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    /// The time until which the subscription is paid, in Unix seconds.
    pub period_end: Option<i64>,
    #[thing]
    pub customer: Option<Part<String>>,
    /// The id of the agreement that the subscription's licence belongs to.
    #[thing]
    pub pact_id: Option<Part<String>>,
    pub rest: Rest,
}

impl Record {
    /// The id of the subscription that an event pays for, and the record of this event. None for
    /// an invoice that has no subscription, and for an invoice that pays for nothing, such as
    /// that of a trial. An invoice that credit or discounts pay in full does count, because the
    /// customer has the period.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let Object::Invoice(invoice) = &event.object else {
            return None;
        };
        let id = invoice.subscription.as_deref()?;
        if invoice.period_end.is_none() && !invoice.is_of_worth() {
            return None;
        }
        let version = event.version();
        let record = Record {
            period_end: invoice.period_end,
            customer: version.optional_part(invoice.customer.as_ref()),
            pact_id: version.optional_part(invoice.pact_id.as_ref()),
            rest: Rest::default(),
        };
        Some((id, record))
    }

    /// Merges the record of another invoice, newer or older, into this one.
    pub fn merge(&mut self, other: Record) {
        newest(&mut self.period_end, other.period_end);
        newest(&mut self.customer, other.customer);
        newest(&mut self.pact_id, other.pact_id);
    }
}

/// The new end of the paid period in Unix seconds, if `after` extends it.
pub fn extended(before: Option<&Record>, after: &Record) -> Option<i64> {
    let was = before.and_then(|before| before.period_end);
    after.period_end.filter(|_| after.period_end > was)
}
