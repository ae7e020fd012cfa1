//! A subscription, as its own events report it. Until when it is paid its invoices say.

use super::fields::{id, link, named, pact_id, required, seconds};
use crate::json::{At, Field, Reading, Unreadable, fields};
use crate::shape::Member;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The subscription's id, `sub_..`.
    pub id: String,
    pub customer: Option<String>,
    pub pact_id: Option<String>,
    /// When it ended, in Unix seconds. One that will end with its period has not.
    pub ended_at: Option<i64>,
}

fields! { Fields { object, id, customer, metadata, ended_at } }

impl Subscription {
    pub(super) fn of(object: Field, reading: &mut Reading) -> Result<Self, Unreadable> {
        let it: Fields = required(object.object()).at("data.object")?;
        named(it.object, "subscription").at("data.object.object")?;
        reading.nullable([
            (Member::EndedAt, it.ended_at),
            (Member::Metadata, it.metadata),
        ]);
        Ok(Subscription {
            id: required(id(it.id)).at("data.object.id")?,
            customer: reading.or_none(link(it.customer), "data.object.customer"),
            pact_id: pact_id(it.metadata),
            ended_at: seconds(it.ended_at).at("data.object.ended_at")?,
        })
    }
}
