//! A connection: how one provider reaches us, and we it. It has a profile, secrets of its own, the shops or the
//! account that they prove, and the API. The settings make the connections named [`DEFAULT`], one of a storefront
//! and one of a payment provider; all others are rows of the table `connections`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use domain::branding::Branding;
use domain::connection::{self, DEFAULT, OTHER};
use domain::origins::is_this_machine;
use domain::profile::{Headers, PaymentProfile, Rate, Shop, StorefrontProfile, WrongHeaders};
use domain::signature::{NotAKey, Scheme, Secrets};
use domain::subscription::Wanted;
pub use lettre::message::Mailbox;
use providers::Api;
use reqwest::Url;
pub use reqwest::header::HeaderName;

use crate::Config;

/// How many connections have a name of their own in metrics: those that were added first.
const LABELS: usize = 100;

/// A connection with a storefront.
#[derive(Clone, Debug)]
pub struct StorefrontConnection {
    pub name: String,
    pub profile: &'static StorefrontProfile,
    pub headers: Headers<HeaderName>,
    pub secrets: Secrets,
    /// The domains of the shops whose deliveries are accepted, in lower case. Empty, which only the default can be:
    /// every shop that has no connection of its own.
    pub shops: Vec<String>,
    /// `None`: the storefront is not called, and only an event asks for fulfilment.
    pub api: Option<Api>,
    /// Whether there is an API to call, even if this process cannot read its token.
    pub is_called: bool,
    /// The status of a duplicate: 409 or 200.
    pub duplicate_status: u16,
    /// Deliveries of one shop.
    pub rate: Rate,
    /// Who writes to the buyers of its shops. `None`: the sender that the settings name.
    pub sender: Option<Mailbox>,
    /// How its shops present themselves to their buyers.
    pub branding: Branding,
    /// The connection with the payment provider whose payments pay for its orders.
    pub payments: String,
}

/// A connection with a payment provider.
#[derive(Clone, Debug)]
pub struct PaymentConnection {
    pub name: String,
    pub profile: &'static PaymentProfile,
    pub secrets: Secrets,
    /// The account whose events count, beside the API key's own.
    pub account: Option<String>,
    /// `None`: the payment provider is not called; refunds are recorded, and an event asks for
    /// them.
    pub api: Option<Api>,
    /// Whether there is an API to call, even if this process cannot read its token.
    pub is_called: bool,
    /// All its events.
    pub rate: Rate,
}

impl StorefrontConnection {
    pub fn is_default(&self) -> bool {
        self.name == DEFAULT
    }

    /// What its storefront is to post, and where.
    pub fn subscriptions(&self, public_url: &str) -> Wanted {
        let api_url = self.api.as_ref().map_or("", |api| &api.url);
        Wanted::storefront(public_url, &self.name, self.profile, api_url)
    }
}

impl PaymentConnection {
    pub fn is_default(&self) -> bool {
        self.name == DEFAULT
    }

    /// What its provider is to post, and where.
    pub fn subscriptions(&self, public_url: &str) -> Wanted {
        Wanted::payment(public_url, &self.name, self.account.is_some())
    }
}

/// Signing secrets in the form in which a scheme uses them. No secret at all is one of a process that takes no
/// deliveries.
pub fn keyed(scheme: Scheme, secrets: Vec<String>) -> Result<Secrets, NotAKey> {
    match scheme {
        _ if secrets.is_empty() => Ok(Secrets::none()),
        Scheme::Standard => Secrets::standard(secrets),
        Scheme::Body | Scheme::Timed => Ok(Secrets::new(secrets)),
    }
}

/// The names of a profile's headers, as they are looked up.
pub fn headers_of(profile: &StorefrontProfile) -> Headers<HeaderName> {
    let names = profile
        .headers
        .try_map(|name| HeaderName::from_bytes(name.as_bytes()));
    names.expect("a profile names headers alone")
}

/// The same for names that somebody gave.
pub fn named(names: &Headers<String>) -> Result<Headers<HeaderName>, WrongHeaders> {
    names.try_map(|name| {
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| WrongHeaders::Name(name.clone()))
    })
}

