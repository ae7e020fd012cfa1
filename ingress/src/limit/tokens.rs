//! The budget of this process for questions to the identity provider about bad tokens. If Waybill
//! asks about too many bad tokens, the provider refuses all its questions for a while.
//!
//! Decisions:
//! 1. Only tokens that were not confirmed lately need a place in the budget. A token that the
//!    provider has confirmed within about the last day is always asked about, however many bad
//!    tokens others send.
//! 2. A token that turns out to be good gives its place back. So good tokens that come all at
//!    once, for example from a gateway after a restart, wait for one another ([`LONGEST_WAIT`]),
//!    and none is refused.
//! 3. There is one budget for all clients, because the provider has one limit for us, and all users
//!    may come from one address. But each bad token that a client has shown within the minute, or
//!    that may turn out to be bad, leaves one place more to the others. So one client gets half of
//!    the budget, twelve of them leave four places, and it takes as many clients as the budget has
//!    places to use all of it up.
//! 4. With our client secret the provider counts a question about a bad token like any other
//!    question of our application, which may ask 5000 an hour ([`ASKED_AS_APP`] a minute stay
//!    below this). Without the secret each bad token is a failed login ([`FAILED_LOGINS`]). GitHub
//!    does not document how many failed logins lock us out.
//! 5. When the budget is used up, a new token cannot be distinguished from a bad one without
//!    asking. So it is not refused, but the client is asked to come back: with 503, or with 429 if
//!    it has shown [`FEW`] bad tokens, and with the time until the budget has room. That is never
//!    longer than a minute.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use governor::clock::Clock as _;
use platform::lock::lock;
use tokio::sync::Notify;

use super::LimitClock;
use crate::error::Error;
use server::network;

/// How many bad tokens may be asked about within [`PERIOD`].
pub(super) const ASKED_AS_APP: usize = 60;
pub(super) const FAILED_LOGINS: usize = 20;
/// A client that has shown so many bad tokens is told that it is limited, and not that the provider is busy.
const FEW: usize = 5;
pub const PERIOD: Duration = Duration::from_mins(1);
/// How long a token waits for the answers about others.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// After this time some of the questions have been answered.
const SOON: Duration = Duration::from_secs(1);

pub struct Budget {
    clock: LimitClock,
    most: usize,
    spent: Mutex<Spent>,
    /// Notified when a place becomes free.
    freed: Notify,
}

#[derive(Default)]
struct Spent {
    /// The bad tokens within the period: when each was found, and which client showed it.
    found: VecDeque<(Duration, IpAddr)>,
    /// The clients with whose tokens the provider is being asked at this moment.
    asked: Vec<IpAddr>,
}

/// The place in the budget of a token of this client that is being asked about. Dropping it frees the place.
pub struct Place<'a>(&'a Budget, IpAddr);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut spent = lock(&self.0.spent);
        if let Some(place) = spent.asked.iter().position(|client| *client == self.1) {
            spent.asked.swap_remove(place);
        }
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

    /// Whether the budget may have room for a token of this client, now or soon.
    pub fn admit(&self, client: IpAddr) -> Result<(), Error> {
        self.limit(&mut lock(&self.spent), client).map(|_| ())
    }

    /// Waits until there is a place for a token of this client, and returns it.
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
        let mut spent = lock(&self.spent);
        let left = self.limit(&mut spent, client)?;
        let client = network(client);
        let own = spent.asked.iter().filter(|whose| **whose == client);
        if spent.asked.len() + own.count() >= left {
            return Ok(None);
        }
        spent.asked.push(client);
        Ok(Some(Place(self, client)))
    }

    /// How much the bad tokens of the last minute have left of the budget for a client. It is an error if
    /// that is nothing.
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
        let own = own.count();
        let mut used = spent.found.len() + own;
        if used < self.most {
            return Ok(self.most - used);
        }
        let mut room_at = now;
        for (at, whose) in &spent.found {
            if used < self.most {
                break;
            }
            used -= 1 + usize::from(*whose == client);
            room_at = *at + PERIOD;
        }
        let wait = room_at.saturating_sub(now);
        Err(if own >= FEW {
            Error::RateLimited(wait)
        } else {
            Error::ProviderUnavailable(wait)
        })
    }

    /// Counts a token of a client that turned out to be bad.
    pub fn worthless(&self, client: IpAddr) {
        let found = (self.clock.now(), network(client));
        let mut spent = lock(&self.spent);
        // Tokens that needed no place may turn out to be bad too, so there can be more than the
        // budget.
        if spent.found.len() >= 2 * self.most {
            spent.found.pop_front();
        }
        spent.found.push_back(found);
    }
}
