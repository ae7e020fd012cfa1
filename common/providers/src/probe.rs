//! Asks a provider once whether it can be reached and accepts our credential, and what its clock
//! says. The question is about something that does not exist, so it changes nothing.

use reqwest::{RequestBuilder, StatusCode, header};

use domain::time::Timestamp;

/// An answer to such a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    pub status: u16,
    /// The time of the provider's clock, in whole seconds.
    pub date: Option<Timestamp>,
}

impl Probed {
    /// True when the provider does not accept the credential.
    pub fn is_refused(self) -> bool {
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN]
            .iter()
            .any(|status| status.as_u16() == self.status)
    }

    /// True for an answer that is expected to a question about something that does not exist.
    pub fn is_good(self) -> bool {
        [
            StatusCode::OK,
            StatusCode::NOT_FOUND,
            StatusCode::UNPROCESSABLE_ENTITY,
        ]
        .iter()
        .any(|status| status.as_u16() == self.status)
    }
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot be reached")]
    Unreachable,
    #[error("did not answer in time")]
    Late,
    #[error("broke off its answer")]
    BrokenOff,
}

/// Sends the question.
pub(super) async fn ask(request: RequestBuilder) -> Result<Probed, ProbeError> {
    let response = request.send().await.map_err(|error| {
        if error.is_connect() {
            ProbeError::Unreachable
        } else if error.is_timeout() {
            ProbeError::Late
        } else {
            ProbeError::BrokenOff
        }
    })?;
    let date = response.headers().get(header::DATE);
    Ok(Probed {
        status: response.status().as_u16(),
        date: date
            .and_then(|date| date.to_str().ok())
            .and_then(Timestamp::from_http_date),
    })
}
