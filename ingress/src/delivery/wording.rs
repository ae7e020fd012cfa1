//! What a sender is told of a delivery that is refused. The texts of `Error` have the header names of
//! the specification, so of the profile `generic`; to the sender of another profile these names say
//! nothing, and here the texts get the names that it really sends.

use std::borrow::Cow;

use config::connection::{HeaderName, PaymentConnection, StorefrontConnection};
use domain::profile::{GENERIC, GENERIC_PAYMENT, Headers, Shop, StorefrontProfile};

use crate::error::Error;

/// The text of the answer to a delivery of this connection.
pub fn storefront(connection: &StorefrontConnection, error: Error) -> Cow<'static, str> {
    let is_generic = connection.profile.name == GENERIC.name;
    let text = || of_storefront(error, connection.profile, &connection.headers);
    let text = (!is_generic).then(text).flatten();
    text.map_or_else(|| error.text(), Cow::Owned)
}

/// The same of a payment provider.
pub fn payment(connection: &PaymentConnection, error: Error) -> Cow<'static, str> {
    let is_generic = connection.profile.name == GENERIC_PAYMENT.name;
    if error == Error::PaymentSignature && !is_generic {
        wrong_signature(connection.profile.signature).into()
    } else {
        error.text()
    }
}

/// `None` if the text names no header.
fn of_storefront(
    error: Error,
    profile: &StorefrontProfile,
    names: &Headers<HeaderName>,
) -> Option<String> {
    let shop = |otherwise| names.shop.as_ref().map_or(otherwise, HeaderName::as_str);
    Some(match error {
        Error::StorefrontSignature => wrong_signature(names.signature.as_str()),
        Error::TopicHeader => {
            let topic = names.topic.as_ref()?;
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
            let id = names.id.as_ref()?;
            format!("{id} is not an id of at most 255 visible characters")
        }
        _ => return None,
    })
}

/// The same for a signature that is missing and for one that is wrong, so that a stranger learns
/// nothing from it.
fn wrong_signature(header: &str) -> String {
    format!("Invalid signature in {header}")
}
