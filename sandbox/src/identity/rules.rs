//! The rules of the identity provider, which a test can change, and their usual values.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRules {
    /// How long a device code is valid, in whole seconds.
    pub expires_in: Duration,
    /// The shortest time between two polls of one code, in whole seconds. Zero: polls may come at
    /// any time.
    pub interval: Duration,
    /// Whether devices may log in at all.
    pub device_flow: bool,
    /// How many polls after an approval are still answered that the code does not exist. The real
    /// provider does this now and then (cli/cli#9302).
    pub unknown_after_approval: u32,
    /// The scopes that a user grants of those that the app asks for. `None`: all of them.
    pub granted: Option<Vec<String>>,
    /// How long a token is good, as that of a GitHub App is. `None`: until it is revoked.
    pub token_life: Option<Duration>,
    /// How many calls one user may make to the API within an hour.
    pub calls_per_hour: u32,
    /// After this many bad tokens the API refuses every token. `None`: it never does.
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
            token_life: None,
            calls_per_hour: 5000,
            lock_after: None,
            lock_for: Duration::from_mins(5),
        }
    }
}

impl LoginRules {
    /// The scopes that a token gets of those that were asked for, without repetitions.
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
