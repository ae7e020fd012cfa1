//! Connections: a secret proves its own shop or account and nothing else, two accounts have nothing to do with each
//! other, and each change is known within a second.

mod accounts;
mod buyers;
mod changes;
mod lists;
mod secrets;
mod storm;

use operators::connections::{self as flow, Changes, Means, NewApi, Wanted};
use platform::token::Token;
use store::audit::By;

use crate::support::delivery::SHOP;
use crate::support::{Options, PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, service};

pub const KEY: &str = "7f3c0e5b2a9d4c1e8f60b7a5d3c2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
pub const A: &str = "a.example";
pub const B: &str = "b.example";
pub const SECRET_A: &str = "the signing secret of shop a";
pub const SECRET_B: &str = "the signing secret of shop b";

/// A service that can keep secrets.
pub fn with_connections() -> Options {
    service().setting("SECRETS_KEY", KEY)
}

pub fn by(service: &Service) -> By<'_> {
    By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    }
}

pub fn means(service: &Service) -> Means<'_> {
    Means {
        keys: &service.parts.config.secrets_keys,
        cleartext: &[],
    }
}

/// A connection of the storefront that the specification has, with one shop.
pub fn storefront(name: &str, shop: &str, secret: &str) -> Wanted {
    Wanted {
        name: name.to_owned(),
        provider: "generic".to_owned(),
        shops: vec![shop.to_owned()],
        secret: secret.to_owned(),
        changes: Changes {
            rate: Some(0),
            ..Changes::default()
        },
        ..Wanted::default()
    }
}

/// A connection of the payment provider that the specification has.
pub fn payments(name: &str, secret: &str) -> Wanted {
    Wanted {
        name: name.to_owned(),
        provider: "generic".to_owned(),
        secret: secret.to_owned(),
        changes: Changes {
            rate: Some(0),
            ..Changes::default()
        },
        ..Wanted::default()
    }
}

/// Connects an account of the payment provider, and the tests' shop, whose orders its payments pay for.
pub async fn connect_account(
    service: &Service,
    provider: &str,
    account: &str,
    api: Option<NewApi>,
) {
    let mut connected = payments("connected", PAYMENT_SECRET);
    provider.clone_into(&mut connected.provider);
    connected.account = Some(account.to_owned());
    connected.api = api;
    let mut shop = storefront("shop", SHOP, STOREFRONT_SECRET);
    shop.payments = Some("connected".to_owned());
    add(service, [connected, shop]).await;
}

pub fn api(url: String, token: &str) -> NewApi {
    NewApi {
        url,
        token: Token::new(token),
    }
}

/// Adds connections, and waits until the service knows them.
pub async fn add(service: &Service, wanted: impl IntoIterator<Item = Wanted>) {
    let mut names = Vec::new();
    for wanted in wanted {
        names.push(wanted.name.clone());
        let added = flow::add(service.db(), by(service), &means(service), wanted).await;
        added.unwrap_or_else(|why| panic!("{why}"));
    }
    eventually("the connections are known", async || {
        names.iter().all(|name| knows(service, name))
    })
    .await;
}

pub fn knows(service: &Service, name: &str) -> bool {
    let known = service.parts.connections.now();
    known.storefront(name).is_some() || known.payment(name).is_some()
}
