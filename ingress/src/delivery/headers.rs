//! What stands in the headers of a delivery, by the names that its profile gives them.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use domain::profile::{self, Headers, STANDARD_TIMESTAMP};
use domain::signature::{
    PaymentSignature, Scheme, Signature, SignatureError, StandardSignature, StorefrontSignature,
};
use flows::deliveries::{self, LONGEST_ID, is_topic};

use crate::error::Error;

const TIMESTAMP: HeaderName = HeaderName::from_static(STANDARD_TIMESTAMP);

/// A signature that could verify something.
pub fn signature<'a>(
    scheme: Scheme,
    headers: &'a HeaderMap,
    signature: &HeaderName,
    id: Option<&HeaderName>,
) -> Result<Signature<'a>, SignatureError> {
    let given = values(headers, signature);
    match scheme {
        Scheme::Body => StorefrontSignature::read(given).map(Signature::Body),
        Scheme::Timed => PaymentSignature::read(given).map(Signature::Timed),
        Scheme::Standard => {
            let ids = id.into_iter().flat_map(|id| values(headers, id));
            let times = values(headers, &TIMESTAMP);
            StandardSignature::read(given, ids, times).map(Signature::Standard)
        }
    }
}

fn values<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let values = headers.get_all(name).into_iter();
    values.map(HeaderValue::as_bytes)
}

/// The topic in the provider's words. `None`: the body names it.
pub fn topic(headers: &HeaderMap, names: &Headers<HeaderName>) -> Result<Option<String>, Error> {
    let Some(name) = &names.topic else {
        return Ok(None);
    };
    let topic = text(headers, name).map_err(|()| Error::TopicHeader)?;
    let topic = topic.filter(|topic| is_topic(topic));
    topic.map(Some).ok_or(Error::TopicHeader)
}

/// The shop domain in lower case, as the limits, the keys and the privacy checks compare it.
pub fn shop(
    headers: &HeaderMap,
    name: Option<&HeaderName>,
    holds: profile::Shop,
) -> Result<Option<String>, Error> {
    let Some(name) = name else {
        return Ok(None);
    };
    let shop = text(headers, name).map_err(|()| Error::ShopHeader)?;
    let Some(shop) = shop.filter(|shop| !shop.is_empty() && !is_placeholder(shop)) else {
        return Ok(None);
    };
    let (shop, is_shop) = match holds {
        profile::Shop::Domain => (shop.as_str(), is_domain(&shop)),
        profile::Shop::Url => {
            let shop = profile::shop_of(&shop);
            (shop, profile::is_shop(shop))
        }
    };
    if !is_shop {
        return Err(Error::ShopHeader);
    }
    Ok(Some(shop.to_ascii_lowercase()))
}

/// Whether this is what a provider's samples have in place of a shop: `{shop}.myshopify.com`.
pub fn is_placeholder(text: &str) -> bool {
    text.strip_prefix("{shop}.").is_some_and(is_domain)
}

fn is_domain(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte))
}

pub fn delivery_id(
    headers: &HeaderMap,
    names: &Headers<HeaderName>,
) -> Result<Option<String>, Error> {
    let Some(name) = &names.id else {
        return Ok(None);
    };
    let id = text(headers, name)
        .map_err(|()| Error::WebhookIdHeader)?
        .filter(|id| !id.is_empty());
    if id.as_ref().is_some_and(|id| id.len() > LONGEST_ID) {
        return Err(Error::WebhookIdHeader);
    }
    Ok(id)
}

pub fn api_version(headers: &HeaderMap, names: &Headers<HeaderName>) -> Option<String> {
    let text = text(headers, names.api_version.as_ref()?).ok().flatten();
    text.and_then(|text| deliveries::api_version(&text))
}

/// A header that may be missing but, when there, is visible text.
pub fn text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, ()> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| ())?;
    Ok(Some(text.trim().to_owned()))
}
