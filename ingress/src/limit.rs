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

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use config::Config;
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
                "STOREFRONT_SHOPS to your shops, or STOREFRONT_TOTAL_RATE_PER_SECOND to more"
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

/// The limits that are on.
pub struct Limits {
    clock: LimitClock,
    /// The limit for each shop. Each replica counts for itself, because the two deliveries a
    /// second of a shop are too few to be divided among replicas, and because counting must not
    /// wait for another process.
    storefront: Option<PerShop>,
    /// The limit for each signed body, under whatever shop and id it comes.
    bodies: Option<PerBody>,
    all_shops: Option<Whole>,
    /// The limit for each body of the payment provider.
    events: Option<PerBody>,
    payment: Option<Whole>,
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
        let bursting = |rate: Rate, at_least: NonZeroU32| {
            let per_second = NonZeroU32::new(rate.per_second)?;
            let burst = NonZeroU32::new(rate.per_second.saturating_mul(rate.burst_seconds))?;
            Some(Quota::per_second(per_second).allow_burst(burst.max(at_least)))
        };
        let of_shop = bursting(config.storefront_rate, SHOP_AT_ONCE);
        let of_body = Quota::per_minute(BODY_PER_MINUTE).allow_burst(BODY_AT_ONCE);
        let of_all_shops = Rate {
            per_second: config.storefront_total_rate,
            burst_seconds: 2,
        };
        let bodies = || RateLimiter::new(of_body, DashMapStateStore::default(), clock.clone());
        Limits {
            storefront: of_shop
                .map(|quota| RateLimiter::new(quota, Shops::default(), clock.clone())),
            bodies: of_shop.map(|_| bodies()),
            events: quota(config.payment_rate.per_second).map(|_| bodies()),
            all_shops: bursting(of_all_shops, NonZeroU32::MIN)
                .map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            payment: bursting(config.payment_rate, NonZeroU32::MIN)
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
    pub fn storefront(&self, shop: &str, body: Digest) -> Result<(), Limited> {
        if let Some(limiter) = &self.bodies {
            let admitted = limiter.check_key(&body);
            admitted.map_err(|until| self.limited(Limit::Body, &until))?;
        }
        if let Some(limiter) = &self.storefront {
            let admitted = limiter.check_key(&shop.to_owned());
            admitted.map_err(|until| self.limited(Limit::Shop, &until))?;
        }
        if let Some(limiter) = &self.all_shops {
            let admitted = limiter.check();
            admitted.map_err(|until| self.limited(Limit::AllShops, &until))?;
        }
        Ok(())
    }

    fn limited(&self, limit: Limit, until: &NotUntil<Duration>) -> Limited {
        Limited {
            limit,
            wait: until.wait_time_from(self.clock.now()),
        }
    }

    /// Counts a payment event. Its body is known by its hash.
    pub fn payment(&self, body: Digest) -> Result<(), Limited> {
        if let Some(limiter) = &self.events {
            let admitted = limiter.check_key(&body);
            admitted.map_err(|until| self.limited(Limit::Event, &until))?;
        }
        let Some(limiter) = &self.payment else {
            return Ok(());
        };
        let admitted = limiter.check();
        admitted.map_err(|until| self.limited(Limit::Payment, &until))
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
            if let Some(limiter) = &app.limits.storefront {
                limiter.retain_recent();
            }
            for limiter in [&app.limits.bodies, &app.limits.events] {
                limiter.iter().for_each(RateLimiter::retain_recent);
            }
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
