//! Settings: read once in `main`, from flags, environment and `NAME_FILE` files.
//!
//! [`Settings`] holds the values as text and knows where each came from. [`Config`] holds the same
//! values typed and checked, for the rest of the program. All mistakes are reported together, so
//! that an operator can correct them in one go.

mod cleartext;
pub mod connection;
mod console;
pub mod database;
pub mod env_file;
mod exposure;
pub mod gone;
mod identity;
mod mail;
mod privacy;
pub mod private_files;
mod profiles;
pub mod protections;
mod reader;
mod servers;
mod settings;
mod telemetry;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use lettre::Address;

pub use cleartext::Cleartext;
pub use connection::{PaymentConnection, StorefrontConnection};
pub use console::{Console, Place};
pub use mail::{Login, Server, Smtp, Tls};
pub use privacy::Privacy;
pub use settings::{Given, Origin, Readers, SETTINGS, Setting, Settings, Supervisor};
pub use values::{Values, installation};

use exposure::weakness;
use reader::{Reader, reads};

use domain::catalogue::Catalogue;
use domain::job::{Queue, Source};
use domain::notification::Templates;
use domain::order;
use domain::origins::Origins;
use domain::profile::{self, OrderIds, Rate, StorefrontProfile};
use platform::logs::LogFormat;
use platform::token::Token;
use providers::endpoints::Allowed;
use providers::identity::IdentityProvider;
use providers::is_loopback;
use qr::{Level, QrConfig};

/// The signing secrets of `waybill` without arguments. They are public, so a process that other
/// machines could reach refuses to start with them.
pub const DEVELOPMENT_STOREFRONT_SECRET: &str = "development-storefront-secret";
pub const DEVELOPMENT_PAYMENT_SECRET: &str = "development-payment-secret";

/// How the program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `waybill` without arguments. Missing secrets get public development values.
    Development,
    /// A process that takes requests, with everything else in it or alone. The secrets must be set.
    Production,
    /// A process that works on this queue alone. It reads only the secrets that it needs.
    Worker(Queue),
}

/// Why a signing secret gives little protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// It is one of the development secrets.
    Public,
    /// It could be guessed.
    Short,
}

/// Where the events that a process writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// A publisher sends them to the broker.
    Broker,
    /// They are read from the database alone.
    Database,
}

/// The address of the broker, and the prefix of the names of our exchanges and queues there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// The URLs of its servers, with commas between them.
    pub url: String,
    pub prefix: String,
}

