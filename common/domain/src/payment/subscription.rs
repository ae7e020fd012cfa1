//! What all paid invoices of a subscription, and its own events, come to: until when it is paid. Events come in any
//! sequence, any number of times and several at once.
//!
//! An invoice extends what earlier ones have paid for. One that gives the price of unused time back, because the interval
//! was changed, takes their place. A subscription that has ended is paid until then at most, and no older event revives it.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Part;
use super::{Event, Object};
use crate::record::{Rest, newest};

#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    /// The ends of the periods that invoices have paid for, by when the invoice was made; both in Unix seconds. It has those
    /// alone that no later invoice exceeds or replaces.
    pub periods: BTreeMap<i64, i64>,
    /// When the newest invoice was made that replaces what was paid before.
    pub replaced_at: Option<i64>,
    /// When the subscription ended, in Unix seconds.
    pub ended_at: Option<i64>,
    #[thing]
    pub customer: Option<Part<String>>,
    /// The id of the agreement that the subscription's licence belongs to.
    #[thing]
    pub pact_id: Option<Part<String>>,
    /// The members of its events that could not be read.
    #[thing]
    pub unread: BTreeSet<String>,
    pub rest: Rest,
}

impl Record {
    /// The id of the subscription that an event is about, and the record of this event. None for
    /// an invoice that has no subscription, and for an invoice that pays for nothing, such as
    /// that of a trial. An invoice that credit or discounts pay in full does count, because the
    /// customer has the period.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let version = event.version();
        if let Object::Subscription(subscription) = &event.object {
            let record = Record {
                ended_at: subscription.ended_at,
                customer: version.optional_part(subscription.customer.as_ref()),
                pact_id: version.optional_part(subscription.pact_id.as_ref()),
                unread: event.unread(),
                ..Record::default()
            };
            return Some((&subscription.id, record));
        }
        let Object::Invoice(invoice) = &event.object else {
            return None;
        };
        let id = invoice.subscription.as_deref()?;
        if invoice.period_end.is_none() && !invoice.is_of_worth() {
            return None;
        }
        let made = invoice.created.unwrap_or(event.created);
        let replaces = invoice.credits_unused_time && invoice.period_end.is_some();
        let record = Record {
            periods: invoice
                .period_end
                .map(|end| (made, end))
                .into_iter()
                .collect(),
            replaced_at: replaces.then_some(made),
            customer: version.optional_part(invoice.customer.as_ref()),
            pact_id: version.optional_part(invoice.pact_id.as_ref()),
            unread: event.unread(),
            ..Record::default()
        };
        Some((id, record))
    }

    /// Merges the record of another event, newer or older, into this one.
    pub fn merge(&mut self, other: Record) {
        for (made, end) in other.periods {
            let known = self.periods.entry(made).or_insert(end);
            *known = end.max(*known);
        }
        newest(&mut self.replaced_at, other.replaced_at);
        let from = self.replaced_at.unwrap_or(i64::MIN);
        let mut latest = i64::MIN;
        let counted = self.periods.iter().rev().filter(|(made, end)| {
            let counts = **made >= from && **end > latest;
            latest = latest.max(**end);
            counts
        });
        self.periods = counted.map(|(made, end)| (*made, *end)).collect();
        self.ended_at = match (self.ended_at, other.ended_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        newest(&mut self.customer, other.customer);
        newest(&mut self.pact_id, other.pact_id);
        self.unread.extend(other.unread);
    }

    /// Until when it is paid, in Unix seconds.
    pub fn paid_until(&self) -> Option<i64> {
        let end = self.periods.values().copied().max()?;
        Some(self.ended_at.map_or(end, |ended| end.min(ended)))
    }
}

/// How the time has changed until which a subscription is paid. Times are Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Extended { to: i64 },
    Shortened { from: i64, to: i64 },
}

pub fn change(before: Option<&Record>, after: &Record) -> Option<Change> {
    let to = after.paid_until()?;
    match before.and_then(Record::paid_until) {
        Some(from) if to < from => Some(Change::Shortened { from, to }),
        Some(from) if to == from => None,
        _ => Some(Change::Extended { to }),
    }
}
