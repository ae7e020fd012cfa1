//! The list of protections that a setting can switch off. Each entry says what an attacker can do
//! without the protection, and which setting turns it on.
//!
//! The first lines of the log, `waybill doctor` and the table in docs/security.md are made from
//! this list, so that nobody switches a protection off without knowing it. Protections that cannot
//! be switched off are not in the list; docs/security.md describes them.

use domain::profile::OrderIds;

use crate::database::{self, Encryption};
use crate::{Config, Weakness, env_file, private_files};

pub struct Protection {
    pub name: &'static str,
    /// The setting that turns it on, or the one that names the place which it protects.
    pub setting: &'static str,
    /// What an attacker can do, or what else goes wrong, when it is off.
    pub open: &'static str,
    /// What the operator should do to turn it on.
    pub advice: &'static str,
    state: fn(&Config) -> State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    On,
    /// The feature that it would protect is not used.
    Unused,
    /// It is off. The text says at which places (hosts or files), or why; it is empty when the
    /// protection is off everywhere.
    Off(String),
}

impl Protection {
    pub fn state(&self, config: &Config) -> State {
        (self.state)(config)
    }
}

/// All protections in the order in which they are reported: those that keep strangers out come
/// first.
pub const PROTECTIONS: &[Protection] = &[
    Protection {
        name: "storefront secret",
        setting: "STOREFRONT_WEBHOOK_SECRET",
        open: "somebody who knows or guesses the secret can make up orders, and erase customers",
        advice: "A short or public secret is only good for a try on this machine. Otherwise make \
                 one of 16 characters or more at the provider, and set it here.",
        state: |config| weak(config, "STOREFRONT_WEBHOOK_SECRET"),
    },
    Protection {
        name: "payment secret",
        setting: "PAYMENT_WEBHOOK_SECRET",
        open: "somebody who knows or guesses the secret can make up payments and refunds",
        advice: "A short or public secret is only good for a try on this machine. Otherwise make \
                 one of 16 characters or more at the provider, and set it here.",
        state: |config| weak(config, "PAYMENT_WEBHOOK_SECRET"),
    },
    Protection {
        name: "shops",
        setting: "STOREFRONT_SHOPS",
        open: "the shop's header is not signed: somebody who has captured a signed body can send \
               it again under any shop, known or made up",
        advice: "Set it to the domain of your shop, or give each shop a secret of its own: `waybill connections add`.",
        // Without a secret nothing is taken for a shop that has no connection.
        state: |config| match config.storefront.secrets.fingerprints() {
            [] => State::Unused,
            _ => off_if(config.storefront.shops.is_empty()),
        },
    },
    Protection {
        name: "pages of orders",
        setting: "PUBLIC_PAGES",
        open: "where the ids of orders count up, anybody can look through the states, amounts and tracking numbers of all",
        advice: "Set it to with_code. Orders that are known already keep their open links; `waybill orders new-link` \
                 gives one of them a link with a code.",
        state: |config| match config.storefront.profile.order_ids {
            OrderIds::Random => State::Unused,
            _ if !config.public_pages => State::Unused,
            OrderIds::CountUp | OrderIds::Unknown => {
                off_if(!config.has_page_codes(config.storefront.profile))
            }
        },
    },
    Protection {
        name: "age of payment signatures",
        setting: "PAYMENT_TOLERANCE_SECONDS",
        open: "a captured payment event can be sent again at any time",
        advice: "Unset it, or set it to 300.",
        state: |config| off_if(config.payment_tolerance.is_zero()),
    },
    Protection {
        name: "deduplication",
        setting: "COMMERCE_IDEMPOTENCY_ENABLED",
        open: "a captured delivery is processed each time that it is sent",
        advice: "Unset it, or set it to true.",
        state: |config| off_if(!config.dedupe),
    },
    Protection {
        name: "identity secret",
        setting: "GITHUB_CLIENT_SECRET",
        open: "the tokens of any app of the identity provider are accepted, and the provider \
               counts each bad token as a failed login",
        advice: "Set it to the secret of the app of GITHUB_CLIENT_ID.",
        state: |config| match config.identity {
            Some(_) => off_if(config.takes_foreign_tokens()),
            None => State::Unused,
        },
    },
    Protection {
        name: "verified addresses",
        setting: "GITHUB_UNVERIFIED_EMAILS",
        open: "whoever may set their address at the Enterprise server logs in with any address, also somebody \
               else's",
        advice: "Unset it, if the server verifies addresses.",
        state: |config| match &config.identity {
            Some(identity) => off_if(identity.takes_unverified),
            None => State::Unused,
        },
    },
    Protection {
        name: "revoked tokens",
        setting: "AUTH_STALE_SECONDS",
        open: "a token that was revoked is still accepted while the identity provider is away",
        advice: "Unset it, or set it to 0: then a token is accepted only when the provider \
                 confirms it.",
        state: |config| match config.identity {
            Some(_) => off_if(!config.auth_stale.is_zero()),
            None => State::Unused,
        },
    },
    Protection {
        name: "encryption to clients",
        setting: "PUBLIC_URL",
        open: "API keys, access tokens and links to exports go over the network in clear",
        advice: "Put a proxy with TLS in front, and set it to the https:// address.",
        state: |config| off_if(config.is_public_in_clear()),
    },
    Protection {
        name: "encryption to others",
        setting: "ALLOW_CLEARTEXT",
        open: "credentials and people's data go over the network in clear",
        advice: "Use https://, amqps://, smtps:// and ?sslmode=verify-full, and remove the host \
                 from the list; or make sure that nobody else can reach the network between.",
        state: |config| {
            let places: Vec<String> = config.cleartext.iter().map(ToString::to_string).collect();
            off_at(places.join(", "))
        },
    },
    Protection {
        name: "certificate of the database",
        setting: "DATABASE_URL",
        open: "somebody on the network between can pose as the database, and read and change \
               everything",
        advice: "Add ?sslmode=verify-full, and sslrootcert=PATH if you have your own certificate \
                 authority.",
        state: |config| match database::on_network(&config.database_url) {
            Some((host, Encryption::Unverified)) => off_at(host),
            Some((_, Encryption::Verified)) => State::On,
            Some((_, Encryption::None)) | None => State::Unused,
        },
    },
    Protection {
        name: "rewriting of erased rows",
        setting: "DATABASE_URL",
        open: "who gets at the database's files can find what was erased, until the server has used its \
               space again",
        advice: "Give the worker of privacy requests the address of the server itself, without \
                 pgbouncer=true.",
        state: |config| {
            if database::is_pooled(&config.database_url) {
                off_at("behind a pooler of transactions".to_owned())
            } else {
                State::On
            }
        },
    },
    Protection {
        name: "addresses of endpoints",
        setting: "ENDPOINT_NETWORKS",
        open: "who may add endpoints of webhooks has requests made to what is in these networks",
        advice: "Name no more than the addresses of your own systems.",
        state: |config| {
            let networks: Vec<String> = config
                .endpoints
                .networks
                .iter()
                .map(ToString::to_string)
                .collect();
            if networks.is_empty() {
                State::On
            } else {
                State::Off(networks.join(", "))
            }
        },
    },
    Protection {
        name: "client addresses",
        setting: "TRUSTED_PROXIES",
        open: "PUBLIC_URL is the address of a proxy, and all clients behind it count as one: a \
               stranger can use up the limits of pages and logins for everybody",
        advice: "Set it to the address or network from which the proxy connects.",
        state: |config| {
            if config.public_url.starts_with("https://") {
                off_if(config.trusted_proxies.is_empty())
            } else {
                State::Unused
            }
        },
    },
    Protection {
        name: "storefront rate",
        setting: "STOREFRONT_RATE_PER_SECOND",
        open: "a captured delivery can be sent again under other ids without end",
        advice: "Unset it, or set it to what a busy shop needs.",
        state: |config| off_if(config.storefront.rate.per_second == 0),
    },
    Protection {
        name: "payment rate",
        setting: "PAYMENT_RATE_PER_SECOND",
        open: "a captured event can be sent again without end, within its time",
        advice: "Unset it, or set it to what a busy hour needs.",
        state: |config| off_if(config.payment.rate.per_second == 0),
    },
    Protection {
        name: "commerce rate",
        setting: "COMMERCE_RATE_PER_SECOND",
        open: "one API key can use up the service for all",
        advice: "Unset it, or set it to what your busiest program needs.",
        state: |config| off_if(config.commerce_rate == 0),
    },
    Protection {
        name: "login rate",
        setting: "AUTH_DEVICE_CODES_PER_15_MINUTES",
        open: "one client can use up what the identity provider allows for logins",
        advice: "Unset it, or set it to 5.",
        state: |config| match config.identity {
            Some(_) => off_if(config.device_codes == 0),
            None => State::Unused,
        },
    },
    Protection {
        name: "validation rate",
        setting: "AUTH_VALIDATIONS_PER_MINUTE",
        open: "one token can use up the service for all",
        advice: "Unset it, or set it to 100.",
        state: |config| match config.identity {
            Some(_) => off_if(config.validations == 0),
            None => State::Unused,
        },
    },
    Protection {
        name: "privacy key",
        setting: "PRIVACY_KEY",
        open: "the key is in the database: somebody who can read the database, or a backup, can \
               test guesses at who was erased, and sign links to exports, receipts and the audit",
        advice: "Set it before there is data: openssl rand -hex 32. If the database has made its \
                 own key, take that out: waybill privacy key --output FILE. The key never changes.",
        state: |config| off_if(config.privacy.key.is_none()),
    },
    Protection {
        name: "hold of shop erasures",
        setting: "PRIVACY_SHOP_REDACT_HOLD_SECONDS",
        open: "a shop is erased at once, and nobody can cancel it",
        advice: "Unset it, or set it to 3600.",
        state: |config| off_if(config.privacy.shop_hold.is_zero()),
    },
    Protection {
        name: "redaction of logs",
        setting: "COMMERCE_PII_REDACTION_ENABLED",
        open: "everybody who reads the logs can read names, addresses and telephone numbers",
        advice: "Unset it, or set it to true.",
        state: |config| off_if(!config.redact_logs),
    },
    Protection {
        name: "private files",
        setting: "DATABASE_URL, PRIVACY_EXPORT_URL",
        open: "other users of this machine can read the data",
        advice: "Start the service: it narrows the permissions of data. Those of .env are yours to \
                 narrow: chmod 600 .env. If the file system has no permissions, move the data to one \
                 that has.",
        state: |config| {
            let wide = private_files::wide(config).into_iter();
            let places = wide.map(|it| format!("{} has mode {:o}", it.path.display(), it.mode));
            let places: Vec<String> = places.chain(env_file::read_by_others()).collect();
            off_at(places.join(", "))
        },
    },
];

