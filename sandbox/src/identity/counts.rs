//! Counts of the requests and of the tokens that were given out, for tests and for people.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Identity, Poll, Route};
use crate::lock;

/// A token that was given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    pub token: String,
    pub login: String,
    pub scopes: Vec<String>,
    /// Whether the token is still good. `false`: it was revoked.
    pub live: bool,
}

impl Identity {
    /// How many requests came, whether or not they succeeded.
    pub fn requests(&self) -> BTreeMap<Route, u64> {
        let fault_injectors = self.fault_injectors.iter();
        fault_injectors
            .map(|(route, fault_injector)| (*route, fault_injector.requests()))
            .collect()
    }

    /// How many polls of a device code came so far; `None` if the code is not known.
    pub fn polls(&self, device_code: &str) -> Vec<Poll> {
        let books = lock(&self.books);
        let grant = books.grants.get(device_code);
        grant.map(|grant| grant.polls.clone()).unwrap_or_default()
    }

    /// The tokens in the order in which they were given out.
    pub fn tokens(&self) -> Vec<IssuedToken> {
        let books = lock(&self.books);
        let tokens = books.tokens.all().into_iter();
        let tokens = tokens.map(|(text, token)| IssuedToken {
            token: text.clone(),
            login: token.login.clone(),
            scopes: token.scopes.clone(),
            live: token.live,
        });
        tokens.collect()
    }

    pub(crate) fn view(&self) -> Value {
        let tokens = self.tokens().into_iter().map(|token| {
            json!({
                "token": token.token,
                "login": token.login,
                "scopes": token.scopes,
                "live": token.live,
            })
        });
        let tokens: Value = tokens.collect();
        let routes = self
            .fault_injectors
            .iter()
            .map(|(route, fault_injector)| (route, fault_injector.view()));
        let routes = json!(routes.collect::<BTreeMap<_, _>>());
        let books = lock(&self.books);
        let codes = books.grants.iter().map(|(device_code, grant)| {
            json!({
                "device_code": device_code,
                "user_code": grant.user_code,
                "state": grant.state.name(),
                "login": grant.state.login(),
                "scopes": grant.scopes,
                "expires_at": grant.expires_at,
                "interval": grant.interval.as_secs(),
                "polls": grant.polls,
            })
        });
        let codes: Value = codes.collect();
        let users = books.users.iter().map(|user| &user.login);
        let limit = books.limits.imposed(self.clock.now());
        json!({
            "routes": routes,
            "codes": codes,
            "tokens": tokens,
            "users": users.collect::<Vec<_>>(),
            "limited_until": limit.map(|(_, until)| until),
        })
    }
}