/// Every setting, typed and checked.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct Config {
    pub listen_addr: SocketAddr,
    /// `None`: workers listen nowhere.
    pub worker_listen_addr: Option<SocketAddr>,
    pub console: Console,
    /// Without a slash at its end.
    pub public_url: String,
    pub database_url: String,
    /// `None`: as many as a process of its kind usually has.
    pub database_connections: Option<u32>,
    /// `None`: messages stay within this process.
    pub amqp_url: Option<String>,
    pub amqp_prefix: String,
    /// The connections that the settings make. What is said of one shop or account is in `store::connections`.
    pub storefront: Arc<StorefrontConnection>,
    pub payment: Arc<PaymentConnection>,
    /// What the secrets of connections are sealed with, the newest first. Empty: there are no connections but the
    /// default ones.
    pub secrets_keys: Vec<Token>,
    /// `None`: nobody can log in.
    pub identity: Option<IdentityProvider>,
    /// How long after its last confirmation a token is still accepted while the identity provider
    /// does not answer.
    pub auth_stale: Duration,
    /// How many logins a client address may begin in 15 minutes; 0: no limit.
    pub device_codes: u32,
    /// How often a token may be validated in a minute; 0: no limit.
    pub validations: u32,
    /// How long a licence that a subscription extends stays active after its end.
    pub license_grace: Duration,
    /// The templates of each tier.
    pub catalogue: Catalogue,
    /// `None`: no mail is sent.
    pub smtp: Option<Smtp>,
    /// Who is notified by mail of what needs a person.
    pub operators_mail: Option<Address>,
    pub templates: Templates,
    pub dedupe: bool,
    pub dedupe_ttl: Duration,
    /// How often the providers are asked what never came. None: only when an operator asks.
    pub reconcile: Option<Duration>,
    pub redact_logs: bool,
    pub max_body_bytes: usize,
    /// Calls with one API key in a second; 0: no limit.
    pub commerce_rate: u32,
    /// The origins to which buyers may be sent after a checkout.
    pub return_origins: Origins,
    /// How long the order of a checkout session waits for the storefront's own. `None`: it does
    /// not wait.
    pub checkout_order_wait: Option<Duration>,
    /// What is shipped, and by whom.
    pub order_policy: order::Policy,
    /// How old a payment signature may be. Zero: a signature is never too old.
    pub payment_tolerance: Duration,
    pub qr: QrConfig,
    /// Whether the pages that QR codes lead to are served.
    pub public_pages: bool,
    /// Whether the links to the pages of new orders have a code, without which they do not open. `None`: where the ids of
    /// orders count up.
    pub page_codes: Option<bool>,
    pub job_retention: Duration,
    pub notification_retention: Duration,
    pub event_retention: Duration,
    pub privacy: Privacy,
    /// How many connections an ingress process serves at a time.
    pub max_connections: usize,
    /// Where endpoints of webhooks may be.
    pub endpoints: Allowed,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    pub trusted_proxies: Vec<IpNet>,
    /// Whether deliveries are shown in the terminal. `None`: if there is one.
    pub show_deliveries: Option<bool>,
    pub log_format: LogFormat,
    pub log_filter: String,
    /// `None`: neither spans nor metrics are sent to a collector.
    pub telemetry: Option<::telemetry::Options>,
    /// The settings whose signing secrets are public or short.
    pub weak_secrets: Vec<(&'static str, Weakness)>,
    /// The settings by which data goes to other machines without encryption. Each of these hosts
    /// is named in `ALLOW_CLEARTEXT`, or is a mail server without a login.
    pub cleartext: Vec<Cleartext>,
    /// The hosts in `ALLOW_CLEARTEXT`.
    pub cleartext_allowed: Vec<String>,
    /// Whether a signing secret is one of the public development secrets.
    pub development: bool,
    /// What was given for each setting.
    pub values: Values,
}

/// All mistakes in the settings.
#[derive(Debug, thiserror::Error)]
pub struct Mistakes(pub Vec<String>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} wrong with the settings:", count(self.0.len()))?;
        for mistake in &self.0 {
            writeln!(f, "  - {mistake}")?;
        }
        write!(
            f,
            "Every setting, its meaning and its default: `waybill config`."
        )
    }
}

fn days(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 86_400)
}

fn count(mistakes: usize) -> String {
    match mistakes {
        1 => "One thing is".to_owned(),
        more => format!("{more} things are"),
    }
}

impl Config {
    /// Checks all settings; an error lists every mistake.
    pub fn load(settings: &Settings, mode: Mode) -> Result<Self, Mistakes> {
        let mut reader = Reader::new(settings);
        let config = reader.config(mode);
        match config {
            Some(config) if reader.mistakes.is_empty() => Ok(config),
            _ => Err(Mistakes(reader.mistakes)),
        }
    }

    /// Whether people can log in, and tokens of other apps are accepted too.
    pub fn takes_foreign_tokens(&self) -> bool {
        let identity = self.identity.as_ref();
        identity.is_some_and(|identity| identity.client_secret.is_none())
    }

    /// Where a process with these settings sends the events that it writes.
    pub fn outlet(&self) -> Outlet {
        match self.amqp_url {
            Some(_) => Outlet::Broker,
            None => Outlet::Database,
        }
    }

    /// Whether a source's signatures are made with the public secret of a development start.
    pub fn has_public_secret(&self, source: Source) -> bool {
        let setting = match source {
            Source::Storefront => "STOREFRONT_WEBHOOK_SECRET",
            Source::Payment => "PAYMENT_WEBHOOK_SECRET",
            Source::Internal => return false,
        };
        self.weak_secrets.contains(&(setting, Weakness::Public))
    }

