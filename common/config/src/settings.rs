//! The table of settings, and where the value of each setting came from: a flag, the environment,
//! a file that it names, a credential of the service, the file `.env` ([`env_file`]), or the default.
//!
//! A row gives the name, the default and the meaning of a setting. The flag, the variable, the
//! help and the line of `waybill config` are made from it. The row does not give the type, because
//! `Config` checks about half of the settings together with others (a secret depends on the mode,
//! the broker on the database, the sender on the mail server), so a type could express only a
//! small part of what is checked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::{Mode, env_file};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use domain::job::Queue;

/// A setting: the flag `--listen-addr` and the environment variable `LISTEN_ADDR`. A secret has no
/// flag, because the list of processes shows flags to every user of the machine.
#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    pub default: Option<&'static str>,
    pub meaning: &'static str,
    /// The value is never shown and there is no flag for it; `NAME_FILE` may name a file with it.
    pub secret: bool,
    pub readers: Readers,
}

/// The processes that read a setting. What a process does not read it need not be given, so that whoever gets into it
/// does not get that secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    All,
    /// Those that take requests.
    Ingress,
    /// Those that take requests, and those that may ask the providers something.
    Callers,
}

impl Readers {
    pub const ALL: [Readers; 3] = [Readers::All, Readers::Ingress, Readers::Callers];

    /// The secrets that these processes read, and no others.
    pub fn secrets(self) -> impl Iterator<Item = &'static Setting> {
        let secrets = SETTINGS.iter().filter(|setting| setting.secret);
        secrets.filter(move |setting| setting.readers == self)
    }

    /// Whether a process that runs in this way is one of them.
    pub fn have(self, mode: Mode) -> bool {
        match (self, mode) {
            (_, Mode::Development | Mode::Production) | (Readers::All, _) => true,
            (Readers::Ingress, Mode::Worker(_)) => false,
            (Readers::Callers, Mode::Worker(queue)) => {
                matches!(queue, Queue::Orders | Queue::Payments)
            }
        }
    }

    /// Who they are, in words.
    pub fn name(self) -> &'static str {
        match self {
            Readers::All => "all processes",
            Readers::Ingress => "ingress",
            Readers::Callers => "ingress, and workers of orders and payments",
        }
    }
}

/// A setting without a default.
const fn setting(name: &'static str, meaning: &'static str) -> Setting {
    Setting {
        name,
        default: None,
        meaning,
        secret: false,
        readers: Readers::All,
    }
}

const fn defaulting(name: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    Setting {
        default: Some(default),
        ..setting(name, meaning)
    }
}

const fn secret(name: &'static str, readers: Readers, meaning: &'static str) -> Setting {
    Setting {
        secret: true,
        readers,
        ..setting(name, meaning)
    }
}

