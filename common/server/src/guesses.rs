//! Wrong API keys of each client network. Who sends many of them has to wait; a client whose keys are
//! right is not counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use platform::clock::Clock;
use platform::lock::lock;

use crate::network;

/// How many wrong API keys a client may send in a minute.
pub const WORTHLESS: u32 = 20;
const WORTHLESS_PERIOD: Duration = Duration::from_mins(1);

/// The wrong keys of each client in the current period.
pub struct Guesses {
    clock: Clock,
    clients: Mutex<HashMap<IpAddr, Client>>,
}

/// A client's guesses.
struct Client {
    /// When the current period began.
    begun: Duration,
    /// How many wrong keys the client has sent in it.
    found: u32,
}

impl Client {
    fn renew(&mut self, now: Duration) {
        if now >= self.begun + WORTHLESS_PERIOD {
            (self.begun, self.found) = (now, 0);
        }
    }

    /// Whether the client may send one more.
    fn admits(&mut self, now: Duration) -> Result<(), Duration> {
        self.renew(now);
        if self.found >= WORTHLESS {
            return Err((self.begun + WORTHLESS_PERIOD).saturating_sub(now));
        }
        Ok(())
    }
}

impl Guesses {
    pub fn new(clock: &Clock) -> Self {
        Guesses {
            clock: clock.clone(),
            clients: Mutex::default(),
        }
    }

    /// Whether a client may send one more unknown key. The error says how long it has to wait.
    pub fn admit(&self, client: IpAddr) -> Result<(), Duration> {
        match lock(&self.clients).get_mut(&network(client)) {
            Some(client) => client.admits(self.clock.elapsed()),
            None => Ok(()),
        }
    }

    /// Counts a wrong key of a client.
    pub fn worthless(&self, client: IpAddr) {
        let mut clients = lock(&self.clients);
        let of_client = self.of(&mut clients, network(client));
        of_client.renew(self.clock.elapsed());
        of_client.found += 1;
    }

    fn of<'a>(&self, clients: &'a mut HashMap<IpAddr, Client>, client: IpAddr) -> &'a mut Client {
        clients.entry(client).or_insert_with(|| Client {
            begun: self.clock.elapsed(),
            found: 0,
        })
    }

    /// Forgets the clients whose period is over.
    pub fn forget_idle(&self) {
        let now = self.clock.elapsed();
        lock(&self.clients).retain(|_, client| now < client.begun + WORTHLESS_PERIOD);
    }
}
