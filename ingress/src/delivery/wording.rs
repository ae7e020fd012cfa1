//! What a sender is told of a delivery that is refused. The texts of `Error` have the header names of
//! the specification, so of the profile `generic`; to the sender of another profile these names say
//! nothing, and here the texts get the names that it really sends.

use std::borrow::Cow;

use config::Config;
use domain::job::Source;
use domain::profile::{GENERIC, GENERIC_PAYMENT, Headers, Shop, StorefrontProfile};

use crate::error::Error;

/// The text of the answer to a delivery of this source.
pub fn text(config: &Config, source: Source, error: Error) -> Cow<'static, str> {
    let text = match source {
        Source::Storefront => {
            let profile = config.storefront_profile;
            let is_generic = profile.name == GENERIC.name;
            (!is_generic).then(|| of_storefront(error, profile, &config.storefront_headers))
        }
        Source::Payment => {
            let profile = config.payment_profile;
            let is_generic = profile.name == GENERIC_PAYMENT.name;
            (!is_generic).then(|| of_payment(error, profile.signature))
        }
        Source::Internal => None,
    };
    match text.flatten() {
        Some(text) => text.into(),
        None => error.text(),
    }
}

/// `None` if the text names no header.
fn of_storefront(
    error: Error,
    profile: &StorefrontProfile,
    names: &Headers<String>,
) -> Option<String> {
    let shop = |otherwise| names.shop.as_deref().unwrap_or(otherwise);
    Some(match error {
        Error::StorefrontSignature => wrong_signature(&names.signature),
        Error::TopicHeader => {
            let topic = names.topic.as_deref()?;
            let like = profile.topics.first().map_or("orders/create", |(it, _)| it);
            format!("{topic} is missing or is not a topic like {like}")
        }
        Error::ShopHeader => {
            let what = match profile.shop {
                Shop::Domain => "a domain",
                Shop::Url => "the address of a shop",
            };
            format!("{} is not {what}", shop("shop_domain of the body"))
        }
        Error::ShopUnknown => {
            let shop = shop("shop_domain of the body");
            format!("{shop} is not one of STOREFRONT_SHOPS")
        }
        // Without a header the shop is the only one of the setting.
        Error::PrivacyShop => {
            let shop = shop("STOREFRONT_SHOPS");
            format!("{shop} is not the shop_domain of the body")
        }
        Error::WebhookIdHeader => {
            let id = names.id.as_deref()?;
            format!("{id} is not an id of at most 255 visible characters")
        }
        _ => return None,
    })
}

fn of_payment(error: Error, signature: &str) -> Option<String> {
    (error == Error::PaymentSignature).then(|| wrong_signature(signature))
}

/// The same for a signature that is missing and for one that is wrong, so that a stranger learns
/// nothing from it.
fn wrong_signature(header: &str) -> String {
    format!("Invalid signature in {header}")
}
