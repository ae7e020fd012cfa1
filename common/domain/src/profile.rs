//! What Waybill knows of each provider that can be connected: how it signs, in which headers it
//! names a delivery, what it calls our topics, how its bodies are read. One row for each profile;
//! nothing else in the program distinguishes providers. Names of headers are matched without case.

use std::collections::BTreeSet;

use crate::job::Source;
use crate::signature::Scheme;

/// A storefront, as `STOREFRONT_PROVIDER` names it.
#[derive(Debug)]
pub struct StorefrontProfile {
    pub name: &'static str,
    /// The setting that chooses it.
    pub setting: &'static str,
    pub scheme: Scheme,
    pub headers: Headers<&'static str>,
    pub delivery_id: DeliveryId,
    pub shop: Shop,
    /// Its name for a topic, and ours. What is not listed keeps its name.
    pub topics: &'static [(&'static str, &'static str)],
    pub bodies: Bodies,
    /// The answer to a delivery that came before, where `WEBHOOK_DUPLICATE_STATUS` is not set.
    pub duplicate_status: u16,
    pub order_ids: OrderIds,
    /// What a shop may send where `STOREFRONT_RATE_PER_SECOND` is not set.
    pub rate: Rate,
    pub api: StorefrontApi,
    /// For how long its API lists what changed. None: for ever.
    pub listed_days: Option<u32>,
    pub setup: Setup,
}

/// What a storefront's API is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorefrontApi {
    /// Everything; the access token stands in this header. `names_shop`: a header names the shop, so one address is good for
    /// several shops. Without it the address is that of one shop.
    Rest {
        token_header: &'static str,
        names_shop: bool,
    },
    /// Which orders changed, for reconciliation, and nothing else. The token is the consumer key and the consumer secret
    /// with a colon between.
    WooCommerce,
}

impl StorefrontApi {
    /// Whether it is asked to fulfil orders and to confirm topics.
    pub const fn fulfils(self) -> bool {
        matches!(self, StorefrontApi::Rest { .. })
    }

    /// What is wrong with a token that it does not take.
    pub const NO_PAIR: &str = "must be the consumer key and the consumer secret of the REST API with a colon between: \
                               ck_..:cs_..";

    pub fn takes(self, token: &str) -> bool {
        self.fulfils() || token.contains(':')
    }
}

/// How fast deliveries may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// 0: no limit.
    pub per_second: u32,
    /// How many may come at once, in seconds' worth of the rate.
    pub burst_seconds: u32,
}

/// The rate of providers that end a subscription after some refusals. A shop's sale of 5,000 orders in three minutes is
/// nothing unusual; with three topics of each order, each delivered twice, it is 167 deliveries a second.
const BUSY: Rate = Rate {
    per_second: 250,
    burst_seconds: 10,
};

/// What somebody must know who connects a provider; `waybill connect` and docs/connect.md say it.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Where the provider takes the address to which it posts.
    pub page: &'static str,
    /// What the signing secret is at the provider.
    pub secret: &'static str,
    /// What the provider does when answers are not 2xx, a 409 among them. `None`: it takes a 409 for
    /// what it is.
    pub on_failures: Option<&'static str>,
    /// What else would surprise.
    pub beware: Option<&'static str>,
}

/// A payment provider, as `PAYMENT_PROVIDER` names it.
#[derive(Debug)]
pub struct PaymentProfile {
    pub name: &'static str,
    /// The setting that chooses it.
    pub setting: &'static str,
    pub scheme: Scheme,
    pub signature: &'static str,
    /// The header with the event's id. `None`: the body has it.
    pub id: Option<&'static str>,
    /// It also sends events without their object, which are fetched (`payment::thin`).
    pub thin_events: bool,
    /// What may be sent where `PAYMENT_RATE_PER_SECOND` is not set.
    pub rate: Rate,
    /// For how long its API lists its events.
    pub listed_days: Option<u32>,
    pub setup: Setup,
}

/// The headers of a storefront's delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers<T> {
    pub signature: T,
    pub id: Option<T>,
    /// `None`: the body's `type` is the topic.
    pub topic: Option<T>,
    pub shop: Option<T>,
    pub api_version: Option<T>,
}

impl<T> Headers<T> {
    /// The same headers, each name in another form.
    pub fn try_map<U, E>(&self, read: impl Fn(&T) -> Result<U, E>) -> Result<Headers<U>, E> {
        let optional = |name: &Option<T>| name.as_ref().map(&read).transpose();
        Ok(Headers {
            signature: read(&self.signature)?,
            id: optional(&self.id)?,
            topic: optional(&self.topic)?,
            shop: optional(&self.shop)?,
            api_version: optional(&self.api_version)?,
        })
    }
}

