//! The limits that this process counts by itself. Verified deliveries, calls with an API key, and
//! public pages (for each client) have rate limits by GCRA. Wrong API keys are counted for each
//! client. Questions to the identity provider about tokens have a budget ([`tokens`]). One network
//! may use only a part of the memory for bodies that are not verified yet ([`unverified`]).
//!
//! The storefront's signature covers only the body, so somebody who has captured a signed body can
//! send it under any shop and any id. So deliveries have three limits: for their body, for their
//! shop, and, if `STOREFRONT_SHOPS` is not set, for all shops together. A payment event can be sent again for as long
//! as its time allows, so it has a limit for its body before that of all events. Limits are checked in this
//! order, and a delivery that one limit refuses uses up nothing of the next. A body is known by its own hash:
//! whoever sends it again can add invented signatures to the list in its header.

pub mod allowances;
pub mod tokens;
pub mod unverified;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use config::Config;
use config::connection::{PaymentConnection, StorefrontConnection};
use domain::profile::Rate;
use domain::signature::Digest;
use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{NotUntil, Quota, RateLimiter};
use platform::clock::Clock;
use server::guesses::Guesses;
use server::network;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::App;
use crate::error::Error;
use crate::limit::unverified::Unverified;

type Middleware = NoOpMiddleware<Duration>;
type Shops = DashMapStateStore<String>;
type PerShop = RateLimiter<String, Shops, LimitClock, Middleware>;
type PerBody = RateLimiter<Digest, DashMapStateStore<Digest>, LimitClock, Middleware>;
type PerClient = RateLimiter<IpAddr, DashMapStateStore<IpAddr>, LimitClock, Middleware>;
type PerKey = RateLimiter<Uuid, DashMapStateStore<Uuid>, LimitClock, Middleware>;
type Whole = RateLimiter<NotKeyed, InMemoryState, LimitClock, Middleware>;

/// How many deliveries of a shop may come at once: enough for all topics of several orders.
const SHOP_AT_ONCE: NonZeroU32 = NonZeroU32::new(40).unwrap();

/// How many times the limit of one shop all shops may send together, while any shop is accepted.
pub const OF_ALL_SHOPS: u32 = 50;

/// How often one body may come at once, and in a minute. Several topics of an order may have the
/// same body, and providers repeat deliveries that were not answered. If a body comes more often,
/// somebody else sends it.
const BODY_AT_ONCE: NonZeroU32 = NonZeroU32::new(20).unwrap();
const BODY_PER_MINUTE: NonZeroU32 = NonZeroU32::new(1).unwrap();

/// How many pages a client may load in a minute, and how many at once. This is enough for a family
/// that follows its parcels, and slows down somebody who tries ids.
const PAGES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).unwrap();
const PAGES_AT_ONCE: NonZeroU32 = NonZeroU32::new(30).unwrap();

/// A limit of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// For each signed body.
    Body,
    /// For each shop.
    Shop,
    AllShops,
    /// For each body of the payment provider.
    Event,
    Payment,
}

impl Limit {
    /// The setting by which an operator allows more.
    pub fn advice(self) -> &'static str {
        match self {
            Limit::Body => {
                "STOREFRONT_RATE_PER_SECOND=0 if it is a test of yours that repeats one body; \
                 otherwise somebody sends again what they have captured"
            }
            Limit::Shop => "STOREFRONT_RATE_PER_SECOND to more than this shop sends",
            Limit::AllShops => {
                "STOREFRONT_SHOPS to your shops, or STOREFRONT_RATE_PER_SECOND to more"
            }
            Limit::Event => {
                "PAYMENT_RATE_PER_SECOND=0 if it is a test of yours that repeats one event; otherwise \
                 somebody sends again what they have captured"
            }
            Limit::Payment => "PAYMENT_RATE_PER_SECOND to more",
        }
    }
}

/// Too many deliveries came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    pub limit: Limit,
    /// When there is room for one more.
    pub wait: Duration,
}

