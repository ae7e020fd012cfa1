//! What an operator pauses for a while: a queue, the calls to a provider, a shop, or the notification of a condition.
//! Deliveries are accepted all the same. The jobs that a pause concerns wait until it ends.

use std::fmt;
use std::time::Duration;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::api_key;
use crate::attention::Condition;
use crate::connection::{self, NotAName};
use crate::job::{Job, Queue};
use crate::names::{Unknown, unknown};

/// The longest pause. Privacy requests must be done within 30 days, and what is forgotten goes on by itself.
pub const LONGEST: Duration = Duration::from_hours(7 * 24);

/// A provider that jobs call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Provider {
    Storefront,
    Payment,
    /// The mail server.
    Mail,
}

impl Provider {
    pub const ALL: [Provider; 3] = *Provider::VARIANTS.as_array().unwrap();
}

/// The sorts of what is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unknown::<Scope>)]
pub enum Scope {
    Queue,
    Provider,
    Shop,
    Connection,
    Condition,
}

impl Scope {
    pub const ALL: [Scope; 5] = *Scope::VARIANTS.as_array().unwrap();
}

/// What is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All jobs of the queue. Of the queue `endpoints` also the events that are sent for the first time.
    Queue(Queue),
    /// The jobs that call this provider.
    Provider(Provider),
    /// The jobs of this shop in the queues of orders and payments. Its privacy requests go on, because the
    /// law sets their deadline.
    Shop(String),
    /// The same of a connection: what came by it, and the calls to its provider. Its privacy requests go on.
    Connection(String),
    /// Nobody is notified that this condition begins or is over before the pause ends.
    Condition(Condition),
}

/// Why a name is not that of something that can be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATarget {
    #[error("there is no such queue; they are orders, payments, privacy and endpoints")]
    Queue,
    #[error("there is no such provider; they are storefront, payment and mail")]
    Provider,
    #[error("it is no shop domain such as shop.example")]
    Shop,
    #[error("it is no name of a connection; `waybill connections list` shows them")]
    Connection,
    #[error(
        "there is no such condition of which operators are notified; docs/observability.md lists them"
    )]
    Condition,
}

impl Target {
    pub fn new(scope: Scope, name: &str) -> Result<Self, NotATarget> {
        match scope {
            Scope::Queue => name
                .parse()
                .map(Target::Queue)
                .map_err(|_| NotATarget::Queue),
            Scope::Provider => {
                let mut all = Provider::ALL.into_iter();
                let found = all.find(|provider| provider.into_str() == name);
                found.map(Target::Provider).ok_or(NotATarget::Provider)
            }
            Scope::Shop => api_key::shop(name)
                .map(Target::Shop)
                .map_err(|_| NotATarget::Shop),
            Scope::Connection => match connection::check_name(name) {
                Ok(()) | Err(NotAName::Default) => Ok(Target::Connection(name.to_owned())),
                Err(NotAName::Form | NotAName::Other) => Err(NotATarget::Connection),
            },
            Scope::Condition => {
                let named = name.parse().ok();
                let looked_at = named.filter(|it: &Condition| it.row().is_looked_at);
                looked_at
                    .map(Target::Condition)
                    .ok_or(NotATarget::Condition)
            }
        }
    }

    pub fn scope(&self) -> Scope {
        match self {
            Target::Queue(_) => Scope::Queue,
            Target::Provider(_) => Scope::Provider,
            Target::Shop(_) => Scope::Shop,
            Target::Connection(_) => Scope::Connection,
            Target::Condition(_) => Scope::Condition,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Target::Queue(queue) => queue.into_str(),
            Target::Provider(provider) => provider.into_str(),
            Target::Shop(shop) => shop,
            Target::Connection(name) => name,
            Target::Condition(condition) => condition.into_str(),
        }
    }

    /// Whether a pause of this concerns a job.
    pub fn concerns(&self, job: &Job) -> bool {
        match self {
            Target::Queue(queue) => job.kind.queue() == *queue,
            Target::Provider(provider) => job.kind.provider() == Some(*provider),
            Target::Shop(shop) => {
                matches!(job.kind.queue(), Queue::Orders | Queue::Payments)
                    && job.shop.as_ref() == Some(shop)
            }
            Target::Connection(name) => {
                matches!(job.kind.queue(), Queue::Orders | Queue::Payments)
                    && job.connection.as_deref().unwrap_or(connection::DEFAULT) == name
            }
            Target::Condition(_) => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scope().into_str(), self.name())
    }
}