/// Checks the address of an API: without user, query and fragment, and encrypted, unless it is on this machine or its
/// host is one of those in `ALLOW_CLEARTEXT`.
pub fn is_api_url(url: &str, cleartext: &[String]) -> Result<(), String> {
    let parsed = Url::parse(url).ok().filter(|url| {
        url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && !url.as_str().is_empty()
    });
    let host = parsed
        .as_ref()
        .and_then(|url| Some((url.scheme(), url.host_str()?)));
    match host {
        Some(("https", _)) => Ok(()),
        Some(("http", host)) if is_this_machine(host) => Ok(()),
        Some(("http", host)) if cleartext.iter().any(|it| it.eq_ignore_ascii_case(host)) => Ok(()),
        Some(("http", host)) => Err(format!(
            "sends a token to {host} in clear; begin it with https://, or name the host in ALLOW_CLEARTEXT if only \
             your own machines can reach the network to it"
        )),
        _ => Err("must be https:// and a host, without user, query or fragment".to_owned()),
    }
}

/// All connections, as they were read last. The default ones are always among them.
#[derive(Clone, Debug)]
pub struct Registry {
    default_storefront: Arc<StorefrontConnection>,
    default_payment: Arc<PaymentConnection>,
    storefronts: BTreeMap<String, Arc<StorefrontConnection>>,
    payments: BTreeMap<String, Arc<PaymentConnection>>,
    /// The connections of a shop, the one that calls go through first. There are two only while the shop moves.
    of_shop: HashMap<String, Vec<Arc<StorefrontConnection>>>,
    of_account: HashMap<String, Arc<PaymentConnection>>,
    /// The connections of shops that were removed, by name and by shop.
    removed: BTreeMap<String, Arc<StorefrontConnection>>,
    removed_of_shop: HashMap<String, Arc<StorefrontConnection>>,
    /// The headers in which deliveries of a connection may name their shop.
    shop_headers: Vec<(HeaderName, Shop)>,
    /// What metrics call a connection, and all that are not among these.
    labels: HashMap<String, Arc<str>>,
    other: Arc<str>,
    /// False until the database was asked for the first time. Until then nobody knows which shops have a connection.
    is_read: bool,
}

impl Registry {
    /// The default connections alone.
    pub fn new(config: &Config) -> Self {
        Registry {
            default_storefront: config.storefront.clone(),
            default_payment: config.payment.clone(),
            storefronts: BTreeMap::new(),
            payments: BTreeMap::new(),
            of_shop: HashMap::new(),
            of_account: HashMap::new(),
            removed: BTreeMap::new(),
            removed_of_shop: HashMap::new(),
            shop_headers: Vec::new(),
            labels: HashMap::from([(DEFAULT.to_owned(), DEFAULT.into())]),
            other: OTHER.into(),
            is_read: true,
        }
    }

    /// The default connections, while it is not known whether there are others.
    pub fn unread(config: &Config) -> Self {
        Registry {
            is_read: false,
            ..Registry::new(config)
        }
    }

    /// Whether it is known which connections there are.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Adds a connection. Of two connections of one shop the one that is added last is called.
    pub fn add_storefront(&mut self, connection: StorefrontConnection) {
        let connection = Arc::new(connection);
        for shop in &connection.shops {
            let of_shop = self.of_shop.entry(shop.clone()).or_default();
            of_shop.insert(0, connection.clone());
        }
        if let Some(header) = &connection.headers.shop {
            let named = (header.clone(), connection.profile.shop);
            if !self.shop_headers.contains(&named) {
                self.shop_headers.push(named);
            }
        }
        self.add_label(&connection.name);
        self.storefronts.insert(connection.name.clone(), connection);
    }

    fn add_label(&mut self, name: &str) {
        if self.labels.len() <= LABELS {
            self.labels.insert(name.to_owned(), name.into());
        }
    }

    /// Adds a connection that was removed. It takes no deliveries. What came by it, and calls of its shops, go to
    /// nobody else, unless the settings name its shop.
    pub fn add_removed(&mut self, connection: StorefrontConnection) {
        let connection = Arc::new(connection);
        for shop in &connection.shops {
            self.removed_of_shop
                .insert(shop.clone(), connection.clone());
        }
        self.removed.insert(connection.name.clone(), connection);
    }

    pub fn add_payment(&mut self, connection: PaymentConnection) {
        let connection = Arc::new(connection);
        if let Some(account) = &connection.account {
            self.of_account.insert(account.clone(), connection.clone());
        }
        self.add_label(&connection.name);
        self.payments.insert(connection.name.clone(), connection);
    }