/// The limits of each connection, made when its first delivery comes, and made anew when its rate has changed.
type Connections<T> = RwLock<HashMap<String, Arc<OfConnection<T>>>>;

/// The limits of a connection. Each replica counts for itself, because the two deliveries a second of a shop are
/// too few to be divided among replicas, and because counting must not wait for another process.
struct OfConnection<T> {
    rate: Rate,
    /// The limit for each signed body, under whatever shop and id it comes.
    bodies: PerBody,
    /// The limit for each shop, or for all events.
    senders: T,
}

/// The limits of a connection, if its rate is one.
fn of_connection<T>(
    known: &Connections<T>,
    (name, rate): (&str, Rate),
    new: impl FnOnce(Quota) -> OfConnection<T>,
    at_least: NonZeroU32,
) -> Option<Arc<OfConnection<T>>> {
    let quota = bursting(rate, at_least)?;
    let read = known.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = read.get(name).filter(|it| it.rate == rate) {
        return Some(found.clone());
    }
    drop(read);
    let mut write = known.write().unwrap_or_else(PoisonError::into_inner);
    let made = Arc::new(new(quota));
    write.insert(name.to_owned(), made.clone());
    Some(made)
}

fn bursting(rate: Rate, at_least: NonZeroU32) -> Option<Quota> {
    let per_second = NonZeroU32::new(rate.per_second)?;
    let burst = NonZeroU32::new(rate.per_second.saturating_mul(rate.burst_seconds))?;
    Some(Quota::per_second(per_second).allow_burst(burst.max(at_least)))
}

/// The limits that are on.
pub struct Limits {
    clock: LimitClock,
    storefronts: Connections<PerShop>,
    payments: Connections<Whole>,
    /// The limit of all shops of the default storefront together.
    all_shops: Option<Whole>,
    api_keys: Option<PerKey>,
    pages: PerClient,
    /// The budget for questions to the identity provider.
    pub tokens: tokens::Budget,
    /// Wrong API keys of each client.
    pub keys: Guesses,
    pub unverified: Unverified,
}

impl Limits {
    pub fn new(config: &Config, clock: &Clock) -> Self {
        let clock = LimitClock(clock.clone());
        let identity = config.identity.as_ref();
        let is_app = identity.is_some_and(|identity| identity.client_secret.is_some());
        let pages = Quota::per_minute(PAGES_PER_MINUTE).allow_burst(PAGES_AT_ONCE);
        let quota = |rate| NonZeroU32::new(rate).map(Quota::per_second);
        // Whoever has captured a signed body can send it under as many invented shops as they like, where any shop is
        // accepted. If shops are listed, their number limits the sum of their rates.
        let takes_any_shop = config.storefront.shops.is_empty();
        let of_all_shops = Rate {
            per_second: if takes_any_shop {
                config
                    .storefront
                    .rate
                    .per_second
                    .saturating_mul(OF_ALL_SHOPS)
            } else {
                0
            },
            burst_seconds: 2,
        };
        Limits {
            storefronts: Connections::default(),
            payments: Connections::default(),
            all_shops: bursting(of_all_shops, NonZeroU32::MIN)
                .map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            api_keys: quota(config.commerce_rate)
                .map(|quota| RateLimiter::new(quota, DashMapStateStore::default(), clock.clone())),
            pages: RateLimiter::new(pages, DashMapStateStore::default(), clock.clone()),
            tokens: tokens::Budget::new(clock.clone(), is_app),
            keys: Guesses::new(&clock.0),
            unverified: Unverified::new(config.max_body_bytes),
            clock,
        }
    }