/// Every setting there is, in the order in which `waybill config` shows them.
pub const SETTINGS: &[Setting] = &[
    defaulting("LISTEN_ADDR", "127.0.0.1:8000", "Where ingress listens"),
    setting(
        "WORKER_LISTEN_ADDR",
        "Where a worker serves /livez, /readyz and /metrics. Unset: nowhere",
    ),
    setting(
        "CONSOLE_ADDR",
        "Where the console is served, or off. Unset: `waybill` uses the port two after that of LISTEN_ADDR, `waybill-ingress` serves none",
    ),
    setting(
        "CONSOLE_URL",
        "The https:// address of the console behind a proxy. Unset: where it is served, on this machine",
    ),
    defaulting(
        "CONSOLE_READ_ONLY",
        "false",
        "true: nobody changes anything from the console",
    ),
    setting(
        "PUBLIC_URL",
        "The address at which clients reach ingress. Unset: LISTEN_ADDR, on this machine",
    ),
    Setting {
        name: "DATABASE_URL",
        default: Some("sqlite://data/waybill.db"),
        meaning: "sqlite://PATH, or postgres://.. for more than one process; ?pgbouncer=true behind a pooler of transactions",
        secret: true,
        readers: Readers::All,
    },
    setting(
        "DATABASE_CONNECTIONS",
        "Connections of a process to PostgreSQL. Unset: 10 for ingress, 20 for `waybill`, 2 more with the console, a worker 3 more than its --concurrency",
    ),
    secret(
        "AMQP_URL",
        Readers::All,
        "RabbitMQ, amqp://.., with commas between servers of a cluster; needs PostgreSQL. Unset: messages stay within the process",
    ),
    defaulting(
        "AMQP_PREFIX",
        "waybill",
        "The names of exchanges and queues begin with this word",
    ),
    defaulting(
        "STOREFRONT_PROVIDER",
        "generic",
        "Whose webhooks are taken: generic, shopify, woocommerce, headers or standard-webhooks",
    ),
    setting(
        "STOREFRONT_HEADERS",
        "With the provider headers their names: signature=..,id=..,topic=..,shop=..,version=..",
    ),
    defaulting(
        "PAYMENT_PROVIDER",
        "generic",
        "Whose payment events are taken: generic, stripe or standard-webhooks",
    ),
    secret(
        "STOREFRONT_WEBHOOK_SECRET",
        Readers::Ingress,
        "Signing secret of the storefront; a comma-separated list for rotation, newest first",
    ),
    secret(
        "PAYMENT_WEBHOOK_SECRET",
        Readers::Ingress,
        "Signing secret of the payment provider; a list for rotation, newest first",
    ),
    setting(
        "STOREFRONT_SHOPS",
        "Shop domains whose deliveries are accepted, separated by commas. Unset: all are",
    ),
    setting(
        "STOREFRONT_API_URL",
        "The storefront's admin API, for fulfilments. Unset: only events ask for them",
    ),
    secret(
        "STOREFRONT_API_TOKEN",
        Readers::Callers,
        "Access token of the storefront's admin API",
    ),
    setting(
        "PAYMENT_API_URL",
        "The payment provider's API, for refunds and retries. Unset: only events ask for them",
    ),
    secret(
        "PAYMENT_API_KEY",
        Readers::Callers,
        "Secret key of the payment provider's API",
    ),
    secret(
        "SMTP_URL",
        Readers::All,
        "Mail server, smtps://user:password@host. Unset: no mail is sent",
    ),
    setting(
        "MAIL_FROM",
        "Sender of mails, like Shop <orders@shop.example>; SMTP_URL needs it",
    ),
    setting(
        "OPERATORS_MAIL",
        "Address notified by mail of what needs a person; needs SMTP_URL. Unset: events alone say it",
    ),
    setting(
        "SHOP_NAME",
        "Name of the shop on its buyers' pages. Unset: its domain, where a page may name it",
    ),
    setting(
        "SHOP_CONTACT",
        "Whom buyers may ask: an e-mail address, or a page",
    ),
    setting(
        "SHOP_LANGUAGE",
        "Language of buyers' pages where there is none in the buyer's own: en, de, fr or es",
    ),
    setting(
        "SHOP_LOGO",
        "Address of the shop's logo, which buyers' pages load",
    ),
    setting(
        "NOTIFICATION_TEMPLATES",
        "Folder with your own templates of mails",
    ),
    setting(
        "GITHUB_CLIENT_ID",
        "Client id of the OAuth app at the identity provider. Unset: nobody can log in",
    ),
    secret(
        "GITHUB_CLIENT_SECRET",
        Readers::Ingress,
        "Client secret of that app. Unset: tokens of any app are accepted",
    ),
    defaulting(
        "GITHUB_URL",
        "https://github.com",
        "Where people log in; for an Enterprise server its address",
    ),
    setting(
        "GITHUB_API_URL",
        "The identity provider's API. Unset: that of GITHUB_URL",
    ),
    defaulting(
        "GITHUB_API_VERSION",
        "2022-11-28",
        "X-GitHub-Api-Version of requests to that API",
    ),
    setting(
        "GITHUB_TOKEN_CHECKSUMS",
        "Refuse tokens with a wrong checksum without asking. Unset: true if GITHUB_URL is GitHub's own",
    ),
    defaulting(
        "GITHUB_UNVERIFIED_EMAILS",
        "false",
        "Take the primary address that an Enterprise server does not verify",
    ),
    defaulting(
        "AUTH_STALE_SECONDS",
        "0",
        "How long a valid token is still accepted while the identity provider is down",
    ),
    defaulting(
        "AUTH_DEVICE_CODES_PER_15_MINUTES",
        "5",
        "Logins that a client address may start; 0: no limit",
    ),
    defaulting(
        "AUTH_VALIDATIONS_PER_MINUTE",
        "100",
        "Validations of one token; 0: no limit",
    ),
    defaulting(
        "LICENSE_GRACE_DAYS",
        "3",
        "How long a subscription's licence stays active after its period",
    ),
    setting(
        "TEMPLATES_FILE",
        "JSON file with the catalogue of templates by tier",
    ),
    defaulting(
        "COMMERCE_IDEMPOTENCY_ENABLED",
        "true",
        "Remember webhook ids and refuse duplicates",
    ),
    defaulting(
        "COMMERCE_PII_REDACTION_ENABLED",
        "true",
        "Keep personal data out of the logs",
    ),
    defaulting(
        "WEBHOOK_DEDUPE_TTL_SECONDS",
        "259200",
        "How long webhook ids are remembered",
    ),
    setting(
        "WEBHOOK_DUPLICATE_STATUS",
        "Answer to a storefront duplicate: 409 or 200. Unset: 409 for generic and headers, else 200",
    ),
    defaulting(
        "WEBHOOK_MAX_BODY_BYTES",
        "2097152",
        "Largest body of a webhook",
    ),
    setting(
        "STOREFRONT_RATE_PER_SECOND",
        "Deliveries a second per shop, in each ingress; 0: no limit. Unset: 2, for shopify and woocommerce 250",
    ),
    setting(
        "PAYMENT_RATE_PER_SECOND",
        "Payment events a second, in each ingress; 0: no limit. Unset: 100, for stripe 250",
    ),
    defaulting(
        "COMMERCE_RATE_PER_SECOND",
        "50",
        "Calls a second per API key, in each ingress; 0: no limit",
    ),
    setting(
        "CHECKOUT_RETURN_ORIGINS",
        "Origins that return_url may have, separated by commas. Unset: PUBLIC_URL's and this machine's",
    ),
    defaulting(
        "CHECKOUT_ORDER_WAIT_SECONDS",
        "3600",
        "How long the order of a checkout waits for the storefront's own order; 0: not at all",
    ),
    defaulting(
        "SHIP_ON_TERMS",
        "true",
        "false: ship nothing before it is paid, also where the buyer pays later by the order's terms",
    ),
    setting(
        "CASH_ON_DELIVERY_GATEWAYS",
        "The shop's own names of payment on delivery, separated by commas, besides Cash on Delivery",
    ),
    setting(
        "SERVICES_THAT_SHIP",
        "Fulfillment services that ship their lines by themselves, separated by commas. Nobody else is asked to",
    ),
    defaulting(
        "RECONCILE_MINUTES",
        "15",
        "How often providers whose API is set are asked what never came; 0: only by `waybill reconcile`",
    ),
    defaulting(
        "PAYMENT_TOLERANCE_SECONDS",
        "300",
        "Age from which a payment signature is refused; 0: it is never too old",
    ),
    setting(
        "QR_BASE_URL",
        "Beginning of the links in QR codes. Unset: PUBLIC_URL",
    ),
    defaulting("QR_BOX_SIZE", "10", "Width of a box of a QR code in pixels"),
    defaulting(
        "QR_BORDER",
        "4",
        "Width of the empty border of a QR code in boxes",
    ),
    defaulting(
        "QR_ERROR_CORRECTION",
        "H",
        "How much of a QR code may be damaged: L, M, Q or H for 7, 15, 25 or 30 %",
    ),
    setting(
        "PUBLIC_PAGES",
        "Serve the pages that QR codes lead to; with_code: those of new orders by their whole link. Unset: with_code for woocommerce, else true",
    ),
    defaulting(
        "JOB_RETENTION_DAYS",
        "7",
        "How long bodies of finished jobs are kept",
    ),
    defaulting(
        "NOTIFICATION_RETENTION_DAYS",
        "90",
        "How long rows about notifications are kept",
    ),
    defaulting(
        "EVENT_RETENTION_DAYS",
        "90",
        "How long events are kept that were sent",
    ),
    secret(
        "PRIVACY_KEY",
        Readers::All,
        "Key of the hashes by which erased people are recognized, of the audit, receipts and links; it never changes. PostgreSQL needs it",
    ),
    secret(
        "SECRETS_KEY",
        Readers::Callers,
        "Key that the secrets of connections are encrypted with: openssl rand -hex 32; while it is replaced, the new one, a comma, the former",
    ),
    defaulting(
        "PRIVACY_EXPORT_URL",
        "file://data/exports",
        "Where exports of customers' data are: file://FOLDER or s3://BUCKET/PREFIX",
    ),
    setting(
        "PRIVACY_EXPORT_S3_ENDPOINT",
        "Address of the S3 service. Unset: the provider's own",
    ),
    defaulting(
        "PRIVACY_EXPORT_S3_REGION",
        "us-east-1",
        "Region of the bucket",
    ),
    secret(
        "PRIVACY_EXPORT_S3_ACCESS_KEY_ID",
        Readers::All,
        "Id of the access key of the bucket",
    ),
    secret(
        "PRIVACY_EXPORT_S3_SECRET_ACCESS_KEY",
        Readers::All,
        "Secret of that access key",
    ),
    defaulting(
        "PRIVACY_EXPORT_RETENTION_DAYS",
        "30",
        "How long exports are kept",
    ),
    defaulting(
        "PRIVACY_SHOP_REDACT_HOLD_SECONDS",
        "3600",
        "How long the erasure of a shop can be cancelled",
    ),
    defaulting(
        "MAX_CONNECTIONS",
        "4096",
        "Connections that an ingress process serves; one client network may have an eighth",
    ),
    defaulting(
        "KEEP_ALIVE_SECONDS",
        "75",
        "How long a connection is kept for another request; longer than a proxy in front keeps its own",
    ),
    setting(
        "TRUSTED_PROXIES",
        "Addresses or networks of proxies whose X-Forwarded-For is believed, separated by commas",
    ),
    setting(
        "ENDPOINT_NETWORKS",
        "Private networks in which endpoints of webhooks may be, separated by commas",
    ),
    setting(
        "ALLOW_CLEARTEXT",
        "Hosts to which credentials and data may go without encryption, separated by commas",
    ),
    setting(
        "SHOW_DELIVERIES",
        "Whether waybill without a command prints a line for each delivery. Unset: on a terminal",
    ),
    setting(
        "LOG_FORMAT",
        "human or json. Unset: human on a terminal, json elsewhere",
    ),
    defaulting(
        "RUST_LOG",
        "info",
        "Log level, or target=level pairs separated by commas",
    ),
    setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "Collector for spans and metrics, such as http://127.0.0.1:4318. Unset: none are sent",
    ),
    setting(
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "The whole address for spans. Unset: the endpoint and /v1/traces",
    ),
    setting(
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "The whole address for metrics. Unset: the endpoint and /v1/metrics",
    ),
    secret(
        "OTEL_EXPORTER_OTLP_HEADERS",
        Readers::All,
        "Headers for the collector, name=value separated by commas, values percent-encoded",
    ),
    defaulting(
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "http/protobuf",
        "How the collector is spoken to; no other protocol is known",
    ),
    defaulting(
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "10000",
        "Milliseconds in which the collector must answer",
    ),
    defaulting(
        "OTEL_SDK_DISABLED",
        "false",
        "true: neither spans nor metrics are sent",
    ),
    setting(
        "OTEL_TRACES_EXPORTER",
        "otlp or none. Unset: spans are sent if an endpoint is set",
    ),
    setting(
        "OTEL_METRICS_EXPORTER",
        "otlp or none. Unset: metrics are sent if an endpoint is set",
    ),
    setting(
        "OTEL_SERVICE_NAME",
        "service.name of what is sent. Unset: that of OTEL_RESOURCE_ATTRIBUTES, or waybill",
    ),
    setting(
        "OTEL_RESOURCE_ATTRIBUTES",
        "More attributes, name=value separated by commas, values percent-encoded",
    ),
    defaulting(
        "OTEL_TRACES_SAMPLER",
        "parentbased_always_on",
        "always_on, always_off, traceidratio, or one of these after parentbased_",
    ),
    defaulting(
        "OTEL_TRACES_SAMPLER_ARG",
        "1",
        "With traceidratio the part of all traces, 0 to 1",
    ),
    defaulting(
        "OTEL_BSP_SCHEDULE_DELAY",
        "5000",
        "Milliseconds that a span waits at most",
    ),
    defaulting(
        "OTEL_BSP_EXPORT_TIMEOUT",
        "30000",
        "Milliseconds after which a batch is given up",
    ),
    defaulting(
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "2048",
        "How many spans may wait; further ones are dropped",
    ),
    defaulting(
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "512",
        "How many spans a request has at most",
    ),
    defaulting(
        "OTEL_METRIC_EXPORT_INTERVAL",
        "60000",
        "Milliseconds between two requests with metrics",
    ),
];

