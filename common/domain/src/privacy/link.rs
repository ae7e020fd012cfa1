//! Links to exports. Anyone who has a link may fetch the document without an API key until the
//! link expires. The id and the expiry are signed with our key, and signatures are compared in
//! constant time.

use std::time::Duration;

use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::Keys;
use crate::time::Timestamp;

/// How long a link can be used.
pub const PERIOD: Duration = Duration::from_mins(5);

/// The path and query of a link that can be used until `expires`, in seconds since 1970.
pub fn path(keys: &Keys, id: Uuid, expires: i64) -> String {
    let signature = hex::encode(code(keys, id, expires));
    format!("/api/privacy/exports/{id}?expires={expires}&signature={signature}")
}

/// True for a link that was signed with our key, has not expired, and does not expire later than
/// [`PERIOD`] from now. The check takes the same time for a wrong link and for an expired one.
/// Whether a link was really given out is recorded in the table `export_links`.
pub fn is_good(keys: &Keys, id: Uuid, expires: i64, signature: &str, now: Timestamp) -> bool {
    let given = hex::decode(signature).unwrap_or_default();
    let is_ours = bool::from(code(keys, id, expires).as_slice().ct_eq(&given));
    let ends = Timestamp::from_unix_seconds(expires);
    let is_current = now < ends && ends <= now.plus(PERIOD);
    is_ours & is_current
}

fn code(keys: &Keys, id: Uuid, expires: i64) -> [u8; 32] {
    keys.code("link", &[id.as_bytes(), &expires.to_be_bytes()])
}
