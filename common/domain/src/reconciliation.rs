//! Reconciliation: what changed at a provider is compared with what came from it, because no provider promises that a
//! webhook arrives. What never came is taken as if it had come, and its likely cause is noted.

use std::time::Duration;

use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::names::{Unknown, unlisted};
use crate::time::Timestamp;

/// What changed within so much time may still be on its way, so it is not missed yet.
pub const ON_ITS_WAY: Duration = Duration::from_mins(2);

/// How far a run goes back before the time until which everything was compared: an API may show a change later than it
/// dates it, and its clock may differ from ours.
pub const OVERLAP: Duration = Duration::from_mins(5);

/// Why a delivery probably never came.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    Serialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<Cause>)]
pub enum Cause {
    /// Deliveries of this sender were refused since it changed.
    Refused,
    /// Deliveries could not be stored since it changed, or nothing of Waybill ran.
    Outage,
    /// Nothing is known here that would have kept it away.
    NotSent,
    /// It changed before its sender was compared for the first time, so nobody expected it.
    NotConnected,
}

impl Cause {
    /// What an operator reads.
    pub const fn in_words(self) -> &'static str {
        match self {
            Cause::Refused => "it was refused here",
            Cause::Outage => "nothing could be accepted here",
            Cause::NotSent => "the provider did not send it, or sends it late",
            Cause::NotConnected => "it is older than the connection",
        }
    }

    /// Whether it should have come by itself.
    pub fn is_missed(self) -> bool {
        self != Cause::NotConnected
    }
}

/// For how long something was missing, as a metric counts it.
pub fn age(changed_at: Timestamp, found_at: Timestamp) -> &'static str {
    const HOUR: Duration = Duration::from_hours(1);
    const DAY: Duration = Duration::from_hours(24);
    match found_at.since(changed_at) {
        late if late <= HOUR => "hour",
        late if late <= DAY => "day",
        _ => "older",
    }
}
