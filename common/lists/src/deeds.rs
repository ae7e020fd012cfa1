//! What operators fill in before something is done: the arguments of a command, and the fields of the console's form.

use std::time::Duration;

use domain::event::Pattern;
use domain::license::Tier;
use domain::pause::{NotATarget, Scope, Target};
use domain::privacy::Topic;
use domain::time::Timestamp;
use operators::connections::Changes;
use operators::licenses::To;
use store::users::Named;

use crate::{age, words};

/// Who is granted which tier, and until when.
#[derive(Clone, Debug, clap::Args)]
pub struct Grant {
    /// A person: a login, or `id:` and the number of the account. A login that nobody has used yet can claim
    /// the licence within 30 days
    #[arg(long, required_unless_present = "org", conflicts_with = "org")]
    pub user: Option<Named>,
    /// An organization, made with `waybill orgs create`
    #[arg(long, value_name = "NAME")]
    pub org: Option<String>,
    /// The tier; `waybill licenses tiers` says what each has
    #[arg(long, value_parser = words::tier())]
    pub tier: Tier,
    /// The licence ends after this many days. Without days and a time it never ends
    #[arg(long, conflicts_with = "until", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: Option<u32>,
    /// The licence ends then: a day, which means its end in UTC, or a time like
    /// 2027-01-31T12:00:00+01:00
    #[arg(long, value_name = "DAY|TIME", value_parser = Timestamp::end_of)]
    pub until: Option<Timestamp>,
    /// The payment provider's subscription whose paid invoices extend the licence
    #[arg(long, value_name = "ID")]
    pub subscription: Option<String>,
    /// The price, product or item of that subscription that carries the tier, if it has several
    #[arg(long, value_name = "ID", requires = "subscription")]
    pub item: Option<String>,
}

impl Grant {
    /// Who gets it. None when nobody is named, which the arguments do not allow.
    pub fn to(&self) -> Option<To<'_>> {
        match (&self.user, &self.org) {
            (Some(user), _) => Some(To::User(user)),
            (None, org) => org.as_deref().map(To::Org),
        }
    }

    /// When it ends. Days are counted from this time.
    pub fn expires_at(&self, from: Timestamp) -> Option<Timestamp> {
        let days = |days| from.plus(Duration::from_hours(u64::from(days) * 24));
        self.until.or(self.days.map(days))
    }
}

/// What is paused.
#[derive(Clone, Debug, clap::Args)]
pub struct Paused {
    /// What is paused; a condition is one of which operators are notified
    #[arg(value_name = "queue|provider|shop|connection|condition", value_parser = words::pause_scope())]
    pub scope: Scope,
    /// A queue (orders, payments, privacy, endpoints), a provider (storefront, payment, mail), the
    /// domain of a shop, the name of a connection, or that of a condition (nothing_came, ..)
    #[arg(value_name = "NAME", value_parser = words::pause_name(), hide_possible_values = true)]
    pub name: String,
}

impl Paused {
    pub fn target(&self) -> Result<Target, NotATarget> {
        Target::new(self.scope, &self.name)
    }
}

/// What is paused, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Pause {
    #[command(flatten)]
    pub what: Paused,
    /// For how long, such as 30m, 2h or 3d; at most seven days
    #[arg(long = "for", value_name = "AGE", value_parser = age::parse, default_value = "1h")]
    pub length: Duration,
}

/// Where events are sent from now on.
#[derive(Clone, Debug, clap::Args)]
pub struct NewEndpoint {
    /// The endpoint's address: https://..
    pub url: String,
    /// Send only events whose type fits this pattern, such as `order.*`. It may be repeated
    #[arg(
        long = "type",
        value_name = "PATTERN",
        value_parser = words::coming_event(),
        hide_possible_values = true
    )]
    pub types: Vec<Pattern>,
    /// Begin with the events of the last 90s, 10m, 2h, 7d, ..
    #[arg(long, value_name = "AGE", value_parser = age::parse)]
    pub since: Option<Duration>,
}

/// A provider that is connected, without its secrets.
#[derive(Clone, Debug, clap::Args)]
pub struct NewConnection {
    /// A name of lower-case letters, digits and hyphens, such as shop-b. It is never changed
    pub name: String,
    /// generic, shopify, woocommerce, headers, standard-webhooks; of payments generic, stripe, standard-webhooks
    #[arg(long, value_name = "PROVIDER")]
    pub provider: String,
    /// The domain of a shop that the secret proves. It may be repeated
    #[arg(long = "shop", value_name = "DOMAIN")]
    pub shops: Vec<String>,
    /// The account of the payment provider, where its events name one
    #[arg(long, conflicts_with = "shops")]
    pub account: Option<String>,
    /// The connection whose payments pay for the orders of the shops. Default: the one of the settings
    #[arg(long, value_name = "NAME", requires = "shops")]
    pub payments: Option<String>,
    /// The names of the provider's headers, of the provider headers: signature=..,id=..,topic=..,shop=..
    #[arg(long)]
    pub headers: Option<String>,
    #[command(flatten)]
    pub changes: ConnectionChanges,
    /// The shop has a connection already and moves to this one. Both are accepted until the former is removed
    #[arg(long)]
    pub moves: bool,
}

/// What of a connection can be changed without its provider noticing. An empty text takes a value away.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectionChanges {
    /// How many deliveries a second are taken, of a shop or of the payment provider; 0: no limit
    #[arg(long, value_name = "PER SECOND")]
    pub rate: Option<u32>,
    /// Who writes to the buyers of the shops: Shop <orders@shop.example>. Default: MAIL_FROM
    #[arg(long, value_name = "ADDRESS")]
    pub sender: Option<String>,
    /// The name of the shops on their buyers' pages. Default: that of the sender, or the domain
    #[arg(long, value_name = "NAME")]
    pub display_name: Option<String>,
    /// Whom buyers may ask: an e-mail address, or a page. Default: the sender
    #[arg(long, value_name = "ADDRESS")]
    pub contact: Option<String>,
    /// The language of buyers' pages where there is none in the buyer's own: en, de, fr or es
    #[arg(long, value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// The address of the shops' logo, which buyers' pages load
    #[arg(long, value_name = "URL")]
    pub logo: Option<String>,
}

impl From<ConnectionChanges> for Changes {
    fn from(given: ConnectionChanges) -> Self {
        Changes {
            rate: given.rate,
            sender: given.sender,
            display_name: given.display_name,
            contact: given.contact,
            language: given.language,
            logo: given.logo,
        }
    }
}

/// A privacy request of somebody who has written to the merchant.
#[derive(Clone, Debug, clap::Args)]
pub struct PrivacyRequest {
    /// The shop's domain
    #[arg(long, value_name = "DOMAIN")]
    pub shop: String,
    /// The customer's id at the storefront. Without it the e-mail address is asked for
    #[arg(long, value_name = "ID")]
    pub customer: Option<i64>,
    /// Erase the customer's data, and not export it
    #[arg(long)]
    pub erase: bool,
    /// Enter it even if nothing is known of this customer
    #[arg(long = "yes")]
    pub even_if_unknown: bool,
}

impl PrivacyRequest {
    pub fn topic(&self) -> Topic {
        if self.erase {
            Topic::Redact
        } else {
            Topic::DataRequest
        }
    }
}
