//! What the buyers of a shop see of it: its name, whom they may ask, its logo, and the language of its pages.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};
use url::{Host, Url};

use crate::origins::is_this_machine;

/// A language in which there are texts for buyers. It is written as its tag (BCP 47).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    EnumString,
    IntoStaticStr,
    VariantArray,
    Serialize,
    Deserialize,
)]
#[strum(const_into_str)]
pub enum Language {
    #[strum(serialize = "en")]
    #[serde(rename = "en")]
    English,
    #[strum(serialize = "de")]
    #[serde(rename = "de")]
    German,
    #[strum(serialize = "fr")]
    #[serde(rename = "fr")]
    French,
    #[strum(serialize = "es")]
    #[serde(rename = "es")]
    Spanish,
}

impl Language {
    pub const ALL: [Language; 4] = *Language::VARIANTS.as_array().unwrap();

    /// Its tag, as `lang` of a page and `Accept-Language` have it.
    pub fn tag(self) -> &'static str {
        self.into_str()
    }

    /// The language that a reader prefers among those that there are, by the header `Accept-Language` (RFC 9110, section
    /// 12.5.4). A region does not matter: who reads `de-AT` reads `de`.
    pub fn preferred(accepted: &str) -> Option<Self> {
        let ranges = accepted.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let primary = parts.next()?.split('-').next()?.to_ascii_lowercase();
            let weight = parts.find_map(|part| {
                let (name, weight) = part.split_once('=')?;
                name.eq_ignore_ascii_case("q").then_some(weight)
            });
            let weight: f32 = weight.map_or(Ok(1.0), str::parse).ok()?;
            Some((primary.parse::<Language>().ok()?, weight))
        });
        let mut best: Option<(Language, f32)> = None;
        for (language, weight) in ranges {
            if weight > best.map_or(0.0, |(_, weight)| weight) {
                best = Some((language, weight));
            }
        }
        best.map(|(language, _)| language)
    }
}

/// How a shop presents itself to its buyers. What is missing is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Branding {
    /// Its name, as its buyers know it.
    pub display_name: Option<String>,
    /// Whom its buyers may ask: an e-mail address, or the address of a page.
    pub contact: Option<String>,
    /// The language of its pages for buyers whose own there are no texts in.
    pub language: Option<Language>,
    /// The address of its logo.
    pub logo: Option<String>,
}

/// What of a shop's branding cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongBranding {
    #[error("must be a name of 1 to 80 characters")]
    Name,
    #[error("must be an e-mail address, or a page like https://shop.example/contact")]
    Contact,
    #[error("must be one of en, de, fr, es")]
    Language,
    #[error("must be the address of a picture like https://shop.example/logo.svg")]
    Logo,
}

/// The longest name, in characters, and the longest address, in bytes.
const LONGEST_NAME: usize = 80;
const LONGEST_ADDRESS: usize = 500;

/// Checks the name of a shop.
pub fn name(text: &str) -> Result<String, WrongBranding> {
    let text = text.trim();
    let fits = (1..=LONGEST_NAME).contains(&text.chars().count());
    let is_plain = !text.contains(char::is_control);
    (fits && is_plain)
        .then(|| text.to_owned())
        .ok_or(WrongBranding::Name)
}

/// Checks whom buyers may ask. An address of a page is returned as browsers write it.
pub fn contact(text: &str) -> Result<String, WrongBranding> {
    let text = text.trim();
    let is_address = text.split_once('@').is_some_and(|(who, host)| {
        let is_plain = |part: &str| {
            let is_plain = |it: char| {
                !it.is_control() && !it.is_whitespace() && !"<>@,;:\"()[]\\/?".contains(it)
            };
            !part.is_empty() && part.chars().all(is_plain)
        };
        is_plain(who) && is_plain(host)
    });
    if text.len() > LONGEST_ADDRESS {
        return Err(WrongBranding::Contact);
    }
    if is_address {
        return Ok(text.to_owned());
    }
    page(text).ok_or(WrongBranding::Contact)
}

/// Reads the tag of a language.
pub fn language(text: &str) -> Result<Language, WrongBranding> {
    text.trim().parse().map_err(|_| WrongBranding::Language)
}

/// Checks the address of a logo, and returns it as browsers write it.
pub fn logo(text: &str) -> Result<String, WrongBranding> {
    let text = text.trim();
    let fits = text.len() <= LONGEST_ADDRESS;
    fits.then(|| page(text))
        .flatten()
        .ok_or(WrongBranding::Logo)
}

/// An address that a browser can fetch without anybody between reading along. On this machine, for development, it may be
/// without encryption. Its origin stands in a content security policy, so its host is a plain name or number.
fn page(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_plain = match url.host()? {
        Host::Domain(name) => {
            let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-.".contains(&it);
            name.bytes().all(is_plain)
        }
        Host::Ipv4(_) => true,
        Host::Ipv6(_) => false,
    };
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_this_machine),
        _ => false,
    };
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    (is_plain && is_safe && is_anonymous).then(|| url.to_string())
}

impl Branding {
    /// The origin from which a page loads the logo, for its content security policy.
    pub fn logo_origin(&self) -> Option<String> {
        let url = Url::parse(self.logo.as_deref()?).ok()?;
        Some(url.origin().ascii_serialization())
    }

    /// Whether nothing is said of the shop.
    pub fn is_empty(&self) -> bool {
        *self == Branding::default()
    }
}
