//! What all paid invoices of a subscription come to: until when it is paid. Invoices come
//! in any order, any number of times and several at once; the greatest of each field
//! counts, so a subscription is never shortened.

use super::record::{Part, newest};
use super::{Event, Object};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Unix seconds.
    pub period_end: Option<i64>,
    pub customer: Option<Part<String>>,
    /// The agreement that its licence is of.
    pub pact_id: Option<Part<String>>,
}

impl Record {
    /// The subscription that an event pays for, by its id. None of an invoice without one,
    /// and of one for nothing, as a trial's: with money, credit or discounts a period is had,
    /// whatever the invoice comes to.
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
        };
        Some((id, record))
    }

    /// Takes in what another invoice said, newer or older.
    pub fn merge(&mut self, other: Record) {
        newest(&mut self.period_end, other.period_end);
        newest(&mut self.customer, other.customer);
        newest(&mut self.pact_id, other.pact_id);
    }
}

/// The end that a subscription was extended to, if it was.
pub fn extended(before: Option<&Record>, after: &Record) -> Option<i64> {
    let was = before.and_then(|before| before.period_end);
    after.period_end.filter(|_| after.period_end > was)
}
