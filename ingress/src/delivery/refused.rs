//! A delivery that is not taken, and what its headers say of why. The sender learns no more than
//! the answer; the rest is for the operator.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use domain::job::Source;
use domain::profile::{self, Clue, PAYMENTS, STOREFRONTS};
use domain::signature::SignatureError;
use flows::deliveries::is_topic;

use super::headers;
use crate::error::Error;
use crate::intake::Unavailable;
use crate::limit::{Limit, Limited};

/// Names that are kept of one request.
const MOST_NAMES: usize = 4;
const LONGEST_NAME: usize = 64;

pub struct Refused {
    pub error: Error,
    /// What is wrong with the signature, when that is why.
    pub signature: Option<SignatureError>,
    /// It has the signature of another provider.
    pub clue: Option<Clue>,
    /// Which limit there was no room in, when that is why.
    pub limit: Option<Limit>,
    /// When it was signed, in Unix seconds, as it says.
    pub signed_at: Option<u64>,
    /// As far as it was read.
    pub body: Option<Bytes>,
    pub about: About,
    /// By which connection it came, as far as that is known.
    pub by: Box<By>,
}

/// The connection of a refused delivery.
#[derive(Clone, Debug, Default)]
pub struct By {
    /// Empty for the default one.
    pub connection: String,
    /// `None`: the default one's.
    pub profile: Option<&'static str>,
    /// The answer in the words of the profile. `None`: that of the error.
    pub detail: Option<Cow<'static, str>>,
}

/// What the headers of a refused delivery say. Anybody may have written them.
#[derive(Default)]
pub struct About {
    /// The names of headers that look like a signature's, with spaces between.
    pub headers: String,
    pub topic: Option<String>,
    pub shop: Option<String>,
}

/// What to do about the headers of another provider at the address of a connection.
const OTHER_PROVIDER: &str = "if its provider sent this, add a connection with the --provider whose headers came, or with \
     headers and the names of these, and remove this one";
/// What to do about one body that comes again and again at a connection.
const REPEATED: &str = "find out whether it is a test of yours that repeats one body; otherwise somebody sends again what they \
     have captured";
/// What to do about a limit of a connection.
const HIGHER_RATE: &str = "remove the connection and add it anew with a higher --rate, if this is what its provider sends";

impl Refused {
    /// One whose signature is missing or wrong. `profile` is the one that was chosen.
    pub(super) fn signature(
        source: Source,
        profile: &'static str,
        headers: &HeaderMap,
        why: SignatureError,
    ) -> Self {
        metrics::counter!(
            "waybill_signatures_refused_total",
            "source" => source.into_str(), "reason" => why.into_str()
        )
        .increment(1);
        let is_missing = why == SignatureError::Missing;
        let clue = || profile::clue(source, profile, |name| headers.contains_key(name));
        let clue = is_missing.then(clue).flatten();
        if let Some(Clue { header, .. }) = clue {
            metrics::counter!(
                "waybill_deliveries_of_another_profile_total",
                "source" => source.into_str(), "header" => header
            )
            .increment(1);
        }
        Refused {
            signature: Some(why),
            clue,
            ..Refused::from(match source {
                Source::Payment => Error::PaymentSignature,
                Source::Storefront | Source::Internal => Error::StorefrontSignature,
            })
        }
    }

    /// The same, of one that was read and signed.
    pub(super) fn of(self, body: &Bytes, signed_at: Option<u64>) -> Self {
        Refused {
            signed_at,
            body: Some(body.clone()),
            ..self
        }
    }

