//! Rate limits, all GCRA and counted in this process alone: of verified deliveries, with a
//! burst of one second's rate, and of the public pages, by client.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
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

/// The limits that are on.
pub struct Limits {
    clock: LimitClock,
    storefront: Option<PerShop>,
    payment: Option<Whole>,
    pages: PerClient,
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
}

/// What one client has: an IPv6 client chooses among the addresses of its /64 as it likes.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => {
            let host = u128::from(u64::MAX);
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
    }
}

/// Frees the state of shops and clients that have been quiet, once a minute.
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
