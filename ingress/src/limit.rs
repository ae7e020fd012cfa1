//! Rate limits, counted in this process alone: of verified deliveries, with a burst of one
//! second's rate, and of the public pages, by client, both GCRA; and of tokens that turned
//! out to be worth nothing, by client: a place is taken before the provider is asked about a
//! token, so that however many are sent at once no more than the limit are asked about.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::clock::Clock;
use common::config::Config;
use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio_util::sync::CancellationToken;

use crate::App;
use crate::client_address::network;
use crate::error::Error;

type Middleware = NoOpMiddleware<Duration>;
type Shops = DashMapStateStore<String>;
type PerShop = RateLimiter<String, Shops, LimitClock, Middleware>;
type PerClient = RateLimiter<IpAddr, DashMapStateStore<IpAddr>, LimitClock, Middleware>;
type Whole = RateLimiter<NotKeyed, InMemoryState, LimitClock, Middleware>;

/// Pages a minute and client, and how many of them may come at once. Enough for a family
/// that follows its parcels, and slow for who tries ids.
const PAGES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).unwrap();
const PAGES_AT_ONCE: NonZeroU32 = NonZeroU32::new(30).unwrap();

/// Worthless tokens a minute and client. The provider locks out who asks about too many.
const WORTHLESS_TOKENS: u32 = 20;
pub const WORTHLESS_PERIOD: Duration = Duration::from_mins(1);
/// By then the provider has mostly answered.
const ANSWERED: Duration = Duration::from_secs(1);

/// The limits that are on.
pub struct Limits {
    clock: LimitClock,
    storefront: Option<PerShop>,
    payment: Option<Whole>,
    pages: PerClient,
    worthless: Mutex<HashMap<IpAddr, Worthless>>,
}

/// A client's tokens.
struct Worthless {
    /// When the period began.
    begun: Duration,
    /// How many turned out to be worth nothing in it.
    found: u32,
    /// About how many the provider is asked just now.
    asked: u32,
}

/// A place among a client's tokens that may turn out to be worth nothing.
pub struct Place<'a> {
    limits: &'a Limits,
    client: IpAddr,
}

impl Place<'_> {
    /// The token is worth nothing.
    pub fn worthless(self) {
        let now = self.limits.clock.now();
        let mut clients = self.limits.worthless();
        if let Some(client) = clients.get_mut(&self.client) {
            client.renew(now);
            client.found += 1;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.limits.worthless().get_mut(&self.client) {
            client.asked = client.asked.saturating_sub(1);
        }
    }
}

impl Worthless {
    fn renew(&mut self, now: Duration) {
        if now >= self.begun + WORTHLESS_PERIOD {
            (self.begun, self.found) = (now, 0);
        }
    }

    /// Whether one more may be asked about.
    fn admits(&mut self, now: Duration) -> Result<(), Error> {
        self.renew(now);
        if self.found >= WORTHLESS_TOKENS {
            let wait = (self.begun + WORTHLESS_PERIOD).saturating_sub(now);
            return Err(Error::RateLimited(wait));
        }
        if self.found + self.asked >= WORTHLESS_TOKENS {
            return Err(Error::RateLimited(ANSWERED));
        }
        Ok(())
    }
}

impl Limits {
    pub fn new(config: &Config, clock: &Clock) -> Self {
        let clock = LimitClock(clock.clone());
        let pages = Quota::per_minute(PAGES_PER_MINUTE).allow_burst(PAGES_AT_ONCE);
        let quota = |rate| NonZeroU32::new(rate).map(Quota::per_second);
        Limits {
            storefront: quota(config.storefront_rate)
                .map(|quota| RateLimiter::new(quota, Shops::default(), clock.clone())),
            payment: quota(config.payment_rate)
                .map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            pages: RateLimiter::new(pages, DashMapStateStore::default(), clock.clone()),
            worthless: Mutex::default(),
            clock,
        }
    }

    /// Counts a delivery of a shop; without a shop header they count together.
    pub fn storefront(&self, shop: &str) -> Result<(), Error> {
        let Some(limiter) = &self.storefront else {
            return Ok(());
        };
        limiter
            .check_key(&shop.to_owned())
            .map_err(|until| Error::RateLimited(until.wait_time_from(self.clock.now())))
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

    /// Whether a client may have one more token asked about.
    pub fn unconfirmed_token(&self, client: IpAddr) -> Result<(), Error> {
        match self.worthless().get_mut(&network(client)) {
            Some(worthless) => worthless.admits(self.clock.now()),
            None => Ok(()),
        }
    }

    /// Takes a place for a token that the provider is to be asked about. It is free again when
    /// it is dropped.
    pub fn ask_about_token(&self, client: IpAddr) -> Result<Place<'_>, Error> {
        let (client, begun) = (network(client), self.clock.now());
        let mut clients = self.worthless();
        let worthless = clients.entry(client).or_insert(Worthless {
            begun,
            found: 0,
            asked: 0,
        });
        worthless.admits(begun)?;
        worthless.asked += 1;
        Ok(Place {
            limits: self,
            client,
        })
    }

    fn forget_worthless(&self) {
        let now = self.clock.now();
        self.worthless()
            .retain(|_, client| client.asked > 0 || now < client.begun + WORTHLESS_PERIOD);
    }

    fn worthless(&self) -> MutexGuard<'_, HashMap<IpAddr, Worthless>> {
        self.worthless
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Frees the state of shops, clients and tokens that have been quiet, once a minute.
pub fn forget_idle(app: &Arc<App>, shutdown: &CancellationToken) {
    let app = Arc::downgrade(app);
    let shutdown = shutdown.clone();
    common::task::spawn("idle limits", async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_mins(1)) => {}
                () = shutdown.cancelled() => return,
            }
            let Some(app) = app.upgrade() else { return };
            if let Some(limiter) = &app.limits.storefront {
                limiter.retain_recent();
            }
            app.limits.pages.retain_recent();
            app.limits.forget_worthless();
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