    /// Counts a delivery of a shop. Its body is known by its hash. All deliveries without the
    /// shop's header count as one shop.
    pub fn storefront(
        &self,
        connection: &StorefrontConnection,
        shop: &str,
        body: Digest,
    ) -> Result<(), Limited> {
        let rate = (connection.name.as_str(), connection.rate);
        let new = |quota| OfConnection {
            rate: connection.rate,
            bodies: self.bodies(),
            senders: RateLimiter::new(quota, Shops::default(), self.clock.clone()),
        };
        if let Some(limits) = of_connection(&self.storefronts, rate, new, SHOP_AT_ONCE) {
            let admitted = limits.bodies.check_key(&body);
            admitted.map_err(|until| self.limited(Limit::Body, &until))?;
            let admitted = limits.senders.check_key(&shop.to_owned());
            admitted.map_err(|until| self.limited(Limit::Shop, &until))?;
        }
        if connection.is_default()
            && let Some(limiter) = &self.all_shops
        {
            let admitted = limiter.check();
            admitted.map_err(|until| self.limited(Limit::AllShops, &until))?;
        }
        Ok(())
    }

    fn bodies(&self) -> PerBody {
        let of_body = Quota::per_minute(BODY_PER_MINUTE).allow_burst(BODY_AT_ONCE);
        RateLimiter::new(of_body, DashMapStateStore::default(), self.clock.clone())
    }

    fn limited(&self, limit: Limit, until: &NotUntil<Duration>) -> Limited {
        Limited {
            limit,
            wait: until.wait_time_from(self.clock.now()),
        }
    }

    /// Counts a payment event. Its body is known by its hash.
    pub fn payment(&self, connection: &PaymentConnection, body: Digest) -> Result<(), Limited> {
        let rate = (connection.name.as_str(), connection.rate);
        let new = |quota| OfConnection {
            rate: connection.rate,
            bodies: self.bodies(),
            senders: RateLimiter::direct_with_clock(quota, self.clock.clone()),
        };
        let Some(limits) = of_connection(&self.payments, rate, new, NonZeroU32::MIN) else {
            return Ok(());
        };
        let admitted = limits.bodies.check_key(&body);
        admitted.map_err(|until| self.limited(Limit::Event, &until))?;
        let admitted = limits.senders.check();
        admitted.map_err(|until| self.limited(Limit::Payment, &until))
    }

    fn forget_idle(&self) {
        let storefronts = self
            .storefronts
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for limits in storefronts.values() {
            limits.bodies.retain_recent();
            limits.senders.retain_recent();
        }
        let payments = self.payments.read().unwrap_or_else(PoisonError::into_inner);
        payments
            .values()
            .for_each(|limits| limits.bodies.retain_recent());
    }

    /// Counts a public page.
    pub fn page(&self, client: IpAddr) -> Result<(), Error> {
        self.pages
            .check_key(&network(client))
            .map_err(|until| Error::RateLimited(until.wait_time_from(self.clock.now())))
    }

    /// Counts a call with an API key.
    pub fn api_key(&self, id: Uuid) -> Result<(), Error> {
        let Some(limiter) = &self.api_keys else {
            return Ok(());
        };
        limiter
            .check_key(&id)
            .map_err(|until| Error::RateLimited(until.wait_time_from(self.clock.now())))
    }
}

/// Removes once a minute the state of shops, keys, clients and tokens that were not used lately.
pub fn forget_idle(app: &Arc<App>, shutdown: &CancellationToken) {
    let app = Arc::downgrade(app);
    let shutdown = shutdown.clone();
    platform::task::spawn("idle limits", async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_mins(1)) => {}
                () = shutdown.cancelled() => return,
            }
            let Some(app) = app.upgrade() else { return };
            app.limits.forget_idle();
            if let Some(limiter) = &app.limits.api_keys {
                limiter.retain_recent();
            }
            app.limits.pages.retain_recent();
            app.limits.keys.forget_idle();
            app.validations.forget_idle(&app);
        }
    });
}

#[derive(Clone)]
pub struct LimitClock(Clock);

impl governor::clock::Clock for LimitClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
#[path = "../tests/unit/limit.rs"]
mod tests;
