//! How the provider writes what its objects have in common.

use serde::Deserialize;

use super::Email;
use crate::json::{Field, Problem};
use crate::money::{Currency, Money};
use crate::order::ID_CHARS;

/// The longest id that the provider makes.
const ID_LEN: usize = 255;

/// 9999-12-31T23:59:59Z; a later time was given in other units.
const LAST_SECOND: i64 = 253_402_300_799;

/// An object says of itself what it is; saying nothing is as good.
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

/// One of the provider's own words. Anything else may be about a person.
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

/// Visible ASCII characters.
pub(super) fn id(field: Field) -> Result<Option<String>, Problem> {
    match field.text()? {
        Some(id) if id.len() > ID_LEN || !id.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Problem::NotAnId)
        }
        id => Ok(id),
    }
}

/// Another object's id: as it is, or in the object itself, be that a deleted one.
pub(super) fn link(field: Field) -> Result<Option<String>, Problem> {
    #[derive(Default, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Expanded<'a> {
        id: Field<'a>,
    }

    match field.object::<Expanded>()? {
        Some(expanded) => required(id(expanded.id)).map(Some),
        None => id(field),
    }
}

/// The merchant's own name for something. A longer one is not one of ours.
pub(super) fn reference(field: Field) -> Option<String> {
    text(field).filter(|text| text.chars().count() <= ID_CHARS)
}

/// What an object's metadata says of the agreement that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Names the agreement.
    pub pact_id: Option<String>,
    /// The merchant's own word for the sort of payment, `metadata.type`.
    pub payment_type: Option<String>,
    /// Which of several fulfilments of the agreement is paid, `metadata.fulfillment_cycle`.
    pub cycle: Option<String>,
}

pub(super) fn metadata(metadata: Field) -> Metadata {
    #[derive(Default, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Keys<'a> {
        pact_id: Field<'a>,
        #[serde(rename = "type")]
        payment_type: Field<'a>,
        fulfillment_cycle: Field<'a>,
    }

    let keys = metadata.object::<Keys>().unwrap_or_default();
    let keys = keys.unwrap_or_default();
    Metadata {
        pact_id: reference(keys.pact_id),
        payment_type: reference(keys.payment_type),
        cycle: reference(keys.fulfillment_cycle),
    }
}

/// The agreement that an object's metadata names.
pub(super) fn pact_id(field: Field) -> Option<String> {
    metadata(field).pact_id
}

pub(super) fn currency(field: Field) -> Result<Option<Currency>, Problem> {
    let code = field.text()?;
    code.map(|code| Currency::parse(&code).ok_or(Problem::NotACurrency))
        .transpose()
}

/// The provider's minor units, not below zero.
pub(super) fn minor(field: Field) -> Result<Option<i64>, Problem> {
    match field.integer()? {
        Some(..0) => Err(Problem::OutOfRange),
        minor => Ok(minor),
    }
}

/// An amount that the provider gives in its own minor units.
pub(super) fn money(field: Field, currency: Currency) -> Result<Option<Money>, Problem> {
    let minor = minor(field)?;
    let money = minor.map(|minor| Money::of_provider(minor, currency));
    Ok(money.transpose()?)
}

/// Unix seconds of our era.
pub(super) fn seconds(field: Field) -> Result<Option<i64>, Problem> {
    match field.integer()? {
        Some(seconds) if !(0..=LAST_SECOND).contains(&seconds) => Err(Problem::OutOfRange),
        seconds => Ok(seconds),
    }
}
