//! What all events of a checkout session come to: whether it is paid for, and which payment,
//! subscription or invoice it led to. As with payments, merging keeps the greatest value of each
//! field.

use std::collections::BTreeSet;

use super::record::{Part, text};
use super::status::{Mode, PaymentStatus};
use super::{Email, Event, Object};
use crate::money::Currency;
use crate::order::settlement::{Cycle, Linked, PriceChange};
use crate::record::{Rest, newest};

#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    /// The status that is furthest on. A session that was paid for stays paid for.
    pub payment_status: Option<PaymentStatus>,
    pub mode: Option<Part<Mode>>,
    /// The amount in minor units of the currency.
    pub total: Option<Part<i64>>,
    pub currency: Option<Part<Currency>>,
    /// The price before discounts, tax and shipping, in minor units.
    pub subtotal: Option<Part<i64>>,
    /// The discount that the checkout page took off, in minor units.
    pub discount: Option<Part<i64>>,
    /// Tax and shipping that the page added, in minor units.
    pub added: Option<Part<i64>>,
    #[thing]
    pub payment_intent: Option<Part<String>>,
    #[thing]
    pub subscription: Option<Part<String>>,
    #[thing]
    pub invoice: Option<Part<String>>,
    #[thing]
    pub customer: Option<Part<String>>,
    #[person]
    pub client_reference_id: Option<Part<String>>,
    #[thing]
    pub pact_id: Option<Part<String>>,
    /// The name of the cycle of the agreement that is paid.
    #[thing]
    pub cycle: Option<Part<String>>,
    #[person]
    pub email: Option<Part<Email>>,
    /// The members of its events that could not be read.
    #[thing]
    pub unread: BTreeSet<String>,
    pub rest: Rest,
}

impl Record {
    /// The id of the session that an event is about, and the record of this event. None for an
    /// event that is not about a session.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let Object::Session(session) = &event.object else {
            return None;
        };
        let version = event.version();
        let record = Record {
            payment_status: session.payment_status.clone(),
            mode: version.optional_part(session.mode.as_ref()),
            total: session.total.map(|total| version.part(total.minor)),
            currency: version.optional_part(session.currency.as_ref()),
            subtotal: version.optional_part(session.subtotal.as_ref()),
            discount: version.optional_part(session.discount.as_ref()),
            added: version.optional_part(session.added.as_ref()),
            payment_intent: version.optional_part(session.payment_intent.as_ref()),
            subscription: version.optional_part(session.subscription.as_ref()),
            invoice: version.optional_part(session.invoice.as_ref()),
            customer: version.optional_part(session.customer.as_ref()),
            client_reference_id: version.optional_part(session.client_reference_id.as_ref()),
            pact_id: version.optional_part(session.metadata.pact_id.as_ref()),
            cycle: version.optional_part(session.metadata.cycle.as_ref()),
            email: version.optional_part(session.email.as_ref()),
            unread: event.unread(),
            rest: Rest::default(),
        };
        Some((&session.id, record))
    }

    /// Merges the record of another event, newer or older, into this one.
    pub fn merge(&mut self, other: Record) {
        newest(&mut self.payment_status, other.payment_status);
        newest(&mut self.mode, other.mode);
        newest(&mut self.total, other.total);
        newest(&mut self.currency, other.currency);
        newest(&mut self.subtotal, other.subtotal);
        newest(&mut self.discount, other.discount);
        newest(&mut self.added, other.added);
        newest(&mut self.payment_intent, other.payment_intent);
        newest(&mut self.subscription, other.subscription);
        newest(&mut self.invoice, other.invoice);
        newest(&mut self.customer, other.customer);
        newest(&mut self.client_reference_id, other.client_reference_id);
        newest(&mut self.pact_id, other.pact_id);
        newest(&mut self.cycle, other.cycle);
        newest(&mut self.email, other.email);
        self.unread.extend(other.unread);
    }

    /// True when the session is paid for, or when it is free: either nothing in it costs
    /// anything, or a discount takes off the whole price. A subscription that starts with a trial
    /// is not paid for yet.
    pub fn is_settled(&self) -> bool {
        match self.payment_status {
            Some(PaymentStatus::Paid) => true,
            Some(PaymentStatus::NoPaymentRequired) => match self.mode() {
                None | Some(Mode::Payment) => true,
                Some(Mode::Subscription) => self.is_discounted_in_full(),
                Some(_) => false,
            },
            _ => false,
        }
    }

    /// True when it began a subscription and its first invoice was paid, whose payment it cannot name.
    pub fn is_paid_subscription(&self) -> bool {
        let is_paid = self.payment_status == Some(PaymentStatus::Paid);
        let costs = self.total.as_ref().is_some_and(|total| total.value > 0);
        is_paid && costs && self.subscription.is_some() && self.payment_intent.is_none()
    }

    pub fn email(&self) -> Option<&str> {
        self.email.as_ref().map(|part| part.value.0.as_str())
    }

    pub fn mode(&self) -> Option<&Mode> {
        self.mode.as_ref().map(|part| &part.value)
    }

    /// The payment that the session led to. `known` is what the payment's own events say of it.
    /// Where they have not come, or have not reported the money yet, the session's total counts
    /// as received if the session says that it is paid, because the provider signed the session's
    /// event too.
    pub fn payment(&self, known: Option<&Linked>) -> Option<Linked> {
        let says_paid = self.payment_status == Some(PaymentStatus::Paid);
        let total = self.total.as_ref().zip(self.currency.as_ref());
        let paid = total.filter(|_| says_paid);
        match (known, paid) {
            (Some(known), Some((total, _))) if known.received == 0 => Some(Linked {
                received: total.value,
                canceled_at: None,
                ..known.clone()
            }),
            (Some(known), _) => Some(known.clone()),
            (None, paid) => {
                let (total, currency) = paid?;
                Some(Linked {
                    id: self.payment_intent.as_ref()?.value.clone(),
                    currency: currency.value,
                    received: total.value,
                    tip: 0,
                    refunded: 0,
                    fully_refunded: false,
                    is_disputed: false,
                    canceled_at: None,
                    cycle: self.cycle(),
                })
            }
        }
    }

    /// How the checkout page changed the price. None until the session is paid for, and when the
    /// page changed nothing.
    pub fn price_change(&self) -> Option<PriceChange> {
        let minor = |part: &Option<Part<i64>>| part.as_ref().map_or(0, |part| part.value);
        let change = PriceChange {
            cycle: self.cycle(),
            currency: self.currency.as_ref()?.value,
            discount: minor(&self.discount),
            added: minor(&self.added),
        };
        (self.is_settled() && (change.discount > 0 || change.added > 0)).then_some(change)
    }

    fn cycle(&self) -> Cycle {
        Cycle::named(text(&self.cycle))
    }

    /// True when a discount takes off the whole price. A trial has no price that a discount could
    /// take off.
    fn is_discounted_in_full(&self) -> bool {
        let value = |part: &Option<Part<i64>>| part.as_ref().map_or(0, |part| part.value);
        let subtotal = value(&self.subtotal);
        subtotal > 0 && value(&self.discount) >= subtotal
    }
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Completed,
    Settled,
}

/// The changes from one record of a session to a later one. Each comes once.
pub fn changes(before: Option<&Record>, after: &Record) -> Vec<Change> {
    let mut changes = Vec::new();
    if before.is_none() {
        changes.push(Change::Completed);
    }
    if after.is_settled() && !before.is_some_and(Record::is_settled) {
        changes.push(Change::Settled);
    }
    changes
}
