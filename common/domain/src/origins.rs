//! The pages to which buyers may be sent back: a page is allowed when its origin is listed. An
//! address that two programs could read differently is refused before it is compared, and the
//! address that is passed on is the one that was parsed here.

use url::Url;

use std::net::IpAddr;

/// The placeholder in an address that the payment provider replaces with the id of its session.
const SESSION_ID: &str = "{CHECKOUT_SESSION_ID}";
/// The placeholder as it is encoded in a path.
const ENCODED_SESSION_ID: &str = "%7BCHECKOUT_SESSION_ID%7D";

/// The longest address that is accepted, in bytes.
pub const LONGEST: usize = 2048;

/// Allowed origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    /// Such as `https://shop.example` and `http://127.0.0.1:8000`.
    listed: Vec<String>,
    /// True when any port of this machine is allowed too, for development.
    loopback: bool,
}

/// Why an address is not accepted. It never quotes the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("must be at most 2048 characters")]
    TooLong,
    #[error(
        "must be a whole http or https address, like https://shop.example/thanks, without user, \
         password, backslashes, spaces and control characters"
    )]
    NotPlain,
    #[error("leads to an origin that is not one of CHECKOUT_RETURN_ORIGINS")]
    OtherOrigin,
}

impl Origins {
    /// The origins that are allowed without a setting: our own origin and this machine.
    pub fn of_public_url(url: &str) -> Self {
        let own = plain(url).map(|url| url.origin().ascii_serialization());
        Origins {
            listed: own.into_iter().collect(),
            loopback: true,
        }
    }

    /// Reads a list of origins. The error is the first entry that is not an origin.
    pub fn read(list: &str) -> Result<Self, String> {
        let entries = list.split(',').map(str::trim);
        let listed = entries.map(|entry| origin(entry).ok_or_else(|| entry.to_owned()));
        Ok(Origins {
            listed: listed.collect::<Result<_, _>>()?,
            loopback: false,
        })
    }

    /// Checks an address and returns it in the form that may be passed on.
    pub fn check(&self, address: &str) -> Result<String, NotAllowed> {
        if address.len() > LONGEST {
            return Err(NotAllowed::TooLong);
        }
        let url = plain(address).ok_or(NotAllowed::NotPlain)?;
        let origin = url.origin().ascii_serialization();
        if self.listed.contains(&origin)
            || (self.loopback && url.host_str().is_some_and(is_this_machine))
        {
            return Ok(passed_on(&url, address));
        }
        Err(NotAllowed::OtherOrigin)
    }
}

/// The parsed address, in which the session placeholder is written as it was given. In a path the
/// parser encodes the braces, and the provider would not find the placeholder any more.
fn passed_on(url: &Url, given: &str) -> String {
    if given.contains(SESSION_ID) {
        return url.as_str().replace(ENCODED_SESSION_ID, SESSION_ID);
    }
    url.to_string()
}

/// The origin, if the text is an origin and nothing more.
fn origin(text: &str) -> Option<String> {
    let url = plain(text)?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    is_bare.then(|| url.origin().ascii_serialization())
}

/// Parses an address that every program reads in the same way. Browsers repair an address that
/// has non-ASCII characters, backslashes or line breaks, or that lacks slashes, each browser in
/// its own way, so such an address is refused.
fn plain(text: &str) -> Option<Url> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next()?;
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if !is_plain || host.is_empty() || host.contains('@') {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    (url.has_host() && !has_user).then_some(url)
}

/// True for a host that is this machine itself.
pub fn is_this_machine(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}