/// The part of a delivery that is the same when the provider sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryId {
    Header,
    /// The provider makes its ids of the webhook and the second, so that two orders of one second
    /// have the same one: the id counts together with the body.
    HeaderAndBody,
}

/// Whether whoever has the id of one order knows those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderIds {
    Random,
    CountUp,
    Unknown,
}

/// What the header of the shop holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shop {
    Domain,
    /// The address of its first page.
    Url,
}

/// How the bodies of a storefront are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// The order itself, or the body of a privacy topic.
    Plain,
    /// The same, in `data` beside a `type` that is the topic.
    Enveloped,
    /// `order::woocommerce`; and a form without a signature when a webhook is set up.
    WooCommerce,
}

/// The topics of senders that put a dot where we put a slash.
const DOTTED: &[(&str, &str)] = &[
    ("order.created", "orders/create"),
    ("order.updated", "orders/updated"),
    ("order.paid", "orders/paid"),
    ("order.fulfilled", "orders/fulfilled"),
    ("order.cancelled", "orders/cancelled"),
    ("order.canceled", "orders/cancelled"),
    ("customer.data_request", "customers/data_request"),
    ("customer.redact", "customers/redact"),
    ("shop.redact", "shop/redact"),
];

/// The header with the time of a Standard Webhooks signature.
pub const STANDARD_TIMESTAMP: &str = "webhook-timestamp";
const STANDARD_SIGNATURE: &str = "webhook-signature";
const STANDARD_ID: &str = "webhook-id";
/// Where the API of our own specification expects the access token.
pub const OWN_TOKEN_HEADER: &str = "X-Storefront-Access-Token";

/// The names of the specification.
pub static GENERIC: StorefrontProfile = generic();

/// What the rows of other profiles begin with.
const fn generic() -> StorefrontProfile {
    StorefrontProfile {
        name: "generic",
        setting: "STOREFRONT_PROVIDER=generic",
        scheme: Scheme::Body,
        headers: Headers {
            signature: "x-storefront-hmac-sha256",
            id: Some("x-storefront-webhook-id"),
            topic: Some("x-storefront-topic"),
            shop: Some("x-storefront-shop-domain"),
            api_version: Some("x-storefront-api-version"),
        },
        delivery_id: DeliveryId::Header,
        shop: Shop::Domain,
        topics: &[],
        bodies: Bodies::Plain,
        duplicate_status: 409,
        order_ids: OrderIds::Unknown,
        // The limit of the specification.
        rate: Rate {
            per_second: 2,
            burst_seconds: 1,
        },
        api: StorefrontApi::Rest {
            token_header: OWN_TOKEN_HEADER,
            names_shop: true,
        },
        listed_days: None,
        setup: Setup {
            page: "the settings of webhooks at the storefront",
            secret: "a long random text that the storefront signs with; both sides have the same",
            on_failures: None,
            beware: None,
        },
    }
}

/// What a sender of Standard Webhooks calls these.
const STANDARD: Setup = Setup {
    page: "the settings of webhooks at the sender",
    secret: "the signing secret of the endpoint, whsec_.., or the public key, whpk_..",
    on_failures: Some("most senders repeat it for days, and then switch the endpoint off"),
    beware: None,
};

/// Names of headers of one's own, by `STOREFRONT_HEADERS`; the rest is as in [`GENERIC`].
pub static OWN_HEADERS: StorefrontProfile = StorefrontProfile {
    name: "headers",
    setting: "STOREFRONT_PROVIDER=headers",
    ..generic()
};