/// Environment variables with these beginnings are Waybill's. If one of them is not a setting, its
/// name is misspelt, and Waybill refuses to start.
const PREFIXES: &[&str] = &[
    "AUTH_",
    "COMMERCE_",
    "CHECKOUT_",
    "CONSOLE_",
    "WEBHOOK_",
    "STOREFRONT_",
    "PAYMENT_",
    "QR_",
    "NOTIFICATION_",
    "PRIVACY_",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Environment,
    File,
    /// The file `.env`, or a file that it names.
    EnvFile,
    Default,
    /// The sandbox, which stands in for a provider that is not set.
    Sandbox,
    /// It has neither a value nor a default.
    Unset,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Flag => "flag",
            Origin::Environment => "environment",
            Origin::File => "file",
            Origin::EnvFile => env_file::NAME,
            Origin::Default => "default",
            Origin::Sandbox => "sandbox",
            Origin::Unset => "unset",
        })
    }
}

/// A value and where it came from.
#[derive(Clone, Debug)]
pub struct Given {
    value: Option<String>,
    pub origin: Origin,
}

/// The address without all that stands between its scheme, or its begin if it has none, and its last `@`.
fn without_credentials(address: &str) -> String {
    let Some((before, after)) = address.rsplit_once('@') else {
        return domain::redact::redact(address).into_owned();
    };
    let scheme = before.split_once(':').map_or("", |(scheme, rest)| {
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        &before[..=scheme.len() + slashes]
    });
    format!("{scheme}***@{}", domain::redact::redact(after))
}

