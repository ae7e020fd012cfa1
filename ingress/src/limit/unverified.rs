//! Limits how much memory the bodies of one network may take that are not verified yet. So a
//! sender without a signature gets only a small part of the memory, however many connections it
//! opens. Nearly all bodies arrive together with their headers; these are verified at once and are
//! not counted here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::error::Error;
use platform::lock::lock;
use server::network;

/// The share of one network: an eighth of the memory for all bodies.
pub(super) const LEAST: usize = 8 * 1024 * 1024;

pub struct Unverified {
    /// The limit in bytes; at least two bodies of the largest allowed size.
    most: usize,
    networks: Mutex<HashMap<IpAddr, usize>>,
}

/// The part that one body takes. It is given back when the body is complete or refused.
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
}

impl Share<'_> {
    /// Makes the part large enough for `bytes`.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let mut networks = lock(&self.of.networks);
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
        let mut networks = lock(&self.of.networks);
        if let Some(held) = networks.get_mut(&self.network) {
            *held -= self.bytes;
            if *held == 0 {
                networks.remove(&self.network);
            }
        }
    }
}
