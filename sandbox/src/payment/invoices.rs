//! Subscriptions and their invoices. Periods are calendar months, counted from the day on which
//! the subscription began. So if it began on the 31st, a period ends on the last day of a short
//! month.

use std::collections::BTreeMap;

use domain::money::Money;
use serde_json::{Value, json};
use time::{Date, Month, OffsetDateTime};

use super::intents::Record;
use super::objects::{latest_charge_id, list};
use super::{Generation, sessions};
use crate::sample::token;

/// How many months a subscription may be paid for: about 80 years.
const MOST_MONTHS: u32 = 1000;

#[derive(Clone)]
pub struct Subscription {
    /// `sub_..`
    pub id: String,
    pub customer: String,
    pub customer_email: Option<String>,
    /// The price of one period.
    pub price: Money,
    /// The name of the article.
    pub title: String,
    pub metadata: BTreeMap<String, String>,
    /// Unix seconds.
    pub started: i64,
    /// How many months a usual period has.
    pub months: u32,
    /// How many months are paid so far.
    pub months_paid: u32,
    pub invoices: u64,
}

/// An invoice that was paid.
#[derive(Clone)]
pub struct Invoice {
    /// `in_..`
    pub id: String,
    pub subscription: String,
    pub intent: String,
    /// The number of the invoice within its subscription; the first is 0.
    pub nth: u64,
    /// Unix seconds.
    pub created: i64,
    /// The period that it pays for, in unix seconds.
    pub start: i64,
    pub end: i64,
}

impl Subscription {
    /// The invoice of the next period. `None` if its end would be too far in the future.
    pub fn invoice(&self, months: u32, intent: &str, now: i64) -> Option<Invoice> {
        let until = self.months_paid.checked_add(months)?;
        if until > MOST_MONTHS {
            return None;
        }
        Some(Invoice {
            id: self.invoice_id(self.invoices),
            subscription: self.id.clone(),
            intent: intent.to_owned(),
            nth: self.invoices,
            created: now,
            start: months_after(self.started, self.months_paid)?,
            end: months_after(self.started, until)?,
        })
    }

    /// Notes that an invoice was paid.
    pub fn paid(&mut self, months: u32) {
        self.months_paid += months;
        self.invoices += 1;
    }

    pub fn invoice_id(&self, nth: u64) -> String {
        token("in_", &self.id, nth)
    }

    pub fn object(&self, generation: Generation) -> Value {
        let start = months_after(self.started, self.months_paid.saturating_sub(self.months));
        let period = |object: &mut Value| {
            object["current_period_start"] = json!(start);
            object["current_period_end"] = json!(months_after(self.started, self.months_paid));
        };
        let mut item = json!({
            "id": self.item_id(),
            "object": "subscription_item",
            "quantity": 1,
            "subscription": self.id,
        });
        // Since 2025-03-31 each item has a period of its own.
        if generation == Generation::Basil {
            period(&mut item);
        }
        let url = format!("/v1/subscription_items?subscription={}", self.id);
        let mut subscription = json!({
            "id": self.id,
            "object": "subscription",
            "cancel_at_period_end": false,
            "canceled_at": null,
            "created": self.started,
            "currency": sessions::lower(self.price.currency),
            "customer": self.customer,
            "items": list(&[item], &url),
            "latest_invoice": self.invoice_id(self.invoices.saturating_sub(1)),
            "livemode": false,
            "metadata": self.metadata,
            "start_date": self.started,
            "status": "active",
        });
        if generation != Generation::Basil {
            period(&mut subscription);
        }
        subscription
    }

    fn item_id(&self) -> String {
        token("si_", &self.id, 0)
    }
}

impl Invoice {
    /// The invoice as JSON. `record` is the intent that paid it.
    pub fn object(
        &self,
        subscription: &Subscription,
        record: &Record,
        generation: Generation,
    ) -> Value {
        let amount = record.money.minor;
        let reason = if self.nth == 0 {
            "subscription_create"
        } else {
            "subscription_cycle"
        };
        let line = self.line(subscription, amount, generation);
        let url = format!("/v1/invoices/{}/lines", self.id);
        let mut invoice = json!({
            "id": self.id,
            "object": "invoice",
            "amount_due": amount,
            "amount_paid": amount,
            "amount_remaining": 0,
            "attempt_count": 1,
            "billing_reason": reason,
            "collection_method": "charge_automatically",
            "created": self.created,
            "currency": sessions::lower(record.money.currency),
            "customer": subscription.customer,
            "customer_email": subscription.customer_email,
            "lines": list(&[line], &url),
            "livemode": false,
            "metadata": {},
            "number": format!("SANDBOX-{:04}", self.nth + 1),
            // This period belongs to the invoice itself. Its lines are paid in advance and have
            // other periods.
            "period_start": self.created,
            "period_end": self.created,
            "status": "paid",
            "total": amount,
        });
        if generation == Generation::Basil {
            invoice["parent"] = json!({
                "type": "subscription_details",
                "subscription_details": {
                    "metadata": subscription.metadata,
                    "subscription": subscription.id,
                },
            });
        } else {
            invoice["charge"] = json!(latest_charge_id(record));
            invoice["paid"] = json!(true);
            invoice["payment_intent"] = json!(record.id);
            invoice["subscription"] = json!(subscription.id);
            invoice["subscription_details"] = json!({"metadata": subscription.metadata});
        }
        invoice
    }

    fn line(&self, subscription: &Subscription, amount: i64, generation: Generation) -> Value {
        let mut line = json!({
            "id": token("il_", &self.id, 0),
            "object": "line_item",
            "amount": amount,
            "currency": sessions::lower(subscription.price.currency),
            "description": subscription.title,
            "livemode": false,
            "metadata": subscription.metadata,
            "period": {"start": self.start, "end": self.end},
            "quantity": 1,
        });
        if generation == Generation::Basil {
            line["parent"] = json!({
                "type": "subscription_item_details",
                "subscription_item_details": {
                    "subscription": subscription.id,
                    "subscription_item": subscription.item_id(),
                },
            });
        } else {
            line["subscription"] = json!(subscription.id);
            line["subscription_item"] = json!(subscription.item_id());
            line["type"] = json!("subscription");
        }
        line
    }
}

/// The time some months later, in unix seconds. If the month lacks the day, it is the month's last
/// day.
fn months_after(unix_seconds: i64, months: u32) -> Option<i64> {
    let start = OffsetDateTime::from_unix_timestamp(unix_seconds).ok()?;
    let months = u32::from(u8::from(start.month())) - 1 + months;
    let year = start.year() + i32::try_from(months / 12).ok()?;
    let month = Month::try_from(u8::try_from(months % 12 + 1).ok()?).ok()?;
    let day = start.day().min(month.length(year));
    let date = Date::from_calendar_date(year, month, day).ok()?;
    Some(start.replace_date(date).unix_timestamp())
}

#[cfg(test)]
#[path = "../../tests/unit/payment/invoices.rs"]
mod tests;