impl Setting {
    /// True for an address that may have a password in it.
    fn is_address(&self) -> bool {
        self.name.ends_with("_URL") || self.name.ends_with("_ENDPOINT")
    }

    fn flag(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "-")
    }

    /// `DATABASE_URL` is the only secret that has a flag, because the address of a SQLite file
    /// contains no password.
    fn is_flag(&self) -> bool {
        !self.secret || self.name == "DATABASE_URL"
    }

    fn may_be_seen(&self, value: &str) -> bool {
        !self.secret || (self.is_flag() && value.starts_with("sqlite://"))
    }
}

/// A supervisor that wants to be notified of the state of the process, as systemd does (sd_notify(3)).
/// It is no setting: nobody but the supervisor gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    /// The path of the socket on which it listens.
    pub socket: OsString,
    /// A process that sends no notification for this long counts as hung. None: there is no such limit.
    pub watchdog: Option<Duration>,
}

impl Supervisor {
    fn of(environment: &BTreeMap<String, OsString>) -> Option<Self> {
        let number = |name: &str| environment.get(name)?.to_str()?.parse::<u64>().ok();
        // A variable that was inherited is meant for the process that it names.
        let process = u64::from(std::process::id());
        let is_meant = number("WATCHDOG_PID").is_none_or(|meant| meant == process);
        let watchdog = number("WATCHDOG_USEC").filter(|micros| is_meant && *micros > 0);
        Some(Supervisor {
            socket: environment.get("NOTIFY_SOCKET")?.clone(),
            watchdog: watchdog.map(Duration::from_micros),
        })
    }
}

