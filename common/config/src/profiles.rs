//! Which provider the deliveries come from, and the secrets that it signs with.

use domain::branding::{self, Branding, WrongBranding};
use domain::connection::DEFAULT;
use domain::profile::{
    Headers, OWN_HEADERS, PAYMENTS, PaymentProfile, STOREFRONTS, StorefrontApi, StorefrontProfile,
    read_headers,
};
use domain::signature::{Scheme, Secrets};
use platform::token::Token;
use reqwest::header::HeaderName;

use crate::connection::{self, PaymentConnection, StorefrontConnection};
use crate::{Config, Mistakes, Mode, Reader, Settings, gone};

const STOREFRONT: &str = "STOREFRONT_PROVIDER";
const PAYMENT: &str = "PAYMENT_PROVIDER";
const HEADERS: &str = "STOREFRONT_HEADERS";
const DUPLICATE: &str = "WEBHOOK_DUPLICATE_STATUS";
const SECRETS_KEY: &str = "SECRETS_KEY";

impl Config {
    /// `STOREFRONT_PROVIDER` and `STOREFRONT_HEADERS` alone.
    pub fn storefront_provider(
        settings: &Settings,
    ) -> Result<(&'static StorefrontProfile, Headers<HeaderName>), Mistakes> {
        let mut reader = Reader::alone(settings);
        let profile = reader.storefront_profile();
        let headers = reader.headers(profile);
        match profile.zip(headers) {
            Some(found) if reader.mistakes.is_empty() => Ok(found),
            _ => Err(Mistakes(reader.mistakes)),
        }
    }

    /// `PAYMENT_PROVIDER` alone.
    pub fn payment_provider(settings: &Settings) -> Result<&'static PaymentProfile, Mistakes> {
        let mut reader = Reader::alone(settings);
        reader.payment_profile().ok_or(Mistakes(reader.mistakes))
    }

    /// `SECRETS_KEY` alone.
    pub fn secrets_keys(settings: &Settings) -> Result<Vec<Token>, Mistakes> {
        let mut reader = Reader::of_files(settings, SECRETS_KEY);
        let keys = reader.secrets_keys();
        reader.finished(keys)
    }
}

