//! What one network may have of the memory of bodies that are not verified yet: whoever signs
//! nothing has a small part of it, however many connections it opens. Bodies that come whole with
//! their headers, as nearly all do, are verified at once and never counted here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::client_address::network;
use crate::error::Error;

/// An eighth of all that bodies may take.
const LEAST: usize = 8 * 1024 * 1024;

pub struct Unverified {
    /// Bytes; no less than two of the largest bodies.
    most: usize,
    networks: Mutex<HashMap<IpAddr, usize>>,
}

/// What one body has of it, given back when the body is whole or refused.
pub struct Share<'a> {
    of: &'a Unverified,
    network: IpAddr,
    bytes: usize,
}

impl Unverified {
    pub fn new(max_body_bytes: usize) -> Self {
        Unverified {
            most: LEAST.max(2 * max_body_bytes),
            networks: Mutex::default(),
        }
    }

    pub fn begin(&self, client: IpAddr) -> Share<'_> {
        Share {
            of: self,
            network: network(client),
            bytes: 0,
        }
    }

    fn networks(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.networks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share<'_> {
    /// Makes it large enough for `bytes`.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let mut networks = self.of.networks();
        let held = networks.entry(self.network).or_default();
        let grown = *held + bytes.saturating_sub(self.bytes);
        if grown > self.of.most {
            return Err(Error::NotAccepted);
        }
        *held = grown;
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut networks = self.of.networks();
        if let Some(held) = networks.get_mut(&self.network) {
            *held -= self.bytes;
            if *held == 0 {
                networks.remove(&self.network);
            }
        }
    }
}
