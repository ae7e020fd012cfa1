//! The faults that a stand-in plays on request: for its next requests, or until the faults are
//! cleared.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::{self, StatusCode};
use axum::response::{IntoResponse, Response};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request has no effect, and is answered with this status and the provider's error body.
    Status(u16),
    /// The request has its effect at once, and the answer comes this much later.
    Slow(Duration),
    /// The request is read, but has no effect and is never answered.
    Timeout,
    /// The request has its effect, and then the connection is closed without an answer.
    Lose,
    /// The request has no effect, and is answered 429 with `Retry-After: 1`.
    RateLimit,
    /// The request has no effect, and is answered 502 with a page of HTML, as a proxy does.
    Html,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Status(status) => write!(f, "status {status}"),
            Fault::Slow(by) => write!(f, "slow by {} s", by.as_secs_f64()),
            Fault::Timeout => f.write_str("timeout"),
            Fault::Lose => f.write_str("lose"),
            Fault::RateLimit => f.write_str("rate_limit"),
            Fault::Html => f.write_str("html"),
        }
    }
}

/// An answer that is given exactly as it is, with only these headers and those of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl IntoResponse for Answer {
    /// Makes the HTTP answer. If HTTP cannot express it, it is a 500 that says so.
    fn into_response(self) -> Response {
        let answer = http::Response::builder().status(self.status);
        let headers = self.headers.into_iter();
        let answer = headers.fold(answer, |answer, (name, value)| answer.header(name, value));
        match answer.body(Body::from(self.body)) {
            Ok(answer) => answer,
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// What happens to a request in place of the provider's normal processing.
#[derive(Clone)]
pub enum Play {
    Fault(Fault),
    /// The request has no effect and gets this answer.
    Answer(Answer),
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Play::Fault(fault) => fault.fmt(f),
            Play::Answer(answer) => write!(f, "answer {}", answer.status),
        }
    }
}

/// The faults to come. Those for a number of requests are used up in the order in which they were
/// set. When none of these is left, the standing fault applies.
#[derive(Default)]
pub struct Faults {
    counted: VecDeque<(Play, u32)>,
    standing: Option<Fault>,
}

impl Faults {
    pub fn stand(&mut self, fault: Fault) {
        self.standing = Some(fault);
    }

    pub fn count(&mut self, times: u32, play: Play) {
        if times > 0 {
            self.counted.push_back((play, times));
        }
    }

    pub fn clear(&mut self) {
        *self = Faults::default();
    }

    /// Takes the fault for the next request.
    pub fn take(&mut self) -> Option<Play> {
        let Some((play, left)) = self.counted.front_mut() else {
            return self.standing.map(Play::Fault);
        };
        let play = play.clone();
        *left -= 1;
        if *left == 0 {
            self.counted.pop_front();
        }
        Some(play)
    }

    /// The faults as text for people, the next one first.
    pub fn describe(&self) -> Vec<String> {
        let counted = self.counted.iter();
        let counted = counted.map(|(play, left)| format!("{play}, for {left} more"));
        let standing = self.standing.iter();
        counted
            .chain(standing.map(|fault| format!("{fault}, until cleared")))
            .collect()
    }
}
