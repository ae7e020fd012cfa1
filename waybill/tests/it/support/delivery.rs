//! Signed deliveries, either right or wrong in one place.

use domain::signature::{sign_payment, sign_storefront};
use sandbox::sample;

use super::{PAYMENT_SECRET, START, STOREFRONT_SECRET};

pub const SHOP: &str = "shop.example";

#[derive(Clone)]
pub struct Delivery {
    pub path: &'static str,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// A storefront delivery with these bytes, signed, from [`SHOP`], without an id.
pub fn storefront(topic: &str, body: impl Into<Vec<u8>>) -> Delivery {
    let names = [
        "X-Storefront-Topic",
        "X-Storefront-Shop-Domain",
        "X-Storefront-Hmac-Sha256",
    ];
    signed(names, topic, SHOP, body.into())
}

/// `names` are those of the headers with the topic, the shop and the signature.
fn signed(names: [&'static str; 3], topic: &str, shop: &str, body: Vec<u8>) -> Delivery {
    let signature = sign_storefront(STOREFRONT_SECRET, &body);
    let [topic_name, shop_name, signature_name] = names;
    Delivery {
        path: "/api/webhooks/storefront",
        headers: vec![
            ("Content-Type", b"application/json".to_vec()),
            (topic_name, topic.into()),
            (shop_name, shop.into()),
            (signature_name, signature.into()),
        ],
        body,
    }
}

/// A storefront delivery as Shopify signs it, under its names of the headers.
pub fn shopify(topic: &str, shop: &str, id: &str, body: impl Into<Vec<u8>>) -> Delivery {
    let names = [
        "X-Shopify-Topic",
        "X-Shopify-Shop-Domain",
        "X-Shopify-Hmac-Sha256",
    ];
    signed(names, topic, shop, body.into()).also("X-Shopify-Webhook-Id", id)
}

/// The sample order of a seed.
pub fn order(topic: &str, seed: u64) -> Delivery {
    storefront(topic, sample::storefront(topic, seed, START.0).unwrap())
}

/// A payment event with these bytes, signed at [`START`].
pub fn payment(body: impl Into<Vec<u8>>) -> Delivery {
    payment_at(START.unix_seconds(), body)
}

pub fn payment_at(timestamp: i64, body: impl Into<Vec<u8>>) -> Delivery {
    let body = body.into();
    let signature = sign_payment(PAYMENT_SECRET, timestamp, &body);
    Delivery {
        path: "/api/webhooks/payment",
        headers: vec![
            ("Content-Type", b"application/json".to_vec()),
            ("Payment-Signature", signature.into()),
        ],
        body,
    }
}

impl Delivery {
    pub fn id(self, id: &str) -> Self {
        self.header("X-Storefront-Webhook-Id", id)
    }

    /// The same delivery from another shop than [`SHOP`].
    pub fn of_shop(self, shop: &str) -> Self {
        self.header("X-Storefront-Shop-Domain", shop)
    }

    /// The same delivery posted to another address.
    pub fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    /// The same delivery of a storefront, signed with another secret.
    pub fn signed_with(self, secret: &str) -> Self {
        let signature = sign_storefront(secret, &self.body);
        self.header("X-Storefront-Hmac-Sha256", signature)
    }

    /// Sets a header, in place of what it was.
    pub fn header(self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.without(name).also(name, value)
    }

    /// Adds a header line beside those that are there.
    pub fn also(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    pub fn value(&self, name: &str) -> &[u8] {
        let header = self.headers.iter().find(|(other, _)| *other == name);
        &header.expect("the header is there").1
    }
}