    /// Whether clients reach it over a network and without encryption.
    pub fn is_public_in_clear(&self) -> bool {
        self.public_url.starts_with("http://") && !is_loopback(&self.public_url)
    }

    /// The fingerprints of the signing secrets, the newest first.
    pub fn fingerprints(&self) -> BTreeMap<Source, Vec<String>> {
        BTreeMap::from([
            (
                Source::Storefront,
                self.storefront.secrets.fingerprints().to_vec(),
            ),
            (
                Source::Payment,
                self.payment.secrets.fingerprints().to_vec(),
            ),
        ])
    }

    /// Reads only `DATABASE_URL`, for a command that needs no other setting.
    pub fn database_url(settings: &Settings) -> Result<String, Mistakes> {
        let mut reader = Reader::of_files(settings, "DATABASE_URL");
        let url = reader.database_url();
        reader.finished(url)
    }

    /// Reads only `LISTEN_ADDR`.
    pub fn listen_addr(settings: &Settings) -> Result<SocketAddr, Mistakes> {
        let mut reader = Reader::alone(settings);
        let address = reader.listen_addr();
        address.ok_or(Mistakes(reader.mistakes))
    }

    /// Reads only `WORKER_LISTEN_ADDR`.
    pub fn worker_listen_addr(settings: &Settings) -> Result<Option<SocketAddr>, Mistakes> {
        let mut reader = Reader::alone(settings);
        let address = reader.worker_listen_addr();
        if reader.mistakes.is_empty() {
            Ok(address)
        } else {
            Err(Mistakes(reader.mistakes))
        }
    }

    /// Reads only the settings of the console.
    pub fn console(settings: &Settings) -> Result<Console, Mistakes> {
        let mut reader = Reader::alone(settings);
        let console = reader.console();
        reader.finished(console)
    }

    /// Reads only `LICENSE_GRACE_DAYS`.
    pub fn license_grace(settings: &Settings) -> Result<Duration, Mistakes> {
        let mut reader = Reader::alone(settings);
        let grace = reader.license_grace();
        grace.ok_or(Mistakes(reader.mistakes))
    }

    /// Reads only `COMMERCE_IDEMPOTENCY_ENABLED`.
    pub fn dedupe(settings: &Settings) -> Result<bool, Mistakes> {
        let mut reader = Reader::alone(settings);
        let dedupe = reader.flag("COMMERCE_IDEMPOTENCY_ENABLED");
        dedupe.ok_or(Mistakes(reader.mistakes))
    }

    /// Reads only `PUBLIC_URL`, and `LISTEN_ADDR` if it is not set.
    pub fn public_url(settings: &Settings) -> Result<String, Mistakes> {
        let mut reader = Reader::alone(settings);
        let url = reader.public_url();
        url.ok_or(Mistakes(reader.mistakes))
    }

    /// Reads only the settings of QR codes and `PUBLIC_URL`.
    pub fn qr(settings: &Settings) -> Result<QrConfig, Mistakes> {
        let mut reader = Reader::alone(settings);
        let public_url = reader.public_url();
        let qr = reader.qr(public_url.as_deref());
        qr.ok_or(Mistakes(reader.mistakes))
    }

    /// Reads only `AMQP_URL` and `AMQP_PREFIX`. `None`: there is no broker.
    pub fn broker(settings: &Settings) -> Result<Option<Broker>, Mistakes> {
        let mut reader = Reader::of_files(settings, "AMQP_URL");
        let (url, prefix) = (reader.amqp_url(None), reader.amqp_prefix());
        if !reader.mistakes.is_empty() {
            return Err(Mistakes(reader.mistakes));
        }
        Ok(url.zip(prefix).map(|(url, prefix)| Broker { url, prefix }))
    }

    /// Reads only the settings whose names begin with `PRIVACY_`.
    pub fn privacy(settings: &Settings) -> Result<Privacy, Mistakes> {
        let mut reader = Reader::of_files(settings, "PRIVACY_");
        let privacy = reader.privacy();
        reader.finished(privacy)
    }

