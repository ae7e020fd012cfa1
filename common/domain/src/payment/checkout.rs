//! What all events of a checkout session come to: whether it is paid for, and what it led
//! to. The greatest of each field counts, as with payments.

use super::record::{Part, newest};
use super::status::{Mode, PaymentStatus};
use super::{Email, Event, Object};
use crate::money::Currency;
use crate::order::settlement::{Cycle, Linked, Page};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The furthest: what was paid for stays so.
    pub payment_status: Option<PaymentStatus>,
    pub mode: Option<Part<Mode>>,
    /// Minor units of the currency.
    pub total: Option<Part<i64>>,
    pub currency: Option<Part<Currency>>,
    /// Before discounts, tax and shipping, in minor units.
    pub subtotal: Option<Part<i64>>,
    /// What the page took off, in minor units.
    pub discount: Option<Part<i64>>,
    /// Tax and shipping that the page added, in minor units.
    pub added: Option<Part<i64>>,
    pub payment_intent: Option<Part<String>>,
    pub subscription: Option<Part<String>>,
    pub invoice: Option<Part<String>>,
    pub customer: Option<Part<String>>,
    pub client_reference_id: Option<Part<String>>,
    pub pact_id: Option<Part<String>>,
    /// Which fulfilment of the agreement is paid.
    pub cycle: Option<Part<String>>,
    pub email: Option<Part<Email>>,
}

impl Record {
    /// Forgets whom it is of, but for ids of the provider.
    pub fn forget_person(&mut self) {
        self.email = None;
        self.client_reference_id = None;
    }

    /// The session that an event is about, by its id, and what the event says of it.
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
        };
        Some((&session.id, record))
    }

    /// Takes in what another event said, newer or older.
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
    }

    /// Paid, or free of charge: nothing costs anything, or a discount took all of it off. A
    /// subscription that starts with a trial is not paid for yet.
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

    pub fn mode(&self) -> Option<&Mode> {
        self.mode.as_ref().map(|part| &part.value)
    }

    /// The payment that it led to, from what is known of that. Where the payment's own event is
    /// missing or late, the session's word counts: the provider signed it too.
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
                    refunded: 0,
                    fully_refunded: false,
                    canceled_at: None,
                    cycle: self.cycle(),
                })
            }
        }
    }

    /// What the provider's page made of the price, once it is paid for.
    pub fn page(&self) -> Option<Page> {
        let minor = |part: &Option<Part<i64>>| part.as_ref().map_or(0, |part| part.value);
        let page = Page {
            cycle: self.cycle(),
            currency: self.currency.as_ref()?.value,
            discount: minor(&self.discount),
            added: minor(&self.added),
        };
        (self.is_settled() && (page.discount > 0 || page.added > 0)).then_some(page)
    }

    fn cycle(&self) -> Cycle {
        Cycle::named(self.cycle.as_ref().map(|part| part.value.as_str()))
    }

    /// A trial has nothing that could be taken off.
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

/// The changes from one record of a session to a later one; each comes once.
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
