//! Endpoints of the merchant's own systems, to which events are sent as webhooks: their secrets, the
//! signatures of Standard Webhooks, and the network addresses that an endpoint may have.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::names::{Unknown, unknown};
use crate::signature::sign_with_key;
use crate::time::Timestamp;

const PREFIX: &str = "whsec_";

/// How long the former secret still signs after a rotation, unless the operator says otherwise.
pub const ROTATION: Duration = Duration::from_hours(24);
/// The longest time for which an operator can let it sign.
pub const LONGEST_ROTATION: Duration = Duration::from_hours(30 * 24);

/// The key with which webhooks to an endpoint are signed, and with which it verifies them. `Debug`
/// does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be whsec_ and 24 to 64 bytes in base64")]
pub struct NotASecret;

impl Secret {
    pub fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes.to_vec())
    }

    /// The secret as the receiver's library takes it: `whsec_` and base64. It is shown once.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }
}

impl FromStr for Secret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        let bytes = text
            .strip_prefix(PREFIX)
            .and_then(|it| STANDARD.decode(it).ok());
        let bytes = bytes.filter(|bytes| (24..=64).contains(&bytes.len()));
        bytes.map(Secret).ok_or(NotASecret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The value of the header `webhook-signature`: one signature for each secret, with spaces between.
pub fn signatures(secrets: &[Secret], id: &str, at: Timestamp, body: &[u8]) -> String {
    let sign = |secret: &Secret| sign_with_key(&secret.0, id, at.unix_seconds(), body);
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

/// Whether events are sent to an endpoint, and if not, why.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unknown::<State>)]
pub enum State {
    Active,
    /// An operator has paused it.
    Paused,
    /// It accepted nothing for a day, and a webhook to it was given up.
    Failing,
    /// It answered 410, which means that it wants no more webhooks.
    Gone,
}

impl State {
    pub const ALL: [State; 4] = *State::VARIANTS.as_array().unwrap();
}

/// Whether an address belongs to the public internet, and not to this machine, to a private network,
/// to the metadata service of a cloud, or to another special use (RFC 6890).
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = a == 0
        || a == 10
        || a == 127
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && b == 168)
        || (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113);
    !is_special
}

/// Only global unicast addresses are public, without those that lead to IPv4 addresses (6to4,
/// Teredo) and those for examples.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_special = first == 0x2002
        || (first == 0x2001 && (second < 0x200 || second == 0xdb8))
        || (first == 0x3fff && second < 0x1000);
    first & 0xe000 == 0x2000 && !is_special
}
