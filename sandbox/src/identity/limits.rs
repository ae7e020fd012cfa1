//! The limits of the API. The calls of each user in an hour are counted. A limit can also be
//! imposed by a test, and bad tokens can lock everyone out. These are pure functions.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use domain::time::Timestamp;

use super::LoginRules;

const HOUR: Duration = Duration::from_hours(1);
/// The limit of calls within an hour without a good token. They are counted, but not refused.
const ANONYMOUS: u32 = 60;

/// Why every call is refused for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The calls of the hour are used up; `x-ratelimit-reset` says when it ends.
    Primary { status: u16 },
    /// There were too many calls at once.
    Secondary {
        status: u16,
        /// The value of `Retry-After`. The real provider does not always send this header.
        retry_after: Option<Duration>,
    },
}

#[derive(Default)]
pub struct Limits {
    imposed: Option<(Limit, Timestamp)>,
    /// The calls of each login. `None`: calls without a good token.
    windows: BTreeMap<Option<String>, Window>,
    bad_tokens: u32,
    locked_until: Option<Timestamp>,
}

struct Window {
    used: u32,
    reset_at: Timestamp,
}

/// The values of the headers about limits in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    limit: u32,
    used: u32,
    reset_at: Timestamp,
}

impl Limits {
    pub fn set(&mut self, limit: Limit, until: Timestamp) {
        self.imposed = Some((limit, until));
    }

    pub fn imposed(&self, now: Timestamp) -> Option<(Limit, Timestamp)> {
        self.imposed.filter(|(_, until)| now < *until)
    }

    pub fn is_locked(&self, now: Timestamp) -> bool {
        self.locked_until.is_some_and(|until| now < until)
    }

    pub fn bad_token(&mut self, rules: &LoginRules, now: Timestamp) {
        self.bad_tokens += 1;
        if rules.lock_after.is_some_and(|most| self.bad_tokens >= most) {
            self.bad_tokens = 0;
            self.locked_until = Some(now.plus(rules.lock_for));
        }
    }

    /// Counts a call. The second value says whether it was one too many.
    pub fn call(
        &mut self,
        rules: &LoginRules,
        login: Option<&str>,
        now: Timestamp,
    ) -> (Rate, bool) {
        let window = self.windows.entry(login.map(str::to_owned));
        let fresh = Window {
            used: 0,
            reset_at: now.plus(HOUR),
        };
        let window = window.or_insert(fresh);
        if now >= window.reset_at {
            window.used = 0;
            window.reset_at = now.plus(HOUR);
        }
        let limit = login.map_or(ANONYMOUS, |_| rules.calls_per_hour);
        let too_many = login.is_some() && window.used >= limit;
        window.used = (window.used + 1).min(limit);
        let rate = Rate {
            limit,
            used: window.used,
            reset_at: window.reset_at,
        };
        (rate, too_many)
    }

    /// Takes back the last call of a login.
    pub fn take_back(&mut self, login: &str) {
        if let Some(window) = self.windows.get_mut(&Some(login.to_owned())) {
            window.used = window.used.saturating_sub(1);
        }
    }
}

impl Rate {
    /// The headers of calls that are not counted.
    pub fn uncounted(limit: u32, reset_at: Timestamp) -> Self {
        Rate {
            limit,
            used: 0,
            reset_at,
        }
    }

    /// Makes all calls count as used up until the given time.
    pub fn used_up(self, reset_at: Timestamp) -> Self {
        Rate {
            used: self.limit,
            reset_at,
            ..self
        }
    }

    pub fn headers(self) -> HeaderMap {
        let numbers = [
            ("x-ratelimit-limit", i64::from(self.limit)),
            ("x-ratelimit-remaining", i64::from(self.limit - self.used)),
            ("x-ratelimit-used", i64::from(self.used)),
            ("x-ratelimit-reset", self.reset_at.unix_seconds()),
        ];
        let mut headers: HeaderMap = numbers
            .into_iter()
            .map(|(name, number)| (HeaderName::from_static(name), HeaderValue::from(number)))
            .collect();
        let resource = HeaderValue::from_static("core");
        headers.insert(HeaderName::from_static("x-ratelimit-resource"), resource);
        headers
    }
}
