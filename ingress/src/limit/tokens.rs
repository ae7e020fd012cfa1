//! What the provider puts up with: a budget, of this process alone, for questions about tokens
//! that turn out to be worth nothing. Who asks about too many is locked out there, with every
//! token, for a while.
//!
//! Decisions:
//! 1. Only tokens that we know nothing good of need a place in it. One that the provider has
//!    confirmed within the last hour or so is always asked about, whoever else sends bad ones.
//! 2. A token that turns out good gives its place back. So good ones that come all at once, as
//!    from a gateway after a restart, wait for one another ([`LONGEST_WAIT`]), and none is refused.
//! 3. The budget is one, for the provider's limit is, and no client has a limit of its own:
//!    behind one address may be everyone. But a client that has shown [`FEW`] bad ones within the
//!    minute leaves the last quarter to those that have not.
//! 4. With our client secret a bad token is no failed login, but a question like others, of
//!    which our application has 5000 an hour ([`ASKED_AS_APP`] a minute stay below). Without it
//!    each is a failed login ([`FAILED_LOGINS`]); how many lock us out is not documented.
//! 5. Once the budget is spent, a token that nobody knows cannot be distinguished from a bad one without
//!    asking, so a new good one is not refused but deferred: 503, or 429 for a client of the third
//!    decision, with the time until there is room. That is never longer than a minute.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::Clock as _;
use tokio::sync::Notify;

use super::LimitClock;
use crate::client_address::network;
use crate::error::Error;

/// Bad tokens within [`PERIOD`].
const ASKED_AS_APP: usize = 60;
const FAILED_LOGINS: usize = 20;
/// What a client may show of them without being distinguished from others.
const FEW: usize = 5;
pub const PERIOD: Duration = Duration::from_mins(1);
/// How long a token waits for others that are asked about.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// By then some of them have been answered.
const SOON: Duration = Duration::from_secs(1);

pub struct Budget {
    clock: LimitClock,
    most: usize,
    spent: Mutex<Spent>,
    /// A place is free again.
    freed: Notify,
}

#[derive(Default)]
struct Spent {
    /// When a token turned out to be worth nothing, and whose it was, within the period.
    found: VecDeque<(Duration, IpAddr)>,
    /// About how many the provider is asked just now.
    asked: usize,
}

/// A place of a token that is asked about. It is free again when it is dropped.
pub struct Place<'a>(&'a Budget);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut spent = self.0.spent();
        spent.asked = spent.asked.saturating_sub(1);
        drop(spent);
        self.0.freed.notify_waiters();
    }
}

impl Budget {
    /// `is_app`: our application asks about tokens with its client secret.
    pub fn new(clock: LimitClock, is_app: bool) -> Self {
        Budget {
            clock,
            most: if is_app { ASKED_AS_APP } else { FAILED_LOGINS },
            spent: Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// Whether there may be room for a token of a client, now or soon.
    pub fn admit(&self, client: IpAddr) -> Result<(), Error> {
        self.limit(&mut self.spent(), client).map(|_| ())
    }

    /// A place for a token of a client, as soon as there is one.
    pub async fn place(&self, client: IpAddr) -> Result<Place<'_>, Error> {
        let waited = tokio::time::timeout(LONGEST_WAIT, async {
            loop {
                let freed = self.freed.notified();
                if let Some(place) = self.take(client)? {
                    return Ok(place);
                }
                freed.await;
            }
        });
        waited
            .await
            .unwrap_or(Err(Error::ProviderUnavailable(SOON)))
    }

    fn take(&self, client: IpAddr) -> Result<Option<Place<'_>>, Error> {
        let mut spent = self.spent();
        let limit = self.limit(&mut spent, client)?;
        if spent.found.len() + spent.asked >= limit {
            return Ok(None);
        }
        spent.asked += 1;
        Ok(Some(Place(self)))
    }

    /// How much of the budget a client may use; an error when that is spent.
    fn limit(&self, spent: &mut Spent, client: IpAddr) -> Result<usize, Error> {
        let now = self.clock.now();
        while spent
            .found
            .front()
            .is_some_and(|(at, _)| now >= *at + PERIOD)
        {
            spent.found.pop_front();
        }
        let client = network(client);
        let own = spent.found.iter().filter(|(_, whose)| *whose == client);
        let is_known = own.count() >= FEW;
        let limit = self.most - if is_known { self.most / 4 } else { 0 };
        let Some(over) = spent.found.len().checked_sub(limit) else {
            return Ok(limit);
        };
        let room_at = spent.found.get(over).map_or(now, |(at, _)| *at + PERIOD);
        let wait = room_at.saturating_sub(now);
        Err(if is_known {
            Error::RateLimited(wait)
        } else {
            Error::ProviderUnavailable(wait)
        })
    }

    /// A token of a client turned out to be worth nothing.
    pub fn worthless(&self, client: IpAddr) {
        let found = (self.clock.now(), network(client));
        let mut spent = self.spent();
        // Those that needed no place may be more than the budget.
        if spent.found.len() >= 2 * self.most {
            spent.found.pop_front();
        }
        spent.found.push_back(found);
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