/// The settings as they were given. Flatten this struct into a command to give the command a flag
/// for each.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, Given>,
    mistakes: Vec<String>,
    /// The settings whose file cannot be read, with the mistake.
    unread: Vec<(&'static str, String)>,
    supervisor: Option<Supervisor>,
}

impl Settings {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.value.as_deref()
    }

    pub fn origin(&self, name: &str) -> Origin {
        self.values
            .get(name)
            .map_or(Origin::Unset, |given| given.origin)
    }

    /// Whether Waybill is only tried out: neither signing secret is set.
    pub fn is_a_try(&self) -> bool {
        let secrets = ["STOREFRONT_WEBHOOK_SECRET", "PAYMENT_WEBHOOK_SECRET"];
        secrets.iter().all(|name| self.get(name).is_none())
    }

    /// The mistakes about files of settings whose names begin with `prefix`.
    pub fn unread(&self, prefix: &str) -> Vec<String> {
        let unread = self.unread.iter();
        let of_prefix = unread.filter(|(name, _)| name.starts_with(prefix));
        of_prefix.map(|(_, mistake)| mistake.clone()).collect()
    }

    /// The mistakes that were found while the settings were gathered.
    pub fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    /// The supervisor that wants to be notified of the state of the process.
    pub fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.as_ref()
    }

    /// Sets a value as a flag would.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        let given = Given {
            value: Some(value.into()),
            origin: Origin::Flag,
        };
        self.values.insert(name, given);
    }

    /// Sets a value that leads to the sandbox.
    pub fn stand_in(&mut self, name: &'static str, value: impl Into<String>) {
        let given = Given {
            value: Some(value.into()),
            origin: Origin::Sandbox,
        };
        self.values.insert(name, given);
    }

    /// The defaults alone, whatever the environment says.
    pub fn defaults() -> Self {
        let mut settings = Settings::default();
        for setting in SETTINGS {
            let origin = setting.default.map_or(Origin::Unset, |_| Origin::Default);
            let value = setting.default.map(ToOwned::to_owned);
            settings
                .values
                .insert(setting.name, Given { value, origin });
        }
        settings
    }

    /// The value as it may be shown. Of a secret it shows only how many secrets the list has, and of an address nothing of
    /// what stands before its host, even if it was mistyped.
    pub fn shown(&self, setting: &Setting) -> String {
        match self.get(setting.name) {
            None => String::new(),
            Some(value) if setting.is_address() => without_credentials(value),
            Some(value) if setting.secret => match value.split(',').count() {
                1 => "***".to_owned(),
                secrets => format!("*** ({secrets} secrets)"),
            },
            Some(value) => value.to_owned(),
        }
    }

    /// Adds to a command's help where settings are found. The table of all settings is longer than
    /// everything else that a help says, so it is not a part of it.
    pub fn explained(command: Command) -> Command {
        const WHERE: &str = "Every setting is a variable of the environment, a line of the file .env in this\n\
                             folder, and, unless it is a secret, a flag: LISTEN_ADDR is --listen-addr.\n\
                             `waybill config` lists all with their values.";
        let text = match command.get_after_help() {
            Some(after) => format!("{WHERE}\n\n{after}"),
            None => WHERE.to_owned(),
        };
        command.after_help(text)
    }

    fn gather(
        matches: &ArgMatches,
        environment: &BTreeMap<String, OsString>,
        env_file: Result<BTreeMap<String, String>, String>,
    ) -> Self {
        let mut settings = Settings {
            supervisor: Supervisor::of(environment),
            ..Settings::default()
        };
        let env_file = env_file.unwrap_or_else(|mistake| {
            settings.mistakes.push(mistake);
            BTreeMap::new()
        });
        for setting in SETTINGS {
            let mut given = Given {
                value: matches.get_one::<String>(setting.name).cloned(),
                origin: match matches.value_source(setting.name) {
                    Some(ValueSource::CommandLine) => Origin::Flag,
                    Some(ValueSource::EnvVariable) => Origin::Environment,
                    Some(_) => Origin::Default,
                    None => Origin::Unset,
                },
            };
            let file = format!("{}_FILE", setting.name);
            if let Some(path) = environment.get(&file).filter(|_| setting.secret) {
                settings.read_file(setting, &file, path, &mut given, Origin::File);
            }
            if let Some(path) = credential(environment, setting) {
                let credential = format!("the credential {}", setting.name);
                settings.read_file(setting, &credential, &path, &mut given, Origin::File);
            }
            if matches!(given.origin, Origin::Default | Origin::Unset) {
                if let Some(value) = env_file.get(setting.name) {
                    given.value = Some(value.clone());
                    given.origin = Origin::EnvFile;
                }
                if let Some(path) = env_file.get(&file).filter(|_| setting.secret) {
                    let path = OsString::from(path);
                    settings.read_file(setting, &file, &path, &mut given, Origin::EnvFile);
                }
            }
            settings.values.insert(setting.name, given);
        }
        settings.refuse_unknown(environment.keys(), "");
        settings.refuse_unknown(env_file.keys(), ".env: ");
        settings
    }

    /// Reads the value from a file, which `file` calls by the name under which it was given.
    fn read_file(
        &mut self,
        setting: &Setting,
        file: &str,
        path: &OsString,
        given: &mut Given,
        origin: Origin,
    ) {
        if !matches!(given.origin, Origin::Default | Origin::Unset) {
            let both = format!("{} and {file} are both set; keep one", setting.name);
            self.mistakes.push(both);
            return;
        }
        match std::fs::read_to_string(path) {
            Ok(text) => {
                given.value = Some(text.trim_end_matches(['\r', '\n']).to_owned());
                given.origin = origin;
            }
            Err(error) => {
                let mistake = format!("{file}: cannot read {}: {error}", path.display());
                self.unread.push((setting.name, mistake.clone()));
                self.mistakes.push(mistake);
            }
        }
    }

    fn refuse_unknown<'a>(&mut self, names: impl Iterator<Item = &'a String>, place: &str) {
        for name in names {
            let ours = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            let known = SETTINGS.iter().any(|setting| {
                name == setting.name
                    || (setting.secret && name.strip_suffix("_FILE") == Some(setting.name))
            });
            if !ours || known {
                continue;
            }
            let nearest = nearest(name);
            self.mistakes.push(format!(
                "{place}{name} is not a setting; did you mean {nearest}?"
            ));
        }
    }
}

