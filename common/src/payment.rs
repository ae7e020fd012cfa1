//! A payment provider's objects: what the handlers need of them, read from the raw body of
//! an event. Ids and amounts must be right, or the body is unreadable; the rest is taken as
//! absent when it is wrong.

use serde::Deserialize;

use crate::json::{self, At, Field, Problem, Unreadable};
use crate::money::{Currency, Money};

/// Longer ids are none: databases index them.
const ID_CHARS: usize = 255;

/// A payment intent that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// `pi_..`
    pub id: String,
    pub amount: Money,
    /// What was captured.
    pub received: Money,
    /// The agreement it pays for: `metadata.pact_id`.
    pub pact_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    data: Field<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Data<'a> {
    object: Field<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Fields<'a> {
    id: Field<'a>,
    object: Field<'a>,
    amount: Field<'a>,
    amount_received: Field<'a>,
    currency: Field<'a>,
    metadata: Field<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Metadata<'a> {
    pact_id: Field<'a>,
}

impl Intent {
    /// Reads the intent in an event's `data.object`. An error is final.
    pub fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let event: Event = json::object(body)?;
        let data = event.data.object::<Data>().at("data")?.unwrap_or_default();
        let object = data.object.object::<Fields>().at("data.object")?;
        let Some(fields) = object else {
            return Err(Problem::Missing).at("data.object");
        };
        if fields.object.text().unwrap_or_default().as_deref() != Some("payment_intent") {
            return Err(Problem::Foreign).at("data.object.object");
        }
        let currency = fields.currency.text().at("data.object.currency")?;
        let currency = currency.as_deref().and_then(Currency::parse);
        let currency = currency
            .ok_or(Problem::NotACurrency)
            .at("data.object.currency")?;
        let amount = minor(fields.amount).at("data.object.amount")?;
        let amount = amount.ok_or(Problem::Missing).at("data.object.amount")?;
        let received = minor(fields.amount_received).at("data.object.amount_received")?;
        let id = fields.id.text().at("data.object.id")?;
        let id = id.filter(|id| id.chars().count() <= ID_CHARS);
        let metadata = fields.metadata.object::<Metadata>().unwrap_or_default();
        let pact_id = metadata.and_then(|it| it.pact_id.text().unwrap_or_default());
        let pact_id = pact_id.filter(|id| id.chars().count() <= ID_CHARS);
        Ok(Intent {
            id: id.ok_or(Problem::Missing).at("data.object.id")?,
            amount: Money {
                minor: amount,
                currency,
            },
            received: Money {
                minor: received.unwrap_or(amount),
                currency,
            },
            pact_id,
        })
    }
}

/// Minor units, not below zero.
fn minor(field: Field) -> Result<Option<i64>, Problem> {
    match field.integer()? {
        Some(..0) => Err(Problem::OutOfRange),
        minor => Ok(minor),
    }
}
