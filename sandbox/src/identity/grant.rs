//! The states of a device code, from its start to the one token that it yields. These are pure
//! functions.
//!
//! ```text
//! Pending -> Approved -> Spent      a poll after the approval gets the token, once
//!    |          |
//!    +----------+-> Denied          and any of them expires
//! ```

use std::time::Duration;

use domain::time::Timestamp;
use serde::Serialize;
use thiserror::Error;

use super::refusal::Refusal;

/// What `slow_down` adds to a code's interval (RFC 8628, section 3.5).
const SLOWER_BY: Duration = Duration::from_secs(5);

pub struct Grant {
    pub user_code: String,
    pub scopes: Vec<String>,
    pub expires_at: Timestamp,
    /// The shortest time between two polls.
    pub interval: Duration,
    pub state: State,
    pub polls: Vec<Poll>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Approved {
        login: String,
        /// How many polls are still answered that the code does not exist.
        unknown_for: u32,
    },
    Denied,
    /// The token was given out, so the code is used up.
    Spent {
        login: String,
    },
}

/// A poll on a known device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Poll {
    pub at: Timestamp,
    /// `access_token`, or the error.
    pub answer: &'static str,
}

/// Why a person cannot approve or deny a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodeError {
    #[error("there is no such code")]
    Unknown,
    #[error("this code has expired")]
    Expired,
    #[error("this code was used already")]
    Used,
    #[error("there is no such user")]
    UnknownUser,
}

impl Grant {
    /// Answers a poll, with the user who signed in if one did. `slow`: this poll counts as too
    /// fast, whenever it came.
    pub fn poll(&mut self, now: Timestamp, slow: bool) -> Result<String, Refusal> {
        let answer = self.answer(now, slow);
        self.polls.push(Poll {
            at: now,
            answer: answer
                .as_ref()
                .map_or_else(|error| error.code(), |_| "access_token"),
        });
        answer
    }

    fn answer(&mut self, now: Timestamp, slow: bool) -> Result<String, Refusal> {
        let last = self.polls.last();
        let too_fast = slow || last.is_some_and(|last| now.since(last.at) < self.interval);
        match &mut self.state {
            State::Spent { .. } => Err(Refusal::IncorrectDeviceCode),
            _ if now >= self.expires_at => Err(Refusal::ExpiredToken),
            _ if too_fast => {
                self.interval += SLOWER_BY;
                Err(Refusal::SlowDown(self.interval.as_secs()))
            }
            State::Pending => Err(Refusal::AuthorizationPending),
            State::Denied => Err(Refusal::AccessDenied),
            State::Approved { unknown_for, .. } if *unknown_for > 0 => {
                *unknown_for -= 1;
                Err(Refusal::IncorrectDeviceCode)
            }
            State::Approved { login, .. } => {
                let login = std::mem::take(login);
                self.state = State::Spent {
                    login: login.clone(),
                };
                Ok(login)
            }
        }
    }

    /// Checks that a person can still approve or deny the code.
    pub fn is_open(&self, now: Timestamp) -> Result<(), CodeError> {
        match self.state {
            State::Pending if now < self.expires_at => Ok(()),
            State::Pending => Err(CodeError::Expired),
            _ => Err(CodeError::Used),
        }
    }
}

impl State {
    pub fn name(&self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved { .. } => "approved",
            State::Denied => "denied",
            State::Spent { .. } => "spent",
        }
    }

    pub fn login(&self) -> Option<&str> {
        match self {
            State::Approved { login, .. } | State::Spent { login } => Some(login),
            State::Pending | State::Denied => None,
        }
    }
}
