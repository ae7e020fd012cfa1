//! Rate limits, counted in this process alone: of verified deliveries, of calls with an API key,
//! and of the public pages, by client, all GCRA; of API keys that turned out to be worth nothing,
//! by client; of tokens, of which the provider is asked ([`tokens`]). And what one network may have
//! of the memory of bodies that are not verified yet ([`unverified`]).
//!
//! A storefront's signature covers the body and nothing else: whoever has captured one signed body
//! can send it under any shop and any id. So deliveries have three limits: of their body, of their
//! shop, and, where any shop is taken, of all shops together, in this order: what one limit
//! refuses uses up nothing of the next.

pub mod tokens;
pub mod unverified;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::Config;
use domain::signature::Digest;
use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{NotUntil, Quota, RateLimiter};
use platform::clock::Clock;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::App;
use crate::client_address::network;
use crate::error::Error;
use crate::limit::unverified::Unverified;

type Middleware = NoOpMiddleware<Duration>;
type Shops = DashMapStateStore<String>;
type PerShop = RateLimiter<String, Shops, LimitClock, Middleware>;
type PerBody = RateLimiter<Digest, DashMapStateStore<Digest>, LimitClock, Middleware>;
type PerClient = RateLimiter<IpAddr, DashMapStateStore<IpAddr>, LimitClock, Middleware>;
type PerKey = RateLimiter<Uuid, DashMapStateStore<Uuid>, LimitClock, Middleware>;
type Whole = RateLimiter<NotKeyed, InMemoryState, LimitClock, Middleware>;

/// Deliveries of a shop that may come at once: what one order's topics need, and several orders.
const SHOP_AT_ONCE: NonZeroU32 = NonZeroU32::new(40).unwrap();

/// Of one body, how many may come at once, and a minute. Topics of an order may share a body, and
/// providers send again what was not answered; more than that is somebody else's doing.
const BODY_AT_ONCE: NonZeroU32 = NonZeroU32::new(20).unwrap();
const BODY_PER_MINUTE: NonZeroU32 = NonZeroU32::new(1).unwrap();

/// Pages a minute and client, and how many of them may come at once. Enough for a family
/// that follows its parcels, and slow for who tries ids.
const PAGES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).unwrap();
const PAGES_AT_ONCE: NonZeroU32 = NonZeroU32::new(30).unwrap();

/// Worthless API keys a minute and client.
const WORTHLESS: u32 = 20;
const WORTHLESS_PERIOD: Duration = Duration::from_mins(1);

/// The limits that are on.
pub struct Limits {
    clock: LimitClock,
    /// Replicas share no budget: the two deliveries a second that a shop has are too few to be
    /// handed out in shares, and a delivery asks nobody but its own process.
    storefront: Option<PerShop>,
    /// Of one signed body, whatever shop and id it came under.
    bodies: Option<PerBody>,
    all_shops: Option<Whole>,
    payment: Option<Whole>,
    api_keys: Option<PerKey>,
    pages: PerClient,
    /// Of the identity provider.
    pub tokens: tokens::Budget,
    /// API keys.
    pub keys: Guesses,
    pub unverified: Unverified,
}

/// What clients showed that turned out to be worth nothing.
pub struct Guesses {
    clock: LimitClock,
    clients: Mutex<HashMap<IpAddr, Client>>,
}

/// A client's guesses.
struct Client {
    /// When the period began.
    begun: Duration,
    /// How many turned out to be worth nothing in it.
    found: u32,
}

impl Client {
    fn renew(&mut self, now: Duration) {
        if now >= self.begun + WORTHLESS_PERIOD {
            (self.begun, self.found) = (now, 0);
        }
    }

    /// Whether one more may be asked about.
    fn admits(&mut self, now: Duration) -> Result<(), Error> {
        self.renew(now);
        if self.found >= WORTHLESS {
            let wait = (self.begun + WORTHLESS_PERIOD).saturating_sub(now);
            return Err(Error::RateLimited(wait));
        }
        Ok(())
    }
}

