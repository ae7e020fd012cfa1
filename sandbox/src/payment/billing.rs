//! Bills subscriptions. Every period is billed and paid at once.

use serde_json::Value;

use super::desk::Desk;
use super::error::Error;
use super::intents::{Card, Record};
use super::invoices::{Invoice, Subscription};

impl Desk<'_> {
    pub fn show_subscription(&self, id: &str) -> Result<Value, Error> {
        let subscription = self.ledger.subscriptions.get(id);
        let unknown = || Error::unknown("subscription", id, "id");
        let subscription = subscription.ok_or_else(unknown)?;
        Ok(subscription.object(self.ledger.generation))
    }

    pub fn show_invoice(&self, id: &str) -> Result<Value, Error> {
        let unknown = || Error::unknown("invoice", id, "invoice");
        let invoice = self.ledger.invoices.get(id).ok_or_else(unknown)?;
        let subscription = self.ledger.subscriptions.get(&invoice.subscription);
        let subscription = subscription.ok_or_else(unknown)?;
        let record = self.intent(&invoice.intent)?;
        Ok(invoice.object(subscription, record, self.ledger.generation))
    }

    /// Bills a subscription's next period, with its usual length if none is given. Returns the
    /// invoice's id.
    pub fn bill(&mut self, id: &str, months: Option<u32>) -> Result<String, Error> {
        let subscription = self.ledger.subscriptions.get(id).cloned();
        let unknown = || Error::unknown("subscription", id, "subscription");
        let subscription = subscription.ok_or_else(unknown)?;
        let months = months.unwrap_or(subscription.months);
        let mut record = Record::new(self.id("pi_"), subscription.price, self.now);
        let invoice = self.next_invoice(&subscription, months, &record.id)?;
        record.customer = Some(subscription.customer.clone());
        record.invoice = Some(invoice.id);
        let intent = record.id.clone();
        self.ledger.intents.insert(intent.clone(), record);
        self.charge(&intent, Card::Good)?;
        let (_, invoice) = self.bill_with(subscription, months, &intent)?;
        Ok(invoice)
    }

    /// Bills the next period of a new or known subscription, which an intent has paid. Returns the
    /// ids of the subscription and the invoice.
    pub fn bill_with(
        &mut self,
        mut subscription: Subscription,
        months: u32,
        intent: &str,
    ) -> Result<(String, String), Error> {
        let invoice = self.next_invoice(&subscription, months, intent)?;
        subscription.paid(months);
        let event_builder = self.event_builder();
        if let Some(record) = self.ledger.intents.get_mut(intent) {
            record.invoice = Some(invoice.id.clone());
            let event = event_builder.invoice_paid(&invoice, &subscription, record);
            self.events.push(event);
        }
        let ids = (subscription.id.clone(), invoice.id.clone());
        self.ledger.invoices.insert(ids.1.clone(), invoice);
        self.ledger
            .subscriptions
            .insert(ids.0.clone(), subscription);
        Ok(ids)
    }

    fn next_invoice(
        &self,
        subscription: &Subscription,
        months: u32,
        intent: &str,
    ) -> Result<Invoice, Error> {
        let invoice = subscription.invoice(months, intent, self.now.unix_seconds());
        let invoice = invoice.filter(|_| months > 0);
        invoice.ok_or_else(|| Error::invalid("months: expected 1 or more, up to 80 years in all"))
    }
}