    /// Reads only `STOREFRONT_SHOPS`.
    pub fn storefront_shops(settings: &Settings) -> Result<Vec<String>, Mistakes> {
        let mut reader = Reader::alone(settings);
        let shops = reader.shops();
        reader.finished(shops)
    }

    /// The identity provider, from the settings that begin with `GITHUB_` and `ALLOW_CLEARTEXT` alone.
    pub fn identity_provider(settings: &Settings) -> Result<Option<IdentityProvider>, Mistakes> {
        let mut reader = Reader::of_files(settings, "GITHUB_");
        let identity = reader.identity();
        reader.finished(Some(identity))
    }

    /// Where endpoints of webhooks may be, from `ENDPOINT_NETWORKS` and `ALLOW_CLEARTEXT`. The service counts as one of
    /// development if it has no secrets and a database on this machine.
    pub fn endpoints(settings: &Settings) -> Result<Allowed, Mistakes> {
        let secrets = [
            "STOREFRONT_WEBHOOK_SECRET",
            "PAYMENT_WEBHOOK_SECRET",
            "SECRETS_KEY",
        ];
        let is_set = |name: &str| {
            let file = format!("{name}_FILE");
            settings.get(name).is_some() || settings.get(&file).is_some()
        };
        let url = settings.get("DATABASE_URL");
        let is_development =
            !secrets.into_iter().any(is_set) && url.is_none_or(|it| it.starts_with("sqlite"));
        let mut reader = Reader::alone(settings);
        let allowed = reader.endpoints(is_development);
        reader.finished(allowed)
    }

    /// The storefront's secrets, newest first; if none is set, the development secret.
    pub fn storefront_secrets(settings: &Settings) -> Result<Vec<String>, Mistakes> {
        let name = "STOREFRONT_WEBHOOK_SECRET";
        let mut reader = Reader::of_files(settings, name);
        let development = DEVELOPMENT_STOREFRONT_SECRET;
        let secrets = reader.secrets(name, Mode::Development, development);
        reader.finished(secrets.map(|secrets| or_one(secrets, development)))
    }

    /// The payment provider's secrets, newest first; if none is set, the development secret.
    pub fn payment_secrets(settings: &Settings) -> Result<Vec<String>, Mistakes> {
        let name = "PAYMENT_WEBHOOK_SECRET";
        let mut reader = Reader::of_files(settings, name);
        let development = DEVELOPMENT_PAYMENT_SECRET;
        let secrets = reader.secrets(name, Mode::Development, development);
        reader.finished(secrets.map(|secrets| or_one(secrets, development)))
    }

    /// Whether the pages of new orders of a connection with this profile ask for the code of their links.
    pub fn has_page_codes(&self, profile: &StorefrontProfile) -> bool {
        let counts_up = profile.order_ids == OrderIds::CountUp;
        self.page_codes.unwrap_or(counts_up)
    }
}

/// These secrets, or this one if there is none.
fn or_one(mut secrets: Vec<String>, one: &str) -> Vec<String> {
    if secrets.is_empty() {
        secrets.push(one.to_owned());
    }
    secrets
}