    /// The setting that would take it, or what else to do; empty when nothing would.
    pub fn advice(&self, source: Source) -> &'static str {
        let is_of_settings = self.by.connection.is_empty();
        if let Some(clue) = self.clue {
            return if is_of_settings {
                clue.advice
            } else {
                OTHER_PROVIDER
            };
        }
        if let Some(limit) = self.limit {
            return match limit {
                _ if is_of_settings => limit.advice(),
                Limit::Body | Limit::Event => REPEATED,
                Limit::Shop | Limit::AllShops | Limit::Payment => HIGHER_RATE,
            };
        }
        let is_storefront = source == Source::Storefront;
        match (self.error, self.signature) {
            (_, Some(SignatureError::Missing))
                if is_storefront && !self.about.headers.is_empty() && !is_of_settings =>
            {
                OTHER_PROVIDER
            }
            (_, Some(SignatureError::Missing))
                if is_storefront && !self.about.headers.is_empty() =>
            {
                "STOREFRONT_PROVIDER=headers, and STOREFRONT_HEADERS with the names of these"
            }
            (_, Some(SignatureError::Missing)) => "",
            (_, Some(SignatureError::Stale | SignatureError::Early)) => {
                "PAYMENT_TOLERANCE_SECONDS, or set the clocks right"
            }
            (_, Some(_)) if !is_of_settings => {
                "give the connection the provider's secret with `waybill connections rotate`"
            }
            (_, Some(_)) if is_storefront => "STOREFRONT_WEBHOOK_SECRET to the provider's",
            (_, Some(_)) => "PAYMENT_WEBHOOK_SECRET to the provider's",
            (Error::NotThisMachine, _) if is_storefront => {
                "STOREFRONT_WEBHOOK_SECRET to one of your own"
            }
            (Error::NotThisMachine, _) => "PAYMENT_WEBHOOK_SECRET to one of your own",
            (Error::ShopUnknown, _) => "STOREFRONT_SHOPS to this shop too",
            (Error::ShopBound | Error::ShopOfAnother | Error::AccountOfAnother, _) => {
                "look at the addresses and secrets at the provider: `waybill connections list` shows which connection has which shop"
            }
            (Error::ConnectionUnknown, _) => {
                "post to the address of a connection that there is, or add it with `waybill connections add`"
            }
            (Error::PrivacyBody | Error::PrivacyShop, _) => {
                "ask the storefront what was requested, and begin it by `waybill privacy request`, \
                 because it is due within 30 days"
            }
            (Error::OverShare, _) => {
                "find out why the database is slow: more came of one shop than it could store, and others went first"
            }
            (Error::BodyTooLarge, _) => "WEBHOOK_MAX_BODY_BYTES to more",
            _ => "",
        }
    }
}

impl About {
    pub(super) fn read(
        headers: &HeaderMap,
        topic: Option<&HeaderName>,
        shop: Option<&HeaderName>,
    ) -> Self {
        let text = |name: &HeaderName| headers::text(headers, name).ok().flatten();
        // It may have come with the names of another profile.
        let mut profiles = STOREFRONTS.iter().map(|profile| &profile.headers);
        let others = profiles.find(|names| headers.contains_key(names.signature));
        let of_other = |name: Option<&'static str>| text(&HeaderName::from_static(name?));
        let topic = topic.and_then(text);
        let topic = topic.or_else(|| of_other(others?.topic));
        let shop = shop.and_then(text);
        let shop = shop.or_else(|| of_other(others?.shop));
        let shop = shop.map(|shop| profile::shop_of(&shop).to_ascii_lowercase());
        About {
            headers: names(headers),
            topic: topic.filter(|topic| is_topic(topic)),
            shop: shop.filter(|shop| profile::is_shop(shop)),
        }
    }
}

/// The names of headers that could hold a signature.
fn names(headers: &HeaderMap) -> String {
    let is_known = |name: &str| {
        STOREFRONTS.iter().any(|it| it.headers.signature == name)
            || PAYMENTS.iter().any(|it| it.signature == name)
    };
    let looks_so = |name: &&str| {
        is_known(name)
            || ((name.contains("hmac") || name.contains("signature")) && name.len() <= LONGEST_NAME)
    };
    let found = headers.keys().map(HeaderName::as_str).filter(looks_so);
    let found: Vec<&str> = found.take(MOST_NAMES).collect();
    found.join(" ")
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused {
            error,
            signature: None,
            clue: None,
            limit: None,
            signed_at: None,
            body: None,
            about: About::default(),
            by: Box::default(),
        }
    }
}

impl From<Unavailable> for Refused {
    fn from(unavailable: Unavailable) -> Self {
        Error::from(unavailable).into()
    }
}

impl From<Limited> for Refused {
    fn from(limited: Limited) -> Self {
        Refused {
            limit: Some(limited.limit),
            ..Refused::from(Error::RateLimited(limited.wait))
        }
    }
}