pub static STOREFRONTS: [&StorefrontProfile; 5] = [
    &GENERIC,
    &StorefrontProfile {
        name: "shopify",
        setting: "STOREFRONT_PROVIDER=shopify",
        headers: Headers {
            signature: "x-shopify-hmac-sha256",
            // Not X-Shopify-Event-Id: all deliveries of one action share that.
            id: Some("x-shopify-webhook-id"),
            topic: Some("x-shopify-topic"),
            shop: Some("x-shopify-shop-domain"),
            api_version: Some("x-shopify-api-version"),
        },
        duplicate_status: 200,
        order_ids: OrderIds::Random,
        rate: BUSY,
        api: StorefrontApi::Rest {
            token_header: "X-Shopify-Access-Token",
            names_shop: false,
        },
        // More with the right to read all orders.
        listed_days: Some(60),
        setup: Setup {
            page: "the webhooks of the app, or Settings, Notifications, Webhooks of the shop; format JSON",
            secret: "the client secret of the app; for webhooks of the shop's settings the key shown there",
            on_failures: Some("Shopify takes a subscription away after eight failures in a row"),
            beware: Some(
                "the topics about people's data are compliance webhooks, which are set in the app alone",
            ),
        },
        ..generic()
    },
    &StorefrontProfile {
        name: "woocommerce",
        setting: "STOREFRONT_PROVIDER=woocommerce",
        headers: Headers {
            signature: "x-wc-webhook-signature",
            id: Some("x-wc-webhook-delivery-id"),
            topic: Some("x-wc-webhook-topic"),
            shop: Some("x-wc-webhook-source"),
            api_version: None,
        },
        delivery_id: DeliveryId::HeaderAndBody,
        shop: Shop::Url,
        topics: &[
            ("order.created", "orders/create"),
            ("order.updated", "orders/updated"),
            ("order.restored", "orders/updated"),
            ("order.deleted", "orders/delete"),
        ],
        bodies: Bodies::WooCommerce,
        // It switches a webhook off after five answers that are not 2xx.
        duplicate_status: 200,
        order_ids: OrderIds::CountUp,
        rate: BUSY,
        api: StorefrontApi::WooCommerce,
        setup: Setup {
            page: "WooCommerce, Settings, Advanced, Webhooks: the delivery URL, API version 3",
            secret: "the secret of the webhooks; give each webhook the same one",
            on_failures: Some("WooCommerce switches a webhook off after five failures"),
            beware: Some(
                "it posts a form without a signature when a webhook is saved; that is no delivery",
            ),
        },
        ..generic()
    },
    &OWN_HEADERS,
    &StorefrontProfile {
        name: "standard-webhooks",
        setting: "STOREFRONT_PROVIDER=standard-webhooks",
        scheme: Scheme::Standard,
        headers: Headers {
            signature: STANDARD_SIGNATURE,
            id: Some(STANDARD_ID),
            topic: None,
            shop: None,
            api_version: None,
        },
        topics: DOTTED,
        bodies: Bodies::Enveloped,
        duplicate_status: 200,
        order_ids: OrderIds::Unknown,
        rate: BUSY,
        setup: STANDARD,
        ..generic()
    },
];

/// The limit of the specification.
const PAYMENT_RATE: Rate = Rate {
    per_second: 100,
    burst_seconds: 2,
};

pub static GENERIC_PAYMENT: PaymentProfile = PaymentProfile {
    name: "generic",
    setting: "PAYMENT_PROVIDER=generic",
    scheme: Scheme::Timed,
    signature: "payment-signature",
    id: None,
    thin_events: false,
    rate: PAYMENT_RATE,
    listed_days: Some(30),
    setup: Setup {
        page: "the settings of webhooks at the payment provider",
        secret: "the signing secret of the endpoint",
        on_failures: None,
        beware: None,
    },
};

pub static PAYMENTS: [&PaymentProfile; 3] = [
    &GENERIC_PAYMENT,
    &PaymentProfile {
        name: "stripe",
        setting: "PAYMENT_PROVIDER=stripe",
        scheme: Scheme::Timed,
        signature: "stripe-signature",
        id: None,
        thin_events: true,
        rate: BUSY,
        listed_days: Some(30),
        setup: Setup {
            page: "Developers, Webhooks: the endpoint's URL",
            secret: "the signing secret of the endpoint, with its whsec_",
            on_failures: None,
            beware: Some(
                "each endpoint has a secret of its own, and so has the provider's command line that \
                 forwards events",
            ),
        },
    },
    &PaymentProfile {
        name: "standard-webhooks",
        setting: "PAYMENT_PROVIDER=standard-webhooks",
        scheme: Scheme::Standard,
        signature: STANDARD_SIGNATURE,
        id: Some(STANDARD_ID),
        thin_events: false,
        rate: BUSY,
        listed_days: None,
        setup: STANDARD,
    },
];

/// The headers in which the profiles have their signatures, each once.
pub fn signature_headers() -> BTreeSet<&'static str> {
    let storefronts = STOREFRONTS.iter().map(|profile| profile.headers.signature);
    let payments = PAYMENTS.iter().map(|profile| profile.signature);
    storefronts.chain(payments).collect()
}

/// The names of all profiles, each once.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = STOREFRONTS.iter().map(|profile| profile.name).collect();
    let payments = PAYMENTS.iter().map(|profile| profile.name);
    let more: Vec<_> = payments.filter(|name| !names.contains(name)).collect();
    names.extend(more);
    names
}

