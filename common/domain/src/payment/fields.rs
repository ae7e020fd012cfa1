//! Reads the kinds of fields that all of the payment provider's objects have in common.

use super::Email;
use crate::json::{At, Field, Problem, Unreadable, fields};
use crate::money::{Currency, Money};
use crate::order::ID_CHARS;
use crate::time::Timestamp;

/// The longest id that the provider makes.
const ID_LEN: usize = 255;

/// 9999-12-31T23:59:59Z. A later time was given in units other than seconds.
const LAST_SECOND: i64 = 253_402_300_799;

/// Checks that an object's own `object` field has this name. An object without the field passes.
pub(super) fn named(object: Field, name: &str) -> Result<(), Problem> {
    match object.text() {
        Ok(reported) if reported.as_deref().is_none_or(|reported| reported == name) => Ok(()),
        _ => Err(Problem::Foreign),
    }
}

pub(super) fn required<T>(read: Result<Option<T>, Problem>) -> Result<T, Problem> {
    read?.ok_or(Problem::Missing)
}

pub(super) fn text(field: Field) -> Option<String> {
    field.text().unwrap_or_default()
}

/// A code of the provider, which has only lower-case letters, digits and underscores. Any other
/// text is dropped, because it may be about a person.
pub(super) fn code(field: Field) -> Option<String> {
    let is_word = |text: &String| {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        text.len() <= 64 && text.bytes().all(is_part)
    };
    text(field).filter(is_word)
}

pub(super) fn email(field: Field) -> Option<Email> {
    text(field).map(Email)
}

/// An id, which has visible ASCII characters only.
pub(super) fn id(field: Field) -> Result<Option<String>, Problem> {
    match field.text()? {
        Some(id) if id.len() > ID_LEN || !id.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Problem::NotAnId)
        }
        id => Ok(id),
    }
}

/// The id of another object. The field has either the id or the object itself, which may be a
/// deleted one.
pub(super) fn link(field: Field) -> Result<Option<String>, Problem> {
    fields! { Expanded { id } }

    match field.object::<Expanded>()? {
        Some(expanded) => required(id(expanded.id)).map(Some),
        None => id(field),
    }
}

/// The id of the payment that something belongs to: the intent's, or the charge's own for a charge that was made without
/// an intent.
pub(super) fn payment_id(intent: Field, charge: Field) -> Result<Option<String>, Unreadable> {
    match link(intent).at("data.object.payment_intent")? {
        None => link(charge).at("data.object.charge"),
        intent => Ok(intent),
    }
}

/// A name that the merchant gave. A longer one than [`ID_CHARS`] counts as absent, because
/// Waybill makes none that long.
pub(super) fn reference(field: Field) -> Option<String> {
    text(field).filter(|text| text.chars().count() <= ID_CHARS)
}

/// What the metadata of an object says about the agreement that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The id of the agreement.
    pub pact_id: Option<String>,
    /// The merchant's own word for the sort of payment, `metadata.type`.
    pub payment_type: Option<String>,
    /// The name of the cycle of the agreement that is paid, `metadata.fulfillment_cycle`.
    pub cycle: Option<String>,
}

pub(super) fn metadata(metadata: Field) -> Metadata {
    fields! { Keys {
        pact_id,
        #[serde(rename = "type")]
        payment_type,
        fulfillment_cycle,
    }}

    let keys = metadata.object::<Keys>().unwrap_or_default();
    let keys = keys.unwrap_or_default();
    Metadata {
        pact_id: reference(keys.pact_id),
        payment_type: reference(keys.payment_type),
        cycle: reference(keys.fulfillment_cycle),
    }
}

/// The id of the agreement that an object's metadata names.
pub(super) fn pact_id(field: Field) -> Option<String> {
    metadata(field).pact_id
}

pub(super) fn currency(field: Field) -> Result<Option<Currency>, Problem> {
    let code = field.text()?;
    code.map(|code| Currency::parse(&code).ok_or(Problem::NotACurrency))
        .transpose()
}

/// An amount in the provider's minor units. One below zero is an error.
pub(super) fn minor(field: Field) -> Result<Option<i64>, Problem> {
    match field.integer()? {
        Some(..0) => Err(Problem::OutOfRange),
        minor => Ok(minor),
    }
}

/// An amount of money, converted from the provider's minor units.
pub(super) fn money(field: Field, currency: Currency) -> Result<Option<Money>, Problem> {
    let minor = minor(field)?;
    let money = minor.map(|minor| Money::of_provider(minor, currency));
    Ok(money.transpose()?)
}

/// A time in Unix seconds, from 1970 to the year 9999.
pub(super) fn seconds(field: Field) -> Result<Option<i64>, Problem> {
    in_range(field.integer()?)
}

/// The same from a time in words.
pub(super) fn seconds_in_words(field: Field) -> Result<Option<i64>, Problem> {
    let at = field.instant()?.map(Timestamp);
    in_range(at.map(Timestamp::unix_seconds))
}

fn in_range(seconds: Option<i64>) -> Result<Option<i64>, Problem> {
    match seconds {
        Some(seconds) if !(0..=LAST_SECOND).contains(&seconds) => Err(Problem::OutOfRange),
        seconds => Ok(seconds),
    }
}
