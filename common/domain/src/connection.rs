//! The names of connections, and the ids that a payment provider gives.
//!
//! Two accounts of a payment provider may give one id twice, and whoever has the signing secret of one account can
//! name what belongs to another. So an id counts only within its connection: every id that is read from an event
//! has the connection's name behind it, `pi_1@stripe-b`, and so has the agreement that the event names. What the
//! connection [`DEFAULT`] brought keeps its ids as they are. Therefore whatever finds, merges, settles or erases by
//! an id does so within one connection, without asking which.

use std::borrow::Cow;

/// The connection that the settings make.
pub const DEFAULT: &str = "default";

/// What metrics call all connections but the hundred that were added first.
pub const OTHER: &str = "other";

/// Where a storefront posts its deliveries, and a payment provider; the name of a connection may follow.
pub const STOREFRONT_PATH: &str = "/api/webhooks/storefront";
pub const PAYMENT_PATH: &str = "/api/webhooks/payment";

/// Stands between an id and the name of its connection.
const MARK: char = '@';

const LONGEST: usize = 40;

/// Why a text cannot name a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAName {
    #[error(
        "a name has at most 40 lower-case letters, digits and hyphens, and begins and ends with a letter or digit"
    )]
    Form,
    #[error("the name default is that of the connection which the settings make")]
    Default,
    #[error("the name other is what metrics call many connections together")]
    Other,
}

/// The address at which deliveries of a side are taken, of a connection if one is named.
pub fn address(public_url: &str, path: &str, connection: Option<&str>) -> String {
    let public_url = public_url.trim_end_matches('/');
    match connection {
        Some(name) => format!("{public_url}{path}/{name}"),
        None => format!("{public_url}{path}"),
    }
}

/// Checks the name of a new connection. It stands in addresses, in ids and in metrics, and is never changed.
pub fn check_name(name: &str) -> Result<(), NotAName> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    let fits = name.len() <= LONGEST
        && ends.iter().all(|end| end.is_some_and(|end| is_plain(*end)))
        && bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-');
    match (fits, name) {
        (false, _) => Err(NotAName::Form),
        (true, DEFAULT) => Err(NotAName::Default),
        (true, OTHER) => Err(NotAName::Other),
        (true, _) => Ok(()),
    }
}

/// An id of the provider, as it counts within this connection. An id of the default that looks like one of another
/// connection gets the default's name, so no id can be made to belong to another connection.
pub fn qualified<'a>(connection: &str, id: &'a str) -> Cow<'a, str> {
    if connection == DEFAULT && !id.contains(MARK) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("{id}{MARK}{connection}"))
    }
}

/// The same for an id that is owned.
pub fn qualify(connection: &str, id: &mut String) {
    if let Cow::Owned(qualified) = qualified(connection, id) {
        *id = qualified;
    }
}

/// The connection of an id that [`qualified`] made.
pub fn of_id(id: &str) -> &str {
    id.rsplit_once(MARK).map_or(DEFAULT, |(_, name)| name)
}

/// The provider's own id, which its API is asked with.
pub fn bare(id: &str) -> &str {
    id.rsplit_once(MARK).map_or(id, |(id, _)| id)
}