impl Reader<'_> {
    pub(crate) fn storefront_profile(&mut self) -> Option<&'static StorefrontProfile> {
        let name = self.text(STOREFRONT)?;
        let profile = StorefrontProfile::named(name.trim());
        if profile.is_none() {
            let known = STOREFRONTS.map(|profile| profile.name).join(", ");
            let what = gone::advice(name.trim(), &[]);
            let what = what.unwrap_or_else(|| format!("it must be one of {known}"));
            self.wrong(STOREFRONT, format_args!("is {name:?}; {what}"));
        }
        profile
    }

    pub(crate) fn payment_profile(&mut self) -> Option<&'static PaymentProfile> {
        let name = self.text(PAYMENT)?;
        let profile = PaymentProfile::named(name.trim());
        if profile.is_none() {
            let known = PAYMENTS.map(|profile| profile.name).join(", ");
            self.wrong(
                PAYMENT,
                format_args!("is {name:?}; it must be one of {known}"),
            );
        }
        profile
    }

    /// The names of the storefront's headers: the profile's, or those of one's own.
    pub(crate) fn headers(
        &mut self,
        profile: Option<&'static StorefrontProfile>,
    ) -> Option<Headers<HeaderName>> {
        let profile = profile?;
        let are_own = profile.name == OWN_HEADERS.name;
        match (are_own, self.settings.get(HEADERS)) {
            (true, Some(_)) => {
                let text = self.text(HEADERS)?;
                let headers = read_headers(&text).and_then(|names| connection::named(&names));
                if let Err(wrong) = &headers {
                    self.wrong(HEADERS, wrong);
                }
                headers.ok()
            }
            (true, None) => {
                let what = "is missing; STOREFRONT_PROVIDER=headers needs it, like \
                            signature=x-shop-hmac,id=x-shop-id,topic=x-shop-topic,shop=x-shop";
                self.wrong(HEADERS, what);
                None
            }
            (false, Some(_)) => {
                self.wrong(
                    HEADERS,
                    "is set, and counts only with STOREFRONT_PROVIDER=headers",
                );
                None
            }
            (false, None) => Some(connection::headers_of(profile)),
        }
    }

    /// The secrets in the form in which the provider signs with them.
    pub(crate) fn keyed(
        &mut self,
        name: &'static str,
        scheme: Option<Scheme>,
        secrets: Option<Vec<String>>,
    ) -> Option<Secrets> {
        let keyed = connection::keyed(scheme?, secrets?);
        if let Err(wrong) = &keyed {
            self.wrong(name, wrong);
        }
        keyed.ok()
    }

    pub(crate) fn storefront(
        &mut self,
        mode: Mode,
        profile: Option<&'static StorefrontProfile>,
        secrets: Option<Vec<String>>,
        development: bool,
    ) -> Option<StorefrontConnection> {
        let scheme = profile.map(|profile| profile.scheme);
        let secrets = self.keyed("STOREFRONT_WEBHOOK_SECRET", scheme, secrets);
        let headers = self.headers(profile);
        let shops = self.shops();
        let api = self.api(mode, "STOREFRONT_API_URL", "STOREFRONT_API_TOKEN");
        if let Some((profile, api)) = profile.zip(api.as_ref())
            && !profile.api.takes(api.token.expose())
        {
            self.wrong("STOREFRONT_API_TOKEN", StorefrontApi::NO_PAIR);
        }
        let duplicate_status = self.duplicate_status(profile);
        let branding = self.branding();
        let rate = profile
            .and_then(|profile| self.rate("STOREFRONT_RATE_PER_SECOND", profile.rate, development));
        Some(StorefrontConnection {
            name: DEFAULT.to_owned(),
            profile: profile?,
            headers: headers?,
            secrets: secrets?,
            shops: shops?,
            is_called: api.is_some() && profile?.api.fulfils(),
            api,
            duplicate_status: duplicate_status?,
            rate: rate?,
            sender: None,
            branding,
            payments: DEFAULT.to_owned(),
        })
    }

    /// How the shops without a connection of their own present themselves to their buyers.
    fn branding(&mut self) -> Branding {
        Branding {
            display_name: self.of_shop("SHOP_NAME", branding::name),
            contact: self.of_shop("SHOP_CONTACT", branding::contact),
            language: self.of_shop("SHOP_LANGUAGE", branding::language),
            logo: self.of_shop("SHOP_LOGO", branding::logo),
        }
    }

    fn of_shop<T>(
        &mut self,
        name: &'static str,
        read: fn(&str) -> Result<T, WrongBranding>,
    ) -> Option<T> {
        self.settings.get(name)?;
        let read = read(&self.text(name)?);
        if let Err(wrong) = &read {
            self.wrong(name, wrong);
        }
        read.ok()
    }

    pub(crate) fn payment(
        &mut self,
        mode: Mode,
        profile: Option<&'static PaymentProfile>,
        secrets: Option<Vec<String>>,
        development: bool,
    ) -> Option<PaymentConnection> {
        let scheme = profile.map(|profile| profile.scheme);
        let secrets = self.keyed("PAYMENT_WEBHOOK_SECRET", scheme, secrets);
        let api = self.api(mode, "PAYMENT_API_URL", "PAYMENT_API_KEY");
        let rate = profile
            .and_then(|profile| self.rate("PAYMENT_RATE_PER_SECOND", profile.rate, development));
        Some(PaymentConnection {
            name: DEFAULT.to_owned(),
            profile: profile?,
            secrets: secrets?,
            account: None,
            is_called: api.is_some(),
            api,
            rate: rate?,
        })
    }

    /// The keys of the secrets of connections, the newest first.
    pub(crate) fn secrets_keys(&mut self) -> Option<Vec<Token>> {
        if self.settings.get(SECRETS_KEY).is_none() {
            return Some(Vec::new());
        }
        let text = self.text(SECRETS_KEY)?;
        let keys: Vec<&str> = text.split(',').map(str::trim).collect();
        if keys.iter().any(|key| key.len() < 32) {
            self.wrong(
                SECRETS_KEY,
                "has a key with less than 32 characters; make one with: openssl rand -hex 32",
            );
            return None;
        }
        Some(keys.into_iter().map(Token::new).collect())
    }

    pub(crate) fn duplicate_status(
        &mut self,
        profile: Option<&'static StorefrontProfile>,
    ) -> Option<u16> {
        if self.settings.get(DUPLICATE).is_none() {
            return profile.map(|profile| profile.duplicate_status);
        }
        match self.text(DUPLICATE)?.trim() {
            "409" => Some(409),
            "200" => Some(200),
            other => {
                let what = format!("is {other:?}; it must be 409 or 200");
                self.wrong(DUPLICATE, what);
                None
            }
        }
    }
}
