//! What all paid invoices of a subscription, and its own events, come to: until when it is paid. Events come in any
//! sequence, any number of times and several at once.
//!
//! An invoice extends what earlier ones have paid for. One that gives the price of unused time back, because the interval
//! was changed, takes their place. One whose payment went back pays for nothing. A subscription that has ended is paid until
//! then at most, and no older event revives it. What is said of the whole subscription is said of each of its items too: of a price
//! or a product, by which a licence can name the item that carries its tier.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::record::Part;
use super::{Event, Object};
use crate::record::{Rest, newest, things};

#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    /// What its latest invoices have paid for, by their ids.
    pub invoices: BTreeMap<String, Billed>,
    /// The invoices of these whose payments went back. The events of the payments say it, so merging leaves it as it is.
    #[thing]
    pub returned: BTreeSet<String>,
    /// When the subscription ended, in Unix seconds.
    pub ended_at: Option<i64>,
    #[thing]
    pub customer: Option<Part<String>>,
    /// The id of the agreement that the subscription's licence belongs to.
    #[thing]
    pub pact_id: Option<Part<String>>,
    pub rest: Rest,
}

/// What an invoice has paid for, in Unix seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Billed {
    /// When it was made.
    pub made: i64,
    /// The end of the latest period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// True when it takes the place of what earlier invoices have paid for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// The end of each price and product.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub items: BTreeMap<String, i64>,
    /// The time from which each price or product is given back.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credited: BTreeMap<String, i64>,
}

things!(Billed);

/// How many invoices of a subscription are kept: those of more than eight years of months. Those without a period go first.
const INVOICES: usize = 100;

impl Billed {
    fn merge(&mut self, other: Billed) {
        self.made = self.made.min(other.made);
        newest(&mut self.end, other.end);
        self.replaces |= other.replaces;
        for (item, end) in other.items {
            let known = self.items.entry(item).or_insert(end);
            *known = end.max(*known);
        }
        for (item, from) in other.credited {
            let known = self.credited.entry(item).or_insert(from);
            *known = from.min(*known);
        }
    }
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
                ..Record::default()
            };
            return Some((&subscription.id, record));
        }
        let Object::Invoice(invoice) = &event.object else {
            return None;
        };
        let id = invoice.subscription.as_deref()?;
        let says_nothing = invoice.period_end.is_none() && invoice.credited.is_empty();
        if says_nothing && !invoice.is_of_worth() {
            return None;
        }
        let billed = Billed {
            made: invoice.created.unwrap_or(event.created),
            end: invoice.period_end,
            replaces: invoice.credits_unused_time && invoice.period_end.is_some(),
            items: invoice.items.clone(),
            credited: invoice.credited.clone(),
        };
        let pays = billed.end.is_some() || !billed.items.is_empty() || !billed.credited.is_empty();
        let billed = pays.then(|| (invoice.id.clone(), billed));
        let record = Record {
            invoices: billed.into_iter().collect(),
            customer: version.optional_part(invoice.customer.as_ref()),
            pact_id: version.optional_part(invoice.pact_id.as_ref()),
            ..Record::default()
        };
        Some((id, record))
    }

    /// Merges the record of another event, newer or older, into this one.
    pub fn merge(&mut self, other: Record) {
        for (id, billed) in other.invoices {
            match self.invoices.entry(id) {
                Entry::Occupied(mut known) => known.get_mut().merge(billed),
                Entry::Vacant(place) => drop(place.insert(billed)),
            }
        }
        while self.invoices.len() > INVOICES {
            let by_age = |(id, it): &(&String, &Billed)| (it.end.is_some(), it.made, (*id).clone());
            let oldest = self.invoices.iter().min_by_key(by_age);
            let oldest = oldest.map(|(id, _)| id.clone()).unwrap_or_default();
            self.invoices.remove(&oldest);
        }
        self.ended_at = match (self.ended_at, other.ended_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        newest(&mut self.customer, other.customer);
        newest(&mut self.pact_id, other.pact_id);
    }

    /// Until when it is paid, in Unix seconds. None if no invoice has paid for anything.
    pub fn paid_until(&self) -> Option<i64> {
        self.until(
            |billed| billed.end,
            |billed| billed.replaces.then_some(billed.made),
        )
    }

    /// The same for one of its items: a price or a product.
    pub fn paid_until_of(&self, item: &str) -> Option<i64> {
        self.until(
            |billed| billed.items.get(item).copied(),
            |billed| billed.credited.get(item).copied(),
        )
    }

    /// `end` is until when an invoice pays, and `credited` from when it gives back what was paid before.
    fn until(
        &self,
        end: impl Fn(&Billed) -> Option<i64>,
        credited: impl Fn(&Billed) -> Option<i64>,
    ) -> Option<i64> {
        let mut by_time: Vec<_> = self.invoices.iter().collect();
        by_time.sort_by_key(|(id, billed)| (billed.made, *id));
        let mut until: Option<i64> = None;
        for (id, billed) in by_time {
            if let (Some(known), Some(from)) = (until, credited(billed)) {
                until = Some(known.min(from));
            }
            let Some(end) = end(billed) else { continue };
            // A period that was given back ends where it began, with its invoice.
            let is_returned = self.returned.contains(id);
            let end = if is_returned { billed.made } else { end };
            until = until.max(Some(end));
        }
        let until = until?;
        Some(self.ended_at.map_or(until, |ended| until.min(ended)))
    }
}

/// How the time has changed until which a subscription is paid. Times are Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Extended { to: i64 },
    Shortened { from: i64, to: i64 },
}

pub fn change(before: Option<&Record>, after: &Record) -> Option<Change> {
    moved(before.and_then(Record::paid_until), after.paid_until())
}

/// The same for one of its items.
pub fn change_of(item: &str, before: Option<&Record>, after: &Record) -> Option<Change> {
    let before = before.and_then(|record| record.paid_until_of(item));
    moved(before, after.paid_until_of(item))
}

fn moved(before: Option<i64>, after: Option<i64>) -> Option<Change> {
    let to = after?;
    match before {
        Some(from) if to < from => Some(Change::Shortened { from, to }),
        Some(from) if to == from => None,
        _ => Some(Change::Extended { to }),
    }
}
