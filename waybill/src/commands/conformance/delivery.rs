//! Deliveries as a provider signs them, each another one than the one before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use domain::profile::{GENERIC, GENERIC_PAYMENT, PAYMENTS, STANDARD_TIMESTAMP, STOREFRONTS};
use domain::signature::{Scheme, sign_payment, sign_standard, sign_storefront};
use platform::clock::Clock;
use reqwest::{Client, StatusCode, Url};
use sandbox::sample;

use super::PATIENCE;
use crate::commands::{client, misused};

/// As which provider deliveries are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sender {
    Storefront,
    Payment,
    Shopify,
    Stripe,
    StandardWebhooks,
    /// And all that sign as GitHub does: `sha256=` and the HMAC of the body in hex.
    Github,
}

impl Sender {
    pub fn scheme(self) -> Scheme {
        match self {
            Sender::Storefront | Sender::Shopify | Sender::Github => Scheme::Body,
            Sender::Payment | Sender::Stripe => Scheme::Timed,
            Sender::StandardWebhooks => Scheme::Standard,
        }
    }

    /// The header with the signature.
    fn signature_header(self) -> &'static str {
        match self {
            Sender::Storefront => GENERIC.headers.signature,
            Sender::Payment => GENERIC_PAYMENT.signature,
            Sender::Shopify => storefront("shopify").signature,
            Sender::StandardWebhooks => storefront("standard-webhooks").signature,
            Sender::Github => "x-hub-signature-256",
            Sender::Stripe => {
                let mut profiles = PAYMENTS.iter();
                let stripe = profiles.find(|profile| profile.name == "stripe");
                stripe.map_or(GENERIC_PAYMENT.signature, |profile| profile.signature)
            }
        }
    }
}

fn storefront(name: &str) -> &'static domain::profile::Headers<&'static str> {
    let mut profiles = STOREFRONTS.iter();
    let profile = profiles.find(|profile| profile.name == name);
    profile.map_or(&GENERIC.headers, |profile| &profile.headers)
}

/// A request that is ready to be sent.
#[derive(Clone)]
pub struct Delivery {
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The name of its header with the signature.
    signature_header: String,
}

impl Delivery {
    /// Changes the signature.
    pub fn sign_as(&mut self, change: impl FnOnce(&str) -> String) {
        let name = &self.signature_header;
        let header = self.headers.iter_mut().find(|(own, _)| own == name);
        if let Some((_, value)) = header {
            *value = change(value);
        }
    }

    pub fn without_signature(&mut self) {
        let name = self.signature_header.clone();
        self.headers.retain(|(own, _)| *own != name);
    }

    /// Adds a second header with a signature.
    pub fn and_signature(&mut self, value: String) {
        self.headers.push((self.signature_header.clone(), value));
    }

    pub fn signature(&self) -> String {
        let name = &self.signature_header;
        let header = self.headers.iter().find(|(own, _)| own == name);
        header.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// The answer to a request, and how long it took.
pub struct Answer {
    pub status: StatusCode,
    pub retry_after: bool,
    pub took: Duration,
}

/// Makes deliveries for one receiver, and sends them.
pub struct Signer {
    sender: Sender,
    secret: String,
    signature_header: String,
    url: Url,
    client: Client,
    clock: Clock,
    made: AtomicU64,
}

impl Signer {
    pub fn new(
        sender: Sender,
        secret: String,
        signature_header: Option<String>,
        url: Url,
        clock: Clock,
    ) -> Result<Self> {
        if sender == Sender::StandardWebhooks && sign_standard(&secret, "", 0, b"").is_none() {
            return Err(misused(
                "a secret of Standard Webhooks is whsec_ and a key in base64",
            ));
        }
        Ok(Signer {
            sender,
            secret,
            signature_header: signature_header
                .unwrap_or_else(|| sender.signature_header().to_owned()),
            client: client(url.as_str(), PATIENCE)?,
            url,
            made: AtomicU64::new(clock.now().0.unsigned_abs()),
            clock,
        })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn secret(&self) -> &str {
        &self.secret
    }

    pub fn now(&self) -> i64 {
        self.clock.now().unix_seconds()
    }

    /// A delivery that nobody has sent before, as the provider signs it.
    pub fn delivery(&self) -> Delivery {
        let body = self.sample();
        self.signed(body.into_bytes())
    }

    /// The body of a sample that was not used before.
    pub fn sample(&self) -> String {
        let seed = self.made.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now().0;
        let order = || sample::storefront("orders/create", seed, now).unwrap_or_default();
        match self.sender.scheme() {
            Scheme::Body => order(),
            Scheme::Timed => {
                sample::payment("payment_intent.succeeded", seed, now).unwrap_or_default()
            }
            Scheme::Standard => format!(r#"{{"type":"order.created","data":{}}}"#, order()),
        }
    }

    /// A delivery of this body under a new id, signed right.
    pub fn signed(&self, body: Vec<u8>) -> Delivery {
        self.signed_at(body, self.now(), &self.secret)
    }

    pub fn signed_at(&self, body: Vec<u8>, at: i64, secret: &str) -> Delivery {
        let id = self.clock.id().to_string();
        self.with_id(&id, body, at, secret)
    }

    fn with_id(&self, id: &str, body: Vec<u8>, at: i64, secret: &str) -> Delivery {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let mut named = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        let signature = match self.sender {
            Sender::Storefront | Sender::Shopify => {
                let names = match self.sender {
                    Sender::Shopify => storefront("shopify"),
                    _ => &GENERIC.headers,
                };
                let optional = [
                    (names.id, id),
                    (names.topic, "orders/create"),
                    (names.shop, sample::shop()),
                    (names.api_version, "2026-07"),
                ];
                for (name, value) in optional {
                    if let Some(name) = name {
                        named(name, value);
                    }
                }
                sign_storefront(secret, &body)
            }
            Sender::Payment | Sender::Stripe => sign_payment(secret, at, &body),
            Sender::Github => {
                named("x-github-event", "push");
                named("x-github-delivery", id);
                let digest = STANDARD.decode(sign_storefront(secret, &body));
                format!("sha256={}", hex::encode(digest.unwrap_or_default()))
            }
            Sender::StandardWebhooks => {
                named("webhook-id", id);
                named(STANDARD_TIMESTAMP, &at.to_string());
                sign_standard(secret, id, at, &body).unwrap_or_default()
            }
        };
        headers.push((self.signature_header.clone(), signature));
        Delivery {
            headers,
            body,
            signature_header: self.signature_header.clone(),
        }
    }

    /// A secret that the receiver does not have.
    pub fn other_secret(&self) -> String {
        match self.sender {
            Sender::StandardWebhooks => "whsec_bm90IHRoZSByZWNlaXZlcnMgc2VjcmV0IQ==".to_owned(),
            _ => "not the secret of the receiver".to_owned(),
        }
    }

    pub async fn send(&self, delivery: &Delivery) -> Result<Answer> {
        let mut request = self
            .client
            .post(self.url.clone())
            .body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(name, value);
        }
        self.answer(request).await
    }

    pub async fn get(&self) -> Result<Answer> {
        self.answer(self.client.get(self.url.clone())).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        let begun = self.clock.elapsed();
        let answer = request.send().await.context("no answer")?;
        let (status, retry_after) = (
            answer.status(),
            answer.headers().contains_key("retry-after"),
        );
        // Its body is read, so that the connection can be used again.
        let _ = answer.bytes().await;
        Ok(Answer {
            status,
            retry_after,
            took: self.clock.elapsed().saturating_sub(begun),
        })
    }
}
