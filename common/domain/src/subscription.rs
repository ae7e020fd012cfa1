//! A provider's subscriptions: what it posts, and where to. They are compared with what is worked on here, because a
//! provider takes a subscription away, or switches it off, after some failures.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::connection::{DEFAULT, PAYMENT_PATH, STOREFRONT_PATH, address};
use crate::job::{Kind, Source};
use crate::profile::StorefrontProfile;

/// The topic of a subscription to everything.
const ALL: &str = "*";

/// A subscription as the provider's API lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub id: String,
    pub url: String,
    /// In the provider's words; `*`: all of them.
    pub topics: Vec<String>,
    /// False: it is switched off, or paused.
    pub is_active: bool,
    pub api_version: Option<String>,
}

/// What there must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where the provider is to post.
    pub url: String,
    /// Another address that is as good.
    pub also: Option<String>,
    /// In the provider's words.
    pub topics: Vec<&'static str>,
    /// The version of the API that is called, where its address names one. Bodies of another version have other members.
    pub api_version: Option<String>,
}

/// What is wrong with the subscriptions of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Nobody has subscribed to these.
    Missing { topics: Vec<String> },
    /// This one is switched off.
    Off { id: String, topics: Vec<String> },
    /// This one posts somewhere else, to a path as ours, and nothing here brings the same.
    Elsewhere {
        id: String,
        url: String,
        topics: Vec<String>,
    },
    /// This one is of another version of the API than the one that is called.
    OtherVersion {
        id: String,
        topics: Vec<String>,
        version: String,
        wanted: String,
    },
}

/// The subscriptions of one provider beside what there must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether any is ours at all. An API may list only what was made by it, and not what somebody has made on a page.
    pub is_any_ours: bool,
    pub wrong: Vec<Wrong>,
}

impl Wanted {
    /// What a storefront is to post to a connection.
    pub fn storefront(
        public_url: &str,
        connection: &str,
        profile: &StorefrontProfile,
        api_url: &str,
    ) -> Self {
        // Topics about people's data are set in the provider's app, and no API lists them.
        let orders = of_source(Source::Storefront).filter(|it| matches!(it, Kind::Order(_)));
        let orders: Vec<&str> = orders.map(Kind::into_str).collect();
        Self::at(
            public_url,
            STOREFRONT_PATH,
            connection,
            profile.subscriptions(&orders),
            version_in(api_url),
        )
    }

    /// The same for a payment provider.
    ///
    /// At the address without a name an event is only of a connection whose account it names.
    pub fn payment(public_url: &str, connection: &str, has_account: bool) -> Self {
        let types = of_source(Source::Payment).map(Kind::into_str).collect();
        let wanted = Self::at(public_url, PAYMENT_PATH, connection, types, None);
        Wanted {
            also: wanted.also.filter(|_| has_account),
            ..wanted
        }
    }

    fn at(
        public_url: &str,
        path: &str,
        connection: &str,
        topics: Vec<&'static str>,
        api_version: Option<String>,
    ) -> Self {
        let unnamed = address(public_url, path, None);
        let (url, also) = match connection {
            DEFAULT => (unnamed, None),
            name => (address(public_url, path, Some(name)), Some(unnamed)),
        };
        Wanted {
            url,
            also,
            topics,
            api_version,
        }
    }

    /// Whether an address is one at which these deliveries are taken.
    pub fn is_ours(&self, url: &str) -> bool {
        let is = |ours: &str| shown(url).eq_ignore_ascii_case(ours);
        is(&self.url) || self.also.as_deref().is_some_and(is)
    }

    /// Whether an address has our path at another host.
    fn has_our_path(&self, url: &str) -> bool {
        let path = path_of(url);
        let is = |ours: &str| path == path_of(ours);
        is(&self.url) || self.also.as_deref().is_some_and(is)
    }