impl Guesses {
    fn new(clock: LimitClock) -> Self {
        Guesses {
            clock,
            clients: Mutex::default(),
        }
    }

    /// Whether a client may guess once more.
    pub fn admit(&self, client: IpAddr) -> Result<(), Error> {
        match self.clients().get_mut(&network(client)) {
            Some(client) => client.admits(self.clock.now()),
            None => Ok(()),
        }
    }

    /// A guess was worth nothing.
    pub fn worthless(&self, client: IpAddr) {
        let mut clients = self.clients();
        let of_client = self.of(&mut clients, network(client));
        of_client.renew(self.clock.now());
        of_client.found += 1;
    }

    fn of<'a>(&self, clients: &'a mut HashMap<IpAddr, Client>, client: IpAddr) -> &'a mut Client {
        clients.entry(client).or_insert_with(|| Client {
            begun: self.clock.now(),
            found: 0,
        })
    }

    fn forget_idle(&self) {
        let now = self.clock.now();
        self.clients()
            .retain(|_, client| now < client.begun + WORTHLESS_PERIOD);
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits {
    pub fn new(config: &Config, clock: &Clock) -> Self {
        let clock = LimitClock(clock.clone());
        let identity = config.identity.as_ref();
        let is_app = identity.is_some_and(|identity| identity.client_secret.is_some());
        let pages = Quota::per_minute(PAGES_PER_MINUTE).allow_burst(PAGES_AT_ONCE);
        let quota = |rate| NonZeroU32::new(rate).map(Quota::per_second);
        let of_shop = NonZeroU32::new(config.storefront_rate)
            .map(|rate| Quota::per_second(rate).allow_burst(rate.max(SHOP_AT_ONCE)));
        let of_body = Quota::per_minute(BODY_PER_MINUTE).allow_burst(BODY_AT_ONCE);
        let two_seconds = |rate| {
            let rate = NonZeroU32::new(rate)?;
            let both = rate.saturating_add(rate.get());
            Some(Quota::per_second(rate).allow_burst(both))
        };
        Limits {
            storefront: of_shop
                .map(|quota| RateLimiter::new(quota, Shops::default(), clock.clone())),
            bodies: of_shop
                .map(|_| RateLimiter::new(of_body, DashMapStateStore::default(), clock.clone())),
            all_shops: two_seconds(config.storefront_total_rate)
                .map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            payment: two_seconds(config.payment_rate)
                .map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            api_keys: quota(config.commerce_rate)
                .map(|quota| RateLimiter::new(quota, DashMapStateStore::default(), clock.clone())),
            pages: RateLimiter::new(pages, DashMapStateStore::default(), clock.clone()),
            tokens: tokens::Budget::new(clock.clone(), is_app),
            keys: Guesses::new(clock.clone()),
            unverified: Unverified::new(config.max_body_bytes),
            clock,
        }
    }

    /// Counts a delivery of a shop, known by the digest of its body; without a shop header they
    /// count together.
    pub fn storefront(&self, shop: &str, body: Digest) -> Result<(), Error> {
        let late =
            |until: NotUntil<Duration>| Error::RateLimited(until.wait_time_from(self.clock.now()));
        if let Some(limiter) = &self.bodies {
            limiter.check_key(&body).map_err(late)?;
        }
        if let Some(limiter) = &self.storefront {
            limiter.check_key(&shop.to_owned()).map_err(late)?;
        }
        if let Some(limiter) = &self.all_shops {
            limiter.check().map_err(late)?;
        }
        Ok(())
    }

    /// Counts a payment event.
    pub fn payment(&self) -> Result<(), Error> {
        let Some(limiter) = &self.payment else {
            return Ok(());
        };
        limiter
            .check()
            .map_err(|until| Error::RateLimited(until.wait_time_from(self.clock.now())))
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

/// Frees the state of shops, keys, clients and tokens that have been quiet, once a minute.
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
            if let Some(limiter) = &app.limits.bodies {
                limiter.retain_recent();
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
