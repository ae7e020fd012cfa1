//! A paid invoice, of a subscription or of something else.

use std::collections::BTreeMap;
use std::iter;

use super::fields::{currency, id, link, money, named, pact_id, required, seconds, text};
use crate::json::{At, Field, Problem, Reading, Unreadable, fields};
use crate::money::Money;
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// The invoice's id, `in_..`.
    pub id: String,
    /// None for an invoice that somebody wrote by hand.
    pub subscription: Option<String>,
    pub customer: Option<String>,
    /// What was paid with money. None if it cannot be read. Zero for a trial, and when the customer's credit paid for
    /// everything.
    pub paid: Option<Money>,
    /// The total in minor units. It is below zero when the customer gets money back.
    pub total: Option<i64>,
    /// A word such as `subscription_cycle` and `manual`.
    pub billing_reason: Option<String>,
    /// The time until which the invoice pays for its subscription, in Unix seconds: the latest end of a
    /// period among the lines that bill the subscription itself. None for a trial.
    pub period_end: Option<i64>,
    /// The same for each price and product of these lines.
    pub items: BTreeMap<String, i64>,
    /// The time from which each price or product is given back, in Unix seconds.
    pub credited: BTreeMap<String, i64>,
    /// True when it gives the price of time back that was paid before and will not be used, as after a change to another
    /// interval. Then what earlier invoices paid for counts no more.
    pub credits_unused_time: bool,
    /// When it was made, in Unix seconds.
    pub created: Option<i64>,
    pub pact_id: Option<String>,
    /// Bodies have the charge and the intent only before 2025-03-31.
    pub charge: Option<String>,
    pub payment_intent: Option<String>,
}

fields! { Fields {
    object, id, created, subscription, subscription_details, parent, customer, amount_paid, total, currency,
    billing_reason, lines, metadata, charge, payment_intent,
}}

// Since 2025-03-31 these details name the subscription too; before, they had only the metadata.
fields! { Details { subscription, metadata } }

impl Invoice {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "invoice").at("data.object.object")?;
        let id = required(id(it.id)).at("data.object.id")?;
        reading.values([
            (Member::ObjectCurrency, it.currency),
            (Member::AmountPaid, it.amount_paid),
            (Member::InvoiceTotal, it.total),
            (Member::InvoiceLines, it.lines),
        ]);
        // Since 2025-03-31 `parent` says what `subscription` said before.
        let of_subscription = if it.parent.is_present() {
            it.parent
        } else {
            it.subscription
        };
        reading.nullable([
            (Member::Subscription, of_subscription),
            (Member::Metadata, it.metadata),
        ]);
        let currency = reading.or_none(currency(it.currency), "data.object.currency");
        let paid = match currency {
            None => Err(Problem::Missing),
            Some(currency) => required(money(it.amount_paid, currency)).map(Some),
        };
        let paid = reading.or_none(paid, "data.object.amount_paid");
        let earlier = details(it.subscription_details);
        let earlier = reading.or_none(earlier, "data.object.subscription_details");
        let later = parent(it.parent)?;
        let subscription = link(it.subscription).at("data.object.subscription")?;
        let subscription = match subscription {
            None => link(later.subscription)
                .at("data.object.parent.subscription_details.subscription")?,
            subscription => subscription,
        };
        let mut invoice = Invoice {
            id,
            subscription,
            customer: reading.or_none(link(it.customer), "data.object.customer"),
            paid,
            total: reading.or_none(it.total.integer(), "data.object.total"),
            billing_reason: text(it.billing_reason),
            period_end: None,
            items: BTreeMap::new(),
            credited: BTreeMap::new(),
            credits_unused_time: false,
            created: reading.or_none(seconds(it.created), "data.object.created"),
            pact_id: pact_id(it.metadata)
                .or_else(|| pact_id(later.metadata))
                .or_else(|| pact_id(earlier.metadata)),
            charge: reading.or_none(link(it.charge), "data.object.charge"),
            payment_intent: reading.or_none(link(it.payment_intent), "data.object.payment_intent"),
        };
        invoice.read_lines(it.lines, reading)?;
        Ok(invoice)
    }

    /// True when the invoice was for more than nothing, whether it was paid with money or with
    /// credit.
    pub fn is_of_worth(&self) -> bool {
        self.paid.is_some_and(|paid| paid.minor > 0) || self.total.is_some_and(|total| total > 0)
    }
}

fn details(field: Field) -> Result<Details, Problem> {
    Ok(field.object()?.unwrap_or_default())
}

