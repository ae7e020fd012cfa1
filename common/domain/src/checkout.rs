//! What is sold in a checkout that was requested through the API, and the placeholder order that
//! it makes before anybody has paid. Pure.
//!
//! The parts of this order are older than anything that a provider reports, so whatever a session
//! or a storefront reports later replaces them.

use serde::{Deserialize, Serialize};

use crate::money::{Currency, Money};
use crate::order::record::{Part, Record, Totals, Version};
use crate::order::{FinancialStatus, Line};

/// Older than every version that a provider sends.
const FIRST: Version = Version { at: 0, tie: 0 };

/// Something that is bought, with its quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    #[serde(flatten)]
    pub article: Article,
    pub quantity: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Article {
    /// An article whose price only the payment provider knows, by the provider's id of the price.
    Known { price: String },
    Priced {
        name: String,
        /// The price of one piece in minor units.
        amount: i64,
        currency: Currency,
        #[serde(skip_serializing_if = "Option::is_none")]
        variant_id: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sku: Option<String>,
    },
}

impl Article {
    /// The price of one piece, if we know it.
    fn price(&self) -> Option<Money> {
        match self {
            Article::Known { .. } => None,
            Article::Priced {
                amount, currency, ..
            } => Some(Money {
                minor: *amount,
                currency: *currency,
            }),
        }
    }
}

/// The price of all items together. None when only the payment provider knows a price, or when
/// the sum is out of range.
pub fn total(items: &[Item]) -> Option<Money> {
    let mut total: Option<Money> = None;
    for item in items {
        let price = item.article.price()?;
        let sum = total.map_or(0, |total| total.minor);
        total = Some(Money {
            minor: price.minor.checked_mul(item.quantity)?.checked_add(sum)?,
            currency: price.currency,
        });
    }
    total
}

/// The record of the order before anybody has paid.
pub fn order(items: &[Item], pact_id: &str, ordered_at: i64) -> Record {
    fn present<T>(value: T) -> Part<T> {
        Part {
            version: FIRST,
            value,
        }
    }
    let lines = (1..).zip(items).map(|(id, item)| line(id, item));
    let mut order = Record::unknown(FIRST);
    order.ordered_at = Some(ordered_at);
    if let Some(total) = total(items) {
        order.totals = present(Totals {
            currency: Some(total.currency),
            total: Some(total.minor),
            ..Totals::default()
        });
    }
    order.financial = present(Some(FinancialStatus::Pending));
    order.lines = present(lines.collect());
    order.agreement = present(Some(pact_id.to_owned()));
    order
}

fn line(id: i64, item: &Item) -> Line {
    let price = item.article.price().map(|price| price.to_string());
    let (title, variant_id, sku) = match &item.article {
        Article::Known { .. } => (None, None, None),
        Article::Priced {
            name,
            variant_id,
            sku,
            ..
        } => (Some(name.clone()), *variant_id, sku.clone()),
    };
    Line {
        id,
        variant_id,
        title,
        quantity: Some(item.quantity),
        price,
        sku,
        ..Line::default()
    }
}