/// An address at which a service on this machine can be asked that listens on `address`.
pub fn on_this_machine(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let is_v4 = address.is_ipv4();
        address.set_ip(if is_v4 {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}

impl Reader<'_> {
    fn listen_addr(&mut self) -> Option<SocketAddr> {
        self.parse("LISTEN_ADDR", "an address and port like 127.0.0.1:8000")
    }

    /// The address of clients. Unless it is set, it is where ingress listens, so that it follows the
    /// port.
    fn public_url(&mut self) -> Option<String> {
        if self.settings.get("PUBLIC_URL").is_some() {
            return self.url("PUBLIC_URL");
        }
        // A wrong address is a mistake of its own, which is found when that setting is read.
        let address = self.settings.get("LISTEN_ADDR")?.trim().parse().ok()?;
        Some(format!("http://{}", on_this_machine(address)))
    }

    fn worker_listen_addr(&mut self) -> Option<SocketAddr> {
        self.parse(
            "WORKER_LISTEN_ADDR",
            "an address and port like 127.0.0.1:9100",
        )
    }

    fn config(&mut self, mode: Mode) -> Option<Config> {
        let public_url = self.public_url();
        let storefront = self.secrets(
            "STOREFRONT_WEBHOOK_SECRET",
            mode,
            DEVELOPMENT_STOREFRONT_SECRET,
        );
        let payment = self.secrets("PAYMENT_WEBHOOK_SECRET", mode, DEVELOPMENT_PAYMENT_SECRET);
        let storefront_profile = self.storefront_profile();
        let payment_profile = self.payment_profile();
        let weak_secrets: Vec<_> = [
            ("STOREFRONT_WEBHOOK_SECRET", &storefront),
            ("PAYMENT_WEBHOOK_SECRET", &payment),
        ]
        .into_iter()
        .filter_map(|(name, secrets)| Some((name, weakness(secrets.as_ref()?)?)))
        .collect();
        let development = weak_secrets
            .iter()
            .any(|(_, weakness)| *weakness == Weakness::Public);
        let listen_addr = self.listen_addr();
        let worker_listen_addr = self.worker_listen_addr();
        let console = self.console();
        if development {
            self.refuse_exposure();
        }
        self.cleartext_hosts();
        let database_url = self.database_url();
        let amqp_url = self.amqp_url(database_url.as_deref());
        let storefront = self.storefront(mode, storefront_profile, storefront, development);
        let payment = self.payment(mode, payment_profile, payment, development);
        let secrets_keys = self.secrets_keys();
        let identity = self
            .identity()
            .filter(|_| reads("GITHUB_CLIENT_SECRET", mode));
        let auth_stale = self.number("AUTH_STALE_SECONDS", 0, 86_400);
        let device_codes = self.number("AUTH_DEVICE_CODES_PER_15_MINUTES", 0, 1000);
        let validations = self.number("AUTH_VALIDATIONS_PER_MINUTE", 0, 100_000);
        let license_grace = self.license_grace();
        let catalogue = self.catalogue();
        let smtp = self.smtp();
        let operators_mail = self.operators_mail();
        let templates = self.templates();
        let dedupe = self.flag("COMMERCE_IDEMPOTENCY_ENABLED");
        let redact_logs = self.flag("COMMERCE_PII_REDACTION_ENABLED");
        let dedupe_ttl = self.number("WEBHOOK_DEDUPE_TTL_SECONDS", 1, 31_536_000);
        let reconcile = self.number("RECONCILE_MINUTES", 0, 24 * 60);
        let max_body = self.number("WEBHOOK_MAX_BODY_BYTES", 1024, 32 * 1024 * 1024);
        let commerce_rate = self.number("COMMERCE_RATE_PER_SECOND", 0, 1_000_000);
        let return_origins = self.return_origins(public_url.as_deref());
        let order_wait = self.number("CHECKOUT_ORDER_WAIT_SECONDS", 0, 604_800);
        let order_policy = self.order_policy(development);
        let tolerance = self.number("PAYMENT_TOLERANCE_SECONDS", 0, 86_400);
        let qr = self.qr(public_url.as_deref());
        let pages = self.pages();
        let retention = self.number("JOB_RETENTION_DAYS", 1, 3650);
        let notification_retention = self.number("NOTIFICATION_RETENTION_DAYS", 1, 3650);
        let event_retention = self.number("EVENT_RETENTION_DAYS", 1, 3650);
        let privacy = self.privacy();
        if let Some(url) = database_url
            .as_deref()
            .filter(|_| mode != Mode::Development)
        {
            self.needs_privacy_key(url);
        }
        let database_connections = self.number("DATABASE_CONNECTIONS", 4, 10_000);
        let max_connections = self.number("MAX_CONNECTIONS", 8, 1_000_000);
        let keep_alive = self.number("KEEP_ALIVE_SECONDS", 1, 3600);
        let trusted_proxies = self.proxies();
        let endpoints = self.endpoints(mode == Mode::Development && self.exposures().is_empty());
        let show_deliveries = self.flag("SHOW_DELIVERIES");
        let log_format = self.log_format();
        let log_filter = self.log_filter();
        let amqp_prefix = self.amqp_prefix();
        let telemetry = self.telemetry();
        Some(Config {
            listen_addr: listen_addr?,
            worker_listen_addr,
            console: console?,
            public_url: public_url?,
            database_url: database_url?,
            database_connections,
            amqp_url,
            amqp_prefix: amqp_prefix?,
            storefront: Arc::new(storefront?),
            payment: Arc::new(payment?),
            secrets_keys: secrets_keys?,
            identity,
            auth_stale: Duration::from_secs(u64::from(auth_stale?)),
            device_codes: device_codes?,
            validations: validations?,
            license_grace: license_grace?,
            catalogue: catalogue?,
            smtp,
            operators_mail,
            templates: templates?,
            dedupe: dedupe?,
            dedupe_ttl: Duration::from_secs(u64::from(dedupe_ttl?)),
            reconcile: reconcile
                .filter(|minutes| *minutes > 0)
                .map(|minutes| Duration::from_mins(u64::from(minutes))),
            redact_logs: redact_logs?,
            max_body_bytes: usize::try_from(max_body?).ok()?,
            commerce_rate: commerce_rate?,
            return_origins: return_origins?,
            checkout_order_wait: Some(Duration::from_secs(u64::from(order_wait?)))
                .filter(|wait| !wait.is_zero()),
            order_policy: order_policy?,
            payment_tolerance: Duration::from_secs(u64::from(tolerance?)),
            qr: qr?,
            public_pages: pages?.0,
            page_codes: pages?.1,
            job_retention: days(retention?),
            notification_retention: days(notification_retention?),
            event_retention: days(event_retention?),
            privacy: privacy?,
            max_connections: usize::try_from(max_connections?).ok()?,
            keep_alive: Duration::from_secs(u64::from(keep_alive?)),
            trusted_proxies: trusted_proxies?,
            endpoints: endpoints?,
            show_deliveries,
            log_format: log_format?,
            log_filter: log_filter?,
            telemetry,
            weak_secrets,
            cleartext: std::mem::take(&mut self.cleartext),
            cleartext_allowed: Config::cleartext_hosts(self.settings),
            development,
            values: Values::of(self.settings),
        })
    }

    /// A limit of deliveries, by the setting or else the provider's. In development there is no limit unless
    /// the setting is given, because a developer who sends many deliveries has nobody to protect.
    fn rate(&mut self, name: &'static str, of_provider: Rate, development: bool) -> Option<Rate> {
        let per_second = match self.settings.get(name) {
            Some(_) => self.number(name, 0, 1_000_000)?,
            None if development => 0,
            None => of_provider.per_second,
        };
        Some(Rate {
            per_second,
            ..of_provider
        })
    }

    fn license_grace(&mut self) -> Option<Duration> {
        self.number("LICENSE_GRACE_DAYS", 0, 365).map(days)
    }

    pub(crate) fn shops(&mut self) -> Option<Vec<String>> {
        const NAME: &str = "STOREFRONT_SHOPS";
        if self.settings.get(NAME).is_none() {
            return Some(Vec::new());
        }
        let text = self.text(NAME)?.to_ascii_lowercase();
        let shops: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        if let Some(wrong) = shops.iter().find(|shop| !profile::is_shop(shop)) {
            let what = format!("has {wrong:?}; it must be shop domains separated by commas");
            self.wrong(NAME, what);
            return None;
        }
        Some(shops)
    }

    /// A development start ships test orders, because a storefront's development store has no
    /// others.
    fn order_policy(&mut self, development: bool) -> Option<order::Policy> {
        let ships_on_terms = self.flag("SHIP_ON_TERMS");
        let paid_on_delivery = self.names("CASH_ON_DELIVERY_GATEWAYS");
        let services_that_ship = self.names("SERVICES_THAT_SHIP");
        Some(order::Policy {
            ships_on_terms: ships_on_terms?,
            paid_on_delivery: paid_on_delivery?,
            services_that_ship: services_that_ship?,
            ships_tests: development,
        })
    }

    /// Whether there are public pages, and whether those of new orders ask for the code of their links.
    fn pages(&mut self) -> Option<(bool, Option<bool>)> {
        const NAME: &str = "PUBLIC_PAGES";
        const WITH_CODE: &str = "with_code";
        match self.settings.get(NAME).map(str::trim) {
            None => Some((true, None)),
            Some(WITH_CODE) => Some((true, Some(true))),
            Some(_) => Some((self.flag(NAME)?, Some(false))),
        }
    }

    fn return_origins(&mut self, public_url: Option<&str>) -> Option<Origins> {
        const NAME: &str = "CHECKOUT_RETURN_ORIGINS";
        if self.settings.get(NAME).is_none() {
            return public_url.map(Origins::of_public_url);
        }
        let text = self.text(NAME)?;
        let origins = Origins::read(&text);
        if let Err(wrong) = &origins {
            let what = format!("has {wrong:?}; it must be origins like https://shop.example");
            self.wrong(NAME, what);
        }
        origins.ok()
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        const NAME: &str = "TEMPLATES_FILE";
        if self.settings.get(NAME).is_none() {
            return Some(Catalogue::built_in());
        }
        let path = self.text(NAME)?;
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        match text.and_then(|text| Catalogue::read(&text)) {
            Ok(catalogue) => Some(catalogue),
            Err(error) => {
                self.wrong(NAME, format_args!("cannot be used: {path}: {error}"));
                None
            }
        }
    }

    fn qr(&mut self, public_url: Option<&str>) -> Option<QrConfig> {
        let base_url = match self.settings.get("QR_BASE_URL") {
            Some(_) => self.url("QR_BASE_URL"),
            None => public_url.map(ToOwned::to_owned),
        };
        let box_size = self.number("QR_BOX_SIZE", 1, 100);
        let border = self.number("QR_BORDER", 0, 100);
        let level: Option<Level> = self.parse("QR_ERROR_CORRECTION", "L, M, Q or H");
        match QrConfig::new(&base_url?, box_size?, border?, level?) {
            Ok(qr) => Some(qr),
            Err(errors) => {
                let mistakes = errors.iter().map(|error| format!("QR codes: {error}"));
                self.mistakes.extend(mistakes);
                None
            }
        }
    }

    fn proxies(&mut self) -> Option<Vec<IpNet>> {
        const NAME: &str = "TRUSTED_PROXIES";
        let networks = self.networks(NAME)?;
        // The widest network that is private, fc00::/7, is still one.
        let Some(wide) = networks.iter().find(|it| it.prefix_len() < 7) else {
            return Some(networks);
        };
        let what = "would let strangers say which address they come from, and no limit would hold them; name \
                    the address or network of the proxy alone";
        self.wrong(NAME, format_args!("{wide} {what}"));
        None
    }

    /// In development an endpoint may be on this machine, where the developer's own system runs.
    fn endpoints(&mut self, is_development: bool) -> Option<Allowed> {
        let hosts = self.settings.get("ALLOW_CLEARTEXT").unwrap_or_default();
        let hosts = hosts.split(',').map(|host| host.trim().to_owned());
        let cleartext = hosts.filter(|host| !host.is_empty()).collect();
        Some(Allowed {
            networks: self.networks("ENDPOINT_NETWORKS")?,
            cleartext,
            this_machine: is_development,
        })
    }

    fn log_format(&mut self) -> Option<LogFormat> {
        if self.settings.get("LOG_FORMAT").is_none() {
            return Some(LogFormat::for_terminal());
        }
        self.parse("LOG_FORMAT", "human or json")
    }

    fn log_filter(&mut self) -> Option<String> {
        let filter = self.text("RUST_LOG")?;
        if filter
            .parse::<tracing_subscriber::filter::Targets>()
            .is_ok()
        {
            return Some(filter);
        }
        self.wrong(
            "RUST_LOG",
            "must be a level or target=level pairs, like info,sqlx=warn",
        );
        None
    }
}