impl StorefrontProfile {
    pub fn named(name: &str) -> Option<&'static Self> {
        STOREFRONTS.into_iter().find(|profile| profile.name == name)
    }

    /// Whether its API says of which shop an order is, where a connection has several.
    pub fn api_names_shop(&self) -> bool {
        let names_shop = matches!(self.api, StorefrontApi::Rest { names_shop, .. } if names_shop);
        names_shop && self.headers.shop.is_some()
    }

    /// Our name for a topic of this provider.
    pub fn topic(&self, theirs: String) -> String {
        let ours = self.topics.iter().find(|(name, _)| *name == theirs);
        ours.map_or(theirs, |(_, ours)| (*ours).to_owned())
    }

    /// Its names for the topics that something is done with. `ours` are all such topics.
    pub fn subscriptions(&self, ours: &[&'static str]) -> Vec<&'static str> {
        if self.topics.is_empty() {
            return ours.to_vec();
        }
        let theirs = self.topics.iter();
        let handled = theirs.filter(|(_, topic)| ours.contains(topic));
        handled.map(|(name, _)| *name).collect()
    }
}

impl PaymentProfile {
    pub fn named(name: &str) -> Option<&'static Self> {
        PAYMENTS.into_iter().find(|profile| profile.name == name)
    }
}

/// The name of a shop that names itself by an address: its domain and its folder, because several
/// shops can be in folders of one host, each with orders of the same numbers.
/// `https://shop.example/en/` is the shop `shop.example/en`.
pub fn shop_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let name = rest.split(['?', '#']).next().unwrap_or(rest);
    name.trim_end_matches('/')
}

/// Whether this can be the name of a shop: a domain, and perhaps a folder.
pub fn is_shop(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        part.bytes().all(is_plain) && part.bytes().any(|byte| byte.is_ascii_alphanumeric())
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

/// A header of another profile, and what would have to be done for it to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clue {
    pub header: &'static str,
    /// A setting and its value, or the path to post to.
    pub advice: &'static str,
}

/// Which provider seems to have sent a request to the path of `source`, where the profile `chosen` found no signature.
/// `has` says whether the request has a header.
pub fn clue(source: Source, chosen: &str, has: impl Fn(&str) -> bool) -> Option<Clue> {
    let storefronts = STOREFRONTS
        .iter()
        .filter(|it| it.name != OWN_HEADERS.name)
        .map(|it| (it.name, it.headers.signature, it.setting));
    let payments = PAYMENTS
        .iter()
        .map(|it| (it.name, it.signature, it.setting));
    let found = |(_, header, advice): (&str, &'static str, &'static str)| {
        has(header).then_some(Clue { header, advice })
    };
    let of_others = |header: &'static str, advice| has(header).then_some(Clue { header, advice });
    match source {
        Source::Storefront => storefronts
            .filter(|(name, ..)| *name != chosen)
            .find_map(found)
            .or_else(|| {
                let advice = "the payment provider posts to /api/webhooks/payment";
                payments
                    .clone()
                    .find_map(|(_, header, _)| of_others(header, advice))
            }),
        Source::Payment => payments
            .filter(|(name, ..)| *name != chosen)
            .find_map(found)
            .or_else(|| {
                let advice = "the storefront posts to /api/webhooks/storefront";
                storefronts
                    .clone()
                    .find_map(|(_, header, _)| of_others(header, advice))
            }),
        Source::Internal => None,
    }
}

/// What is wrong with the names of a provider's headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongHeaders {
    #[error(
        "has {0:?}; it must be a list like signature=x-shop-hmac,id=x-shop-id,topic=x-shop-topic,shop=x-shop"
    )]
    Entry(String),
    #[error("has {0:?}, which is no name of a header")]
    Name(String),
    #[error("names {0} twice")]
    Twice(&'static str),
    #[error("lacks {0}=..")]
    Missing(&'static str),
}

/// Reads `STOREFRONT_HEADERS`: `signature=..,id=..,topic=..,shop=..,version=..`, of which the
/// signature and the topic are needed.
pub fn read_headers(text: &str) -> Result<Headers<String>, WrongHeaders> {
    const KEYS: [&str; 5] = ["signature", "id", "topic", "shop", "version"];
    let mut names: [Option<String>; 5] = Default::default();
    for entry in text.split(',').map(str::trim) {
        let wrong = || WrongHeaders::Entry(entry.to_owned());
        let (key, name) = entry.split_once('=').ok_or_else(wrong)?;
        let place = KEYS.iter().position(|it| *it == key.trim());
        let place = place.ok_or_else(wrong)?;
        let name = name.trim().to_ascii_lowercase();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > 100 || !name.bytes().all(is_part) {
            return Err(WrongHeaders::Name(name));
        }
        if names[place].replace(name).is_some() {
            return Err(WrongHeaders::Twice(KEYS[place]));
        }
    }
    let [signature, id, topic, shop, api_version] = names;
    Ok(Headers {
        signature: signature.ok_or(WrongHeaders::Missing("signature"))?,
        id,
        topic: Some(topic.ok_or(WrongHeaders::Missing("topic"))?),
        shop,
        api_version,
    })
}