    /// Compares what there must be with what there is.
    pub fn compare(&self, found: &[Subscription]) -> Compared {
        let mut left: BTreeSet<&str> = self.topics.iter().copied().collect();
        let (ours, others): (Vec<_>, Vec<_>) = found.iter().partition(|it| self.is_ours(&it.url));
        let (active, off): (Vec<_>, Vec<_>) = ours.into_iter().partition(|it| it.is_active);
        let mut wrong = Vec::new();
        let mut is_any_ours = false;
        for it in &active {
            let topics = taken(it, &mut left);
            is_any_ours |= !topics.is_empty();
            let other = it.api_version.as_ref().zip(self.api_version.as_ref());
            let other = other.filter(|(has, wanted)| has != wanted && !topics.is_empty());
            if let Some((version, wanted)) = other {
                wrong.push(Wrong::OtherVersion {
                    id: it.id.clone(),
                    topics,
                    version: version.clone(),
                    wanted: wanted.clone(),
                });
            }
        }
        for it in off {
            let topics = taken(it, &mut left);
            if !topics.is_empty() {
                is_any_ours = true;
                wrong.push(Wrong::Off {
                    id: it.id.clone(),
                    topics,
                });
            }
        }
        for it in others.into_iter().filter(|it| self.has_our_path(&it.url)) {
            let topics = taken(it, &mut left);
            if !topics.is_empty() {
                wrong.push(Wrong::Elsewhere {
                    id: it.id.clone(),
                    url: shown(&it.url),
                    topics,
                });
            }
        }
        if !left.is_empty() {
            let topics = left.into_iter().map(str::to_owned).collect();
            wrong.push(Wrong::Missing { topics });
        }
        Compared { is_any_ours, wrong }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Missing { topics } => write!(f, "nothing is subscribed to {}", few(topics)),
            Wrong::Off { id, topics } => {
                write!(
                    f,
                    "the subscription {id} to {} is switched off",
                    few(topics)
                )
            }
            Wrong::Elsewhere { id, url, topics } => {
                write!(f, "the subscription {id} to {} posts to {url}", few(topics))
            }
            Wrong::OtherVersion {
                id,
                topics,
                version,
                wanted,
            } => write!(
                f,
                "the subscription {id} to {} is of API version {version}, and the API is called with {wanted}",
                few(topics)
            ),
        }
    }
}

impl Compared {
    /// What is wrong, in one line. None if nothing is.
    pub fn in_words(&self) -> Option<String> {
        let wrong: Vec<String> = self.wrong.iter().map(Wrong::to_string).collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

/// The kinds that a side's deliveries are of, but thin events: those need a subscription of another sort.
pub fn of_source(source: Source) -> impl Iterator<Item = Kind> {
    let kinds = Kind::all().iter().copied();
    let whole = kinds.filter(|kind| !matches!(kind, Kind::ThinPayment(_)));
    whole.filter(move |kind| kind.row().source == source)
}

/// Takes what a subscription brings out of what is left.
fn taken(it: &Subscription, left: &mut BTreeSet<&str>) -> Vec<String> {
    let brings = |topic: &str| it.topics.iter().any(|has| has == topic || has == ALL);
    let topics: Vec<String> = left
        .iter()
        .filter(|topic| brings(topic))
        .map(|topic| (*topic).to_owned())
        .collect();
    left.retain(|topic| !brings(topic));
    topics
}

/// The first topics, and how many more there are.
fn few(topics: &[String]) -> String {
    const NAMED: usize = 3;
    let named = topics.iter().take(NAMED).map(String::as_str);
    let named = named.collect::<Vec<_>>().join(", ");
    match topics.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The path of an address, without its query.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.trim_end_matches('/')
}

/// An address without what may be a secret: its user and its query.
fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{}", path_of(url))
}

/// The version that the address of an API ends in, such as `2026-10`.
fn version_in(url: &str) -> Option<String> {
    let last = path_of(url).rsplit('/').next()?;
    let (year, month) = last.split_once('-')?;
    let are_digits = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    (are_digits(year, 4) && are_digits(month, 2)).then(|| last.to_owned())
}