fn parent(field: Field) -> Result<Details, Unreadable> {
    fields! { Parent { r#type, subscription_details } }

    let parent = field.object::<Parent>().at("data.object.parent")?;
    let parent = parent.unwrap_or_default();
    if text(parent.r#type).is_some_and(|word| word != "subscription_details") {
        // It is of a quote. Samples have the details of both.
        return Ok(Details::default());
    }
    details(parent.subscription_details).at("data.object.parent.subscription_details")
}

// A line of an invoice. Before 2025-03-31 the line itself says what it bills; since then its
// `parent` does.
fields! { Line {
    amount, discount_amounts, period, r#type, proration, subscription, subscription_item, parent, price, plan,
    pricing,
}}

// An item that somebody added, and a proration that is billed later, have the other details.
fields! { LineParent { r#type, subscription_item_details, invoice_item_details } }

fields! { ItemDetails { proration, subscription, subscription_item } }

impl Line<'_> {
    /// True when the line bills a period of this subscription. False for an item that somebody
    /// added, and for the price difference when a plan changes within a period that was already
    /// billed. A line that does not say what it bills is taken as one of the subscription.
    fn is_of(&self, subscription: &str) -> bool {
        let says = |field: Field, word: &str| text(field).is_none_or(|reported| reported == word);
        says(self.r#type, "subscription")
            && says(self.parent().r#type, "subscription_item_details")
            && !self.is_proration()
            && !self.is_anothers(subscription)
    }

    fn is_anothers(&self, subscription: &str) -> bool {
        let named = [self.subscription, self.details().subscription];
        named.into_iter().any(|field| {
            let reported = link(field).unwrap_or_default();
            reported.is_some_and(|reported| reported != subscription)
        })
    }

    /// The ids of the price, the product and the subscription's item that the line bills.
    fn items(&self) -> Vec<String> {
        fields! { Price { id, product } }
        fields! { Pricing { price_details } }
        fields! { PriceDetails { price, product } }

        let pricing: Pricing = self
            .pricing
            .object()
            .unwrap_or_default()
            .unwrap_or_default();
        let later: Option<PriceDetails> = pricing.price_details.object().unwrap_or_default();
        let later = later.unwrap_or_default();
        let earlier = [self.price, self.plan].map(|field| {
            let price: Option<Price> = field.object().unwrap_or_default();
            price.unwrap_or_default()
        });
        let earlier = earlier.iter().flat_map(|it| [it.id, it.product]);
        let item = [self.subscription_item, self.details().subscription_item];
        let named = earlier.chain([later.price, later.product]).chain(item);
        named.filter_map(|field| link(field).ok()?).collect()
    }

    fn is_proration(&self) -> bool {
        let said = [self.proration, self.details().proration];
        said.into_iter()
            .any(|field| field.boolean() == Ok(Some(true)))
    }

    fn parent(&self) -> LineParent<'_> {
        self.parent.object().unwrap_or_default().unwrap_or_default()
    }

    fn details(&self) -> ItemDetails<'_> {
        let parent = self.parent();
        let details = parent.subscription_item_details.object();
        let details = details.unwrap_or_default();
        let added = || parent.invoice_item_details.object().unwrap_or_default();
        details.or_else(added).unwrap_or_default()
    }

    /// True when the line gives the price of unused time of this subscription back.
    fn is_credit_of(&self, subscription: &str) -> bool {
        let amount = self.amount.integer().unwrap_or_default();
        amount.is_some_and(|amount| amount < 0)
            && self.is_proration()
            && !self.is_anothers(subscription)
    }

    /// True when the line bills something, even if discounts take off all of it. A line of a
    /// trial has the amount zero without any discount. A line of a free plan looks the same, and
    /// only the description for people tells the two apart. None when the line has no amount.
    fn is_billed(&self) -> Option<bool> {
        fields! { Discount { amount } }

        let amount = self.amount.integer().unwrap_or_default()?;
        let discounts: Vec<Discount> = self.discount_amounts.list().unwrap_or_default();
        let mut discounts = discounts.iter().map(|discount| discount.amount.integer());
        let is_discounted = discounts.any(|amount| matches!(amount, Ok(Some(1..))));
        Some(amount > 0 || (amount == 0 && is_discounted))
    }
}

impl Invoice {
    fn read_lines(&mut self, lines: Field, reading: &mut Reading) -> Result<(), Unreadable> {
        fields! { Lines { data } }

        fields! { Period { start, end } }

        let Some(subscription) = self.subscription.as_deref() else {
            return Ok(());
        };
        let lines = lines.object::<Lines>().at("data.object.lines")?;
        let lines = lines.unwrap_or_default().data.list::<Line>();
        let (mut latest, mut is_credited) = (None, false);
        for line in lines.at("data.object.lines.data")? {
            reading.values([
                (Member::LineAmount, line.amount),
                (Member::LinePeriod, line.period),
            ]);
            let bills = if line.parent.is_present() {
                line.parent
            } else {
                line.r#type
            };
            reading.nullable([(Member::LineBills, bills)]);
            if line.is_credit_of(subscription) {
                is_credited = true;
                let period: Option<Period> = line.period.object().unwrap_or_default();
                let start = seconds(period.unwrap_or_default().start).unwrap_or_default();
                // A credit may be one line for each of the periods that were paid.
                for (item, start) in line.items().into_iter().zip(iter::repeat(start)) {
                    let Some(start) = start else { continue };
                    let known = self.credited.entry(item).or_insert(start);
                    *known = start.min(*known);
                }
            }
            // A price that is given back and billed anew, as for another quantity, lasts on.
            let is_of_period = line.is_of(subscription);
            let is_anew = line.is_proration() && !line.is_anothers(subscription);
            let is_billed = line
                .is_billed()
                .unwrap_or(is_of_period && self.is_of_worth());
            if !is_billed || !(is_of_period || is_anew) {
                continue;
            }
            let period = line.period.object::<Period>();
            let period = period.at("data.object.lines.data[].period")?;
            let end = seconds(period.unwrap_or_default().end);
            let end = end.at("data.object.lines.data[].period.end")?;
            if is_of_period {
                latest = latest.max(end);
            }
            for (item, end) in line.items().into_iter().zip(iter::repeat(end)) {
                let known = self.items.entry(item).or_default();
                *known = end.map_or(*known, |end| end.max(*known));
            }
        }
        self.period_end = latest;
        self.credits_unused_time = is_credited;
        Ok(())
    }
}