/// The file with the value of a secret, if the supervisor has put one into the folder of the
/// service's credentials, as systemd does for `LoadCredential=`.
fn credential(environment: &BTreeMap<String, OsString>, setting: &Setting) -> Option<OsString> {
    let folder = environment.get("CREDENTIALS_DIRECTORY")?;
    let path = Path::new(folder).join(setting.name);
    // If it cannot be seen whether there is one, reading it says why.
    let is_there = setting.secret && !matches!(path.try_exists(), Ok(false));
    is_there.then(|| path.into_os_string())
}

/// The setting that a misspelt name most likely means. The beginnings of names count most, because
/// they are what people remember.
fn nearest(name: &str) -> &'static str {
    let likeness = |setting: &&Setting| strsim::jaro_winkler(name, setting.name);
    let nearest = SETTINGS
        .iter()
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    nearest.map_or("", |setting| setting.name)
}

fn refuse_secret_flags(matches: &ArgMatches) -> Result<(), clap::Error> {
    for setting in SETTINGS {
        let is_given = matches.value_source(setting.name) == Some(ValueSource::CommandLine);
        let value = matches.get_one::<String>(setting.name);
        if is_given && value.is_some_and(|value| !setting.may_be_seen(value)) {
            let (flag, name) = (setting.flag(), setting.name);
            return Err(clap::Error::raw(
                ErrorKind::ArgumentConflict,
                format!(
                    "--{flag} would show a secret to everybody who lists this machine's \
                     processes: set \
                     {name} in the environment, or {name}_FILE to the path of a file that holds it\n"
                ),
            ));
        }
    }
    Ok(())
}

impl Args for Settings {
    fn augment_args(mut command: Command) -> Command {
        for setting in SETTINGS {
            let mut meaning = setting.meaning.to_owned();
            if setting.secret {
                meaning = format!(
                    "{meaning}. Also {}_FILE, a file that holds it",
                    setting.name
                );
            }
            let mut arg = Arg::new(setting.name)
                .long(setting.flag())
                .env(setting.name)
                .hide_env_values(true)
                .value_name("VALUE")
                .help_heading("Settings")
                .hide_short_help(true)
                .hide_long_help(true)
                .hide(!setting.is_flag())
                .global(true)
                .help(meaning);
            if let Some(default) = setting.default {
                arg = arg.default_value(default);
            }
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the environment's one home"
    )]
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        refuse_secret_flags(matches)?;
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        let env_file = env_file::read(Path::new(env_file::NAME));
        Ok(Settings::gather(matches, &environment, env_file))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
