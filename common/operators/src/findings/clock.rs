//! Compares another clock with ours. If clocks disagree, signatures are refused, leases end early,
//! and retries come late.

use std::time::Duration;

use domain::time::Timestamp;

use super::Finding;

/// A difference that is ignored: a `Date` header has only whole seconds, and an answer takes some
/// time.
const NOTED: Duration = Duration::from_secs(5);
const WRONG: Duration = Duration::from_mins(1);

const ADVICE: &str = "Run NTP here and there (`timedatectl` says); where two others agree with \
                      each other, this machine is the one that is wrong.";

/// Compares the time that another clock showed with our time at that moment.
pub fn compare(check: &'static str, whose: &str, theirs: Timestamp, ours: Timestamp) -> Finding {
    let (apart, ahead) = if theirs >= ours {
        (theirs.since(ours), "ahead of")
    } else {
        (ours.since(theirs), "behind")
    };
    if apart < NOTED {
        return Finding::ok(check, format!("{whose} clock agrees with ours"));
    }
    let found = format!("{whose} clock is {} seconds {ahead} ours", apart.as_secs());
    if apart < WRONG {
        return Finding::warning(check, found, ADVICE);
    }
    Finding::failed(check, found, ADVICE)
}
