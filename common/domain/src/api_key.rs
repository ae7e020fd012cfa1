//! What the holder of an API key may do: which kinds of calls (scopes), and the data of which
//! shops. A key that was made without a list may do everything, including what a later version
//! adds, but does not open the console: a role there is always listed.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::time::Timestamp;

/// A kind of calls to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// See orders and their QR codes.
    OrdersRead,
    /// Open checkouts.
    CheckoutWrite,
    /// Make QR codes of links and texts.
    QrWrite,
    /// Read events, and follow them as they happen.
    EventsRead,
    /// See where events are sent as webhooks.
    EndpointsRead,
    /// Add, change and remove endpoints of webhooks.
    EndpointsWrite,
    /// See which providers are connected.
    ConnectionsRead,
    /// Add, change and remove connections with providers.
    ConnectionsWrite,
    /// Follow deliveries as they arrive, refused ones included.
    DeliveriesRead,
    /// See privacy requests.
    PrivacyRead,
    /// Retry and cancel privacy requests, and hand out their exports.
    PrivacyWrite,
    /// Sign in to the console with this role.
    Console(Role),
}

/// What a person may do in the console. A role includes what a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Role {
    /// Sees orders, payments, deliveries, jobs and events, without personal data.
    Reader,
    /// An operator also mends: requeues jobs and discards them.
    Operator,
    /// This role also answers privacy requests.
    Privacy,
    /// May do everything.
    Owner,
}

impl Role {
    pub const ALL: [Role; 4] = *Role::VARIANTS.as_array().unwrap();
}

impl Scope {
    pub const ALL: [Scope; 15] = [
        Scope::OrdersRead,
        Scope::CheckoutWrite,
        Scope::QrWrite,
        Scope::EventsRead,
        Scope::EndpointsRead,
        Scope::EndpointsWrite,
        Scope::ConnectionsRead,
        Scope::ConnectionsWrite,
        Scope::DeliveriesRead,
        Scope::PrivacyRead,
        Scope::PrivacyWrite,
        Scope::Console(Role::Reader),
        Scope::Console(Role::Operator),
        Scope::Console(Role::Privacy),
        Scope::Console(Role::Owner),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::OrdersRead => "orders:read",
            Scope::CheckoutWrite => "checkout:write",
            Scope::QrWrite => "qr:write",
            Scope::EventsRead => "events:read",
            Scope::EndpointsRead => "endpoints:read",
            Scope::EndpointsWrite => "endpoints:write",
            Scope::ConnectionsRead => "connections:read",
            Scope::ConnectionsWrite => "connections:write",
            Scope::DeliveriesRead => "deliveries:read",
            Scope::PrivacyRead => "privacy:read",
            Scope::PrivacyWrite => "privacy:write",
            Scope::Console(Role::Reader) => "console:reader",
            Scope::Console(Role::Operator) => "console:operator",
            Scope::Console(Role::Privacy) => "console:privacy",
            Scope::Console(Role::Owner) => "console:owner",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it must be orders:read, checkout:write, qr:write, events:read, endpoints:read, endpoints:write, \
     connections:read, connections:write, deliveries:read, privacy:read, privacy:write, console:reader, console:operator, console:privacy or \
     console:owner"
)]
pub struct NotAScope;

impl FromStr for Scope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, NotAScope> {
        let mut all = Scope::ALL.into_iter();
        all.find(|scope| scope.as_str() == text).ok_or(NotAScope)
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The shops whose data a key may read, in lower case. None means all shops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Shops(pub Option<Vec<String>>);

impl Shops {
    pub fn have(&self, shop: &str) -> bool {
        let list = self.0.as_ref();
        list.is_none_or(|list| list.iter().any(|it| it == shop))
    }
}

/// What a key may do. The default is everything but to open the console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rights {
    /// None means all scopes but the console's.
    pub scopes: Option<Vec<Scope>>,
    pub shops: Shops,
}

impl Rights {
    pub fn include(&self, scope: Scope) -> bool {
        match &self.scopes {
            Some(list) => list.contains(&scope),
            None => !matches!(scope, Scope::Console(_)),
        }
    }

    /// The scopes and the shops in words.
    pub fn in_words(&self) -> [String; 2] {
        let scopes = self.scopes.as_ref().map(|list| {
            let names: Vec<&str> = list.iter().map(|scope| scope.as_str()).collect();
            names.join(", ")
        });
        let shops = self.shops.0.as_ref().map(|list| list.join(", "));
        [
            scopes.unwrap_or_else(|| "all of the API".to_owned()),
            shops.unwrap_or_else(|| "all".to_owned()),
        ]
    }

    /// The roles that the key gives in the console. A key of some shops gives none, because the console
    /// shows those of all.
    pub fn roles(&self) -> Vec<Role> {
        let mut roles = Role::ALL.to_vec();
        roles.retain(|role| self.shops.0.is_none() && self.include(Scope::Console(*role)));
        roles
    }
}

/// Whether a key can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum State {
    Active,
    Expired,
    Revoked,
}

impl State {
    pub const ALL: [State; 3] = [State::Active, State::Expired, State::Revoked];

    pub fn of(
        expires_at: Option<Timestamp>,
        revoked_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        if revoked_at.is_some() {
            State::Revoked
        } else if expires_at.is_some_and(|at| at <= now) {
            State::Expired
        } else {
            State::Active
        }
    }
}

/// Reads the domain of a shop to which a key is limited, and returns it in lower case.
pub fn shop(text: &str) -> Result<String, NotAShop> {
    let fits = (1..=255).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    if fits {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(NotAShop)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be a shop domain like shop.example, or checkout for the orders of checkouts")]
pub struct NotAShop;