    /// What metrics call a connection: its name, or `other` for those that were added after the first hundred.
    pub fn label(&self, name: &str) -> &Arc<str> {
        self.labels.get(name).unwrap_or(&self.other)
    }

    pub fn storefront(&self, name: &str) -> Option<&Arc<StorefrontConnection>> {
        match name {
            DEFAULT => Some(&self.default_storefront),
            name => self.storefronts.get(name),
        }
    }

    pub fn payment(&self, name: &str) -> Option<&Arc<PaymentConnection>> {
        match name {
            DEFAULT => Some(&self.default_payment),
            name => self.payments.get(name),
        }
    }

    pub fn default_storefront(&self) -> &Arc<StorefrontConnection> {
        &self.default_storefront
    }

    pub fn default_payment(&self) -> &Arc<PaymentConnection> {
        &self.default_payment
    }

    /// The shop, where deliveries of one alone are taken.
    pub fn only_shop(&self) -> Option<&str> {
        let default = &self.default_storefront;
        let takes_any = default.shops.is_empty() && !default.secrets.fingerprints().is_empty();
        let mut shops = self.storefronts().flat_map(|it| &it.shops);
        let only = shops.next().filter(|_| !takes_any)?;
        shops.all(|it| it == only).then_some(only)
    }

    /// Whether there are no shops but those of the settings.
    pub fn are_of_settings_alone(&self) -> bool {
        self.is_read && self.storefronts.is_empty()
    }

    /// The connections that a shop has of its own.
    pub fn bound_to(&self, shop: &str) -> &[Arc<StorefrontConnection>] {
        self.of_shop
            .get(shop)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The connection through which a shop is called.
    pub fn of_shop(&self, shop: &str) -> &Arc<StorefrontConnection> {
        let default = &self.default_storefront;
        let is_defaults = || default.shops.iter().any(|it| it == shop);
        let removed = || self.removed_of_shop.get(shop).filter(|_| !is_defaults());
        let bound = self.bound_to(shop).first();
        bound.or_else(removed).unwrap_or(default)
    }

    /// The connection whose payments pay for an order of a shop that came by the connection `by`.
    pub fn paying_for(&self, shop: &str, by: Option<&str>) -> &str {
        let by = by.and_then(|name| {
            self.storefronts
                .get(name)
                .or_else(|| self.removed.get(name))
        });
        &by.unwrap_or_else(|| self.of_shop(shop)).payments
    }

    /// Whether a connection of a shop was removed.
    pub fn is_removed(&self, name: &str) -> bool {
        self.removed.contains_key(name) && !self.storefronts.contains_key(name)
    }

    /// The connection that an account has of its own.
    pub fn of_account(&self, account: &str) -> Option<&Arc<PaymentConnection>> {
        self.of_account.get(account)
    }

    /// Whether an account has a connection of its own.
    pub fn has_accounts(&self) -> bool {
        !self.of_account.is_empty()
    }

    /// The connection that an id of the payment provider belongs to. `None`: it was removed.
    pub fn of_payment(&self, id: &str) -> Option<&Arc<PaymentConnection>> {
        self.payment(connection::of_id(id))
    }

    /// The headers in which deliveries of a connection may name their shop.
    pub fn shop_headers(&self) -> &[(HeaderName, Shop)] {
        &self.shop_headers
    }

    pub fn storefronts(&self) -> impl Iterator<Item = &Arc<StorefrontConnection>> {
        std::iter::once(&self.default_storefront).chain(self.storefronts.values())
    }

    pub fn payments(&self) -> impl Iterator<Item = &Arc<PaymentConnection>> {
        std::iter::once(&self.default_payment).chain(self.payments.values())
    }
}

/// The registry of a process, which is replaced when somebody changes a connection.
#[derive(Clone, Debug)]
pub struct SharedRegistry(Arc<RwLock<Arc<Registry>>>);

impl SharedRegistry {
    pub fn new(registry: Registry) -> Self {
        SharedRegistry(Arc::new(RwLock::new(Arc::new(registry))))
    }

    /// The connections at this moment. One piece of work asks once, so that it sees no change in between.
    pub fn now(&self) -> Arc<Registry> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    pub fn replace(&self, registry: Registry) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(registry);
    }
}