fn off_if(is_off: bool) -> State {
    if is_off {
        State::Off(String::new())
    } else {
        State::On
    }
}

fn off_at(places: String) -> State {
    if places.is_empty() {
        State::On
    } else {
        State::Off(places)
    }
}

fn weak(config: &Config, setting: &str) -> State {
    let found = config.weak_secrets.iter().find(|(it, _)| *it == setting);
    match found {
        Some((_, Weakness::Public)) => State::Off("the public development secret".to_owned()),
        Some((_, Weakness::Short)) => State::Off("shorter than 16 characters".to_owned()),
        None => State::On,
    }
}

/// Logs a line for each protection that is off. A development start, which nobody else can reach,
/// logs one line with all their names.
pub fn report(config: &Config) {
    let off = PROTECTIONS
        .iter()
        .filter_map(|protection| match protection.state(config) {
            State::Off(places) => Some((protection, places)),
            State::On | State::Unused => None,
        });
    if config.development {
        let names: Vec<&str> = off.map(|(protection, _)| protection.name).collect();
        let off = names.join(", ");
        tracing::warn!(
            off,
            "protections are off, as they may be in development; `waybill doctor` lists each"
        );
        return;
    }
    for (protection, places) in off {
        let Protection {
            name,
            setting,
            open,
            ..
        } = protection;
        if places.is_empty() {
            tracing::warn!(protection = name, setting, open, "a protection is off");
        } else {
            tracing::warn!(
                protection = name,
                setting,
                places,
                open,
                "a protection is off"
            );
        }
    }
}
