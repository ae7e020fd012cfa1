//! The stand-in for the identity provider, with GitHub's protocol: device codes and their tokens,
//! the page on which a person approves a code, and the API that says whose a token is.
//!
//! A device code yields one token, only once. All times come from the sandbox's clock, so a test
//! can move the clock to let codes expire and limits end.

mod api;
mod authorize;
mod caller;
mod codes;
mod counts;
mod encoding;
mod error;
mod grant;
mod limits;
mod objects;
mod page;
mod refusal;
mod rules;
mod tokens;
mod users;
mod web;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use platform::clock::Clock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use codes::token as made_up_token;
pub use counts::IssuedToken;
pub use error::error;
pub use grant::{CodeError, Poll};
pub use limits::Limit;
pub use rules::LoginRules;
pub use users::{Email, User, Visibility};

use crate::fault::{Answer, Fault};
use crate::fault_injector::{FaultInjector, Provider};
use crate::lock;
use grant::{Grant, State};
use limits::Limits;
use refusal::Refusal;
use tokens::Tokens;

/// The stand-in for the identity provider. All clones share their state.
#[derive(Clone)]
pub struct Identity {
    clock: Clock,
    url: Arc<str>,
    fault_injectors: Arc<BTreeMap<Route, FaultInjector>>,
    books: Arc<Mutex<Books>>,
}

/// The routes of the provider, except the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// `POST /login/device/code`
    DeviceCode,
    /// `POST /login/oauth/access_token`
    AccessToken,
    /// `GET /user`
    User,
    /// `GET /user/emails`
    Emails,
    /// `POST /applications/{client_id}/token`
    CheckToken,
    /// `DELETE /applications/{client_id}/token`
    RevokeToken,
    /// `GET /users/{login}`
    Named,
}

#[derive(Default)]
struct Books {
    rules: LoginRules,
    users: Vec<User>,
    /// The grants by their device codes.
    grants: BTreeMap<String, Grant>,
    /// The codes with which browsers went back.
    codes: BTreeMap<String, authorize::Code>,
    tokens: Tokens,
    limits: Limits,
    /// How many of the next polls count as too fast, whenever they come.
    slow_downs: u32,
}

/// The web side, and the API under `/api`.
pub fn routes(identity: Identity) -> Router {
    web::routes(identity.clone()).nest("/api", api::routes(identity))
}

impl Route {
    pub const ALL: [Route; 7] = [
        Route::DeviceCode,
        Route::AccessToken,
        Route::User,
        Route::Emails,
        Route::CheckToken,
        Route::RevokeToken,
        Route::Named,
    ];
}

impl Identity {
    /// `url` is the address of its web side.
    pub(crate) fn new(url: &str, clock: Clock) -> Self {
        let fault_injectors =
            Route::ALL.map(|route| (route, FaultInjector::new(Provider::Identity)));
        let books = Books {
            users: users::built_in(),
            ..Books::default()
        };
        Identity {
            clock,
            url: url.into(),
            fault_injectors: Arc::new(fault_injectors.into()),
            books: Arc::new(Mutex::new(books)),
        }
    }

    /// The fault injector of a route, which counts its requests and plays faults.
    pub fn fault_injector(&self, route: Route) -> &FaultInjector {
        &self.fault_injectors[&route]
    }

    /// Plays this fault to every request of every route, until the faults are cleared.
    pub fn fail(&self, fault: Fault) {
        self.fault_injectors
            .values()
            .for_each(|fault_injector| fault_injector.fail(fault));
    }

    /// Gives exactly this answer to the next requests of a route.
    pub fn answer_next(&self, route: Route, times: u32, answer: Answer) {
        self.fault_injector(route).answer_next(times, answer);
    }

    /// Clears the faults of every route.
    pub fn clear_faults(&self) {
        self.fault_injectors
            .values()
            .for_each(FaultInjector::clear_faults);
    }

    /// Sets the rules from now on. Codes that were given out before keep their interval and their
    /// end.
    pub fn set_rules(&self, rules: LoginRules) {
        lock(&self.books).rules = rules;
    }

    /// Adds a user, in place of one with the same login.
    pub fn add_user(&self, user: User) {
        let users = &mut lock(&self.books).users;
        users.retain(|known| known.login != user.login);
        users.push(user);
    }

    /// Approves a login, as the button on the page does.
    pub fn approve(&self, user_code: &str, login: &str) -> Result<(), CodeError> {
        let mut books = lock(&self.books);
        let unknown_for = books.rules.unknown_after_approval;
        let login = books
            .user(login)
            .ok_or(CodeError::UnknownUser)?
            .login
            .clone();
        let grant = books.grant_of(user_code).ok_or(CodeError::Unknown)?;
        grant.is_open(self.clock.now())?;
        grant.state = State::Approved { login, unknown_for };
        Ok(())
    }

