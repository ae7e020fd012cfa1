//! Asking a provider whether it is there and takes our credential, once, and what its clock
//! says. Nothing is changed by it: what is asked for does not exist.

use reqwest::{RequestBuilder, StatusCode, header};

use domain::time::Timestamp;

/// An answer to a question of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    pub status: u16,
    /// What the provider's clock says, in whole seconds.
    pub date: Option<Timestamp>,
}

impl Probed {
    /// The credential is not taken.
    pub fn is_refused(self) -> bool {
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN]
            .iter()
            .any(|status| status.as_u16() == self.status)
    }

    /// An answer as it is to be, to a question about what does not exist.
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

/// Why there was none.
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
