//! What the identity provider goes by: the usual, and what can be set.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRules {
    /// How long a device code is good, in whole seconds.
    pub expires_in: Duration,
    /// Between two polls of one code, in whole seconds; zero: as fast as one likes.
    pub interval: Duration,
    /// Whether devices may log in at all.
    pub device_flow: bool,
    /// Polls after an approval that are still answered that there is no such code, as the real
    /// one does now and then (cli/cli#9302).
    pub unknown_after_approval: u32,
    /// What a user grants of the scopes that are asked for; None: all of them.
    pub granted: Option<Vec<String>>,
    /// Calls of one user to the API within an hour.
    pub calls_per_hour: u32,
    /// After so many bad tokens the API refuses every token; None: never.
    pub lock_after: Option<u32>,
    pub lock_for: Duration,
}

impl Default for LoginRules {
    fn default() -> Self {
        LoginRules {
            expires_in: Duration::from_mins(15),
            interval: Duration::from_secs(5),
            device_flow: true,
            unknown_after_approval: 0,
            granted: None,
            calls_per_hour: 5000,
            lock_after: None,
            lock_for: Duration::from_mins(5),
        }
    }
}

impl LoginRules {
    /// What a token may do, of what was asked for; nothing twice.
    pub(super) fn granted(&self, asked: &[String]) -> Vec<String> {
        let mut scopes: Vec<String> = Vec::new();
        for scope in asked {
            let granted = self.granted.as_ref();
            if granted.is_none_or(|granted| granted.contains(scope)) && !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }
}