    /// Denies a login, as the other button does.
    pub fn deny(&self, user_code: &str) -> Result<(), CodeError> {
        let mut books = lock(&self.books);
        let grant = books.grant_of(user_code).ok_or(CodeError::Unknown)?;
        grant.is_open(self.clock.now())?;
        grant.state = State::Denied;
        Ok(())
    }

    /// Lets a code expire at once.
    pub fn expire(&self, user_code: &str) -> Result<(), CodeError> {
        let mut books = lock(&self.books);
        let grant = books.grant_of(user_code).ok_or(CodeError::Unknown)?;
        grant.expires_at = grant.expires_at.min(self.clock.now());
        Ok(())
    }

    /// Lets the next polls of any waiting code count as too fast, whenever they come.
    pub fn slow_down(&self, polls: u32) {
        lock(&self.books).slow_downs = polls;
    }

    /// Limits the API: it answers every call with this limit for this long.
    pub fn limit(&self, limit: Limit, lasting: Duration) {
        let until = self.clock.now().plus(lasting);
        lock(&self.books).limits.set(limit, until);
    }

    /// Ends a limit at once, and forgets the calls and the bad credentials so far.
    pub fn lift_limits(&self) {
        lock(&self.books).limits = Limits::default();
    }

    /// Makes a token without a device code. `None`: there is no such user.
    pub fn issue(&self, login: &str, scopes: &[&str]) -> Option<String> {
        let books = &mut *lock(&self.books);
        let login = books.user(login)?.login.clone();
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let life = books.rules.token_life;
        Some(books.tokens.issue(&self.clock, life, login, scopes))
    }

    /// Revokes a token. Returns `false` if it was not good before.
    pub fn revoke(&self, token: &str) -> bool {
        lock(&self.books).tokens.revoke(token)
    }

    fn api_url(&self) -> String {
        format!("{}/api", self.url)
    }

    /// Gives out a device code.
    fn open(&self, scope: &str) -> Result<Value, Refusal> {
        let books = &mut *lock(&self.books);
        let rules = &books.rules;
        if !rules.device_flow {
            return Err(Refusal::DeviceFlowDisabled);
        }
        let (device_code, user_code) = self.new_codes(books);
        let asked = scope.split([' ', ',']).filter(|scope| !scope.is_empty());
        let grant = Grant {
            user_code,
            scopes: asked.map(str::to_owned).collect(),
            expires_at: self.clock.now().plus(rules.expires_in),
            interval: rules.interval,
            state: State::Pending,
            polls: Vec::new(),
        };
        let answer = json!({
            "device_code": device_code,
            "user_code": grant.user_code,
            "verification_uri": format!("{}/login/device", self.url),
            "expires_in": rules.expires_in.as_secs(),
            "interval": rules.interval.as_secs(),
        });
        books.grants.insert(device_code, grant);
        Ok(answer)
    }

    /// Makes a user code that no other grant has.
    fn new_codes(&self, books: &Books) -> (String, String) {
        loop {
            let noise = self.clock.id().to_string();
            let user_code = codes::user_code(&noise);
            let mut known = books.grants.values();
            if known.all(|grant| grant.user_code != user_code) {
                return (codes::device_code(&noise), user_code);
            }
        }
    }

    /// Gives out the token of a device code that was approved.
    fn poll(&self, device_code: &str) -> Result<Value, Refusal> {
        let books = &mut *lock(&self.books);
        let grant = books.grants.get_mut(device_code);
        let grant = grant.ok_or(Refusal::IncorrectDeviceCode)?;
        let slow = books.slow_downs > 0;
        books.slow_downs = books.slow_downs.saturating_sub(1);
        let login = grant.poll(self.clock.now(), slow)?;
        let scopes = books.rules.granted(&grant.scopes);
        let scope = scopes.join(",");
        let life = books.rules.token_life;
        let token = books.tokens.issue(&self.clock, life, login, scopes);
        let mut answer = json!({"access_token": token, "token_type": "bearer", "scope": scope});
        if let Some(life) = life {
            answer["expires_in"] = life.as_secs().into();
            answer["refresh_token"] = format!("ghr_{}", codes::device_code(&token)).into();
            answer["refresh_token_expires_in"] = 15_897_600.into();
        }
        Ok(answer)
    }
}

impl Books {
    fn user(&self, login: &str) -> Option<&User> {
        self.users
            .iter()
            .find(|user| user.login.eq_ignore_ascii_case(login))
    }

    /// Finds the grant with this user code, in whatever form the person typed it.
    fn grant_of(&mut self, user_code: &str) -> Option<&mut Grant> {
        let user_code = codes::read_user_code(user_code);
        let mut grants = self.grants.values_mut();
        grants.find(|grant| grant.user_code == user_code)
    }
}
