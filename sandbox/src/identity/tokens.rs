//! The tokens that were given out. They expire only where the rules say so; they can be revoked.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::time::Timestamp;
use platform::clock::Clock;

use super::codes;

/// How many good tokens one user may have with the same scopes. One more revokes the oldest.
const MOST: usize = 10;

#[derive(Default)]
pub struct Tokens {
    issued: BTreeMap<String, Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Counts from 1.
    pub nth: u64,
    pub login: String,
    pub scopes: Vec<String>,
    pub issued_at: Timestamp,
    /// `None`: it does not expire.
    pub expires_at: Option<Timestamp>,
    pub live: bool,
}

impl Tokens {
    pub fn issue(
        &mut self,
        clock: &Clock,
        life: Option<Duration>,
        login: String,
        scopes: Vec<String>,
    ) -> String {
        let text = codes::token(&clock.id().to_string());
        let mut same: Vec<_> = self
            .issued
            .values_mut()
            .filter(|token| token.live && token.login == login && token.scopes == scopes)
            .collect();
        same.sort_by_key(|token| token.nth);
        let too_many = (same.len() + 1).saturating_sub(MOST);
        for token in same.into_iter().take(too_many) {
            token.live = false;
        }
        let token = Token {
            nth: u64::try_from(self.issued.len()).unwrap_or(u64::MAX) + 1,
            login,
            scopes,
            issued_at: clock.now(),
            expires_at: life.map(|life| clock.now().plus(life)),
            live: true,
        };
        self.issued.insert(text.clone(), token);
        text
    }

    /// The token with this text, if it is good.
    pub fn get(&self, text: &str, now: Timestamp) -> Option<&Token> {
        let is_good = |it: &&Token| it.live && it.expires_at.is_none_or(|at| now < at);
        self.issued.get(text).filter(is_good)
    }

    pub fn revoke(&mut self, text: &str) -> bool {
        let token = self.issued.get_mut(text).filter(|token| token.live);
        token.map(|token| token.live = false).is_some()
    }

    /// All tokens, revoked ones included, in the order in which they were given out.
    pub fn all(&self) -> Vec<(&String, &Token)> {
        let mut all: Vec<_> = self.issued.iter().collect();
        all.sort_by_key(|(_, token)| token.nth);
        all
    }
}

impl Token {
    /// Whether the token has one of these scopes.
    pub fn may(&self, scopes: &[&str]) -> bool {
        self.scopes
            .iter()
            .any(|scope| scopes.contains(&scope.as_str()))
    }
}
